"""Record what the symbolic machine sees in a stream, in bounded memory, and build the trace from it."""

from __future__ import annotations

from collections.abc import Iterable

from .trace import Global, Keys, Naming, Nested, Storages, StreamCall, StreamWrite, Trace, Unresolved
from .values import printable

#: Unresolved items that are kept, calls of what can't be known, foreign ids; more of them add nothing.
_MOST_UNRESOLVED = 200
_MOST_NAMES = 20
#: of names, calls and attributes of one stream, in total; real ones have some thousands
MOST_CHARACTERS = 4_000_000
_MOST_STORAGE_KEYS = 100_000
_MOST_LOCATIONS = 200
#: Prefixes that wrappers of modules put before the keys of a state dict. ``module.`` (DistributedDataParallel,
#: DataParallel) counts only at the start, where it can't be the name of a submodule; the others anywhere.
PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


class StoppedError(Exception):
    """A stream can't be followed any further. ``ended``: see :class:`.Trace`."""

    def __init__(self, ended: str, offset: int, why: str) -> None:
        super().__init__(why)
        self.ended = ended
        self.problem = Unresolved(offset, why)


class TraceBuilder:
    """Everything seen so far. Equal things are one entry: its first offset, and how often."""

    def __init__(self) -> None:
        self.protocol = 0
        #: of texts that are kept
        self.characters = 0
        self.opcodes: dict[str, int] = {}
        #: (index in the table of globals, opcode) → [offset, count]
        self.namings: dict[tuple[int, str], list[int]] = {}
        #: (index in the table of globals, opcode, what keeps it apart from others) → [offset, count], text
        self.calls: dict[tuple[int, str, str], tuple[list[int], str]] = {}
        #: calls of what can't be known: (opcode, text) → [offset, count]
        self.unknown_calls: dict[tuple[str, str], list[int]] = {}
        #: (opcode, target, index in the table of globals) → [offset, count], and names of attributes
        self.writes: dict[tuple[str, str, int], tuple[list[int], dict[str, None]]] = {}
        self._unresolved: dict[str, int] = {}
        self._foreign: dict[str, int] = {}
        self._storages: dict[str, list[int]] = {}
        self._storage_keys: set[str] = set()
        self._storage_bytes: dict[str, int] = {}
        self.nested: dict[int, Nested] = {}
        self._prefixes: dict[str, int] = {}
        self._examples: dict[str, str] = {}
        self._named_tensors = 0

    def naming(self, index: int, opcode: str, offset: int) -> None:
        """A global is fetched."""
        entry = self.namings.get((index, opcode))
        if entry is None:
            self.namings[index, opcode] = [offset, 1]
        else:
            entry[1] += 1

    def write(self, opcode: str, target: str, index: int, offset: int, names: Iterable[str] = ()) -> list[int]:
        """Something is filled: the entry for it, [offset, count], which the caller counts up."""
        entry = self.writes.get((opcode, target, index))
        if entry is None:
            entry = self.writes[opcode, target, index] = ([offset, 0], {})
        for name in names:
            if len(entry[1]) < _MOST_NAMES and name not in entry[1] and self.characters < MOST_CHARACTERS // 2:
                self.characters += len(name)
                entry[1][name] = None
        return entry[0]

    def unresolved(self, offset: int, why: str) -> None:
        """The machine can't know what would happen."""
        if why not in self._unresolved and len(self._unresolved) < _MOST_UNRESOLVED:
            self._unresolved[why] = offset

    def unknown_call(self, opcode: str, text: str, offset: int) -> None:
        """What is called can't be known."""
        entry = self.unknown_calls.get((opcode, text))
        if entry is not None:
            entry[1] += 1
        elif len(self.unknown_calls) < _MOST_UNRESOLVED:
            self.unknown_calls[opcode, text] = [offset, 1]

    def foreign_id(self, offset: int, what: str) -> None:
        """A persistent id that requests no storage."""
        if what not in self._foreign and len(self._foreign) < _MOST_UNRESOLVED:
            self._foreign[what] = offset

    def storage(self, offset: int, key: str, location: str, size: int | None) -> None:
        """A storage is requested; ``size`` in bytes, where it is known."""
        entry = self._storages.get(location)
        if entry is not None:
            entry[1] += 1
        elif len(self._storages) < _MOST_LOCATIONS:
            self._storages[location] = [offset, 1]
        if len(self._storage_keys) < _MOST_STORAGE_KEYS:
            self._storage_keys.add(key)
            if size is not None:
                self._storage_bytes[key] = max(size, self._storage_bytes.get(key, 0))

    def tensor_key(self, key: str) -> None:
        """A key of a dictionary names a tensor."""
        self._named_tensors += 1
        if "mod" not in key:
            return
        for prefix in PREFIXES:
            if key.startswith(prefix) or (prefix[0] == "_" and f".{prefix}" in key):
                self._prefixes[prefix] = self._prefixes.get(prefix, 0) + 1
                self._examples.setdefault(prefix, printable(key))

    def trace(
        self,
        start: int,
        end: int,
        ended: str,
        problem: Unresolved | None,
        result: str | Global,
        known: list[Global | None],
        written: dict[int, str],
        steps: int,
    ) -> Trace:
        """What was seen so far; ``known`` is the table of globals, ``written`` how some of them stand in the stream."""
        calls: dict[tuple[Global | None, str, str], StreamCall] = {}
        for (index, opcode, variant), ((offset, count), text) in self.calls.items():
            what = known[index]
            other = calls.get((what, opcode, variant))
            calls[what, opcode, variant] = (
                StreamCall(what, opcode, offset, text, count)
                if other is None
                else other._replace(count=other.count + count)
            )
        unknown = [
            StreamCall(None, opcode, offset, text, count)
            for (opcode, text), (offset, count) in self.unknown_calls.items()
        ]
        return Trace(
            start=start,
            end=end,
            protocol=self.protocol,
            ended=ended,
            problem=problem,
            opcodes=dict(self.opcodes),
            globals=tuple(
                Naming(what, opcode, offset, count, written.get(index))
                for (index, opcode), (offset, count) in self.namings.items()
                if (what := known[index]) is not None
            ),
            calls=tuple(sorted((*calls.values(), *unknown), key=lambda call: call.offset)),
            writes=tuple(
                StreamWrite(opcode, target, known[index], offset, tuple(names), count)
                for (opcode, target, index), ((offset, count), names) in self.writes.items()
            ),
            unresolved=tuple(Unresolved(offset, why) for why, offset in self._unresolved.items()),
            storages=tuple(Storages(location, count, offset) for location, (offset, count) in self._storages.items()),
            storage_keys=frozenset(self._storage_keys),
            foreign_ids=tuple(Unresolved(offset, what) for what, offset in self._foreign.items()),
            keys=Keys(dict(self._prefixes), dict(self._examples), self._named_tensors),
            result=result,
            steps=steps,
            storage_bytes=dict(self._storage_bytes),
            nested=tuple(self.nested.values()),
        )
