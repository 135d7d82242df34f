"""Write the ``__getstate__`` and ``__setstate__`` that a class needs so that its objects can be pickled.

They are written from a :class:`.PickleReport`. What a class already has (slots, methods, base classes) is read from
the loaded modules. Nothing is imported, and no method of a class is called.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any, NamedTuple

from distcheck.core.model import grouped

from . import kinds
from .picklability import Offender, PickleReport

_INDENT = "    "
_ATTRIBUTE = re.compile(r"\.([^\W\d]\w*)")
#: How the dicts in which torch.nn.Module keeps its hooks are called, and those in which it keeps its parts.
_HOOKS = "_hooks"
#: Comments about what no class holds.
_LOOSE = 20
_MODULE_PARTS = ("_modules", "_parameters", "_buffers")


class _Class(NamedTuple):
    """What is known of a class that its methods have to fit to."""

    known: bool
    #: it comes with Python or with a package: no class to paste into
    library: bool
    slots: bool
    #: defined by the class itself
    own: frozenset[str]
    #: defined by one of its bases, ``object`` omitted
    inherited: frozenset[str]
    #: a data class whose attributes can't be set as usual
    frozen: bool = False
    #: ``__getnewargs__`` or ``__getnewargs_ex__``, where code of the class gives what a new object is made from
    arguments: str = ""


_METHODS = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")


def methods_for(report: PickleReport) -> list[tuple[str, str]]:
    """For each class that holds what can't be pickled: its name, and the source of the methods that drop it.

    The source compiles as it stands, inside of the class: objects that are loaded have None for what was omitted, and
    a comment states how each is made again. A class that can't be helped so has comments only.
    """
    return [
        (owner, "\n".join(_methods(owner, members)) + "\n")
        for owner, members in _by_owner(report.offenders).items()
        if owner
    ]


def state_methods(report: PickleReport) -> str:
    """All of :func:`methods_for` as one text, and comments for what no method helps; empty if all is well."""
    parts = []
    for owner, source in methods_for(report):
        parts.append(
            f"# in {'the class ' if source.startswith('def') or chr(10) + 'def' in source else ''}{owner}:\n{source}"
        )
    loose = [offender for offender in report.offenders if _owner(offender) is None]
    if loose:
        parts.append("\n".join(_loose(loose)) + "\n")
    return "\n".join(parts)


def _owner(offender: Offender) -> str | None:
    """The class to fix; None where there is none, or where its methods have no effect."""
    if offender.kind == "too-deep" or offender.attribute is None:
        return None
    return offender.owner


def _by_owner(offenders: tuple[Offender, ...]) -> dict[str, dict[str, list[Offender]]]:
    """Owner → attribute → offenders, in the order of the report."""
    found: dict[str, dict[str, list[Offender]]] = {}
    for offender in offenders:
        owner = _owner(offender)
        if owner is not None and offender.attribute is not None:
            found.setdefault(owner, {}).setdefault(offender.attribute, []).append(offender)
    # what is shared is found once: where one attribute is omitted, the others that lead there have to go as well
    for offender in offenders:
        owner = _owner(offender)
        if owner is None or not offender.owner_path:
            continue
        for alias in offender.aliases:
            start = _ATTRIBUTE.match(alias, len(offender.owner_path))
            if start is None or not alias.startswith(offender.owner_path) or start[1] == "__dict__":
                continue
            members = found[owner].setdefault(start[1], [])
            if not members:
                members.append(offender._replace(path=alias, attribute=start[1]))
    return found


def _loose(offenders: list[Offender]) -> Iterator[str]:
    """Comments for what no class holds: members of plain containers, functions, the object itself."""
    groups = grouped(offenders, lambda offender: (offender.type, kinds.pattern(offender.path)))
    for group in list(groups.values())[:_LOOSE]:
        more = f" and {len(group) - 1} more like it" if len(group) > 1 else ""
        yield f"# {kinds.shown(group[0].path)}{more}: no class holds it; {kinds.shown(group[0].fix, 400)}"
    if len(groups) > _LOOSE:
        yield f"# and {len(groups) - _LOOSE} other members that no class holds"


def _methods(owner: str, members: dict[str, list[Offender]]) -> Iterator[str]:
    found = _class_info(owner, next(iter(members.values()))[0].owner_has)
    parts = [name for name in members if name in _MODULE_PARTS]
    if found.library or parts == list(members):
        for name, offenders in members.items():
            yield from _elsewhere(owner, name, offenders, found.library)
        return
    for name in parts:
        yield from _elsewhere(owner, name, members[name], False)
    plain = {name: offenders for name, offenders in members.items() if name not in parts}
    if {"__reduce__", "__reduce_ex__"} & (found.own | found.inherited):
        yield f"# {owner} decides in its own __reduce__ what is pickled: drop these there"
        yield from (f"#   {name}: {_type_of(offenders)}" for name, offenders in plain.items())
        return
    if "__getstate__" in found.own:
        yield f"# {owner} has a __getstate__ already: put these lines in front of its return (state: what it returns)"
        for line in _dropping(plain):
            yield f"#   {line}"
        return
    if found.arguments:
        yield f"# {owner}.{found.arguments} returns what a new object is made from: drop these there too"
    yield from _getstate(found, plain)
    yield ""
    if "__setstate__" in found.own:
        yield f"# {owner} has a __setstate__ already: make these again at its end"
        yield from (
            f"#   {_again(name, offenders, frozen=found.frozen)}"
            for name, offenders in plain.items()
            if not _is_group(offenders)
        )
    else:
        yield from _setstate(found, plain)
    if any(_is_group(offenders) for offenders in plain.values()):
        yield ""
        yield from _rebuild(plain)


def _elsewhere(owner: str, name: str, offenders: list[Offender], library: bool) -> Iterator[str]:
    first = offenders[0]
    why = "is a class of a package" if library else "keeps its parts there"
    more = f" (and {len(offenders) - 1} more)" if len(offenders) > 1 else ""
    yield f"# {kinds.shown(first.path)}{more}: {owner} {why}; {kinds.shown(first.fix, 400)}"


def _getstate(found: _Class, members: dict[str, list[Offender]]) -> Iterator[str]:
    yield "def __getstate__(self):"
    if "__getstate__" in found.inherited:
        yield f"{_INDENT}state = dict(super().__getstate__())"
    elif found.slots:
        yield f"{_INDENT}import copyreg"
        yield ""
        yield f'{_INDENT}names = [*getattr(self, "__dict__", ()), *copyreg._slotnames(type(self))]  # as in pickle'
        yield f"{_INDENT}state = {{name: getattr(self, name) for name in names if hasattr(self, name)}}"
    else:
        yield f"{_INDENT}state = self.__dict__.copy()"
    for line in _dropping(members):
        yield f"{_INDENT}{line}"
    yield f"{_INDENT}return state"


def _dropping(members: dict[str, list[Offender]]) -> Iterator[str]:
    for name, offenders in members.items():
        place = f"state[{_quoted(name)}]"
        # hooks of a torch.nn.Module stand in dicts that have to stay dicts, of the same type
        empty = f"type({place})()" if name.startswith("_") and name.endswith(_HOOKS) else "None"
        yield f"{place} = {empty}  # {_type_of(offenders)}"


def _setstate(found: _Class, members: dict[str, list[Offender]]) -> Iterator[str]:
    yield "def __setstate__(self, state):"
    if "__setstate__" in found.inherited:
        yield f"{_INDENT}super().__setstate__(state)"
    elif found.slots:
        yield f"{_INDENT}for name, value in state.items():"
        yield f"{_INDENT * 2}object.__setattr__(self, name, value)"
    else:
        yield f"{_INDENT}self.__dict__.update(state)"
    for name, offenders in members.items():
        if not _is_group(offenders):
            yield f"{_INDENT}# {_again(name, offenders, frozen=found.frozen)}"


def _again(name: str, offenders: list[Offender], *, frozen: bool = False) -> str:
    """How an attribute is made again, as a comment."""
    inside = [offender for offender in offenders if not _is_itself(offender, name)]
    if inside:
        fix = kinds.shown(inside[0].fix.partition("; or ")[0], 300)
        how = "" if fix.startswith("take it out") else f": {fix}"
        return f"{_target(name)} is None now, for the sake of {kinds.shown(inside[0].path, 120)}{how}"
    made = kinds.recreate(offenders[0].type)
    if made and frozen:
        return f"object.__setattr__(self, {_quoted(name)}, {made})"
    if made:
        return f"{_target(name)} = {made}"
    return f"{_target(name)} is None now: {kinds.shown(offenders[0].fix.partition('; or ')[0], 300)}"


def _rebuild(members: dict[str, list[Offender]]) -> Iterator[str]:
    yield "def rebuild_groups(self):"
    yield f'{_INDENT}"""Call it on every rank after init_process_group: making a group is a collective."""'
    yield f"{_INDENT}import torch.distributed as dist"
    yield ""
    for name, offenders in members.items():
        if not _is_group(offenders):
            continue
        if offenders[0].type.rpartition(".")[2].startswith("ProcessGroup") and _is_itself(offenders[0], name):
            yield f"{_INDENT}# ranks: what dist.get_process_group_ranks gave for the old group; None: all"
            yield f"{_INDENT}{_assignment(name, 'dist.new_group(ranks=None)')}"
        else:
            yield f"{_INDENT}# {_again(name, offenders)}"


def _is_group(offenders: list[Offender]) -> bool:
    return any(offender.kind == "process-group" for offender in offenders)


def _is_itself(offender: Offender, name: str) -> bool:
    """Whether the attribute is the offender, and does not only hold it somewhere inside."""
    plain = name if not name.startswith("_") else name.rpartition("__")[2] or name
    return offender.path.endswith((f".{name}", f".{plain}"))


def _type_of(offenders: list[Offender]) -> str:
    types = list(dict.fromkeys(kinds.shown(offender.type) for offender in offenders))
    return ", ".join(types[:3]) + (" …" if len(types) > 3 else "")


def _quoted(name: str) -> str:
    quoted = ascii(name)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


def _target(name: str) -> str:
    return f"self.{name}" if name.isidentifier() else f"self.__dict__[{_quoted(name)}]"


def _assignment(name: str, value: str) -> str:
    return f"{_target(name)} = {value}"


def _class_info(owner: str, has: tuple[str, ...]) -> _Class:
    """What a class has: by its full name among the modules that are loaded, else what the report states of it."""
    cls = _class_named(owner)
    if cls is None:
        library = owner.partition(".")[0] in sys.stdlib_module_names
        return _Class(False, library, "__slots__" in has, frozenset(_METHODS) & frozenset(has), frozenset())
    mro = type.__dict__["__mro__"].__get__(cls)
    namespaces = [type.__dict__["__dict__"].__get__(base) for base in mro if base is not object]
    # the pair that dataclasses writes into frozen classes with slots gives way to one that is pasted
    own = frozenset(
        name for name in _METHODS if getattr(namespaces[0].get(name), "__module__", "dataclasses") != "dataclasses"
    )
    inherited = frozenset(name for name in _METHODS for names in namespaces[1:] if name in names)
    slots = any(names.get("__slots__") for names in namespaces)
    parameters = next((names["__dataclass_params__"] for names in namespaces if "__dataclass_params__" in names), None)
    given = [
        name
        for name in ("__getnewargs_ex__", "__getnewargs__")
        if any(type(names.get(name)) is FunctionType for names in namespaces)
    ]
    return _Class(
        True,
        kinds.is_library(cls),
        slots,
        own,
        inherited,
        frozen=getattr(parameters, "frozen", False) is True,
        arguments=given[0] if given else "",
    )


def _class_named(owner: str) -> type | None:
    """The loaded class of a full name; None where it can't be found so (it is defined in a function)."""
    parts = owner.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if type(module) is not type(sys):
            continue
        found: Any = vars(module).get(parts[length])
        for part in parts[length + 1 :]:
            if not issubclass(type(found), type):
                return None
            found = type.__dict__["__dict__"].__get__(found).get(part)
        return found if issubclass(type(found), type) else None
    return None
