"""Inspect objects and classes as the interpreter stores them, without the hooks that a class may define.

Nothing here runs code of the class: no property, no ``__getattr__``, no ``__getattribute__``, no metaclass.
"""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

_MRO = type.__dict__["__mro__"].__get__
_NAMES = type.__dict__["__dict__"].__get__
_MODULE = type.__dict__["__module__"].__get__
_NAME = type.__dict__["__name__"].__get__
MISSING: Any = object()


def bases(kind: type) -> tuple[type, ...]:
    """The method resolution order."""
    return _MRO(kind) or (kind,)


def names_of(kind: type) -> Any:
    """What the body of a class defines, read-only."""
    return _NAMES(kind)


def module_of(kind: type) -> str:
    """The name of the module in a class's ``__module__``."""
    try:
        return str(_MODULE(kind))
    except AttributeError:
        return ""


def defined(kind: type, name: str) -> Any:
    """What a class or the nearest of its bases has under a name, as it stands there; MISSING."""
    for base in bases(kind):
        names = _NAMES(base)
        if name in names:
            return names[name]
    return MISSING


def derives(kind: type, name: str) -> bool:
    """Whether a class is, or derives from, one of this full name (``torch.nn.modules.module.Module``)."""
    module, _, own = name.rpartition(".")
    return any(_NAME(base) == own and _NAMES(base).get("__module__") == module for base in bases(kind))


def attributes(value: object) -> dict[Any, Any] | None:
    """The ``__dict__`` of an object; None where it has none, or hides it."""
    descriptor = defined(type(value), "__dict__")
    # types.SimpleNamespace has it as a member
    if type(descriptor) is not GetSetDescriptorType and type(descriptor) is not MemberDescriptorType:
        return None
    try:
        found = descriptor.__get__(value)
    except (AttributeError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def member(value: object, name: object) -> Any:
    """What an object holds under a name, in its ``__dict__`` or in a slot; MISSING."""
    if type(name) is not str:
        return MISSING
    own = attributes(value)
    if own is not None and name in own:
        return own[name]
    descriptor = defined(type(value), name)
    if type(descriptor) is MemberDescriptorType:
        try:
            return descriptor.__get__(value)
        except (AttributeError, TypeError):
            return MISSING
    return MISSING


def name_of_member(value: object, content: object) -> str | None:
    """The name under which an object holds just this thing; None where it holds it under none, or hides it."""
    own = attributes(value)
    if own is not None:
        for name, held in own.items():
            if held is content and type(name) is str:
                return name
    for base in bases(type(value)):
        for name, descriptor in _NAMES(base).items():
            if type(descriptor) is MemberDescriptorType and member(value, name) is content:
                return str(name)
    return None


def made_at_run_time(kind: type) -> bool:
    """Whether a class came into being while the program runs (Py_TPFLAGS_HEAPTYPE, Include/object.h)."""
    return bool(type.__dict__["__flags__"].__get__(kind) & (1 << 9))


def only_attributes(kind: type) -> bool:
    """Whether instances consist of nothing but their ``__dict__``: no slots, no content of a built-in or C base.

    The rule by which ``object.__reduce_ex__`` decides whether it can pickle an instance (Objects/typeobject.c).
    """
    read = type.__dict__
    if read["__itemsize__"].__get__(kind) or not read["__dictoffset__"].__get__(kind):
        return False
    pointer = 8 if object.__basicsize__ == 16 else object.__basicsize__ // 2
    size = object.__basicsize__ + pointer
    if read["__weakrefoffset__"].__get__(kind):
        size += pointer
    return bool(read["__basicsize__"].__get__(kind) <= size)
