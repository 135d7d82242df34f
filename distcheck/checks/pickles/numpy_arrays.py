"""Read ``.npy`` files. The header is parsed as a literal. Only arrays of objects hold a pickle.

Format: numpy/lib/format.py (versions 1.0, 2.0 and 3.0), numpy 2.3.
"""

from __future__ import annotations

import re
from typing import Any

from .raw_pickles import add_stream
from .stream_collector import ScanItem, counted, shown

MAGIC = b"\x93NUMPY"
#: numpy itself refuses headers of more than 10,000 characters unless pickles are allowed; ours is for any of sense.
_LONGEST_HEADER = 1 << 16
_DEEPEST = 16
_FIX = "download or save the file again"
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")|(?P<number>-?\d+)L?|(?P<word>True|False|None)|(?P<sign>[][(){},:]))"
)
_WORDS = {"True": True, "False": False, "None": None}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SIMPLE = re.compile(r"[<>|=]?(?P<kind>[?bBhHiIuUlLqQefdgFDGSaVcMm])(?P<width>\d*)(?:\[[^][]*\])?")
#: Bytes of one element where the type has no number; ``long double`` and ``long`` differ by platform and have none.
_WIDTHS = {
    "?": 1,
    "b": 1,
    "B": 1,
    "c": 1,
    "h": 2,
    "H": 2,
    "e": 2,
    "i": 4,
    "I": 4,
    "f": 4,
    "q": 8,
    "Q": 8,
    "d": 8,
    "F": 8,
}


def read_npy(item: ScanItem) -> str:
    """Read the header of each array in a file, and follow the pickle of an array of objects."""
    source, notes = item.source, item.notes
    at = 0
    while True:
        after = _read_array(item, at)
        if after is None:
            return "numpy array"
        if not item.depth:
            notes.content_end = after
        if source.read(after, 6) != MAGIC or not notes.take_member():
            if after < source.size:
                item.report("note", f"after the array: {counted(source.size - after, 'byte')}", offset=after)
            return "numpy array"
        at = after


def _read_array(item: ScanItem, at: int) -> int | None:
    """Check one array; the offset after it, None where nothing can follow."""

    def malformed(what: str) -> None:
        item.report("malformed", what, offset=at, fix=_FIX)

    source, notes = item.source, item.notes
    version = source.read(at + 6, 1)
    if version not in (b"\1", b"\2", b"\3"):
        malformed(f"it is of a version of the npy format that numpy does not know ({shown(repr(version))})")
        return None
    width = 2 if version == b"\1" else 4
    length = int.from_bytes(source.read(at + 8, width), "little")
    data = at + 8 + width + length
    if data > source.size:
        malformed("it is cut off in its header")
        return None
    if length > _LONGEST_HEADER:
        notes.not_opened(f"{item.label or 'the array'}: a header of {length:,} bytes is not parsed")
        return None
    try:
        header = literal(source.read(at + 8 + width, length).decode("utf-8" if version == b"\3" else "latin-1"))
        descr, shape = header["descr"], header["shape"]
        elements = _product(shape)
    except (ValueError, KeyError, TypeError):
        malformed("its header is not the literal of a dictionary with 'descr', 'fortran_order' and 'shape'")
        elements, descr = 0, "O"  # check what follows in any case
        if source.read(data, 1) != b"\x80":
            return None
    if holds_objects(descr):
        trace = notes.trace(source, data)
        add_stream(item, "numpy", trace, item.role or "object")
        return trace.end if trace.ended == "stop" else None
    size = element_size(descr)
    if size is None:
        return None
    if data + size * elements > source.size:
        malformed(f"it is cut off: its array has {counted(size * elements, 'byte')}, {source.size - data:,} are there")
        return None
    return data + size * elements


def _product(shape: Any) -> int:
    if not isinstance(shape, tuple) or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError
    product = 1
    for extent in shape:
        product *= extent
        if product > 1 << 80:
            raise ValueError
    return product


def holds_objects(descr: Any, depth: int = 0) -> bool:
    """Whether an array of this type is written as a pickle. What is not known to be plain is taken to be one."""
    if isinstance(descr, str):
        return _SIMPLE.fullmatch(descr) is None
    if depth > _DEEPEST:
        return True
    if isinstance(descr, list):
        return any(
            not isinstance(field, tuple) or len(field) < 2 or holds_objects(field[1], depth + 1) for field in descr
        )
    if isinstance(descr, tuple) and len(descr) == 2 and isinstance(descr[1], (tuple, int)):
        return holds_objects(descr[0], depth + 1)
    return True


def element_size(descr: Any, depth: int = 0) -> int | None:
    """Bytes of one element; None where it is unknown."""
    if isinstance(descr, str):
        found = _SIMPLE.fullmatch(descr)
        if found is None or len(found["width"]) > 12:
            return None
        kind = found["kind"]
        if not found["width"]:
            return _WIDTHS.get(kind)
        return int(found["width"]) * (4 if kind == "U" else 1)
    if depth > _DEEPEST:
        return None
    if isinstance(descr, tuple):
        return _times(element_size(descr[0], depth + 1), descr[1])
    total = 0
    for field in descr if isinstance(descr, list) else ():
        size = _times(element_size(field[1], depth + 1), field[2] if len(field) > 2 else ())
        if size is None:
            return None
        total += size
    return total


def _times(size: int | None, shape: Any) -> int | None:
    if size is None:
        return None
    try:
        return size * _product((shape,) if isinstance(shape, int) else shape)
    except ValueError:
        return None


def literal(text: str) -> Any:
    """A Python literal of strings, integers, True, False, None, tuples, lists and dictionaries. Raises ValueError.

    Nothing is compiled or evaluated, and nothing is nested deeper than 16.
    """
    value, at = _value(text, 0, 0)
    if text[at:].strip():
        raise ValueError("something follows the literal")
    return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    found = _TOKEN.match(text, at)
    if found is None or depth > _DEEPEST:
        raise ValueError("no literal")
    at = found.end()
    if found["text"] is not None:
        return found["text"][1:-1], at
    if found["number"] is not None:
        if len(found["number"]) > 30:
            raise ValueError("too large a number")
        return int(found["number"]), at
    if found["word"] is not None:
        return _WORDS[found["word"]], at
    opening = found["sign"]
    if opening not in _CLOSING:
        raise ValueError("no literal")
    items: list[Any] = []
    keys: list[Any] = []
    comma = False
    while True:
        sign = _TOKEN.match(text, at)
        if sign is not None and sign["sign"] == _CLOSING[opening]:
            at = sign.end()
            break
        if items and not comma:
            raise ValueError("no comma")
        item, at = _value(text, at, depth + 1)
        if opening == "{":
            colon = _TOKEN.match(text, at)
            if colon is None or colon["sign"] != ":" or not isinstance(item, str):
                raise ValueError("no dictionary")
            keys.append(item)
            item, at = _value(text, colon.end(), depth + 1)
        items.append(item)
        sign = _TOKEN.match(text, at)
        comma = sign is not None and sign["sign"] == ","
        if comma and sign is not None:
            at = sign.end()
    if opening == "{":
        return dict(zip(keys, items, strict=True)), at
    if opening == "[":
        return items, at
    return (items[0] if len(items) == 1 and not comma else tuple(items)), at
