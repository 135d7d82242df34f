"""Bytes that are read window by window: of a file, a part of a file, or in memory. Nothing is mapped or read whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Protocol
else:  # it costs too much where start-up counts
    Protocol = object


class ByteSource(Protocol):
    """Bytes that can be read anywhere. Offsets count from the start of this source."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``; fewer where the source ends. Raises OSError where reading fails."""


class BytesSource:
    """Bytes at hand."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size = len(content)

    def read(self, offset: int, size: int) -> bytes:
        """See :class:`ByteSource`."""
        return self._content[offset : offset + size]


#: Bytes up to which a file is read in one piece.
_SMALL = 64 << 10


class FileSource:
    """A file that is open for reading, by its descriptor; the caller closes it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        #: all of a small file, once something was read of it: a reader of archives reads some thirty pieces
        self._whole: bytes | None = None

    def read(self, offset: int, size: int) -> bytes:
        """See :class:`ByteSource`. It leaves the position of the descriptor alone."""
        if self.size > _SMALL:
            return self._read(offset, size)
        if self._whole is None:
            self._whole = self._read(0, self.size)
        return self._whole[offset : offset + max(0, size)]

    def _read(self, offset: int, size: int) -> bytes:
        wanted = max(0, min(size, self.size - offset))
        parts = []
        while wanted > 0:
            part = os.pread(self._descriptor, wanted, offset)
            if not part:  # the file was cut while we read
                break
            parts.append(part)
            offset += len(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class PartSource:
    """A stretch of another source: a member that is stored as it is."""

    def __init__(self, whole: ByteSource, start: int, size: int) -> None:
        self._whole = whole
        self._start = start
        self.size = max(0, min(size, whole.size - start))

    def read(self, offset: int, size: int) -> bytes:
        """See :class:`ByteSource`."""
        return self._whole.read(self._start + offset, max(0, min(size, self.size - offset)))


class ScanLimits(NamedTuple):
    """What one file may cost. Where a limit is reached, the answer is *incomplete*, never *fine*."""

    #: opcodes of all streams of a file, about; a checkpoint of 100,000 tensors has about 5 million
    opcodes: int = 200_000_000
    #: entries of the memo and of the stack
    entries: int = 3_000_000
    #: bytes that compressed members may grow to, in all
    unpacked_bytes: int = 4 << 30
    #: members of archives, nested ones included
    members: int = 100_000
    #: archives in archives
    depth: int = 4
    #: seconds for all of one file
    seconds: float = 300.0
