"""Calls of ranks that belong together, and what is wrong with them if they do not fit."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NamedTuple

from .values import Group, Tensor


class Call:
    """One call of one rank that others take part in.

    ``kind`` is the function of ``torch.distributed``; messages are ``send`` and ``recv``.
    """

    __slots__ = (
        "agreed", "blocking", "file", "gives", "group", "index", "kind", "node", "peer", "rank", "tag", "takes"
    )  # fmt: skip

    def __init__(self, kind: str, file: int, node: ast.expr, group: Group) -> None:
        self.kind = kind
        self.file = file
        self.node = node
        self.group = group
        self.rank = -1
        self.index = -1
        #: what all ranks must pass alike: name → value; None is not known
        self.agreed: dict[str, Any] = {}
        #: the parts that it gives to the others, and the tensors or lists that receive theirs
        self.gives: list[Any] = []
        self.takes: list[Any] = []
        #: the other rank of a message
        self.peer = -1
        self.tag: Any = 0
        self.blocking = True


class Part(NamedTuple):
    """What one rank gives: number of elements, dtype, numbers; None is not known. ``form``: a tensor or an object."""

    size: int | None
    dtype: str | None
    data: Any
    form: str = "tensor"


class Fault(NamedTuple):
    """What goes wrong in a small world."""

    #: the rule
    code: str
    #: the call at which a rank fails or waits without end
    call: Call
    #: the rest of the sentence behind ``with 3 ranks, ``; ``{call}``, ``{other}`` and ``{line}`` are filled in
    message: str
    fix: str
    other: Call | None = None
    #: it counts only if it happens with any number of ranks
    with_any_number: bool = False
    #: it is wrong whatever the other ranks do
    alone: bool = False


class InvalidCall(Exception):  # noqa: N818 - control flow
    """torch refuses the call on this rank."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


class NotApplicable(Exception):  # noqa: N818 - control flow
    """The script cannot run with so few ranks."""


def compared(turn: Sequence[Call]) -> Fault | None:
    """Return what is wrong with the calls of one turn, None if they fit as far as is known."""
    first = turn[0]
    for call in turn[1:]:
        if call.kind != first.kind:
            return _other_call(first, call)
    for name in first.agreed:
        known = [call for call in turn if call.agreed.get(name) is not None]
        for call in known[1:]:
            if call.agreed[name] != known[0].agreed[name]:
                return _other_argument(known[0], call, name)
    for giver in turn:
        for taker in turn:
            fault = _part_fault(turn, giver, taker)
            if fault is not None:
                return fault
    return None


def _other_call(one: Call, other: Call) -> Fault:
    code = "DC706" if "new_group" in (one.kind, other.kind) else "DC701"
    return Fault(
        code,
        other,
        f"rank {other.rank} is in {{call}} while rank {one.rank} is in `{{other}}` in line {{line}}",
        "let all ranks of the group make the same calls in the same order",
        one,
    )


def _other_argument(one: Call, other: Call, name: str) -> Fault:
    if one.kind == "new_group":
        return Fault(
            "DC706",
            other,
            f"rank {other.rank} makes a group of ranks {list(other.agreed[name])} here while rank {one.rank} makes one "
            f"of ranks {list(one.agreed[name])} in line {{line}}",
            "let every rank create every group, in one order",
            one,
        )
    return Fault(
        "DC709",
        other,
        f"rank {other.rank} passes {{call}} the {name} {_shown(other.agreed[name])}, and rank {one.rank} "
        f"{_shown(one.agreed[name])}",
        f"pass the same {name} on all ranks",
        one,
    )


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _part_fault(turn: Sequence[Call], giver: Call, taker: Call) -> Fault | None:
    """Return what is wrong with the part that one rank gives another, None if it fits as far as is known."""
    if not taker.takes or len(giver.gives) not in (1, len(turn)) or len(taker.takes) not in (1, len(turn)):
        return None
    place, source = turn.index(taker), turn.index(giver)
    given = giver.gives[place if len(giver.gives) > 1 else 0]
    taken = taker.takes[source if len(taker.takes) > 1 else 0]
    if not isinstance(given, Part) or not isinstance(taken, Part) or taken.form == "any":
        return None
    return _size_fault(giver, taker, given, taken, exact=True)


def message_fault(one: Call, other: Call) -> Fault | None:
    """Return what is wrong with a message, from the call that sends it and the one that receives it."""
    given, taken = one.gives[0], other.takes[0]
    if given.form != taken.form:
        return Fault(
            "DC709",
            other,
            f"rank {other.rank} receives {_an(taken.form)} here, and rank {one.rank} sends {_an(given.form)} in line "
            "{line}",
            "use send with recv, and send_object_list with recv_object_list",
            one,
        )
    return _size_fault(one, other, given, taken, exact=False)


def _an(form: str) -> str:
    return "a tensor" if form == "tensor" else "objects"


def _size_fault(one: Call, other: Call, given: Part, taken: Part, *, exact: bool) -> Fault | None:
    if given.form != "tensor" or taken.form != "tensor":
        return None
    fits = True
    if given.size is not None and taken.size is not None:
        fits = given.size == taken.size if exact else given.size <= taken.size
    if not fits:
        return Fault(
            "DC709",
            other,
            f"rank {other.rank} has room for {taken.size} elements in {{call}}, and rank {one.rank} gives {given.size}"
            + (" in line {line}" if not exact else ""),
            "let both sides use one size: send the size first, or pad to the largest one",
            one,
        )
    if given.dtype is not None and taken.dtype is not None and given.dtype != taken.dtype:
        return Fault(
            "DC709",
            other,
            f"rank {other.rank} receives {taken.dtype} in {{call}}, and rank {one.rank} gives {given.dtype}"
            + (" in line {line}" if not exact else ""),
            "give both tensors one dtype",
            one,
        )
    return None


def part_of(value: Any) -> Part:
    """Return a tensor as what a rank gives."""
    if isinstance(value, Tensor):
        return Part(value.count, value.dtype, value.data)
    return Part(None, None, None)
