"""Roots of collectives that are no members of their group (DC715)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .collective_signatures import ROOTS
from .program import Program, SourceCall
from .term_queries import Ref, origin_call, origins, parts
from .values import PARTIAL, Who
from .vocabulary import D


@probe(rules.DC715)
def root_is_a_member(program: Program) -> Iterator[Finding]:
    """The rank that a collective of a subgroup starts from or ends at is a member, counted in the whole job."""
    for call in program.calls_to(*ROOTS):
        target = next(target for target in call.targets if target in ROOTS)
        position, name, group_position = ROOTS[target]
        value = call.argument(position, name)
        group = call.argument_term(group_position, "group")
        if value is None or group < 0 or isinstance(value.constant, bool) or not isinstance(value.constant, int):
            continue
        why = _outside_of(program, call, group, value.constant)
        if why is None:
            continue
        root = value.constant
        text = call.argument_text(group_position, "group")
        yield call.found(
            rules.DC715,
            f"{name}={root} is rank {root} of the whole job, {why}",
            fix=f"group_{name}={root} counts within {text}; older torch: {name}=dist.get_global_rank({text}, {root})",
            severity=call.level_in_tests,
        )


def _outside_of(program: Program, call: SourceCall, group: int, root: int) -> str | None:
    """Why a rank is not a member of every group that may stand here; None where it may be."""
    found = None
    for ref in origins(program, call.file, group):
        term = program.terms[ref[0]][ref[1]]
        if term[0] == "k" and term[1] == "none":
            continue
        why = _without(program, ref, root)
        if why is None:
            return None
        found = why
    if found is not None and "one of several" in found and call.own_reached_by.who in (*PARTIAL, Who.MEMBERS):
        return None
    return found


def _without(program: Program, ref: Ref, root: int) -> str | None:
    file, number = ref
    terms = program.terms[file]
    term = terms[number]
    if term[0] == "x":
        made = origin_call(program, (file, term[1]))
        if made is not None and term[2] == 0 and made.is_to(D + "new_subgroups", D + "new_subgroups_by_enumeration"):
            return "and the group is one of several, not all of which have it"
        return None
    made = origin_call(program, ref)
    if made is None:
        return None
    if made.is_to(D + "new_group"):
        ranks = made.argument_term(0, "ranks")
        if ranks < 0 or made.has_star:
            return None
        members = _members(program, file, ranks)
        if members is not None:
            shown = ", ".join(map(str, sorted(members)[:8]))
            return None if root in members else f"which is not in the group of ranks {shown}"
        return _family(program, made, ranks, root)
    if made.method == "get_group":
        dimensions = _dimensions(program, made)
        if dimensions is not None and sum(size != 1 for size in dimensions) > 1:
            return "and the group is one of several of a mesh, not all of which have it"
    return None


def _members(program: Program, file: int, ranks: int) -> set[int] | None:
    """Return the ranks of a group, where they are all written out."""
    for ref in origins(program, file, ranks):
        term = program.terms[ref[0]][ref[1]]
        if (
            term[0] == "c"
            and term[2]
            and any(atom.const in ("list", "tuple", "sorted") for atom in program.evaluator.value(ref[0], term[1]))
        ):
            term = program.terms[ref[0]][term[2][0]]
        if term[0] in ("l", "t"):
            numbers = [program.evaluator.value(ref[0], item).constant for item in term[1]]
        elif term[0] == "c" and any(atom.const == "range" for atom in program.evaluator.value(ref[0], term[1])):
            ends = [program.evaluator.value(ref[0], item).constant for item in term[2]]
            if not ends or not all(isinstance(end, int) and 0 <= end < 100_000 for end in ends) or 0 in ends[2:]:
                return None
            numbers = list(range(*ends))
        else:
            return None
        if not numbers or not all(isinstance(item, int) and not isinstance(item, bool) for item in numbers):
            return None
        if len(origins(program, file, ranks)) != 1:
            return None
        return {int(item) for item in numbers}
    return None


def _family(program: Program, made: SourceCall, ranks: int, root: int) -> str | None:
    """Groups made in a loop from its variable: all together they have each rank once."""
    terms = program.terms[made.file]
    if not made.inside("for"):
        return None
    numbers = list(parts(program, made.file, ranks, stop=("e",)))
    if not any(terms[number][0] == "e" for number in numbers):
        return None
    for number in numbers:
        term = terms[number]
        # a list that names the root itself, or ranges that all begin with it
        if term[0] in ("l", "t") and any(terms[item][:3] == ("k", "int", root) for item in term[1]):
            return None
        if term[0] == "c" and any(atom.const == "range" for atom in program.evaluator.value(made.file, term[1])):
            first = term[2][0] if len(term[2]) > 1 else -1
            if (len(term[2]) == 1 and not _has_element(program, made.file, term[2][0])) or (
                first >= 0
                and terms[first][0] == "k"
                and not any(_has_element(program, made.file, end) for end in term[2][2:])
            ):
                return None
        if term[0] == "o" and term[1] == "+" and any(terms[side][0] == "l" for side in term[2:4]):
            return None
    return "and the group is one of several that a loop makes, not all of which have it"


def _has_element(program: Program, file: int, number: int) -> bool:
    terms = program.terms[file]
    return any(terms[part][0] == "e" for part in parts(program, file, number))


def _dimensions(program: Program, call: SourceCall) -> list[Any] | None:
    """Return the sizes of the dimensions of the mesh that a group is taken from; None where they are not seen."""
    if call.receiver_term < 0:
        return None
    sizes: list[Any] | None = None
    for file, number in origins(program, call.file, call.receiver_term):
        term = program.terms[file][number]
        while term[0] == "s":
            inner = origins(program, file, term[1])
            if len(inner) != 1:
                return None
            file, number = inner[0]
            term = program.terms[file][number]
        made = origin_call(program, (file, number))
        if made is None or not made.is_to(D + "init_device_mesh"):
            return None
        shape = made.argument_term(1, "mesh_shape")
        if shape < 0 or program.terms[file][shape][0] not in ("t", "l"):
            return None
        sizes = [program.evaluator.value(file, item).constant for item in program.terms[file][shape][1]]
    return sizes
