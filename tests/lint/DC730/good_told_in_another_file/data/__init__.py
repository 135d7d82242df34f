from .build import build_loader

__all__ = ["build_loader"]
