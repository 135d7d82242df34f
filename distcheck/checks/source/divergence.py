"""Collectives that not all ranks reach: in a branch by rank, behind an exit by rank, in arms that differ; groups, too.

Only what a traced rank check keeps from some ranks is judged. Whether data lead ranks apart is for
:mod:`.loop_exits`; what a call does inside is for :mod:`.sequences`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Rule, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import vocabulary
from .collective_sequences import (
    CollectiveSite,
    Sequences,
    condition_text,
    flow_of,
    guarded_calls,
    is_error_exit,
    narrow_guards,
    partial_guards,
    sequences_of,
    who_runs,
)
from .gathered_contents import may_gather_texts
from .program import EventRow, Program, SourceCall, cached
from .rank_reach import Guard
from .term_queries import callee_text, origin_call, origins, parts
from .values import NOT, PARTIAL, RANKS, Atom, Certainty, Kind, RankCondition, Value, Who
from .vocabulary import words

#: Operations that make groups: they have a rule of their own.
_GROUPS = frozenset(target.rsplit(".", 1)[-1] for target, kind in vocabulary.COLLECTIVES.items() if kind == "group")
#: Two guards that together cover all ranks, in addition to a test and its opposite.
_HALVES = frozenset(
    frozenset(pair)
    for pair in (
        (Who.MAIN, Who.ONE),
        (Who.MAIN, Who.LOCAL_OTHERS),
        (Who.MAIN, Who.ALL_BUT_ONE),
        (Who.LOCAL_MAIN, Who.OTHERS),
        (Who.ONE, Who.OTHERS),
        *((Who.SOME, who) for who in PARTIAL - {Who.SOME}),
    )
)


@probe(rules.DC701, rules.DC702, rules.DC703)
def collectives_reach_all_ranks(program: Program) -> Iterator[Finding]:
    """No rank check stands between some ranks and a collective of all, unless the others call it elsewhere."""
    sequences = sequences_of(program)
    exits: set[tuple[int, int]] = set()
    branches: set[tuple[int, int, int]] = set()
    # where only some processes enter the group (one of each host), those are all ranks that there are
    apart = {call.file for call in program.calls_to(*vocabulary.INIT) if partial_guards(call)}
    for call, guards in guarded_calls(program):
        collective = sequences.collective_site(call)
        if collective is None or _only_groups(collective) or call.file in apart:
            continue
        for guard in guards:
            if sequences.is_switched_off(collective, guard) or _takes_turns(call, guard):
                continue
            mismatch = _mismatch(sequences, call, guard)
            if mismatch is not None:
                block = (call.file, call.scope, guard.line)
                if block not in branches:
                    branches.add(block)
                    yield _differ(program, guard, *mismatch)
                continue
            if _others_meet(sequences, call, guard, collective):
                continue
            if guard.kind.startswith("exit:"):
                if _ends_the_job(sequences, call, guard):
                    continue
                if (call.file, guard.block) not in exits:
                    exits.add((call.file, guard.block))
                    yield _after_exit(sequences, collective, guard)
            else:
                yield _in_branch(program, collective, guard)
            break
    yield from _decorated(program, sequences)
    yield from _left_loops(program, sequences)
    yield from _chosen(program, sequences)
    yield from _getters(program, sequences)
    yield from _crossed(program, sequences)


@probe(rules.DC706)
def groups_are_made_by_all_ranks(program: Program) -> Iterator[Finding]:
    """All ranks make every group, with the same list."""
    sequences = sequences_of(program)
    done: set[tuple[int, int]] = set()
    for call, guards in guarded_calls(program, members=True):
        collective = sequences.collective_site(call)
        # a getter that makes its group only once may have made it before
        if collective is None or not _only_groups(collective) or not collective.exact or _is_local(collective):
            continue
        for guard in guards:
            if _same_group_elsewhere(sequences, call, guard):
                continue
            if (call.file, guard.line) not in done:
                done.add((call.file, guard.line))
                yield _group(program, collective, guard)
            break
    for call in program.calls_to("torch.distributed.new_group"):
        ranks = call.argument(0, "ranks")
        if (
            ranks is None
            or _is_own_group(ranks)
            or _is_local(CollectiveSite(call, (), True, call))
            or any(guard.who.traced for guard in narrow_guards(call))
        ):
            continue
        if all(_depends_on_rank(Value((atom,))) for atom in ranks):
            yield call.found(
                rules.DC706,
                f"`{call.text()}` gets a list that depends on the rank, but all ranks must pass the same list",
                fix="make all groups on all ranks: loop over the lists of all groups in the same order everywhere, and "
                "call new_group for each. Keep the one with this rank in it. Or pass "
                "use_local_synchronization=True",
                severity=call.milder_in_tests(rules.DC706),
                flow=flow_of(program, call.file, call.argument_term(0, "ranks")),
            )


# who gets where


def _only_groups(collective: CollectiveSite) -> bool:
    return all(name in _GROUPS for name in collective.operations)


def _takes_turns(call: SourceCall, guard: Guard) -> bool:
    """Return whether each rank gets to a call in turns of its own: ``if step % world_size != rank: continue``."""
    condition = call.terms[guard.term]
    walked = {term for _, term in call.loops}
    return condition[0] == "=" and any(
        call.terms[side][:2] == ("o", "%")
        and call.terms[call.terms[side][3]][0] != "k"
        and any(
            call.terms[part][0] == "e" and call.terms[part][1] in walked
            for part in call.program.subterms(call.file, call.terms[side][2])
        )
        for side in condition[2:4]
    )


def _others_meet(sequences: Sequences, call: SourceCall, guard: Guard, collective: CollectiveSite) -> bool:
    """Return whether ranks that a guard excludes make a matching call elsewhere, as far as can be seen."""
    for block in sequences.arms_against(call, guard):
        collectives, _, unseen = sequences.arm(call, block)
        if collectives or unseen:
            return True
    if guard.kind.startswith("exit:") and _leave_from_both_arms(sequences, call, guard):
        return True
    mine = {name for name in collective.operations if name not in _GROUPS}
    for other in _neighbours(sequences.program, call):
        if other == call or not isinstance(other, SourceCall) or not _is_of_the_others(call, guard, other):
            continue
        found = sequences.collective_site(other)
        if (found is not None and mine.intersection(found.operations)) or (
            found is None and sequences.is_unseen(other)
        ):
            return True
    return _are_served(sequences, call, guard, mine) or _are_started(sequences.program, call)


def _are_started(program: Program, call: SourceCall) -> bool:
    """Return whether a process starts the other ranks, which enter the same function, and goes on as one of them."""
    callers = program.evaluator.callers
    for function in program.functions(call):
        for site in callers.get(function, ()):
            worker = (site.file, EventRow(program, site.file, site.event).scope)
            for start in callers.get(worker, ()):
                row = EventRow(program, start.file, start.event)
                if start.kind in ("spawn", "process") and (row.file, row.scope) == (call.file, call.scope):
                    return True
    return False


def _is_of_the_others(call: SourceCall, guard: Guard, other: SourceCall) -> bool:
    """Return whether another call is made by ranks that a guard keeps away from a call."""
    return any(own.who.who in PARTIAL and _halves(guard, own, other.file == call.file) for own in other.guards)


def _are_served(sequences: Sequences, call: SourceCall, guard: Guard, mine: set[str]) -> bool:
    """Return whether a leader and its workers make such calls: the one of either is in a ``while`` loop of the file."""
    for other in sequences.program.calls_in({call.file}):
        if other.scope == call.scope or not (other.inside("while") or call.inside("while")):
            continue
        if _is_of_the_others(call, guard, other):
            found = sequences.collective_site(other)
            if found is not None and mine.intersection(found.operations):
                return True
    return False


def _leave_from_both_arms(sequences: Sequences, call: SourceCall, guard: Guard) -> bool:
    """Return whether some of the others leave as well, from another arm of the same branch, as it may be together."""
    program = sequences.program
    mine = sequences.exits_behind(call, guard)
    return any(
        other.kind == "exit"
        and other.number < call.number
        and other.payload[0] != "raise"
        and program.excludes(row, other)
        for row in mine
        for other in program.rows_of(call.file, call.scope)
    )


#: Questions to the person at the terminal.
_QUESTIONS = words("input raw_input confirm prompt getpass")
_COMPLAINTS = words("error critical fatal exception")
_COMPLAINT = lazy(r"\b(error|fail(ed|ure)?|invalid|abort(ed|ing)?|cannot|can't|must|missing|not found)\b", re.I)


def _ends_the_job(sequences: Sequences, call: SourceCall, guard: Guard) -> bool:
    """Return whether the ranks that leave mean to end the job: the user declined, or the others catch that they wait in
    vain."""
    if any(row.method in _QUESTIONS for row in _calls_before_leaving(sequences, call, guard)):
        return True
    return call.inside("try") and _end_their_process(sequences, call, guard)


def _end_their_process(sequences: Sequences, call: SourceCall, guard: Guard) -> bool:
    exits = sequences.exits_behind(call, guard)
    return bool(exits) and all(row.payload[0] in ("call", "raise") for row in exits)


def _complains(sequences: Sequences, call: SourceCall, guard: Guard) -> bool:
    """Return whether an error is printed before the ranks that leave end their process."""
    return _end_their_process(sequences, call, guard) and any(
        row.method in _COMPLAINTS
        or any(_COMPLAINT.search(text) for term in row.argument_terms for text in _texts(row.term_value(term)))
        for row in _calls_before_leaving(sequences, call, guard)
    )


def _calls_before_leaving(sequences: Sequences, call: SourceCall, guard: Guard) -> Iterator[SourceCall]:
    """Yield the calls of the ranks that leave, from where their way parts from that of the others."""
    around = {number for number, _ in call.blocks}
    for one in sequences.exits_behind(call, guard):
        apart = next((number for number, node in one.blocks if node[1] == "if" and number not in around), None)
        for row in call.rows_in(apart) if apart is not None else ():
            if isinstance(row, SourceCall) and row.number < one.number:
                yield row


def _texts(value: Value) -> Iterator[str]:
    for atom in value:
        if atom.kind in (Kind.CONST, Kind.TEXT) and isinstance(atom.const, str):
            yield atom.const


def _halves(one: Guard, other: Guard, same_file: bool) -> bool:
    """Return whether two guards let different ranks through that may be all of them together."""
    if same_file and one.term == other.term and one.polarity == other.polarity and one.kind == other.kind:
        return False
    if NOT[one.who.who] == other.who.who and one.who.who != other.who.who:
        return True
    if one.who.who == other.who.who:
        return one.who.who in (Who.SOME, Who.ONE) and one.term != other.term
    return frozenset((one.who.who, other.who.who)) in _HALVES


def _neighbours(program: Program, call: SourceCall) -> Iterator[EventRow]:
    """Yield the events of a function, and where it is a method, of its class; where it is nested, of its siblings."""
    yield from program.rows_of(call.file, call.scope)
    scopes = program.index.scopes[call.file]
    own = scopes[call.scope]
    for number, scope in enumerate(scopes):
        if number == call.scope or scope.kind != "function":
            continue
        siblings = (own.owner >= 0 and scope.owner == own.owner) or (own.parent > 0 and scope.parent == own.parent)
        if siblings or scope.parent == call.scope or own.parent == number:
            yield from program.rows_of(call.file, number)


def _mismatch(sequences: Sequences, call: SourceCall, guard: Guard) -> tuple[CollectiveSite, str, str] | None:
    """Return where the arms of a branch differ: the first unmatched collective, its operation, and the other one."""
    arms = sequences.arms_against(call, guard)
    if len(arms) != 1 or guard.kind in ("while", "exit:break", "exit:call"):
        return None
    sides = [_operations(sequences, call, block) for block in sorted((guard.block, arms[0]))]
    if any(side is None or not side for side in sides):
        return None
    first, second = sides[0] or [], sides[1] or []
    for position in range(max(len(first), len(second))):
        one = first[position] if position < len(first) else None
        other = second[position] if position < len(second) else None
        if one is not None and other is not None and one[1] == other[1]:
            continue
        if one is not None:
            return one[0], one[1], other[1] if other is not None else ""
        if other is not None:
            return other[0], other[1], ""
    return None


def _operations(sequences: Sequences, call: SourceCall, block: int) -> list[tuple[CollectiveSite, str]] | None:
    """Return what ranks synchronize in below a block, in order; None where that is not known exactly."""
    collectives, exact, unseen = sequences.arm(call, block)
    if not exact or unseen:
        return None
    return [(collective, name) for collective in collectives for name in collective.operations]


# findings


def _in_branch(program: Program, collective: CollectiveSite, guard: Guard) -> Finding:
    call = collective.row
    name = collective.operations[0]
    condition, at = condition_text(program, call.file, guard), program.line_name(call.file, guard.line)
    if name.startswith("broadcast") and collective.innermost == call:
        text = f"let the other ranks call {name} too: move it out of the branch in {at}, with the same src"
    else:
        text = (
            f"call it on all ranks, outside of the branch in {at}, and keep inside only what one rank does with the "
            "result"
        )
    return call.found(
        rules.DC701,
        f"{_subject(program, collective)}, but {who_runs(guard.who)} it (`{condition}` in {at})",
        fix=text,
        basis=(guard.who,),
        severity=_level(collective, rules.DC701),
        **_evidence(program, collective, guard, condition),
    )


def _level(collective: CollectiveSite, rule: Rule) -> Severity:
    """Return the level of a finding: no error if the call may have nothing to communicate."""
    level = collective.row.milder_in_tests(rule)
    return min(level, Severity.WARNING) if may_gather_texts(collective.innermost) else level


def _after_exit(sequences: Sequences, collective: CollectiveSite, guard: Guard) -> Finding:
    program, call = sequences.program, collective.row
    exits = sequences.exits_behind(call, guard)
    at = program.line_name(call.file, guard.line)
    leaving = exits[0].text() if exits else guard.kind.removeprefix("exit:")
    condition = condition_text(program, call.file, guard)
    return call.found(
        rules.DC702,
        f"{_subject(program, collective)}, but {who_runs(guard.who)} it: the others exit at `{leaving}` in "
        f"{exits[0].line_name if exits else at}",
        fix=f"move the call above {at}, or invert that test, so the rest of the ranks skip only what one rank has to "
        "do",
        basis=(guard.who,),
        # the job is meant to end there: it does, though only after the timeout
        severity=min(call.milder_in_tests(rules.DC702), Severity.WARNING)
        if _complains(sequences, call, guard)
        else _level(collective, rules.DC702),
        **_evidence(program, collective, guard, condition),
    )


def _differ(program: Program, guard: Guard, collective: CollectiveSite, name: str, instead: str) -> Finding:
    call = collective.row
    others = f"call {instead} instead" if instead else "make no such call"
    condition = condition_text(program, call.file, guard._replace(polarity=True))
    return call.found(
        rules.DC703,
        f"`{call.text()}` does {name} in one arm of `{condition}` in {program.line_name(call.file, guard.line)}, and "
        f"the ranks in the other {others}",
        fix="use the same collectives in the same order in both arms, or move the shared ones after the branch",
        basis=(guard.who,),
        severity=call.milder_in_tests(rules.DC703),
        **_evidence(program, collective, guard, condition),
    )


def _group(program: Program, collective: CollectiveSite, guard: Guard) -> Finding:
    call = collective.row
    condition, at = condition_text(program, call.file, guard), program.line_name(call.file, guard.line)
    who = "only the members reach" if guard.who.who == Who.MEMBERS else who_runs(guard.who)
    return call.found(
        rules.DC706,
        f"`{call.text()}` must be entered by every rank of the job, but {who} it (`{condition}` in {at})",
        fix=f"make the group on all ranks, outside of the branch in {at}, and test the rank only where the group is "
        "used; or pass use_local_synchronization=True",
        basis=(guard.who,),
        severity=call.milder_in_tests(rules.DC706),
        **_evidence(program, collective, guard, condition),
    )


def _subject(program: Program, collective: CollectiveSite) -> str:
    call, inner = collective.row, collective.innermost
    if inner == call:
        return f"`{call.text()}` waits for all ranks"
    return f"`{call.text()}` runs {collective.operations[0]} for all ranks ({inner.place})"


def _evidence(program: Program, collective: CollectiveSite, guard: Guard, condition: str) -> dict[str, Any]:
    call = collective.row
    flow = flow_of(program, call.file, guard.term)
    flow.append(f"{program.place(call.file, guard.line)}: {who_runs(guard.who, 'pass', 'passes')} `{condition}`")
    if collective.innermost != call:
        flow.append(collective.innermost.as_step())
    return {"flow": flow, "reached_by": guard.who.who, "collective": collective.operations[0]}


# decorators, loops, groups


def _decorated(program: Program, sequences: Sequences) -> Iterator[Finding]:
    """Collectives in functions that a decorator keeps from most ranks."""
    for file, number in program.scopes():
        scope = program.scope((file, number))
        if not scope.decorators:
            continue
        who = program.evaluator.decorated(file, number)
        if who.who not in PARTIAL or not who.traced:
            continue
        for row in program.rows_of(file, number):
            if not isinstance(row, SourceCall) or partial_guards(row):
                continue
            collective = sequences.collective_site(row)
            if collective is None or _only_groups(collective):
                continue
            yield row.found(
                rules.DC701,
                f"{_subject(program, collective)}, but {who_runs(who)} it (a decorator of {scope.name}())",
                fix=f"move the call out of {scope.name}(), or remove the decorator, and let only the output depend on "
                "the rank",
                basis=(who,),
                severity=_level(collective, rules.DC701),
                flow=[f"{program.place(row.file, scope.line)}: {who_runs(who, 'enter', 'enters')} {scope.name}()"],
                reached_by=who.who,
                collective=collective.operations[0],
            )


def _chosen(program: Program, sequences: Sequences) -> Iterator[Finding]:
    """Calls whose function a rank check chooses, where the functions make different collectives."""
    named = _names_of_functions(program)
    for call in program.calls:
        if call.terms[call.term[1]][0] in ("a", "v", "i") and call.method not in named:
            continue
        callee = call.callee
        if len(callee.atoms) != 2 or not all(one.when.who in PARTIAL and one.when.traced for one in callee):
            continue
        first, second = callee.atoms
        functions = [_entered(program, sequences, one) for one in callee]
        if NOT[first.when.who] != second.when.who or None in functions or partial_guards(call):
            continue
        sides = [sequences.inside(call, function) for function in functions if function is not None]
        if not all(exact for _, exact in sides):
            continue
        names = [[site.operations[0] for site in sites] for sites, _ in sides]
        if names[0] == names[1]:
            continue
        mine, theirs = names
        position = next(
            place
            for place in range(max(len(mine), len(theirs)))
            if mine[place : place + 1] != theirs[place : place + 1]
        )
        longer = 0 if len(names[0]) > position else 1
        site, other = sides[longer][0][position], names[1 - longer][position : position + 1]
        instead = f"call {other[0]} instead" if other else "make no such call"
        atom = callee.atoms[longer]
        yield call.found(
            rules.DC703,
            f"the rank decides what `{callee_text(call)}` is: for {atom.when.who} it runs "
            f"{names[longer][position]} ({site.row.place}), and the other ranks {instead}",
            fix="make the same collectives in the same order in both functions, or call them outside of what the rank "
            "chooses",
            basis=(first.when, second.when, max(first.certainty, second.certainty)),
            severity=call.milder_in_tests(rules.DC703),
            flow=[*program.flow(atom.flow), site.row.as_step()],
        )


@cached
def _names_of_functions(program: Program) -> frozenset[str]:
    """Return all names that may stand for a function of the project: those defined, bound or stored in an attribute."""
    evaluator = program.evaluator
    bound = {
        name
        for file in range(len(program.index.files))
        for scope in program.index.scopes[file]
        for name in scope.bindings
    }
    stored = {name for _, _, name in evaluator.stores} | {name for _, name in evaluator.outside}
    return frozenset(evaluator.defined | bound | stored | evaluator.options.keys())


def _entered(program: Program, sequences: Sequences, atom: Atom) -> tuple[int, int] | None:
    """Return the function of the project that a call enters, as far as one alternative of what it calls decides."""
    if atom.kind == Kind.FUNCTION and not program.is_generator(atom.const):
        function: tuple[int, int] = atom.const
        # what a base class does, or something unseen, may be the other half
        if not any(
            isinstance(row, SourceCall) and (row.receiver_text.startswith("super(") or sequences.is_unseen(row))
            for row in program.rows_of(*function)
            if not isinstance(row, SourceCall) or sequences.collective_site(row) is None
        ):
            return function
    return None


def _crossed(program: Program, sequences: Sequences) -> Iterator[Finding]:
    """Arms of a rank branch that use the same groups in different orders."""
    done: set[tuple[int, int]] = set()
    for call, guards in guarded_calls(program):
        if not call.is_to(*vocabulary.COLLECTIVES) or not call.gives(None, "group"):
            continue
        for guard in guards:
            arms = sequences.arms_against(call, guard)
            if len(arms) != 1 or (call.file, guard.line) in done:
                continue
            mine, theirs = (_in_groups(program, sequences, call, block) for block in (guard.block, arms[0]))
            if mine is None or theirs is None or mine == theirs or sorted(mine) != sorted(theirs):
                continue
            done.add((call.file, guard.line))
            condition = condition_text(program, call.file, guard)
            yield call.found(
                rules.DC703,
                f"the arms of `{condition}` in {program.line_name(call.file, guard.line)} use the same groups in "
                "another order: each side waits for the other",
                fix="use the groups in the same order on all ranks",
                basis=(guard.who,),
                severity=call.milder_in_tests(rules.DC703),
                **_evidence(program, CollectiveSite(call, (call.method,), True, call), guard, condition),
            )


def _in_groups(
    program: Program, sequences: Sequences, call: SourceCall, block: int
) -> list[tuple[str, tuple[int, int]]] | None:
    """Return the collectives of groups below a block in order: name and group; None where a group is not known."""
    found = []
    for row in call.rows_in(block):
        if not isinstance(row, SourceCall) or not row.is_to(*vocabulary.COLLECTIVES):
            continue
        group = row.argument_term(None, "group")
        made = [ref for ref in origins(program, row.file, group) if origin_call(program, ref)] if group >= 0 else []
        if len(made) != 1 or any(node[1] not in ("with",) for number, node in row.blocks if number > block):
            return None
        found.append((row.method, made[0]))
    return found


def _getters(program: Program, sequences: Sequences) -> Iterator[Finding]:
    """Properties that make collectives, read on some ranks only."""
    evaluator = program.evaluator
    for call, guards in guarded_calls(program):
        source = ""
        for number in parts(program, call.file, call.event[7]):
            term = call.terms[number]
            if term[0] != "a":
                continue
            objects = [atom for atom in evaluator.value(call.file, term[1]) if atom.kind == Kind.OBJECT]
            getters = [evaluator.method(atom.const, term[2]) for atom in objects]
            if len(objects) != 1 or getters[0] is None or not evaluator.is_property(getters[0]):
                continue
            sites, _ = sequences.inside(call, getters[0])
            # a value that was read before has the term of the property as well
            source = source or program.source(call.span)
            written = re.search(rf"[\w.]+\.{re.escape(term[2])}\b(?!\s*\()", source)
            if not sites or written is None:
                continue
            text = written[0]
            site, guard = sites[0], guards[0]
            condition, at = condition_text(program, call.file, guard), program.line_name(call.file, guard.line)
            yield call.found(
                rules.DC701,
                f"the property `{text}` runs {site.operations[0]} for all ranks ({site.row.place}), but "
                f"{who_runs(guard.who)} it (`{condition}` in {at})",
                fix=f"read {text} on all ranks, above {at}, and use the value inside of the branch",
                basis=(guard.who,),
                severity=call.milder_in_tests(rules.DC701),
                flow=[
                    *flow_of(program, call.file, guard.term),
                    f"{program.place(call.file, guard.line)}: {who_runs(guard.who, 'pass', 'passes')} `{condition}`",
                    site.row.as_step(),
                ],
                reached_by=guard.who.who,
                collective=site.operations[0],
            )
            break


def _left_loops(program: Program, sequences: Sequences) -> Iterator[Finding]:
    """Loops that some ranks leave by ``break`` or ``return``, while the others go on to a collective."""
    for row in program.rows("exit"):
        if row.payload[0] not in ("break", "return", "call") or not row.inside("for", "while") or row.inside("except"):
            continue
        if row.payload[0] == "call" and is_error_exit(program, [row]):
            continue  # the launcher ends the other ranks
        loop = row.loops[-1][0]
        guard = leaves_alone(program, sequences, row, loop)
        if guard is None:
            continue
        inside = [other for other in row.rows_in(loop) if isinstance(other, SourceCall) and other.loops]
        shared = [
            collective
            for other in inside
            if not partial_guards(other)
            and (collective := sequences.collective_site(other)) is not None
            and not _only_groups(collective)
        ]
        if not shared or any(collective.row.number > row.number for collective in shared):
            continue
        collective = shared[0]
        # an inner loop may be empty
        certain = any(one.row.loops[-1][0] == loop for one in shared)
        condition = condition_text(program, row.file, guard)
        yield collective.row.found(
            rules.DC702,
            f"{_subject(program, collective)} in every step of the loop, but `{row.text()}` in {row.line_name} takes "
            f"{_taken(guard.who)} out of it",
            fix="let one rank decide, broadcast the decision, and let all ranks exit the loop together",
            basis=(guard.who if certain else guard.who.at_best(Certainty.MERGED),),
            severity=row.milder_in_tests(rules.DC702),
            **_evidence(program, collective, guard, condition),
        )


def leaves_alone(program: Program, sequences: Sequences, row: EventRow, loop: int) -> Guard | None:
    """Return the rank check within a loop by which an exit takes some ranks out of it, if it is not known that
    the others hear of it; None for any other exit.
    """
    guards = [guard for guard in partial_guards(row) if guard.block > loop and not guard.kind.startswith("exit:")]
    if not guards or _heard_of(program, row, guards[-1]):
        return None
    inside = row.rows_in(loop)
    if any(other.kind == "exit" and other.number != row.number and _opposite(other, guards[0]) for other in inside):
        return None
    arm = [other for other in inside if any(number == guards[0].block for number, _ in other.blocks)]
    if any(
        isinstance(other, SourceCall) and (sequences.collective_site(other) or sequences.is_unseen(other))
        for other in arm
    ):
        return None
    return guards[0]


def _opposite(row: EventRow, guard: Guard) -> bool:
    return any(_halves(guard, own, True) for own in row.guards if own.who.who in PARTIAL)


def _taken(who: RankCondition) -> str:
    return "only some ranks" if who.who == Who.SOME else who.who


def _heard_of(program: Program, row: EventRow, guard: Guard) -> bool:
    """Return whether a condition also uses a value that went through a collective."""
    inner = program.subterms(row.file, guard.term, names=False)
    return any(row.terms[number][:2] == ("u", "reduced") for number in inner)


def _is_local(collective: CollectiveSite) -> bool:
    """Return whether only the members have to make the group."""
    call = collective.innermost
    return call.has_star or call.constant(None, "use_local_synchronization", False) is not False


def _same_group_elsewhere(sequences: Sequences, call: SourceCall, guard: Guard) -> bool:
    """Return whether the other ranks make the same group in their own arm, or under a test of their own."""
    apart = [other for block in sequences.arms_against(call, guard) for other in call.rows_in(block)]
    for other in sequences.program.rows_of(call.file, call.scope):
        if other != call and any(_halves(guard, own, True) for own in other.guards if own.who.who in PARTIAL):
            apart.append(other)
    return any(
        isinstance(other, SourceCall) and other.method == call.method and _arguments(other) == _arguments(call)
        for other in apart
    )


def _arguments(call: SourceCall) -> tuple[str, ...]:
    return (
        *(call.term_text(item) for item in call.term[2]),
        *(f"{name}={call.term_text(item)}" for name, item in call.term[3]),
    )


def _is_own_group(value: Value) -> bool:
    """Return whether a list names this rank alone: no rank waits in such a group."""
    return all(
        atom.kind in (Kind.LIST, Kind.TUPLE) and len(atom.items) == 1 and atom.items[0].has(*RANKS) for atom in value
    )


def _depends_on_rank(value: Value, depth: int = 0) -> bool:
    """Return whether a list of ranks, or a bound of a range, is made from this process's own rank."""
    for atom in value:
        if not atom.traced:
            continue
        if atom.kind in (Kind.RANK_DEPENDENT, Kind.NODE_OFFSET) or (
            atom.kind in RANKS and atom.kind != Kind.GROUP_RANK
        ):
            return True
        inner = (
            atom.items
            if atom.kind in (Kind.LIST, Kind.TUPLE) or (atom.kind == Kind.RESULT and atom.const == "range")
            else ()
        )
        if depth < 3 and any(_depends_on_rank(item, depth + 1) for item in inner):
            return True
        if atom.kind == Kind.LIST and atom.of and depth < 3 and _depends_on_rank(Value(atom.of), depth + 1):
            return True
    return False
