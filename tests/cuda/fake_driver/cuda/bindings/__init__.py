"""A stand-in for cuda.bindings."""
