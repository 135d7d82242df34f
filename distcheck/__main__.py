"""``python -m distcheck``: the same as the command ``distcheck``."""

from __future__ import annotations

from .cli.fast_path import main

if __name__ == "__main__":
    main()
