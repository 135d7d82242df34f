"""The trace of one pickle stream: what the machine records and the verdict is based on.

A trace holds no bytes of the stream and no syntax. It holds the globals that it names, the calls with arguments, the
writes, and the storages that it requests. It judges nothing: :mod:`.verdict` decides what is dangerous, and
:mod:`.weights_only` what torch's ``weights_only`` unpickler accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Global(NamedTuple):
    """An importable thing as a stream names it; ``name`` may hold dots (``Outer.Inner``)."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """``module.name``."""
        return f"{self.module}.{self.name}"


class Naming(NamedTuple):
    """A global that the stream fetches. Fetching alone imports the module, which is code that runs."""

    what: Global
    #: GLOBAL, STACK_GLOBAL, INST, or ``getattr`` where a constant ``getattr(Outer, 'Inner')`` was folded
    opcode: str
    #: of the first use, in bytes from the start of the member
    offset: int
    count: int = 1  # type: ignore[assignment]
    #: ``module.name`` as it stands in the stream, where that is a Python 2 name that ``pickle`` maps to ``what``
    written: str | None = None


class StreamCall(NamedTuple):
    """Code that the stream runs: REDUCE, INST, OBJ, NEWOBJ, NEWOBJ_EX, or BUILD (its ``__setstate__``).

    Equal ones (same function, same opcode) are one entry with a count; of ``numpy.dtype``, same text as well.
    """

    #: None where what is called can't be known: the result of a call, a persistent id, a container, an extension code
    function: Global | None
    opcode: str
    offset: int
    #: the call as it would stand in Python, cut to 200 characters, printable: ``os.system('curl …')``
    text: str
    count: int = 1  # type: ignore[assignment]


class StreamWrite(NamedTuple):
    """APPEND(S), SETITEM(S), ADDITEMS or BUILD: what would be filled. One entry for each opcode and target."""

    opcode: str
    #: ``dict``, ``list``, ``set``, ``frozenset``, ``tuple``, ``constant``; ``instance`` (what calling ``of`` gave, or
    #: an instance of ``of`` where ``copyreg`` or numpy makes one); ``global`` (``of`` itself: a function or class whose
    #: attributes would be set); ``persistent``; ``unknown``
    target: str
    of: Global | None
    offset: int
    #: what BUILD would set, as far as it is known: names of attributes, printable, at most 20
    names: tuple[str, ...] = ()
    count: int = 1  # type: ignore[assignment]


class Unresolved(NamedTuple):
    """An opcode whose effect can't be known, or at which every unpickler stops."""

    offset: int
    why: str


class Storages(NamedTuple):
    """The storages that a stream requests with one location tag (``cpu``, ``cuda:3``)."""

    location: str
    count: int  # type: ignore[assignment]
    offset: int


class Nested(NamedTuple):
    """Bytes in a stream that it has another loader read, as a file of its own."""

    #: ``torch.storage._load_from_bytes``
    function: Global
    #: of the first byte, from the start of the member
    offset: int
    #: bytes in the stream
    size: int
    #: ``bytes``; or how the text is written whose characters are the bytes: ``latin-1`` (in UTF-8: protocols 1 and 2),
    #: ``raw-unicode-escape`` (protocol 0)
    encoding: str = "bytes"


class Keys(NamedTuple):
    """How many text keys of dictionaries that name tensors have a wrapper's prefix, of how many.

    ``module.`` counts at the start of a key, the others also after a dot.
    """

    #: prefix (``module.``, ``_orig_mod.``, ``_fsdp_wrapped_module.``, ``_checkpoint_wrapped_module.``) → count
    prefixes: Mapping[str, int]
    #: an example key for each prefix, printable
    examples: Mapping[str, str]
    total: int


class Trace(NamedTuple):
    """One stream, from its first opcode to STOP, or to where it could not be followed any further."""

    start: int
    #: offset of the byte after the last opcode that was understood
    end: int
    #: from PROTO; 0 without one
    protocol: int
    #: ``stop``; ``broken`` (undecodable or impossible: see ``trouble``); ``cut`` (the bytes end first);
    #: ``budget`` (a limit of ours was reached: see ``trouble``)
    ended: str
    problem: Unresolved | None
    #: name of each opcode that occurs → offset of its first use
    opcodes: Mapping[str, int]
    globals: tuple[Naming, ...]
    calls: tuple[StreamCall, ...]
    writes: tuple[StreamWrite, ...]
    #: computed names, calls of what can't be known, attributes set on functions: to be judged as dangerous
    unresolved: tuple[Unresolved, ...]
    storages: tuple[Storages, ...]
    #: keys of the storages that are requested (``'0'``, ``'1'``): at most 100,000
    storage_keys: frozenset[str]
    #: first offset of a persistent id that is no ``('storage', …)`` tuple of torch's shape, with what it is
    foreign_ids: tuple[Unresolved, ...]
    keys: Keys
    #: the result of the stream: a word as in :class:`StreamWrite` (``dict``, ``constant``, ``global`` …), ``nothing``
    #: without STOP, or the global whose call gave it
    result: str | Global
    #: opcodes that were executed, about
    steps: int = 0
    #: key of a storage → bytes that are requested, where the stream states it in constants; at most 100,000
    storage_bytes: Mapping[str, int] = {}
    nested: tuple[Nested, ...] = ()
