"""Convert the steps that lead to an object into text that a person can type after the variable.

A path holds only what can be typed: attributes, indices, keys, ``list(…)[i]`` for a member of a set or a key of a dict.
What is reached only through the state or the reduction of an object ends at that object, and words describe the rest.
If the object holds the same value as an attribute, that attribute is the path.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from functools import partial
from keyword import iskeyword
from types import MethodType
from typing import Any, NamedTuple

from . import object_layout

#: Longest text of one key.
_LONGEST_KEY = 60


class PathStep(NamedTuple):
    """One step from a container to what is in it."""

    container: Any
    #: ``root``; ``attribute`` (label: name), ``item`` (key), ``index``, ``member`` (number); ``step``: the label is a
    #: tuple with the kind of the step
    kind: str
    label: Any


class Owner(NamedTuple):
    """An instance on a path."""

    instance: Any
    #: name of the attribute that leads on
    attribute: str
    #: how much of the path leads to the instance: (pieces in front of it, pieces of it)
    reach: tuple[int, int]


class ObjectPath:
    """Where something is."""

    def __init__(self, name: str) -> None:
        self._front: list[str] = []  # of those that wrap it, the last one comes first
        self._pieces = [name]
        #: words for the steps after the end of the path: ``argument 1 of what its __reduce__ returns``
        self.inside = ""
        #: the instances on the path
        self.owners: list[Owner] = []
        #: what the path itself leads to, after how many steps
        self.end: Any = None
        self.steps = 0

    def add(self, piece: str) -> None:
        """Go on; a NUL in the piece stands for the path so far, where that is wrapped."""
        front, wraps, rest = piece.partition("\0")
        if wraps:
            self._front.append(front)
            self._pieces.append(rest)
        else:
            self._pieces.append(piece)

    def own(self, instance: Any, attribute: Any) -> None:
        """The path has come to an instance, and goes on by an attribute."""
        name = attribute if type(attribute) is str else ""
        self.owners.append(Owner(instance, name, (len(self._front), len(self._pieces))))

    def path_to(self, owner: Owner) -> str:
        """The path of an instance on the way."""
        front, pieces = owner.reach
        return "".join(self._front[:front][::-1]) + "".join(self._pieces[:pieces])

    def stop(self, inside: str, end: Any, steps: int) -> None:
        """No expression leads further: from here on the rest is words."""
        self.inside, self.end, self.steps = inside, end, steps

    def holder(self) -> Any:
        """The instance whose attribute the path ends with; None where it ends otherwise."""
        if self.inside or not self.owners or self.owners[-1].reach != (len(self._front), len(self._pieces) - 1):
            return None
        return self.owners[-1].instance

    @property
    def path(self) -> str:
        """The path as it can be typed."""
        return "".join(self._front[::-1]) + "".join(self._pieces)

    @property
    def text(self) -> str:
        """The path, and the words for the rest of the way."""
        return f"{self.path}, in {self.inside}" if self.inside else self.path


_WORDS = {
    "function": "the callable that its __reduce__ returns",
    "arguments": "the arguments that its __reduce__ returns",
    "setter": "the state setter that its __reduce__ returns",
    "state": "what its __getstate__ returns",
}
_TENSOR_HOLDERS = frozenset(["_modules", "_parameters", "_buffers"])


def place(name: str, steps: list[PathStep], target: Any) -> ObjectPath:
    """Where steps lead.

    :param name: what the first object is called
    :param target: the object at the end
    """
    where = ObjectPath(name)
    where.end, where.steps = target, len(steps)
    inside: list[str] = []
    nodes = [step.container for step in steps[1:]] + [target]
    number = 1
    while number < len(steps):
        step, child = steps[number], nodes[number]
        kind, label = step.kind, step.label
        if kind == "step":
            kind, label = label[0], label[1:] if len(label) > 2 else label[1] if len(label) == 2 else None
        if where.inside:
            inside.append(_typed(kind, label, None) or f", {_words(kind, label)}")
            number += 1
            continue
        if kind in ("state", "argument", "arguments", "function", "setter"):
            used, piece, attribute = _held(step.container, kind, label, steps, nodes, number)
            if piece is None:
                where.stop(_words(kind, label), step.container, number)
            else:
                if attribute is not None:
                    where.own(step.container, attribute)
                    shortcut = _submodule(step.container, attribute, steps, number + used - 1)
                    piece, used = (piece, used) if shortcut is None else (shortcut, used + 1)
                where.add(piece)
            number += used
            continue
        if kind == "attribute":
            where.own(step.container, label)
            shortcut = _submodule(step.container, label, steps, number)
            where.add(_attribute(step.container, label) if shortcut is None else shortcut)
            number += 0 if shortcut is None else 1
        elif step.kind != "step" or kind in ("element", "index") or _holds(step.container, kind, label, child):
            where.add(_typed(kind, label, step.container))
        else:
            where.stop(_words(kind, label), step.container, number)
        number += 1
    where.inside += "".join(inside)
    return where


def _typed(kind: str, label: Any, container: Any) -> str:
    """One step further, as it is typed; a NUL stands for the path so far, where that is wrapped.

    :param container: None after the end of what can be typed
    """
    if kind == "attribute":
        return f".{label}" if _is_name(label) else f".__dict__[{_literal(label)}]"
    if kind in ("index", "listed"):
        return f"[{label}]"
    if kind == "element":
        return f"[{', '.join(map(str, label))}]"
    if kind in ("member", "key"):
        return f", member {label}" if container is None else f"list(\0)[{label}]"
    if kind in ("item", "paired"):
        key, number = label if kind == "paired" else (label, None)
        literal = _literal(key)
        if literal is not None:
            return f"[{literal}]"
        if number is None and type(container) is dict:
            number = next((number for number, each in enumerate(container) if each is key), None)
        return f"[{_named(key)}]" if container is None or number is None else f"list(\0.values())[{number}]"
    return ""


def _holds(owner: Any, kind: str, label: Any, child: Any) -> bool:
    """Whether an object that gave items to its reduction holds this one under the same index or key."""
    cls = type(owner)
    try:
        if kind == "listed":
            base = next(base for base in (list, deque) if issubclass(cls, base))
            return base.__getitem__(owner, label) is child
        if type(owner) is dict:
            return True
        if kind == "paired" and _literal(label[0]) is not None:
            return dict.get(owner, label[0]) is child
        if kind == "key":
            return any(number == label and key is child for number, key in enumerate(dict.__iter__(owner)))
        return any(number == label[1] and value is child for number, value in enumerate(dict.values(owner)))
    except (StopIteration, IndexError, TypeError, RuntimeError):
        return False


def _words(kind: str, label: Any) -> str:
    if kind == "argument":
        return f"argument {label} of what its __reduce__ returns"
    if kind == "listed":
        return f"item {label} of what its __reduce__ returns"
    if kind == "key":
        return f"key {label} of what its __reduce__ returns"
    if kind == "paired":
        literal = _literal(label[0])
        return f"the value of {_named(label[0]) if literal is None else literal} in what its __reduce__ returns"
    return _WORDS.get(kind, kind)


def _attribute(owner: Any, name: Any) -> str:
    """An attribute of an instance. A property or another descriptor of that name would come first: not then."""
    hidden = hasattr(type(object_layout.defined(type(owner), name)), "__set__") if type(name) is str else True
    slot = (
        type(object_layout.defined(type(owner), name)).__name__ == "member_descriptor" if type(name) is str else False
    )
    if _is_name(name) and (not hidden or slot):
        return f".{name}"
    return f".__dict__[{_literal(name) or _named(name)}]"


def _is_name(name: Any) -> bool:
    return type(name) is str and name.isidentifier() and not iskeyword(name)


def _literal(key: Any) -> str | None:
    """A key as it is typed; None where it can't be typed, or only by code of its class."""
    kind = type(key)
    if kind in (int, bool, type(None), range) or (kind is float and abs(key) < float("inf")):
        return repr(key)
    if kind in (str, bytes):
        text = repr(key) if len(key) <= 10 * _LONGEST_KEY else None
        return text.encode("unicode_escape").decode() if text is not None and not text.isprintable() else text
    if kind is tuple:
        parts = [_literal(each) for each in key]
        if all(part is not None for part in parts) and len(parts) <= 10:
            return f"({', '.join(map(str, parts))}{',' if len(parts) == 1 else ''})"
    return None


def _named(key: Any) -> str:
    return f"<{type.__dict__['__name__'].__get__(type(key))}>"


def _submodule(owner: Any, name: Any, steps: list[PathStep], number: int) -> str | None:
    """``.encoder`` for ``._modules['encoder']``: torch's modules hand out what they hold there."""
    if name not in _TENSOR_HOLDERS or number + 1 >= len(steps) or steps[number + 1].kind not in ("item", "step"):
        return None
    if not object_layout.derives(type(owner), "torch.nn.modules.module.Module"):
        return None
    label = steps[number + 1].label
    key = label[1] if steps[number + 1].kind == "step" and label[0] == "paired" else label
    if type(key) is not str:
        return None
    if (
        _is_name(key)
        and object_layout.member(owner, key) is object_layout.MISSING
        and object_layout.defined(type(owner), key) is object_layout.MISSING
    ):
        return f".{key}"
    indexed = ("torch.nn.modules.container.Sequential", "torch.nn.modules.container.ModuleList")
    if key.isdecimal() and any(object_layout.derives(type(owner), each) for each in indexed):
        return f"[{key}]"
    if object_layout.derives(type(owner), "torch.nn.modules.container.ModuleDict"):
        literal = _literal(key)
        return None if literal is None else f"[{literal}]"
    return None


def _held(
    owner: Any, kind: str, label: Any, steps: list[PathStep], nodes: list[Any], number: int
) -> tuple[int, str | None, str | None]:
    """How something that a reduction of ``owner`` holds is reached from it without the reduction.

    :return: steps used; what is to be added to the path (a NUL stands for the path where it is wrapped), or None; and
        the name of the attribute
    """
    known = _known(owner, kind, label, steps, number)
    if known is not None:
        return known
    # a state is a dict of attributes, or a pair of such dicts, or (of dataclasses with slots) a sequence of fields; and
    # what __reduce__ gives is often what the object holds
    within = range(number, min(number + 3, len(steps)))
    for reach in within[1:]:
        name = _name_in(steps[reach])
        if type(name) is str and object_layout.member(owner, name) is nodes[reach]:
            return reach - number + 1, _attribute(owner, name), name
    for reach in within:
        found = object_layout.name_of_member(owner, nodes[reach])
        if found is not None:
            return reach - number + 1, _attribute(owner, found), found
        if reach + 1 < len(steps) and steps[reach + 1].kind not in ("item", "index", "step"):
            break
    return 1, None, None


def _name_in(step: PathStep) -> Any:
    if step.kind == "step":
        return step.label[1] if step.label[0] == "paired" else None
    return step.label


def _known(
    owner: Any, kind: str, label: Any, steps: list[PathStep], number: int
) -> tuple[int, str | None, str | None] | None:
    """The types of Python whose reduction is known: what their parts are called."""
    cls = type(owner)
    after = steps[number + 1] if number + 1 < len(steps) else None
    if kind == "argument":
        if cls is MethodType or cls.__name__ in ("builtin_function_or_method", "method-wrapper"):
            return 1, ".__self__", None
        if issubclass(cls, tuple):
            fields = object_layout.defined(cls, "_fields")
            if type(fields) is tuple and label >= 1 and label <= len(fields) and not _is_plain_tuple(steps, number):
                return 1, f".{fields[label - 1]}", None
            if after is not None and after.kind == "index":
                return 2, f"[{after.label}]", None
        if issubclass(cls, (set, frozenset)) and after is not None and after.kind == "index":
            return 2, f"list(\0)[{after.label}]", None
        if object_layout.derives(cls, "collections.defaultdict") and label == 0:
            return 1, ".default_factory", None
        if issubclass(cls, dict) and after is not None and after.kind == "item":
            literal = _literal(after.label)
            return None if literal is None else (2, f"[{literal}]", None)
        if issubclass(cls, BaseException):
            return 1, f".args[{label}]", None
    if kind == "argument" and issubclass(cls, partial) and label == 1 and after is not None:
        # as the reducer of multiprocessing has it: (func, args, keywords)
        return (2, f".args[{after.label}]", None) if after.kind == "index" else None
    if kind == "argument" and issubclass(cls, partial) and label == 2 and after is not None and after.kind == "item":
        literal = _literal(after.label)
        return None if literal is None else (2, f".keywords[{literal}]", None)
    if kind == "state" and issubclass(cls, partial) and after is not None and after.kind == "index":
        names = (".func", ".args", ".keywords", ".__dict__")
        return (2, names[after.label], None) if after.label < len(names) else None
    if kind == "argument" and issubclass(cls, partial) and label == 0:
        return 1, ".func", None
    if kind == "argument" and issubclass(cls, Enum):
        return 1, ".value", None
    return None


def _is_plain_tuple(steps: list[PathStep], number: int) -> bool:
    """Whether the step leads to the tuple of all elements, and not to one of them."""
    return (
        number + 1 < len(steps)
        and steps[number + 1].kind == "index"
        and type(steps[number + 1].container) is tuple
        and (
            tuple.__len__(steps[number + 1].container) == tuple.__len__(steps[number].container)
            and all(
                mine is its
                for mine, its in zip(
                    tuple.__iter__(steps[number + 1].container), tuple.__iter__(steps[number].container), strict=True
                )
            )
        )
    )
