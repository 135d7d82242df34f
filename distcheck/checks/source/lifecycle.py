"""When the process group exists: what uses it before it is created or after it is destroyed, what creates it twice, at
import or never destroys it, how processes are spawned, and the file through which ranks synchronize.

Order is that of one function, or of a module's own lines; what a function of the project does counts with its call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.registry import probe

from . import rank_conditions, vocabulary
from .conditions import asserted
from .device_uses import roots_of
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .term_queries import callee_text, mentions, origin_call, origins, parts
from .values import Kind, RankCondition, Value, Who
from .vocabulary import COLLECTIVES, INIT_GROUP, POINT_TO_POINT, SPAWNS, D

_DESTROY = D + "destroy_process_group"
#: What creates the process group where there is none, and leaves one that is there alone.
_ENSURES = (
    "deepspeed.init_distributed",
    D + "init_distributed",
    D + "init_device_mesh",
    "accelerate.Accelerator",
    "accelerate.PartialState",
    "deepspeed.initialize",
)
#: Of these, the ones after which the group is there in any case.
_SURELY_ENSURES = ("deepspeed.init_distributed", D + "init_distributed", D + "init_device_mesh")
#: What uses the default process group: collectives, and these.
_NEEDS = frozenset(
    [D + name for name in ("get_rank", "get_world_size", "get_backend", "new_group", "new_subgroups", "barrier")]
    + [
        target
        for target, kind in COLLECTIVES.items()
        if target.startswith(D) and kind not in ("framework", "functional")
    ]
    + list(POINT_TO_POINT)
) - {D + "init_device_mesh"}
_WRAPS = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel")
_SAMPLER = "torch.utils.data.distributed.DistributedSampler"
_SPAWN, _START = SPAWNS
#: Words of a condition about a group that exists or will exist, or what kind of run this is.
_GROUP_QUERIES = (
    "is_initialized", "is_available", "_is_initialized", "distributed", "is_dist_avail_and_initialized",
    "is_dist_initialized", "dist_initialized", "initialized", "_initialized", "_INITIALIZED",
)  # fmt: skip
_DEEPEST = 6


class _GroupUse(NamedTuple):
    """What a function does to the process group."""

    #: it may create the group, somewhere inside
    may_create: bool = False
    #: it creates it in any case, and raises where there is one
    creates: bool = False
    #: after it, there is a group in any case
    ensures: bool = False
    may_destroy: bool = False
    #: after it, there is no group in any case
    destroys: bool = False
    #: it uses the group before it does anything else to it
    needs: bool = False


_NOTHING = _GroupUse()


class _GroupLifetime:
    """What calls do to the process group, answered once for each function."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.known: dict[tuple[int, int], _GroupUse] = {}

    def of_call(self, call: SourceCall, depth: int = 0) -> _GroupUse:
        """Return what one call does."""
        targets = call.targets
        if INIT_GROUP in targets:
            return _GroupUse(may_create=True, creates=len(call.callee.atoms) == 1, ensures=True)
        if _DESTROY in targets:
            group = call.argument_term(0, "group")
            whole = group < 0 or self.program.evaluator.is_world(call.file, group)
            return _GroupUse(may_destroy=True, destroys=whole)
        if any(target in _ENSURES for target in targets):
            return _GroupUse(may_create=True, ensures=any(target in _SURELY_ENSURES for target in targets))
        if self.needs_group(call):
            return _GroupUse(needs=True)
        functions = self.program.functions(call)
        if not functions:
            return self.of_unseen(call)
        if len(functions) > 1:
            every = [self.of_function(function, depth + 1) for function in functions]
            return _GroupUse(
                may_create=any(one.may_create for one in every), may_destroy=any(one.may_destroy for one in every)
            )
        return self.of_function(functions[0], depth + 1)

    def of_unseen(self, call: SourceCall) -> _GroupUse:
        """A function that can't be seen: its name may mean that it creates or destroys a group."""
        name = call.method.lower()
        outside = any(target.split(".")[0] in ("torch", "os", "numpy", "random") for target in call.targets)
        if outside or name == "startswith" or call.is_to("exit", "quit", "sys.exit"):
            return _NOTHING
        creates = any(
            word in name for word in ("init", "setup", "set_up", "launch", "distribut", "prepare", "dist", "start")
        )
        destroys = any(
            word in name
            for word in ("destroy", "clean", "teardown", "tear_down", "shutdown", "finish", "close", "exit")
        )
        return _GroupUse(may_create=creates, may_destroy=destroys)

    def of_function(self, function: tuple[int, int], depth: int = 0) -> _GroupUse:
        """Return what the body of a function does."""
        known = self.known.get(function)
        if known is not None or depth > _DEEPEST:
            return known or _NOTHING
        self.known[function] = _NOTHING
        may_create = creates = ensures = may_destroy = destroys = needs = False
        generator = self.program.is_generator(function)
        for row in self.program.rows_of(*function):
            if not isinstance(row, SourceCall):
                continue
            done = self.of_call(row, depth)
            sure = not generator and _is_unconditional(row)
            queries = sure or (not generator and self.only_uses_group(row))
            if done.needs and sure and not (may_create or may_destroy):
                needs = True
            may_create = may_create or done.may_create
            may_destroy = may_destroy or done.may_destroy
            if done.ensures and queries:
                ensures, destroys = True, False
            if done.creates and sure:
                creates = True
            if done.destroys and queries:
                destroys, ensures = True, False
        found = _GroupUse(may_create, creates, ensures, may_destroy, destroys, needs)
        if self.program.evaluator.decorated(*function).who != Who.EVERYONE:
            found = _GroupUse(may_create=may_create, may_destroy=may_destroy)
        self.known[function] = found
        return found

    def only_uses_group(self, row: EventRow) -> bool:
        """Return whether nothing but the question for a group stands around a row."""
        conditions = [
            node for _, node in row.blocks if node[1] in ("if", "while", "for", "except") or node[1].startswith("exit:")
        ]
        if row.inside("for", "while", "except", "try", "lambda"):
            return False
        terms = self.program.terms[row.file]
        for node in conditions:
            words = {
                terms[number][2] for number in parts(self.program, row.file, node[2]) if terms[number][0] in ("a", "v")
            }
            if not words & {"is_initialized", "is_available"}:
                return False
        return True

    def needs_group(self, call: SourceCall) -> bool:
        """Return whether a call raises where there is no default group."""
        for target in call.targets:
            if target in _NEEDS:
                return len(call.callee.atoms) == 1
            if target in _WRAPS:
                return not (call.gives(None, "process_group") or call.gives(None, "device_mesh") or call.has_star)
            if target == _SAMPLER:
                both = call.gives(1, "num_replicas") and call.gives(2, "rank")
                return not (both or call.has_star)
        return False


def _is_unconditional(row: EventRow) -> bool:
    """Return whether a row runs whenever its function is entered and nothing raises before."""
    return all(node[1] in ("with", "finally") for _, node in row.blocks)


def _tests_group(program: Program, row: EventRow) -> bool:
    """Return whether a row runs only where something has requested the group, or may fail."""
    if row.inside("try", "except", "lambda"):
        return True
    if mentions(program, row, *_GROUP_QUERIES):
        return True
    return any(guard.who.who in (Who.DISTRIBUTED, Who.SINGLE) for guard in row.guards)


def _level(program: Program, file: int) -> Severity | None:
    """Return the severity in tests and where a framework owns the group: info."""
    return Severity.INFO if program.is_test(file) or program.framework(file) is not None else None


def _calls_of(program: Program, file: int, scope: int) -> list[SourceCall]:
    return [row for row in program.rows_of(file, scope) if isinstance(row, SourceCall)]


def _scopes_with(program: Program, *dotted: str) -> list[tuple[int, int]]:
    """Return the scopes that make one of these calls, themselves or through functions of the project, in order."""
    return _scopes_of(program, program.calls_to(*dotted))


def _scopes_of(program: Program, calls: Iterable[SourceCall]) -> list[tuple[int, int]]:
    """Return the scopes of calls, and those from which they are entered."""
    found = dict.fromkeys((call.file, call.scope) for call in calls)
    for scope in (waiting := list(found)):
        for caller in program.callers(scope):
            above = (caller.file, caller.scope)
            if above not in found:
                found[above] = None
                waiting.append(above)
    return sorted(found)


# DC740


@probe(rules.DC740)
def group_exists_when_used(program: Program) -> Iterator[Finding]:
    """On a straight path nothing uses the process group before it is created or after it is destroyed."""
    life = _GroupLifetime(program)
    for file, scope in _scopes_with(program, INIT_GROUP, _DESTROY):
        yield from _used_before(program, life, file, scope)
        yield from _used_after(program, life, file, scope)
        yield from _used_without(program, life, file, scope)


def _used_before(program: Program, life: _GroupLifetime, file: int, scope: int) -> Iterator[Finding]:
    waiting: list[SourceCall] = []
    for call in _calls_of(program, file, scope):
        done = life.of_call(call)
        if done.needs and not _tests_group(program, call):
            waiting.append(call)
        elif done.creates and not _tests_group(program, call):
            for use in waiting:
                # what is read as a module is imported, and the group comes under its main guard, is DC742's
                if program.dominates(use, call) and not (scope == 0 and _is_guarded_by_name(program, call)):
                    yield _too_early(program, use, call)
            return
        elif done.may_create or done.may_destroy:
            return


def _too_early(program: Program, use: SourceCall, init: SourceCall) -> Finding:
    name = callee_text(use)
    if use.is_to(D + "get_rank"):
        text = 'move it after that line, or read int(os.environ["RANK"])'
    elif use.is_to(D + "get_world_size"):
        text = 'move it after that line, or read int(os.environ["WORLD_SIZE"])'
    elif use.is_to(_SAMPLER):
        text = "create the process group first, or pass the sampler num_replicas= and rank="
    else:
        text = f"move it after {callee_text(init)}() in {init.line_name}"
    evidence: dict[str, Any] = {"flow": [f"{init.place}: the process group is created by {callee_text(init)}()"]}
    severity, evidence = use.judged(rules.DC740, _level(program, use.file), (), evidence)
    return rules.DC740.found(
        f"{name}() needs the process group, which is created only in {init.line_name}",
        where=use.where(),
        fix=Fix(text, where="code"),
        evidence=evidence,
        severity=severity,
    )


def _used_after(program: Program, life: _GroupLifetime, file: int, scope: int) -> Iterator[Finding]:
    ended: SourceCall | None = None
    for call in _calls_of(program, file, scope):
        done = life.of_call(call)
        if done.may_create:
            ended = None
        elif done.destroys and not call.inside("except", "lambda"):
            ended = call
        elif done.needs and ended is not None and not _tests_group(program, call) and program.dominates(ended, call):
            yield call.found(
                rules.DC740,
                f"{callee_text(call)}() needs the process group, which is destroyed in {ended.line_name}",
                fix=f"move it before {callee_text(ended)}(), and keep what it returns in a variable",
                severity=_level(program, call.file),
                flow=[f"{ended.place}: {callee_text(ended)}() destroys the process group"],
            )


class _Switched(NamedTuple):
    """A group that one function creates in a distributed run only."""

    call: SourceCall
    #: when it is there, for a message
    when: str
    #: how to do without it where it is not
    fix: str
    #: what the finding rests on
    basis: tuple[RankCondition, ...]
    #: a helper returns without a group in a run of one process, which many scripts are never started as
    in_helper: bool = False


def _used_without(program: Program, life: _GroupLifetime, file: int, scope: int) -> Iterator[Finding]:
    """Yield the first use of a group that is not under the condition under which alone the group is created."""
    created: _Switched | None = None
    for call in _calls_of(program, file, scope):
        done = life.of_call(call)
        if done.may_create and created is not None and call.inside("if") and not program.functions(call):
            continue  # what is called so may create one, on some paths only
        if done.may_create:
            if created is not None:
                return
            created = _switched(program, call) or _left_early(program, life, call)
            if created is None and (program.functions(call) or call.targets):
                return
        elif done.may_destroy:
            return
        elif done.needs and created is not None and _is_for_all(program, call):
            yield _not_created(program, call, created)
            return


def _switched(program: Program, call: SourceCall) -> _Switched | None:
    """Return a creation that stands under one test of whether the run is distributed, and under nothing else."""
    around = [node for _, node in call.blocks if node[1] not in ("with", "finally")]
    if len(around) != 1 or around[0][1] != "if" or not call.is_to(INIT_GROUP) or not around[0][3]:
        return None
    term = around[0][2]
    who = program.evaluator.test(call.file, term)
    known = call.term_value(term).constants
    if who.who != Who.DISTRIBUTED or not who.traced or (known and all(known)):
        return None
    if mentions(program, call, *_QUERIES_OF_TORCH):
        return None
    # the other arm may create a group as well, or end the function
    for row in program.rows_of(call.file, call.scope):
        if any(node[2] == term and not node[3] for _, node in row.blocks) and (
            isinstance(row, SourceCall) or row.kind in ("exit", "return")
        ):
            return None
    text = next((program.guard_text(call.file, guard) for guard in call.guards if guard.term == term), "")
    text = text or call.term_text(term)
    return _Switched(call, f"which {call.line_name} creates only if {text}", f"put it under `if {text}:` too", (who,))


#: Queries whose answer is whether there is a group, or whether torch can make one.
_QUERIES_OF_TORCH = (
    "is_initialized",
    "_is_initialized",
    "is_available",
    "is_torchelastic_launched",
    "is_nccl_available",
)


def _left_early(program: Program, life: _GroupLifetime, call: SourceCall) -> _Switched | None:
    """Return a call of a function that returns without a group after it has noted that the run is not distributed."""
    functions = program.functions(call)
    if len(functions) != 1 or not _is_unconditional(call):
        return None
    if program.evaluator.decorated(*functions[0]).who != Who.EVERYONE:
        return None
    rows = program.rows_of(*functions[0])
    creating = [row for row in rows if isinstance(row, SourceCall) and life.of_call(row).may_create]
    known = [row for row in creating if program.functions(row) or row.targets]
    if len(known) != 1 or not known[0].is_to(INIT_GROUP) or known[0].inside("if", "for", "while", "try", "except"):
        return None
    init = known[0]
    for row in rows:
        if (
            row.kind == "attribute"
            and row.number < init.number
            and row.blocks
            and vocabulary.TESTS.get(str(row.payload[1]).lower().strip("_")) == Who.DISTRIBUTED
            and row.terms[row.payload[2]] == ("k", "bool", False)
            and any(
                other.kind == "return" and other.block == row.block and row.number < other.number < init.number
                for other in rows
            )
        ):
            name = f"{last_name(row.terms, row.payload[0])}.{row.payload[1]}"
            when = f"which {callee_text(call)}() does not create in a run that is not distributed ({row.place})"
            return _Switched(init, when, f"put it under `if {name}:`", (), in_helper=True)
    return None


def _is_for_all(program: Program, call: SourceCall) -> bool:
    """Return whether a call also runs where the run is not distributed, as far as conditions show."""
    if call.entry.who not in (Who.EVERYONE, Who.UNCLEAR):
        return False
    for _, node in call.blocks:
        if node[1] in ("with", "finally", "for"):
            continue
        if node[1] != "if" and not node[1].startswith("exit:"):
            return False
        who = program.evaluator.test(call.file, node[2]).who
        if who not in (Who.EVERYONE, Who.UNCLEAR) or rank_conditions.may_test_ranks(call, node[2]):
            return False
    return not any(program.evaluator.test(call.file, term).who == Who.DISTRIBUTED for term in asserted(call))


def _not_created(program: Program, use: SourceCall, created: _Switched) -> Finding:
    init = created.call
    return use.found(
        rules.DC740,
        f"{callee_text(use)}() needs the process group, {created.when}",
        fix=created.fix,
        basis=created.basis,
        severity=Severity.INFO if created.in_helper or _level(program, use.file) is not None else Severity.WARNING,
        flow=[f"{init.place}: {callee_text(init)}() creates the process group"],
    )


# DC741


@probe(rules.DC741)
def group_is_created_once(program: Program) -> Iterator[Finding]:
    """No path creates the process group while there is one."""
    life = _GroupLifetime(program)
    for file, scope in _scopes_with(program, INIT_GROUP):
        first: SourceCall | None = None
        for call in _calls_of(program, file, scope):
            done = life.of_call(call)
            if done.may_destroy:
                first = None
            elif done.creates and not _tests_group(program, call):
                if first is not None and program.dominates(first, call):
                    yield _twice(program, first, call)
                    break
                if _goes_round(program, life, call):
                    yield _each_round(program, call)
                    break
                if not call.inside("try", "except"):
                    first = call
            elif done.ensures and first is None and not call.inside("try", "except"):
                first = call


def _goes_round(program: Program, life: _GroupLifetime, call: SourceCall) -> bool:
    """Return whether a loop comes to a call again, with the group of the last round still there."""
    loops = call.loops
    if not loops or call.inside("if"):
        return False
    inner = loops[-1][0]
    for row in program.rows_of(call.file, call.scope):
        if inner not in [number for number, _ in row.loops]:
            continue
        if row.kind in ("exit", "return", "yield") or (isinstance(row, SourceCall) and life.of_call(row).may_destroy):
            return False
    # a loop over one thing, or one that starts processes, is not known to come again in this one
    return not any(node[1].startswith("exit:") for _, node in call.blocks)


def _twice(program: Program, first: SourceCall, second: SourceCall) -> Finding:
    again = callee_text(second)
    return second.found(
        rules.DC741,
        f"{again}() creates the process group, and {first.line_name} has created it before",
        fix=f"create it once; or test first: if not torch.distributed.is_initialized(): {again}(…)",
        severity=_level(program, second.file),
        flow=[f"{first.place}: the process group is created by {callee_text(first)}()"],
    )


def _each_round(program: Program, call: SourceCall) -> Finding:
    return call.found(
        rules.DC741,
        f"{callee_text(call)}() creates the process group in each iteration of a loop that never destroys it",
        fix="create it before the loop, or end each iteration with torch.distributed.destroy_process_group()",
        severity=_level(program, call.file),
    )


# DC742


@probe(rules.DC742)
def import_needs_no_group(program: Program) -> Iterator[Finding]:
    """What other files import uses no process group and creates none as it is imported."""
    life = _GroupLifetime(program)
    #: whether the module itself may create a group, by file
    creates: dict[int, bool] = {}
    for call in program.calls_to(INIT_GROUP, *_NEEDS):
        if not _runs_at_import(program, call) or not _is_bare(program, call):
            continue
        if call.file not in creates:
            creates[call.file] = any(
                life.of_call(other).may_create and not _is_guarded_by_name(program, other)
                for other in _calls_of(program, call.file, 0)
            )
        importer = _imported_early(program, life, call.file)
        if importer is not None:
            why = f"runs when {importer.path} imports this file in {importer.line_name}"
            flow = [f"{importer.place}: imports this file"]
        elif call.is_to(INIT_GROUP) or creates[call.file]:
            continue
        elif (inner := _created_inside(program, life, call.file)) is not None:
            why = f"runs as this file is read, before {inner.line_name} creates the process group"
            flow = [f"{inner.place}: the process group is created by {callee_text(inner)}()"]
        else:
            continue
        yield call.found(
            rules.DC742,
            f"{callee_text(call)}() {why}",
            fix="move it into a function that the entry script calls; for a default value that depends on the rank, "
            "use None and read the rank in the function",
            severity=_level(program, call.file),
            flow=flow,
        )


def _runs_at_import(program: Program, call: SourceCall) -> bool:
    """Return whether a call is made by the module itself, or by the body of a class of the module."""
    function = call.function
    while function.kind == "class":
        function = program.scope((call.file, function.parent))
    return function.kind == "module" and not program.index.files[call.file].path.endswith(".ipynb")


def _is_bare(program: Program, call: SourceCall) -> bool:
    """Return whether no condition and no ``try`` stands around it."""
    return not call.inside("if", "while", "try", "except", "else", "lambda") and not any(
        node[1].startswith("exit:") for _, node in call.blocks
    )


def _imported_early(program: Program, life: _GroupLifetime, file: int) -> EventRow | None:
    """Return an import at the top level of another file, where there is no group yet."""
    for row in program.rows("import"):
        if row.file == file or not row.at_module_level or not _is_bare_row(row):
            continue
        located = program.index.locate(row.file, row.payload[0])
        if located is None or located[0] != file:
            continue
        before = (other for other in _calls_of(program, row.file, 0) if other.number < row.number)
        if any(life.of_call(other).may_create for other in before) or program.is_test(row.file):
            continue
        return row
    return None


def _is_bare_row(row: EventRow) -> bool:
    return not row.inside("if", "try", "except")


def _created_inside(program: Program, life: _GroupLifetime, file: int) -> SourceCall | None:
    """Return the call in a function of this file that creates the group."""
    return next((call for call in program.calls_to(INIT_GROUP) if call.file == file and call.scope != 0), None)


# DC743


@probe(rules.DC743)
def group_is_destroyed(program: Program) -> Iterator[Finding]:
    """A script that creates the process group destroys it."""
    seen: set[int] = set()
    for call in program.calls_to(INIT_GROUP):
        file = call.file
        if file in seen or not _is_of_script(program, call):
            continue
        seen.add(file)
        if program.framework(file) is not None or program.is_test(file) or _speaks_of_destroying(program, file):
            continue
        yield call.found(
            rules.DC743,
            f"{callee_text(call)}() creates the process group, and nothing in this program destroys it",
            fix="call torch.distributed.destroy_process_group() on all ranks at the end",
            severity=Severity.INFO,
        )


def _is_of_script(program: Program, call: SourceCall) -> bool:
    """Return whether a script makes the call: at its top level, or it or a file that gets there has a main guard."""
    files = {call.file, *(root[0] for root in roots_of(program, call))}
    return call.scope == 0 or any(program.index.files[file].has_main_guard for file in files)


def _speaks_of_destroying(program: Program, file: int) -> bool:
    """Return whether a file, or one that it hangs together with, names the function, be it for ``atexit``."""
    for other in program.component(file):
        for term in program.terms[other]:
            if term[0] in ("a", "v") and term[2] == "destroy_process_group":
                return True
            if term[0] == "i" and term[1].endswith("destroy_process_group"):
                return True
    return False


# DC745


@probe(rules.DC745)
def spawning_is_guarded(program: Program) -> Iterator[Finding]:
    """Processes are spawned under the main guard."""
    spawning: dict[tuple[int, int], SourceCall | None] = {}
    starts = (call for call in program.calls_named("start") if _is_spawned_process(program, call))
    scopes = _scopes_of(program, [*program.calls_to(_SPAWN, _START), *starts])
    for call in (call for file, scope in scopes if scope == 0 for call in _calls_of(program, file, scope)):
        if _is_exempt(program, call):
            continue
        inner = _spawns(program, call, spawning)
        if inner is None or _is_guarded_by_name(program, call):
            continue
        through = "" if inner == call else f", through {callee_text(inner)}() in {inner.line_name},"
        yield call.found(
            rules.DC745,
            f"{callee_text(call)}() starts processes{through} and runs again in each of them, without a main guard",
            fix=f'if __name__ == "__main__": {call.text()}',
            severity=call.level_in_tests,
            flow=[] if inner == call else [f"{inner.place}: processes are spawned"],
        )


def _is_exempt(program: Program, call: SourceCall) -> bool:
    path = program.index.files[call.file].path.replace("\\", "/")
    return path.endswith(".ipynb") or path.rsplit("/", 1)[-1] == "__main__.py"


def _spawns(
    program: Program, call: SourceCall, known: dict[tuple[int, int], SourceCall | None], depth: int = 0
) -> SourceCall | None:
    """Return the call that spawns: this one, or one in the function that it enters."""
    if call.is_to(_SPAWN) or (call.is_to(_START) and _method_is_spawn(call)):
        return call
    if call.method == "start" and _is_spawned_process(program, call):
        return call
    functions = program.functions(call)
    if len(functions) != 1 or depth > 3:
        return None
    function = functions[0]
    if function not in known:
        known[function] = None
        for inner in _calls_of(program, *function):
            if not _is_guarded_by_name(program, inner) and not _tests_start_method(program, inner):
                found = _spawns(program, inner, known, depth + 1)
                if found is not None:
                    known[function] = found
                    break
    return known[function]


def _method_is_spawn(call: SourceCall) -> bool:
    return call.constant(5, "start_method", "" if call.has_star else "spawn") == "spawn"


def _tests_start_method(program: Program, call: SourceCall) -> bool:
    return mentions(program, call, "start_method", "get_start_method")


def _is_spawned_process(program: Program, call: SourceCall) -> bool:
    """Return whether ``start`` is called on a Process that is spawned, not forked."""
    if call.receiver_term < 0:
        return False
    for ref in origins(program, call.file, call.receiver_term):
        made = origin_call(program, ref)
        if made is None or made.method != "Process":
            return False
        if made.is_to("torch.multiprocessing.Process", "multiprocessing.Process"):
            return any(
                other.file == call.file
                and (value := other.argument(0, "method")) is not None
                and value.constant == "spawn"
                for other in program.calls_to(
                    "torch.multiprocessing.set_start_method", "multiprocessing.set_start_method"
                )
            )
        context = program.call_of(made.receiver.atoms[0]) if made.receiver.atoms else None
        if context is None or context.method != "get_context":
            return False
        return context.constant(0, "method") == "spawn"
    return False


def _is_guarded_by_name(program: Program, row: EventRow) -> bool:
    """Return whether a condition around a row tests ``__name__``."""
    terms = program.terms[row.file]
    for _, node in row.blocks:
        if (node[1] in ("if", "while") or node[1].startswith("exit:")) and node[2] >= 0:
            for number in parts(program, row.file, node[2]):
                if terms[number][0] == "v" and terms[number][2] == "__name__":
                    return True
    return False


# DC746

#: What makes room for a new file.
_REMOVES = (
    "os.remove", "os.unlink", "shutil.rmtree", "pathlib.Path.unlink", "os.removedirs",
)  # fmt: skip
#: What a path goes through without becoming another one for each run.
_FIXED = ("os.path.abspath", "os.path.join", "os.path.expanduser", "os.path.realpath", "pathlib.Path", "str")


@probe(rules.DC746)
def rendezvous_file_is_new(program: Program) -> Iterator[Finding]:
    """The file through which ranks synchronize is new for each run."""
    for call in program.calls_to(INIT_GROUP, D + "FileStore"):
        position, name = (1, "init_method") if call.is_to(INIT_GROUP) else (0, "file_name")
        value = call.argument(position, name)
        term = call.argument_term(position, name)
        if value is None:
            continue
        path = _fixed_path(program, call.file, term, value)
        if path is None or (call.is_to(INIT_GROUP) and not path.startswith("file:")):
            continue
        if _removes(program, call.file):
            continue
        shown = path.removeprefix("file://")
        yield call.found(
            rules.DC746,
            f"the ranks rendezvous in {shown or 'a file'} in each run: a killed run leaves stale addresses in it",
            fix="drop init_method and start with torchrun; or put the job's id into the path",
            severity=call.level_in_tests,
        )


def _removes(program: Program, file: int) -> bool:
    files = set(program.component(file))
    if any(call.file in files for call in program.calls_to(*_REMOVES)):
        return True
    return any(call.file in files for call in program.calls_named("unlink"))


def _fixed_path(program: Program, file: int, term: int, value: Value, depth: int = 0) -> str | None:
    """Return the path, where it is the same in each run; None where something of a run, or not known, is in it."""
    if isinstance(value.constant, str):
        return value.constant
    if depth > 5 or len(value.atoms) != 1:
        return None
    atom = value.atoms[0]
    if atom.kind == Kind.TEXT and isinstance(atom.const, str):
        found = [_fixed_path(program, file, -1, Value((inner,)), depth + 1) for inner in atom.of]
        if any(part is None for part in found):
            return None
        text = atom.const
        for part in found:
            text = text.replace("{}", str(part), 1)
        return text
    if atom.kind == Kind.CONST:
        return str(atom.const)
    made = program.call_of(atom)
    if made is not None and made.is_to(*_FIXED) and not made.has_star:
        found = [
            _fixed_path(program, made.file, made.argument_term(number), given, depth + 1)
            for number in range(made.positional)
            if (given := made.argument(number)) is not None
        ]
        if found and all(part is not None for part in found):
            return "/".join(str(part) for part in found)
    return None
