"""ptxgraft: take a PTX kernel apart at its tensor-core regions, graft other code in their place, and prove the result byte for byte."""

__version__ = "0.1.0"
