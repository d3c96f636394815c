"""A stand-in for the package cuda-bindings: put this package's folder in front on the path, and there is a GPU."""
