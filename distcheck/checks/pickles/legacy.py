"""Read files of ``torch.save`` before 1.6: five pickles and raw storages, or, before 0.4, a tar with three members.

The layouts are those that ``_legacy_load`` of torch/serialization.py (2.13) reads. Storages are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .known_functions import ELEMENT_BYTES
from .literals import UnreadableError, read_value
from .raw_pickles import add_stream, follow_appended
from .source_bytes import ByteSource, PartSource
from .stream_collector import ScanItem, counted, shown
from .trace import Global

if TYPE_CHECKING:
    from .archives_tar import TarMember

#: Bytes of one element by the name of the storage type, those that hold several numbers in one included.
ELEMENT_SIZES = {**ELEMENT_BYTES, "QUInt4x2Storage": 1, "QUInt2x4Storage": 1}
#: ``PROTOCOL_VERSION`` of torch/serialization.py.
PROTOCOL = 1001
#: Storages whose sizes are checked.
MOST_STORAGES = 100_000
#: Bytes. Longer objects are not read a second time for the types of their storages.
_SHORT_OBJECT = 1 << 20
_ROLES = ("header", "header", "header", "object", "keys")
_FIX = "download or save the file again"
#: Members of the tar that torch reads.
TAR_MEMBERS = ("storages", "tensors", "pickle")


def read_legacy(item: ScanItem) -> str:
    """Follow the magic number, the protocol, the system, the object and the keys; then check that the storages fit."""
    source, notes = item.source, item.notes
    at = keys_at = object_at = 0
    known: frozenset[str] = frozenset()
    requested: Mapping[str, int] = {}
    for place, own_role in enumerate(_ROLES):
        if at >= source.size:
            item.report("malformed", f"it ends before its {_PARTS[place]}", offset=at, fix=_FIX)
            return "torch legacy"
        trace = notes.trace(source, at)
        add_stream(item, "torch-legacy", trace, item.role or own_role)
        if trace.ended != "stop":
            return "torch legacy"
        if place == 1:
            _check_protocol(item, at)
        if own_role == "object":
            object_at = at
            known, requested = trace.storage_keys, trace.storage_bytes
        keys_at, at = at, trace.end
    widths = _element_widths(source, object_at, keys_at)
    end = _end_of_storages(item, keys_at, at, widths, known, requested)
    if not item.depth:
        notes.content_end = at if end is None else end
    if end is not None and end < source.size:
        follow_appended(item, trace, start=end)
    return "torch legacy"


_PARTS = ("magic number", "protocol", "description of the system", "object", "list of storages")


def _check_protocol(item: ScanItem, at: int) -> None:
    try:
        version, _ = read_value(item.source, at)
    except UnreadableError:
        version = None
    if version != PROTOCOL:
        found = f"{version:,}" if type(version) is int and abs(version) < 1 << 64 else "no number"
        item.report(
            "malformed",
            f"torch.load refuses it: its protocol is {found}, torch reads {PROTOCOL:,}",
            offset=at,
            fix=_FIX,
        )


def _element_widths(source: ByteSource, start: int, stop: int) -> dict[str, int]:
    """Bytes of an element of each storage, as far as a short object states it."""
    widths: dict[str, int] = {}

    def on_id(saved: Any) -> None:
        if isinstance(saved, tuple) and len(saved) > 2 and isinstance(saved[1], Global) and isinstance(saved[2], str):
            width = ELEMENT_SIZES.get(saved[1].name)
            if width is not None:
                widths[saved[2]] = width

    if stop - start <= _SHORT_OBJECT:
        with suppress(UnreadableError):
            read_value(source, start, on_id=on_id)
    return widths


def _end_of_storages(
    item: ScanItem,
    keys_at: int,
    at: int,
    widths: Mapping[str, int],
    known: frozenset[str],
    requested: Mapping[str, int],
) -> int | None:
    """Each storage is its number of elements in 8 bytes, then the elements: do all that are promised fit?

    How long an element is, is known from what the object requested; without that nothing is checked. The offset after
    the last storage; None where it is unknown.
    """

    source = item.source

    def not_followed(why: str) -> None:
        item.notes.not_opened(f"{item.name}: what follows its list of storages was not checked: {why}")

    try:
        keys, _ = read_value(source, keys_at, items=MOST_STORAGES)
    except UnreadableError:
        not_followed("the list is not plain data")
        return None
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) for key in keys):
        item.report("malformed", "its list of storages is none", offset=keys_at, fix=_FIX)
        return None
    if len(keys) >= MOST_STORAGES:
        not_followed(f"it names {MOST_STORAGES:,} or more")
        return None

    def cut_off(what: str) -> None:
        item.report("malformed", f"it is cut off {what} of {len(keys)}", offset=source.size, fix=_FIX)

    for number, key in enumerate(keys):
        if key not in known and len(known) < MOST_STORAGES:
            item.report(
                "malformed",
                f"torch.load refuses it: it holds a storage {shown(key)!r} that its object does not use",
                offset=keys_at,
                fix=_FIX,
            )
            return None
        if source.size - at < 8:
            cut_off(f"before storage {number + 1}")
            return None
        if key not in requested:
            not_followed(f"how many bytes {shown(key)!r} has is not known")
            return None
        elements = int.from_bytes(source.read(at, 8), "little", signed=True)
        width = widths.get(key)
        if (
            requested[key] != elements * width
            if width
            else requested[key] not in {elements << shift for shift in range(5)}
        ):
            item.report(
                "malformed",
                f"storage {shown(key)!r} holds {elements:,} elements,"
                f" the object requests {requested[key]:,} bytes of them",
                offset=at,
                fix=_FIX,
            )
            return None
        if at + 8 + requested[key] > source.size:
            missing = at + 8 + requested[key] - source.size
            cut_off(f"({counted(missing, 'byte')} are missing) in storage {number + 1}")
            return None
        at += 8 + requested[key]
    return at


def read_legacy_tar(members: dict[str, TarMember], item: ScanItem) -> str:
    """Follow the pickles of the three members as torch's reader would: the first of each name counts for it."""
    item.report(
        "refused",
        "torch.load refuses files of the legacy tar format with weights_only=True",
        fix="load it once with weights_only=False where you trust it, and save it again with torch.save",
    )
    for name in TAR_MEMBERS:
        member = members.get(name)
        if member is None:
            item.report("malformed", f"it has no member {name!r}", fix=_FIX)
            continue
        inner = item._replace(source=PartSource(item.source, member.data, member.size), label=item.path(name))
        if name == "pickle":
            add_stream(inner, "torch-legacy", item.notes.trace(inner.source), item.role or "object")
        else:
            _read_records(inner, name)
    return "torch legacy tar"


def _read_records(item: ScanItem, name: str) -> None:
    """The pickles of ``storages`` or ``tensors``: a number, then a record for each, with raw bytes behind it."""
    content, notes, role = item.source, item.notes, item.role
    trace = notes.trace(content)
    add_stream(item, "torch-legacy", trace, role or "header")
    try:
        count, at = read_value(content, 0)
    except UnreadableError:
        count, at = None, 0
    if trace.ended != "stop" or type(count) is not int or trace.end != at:
        notes.not_opened(f"{item.label}: what follows its first pickle was not checked")
        return
    for _ in range(count):
        if at >= content.size:
            item.report("malformed", f"it promises {counted(count, 'record')} and ends before", fix=_FIX)
            return
        if not notes.take_member():
            return
        trace = notes.trace(content, at)
        add_stream(item, "torch-legacy", trace, role or "header")
        after = _after_record(content, at, name)
        if trace.ended != "stop" or after is None:
            notes.not_opened(f"{item.label}: what follows the record at offset {at:,} was not checked")
            return
        at = after
    if name == "storages" and at < content.size:
        trace = notes.trace(content, at)
        add_stream(item, "torch-legacy", trace, role or "keys")


def _after_record(content: ByteSource, at: int, name: str) -> int | None:
    """Offset after a record and its raw bytes; None where it is unknown."""
    try:
        record, at = read_value(content, at)
    except UnreadableError:
        return None
    if not isinstance(record, tuple) or len(record) != 3:
        return None
    if name == "tensors":
        dimensions = int.from_bytes(content.read(at, 4), "little", signed=True)
        return at + 8 + 16 * dimensions + 8 if 0 <= dimensions <= 64 else None
    storage_type = record[2]
    width = ELEMENT_SIZES.get(storage_type.name) if isinstance(storage_type, Global) else None
    elements = int.from_bytes(content.read(at, 8), "little", signed=True)
    return None if width is None or elements < 0 else at + 8 + width * elements
