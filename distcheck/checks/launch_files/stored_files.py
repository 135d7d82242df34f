"""A launch file as it was read, as bytes for the cache, with the digests of the other files that were read for it.

The bytes are a pickle. The cache returns only bytes that this user wrote, and the loader accepts only the values of
launch files: named tuples without code of their own.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any, NamedTuple

from distcheck.core.spans import Span
from distcheck.launch.model import LaunchCommand, LaunchProblem

from . import model
from .model import LaunchFile, LookUp

_CLASSES = {
    (one.__module__, one.__name__): one
    for one in (
        *(model.Scalar, model.Word, model.FileSetting, model.Allocation, model.Pods, model.Repeat, model.LaunchSite),
        *(model.Configured, model.HostSlots, LaunchFile, LaunchCommand, LaunchProblem, Span),
    )
}


class StoredFile(NamedTuple):
    """What was made of a file: None if it is no launch file."""

    file: LaunchFile | None


class RecordedLookUps:
    """The same function, and the digests of what it has returned."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self.digests: dict[str, bytes | None] = {}

    def __call__(self, path: str) -> bytes | None:
        data = self._look_up(path)
        self.digests[path] = _digest(data)
        return data


def to_bytes(file: LaunchFile | None, look_ups: RecordedLookUps) -> bytes:
    """Return a file as bytes, with the digests of the files that were read for it."""
    return pickle.dumps((look_ups.digests, file), 5)


def from_bytes(data: bytes, look_up: LookUp) -> StoredFile | None:
    """Return the file that was stored, or None if a file that was read for it has changed, or the bytes are damaged."""
    try:
        digests, file = _Loader(io.BytesIO(data)).load()
        if (file is None or isinstance(file, LaunchFile)) and all(
            _digest(look_up(path)) == digest for path, digest in digests.items()
        ):
            return StoredFile(file)
    except (pickle.UnpicklingError, EOFError, AttributeError, ValueError, TypeError, IndexError, KeyError):
        pass  # it is read again
    return None


class _Loader(pickle.Unpickler):
    """Loads plain values and the named tuples of launch files, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        found = _CLASSES.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is no value of a launch file")
        return found


def _digest(data: bytes | None) -> bytes | None:
    return None if data is None else hashlib.blake2b(data, digest_size=20).digest()
