"""Read files of the package through its loader, from a folder or from ``distcheck.pyz``."""

from __future__ import annotations

import errno
import os

#: The folder of the package, also inside of an archive.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_shipped(package: str, name: str) -> bytes:
    """Return the bytes of a file below one of our packages; raises FileNotFoundError or another OSError."""
    # importlib.resources takes as long to import as everything else of a short command
    import pkgutil

    try:
        data = pkgutil.get_data(package, name)
    except OSError as error:
        # the loader of zip files sets no errno for an absent file
        if error.errno not in (0, errno.ENOENT):
            raise
        data = None
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{package}: {name}")
    return data
