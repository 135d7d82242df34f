"""The version of distcheck."""

__version__ = "0.1.0"
