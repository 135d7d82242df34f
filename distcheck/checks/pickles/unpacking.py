"""Compressed bytes as a source: unpacked in windows, never to a file, with a limit on all that is unpacked.

An earlier stretch is unpacked again on request. Deflate resumes from snapshots.
"""

from __future__ import annotations

from typing import Any

from .source_bytes import ByteSource
from .stream_collector import Collector

#: Bytes read and unpacked in one go.
WINDOW = 1 << 18
#: What is unpacked altogether is kept if it is no longer than this.
KEPT = 8 << 20
#: Bytes before the position that are kept of longer ones, so that small steps back cost nothing.
BEHIND = 1 << 20
#: Bytes that lzma may take for its dictionary: ``xz -9`` wants 65 MiB, a hostile header 4 GiB.
DICTIONARY = 48 << 20
#: Snapshots of a decoder (32 KiB of history each) that are kept.
SNAPSHOTS = 64


class BrokenError(Exception):
    """Bytes that can't be unpacked; the text gives the reason."""


class TooLargeError(BrokenError):
    """Bytes that are sound, as far as is known, and would take more memory than one file may."""


class _Zlib:
    """:mod:`zlib` with the interface of the decoders of :mod:`bz2` and :mod:`lzma`."""

    def __init__(self, bits: int) -> None:
        import zlib

        self._error: type[Exception] = zlib.error
        self._decoder = zlib.decompressobj(bits)

    def unpack(self, packed: bytes, limit: int) -> bytes:
        try:
            return self._decoder.decompress(packed, limit)
        except self._error as error:
            raise BrokenError(str(error)) from None

    @property
    def hungry(self) -> bool:
        """Whether it is to be given packed bytes before it can give more."""
        return True

    @property
    def left_over(self) -> int:
        """Of the packed bytes that it was given last, how many it wants to be given again."""
        return len(self._decoder.unconsumed_tail)

    @property
    def ended(self) -> bool:
        return self._decoder.eof

    @property
    def rest(self) -> bytes:
        return self._decoder.unused_data

    def copy(self) -> _Zlib | None:
        twin = object.__new__(_Zlib)
        twin._error = self._error
        twin._decoder = self._decoder.copy()
        return twin


class _Other:
    """A decoder of :mod:`bz2`, :mod:`lzma` or ``compression.zstd``."""

    def __init__(self, decoder: Any, errors: tuple[type[Exception], ...]) -> None:
        self._decoder = decoder
        self._errors: tuple[type[Exception], ...] = (*errors, OSError, EOFError, ValueError)

    def unpack(self, packed: bytes, limit: int) -> bytes:
        try:
            return bytes(self._decoder.decompress(packed, limit))
        except self._errors as error:
            if "memory" in str(error).lower():  # lzma has no type of its own for it
                raise TooLargeError(str(error)) from None
            raise BrokenError(str(error)) from None

    @property
    def hungry(self) -> bool:
        return bool(self._decoder.needs_input)

    @property
    def left_over(self) -> int:
        return 0

    @property
    def ended(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def rest(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def copy(self) -> None:
        return None


#: What can be unpacked here, and in how many pieces one file may come (gzip, bz2, xz and zstd files can be joined).
KINDS = ("deflate", "zlib", "gzip", "bz2", "xz", "lzma", "zstd")
JOINED = frozenset({"gzip", "bz2", "xz", "zstd"})


def decoder(kind: str) -> _Zlib | _Other:
    """A decoder of one of ``KINDS``. Raises :class:`BrokenError` where this Python has none."""
    if kind in ("deflate", "zlib", "gzip"):
        return _Zlib({"deflate": -15, "zlib": 15, "gzip": 31}[kind])
    try:
        if kind == "bz2":
            import bz2

            return _Other(bz2.BZ2Decompressor(), ())
        if kind in ("xz", "lzma"):
            import lzma

            form = lzma.FORMAT_XZ if kind == "xz" else lzma.FORMAT_ALONE
            return _Other(lzma.LZMADecompressor(form, memlimit=DICTIONARY), (lzma.LZMAError,))
        import importlib

        zstd = importlib.import_module("compression.zstd")  # Python 3.14
        return _Other(zstd.ZstdDecompressor(), (zstd.ZstdError,))
    except ImportError:
        raise BrokenError(f"this Python has no module for {kind}") from None


class _DecoderState:
    """A decoder in the middle of its work."""

    def __init__(self, machine: _Zlib | _Other, position: int, produced: int) -> None:
        self.machine = machine
        #: of the next packed byte to feed
        self.position = position
        #: bytes unpacked so far
        self.produced = produced


class UnpackedSource:
    """What packed bytes unpack to, as a :class:`.ByteSource`.

    :param kind: one of ``KINDS``
    :param size: of the unpacked bytes where a container states it; None: they are unpacked once to see
    """

    def __init__(self, packed: ByteSource, kind: str, notes: Collector, *, size: int | None = None) -> None:
        self._packed = packed
        self._kind = kind
        self._notes = notes
        self._state = _DecoderState(decoder(kind), 0, 0)
        self._snapshots: list[_DecoderState] = []
        self._step = KEPT
        self._window = bytearray()
        self._window_at = 0
        #: why unpacking ended before its time; None where it did not
        self.problem: str | None = None
        #: whether a limit ended it
        self.exhausted = False
        #: bytes after the last packed one, known once all is unpacked
        self.rest = 0
        self._ended = False
        #: bytes to read and to unpack in one go
        self._most = WINDOW
        #: whether all of a short one stays in the window: its readers jump about
        self._keep_all = size is None or size <= KEPT
        if size is None:
            while self._advance():
                pass
            size = self._state.produced
        self.size = size

    def read(self, offset: int, size: int) -> bytes:
        """See :class:`.ByteSource`. Fewer bytes than promised where unpacking ends before its time."""
        parts = []
        wanted = max(0, min(size, self.size - offset))
        while wanted > 0:
            if offset < self._window_at:
                self._go_back(offset)
            inside = offset - self._window_at
            if inside < len(self._window):
                part = bytes(self._window[inside : inside + wanted])
                parts.append(part)
                offset += len(part)
                wanted -= len(part)
            elif not self._advance():
                break
        return b"".join(parts)

    def check(self) -> tuple[int, int]:
        """Unpack to the end, once: CRC-32 and number of the bytes that the decoder gives, beyond ``size`` too."""
        import zlib

        crc = offset = 0
        while True:
            while offset >= self._window_at + len(self._window):
                if not self._advance():
                    return crc, offset
            if offset < self._window_at:
                self._go_back(offset)
                continue
            part = bytes(self._window[offset - self._window_at :])
            crc = zlib.crc32(part, crc)
            offset += len(part)

    def _go_back(self, offset: int) -> None:
        """Resume before ``offset``: from the nearest snapshot, else from the first byte."""
        self._state = self._resumed(offset)
        self._ended = False
        self._most = WINDOW
        self._window = bytearray()
        self._window_at = self._state.produced

    def _resumed(self, offset: int) -> _DecoderState:
        usable = [one for one in self._snapshots if one.produced <= offset]
        best = usable[-1] if usable else None
        twin = best.machine.copy() if best is not None else None
        if best is not None and twin is not None:
            return _DecoderState(twin, best.position, best.produced)
        return _DecoderState(decoder(self._kind), 0, 0)

    def _feed(self, limit: int) -> bytes | None:
        """At most ``limit`` bytes more, perhaps none yet; None where the packed bytes end too early.

        Raises BrokenError where they are damaged; what was unpacked before the damage in the same step is lost.
        """
        state = self._state
        packed = b""
        if state.machine.hungry:
            packed = self._packed.read(state.position, self._most)
            state.position += len(packed)
        given = state.machine.unpack(packed, limit)
        state.position -= state.machine.left_over
        state.produced += len(given)
        self._notes.unpacked_left -= len(given)
        if not given and not packed and not state.machine.ended:
            return None
        return given

    def _spent(self) -> bool:
        """Whether a limit is reached; it is noted."""
        notes = self._notes
        if notes.unpacked_left > 0 and notes.seconds_left() > 0:
            return False
        self.exhausted = self._ended = True
        what = (
            f"more than {notes.limits.unpacked_bytes:,} unpacked bytes"
            if notes.unpacked_left <= 0
            else f"the {notes.limits.seconds:g} s for one file are spent"
        )
        notes.not_opened(f"compressed data was not unpacked to its end: {what}")
        return True

    def _advance(self) -> bool:
        """Unpack one window more; False at the end, after an error, or where a limit is reached."""
        if self._ended:
            return False
        given: bytes | None = b""
        while not given:
            if self._state.machine.ended:
                if not self._next_piece():
                    self._ended = True
                    return False
                continue
            if self._spent():
                return False
            try:
                given = self._feed(self._most)
            except TooLargeError:
                self.exhausted = self._ended = True
                self._notes.not_opened(
                    f"{self._kind} data was not unpacked: its dictionary takes more than {DICTIONARY >> 20} MiB"
                )
                return False
            except BrokenError as error:
                if self._most > 1 and self._again():
                    continue
                self._end(f"its {self._kind} data is broken after {self._state.produced:,} unpacked bytes ({error})")
                return False
            if given is None:
                self._end(
                    f"it ends after {self._state.produced:,} unpacked bytes, in the middle of its {self._kind} data"
                )
                return False
        self._window += given
        if len(self._window) > (KEPT if self._keep_all else 4 * BEHIND):
            gone = len(self._window) - BEHIND
            del self._window[:gone]
            self._window_at += gone
        self._snapshot()
        return True

    def _end(self, why: str) -> None:
        self.problem = why
        self._ended = True

    def _again(self) -> bool:
        """Before damage: go to where this step began, and on in smaller steps, since the decoder gave nothing of it.

        False where a limit is reached on the way.
        """
        offset = self._state.produced
        self._most = max(1, self._most // 64)
        steps, self._most = self._most, WINDOW
        self._state = self._resumed(offset)
        while self._state.produced < offset:
            if self._state.machine.ended:
                if not self._next_piece():
                    return False
            elif self._spent() or self._feed(min(WINDOW, offset - self._state.produced)) is None:
                return False
        self._most = steps
        return True

    def _snapshot(self) -> None:
        """Remember the decoder now and then, ever more rarely, so that a step back is short and memory bounded."""
        state = self._state
        if state.produced < (self._snapshots[-1].produced if self._snapshots else 0) + self._step:
            return
        twin = state.machine.copy()
        if twin is None:
            return
        self._snapshots.append(_DecoderState(twin, state.position, state.produced))
        if len(self._snapshots) >= SNAPSHOTS:
            self._snapshots = self._snapshots[1::2]
            self._step *= 2

    def _next_piece(self) -> bool:
        """At the end of a piece: whether another one of the same kind follows."""
        state = self._state
        state.position -= len(state.machine.rest)
        after = self._packed.read(state.position, 8)
        if self._kind in JOINED:
            while self._kind in ("gzip", "xz") and after[:1] == b"\0":  # padding
                skipped = len(after) - len(after.lstrip(b"\0"))
                state.position += skipped
                after = self._packed.read(state.position, 8)
                if self._notes.seconds_left() <= 0:
                    break
            magic = {"gzip": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\0", "zstd": b"\x28\xb5\x2f\xfd"}[self._kind]
            if after.startswith(magic):
                state.machine = decoder(self._kind)
                return True
        self.rest = max(0, self._packed.size - state.position)
        return False


def first_bytes(packed: bytes, kind: str, size: int) -> bytes:
    """The first unpacked bytes, where only the first packed ones are at hand; empty where it is unknown."""
    try:
        return decoder(kind).unpack(packed, size)
    except BrokenError:
        return b""
