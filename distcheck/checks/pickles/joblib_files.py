"""Read joblib files: a pickle in which the raw bytes of each array follow the opcode that describes it.

The raw bytes are skipped by type and shape, as joblib's own unpickler does (joblib/numpy_pickle.py, 0.10 to 1.5).
The machine gets the stream without them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from .literals import ARRAY, Instance, UnreadableError, read_value
from .numpy_arrays import element_size
from .raw_pickles import add_stream, is_importable, read_nested
from .source_bytes import ByteSource
from .stream_collector import ScanItem
from .trace import Global, Trace, Unresolved

#: The class that describes an array, and those of joblib before 0.10, whose arrays stood in files of their own or
#: compressed in the stream. By name alone: what calls itself so is read so.
_WRAPPER = "NumpyArrayWrapper"
_OLD_WRAPPERS = frozenset({"NDArrayWrapper", "ZNDArrayWrapper"})
#: What makes an instance of its first argument in protocols 0 to 2.
_MAKERS = frozenset({"_reconstructor", "__newobj__"})
#: Flag of a numpy type that holds objects (NPY_ITEM_REFCOUNT in numpy/ndarraytypes.h).
_REFERENCES = 0x01


def is_joblib(trace: Trace) -> bool:
    """Whether a stream names joblib's wrapper of arrays."""
    return any(_is_wrapper(naming.what) or _is_old(naming.what) for naming in trace.globals)


def _is_wrapper(what: Any) -> bool:
    return isinstance(what, Global) and what.name.rsplit(".", 1)[-1] == _WRAPPER


def _is_old(what: Any) -> bool:
    return isinstance(what, Global) and what.name.rsplit(".", 1)[-1] in _OLD_WRAPPERS


class SplicedSource:
    """A source without some stretches of it."""

    def __init__(self, whole: ByteSource, gaps: list[tuple[int, int]]) -> None:
        self._whole = whole
        #: for each kept stretch: where it begins here, and where in the whole
        self._here = [0]
        self._there = [0]
        for start, stop in gaps:
            self._here.append(self._here[-1] + start - self._there[-1])
            self._there.append(stop)
        self.size = self._here[-1] + max(0, whole.size - self._there[-1])

    def original(self, offset: int) -> int:
        """Where a byte of this source stands in the whole one."""
        place = bisect_right(self._here, offset) - 1
        return self._there[place] + offset - self._here[place]

    def read(self, offset: int, size: int) -> bytes:
        """See :class:`.ByteSource`."""
        parts = []
        wanted = max(0, min(size, self.size - offset))
        while wanted > 0:
            place = bisect_right(self._here, offset) - 1
            room = self._here[place + 1] - offset if place + 1 < len(self._here) else wanted
            part = self._whole.read(self.original(offset), min(room, wanted))
            if not part:
                break
            parts.append(part)
            offset += len(part)
            wanted -= len(part)
        return b"".join(parts)


def read_joblib(item: ScanItem, plain: Trace) -> str:
    """Follow a stream past the raw bytes in it.

    :param plain: what the machine made of it without stepping over anything: what ``pickle.load`` would see
    """
    source, notes, role = item.source, item.notes, item.role
    gaps: list[tuple[int, int]] = []
    raw: list[tuple[int, int]] = []
    inner: list[Trace] = []
    old = False

    def after_build(target: Any, at: int) -> tuple[int, bool]:
        nonlocal old
        kind = _class_of(target)
        old = old or _is_old(kind)
        if not _is_wrapper(kind):
            return at, False
        after = _after_array(source, target, at)
        if after is None:
            trace = notes.trace(source, at)
            if trace.ended != "stop":
                raise UnreadableError("the pickle of an array of objects has no end")
            inner.append(trace)
            after = trace.end
        else:
            raw.append((at, after))
        gaps.append((at, after))
        return after, True

    try:
        read_value(source, after_build=after_build)
    except UnreadableError as error:
        notes.not_opened(f"{item.name}: the arrays in it could not be stepped over ({error})")
    if old:
        notes.not_opened(f"{item.name}: arrays as joblib wrote them before 0.10, compressed or in files of their own")
    for trace in inner:
        add_stream(item, "joblib", trace, role or "object")
    if not gaps:
        add_stream(item, "joblib", plain, role or "object")
        return "joblib"
    spliced = SplicedSource(source, gaps)
    trace = notes.trace(spliced)
    notes.add(item.label, "joblib", moved(trace, spliced), role or "object")
    read_nested(item._replace(source=spliced), trace)
    beyond = [naming for naming in plain.globals if _is_inside(naming.offset, raw) and is_importable(naming.what)]
    if beyond:
        add_stream(item, "pickle", plain, "hidden")
        item.report(
            "disagree",
            "the bytes of an array in it name importable things: pickle.load runs what joblib.load steps over",
            offset=beyond[0].offset,
            fix="don't load it",
        )
    return "joblib"


def _is_inside(offset: int, stretches: list[tuple[int, int]]) -> bool:
    place = bisect_right(stretches, (offset, 1 << 64)) - 1
    return place >= 0 and offset < stretches[place][1]


def _class_of(target: Any) -> Any:
    """The class of what was filled. Raises UnreadableError where that is unknown and it could be joblib's wrapper."""
    if target is ARRAY or isinstance(target, (dict, list)):
        return None
    if not isinstance(target, Instance) or not isinstance(target.function, Global):
        raise UnreadableError("something of an unknown class is filled")
    arguments = target.arguments if isinstance(target.arguments, tuple) else ()
    if not any(_is_wrapper(one) for one in arguments):
        return target.function
    if target.function.name in _MAKERS and _is_wrapper(arguments[0]):
        return arguments[0]
    raise UnreadableError("something of an unknown class is filled")


def _after_array(source: ByteSource, instance: Instance, at: int) -> int | None:
    """Offset after the raw bytes of an array; None where a pickle of its own follows instead.

    Raises UnreadableError where joblib might step over more or less.
    """
    state: dict[str, Any] = {}
    for one in instance.states:
        if isinstance(one, dict):
            state.update(one)
    shape, dtype = state.get("shape"), state.get("dtype")
    if not isinstance(shape, tuple) or not all(type(extent) is int and 0 <= extent < 1 << 40 for extent in shape):
        raise UnreadableError("an array of unknown shape")
    if not isinstance(dtype, Instance) or not isinstance(dtype.arguments, tuple) or not dtype.arguments:
        raise UnreadableError("an array of unknown type")
    code = dtype.arguments[0]
    if not isinstance(code, str) or dtype.function != Global("numpy", "dtype"):
        raise UnreadableError("an array of unknown type")
    size = element_size(code)
    objects = code.lstrip("|<>=").startswith("O")
    for one in dtype.states:
        # (version, byte order, sub-array, names, fields, size, alignment, flags), since numpy 1.2
        if not isinstance(one, tuple) or len(one) < 8 or one[0] not in (3, 4) or type(one[7]) is not int:
            raise UnreadableError("an array of unknown type")
        if one[5] not in (-1, size):
            raise UnreadableError("an array of unknown type")
        objects = objects or bool(one[7] & _REFERENCES)
    if objects:
        return None
    if size is None:
        raise UnreadableError("an array of unknown type")
    for extent in shape:
        size *= extent
    if state.get("numpy_array_alignment_bytes") is not None:
        at += 1 + int.from_bytes(source.read(at, 1), "little")
    if at + size > source.size:
        raise UnreadableError("the file ends in the bytes of an array")
    return at + size


def moved(trace: Trace, spliced: SplicedSource) -> Trace:
    """The trace with the offsets of the whole source."""
    where = spliced.original

    def unresolved(items: tuple[Unresolved, ...]) -> tuple[Unresolved, ...]:
        return tuple(item._replace(offset=where(item.offset)) for item in items)

    return trace._replace(
        start=where(trace.start),
        end=where(max(trace.end, 1) - 1) + 1,
        problem=None if trace.problem is None else unresolved((trace.problem,))[0],
        opcodes={name: where(offset) for name, offset in trace.opcodes.items()},
        globals=tuple(item._replace(offset=where(item.offset)) for item in trace.globals),
        calls=tuple(item._replace(offset=where(item.offset)) for item in trace.calls),
        writes=tuple(item._replace(offset=where(item.offset)) for item in trace.writes),
        unresolved=unresolved(trace.unresolved),
        storages=tuple(item._replace(offset=where(item.offset)) for item in trace.storages),
        foreign_ids=unresolved(trace.foreign_ids),
    )
