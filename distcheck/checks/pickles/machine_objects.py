"""Opcodes that build values of others: containers, globals, calls and their results."""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Sequence

from .machine_arguments import ArgumentOpcodes
from .trace import Global
from .trace_builder import StoppedError
from .values import (
    CONSTANT,
    DICT,
    EMPTY,
    FROZENSET,
    GLOBAL,
    KIND,
    KIND_NAMES,
    LIST,
    LONGEST_NAME,
    OWNER,
    PERSISTENT,
    RESULT,
    SET,
    TEXT,
    TUPLE,
    UNKNOWN,
    printable,
)

#: Different globals that one stream may name; checkpoints name some dozens.
_MOST_GLOBALS = 10_000
#: Methods that pickle calls: where an instance has one of that name, its own is called. No pickle writes these.
_HOOKS = frozenset({"__setstate__", "__getstate__", "__reduce__", "__reduce_ex__", "__class__"})
#: What no unpickler takes for a name (STACK_GLOBAL).
_NEVER_TEXT = frozenset({CONSTANT, TUPLE, LIST, DICT, SET, FROZENSET, GLOBAL})
#: What Python can't hash, what hashes what it holds, and keys that are checked.
UNHASHABLE = frozenset({LIST, DICT, SET})
_HASHING = frozenset({DICT, SET, FROZENSET})
#: What a list does not take as an index.
_NO_INDEX = frozenset({TEXT, TUPLE, LIST, DICT, SET, FROZENSET})


class ObjectOpcodes(ArgumentOpcodes):
    """Follows what containers hold, what is named and what is called."""

    # Containers.

    def _list(self, offset: int) -> int:
        return self._gather(offset, LIST)

    def _dict(self, offset: int) -> int:
        return self._gather(offset, DICT)

    def _frozenset(self, offset: int) -> int:
        return self._gather(offset, FROZENSET)

    def _gather(self, offset: int, kind: int) -> int:
        items = self._marked(offset)
        if self.known.watched and not self.known.watched.isdisjoint(items):
            self.known.handed_over(offset, items, "put into a container")
        for item in items[::2] if kind == DICT else items if kind == FROZENSET else ():
            self._hash(offset, item, kind)
        if kind == DICT:
            if len(items) & 1:
                raise self._no_value(offset)
            if self.known.tensor_makers:
                self.known.name_tensors(items)
        self.stack.append(self.values.keep(kind, items))
        return offset + 1

    def _empty_set(self, offset: int) -> int:
        self.stack.append(self.values.next_serial() << 4 | SET)
        return offset + 1

    def _additems(self, offset: int) -> int:
        items = self._marked(offset)
        target = self.stack[-1]
        if not target:
            raise self._underflow(offset)
        if self.known.watched and not self.known.watched.isdisjoint(items):
            self.known.handed_over(offset, items, "put into a container")
        for item in items:
            self._hash(offset, item, target)
        self._fill(offset, target, items)
        return offset + 1

    def _hash(self, offset: int, key: int, target: int) -> None:
        """A key or a member is hashed: what no container of Python takes ends the load."""
        self.known.hashed(offset, key)
        if key & KIND in UNHASHABLE and target & KIND in _HASHING:
            words = f"uses a {KIND_NAMES[key & KIND]} as a key or member of a {KIND_NAMES[target & KIND]}"
            self._later("broken", offset, f"{words}, which can't be hashed")

    def _write(self, offset: int, target: int, names: Sequence[str] = ()) -> list[int]:
        """The entry of the notes for filling this target; the caller counts it up."""
        kind = target & KIND
        index = target >> 4 if kind == GLOBAL else target >> 4 & OWNER if kind == RESULT else 0
        words = "unknown" if kind == RESULT and not index else KIND_NAMES[kind]
        return self.notes.write(self._name(offset), words, index, offset, names)

    def _fill(self, offset: int, target: int, items: Sequence[int]) -> None:
        """Items are added to what is no plain list (APPEND, APPENDS) or dictionary (SETITEM, SETITEMS)."""
        self._write(offset, target)[1] += 1
        kind = target & KIND
        if kind == LIST and items and items[0] & KIND in _NO_INDEX and self._name(offset).startswith("SETITEM"):
            self._later("broken", offset, f"uses a {KIND_NAMES[items[0] & KIND]} as the index of a list")
        if kind in (LIST, DICT, SET):
            self.values.fill(target, items)
        elif kind in (GLOBAL, PERSISTENT):
            self.notes.unresolved(offset, f"{self._name(offset)} fills {self.known.words(target)}")

    # Globals.

    def _known(self, module: str, name: str, opcode: str, offset: int) -> int:
        """The value for a global that the stream names, under its name in Python 3."""
        written = None
        if self.protocol < 3:
            mapped = NAME_MAPPING.get((module, name)) or (IMPORT_MAPPING.get(module, module), name)
            if mapped != (module, name):
                written = f"{module}.{name}"
                module, name = mapped
        return self._intern(Global(module, name), written, opcode, offset)

    def _intern(self, what: Global, written: str | None, opcode: str, offset: int) -> int:
        index = self.indexes.get((what, written))
        if index is None:
            index = len(self.values.globals)
            if index > _MOST_GLOBALS:
                raise StoppedError("budget", offset, f"more than {_MOST_GLOBALS} different globals")
            self._spend(offset, len(what.module) + len(what.name) + len(written or ""))
            self.values.globals.append(what)
            self.indexes[what, written] = index
            if written is not None:
                self.written[index] = written
            self.known.add(index, what)
        self.notes.naming(index, opcode, offset)
        return index << 4 | GLOBAL

    def _named_by_lines(self, offset: int) -> tuple[int, int]:
        """The global that the two lines after an opcode name, and the offset after them."""
        window = self.window
        start = offset + 1 - window.base
        end = window.data.find(b"\n", window.data.find(b"\n", start) + 1) if start >= 0 else -1
        name = self._name(offset)
        if end > start:
            raw = window.data[start : end + 1]
            value = self.lines.get(raw)
            if value is not None:
                self.notes.naming(value >> 4, name, offset)
                return value, window.base + end + 1
        first, first_size, middle = self._line(offset, offset + 1)
        second, second_size, after = self._line(offset, middle) if middle < self.size else (b"", 0, middle)
        cut = self.window.read(after - 1, 1) != b"\n" or middle == after
        if cut and not first_size:
            raise self._cut(offset)
        if not first_size or not (second_size or cut):
            raise self._impossible(offset, "has an empty name")
        if cut and name == "GLOBAL":
            # The name is unknown; unpicklers import the module all the same.
            second, second_size = b"", 0
        parts = []
        for line, size in ((first, first_size), (second, second_size)):
            try:
                text = line[:LONGEST_NAME].decode("ascii" if name == "INST" else "utf-8")
            except UnicodeDecodeError:
                if size <= LONGEST_NAME:
                    raise self._impossible(offset, "has a name that can't be decoded") from None
                text = line[:LONGEST_NAME].decode("latin-1")
            if size > LONGEST_NAME:
                self.notes.unresolved(offset, f"a global has a name of {size} bytes")
            parts.append(text)
        value = self._known(parts[0], parts[1], name, offset)
        if len(self.lines) < _MOST_GLOBALS and after - offset < 200:
            self.lines[window.read(offset + 1, after - offset - 1)] = value
        return value, after

    def _global(self, offset: int) -> int:
        value, after = self._named_by_lines(offset)
        self.stack.append(value)
        return after

    def _stack_global(self, offset: int) -> int:
        module, name = self._top(offset, 2)
        value = self.pairs.get((module, name))
        if value is not None:
            self.notes.naming(value >> 4, "STACK_GLOBAL", offset)
        else:
            module_text, name_text = self.values.text(module), self.values.text(name)
            if module_text is not None and name_text is not None:
                value = self._known(module_text, name_text, "STACK_GLOBAL", offset)
                if len(self.pairs) >= _MOST_GLOBALS:
                    self.pairs.clear()
                self.pairs[module, name] = value
            else:
                for part in (module, name):
                    if part & KIND in _NEVER_TEXT:
                        raise self._impossible(offset, f"takes {self.known.words(part)} for a name")
                self.notes.unresolved(offset, "STACK_GLOBAL fetches a global by a name that is computed or too long")
                value = offset << 4 | UNKNOWN
        self.stack.append(value)
        return offset + 1

    # Calls.

    def _apply(self, offset: int, opcode: str, parts: list[int]) -> int:
        """What a call gives; ``parts``: what is called, its arguments, perhaps its keyword arguments."""
        function = parts[0]
        if function & KIND == RESULT:
            function = self.known.called_by_partial(function) or function
        if self.known.watched and not self.known.watched.isdisjoint(parts[1:]):
            self.known.handed_over(offset, parts[1:], "handed to a call")
        if function & KIND == GLOBAL:
            index = function >> 4
            owner = index
            if function != parts[0]:
                owner = self.known.owner_by_partial(parts[0], index)
            elif index in self.known.special:
                owner = self.known.special_call(index, parts[1], offset)
            result = self.values.keep_result(owner, parts)
            variant = ""
            if index in self.known.apart and parts[1] != EMPTY:
                variant = self.known.variant(index, parts, result, offset)
            self._called(index, opcode, offset, result, variant=variant)
            return result
        result = self.values.keep_result(0, parts)
        text = "…"
        if self.renderings_left > 0:
            self.renderings_left -= 1
            text = self.values.shown(result)
        self.notes.unknown_call(opcode, text, offset)
        self.notes.unresolved(offset, f"{opcode} calls {self.known.words(function)}")
        return result

    def _called(
        self, index: int, opcode: str, offset: int, result: int, *, variant: str = "", suffix: str = ""
    ) -> None:
        entry = self.notes.calls.get((index, opcode, variant))
        if entry is None:
            text = variant or self.values.shown(result, 80 if suffix else 200) + suffix
            self._spend(offset, len(text))
            entry = self.notes.calls[index, opcode, variant] = ([offset, 0], printable(text))
        entry[0][1] += 1

    def _reduce(self, offset: int) -> int:
        function, arguments = self._top(offset, 2)
        if function in self.known.getters:
            folded = self._fold(arguments, offset)
            if folded:
                self.stack.append(folded)
                return offset + 1
            self.notes.unresolved(offset, "builtins.getattr is called with what can't be known")
        self.stack.append(self._apply(offset, "REDUCE", [function, arguments]))
        return offset + 1

    def _newobj(self, offset: int) -> int:
        self.stack.append(self._apply(offset, "NEWOBJ", self._top(offset, 2)))
        return offset + 1

    def _fold(self, arguments: int, offset: int) -> int:
        """``getattr(Outer, 'Inner')`` is the global ``Outer.Inner``; 0 where it is none.

        So is a bound method, which is written as ``getattr(instance, 'method')``, where the class is known.
        """
        items = self.values.items(arguments) if arguments & KIND == TUPLE else None
        if items is None or len(items) != 2 or items[0] in self.known.watched:
            return 0
        outer, attribute = self.values.owner(items[0]), self.values.text(items[1])
        if outer is None or not attribute or len(outer.name) + len(attribute) > LONGEST_NAME:
            return 0
        index = items[0] >> 4
        if items[0] & KIND == RESULT:
            index &= OWNER
            is_class = outer.name.rpartition(".")[2].lstrip("_")[:1].isupper()
            if not is_class or (attribute.startswith("__") and attribute.endswith("__")):
                return 0
        written = self.written.get(index)
        return self._intern(
            Global(outer.module, f"{outer.name}.{attribute}"),
            f"{written}.{attribute}" if written is not None else None,
            "getattr",
            offset,
        )

    def _newobj_ex(self, offset: int) -> int:
        self.stack.append(self._apply(offset, "NEWOBJ_EX", self._top(offset, 3)))
        return offset + 1

    def _inst(self, offset: int) -> int:
        value, after = self._named_by_lines(offset)
        self.stack.append(self._apply(offset, "INST", [value, self._arguments(offset, self._marked(offset))]))
        return after

    def _obj(self, offset: int) -> int:
        items = self._marked(offset)
        if not items:
            raise self._underflow(offset)
        self.stack.append(self._apply(offset, "OBJ", [items[0], self._arguments(offset, items[1:])]))
        return offset + 1

    def _arguments(self, offset: int, items: list[int]) -> int:
        """The tuple that INST and OBJ make of what lies above the mark."""
        if self.known.watched and not self.known.watched.isdisjoint(items):
            self.known.handed_over(offset, items, "handed to a call")
        return self.values.keep(TUPLE, items) if items else EMPTY

    def _build(self, offset: int) -> int:
        (state,) = self._top(offset, 1)
        target = self.stack[-1]
        if not target:
            raise self._underflow(offset)
        if state in self.known.watched:
            self.known.handed_over(offset, (state,), "used as state")
        names = self._attributes(state)
        self._write(offset, target, names)[1] += 1
        kind = target & KIND
        if not _HOOKS.isdisjoint(names):
            hook = next(name for name in names if name in _HOOKS)
            self.notes.unresolved(
                offset, f"BUILD gives {self.known.words(target)} a {hook} of its own, which others call"
            )
        if kind == RESULT and (index := target >> 4 & OWNER):
            known = (index, "BUILD", "") in self.notes.calls
            suffix = "" if known else f".__setstate__({self.values.shown(state, 100)})"
            self._called(index, "BUILD", offset, target, suffix=suffix)
            self.known.built(target, state)
            if index in self.known.dtypes:
                self.known.judge_dtype(offset, target, state)
        elif kind in (GLOBAL, PERSISTENT, UNKNOWN):
            listed = f" ({printable(', '.join(names[:5]), 100)})" if names else ""
            self.notes.unresolved(offset, f"BUILD sets attributes of {self.known.words(target)}{listed}")
        return offset + 1

    def _attributes(self, state: int) -> list[str]:
        """The names that BUILD would set, as far as they are known."""
        states = [state] if state & KIND != TUPLE else [*(self.values.items(state) or ())]
        names = []
        for one in states[:2]:
            if one & KIND == DICT:
                for key in (self.values.items(one) or ())[::2]:
                    if (text := self.values.text(key)) is not None:
                        names.append(printable(text, 60))
        return names

    def _persid(self, offset: int) -> int:
        line, _, after = self._line(offset, offset + 1)
        self.notes.foreign_id(offset, f"the text {printable(repr(line[:60].decode('latin-1')))}")
        self.stack.append(self.values.next_serial() << 4 | PERSISTENT)
        return after

    def _binpersid(self, offset: int) -> int:
        (identity,) = self._top(offset, 1)
        if identity in self.known.watched:
            self.known.handed_over(offset, (identity,), "a persistent id")
        requested = self.known.requested_storage(identity)
        if requested is not None:
            self.notes.storage(offset, *requested)
        elif self.renderings_left > 0:
            self.renderings_left -= 1
            self.notes.foreign_id(offset, self.values.shown(identity, 120))
        # torch before 1.6 wrote classes of modules so, with their source; it gives the class back.
        items = self.values.items(identity) if identity & KIND == TUPLE else None
        if items and len(items) == 4 and items[1] & KIND == GLOBAL and self.values.text(items[0]) == "module":
            self.stack.append(items[1])
        else:
            self.stack.append(self.values.keep(PERSISTENT, (identity,)))
        return offset + 1
