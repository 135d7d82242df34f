"""What the symbolic machine knows of some functions that pickles call: their results, and unusual calls.

``getattr`` and loaders of bytes are watched: once they are passed to another call, their use is unknown. Constructors
that could make a small file use much memory are distinguished by their arguments. The state of a numpy dtype is
compared with its name, because numpy trusts the state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .trace import Global, Nested
from .trace_builder import StoppedError, TraceBuilder
from .values import (
    CONSTANT,
    DICT,
    EMPTY,
    ENTRIES,
    GLOBAL,
    KIND,
    KIND_NAMES,
    LIST,
    OWNER,
    PERSISTENT,
    RESULT,
    TEXT,
    TUPLE,
    UNKNOWN,
    Values,
    printable,
)

_GETATTR = frozenset({("builtins", "getattr"), ("__builtin__", "getattr")})
#: What makes an instance of the class that is its first argument.
_MAKERS = frozenset(
    {
        *(
            (module, name)
            for module in ("copyreg", "copy_reg")
            for name in ("_reconstructor", "__newobj__", "__newobj_ex__")
        ),
        *((f"numpy.{package}.multiarray", "_reconstruct") for package in ("core", "_core")),
    }
)
_BYTES = frozenset({("builtins", "bytes"), ("builtins", "bytearray")})
_SPELLED_NUMBERS = frozenset({("fractions", "Fraction"), ("decimal", "Decimal")})
#: Characters of a number of which all are seen where its call is shown.
_SHOWN_NUMBER = 60
#: What makes an instance of a class among its arguments.
_INSTANCE_MAKERS = frozenset(("copyreg", name) for name in ("__newobj__", "__newobj_ex__", "_reconstructor"))
#: What loads bytes that it is handed.
_LOADERS = frozenset({("torch.storage", "_load_from_bytes")})
_ENCODERS = frozenset({("_codecs", "encode")})
_DTYPE = ("numpy", "dtype")
_ALWAYS_APART = frozenset({_DTYPE, ("builtins", "type")})
#: Calls of these are distinguished by their text, where an argument may make them costly (or always).
_APART = frozenset(
    {
        *_ALWAYS_APART,
        *(
            ("builtins", name)
            for name in (
                *("list", "tuple", "set", "frozenset", "dict", "bytes", "bytearray"),
                *("int", "float", "complex", "str"),
            )
        ),
        *(("collections", name) for name in ("deque", "Counter", "OrderedDict", "defaultdict")),
        *_SPELLED_NUMBERS,
        *_INSTANCE_MAKERS,
        ("array", "array"),
        ("torch", "Size"),
    }
)
_PARTIAL = ("functools", "partial")
#: More of them are not distinguished, and what they call is not known.
_MOST_PARTIALS = 10_000
#: What hashes the items that it is called with.
_HASHERS = frozenset(
    {
        *(("builtins", name) for name in ("set", "frozenset", "dict")),
        *(("collections", name) for name in ("Counter", "OrderedDict", "defaultdict")),
    }
)
MOST_APART = 64
#: What a dtype of numpy is called in a pickle: its kind and its size.
_DTYPE_NAME = r"[|<>=]?([a-zA-Z?])[0-9]*\Z"
_MOST_NESTED = 20_000
#: Elements of a tuple that is a key, written out.
_HEAVIEST_KEY = 10_000_000
#: Bytes of an element by the name of the storage (``torch/storage.py``, 2.13).
ELEMENT_BYTES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(
        ("CharStorage", "ByteStorage", "BoolStorage", "QInt8Storage", "QUInt8Storage", "UntypedStorage"), 1
    ),
    "ComplexDoubleStorage": 16,
}
#: How classes of tensors are called.
_TENSOR_CLASSES = ("Tensor", "Parameter", "Buffer")


class KnownFunctions:
    """What is known of the functions that one stream names, by their indexes in the table of globals."""

    def __init__(self, values: Values, notes: TraceBuilder) -> None:
        self._values = values
        self._notes = notes
        #: values of ``getattr`` and of loaders of bytes: where they go is watched
        self.watched: frozenset[int] = frozenset()
        #: those of them that are ``getattr``
        self.getters: set[int] = set()
        #: what makes tensors
        self.tensor_makers: set[int] = set()
        #: what makes instances of its first argument, and what loads bytes; the latter; what is distinguished
        self.special: set[int] = set()
        self._loaders: set[int] = set()
        self.apart: set[int] = set()
        self._variants: dict[int, set[str]] = {}
        self.dtypes: set[int] = set()
        #: dtypes of numpy that hold objects, and whether there is any
        self._object_dtypes: set[int] = set()
        self._objects_in_dtypes = False
        #: results of ``functools.partial`` → the state that they were given
        self._states_of_partials: dict[int, int] = {}

    def add(self, index: int, what: Global) -> None:
        """A global is named for the first time."""
        if what in _GETATTR or what in _LOADERS:
            self.watched |= {index << 4 | GLOBAL}
        if what in _GETATTR:
            self.getters.add(index << 4 | GLOBAL)
        if what in _MAKERS or what in _LOADERS:
            self.special.add(index)
        if what in _LOADERS:
            self._loaders.add(index)
        if what in _APART:
            self.apart.add(index)
        if what == _DTYPE:
            self.dtypes.add(index)
        if what.module.startswith("torch") and ("_rebuild" in what.name or what.name.endswith(_TENSOR_CLASSES)):
            self.tensor_makers.add(index)

    def words(self, value: int) -> str:
        """What a value is, for a sentence."""
        kind = value & KIND
        owner = self._values.owner(value)
        if kind == GLOBAL and owner is not None:
            return printable(owner.path, 100)
        if kind == RESULT:
            return (
                f"the result of {printable(owner.path, 100)}" if owner is not None else "the result of an unknown call"
            )
        return {PERSISTENT: "a persistent object", UNKNOWN: "an unknown object"}.get(kind, f"a {KIND_NAMES[kind]}")

    def handed_over(self, offset: int, items: Sequence[int], where: str) -> None:
        """A function that is watched goes where it can't be followed."""
        for item in items:
            if item in self.watched:
                self._notes.unresolved(
                    offset, f"{self.words(item)} is {where}, so that what it is called with can't be known"
                )

    def special_call(self, index: int, arguments: int, offset: int) -> int:
        """A call of one of ``special``: the index in the table of globals of the class whose instance it gives.

        Raises :class:`StoppedError` where too many files are held by the stream."""
        items = self._values.items(arguments) if arguments & KIND == TUPLE else None
        if index not in self._loaders:
            return items[0] >> 4 if items and items[0] & KIND == GLOBAL else index
        nested = self._content(index, items[0]) if items is not None and len(items) == 1 else None
        if nested is None:
            self._notes.unresolved(
                offset, "torch.storage._load_from_bytes is called with bytes that are not in the stream"
            )
        elif len(self._notes.nested) >= _MOST_NESTED:
            raise StoppedError("budget", offset, f"more than {_MOST_NESTED} files within the stream")
        else:
            self._notes.nested[nested.offset] = nested
        return index

    def _content(self, index: int, content: int) -> Nested | None:
        """The bytes that are handed to a loader: a constant, or a text that ``_codecs.encode`` makes bytes of."""
        loader = self._values.globals[index]
        if loader is None:
            return None
        if content & KIND == CONSTANT:
            place = self._values.payload(content)
            return Nested(loader, place[0], place[1]) if place is not None else None
        parts = self._of_call(content)
        if (
            self._values.owner(content) not in _ENCODERS
            or parts is None
            or len(parts) != 2
            or self._values.text(parts[1]) not in ("latin1", "latin-1", "iso-8859-1")
        ):
            return None
        place = self._values.payload(parts[0])
        return Nested(loader, *place) if place is not None and place[2] else None

    def called_by_partial(self, function: int) -> int:
        """The global that is called where the result of ``functools.partial`` is called; 0 where it is not known.

        Protocols 2 and 3 write so what has ``__getnewargs_ex__``.
        """
        if function & KIND != RESULT or self._values.owner(function) != _PARTIAL:
            return 0
        parts = self._parts_of_partial(function)
        first = parts[0] if parts else 0
        return first if first & KIND == GLOBAL and first not in self.watched else 0

    def owner_by_partial(self, function: int, index: int) -> int:
        """Whose instance such a call gives: of ``partial(Class.__new__, Class)`` the class, else the function."""
        what = self._values.globals[index]
        parts = self._parts_of_partial(function)
        if what is not None and what.name.endswith(".__new__") and len(parts) > 1 and parts[1] & KIND == GLOBAL:
            return parts[1] >> 4
        return index

    def _parts_of_partial(self, function: int) -> Sequence[int]:
        """The function of a partial and its arguments, by the state that it was given last."""
        if function not in self._states_of_partials:
            return self._of_call(function) or () if len(self._states_of_partials) < _MOST_PARTIALS else ()
        state = self._states_of_partials[function]
        parts = self._values.items(state) if state & KIND == TUPLE else None
        if parts is None or len(parts) != 4:
            return ()
        return parts[0], *((self._values.items(parts[1]) if parts[1] & KIND == TUPLE else None) or ())

    def built(self, target: int, state: int) -> None:
        """The result of a call was given a state."""
        states = self._states_of_partials
        if self._values.owner(target) == _PARTIAL and (target in states or len(states) < _MOST_PARTIALS):
            states[target] = state

    def _of_call(self, result: int) -> Sequence[int] | None:
        """The arguments of the call that gave a value."""
        call = self._values.items(result) if result & KIND == RESULT else None
        return self._values.items(call[1]) if call is not None and call[1] & KIND == TUPLE else None

    def variant(self, index: int, parts: Sequence[int], result: int, offset: int) -> str:
        """The text of a call that is distinguished from others of the same function; empty where it is not."""
        what = self._values.globals[index]
        arguments = (self._values.items(parts[1]) if parts[1] & KIND == TUPLE else None) or ()
        nested = any(one & KIND == RESULT for one in arguments)
        if what in _HASHERS:
            for argument in arguments:
                for item in (self._values.items(argument) if argument & KIND in (LIST, TUPLE) else None) or ():
                    self.hashed(offset, item)
                    for key in ((self._values.items(item) if item & KIND == LIST else None) or ())[:1]:
                        self.hashed(offset, key)
        if what in _INSTANCE_MAKERS:
            self._instance_made(offset, what, arguments)
            return ""
        if what in _SPELLED_NUMBERS:
            for argument in arguments:
                if self._is_long_number(argument):
                    self._notes.unresolved(offset, f"{what.path} is handed a number of unusual length")
        if not (
            nested
            or what in _ALWAYS_APART
            or (what in _BYTES and any(self._values.integer(one) is not None for one in arguments))
            or (what in _SPELLED_NUMBERS and any("e" in (self._values.text(one) or "").lower() for one in arguments))
        ):
            return ""
        texts = self._variants.setdefault(index, set())
        if len(texts) < MOST_APART:
            text = self._values.shown(result)
            texts.add(text)
            return text
        if nested:
            self._notes.unresolved(
                offset, f"there are more than {MOST_APART} different calls of {self.words(parts[0])}"
            )
        return ""

    def _instance_made(self, offset: int, what: Global, arguments: Sequence[int]) -> None:
        """``copyreg`` makes instances as a call does: of these classes, pickle hands over values and no call."""
        place = 1 if what.name == "_reconstructor" else 0
        made = arguments[place] if len(arguments) > place else EMPTY
        of = self._values.globals[made >> 4] if made & KIND == GLOBAL else None
        if of not in _APART:
            return
        rest = [*arguments[place + 1 :]]
        if what.name == "__newobj_ex__":
            rest = [item for one in rest if one & KIND == TUPLE for item in (self._values.items(one) or ())]
        spelled = of in _SPELLED_NUMBERS
        if any(one & KIND == RESULT or (spelled and "e" in (self._values.text(one) or "e").lower()) for one in rest):
            self._notes.unresolved(offset, f"{what.path} makes a {of.path} of something that may be without end")

    def _is_long_number(self, value: int) -> bool:
        """A number in words that is too long to be read here, or whose exponent stands behind what is shown."""
        text = self._values.text(value)
        return value & KIND == TEXT and (text is None or (len(text) > _SHOWN_NUMBER and "e" in text.lower()))

    def judge_dtype(self, offset: int, target: int, state: int) -> None:
        """The flags of a dtype state whether its elements are objects. If they are wrong, memory is read as pointers.

        numpy (1.2 to 2.4) writes 63 for objects, bit 0 for records that hold any, 8 for text, 0 for other plain ones.
        """
        values = self._values
        arguments = self._of_call(target)
        name = values.text(arguments[0]) if arguments else None
        parts = values.items(state) if state & KIND == TUPLE else None
        spelled = re.match(_DTYPE_NAME, name) if name is not None else None
        if spelled is None or parts is None:
            self._notes.unresolved(offset, "numpy.dtype is given a state that can't be known")
            return
        kind = spelled[1]
        if kind == "O":
            self._objects_in_dtypes = True
        if len(parts) < 8:  # before numpy 1.2: it works the flags out
            return
        flags = values.integer(parts[7])
        if kind == "O":
            sound = flags is not None and flags & 63 == 63
        elif kind == "V":
            holds = self._holds_objects(parts)
            sound = flags is not None and (flags & 1 == holds) and (holds or flags & 7 == 0)
            if holds:
                self._object_dtypes.add(target)
        else:
            sound = flags in (0, 8)
        if not sound:
            self._notes.unresolved(
                offset, f"the state of numpy.dtype({name!r}) has flags {flags}, which numpy does not write for it"
            )

    def _holds_objects(self, parts: Sequence[int]) -> bool:
        """Whether a record of numpy holds objects; where that is not known, whether there are any."""
        values = self._values
        inner: list[int] = []
        if parts[4] & KIND == DICT:
            fields = values.items(parts[4])
            if fields is None or len(fields) >= ENTRIES:
                return self._objects_in_dtypes
            inner += fields[1::2]
        if parts[2] & KIND == TUPLE:
            inner.append(parts[2])
        for one in inner:
            held = values.items(one) if one & KIND == TUPLE else None
            if not held:
                return self._objects_in_dtypes
            arguments = self._of_call(held[0])
            name = values.text(arguments[0]) if arguments else None
            if name is None:
                return self._objects_in_dtypes
            if held[0] in self._object_dtypes or "O" in name:
                return True
        return False

    def hashed(self, offset: int, key: int) -> None:
        """A key is hashed: that of a tuple costs what it holds, written out, however often the same tuple is in it."""
        if key & KIND == TUPLE and self._values.weight(key) > _HEAVIEST_KEY:
            self._notes.unresolved(offset, "a key is a tower of tuples: hashing it would take forever")

    def name_tensors(self, items: Sequence[int]) -> None:
        """Count the prefixes of keys that name tensors."""
        for key, value in zip(items[::2], items[1::2], strict=False):
            if value & KIND == RESULT and value >> 4 & OWNER in self.tensor_makers and (text := self._values.text(key)):
                self._notes.tensor_key(text)

    def requested_storage(self, identity: int) -> tuple[str, str, int | None] | None:
        """What a persistent id of torch requests: key, location, bytes; None for any other id."""
        values = self._values
        items = values.items(identity) if identity & KIND == TUPLE else None
        if items is None or not 5 <= len(items) <= 6 or values.text(items[0]) != "storage":
            return None
        kind, key, location = values.owner(items[1]), values.text(items[2]), values.text(items[3])
        if items[1] & KIND != GLOBAL or kind is None or key is None or location is None:
            return None
        if not (kind.module.startswith("torch") and kind.name.endswith("Storage")):
            return None
        width, number = ELEMENT_BYTES.get(kind.name), values.integer(items[4])
        return printable(key), printable(location, 60), None if width is None or number is None else width * number
