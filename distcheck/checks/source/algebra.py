"""The algebra of ranks: what arithmetic, texts and comparisons make of values, and for whom a value counts as true.

Pure functions of values; where a value comes from is for :mod:`.evaluate`.
"""

from __future__ import annotations

import re
from typing import Any

from . import vocabulary
from .values import (
    ALL_BUT_ONE,
    ALWAYS,
    BATCH,
    BY_DATA,
    CLASS,
    CONST,
    DEVICE,
    DEVICE_COUNT,
    DISTRIBUTED,
    ENV_TEXT,
    EVERYONE,
    FUNCTION,
    GLOBAL_RANK,
    GROUP,
    LIST,
    LOCAL_MAIN,
    LOCAL_OTHERS,
    LOCAL_RANK,
    LOCAL_WORLD_SIZE,
    MAIN,
    MEMBERS,
    METHOD,
    MODULE,
    NODE_OFFSET,
    NODE_RANK,
    NOT_CLEAR,
    NOTHING_KNOWN,
    OBJECT,
    ONE,
    OTHERS,
    PARTIAL,
    RANK,
    RANK_DEPENDENT,
    RANKS,
    RESULT,
    SINGLE,
    SIZES,
    SOME,
    TEST,
    TEXT,
    TUPLE,
    UNCLEAR,
    UNIFORM,
    UNKNOWN,
    WORLD_SIZE,
    WRAPPED,
    Atom,
    FlowStep,
    NoConstant,
    RankCondition,
    Value,
    both,
    const,
    either,
    join,
)  # fmt: skip

#: A replacement field of a format string.
_FIELD = re.compile(r"\{[^{}]*\}")
#: Names that a rank is compared with where one rank gives to all others, or takes from them.
ROOTS = frozenset(
    [
        "src",
        "dst",
        "root",
        "source",
        "destination",
        "src_rank",
        "dst_rank",
        "main_rank",
        "master_rank",
        "group_src",
        "group_dst",
    ]
)
#: Who may be all ranks of a job.
WIDE = frozenset({EVERYONE, DISTRIBUTED, SINGLE, UNCLEAR, BY_DATA})


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """The algebra of ranks: ``rank % device_count`` is local, ``node_rank * gpus + local_rank`` is global."""
    one, other = left.rank, right.rank
    sizes = right.get(DEVICE_COUNT, LOCAL_WORLD_SIZE)
    if operator == "%" and left.has(CONST, TEXT) and isinstance(left.constant, str):
        return text_of(
            [left, right] if not right.has(TUPLE) else [left, *next(atom.items for atom in right if atom.kind == TUPLE)]
        )
    if operator == "+" and (
        left.has(TEXT) or right.has(TEXT) or isinstance(left.constant, str) or isinstance(right.constant, str)
    ):
        return text_of([left, right])
    if one is not None and operator == "%" and one.kind in (GLOBAL_RANK, RANK):
        if sizes is not None:
            return Value((Atom(LOCAL_RANK, "modulo", certain=one.certain, trail=one.trail),))
        return Value((Atom(RANK_DEPENDENT, "modulo", of=(one,), trail=one.trail),))
    if one is not None and operator == "//" and one.kind in (GLOBAL_RANK, RANK) and sizes is not None:
        return Value((Atom(NODE_RANK, certain=one.certain, trail=one.trail),))
    if operator == "*":
        for rank, size in ((one, right), (other, left)):
            if rank is not None and (
                (rank.kind == NODE_RANK and size.rank is None)
                or (rank.kind in (RANK, GLOBAL_RANK) and size.has(DEVICE_COUNT, LOCAL_WORLD_SIZE))
            ):
                return Value((Atom(NODE_OFFSET, certain=rank.certain, trail=rank.trail),))
        if left.has(*SIZES) and right.has(*SIZES):
            return Value((Atom(WORLD_SIZE),))
    if operator == "+":
        for offset, rank in ((left.get(NODE_OFFSET), other), (right.get(NODE_OFFSET), one)):
            if offset is not None and rank is not None:
                return Value((Atom(GLOBAL_RANK, "sum", trail=offset.trail + rank.trail),))
        if left.has(NODE_OFFSET) or right.has(NODE_OFFSET):
            return Value((Atom(GLOBAL_RANK, "sum", certain=False),))
    if left.has(BATCH) or right.has(BATCH):
        return Value((Atom(BATCH),))
    rank = one or other
    if rank is not None or left.has(RANK_DEPENDENT, NODE_OFFSET) or right.has(RANK_DEPENDENT, NODE_OFFSET):
        return Value(
            (
                Atom(
                    RANK_DEPENDENT,
                    operator,
                    of=(rank,) if rank is not None else (),
                    certain=rank is None or rank.certain,
                    trail=rank.trail if rank is not None else (),
                ),
            )
        )
    if left.has(WRAPPED) or right.has(WRAPPED):
        return NOTHING_KNOWN
    if left.has(*SIZES) or right.has(*SIZES):
        return Value((Atom(UNIFORM, "size"),))
    one_constant, other_constant = left.constant, right.constant
    if isinstance(one_constant, (int, float)) and isinstance(other_constant, (int, float)):
        number = compute(operator, one_constant, other_constant)
        return const(number) if number is not None else Value((Atom(UNIFORM),))
    if left.only(CONST, UNIFORM) and right.only(CONST, UNIFORM):
        return Value((Atom(UNIFORM),))
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
            text = part.get(TEXT)
            template += text.const if text is not None else "{}"
            values.extend(text.of if text is not None else part.atoms[:4])
    if not values:
        return const(template)
    return Value((Atom(TEXT, template, of=tuple(values)),))


def formatted_text(template: str, parts: list[Value]) -> Value:
    """What ``format`` makes of a template; which value goes where is not kept."""
    values = [atom for part in parts for atom in part.atoms[:4]]
    if not values:
        return const(template)
    return Value((Atom(TEXT, _FIELD.sub("{}", template), of=tuple(values)),))


def device_from(kind: Value, index: Value | None, call: tuple[int, int] | None) -> Value:
    """``torch.device(kind, index)``."""
    found = []
    for atom in kind:
        name, number = device_of(atom)
        atoms = index.atoms if index is not None else number
        found.append(Atom(DEVICE, name, of=atoms, when=atom.when, call=call))
    return join((Value(found),))


def compare_atom(operator: str, atom: Atom, right: Value, root: bool) -> RankCondition | bool:
    """For whom one alternative compares so; ``root`` where the other side is called a source or destination."""
    negative = operator in ("!=", "is not", "not in")
    constant = right.constant
    if (
        atom.kind == CONST
        and atom.const in vocabulary.VARIABLES
        and operator in ("in", "not in")
        and right.named("os.environ")
    ):
        return RankCondition(SINGLE if negative else DISTRIBUTED)
    if atom.kind == CONST and constant is not NoConstant:
        return compare_constants(operator, atom.const, constant)
    if constant is None and operator in ("is", "is not", "==", "!="):
        if atom.kind == ENV_TEXT:
            return RankCondition(DISTRIBUTED if negative else SINGLE)
        if atom.kind in RANKS:
            return RankCondition(DISTRIBUTED if negative else SINGLE)
        return NOT_CLEAR if atom.kind in (UNKNOWN, METHOD) and not (atom.kind == METHOD and atom.certain) else negative
    if atom.kind in RANKS or (atom.kind == ENV_TEXT and atom.const in vocabulary.VARIABLES):
        kind = atom.kind if atom.kind in RANKS else vocabulary.VARIABLES[atom.const]
        if kind in SIZES:
            return compare_size(operator, as_number(constant))
        return compare_rank(operator, kind, atom.certain, right, root)
    if atom.kind in SIZES:
        return compare_size(operator, constant)
    if atom.kind == RANK_DEPENDENT:
        return RankCondition(SOME, atom.certain)
    if atom.kind == BATCH or right.has(BATCH):
        return RankCondition(BY_DATA)
    if right.has(RANK_DEPENDENT):
        return RankCondition(SOME)
    if atom.kind == TEST and constant in (True, False) and operator in ("==", "!=", "is", "is not"):
        who = RankCondition(atom.const, atom.certain)
        return who if bool(constant) != negative else who.inverse()
    if atom.kind in (UNIFORM, ENV_TEXT):
        return ALWAYS
    return NOT_CLEAR


def compare_size(operator: str, constant: Any) -> RankCondition:
    """``world_size > 1`` and the like: the same on all ranks."""
    if (operator, constant) in ((">", 1), (">=", 2), ("!=", 1)):
        return RankCondition(DISTRIBUTED)
    if (operator, constant) in (("==", 1), ("<=", 1), ("<", 2)):
        return RankCondition(SINGLE)
    return ALWAYS


def compare_rank(operator: str, kind: str, certain: bool, right: Value, root: bool) -> RankCondition:
    """``rank == 0``, ``local_rank in (-1, 0)``, ``rank < n`` and the like."""
    few = {GLOBAL_RANK: MAIN, RANK: MAIN, LOCAL_RANK: LOCAL_MAIN}.get(kind, SOME)
    if operator in ("in", "not in"):
        numbers: list[Any] = []
        for atom in right:
            if atom.kind in (TUPLE, LIST):
                numbers.extend(item.constant for item in atom.items)
        if not numbers or any(not isinstance(number, int) for number in numbers):
            return RankCondition(MEMBERS, certain)
        ranks = [number for number in numbers if number >= 0]
        who = RankCondition((few if ranks == [0] else ONE) if len(ranks) == 1 else SOME if ranks else SINGLE, certain)
        return who if operator == "in" else who.inverse()
    number = as_number(right.constant) if right.constant is not NoConstant else NoConstant
    if right.constant is NoConstant:
        constants = {as_number(item) for item in right.constants if item is not None}
        if operator in ("==", "!="):
            if constants == {0} and not right.has(UNKNOWN):
                number = 0
            else:
                sure = certain and (root or right.has(UNIFORM, *SIZES) or bool(constants))
                return RankCondition(ONE if operator == "==" else ALL_BUT_ONE, sure)
        elif right.has(*SIZES):
            return RankCondition(SOME, certain) if not (operator == "<" and right.has(WORLD_SIZE)) else ALWAYS
        else:
            return RankCondition(SOME, certain and right.has(UNIFORM, CONST))
    if not isinstance(number, (int, float)):
        return NOT_CLEAR
    if number == -1 and operator in ("==", "!=", ">", "<="):
        return RankCondition(DISTRIBUTED if operator in ("!=", ">") else SINGLE)
    if (operator, number) in ((">=", 0), ("<", 0)):
        return RankCondition(DISTRIBUTED if operator == ">=" else SINGLE)
    if number < 0:
        return ALWAYS
    if (operator, number) in (("==", 0), ("<", 1), ("<=", 0), ("is", 0)):
        return RankCondition(few, certain)
    if (operator, number) in (("!=", 0), (">", 0), (">=", 1), ("is not", 0)):
        return RankCondition(few, certain).inverse() if few != SOME else RankCondition(SOME, certain)
    if operator in ("==", "!="):
        return RankCondition(ONE if operator == "==" else ALL_BUT_ONE, certain)
    return RankCondition(SOME, certain)


def under(value: Value, who: RankCondition) -> Value:
    """The value with a condition added to each alternative."""
    if who.who in (EVERYONE, UNCLEAR):
        return value
    return Value(atom._replace(when=both((atom.when, who))) for atom in value)


def stepped(value: Value, file: int, line: int, text: str) -> Value:
    """The value with one step more on its way, where the way matters."""
    if not any(atom.kind in RANKS or atom.kind in (WRAPPED, DEVICE, RANK_DEPENDENT) for atom in value):
        return value
    step = FlowStep(file, line, text)
    return Value(
        atom._replace(trail=(*atom.trail, step)[-6:])
        if atom.kind in RANKS or atom.kind in (WRAPPED, DEVICE, RANK_DEPENDENT)
        else atom
        for atom in value
    )


def item_of(value: Value, position: int) -> Value:
    """One item of an unpacked value."""
    found = []
    for atom in value:
        if atom.kind in (TUPLE, LIST) and position < len(atom.items):
            found.append(under(atom.items[position], atom.when))
        elif atom.kind == BATCH:
            found.append(Value((atom,)))
        elif atom.kind == LIST and atom.of:
            found.append(Value(atom.of))
    return join(found) if found else NOTHING_KNOWN


def truth(value: Value) -> RankCondition:
    """For whom a value counts as true."""
    true: list[RankCondition] = []
    false: list[RankCondition] = []
    for atom in value:
        who: RankCondition
        if atom.kind == CONST:
            (true if atom.const else false).append(atom.when)
            continue
        if atom.kind == TEST:
            who = RankCondition(atom.const, atom.certain)
        elif atom.kind in (GLOBAL_RANK, RANK):
            who = RankCondition(OTHERS, atom.certain)
        elif atom.kind == LOCAL_RANK:
            who = RankCondition(LOCAL_OTHERS, atom.certain)
        elif atom.kind == RANK_DEPENDENT:
            who = RankCondition(SOME, atom.certain)
        elif atom.kind == BATCH:
            who = RankCondition(BY_DATA, atom.certain)
        elif atom.kind in (UNIFORM, *SIZES, ENV_TEXT):
            who = ALWAYS
        elif atom.kind in (OBJECT, WRAPPED, FUNCTION, CLASS, RESULT, TUPLE, MODULE, GROUP) and atom.when.who in PARTIAL:
            true.append(atom.when)
            continue
        else:
            who = NOT_CLEAR
        true.append(both((atom.when, who)))
    if not true:
        return ALWAYS if false else NOT_CLEAR
    ranked = [who for who in true if who.who in PARTIAL or who.who in (MEMBERS, BY_DATA)]
    if not ranked:
        # what is false where a rank is missing and true with other ranks is true with other ranks
        return true[0] if len(true) == 1 else either(true)
    # an alternative that holds for all where another asks for the rank is the run without other ranks
    found = either(ranked) if len(ranked) > 1 else ranked[0]
    if any(who.who == UNCLEAR for who in true):
        # a flag that some ranks set, and that something unseen may set as well (a broadcast)
        flags = [atom.when for atom in value if atom.kind != TEST and atom.when.who in PARTIAL]
        if all(who in flags for who in ranked):
            return RankCondition(found.who, False)
    return found


def widest(ways: list[RankCondition]) -> RankCondition:
    """Who gets in by any of several ways, each of which is for some ranks only."""
    named = {way.who for way in ways}
    certain = all(way.certain for way in ways)
    if len(named) == 1:
        return RankCondition(ways[0].who, certain)
    if named <= {MAIN, ONE, LOCAL_MAIN}:
        return RankCondition(LOCAL_MAIN if LOCAL_MAIN in named else ONE, certain)
    return either(ways)


def device_of(atom: Atom) -> tuple[str, tuple[Atom, ...]]:
    """Type and index of what is given where a device belongs; empty where they are not known."""
    if atom.kind == DEVICE:
        return atom.const or "", atom.of
    if atom.kind == CONST and isinstance(atom.const, str):
        kind, _, number = atom.const.partition(":")
        return kind, (Atom(CONST, int(number)),) if number.isdigit() else ()
    if atom.kind == CONST and isinstance(atom.const, int) and not isinstance(atom.const, bool):
        return "cuda", (Atom(CONST, atom.const),)
    if atom.kind == TEXT and isinstance(atom.const, str):
        kind, colon, _ = atom.const.partition(":")
        return (kind, atom.of) if colon else ("", ())
    if atom.kind in RANKS or atom.kind in (RANK_DEPENDENT, ENV_TEXT):
        return "cuda", (atom,)
    return "", ()


def from_table(found: tuple[str, Any]) -> Value:
    kind, detail = found
    if kind == "test":
        return Value((Atom(TEST, detail),))
    if kind == "device":
        return Value((Atom(DEVICE, "cuda", of=(Atom(detail),)),))
    return Value((Atom(kind, detail),))


def as_number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    return value


def compute(operator: str, one: float, other: float) -> float | None:
    """The result, where it is one that costs nothing: a power may be as long as the memory."""
    try:
        if operator == "+":
            return one + other
        if operator == "-":
            return one - other
        if operator == "*":
            return one * other
        if operator == "/":
            return one / other
        if operator == "//":
            return one // other
        if operator == "%":
            return one % other
    except (ZeroDivisionError, OverflowError):
        return None
    return None


def compare_constants(operator: str, one: Any, other: Any) -> RankCondition | bool:
    try:
        if operator in ("==", "is"):
            return bool(one == other)
        if operator in ("!=", "is not"):
            return bool(one != other)
        if operator == "<":
            return bool(one < other)
        if operator == "<=":
            return bool(one <= other)
        if operator == ">":
            return bool(one > other)
        if operator == ">=":
            return bool(one >= other)
    except TypeError:
        return NOT_CLEAR
    return NOT_CLEAR
