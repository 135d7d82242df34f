"""Files that come with the package, read through its loader: they stand in a folder, or in ``distcheck.pyz``."""

from __future__ import annotations

import errno
import os

#: The folder of the package, also where that is within an archive.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_shipped(package: str, name: str) -> bytes:
    """The bytes of a file below a package of ours; raises FileNotFoundError where it is not there, OSError else."""
    # importlib.resources costs as much as all else that a short command imports
    import pkgutil

    try:
        data = pkgutil.get_data(package, name)
    except OSError as error:
        # a zip has no number for a file that is not in it
        if error.errno not in (0, errno.ENOENT):
            raise
        data = None
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{package}: {name}")
    return data
