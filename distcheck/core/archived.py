"""Import the compiled libraries that ``distcheck.pyz`` holds (``tools/build_pyz.py --compiled``).

Python imports no compiled module from an archive. Here, each is copied into a file in memory that has no name, and
loaded from there. So no folder must be writable, and nothing is left behind. It needs Linux, with /proc.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

from .resources import PACKAGE

#: The archive; the folder of the package where there is none.
_ARCHIVE = os.path.dirname(PACKAGE)
#: Its folder with the compiled libraries, which come after those that are installed.
_FOLDER = os.path.join(_ARCHIVE, "compiled")


def in_archive() -> bool:
    """Return whether distcheck runs from an archive."""
    return os.path.isfile(_ARCHIVE)


def add_compiled() -> None:
    """Let Python find the compiled libraries of the archive, after all others; without an archive, do nothing."""
    if in_archive() and _FOLDER not in sys.path:
        sys.path.append(_FOLDER)
        sys.meta_path.append(_Finder())


class _Finder:
    """Finds the compiled modules of packages in the archive."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        loader = sys.modules["distcheck"].__loader__
        for folder in path or ():
            if not folder.startswith(_FOLDER):
                continue
            for suffix in EXTENSION_SUFFIXES:
                try:
                    data = loader.get_data(os.path.join(folder, name.rpartition(".")[2] + suffix))  # type: ignore[union-attr]
                except OSError:
                    continue
                file = _in_memory(data)
                return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))
        return None


def _in_memory(data: bytes) -> str:
    """Return the path of a file in memory, which stays open: the system's loader knows a library by its path.

    :raises ImportError: this system has no such files
    """
    if not hasattr(os, "memfd_create") or not os.path.isdir("/proc/self/fd"):
        raise ImportError("a compiled library is loaded from the archive on Linux only, with /proc")
    file = os.memfd_create("distcheck")
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    return f"/proc/self/fd/{file}"
