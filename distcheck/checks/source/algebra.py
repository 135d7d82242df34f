"""The algebra of ranks: what arithmetic, texts and comparisons make of values, and for whom a value counts as true.

Pure functions of values; where a value comes from is for :mod:`.evaluate`.
"""

from __future__ import annotations

import operator as op
from collections.abc import Callable, Mapping
from typing import Any

from distcheck.core.patterns import lazy

from . import vocabulary
from .values import (
    ALWAYS,
    MOST_STEPS,
    NOT_CLEAR,
    NOTHING_KNOWN,
    PARTIAL,
    RANKS,
    SIZES,
    Atom,
    Certainty,
    FlowStep,
    Kind,
    NoConstant,
    RankCondition,
    Value,
    Who,
    added,
    both,
    const,
    either,
    join,
    value_of,
)
from .vocabulary import word_set

#: A replacement field of a format string.
_FIELD = lazy(r"\{[^{}]*\}")
#: Names that a rank is compared with where one rank gives to all others, or takes from them.
ROOTS = word_set("src dst root source destination src_rank dst_rank main_rank master_rank group_src group_dst")
#: Who may be all ranks of a job.
WIDE = frozenset({Who.EVERYONE, Who.DISTRIBUTED, Who.SINGLE, Who.UNCLEAR, Who.BY_DATA})


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Return the algebra of ranks: ``rank % device_count`` is local, ``node_rank * gpus + local_rank`` is global."""
    one, other = left.rank, right.rank
    sizes = right.get(Kind.DEVICE_COUNT, Kind.LOCAL_WORLD_SIZE)
    if operator == "%" and left.has(Kind.CONST, Kind.TEXT) and isinstance(left.constant, str):
        return text_of(
            [left, right]
            if not right.has(Kind.TUPLE)
            else [left, *next(atom.items for atom in right if atom.kind == Kind.TUPLE)]
        )
    if operator == "+" and (
        left.has(Kind.TEXT) or right.has(Kind.TEXT) or isinstance(left.constant, str) or isinstance(right.constant, str)
    ):
        return text_of([left, right])
    if one is not None and operator == "%" and one.kind in (Kind.GLOBAL_RANK, Kind.RANK):
        if sizes is not None:
            return value_of(Kind.LOCAL_RANK, "modulo", certainty=one.certainty, flow=one.flow)
        return value_of(Kind.RANK_DEPENDENT, "modulo", of=(one,), certainty=one.certainty, flow=one.flow)
    if one is not None and operator == "//" and one.kind in (Kind.GLOBAL_RANK, Kind.RANK) and sizes is not None:
        return value_of(Kind.NODE_RANK, certainty=one.certainty, flow=one.flow)
    if operator == "*":
        for rank, size in ((one, right), (other, left)):
            if rank is not None and (
                (rank.kind == Kind.NODE_RANK and size.rank is None)
                or (rank.kind in (Kind.RANK, Kind.GLOBAL_RANK) and size.has(Kind.DEVICE_COUNT, Kind.LOCAL_WORLD_SIZE))
            ):
                return value_of(Kind.NODE_OFFSET, certainty=rank.certainty, flow=rank.flow)
        if left.has(*SIZES) and right.has(*SIZES):
            return value_of(Kind.WORLD_SIZE)
    if operator == "+":
        for offset, rank in ((left.get(Kind.NODE_OFFSET), other), (right.get(Kind.NODE_OFFSET), one)):
            if offset is not None and rank is not None:
                return value_of(
                    Kind.GLOBAL_RANK,
                    "sum",
                    # the sum is evidence for what both parts are called
                    certainty=min(max(offset.certainty, rank.certainty), Certainty.MERGED),
                    flow=offset.flow + rank.flow,
                )
        if left.has(Kind.NODE_OFFSET) or right.has(Kind.NODE_OFFSET):
            return value_of(Kind.GLOBAL_RANK, "sum", certainty=Certainty.GUESSED)
    data = [atom for atom in (*left, *right) if atom.kind == Kind.BATCH]
    if data:
        # counters of samples grow by the size of a batch, which is mostly the same on all ranks
        return NOTHING_KNOWN if all(atom.const in SIZES_OF_DATA for atom in data) else value_of(Kind.BATCH)
    rank = one or other
    if (
        rank is not None
        or left.has(Kind.RANK_DEPENDENT, Kind.NODE_OFFSET)
        or right.has(Kind.RANK_DEPENDENT, Kind.NODE_OFFSET)
    ):
        return value_of(
            Kind.RANK_DEPENDENT,
            operator,
            of=(rank,) if rank is not None else (),
            certainty=Certainty.PROVEN if rank is None else rank.certainty,
            flow=rank.flow if rank is not None else (),
        )
    if left.has(Kind.WRAPPED) or right.has(Kind.WRAPPED):
        return NOTHING_KNOWN
    if left.has(*SIZES) or right.has(*SIZES):
        return value_of(Kind.UNIFORM, "size")
    one_constant, other_constant = left.constant, right.constant
    if isinstance(one_constant, (int, float)) and isinstance(other_constant, (int, float)):
        number = compute(operator, one_constant, other_constant)
        return const(number) if number is not None else value_of(Kind.UNIFORM)
    if left.only(Kind.CONST, Kind.UNIFORM) and right.only(Kind.CONST, Kind.UNIFORM):
        return value_of(Kind.UNIFORM)
    return NOTHING_KNOWN


def text_of(parts: list[Value]) -> Value:
    """A text made of several values; a constant text stays one."""
    template = ""
    values: list[Atom] = []
    for part in parts:
        constant = part.constant
        if isinstance(constant, (str, int)) and not isinstance(constant, bool):
            template += (
                str(constant).replace("%d", "").replace("%s", "").replace("%i", "")
                if isinstance(constant, str)
                else str(constant)
            )
        else:
            text = part.get(Kind.TEXT)
            template += text.const if text is not None else "{}"
            values.extend(text.of if text is not None else part.atoms[:4])
    if not values:
        return const(template)
    return value_of(Kind.TEXT, template, of=tuple(values))


def formatted_text(template: str, parts: list[Value]) -> Value:
    """Return what ``format`` makes of a template; which value goes where is not kept."""
    values = [atom for part in parts for atom in part.atoms[:4]]
    if not values:
        return const(template)
    return value_of(Kind.TEXT, _FIELD.sub("{}", template), of=tuple(values))


def device_from(kind: Value, index: Value | None, call: tuple[int, int] | None) -> Value:
    """``torch.device(kind, index)``."""
    found = []
    for atom in kind:
        name, number = device_of(atom)
        atoms = index.atoms if index is not None else number
        found.append(Atom(Kind.DEVICE, name, of=atoms, when=atom.when, call=call))
    return join((Value(found),))


#: What gives the size of data, and nothing else of it.
SIZES_OF_DATA = ("len", "size", "numel")


def compare_atom(operator: str, atom: Atom, right: Value, root: bool) -> RankCondition | bool:
    """For whom one alternative compares so; ``root`` where the other side is called a source or destination."""
    negative = operator in ("!=", "is not", "not in")
    constant = right.constant
    if (
        atom.kind == Kind.CONST
        and atom.const in vocabulary.VARIABLES
        and operator in ("in", "not in")
        and right.named("os.environ")
    ):
        return RankCondition(Who.SINGLE if negative else Who.DISTRIBUTED)
    if atom.kind == Kind.CONST and operator in ("in", "not in") and right.only(Kind.TUPLE, Kind.LIST):
        listed = [item.constant for one in right for item in one.items]
        if len(right.atoms) == 1 and listed and NoConstant not in listed:
            return (atom.const in listed) is not negative
    if atom.kind == Kind.CONST and constant is not NoConstant:
        return compare_constants(operator, atom.const, constant)
    if constant is None and operator in ("is", "is not", "==", "!="):
        if atom.kind == Kind.ENV_TEXT or atom.kind in RANKS:
            return RankCondition(Who.DISTRIBUTED if negative else Who.SINGLE)
        return (
            NOT_CLEAR
            if atom.kind in (Kind.UNKNOWN, Kind.METHOD) and not (atom.kind == Kind.METHOD and atom.traced)
            else negative
        )
    if atom.kind in RANKS or (atom.kind == Kind.ENV_TEXT and atom.const in vocabulary.VARIABLES):
        kind = atom.kind if atom.kind in RANKS else vocabulary.VARIABLES[atom.const]
        if kind in SIZES:
            return compare_size(operator, as_number(constant))
        return compare_rank(operator, kind, atom.certainty, right, root)
    if atom.kind in SIZES:
        return compare_size(operator, constant)
    if atom.kind == Kind.RANK_DEPENDENT:
        return RankCondition(Who.SOME, atom.certainty)
    if atom.kind == Kind.BATCH or right.has(Kind.BATCH):
        return RankCondition(Who.BY_DATA)
    if right.has(Kind.RANK_DEPENDENT):
        return RankCondition(Who.SOME)
    if atom.kind == Kind.TEST and constant in (True, False) and operator in ("==", "!=", "is", "is not"):
        who = RankCondition(atom.const, atom.certainty)
        return who if bool(constant) != negative else who.inverse()
    if atom.kind in (Kind.UNIFORM, Kind.ENV_TEXT):
        return ALWAYS
    return NOT_CLEAR


def compare_size(operator: str, constant: Any) -> RankCondition:
    """``world_size > 1`` and the like: the same on all ranks."""
    if (operator, constant) in ((">", 1), (">=", 2), ("!=", 1)):
        return RankCondition(Who.DISTRIBUTED)
    if (operator, constant) in (("==", 1), ("<=", 1), ("<", 2)):
        return RankCondition(Who.SINGLE)
    return ALWAYS


def compare_rank(operator: str, kind: str, certainty: int, right: Value, root: bool) -> RankCondition:
    """``rank == 0``, ``local_rank in (-1, 0)``, ``rank < n`` and the like."""
    few = {Kind.GLOBAL_RANK: Who.MAIN, Kind.RANK: Who.MAIN, Kind.LOCAL_RANK: Who.LOCAL_MAIN}.get(kind, Who.SOME)
    if operator in ("in", "not in"):
        numbers: list[Any] = []
        for atom in right:
            if atom.kind in (Kind.TUPLE, Kind.LIST):
                numbers.extend(item.constant for item in atom.items)
        if not numbers or any(not isinstance(number, int) for number in numbers):
            return RankCondition(Who.MEMBERS, certainty)
        ranks = [number for number in numbers if number >= 0]
        who = RankCondition(
            (few if ranks == [0] else Who.ONE) if len(ranks) == 1 else Who.SOME if ranks else Who.SINGLE, certainty
        )
        return who if operator == "in" else who.inverse()
    number = as_number(right.constant) if right.constant is not NoConstant else NoConstant
    if right.constant is NoConstant:
        constants = {as_number(item) for item in right.constants if item is not None}
        if operator in ("==", "!="):
            if constants == {0} and not right.has(Kind.UNKNOWN):
                number = 0
            else:
                # which rank it is differs by caller or branch, and may be all of them one after another
                sure = root or right.has(Kind.UNIFORM, *SIZES) or bool(constants)
                who = RankCondition(Who.ONE if operator == "==" else Who.ALL_BUT_ONE, certainty)
                return who if sure else who.at_best(Certainty.GUESSED)
        elif right.has(*SIZES):
            return (
                RankCondition(Who.SOME, certainty) if not (operator == "<" and right.has(Kind.WORLD_SIZE)) else ALWAYS
            )
        else:
            return RankCondition(Who.SOME, certainty if right.has(Kind.UNIFORM, Kind.CONST) else Certainty.GUESSED)
    if not isinstance(number, (int, float)):
        return NOT_CLEAR
    if number == -1 and operator in ("==", "!=", ">", "<="):
        return RankCondition(Who.DISTRIBUTED if operator in ("!=", ">") else Who.SINGLE)
    if (operator, number) in ((">=", 0), ("<", 0)):
        return RankCondition(Who.DISTRIBUTED if operator == ">=" else Who.SINGLE)
    if number < 0:
        return ALWAYS
    if (operator, number) in (("==", 0), ("<", 1), ("<=", 0), ("is", 0)):
        return RankCondition(few, certainty)
    if (operator, number) in (("!=", 0), (">", 0), (">=", 1), ("is not", 0)):
        return RankCondition(few, certainty).inverse() if few != Who.SOME else RankCondition(Who.SOME, certainty)
    if operator in ("==", "!="):
        return RankCondition(Who.ONE if operator == "==" else Who.ALL_BUT_ONE, certainty)
    return RankCondition(Who.SOME, certainty)


def under(value: Value, who: RankCondition) -> Value:
    """Return the value with a condition added to each alternative."""
    if who.who in (Who.EVERYONE, Who.UNCLEAR):
        return value
    return Value(atom._replace(when=both((atom.when, who))) for atom in value)


#: Kinds whose way matters.
_FOLLOWED = frozenset((*RANKS, Kind.WRAPPED, Kind.DEVICE, Kind.RANK_DEPENDENT))


def stepped(value: Value, file: int, line: int, text: str) -> Value:
    """Return the value with one step more on its way, where the way matters."""
    for atom in value.atoms:
        if atom.kind in _FOLLOWED:
            break
    else:
        return value
    step = FlowStep(file, line, text)
    return Value(
        atom._replace(flow=(*atom.flow, step)[-MOST_STEPS:]) if atom.kind in _FOLLOWED else atom for atom in value
    )


def item_of(value: Value, position: int) -> Value:
    """One item of an unpacked value."""
    found = []
    for atom in value:
        if atom.kind in (Kind.TUPLE, Kind.LIST) and position < len(atom.items):
            found.append(under(atom.items[position], atom.when))
        elif atom.kind == Kind.BATCH:
            found.append(Value((atom,)))
        elif atom.kind == Kind.LIST and atom.of:
            found.append(Value(atom.of))
    return join(found) if found else NOTHING_KNOWN


def parts_of(made: Atom, name: str) -> Value:
    """Return what ``items()`` or ``values()`` of a dict gives; one made by a comprehension is a list of its values."""
    if made.kind == Kind.LIST:
        pair = value_of(Kind.TUPLE, 2, items=(value_of(Kind.UNIFORM), Value(made.of)))
        return Value((made,)) if name == "values" else value_of(Kind.LIST, None, of=pair.atoms)
    items = made.items
    if name == "items":
        items = tuple(
            value_of(Kind.TUPLE, 2, items=(value_of(Kind.UNIFORM) if key is None else const(key), item))
            for key, item in zip(made.const or (), items, strict=False)
        )
    return value_of(Kind.LIST, len(items), items=items)


#: For whom a number is not 0.
_TRUE_FOR = {
    **dict.fromkeys((Kind.GLOBAL_RANK, Kind.RANK), Who.OTHERS),
    Kind.LOCAL_RANK: Who.LOCAL_OTHERS,
    Kind.RANK_DEPENDENT: Who.SOME,
    Kind.BATCH: Who.BY_DATA,
}


#: Whether the first rank, or the first of its host, is among these.
_OF_FIRST = {Who.MAIN: True, Who.LOCAL_MAIN: True, Who.OTHERS: False, Who.LOCAL_OTHERS: False}
#: What is true on all ranks.
_TRUE_EVERYWHERE = frozenset((Kind.UNIFORM, *SIZES, Kind.ENV_TEXT))
#: What exists or not, as a rank check decides.
_THINGS = frozenset(
    (Kind.OBJECT, Kind.WRAPPED, Kind.FUNCTION, Kind.CLASS, Kind.RESULT, Kind.TUPLE, Kind.MODULE, Kind.GROUP)
)


def truth(value: Value) -> RankCondition:
    """For whom a value counts as true."""
    true: list[RankCondition] = []
    false: list[RankCondition] = []
    for atom in value:
        who: RankCondition
        if atom.kind == Kind.CONST:
            (true if atom.const else false).append(atom.when)
            continue
        if atom.kind == Kind.TEST:
            who = RankCondition(atom.const, atom.certainty)
        elif atom.kind in _TRUE_FOR:
            who = RankCondition(_TRUE_FOR[atom.kind], atom.certainty)
        elif atom.kind in _TRUE_EVERYWHERE:
            who = ALWAYS
        elif atom.kind in _THINGS and atom.when.who in PARTIAL:
            true.append(atom.when)
            continue
        else:
            who = NOT_CLEAR
        if atom.when.who == Who.SINGLE and who.who in _OF_FIRST:
            # without other ranks, the first one is the only one
            (true if _OF_FIRST[who.who] else false).append(atom.when)
            continue
        true.append(both((atom.when, who)))
    if not true:
        return ALWAYS if false else NOT_CLEAR
    ranked = [who for who in true if who.who in PARTIAL or who.who in (Who.MEMBERS, Who.BY_DATA)]
    if not ranked and len(true) == 1 and true[0] == ALWAYS and value.atoms[0].const is True and value.only(Kind.CONST):
        # a flag that is set first, and that some ranks take back
        taken_back = [who for who in false if who.who in PARTIAL]
        if taken_back and len(taken_back) == len(false):
            return either(taken_back).inverse().at_best(Certainty.MERGED)
    if not ranked and value.has(*SIZES) and None in value.constants and value.only(*SIZES, Kind.CONST):
        # there is a number of ranks only where there are several
        return RankCondition(Who.DISTRIBUTED, Certainty.MERGED)
    if not ranked:
        # what is false where a rank is missing and true with other ranks is true with other ranks
        return true[0] if len(true) == 1 else either(true)
    # an alternative that holds for all where another requests the rank is the run without other ranks
    found = either(ranked) if len(ranked) > 1 else ranked[0]
    if any(who.who == Who.UNCLEAR for who in true) or any(is_equalised(atom) for atom in value):
        # a flag or a number that some ranks set, and that a broadcast, or something unseen, may set as well
        flags = {
            atom.when.who
            for atom in value
            if (atom.kind != Kind.TEST or atom.const in (Who.UNCLEAR, Who.EVERYONE)) and atom.when.who in PARTIAL
        }
        if all(who.who in flags for who in ranked):
            return RankCondition(found.who, Certainty.GUESSED)
    if any(who.who in (Who.EVERYONE, Who.UNCLEAR) for who in true):
        # elsewhere the same flag is true on all ranks, or something that can't be seen
        return found.at_best(Certainty.MERGED)
    return found


def is_equalised(atom: Atom) -> bool:
    """Return whether one alternative of a value is what a collective has made the same on all ranks."""
    return atom.kind == Kind.UNIFORM and atom.const == "reduced"


def widest(ways: list[RankCondition]) -> RankCondition:
    """Return who gets in by any of several ways, each of which is for some ranks only."""
    named = {way.who for way in ways}
    weakest = max(way.certainty for way in ways)
    if len(named) == 1:
        return RankCondition(ways[0].who, weakest)
    if named <= {Who.MAIN, Who.ONE, Who.LOCAL_MAIN}:
        who = Who.LOCAL_MAIN if Who.LOCAL_MAIN in named else Who.ONE
        return RankCondition(who, added(weakest, Certainty.MERGED))
    found = either(ways)
    return found if found.who == Who.EVERYONE else found.at_best(Certainty.MERGED)


def device_of(atom: Atom) -> tuple[str, tuple[Atom, ...]]:
    """Type and index of what is given where a device belongs; empty where they are not known."""
    if atom.kind == Kind.DEVICE:
        return atom.const or "", atom.of
    if atom.kind == Kind.CONST and isinstance(atom.const, str):
        kind, _, number = atom.const.partition(":")
        return kind, (Atom(Kind.CONST, int(number)),) if number.isdigit() else ()
    if atom.kind == Kind.CONST and isinstance(atom.const, int) and not isinstance(atom.const, bool):
        return "cuda", (Atom(Kind.CONST, atom.const),)
    if atom.kind == Kind.TEXT and isinstance(atom.const, str):
        kind, colon, _ = atom.const.partition(":")
        return (kind, atom.of) if colon else ("", ())
    if atom.kind in RANKS or atom.kind in (Kind.RANK_DEPENDENT, Kind.ENV_TEXT):
        return "cuda", (atom,)
    return "", ()


def from_table(found: tuple[str, Any]) -> Value:
    kind, detail = found
    if kind == "test":
        return value_of(Kind.TEST, detail)
    if kind == "device":
        return value_of(Kind.DEVICE, "cuda", of=(Atom(detail),))
    return value_of(kind, detail)


def as_number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    return value


def compute(operator: str, one: float, other: float) -> float | None:
    """Return the result, where it is one that costs nothing: a power may be as long as the memory."""
    calculate = _CALCULATIONS.get(operator)
    try:
        return None if calculate is None else calculate(one, other)
    except (ZeroDivisionError, OverflowError):
        return None


def compare_constants(operator: str, one: Any, other: Any) -> RankCondition | bool:
    compare = _COMPARISONS.get(operator)
    try:
        return NOT_CLEAR if compare is None else bool(compare(one, other))
    except TypeError:
        return NOT_CLEAR


_CALCULATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": op.add, "-": op.sub, "*": op.mul, "/": op.truediv, "//": op.floordiv, "%": op.mod,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": op.eq, "is": op.eq, "!=": op.ne, "is not": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge,
}  # fmt: skip
