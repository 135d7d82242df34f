"""The fact about one file: its format, its pickle streams with their traces, and its anomalies."""

from __future__ import annotations

from typing import NamedTuple

from .trace import Trace


class Stream(NamedTuple):
    """One pickle in a file."""

    #: where it stands in an archive (``archive/data.pkl``); None where the file itself is the stream
    member: str | None
    #: who would load it: ``torch`` (zip), ``torch-legacy``, ``pickle``, ``numpy``, ``joblib``
    reader: str
    trace: Trace
    #: ``object`` (what the file is about), ``header`` (magic number, protocol, system of a legacy file),
    #: ``keys`` (storage keys of a legacy file), ``appended`` (after another one), ``hidden`` (elsewhere)
    role: str = "object"


class Anomaly(NamedTuple):
    """Something about the container that is not as it should be."""

    #: one sentence without a full stop
    what: str
    #: ``disagree`` (readers see different content), ``malformed`` (can't be read as what it claims to be),
    #: ``refused`` (sound, but torch.load refuses it), ``note``
    kind: str
    offset: int | None = None
    member: str | None = None
    #: what to do about it, where that is known better here than elsewhere
    fix: str | None = None


class PickleFile(NamedTuple):
    """What a file holds. Nothing of it was loaded."""

    #: as it was named; ``-`` for standard input, ``<bytes>`` for bytes
    path: str
    #: in users' words: ``torch zip``, ``torch legacy``, ``torch legacy tar``, ``TorchScript archive``,
    #: ``distributed checkpoint``, ``pickle``, ``numpy array``, ``numpy archive``, ``joblib``, ``safetensors``,
    #: ``tar archive``, ``zip archive``, ``compressed pickle``, ``git LFS pointer``, ``HTML page``, ``text``,
    #: ``empty``, …
    format: str
    #: bytes
    size: int
    streams: tuple[Stream, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
    #: storages that a stream requests and the container does not hold
    storages_absent: tuple[str, ...] = ()
    #: what could not be read, and why: each makes the file *incomplete*
    unopened: tuple[str, ...] = ()
    #: the format holds nothing that could run (safetensors, plain numpy arrays)
    executes_nothing: bool = False

    @property
    def complete(self) -> bool:
        """Whether all of it was checked."""
        return not self.unopened and all(stream.trace.ended != "budget" for stream in self.streams)
