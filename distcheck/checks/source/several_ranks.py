"""Signs that a script runs as several ranks: what cannot happen in one process is quiet without one.

Here are the signs in the code: ranks that the program spawns, a group that every run makes, an API of a launcher. The
launch lines are others, see :mod:`..launch_files.started_ranks`. A finding carries both until its level is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from distcheck.core.model import Finding, Severity
from distcheck.core.rank_evidence import LAUNCHER_API, SCRIPTS, SIGN

from . import call_paths, vocabulary
from .device_uses import MASKS, called_in, files_from, roots_of, roots_of_scope
from .environment_variables import reads, writes
from .path_values import CallPath
from .process_start import conditional, entered_from, launcher_is_tested, names_launcher, starts_itself
from .program import EventRow, Function, Program, SourceCall, cached
from .values import Kind
from .vocabulary import INIT_GROUP, SPAWNS

#: What a program of one process does not make, wherever it stands.
_LAUNCHED_APIS = ("accelerate.Accelerator", "accelerate.PartialState")
#: Other starts of a group, which need a launcher.
#: Launchers that a program calls.
_LAUNCHERS = (
    "submitit.AutoExecutor",
    "submitit.SlurmExecutor",
    "torch.distributed.launcher.elastic_launch",
    "torch.distributed.launcher.api.elastic_launch",
    "accelerate.notebook_launcher",
    "detectron2.engine.launch",
    "pyspark.ml.torch.distributor.TorchDistributor",
)
_LIGHTNING = ("lightning", "pytorch_lightning")
_OTHER_STARTS = (*sorted(vocabulary.INIT - {INIT_GROUP}), "deepspeed.initialize")
_OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
#: Rules about what is harmless in a job of one process, and whose code shows by itself that it is meant for several.
HARMLESS_ALONE = vocabulary.word_set(
    "DC206 DC213 DC216 DC217 DC219 DC519 DC701 DC702 DC704 DC707 DC708 DC721 DC722 DC723 DC724 DC726 DC730 DC732 DC733 "
    "DC735 DC738 DC739 DC757 DC758 DC759"
)


def signs(row: EventRow, call_path: CallPath | None = None) -> dict[str, Any]:
    """Return the evidence of a finding that needs several ranks: the scripts that reach a row, and the sign in code.

    There is none if the program starts its ranks itself: no launch line matters then.
    """
    program = row.program
    roots = roots_of(program, row) | (frozenset() if call_path is None else {call_path.root})
    if call_path is not None and call_path.root[1] == 0:
        roots = _unguarded_roots(program, row, call_path, roots)
    if any(starts_ranks(program, root) for root in roots):
        return {}
    scripts = sorted({file for file, scope in roots if scope == 0})
    passed = {(one.file, one.scope) for one in (row, *(() if call_path is None else call_path.calls))} | roots
    if has_one_gpu(program, scripts):
        return {SCRIPTS: [program.index.files[file].path for file in scripts]}
    starts = {row.file, *scripts}
    sign = _sign_of_ranks(program, starts, passed)
    named = next((file for file in scripts if names_launcher(program, file)), None)
    if sign is None and named is not None:
        sign = f"{program.index.files[named].path} names a launcher"
    found: dict[str, Any] = {SCRIPTS: [program.index.files[file].path for file in scripts]}
    if sign is None:
        api = _launched_api(program, starts)
        if api is not None:
            sign = api
            if scripts and not any(_is_named(program, file) for file in scripts):
                found[LAUNCHER_API] = _own_starters(program)
    return found if sign is None else {**found, SIGN: sign}


def _unguarded_roots(
    program: Program, row: EventRow, call_path: CallPath, roots: frozenset[Function]
) -> frozenset[Function]:
    """Return the roots from which every rank reaches a row, if these are scripts: others call it on some ranks only."""
    found = {call_path.root, *(one.root for one in call_paths.paths_of_all_ranks(program, row, first_is_a_guard=True))}
    return frozenset(found) if all(scope == 0 for _, scope in found) else roots


def _is_named(program: Program, script: int) -> bool:
    """Return whether another file imports or names a script."""
    stem = program.index.files[script].path.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
    return bool(program.evaluator.importers(script) - {script}) or program.uses_name(script, stem)


@cached
def _own_starters(program: Program) -> list[str]:
    """Return the scripts that start their ranks themselves, or that let Lightning start them."""
    return [
        facts.path
        for number, facts in enumerate(program.index.files)
        if facts.has_main_guard
        and (
            any(dotted.partition(".")[0] in _LIGHTNING for dotted in program.imports(number))
            or starts_ranks(program, (number, 0))
        )
    ]


def with_scripts(program: Program, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings; those that are harmless in one process get the only script that reaches them.

    So they are notes where all launch lines of that script start one process. No line is no sign of that.
    """
    numbers = {facts.path: number for number, facts in enumerate(program.index.files)}
    found = []
    for finding in findings:
        file = numbers.get(finding.where.path or "")
        if (
            file is not None
            and finding.code in HARMLESS_ALONE
            and finding.severity > Severity.INFO
            and finding.evidence.keys().isdisjoint((SCRIPTS, SIGN))
        ):
            line = program.source_line(file, finding.where)
            scopes = program.index.scopes[file]
            inside = [number for number, one in enumerate(scopes) if number and one.line <= line <= one.end_line]
            roots = roots_of_scope(program, file, max(inside, key=lambda one: scopes[one].line, default=0))
            scripts = {one for one, scope in roots if scope == 0 and not program.is_test(one)}
            if spawns_one_process(program, roots):
                why = "the script leaves itself one GPU, and spawns a process for each"
                finding = finding._replace(severity=Severity.INFO, message=f"{finding.message}; {why}")
            elif len(scripts) == 1 and not any(starts_ranks(program, root) for root in roots):
                script = program.index.files[scripts.pop()].path
                sign = program.place(file, line)
                finding = finding._replace(evidence={**finding.evidence, SCRIPTS: [script], SIGN: sign})
        found.append(finding)
    return found


def has_one_gpu(program: Program, scripts: Collection[int]) -> bool:
    """Return whether one of the scripts leaves itself one GPU by a mask in its own text, the same in each process."""
    return any(
        write.row.file in scripts
        and write.row.scope == 0
        and write.name in MASKS
        and str(write.value.constant).strip().isdigit()
        for write in writes(program)
    )


def spawns_one_process(program: Program, roots: Collection[Function]) -> bool:
    """Return whether all scripts leave themselves one GPU, and spawn only as many processes as there are GPUs."""
    return bool(roots) and all(
        scope == 0 and has_one_gpu(program, [file]) and _spawns_for_gpus(program, file) for file, scope in roots
    )


def _spawns_for_gpus(program: Program, script: int) -> bool:
    spawns = called_in(program, files_from(program, script), *SPAWNS)
    counts = (spawn.argument(2, "nprocs") for spawn in spawns)
    return bool(spawns) and all(count is not None and count.only(Kind.DEVICE_COUNT) for count in counts)


def starts_ranks(program: Program, root: Function) -> bool:
    """Return whether a program starts its ranks itself: it spawns a root as ranks, or a root spawns or submits."""
    if any(root in started for started in call_paths.tables(program).spawning.values()):
        return call_paths.starts_a_group(program, root)
    if root[1] != 0:
        # it is handed to something, which may be what starts the ranks
        return bool(called_in(program, call_paths.related(program, root[0]), *SPAWNS, *_LAUNCHERS))
    files = files_from(program, root[0])
    return (
        call_paths.spawns_ranks(program, root)
        or any(starts_itself(program, file) for file in files)
        or bool(called_in(program, files, *_LAUNCHERS))
    )


def _sign_of_ranks(program: Program, starts: Iterable[int], passed: Iterable[Function]) -> str | None:
    """Return what shows that every run of some functions is one of several ranks; None if nothing does.

    :param starts: the files that processes start with
    :param passed: the functions on the path, from that start on
    """
    files = frozenset().union(*(files_from(program, file) for file in starts))
    entered = set(passed)
    optional = {write.name for write in writes(program) if write.row.file in files}
    found = [read for read in reads(program) if read.name in _OF_LAUNCHERS and read.row.file in files]
    optional.update(read.name for read in found if not read.must)
    needed = [read.row for read in found if read.name not in optional]
    inits = [
        call
        for call in called_in(program, files, INIT_GROUP)
        if _has_ranks(call) and optional.isdisjoint(_OF_LAUNCHERS)
    ]
    for row in (*needed, *inits, *called_in(program, files, *_OTHER_STARTS)):
        if conditional(row) or row.inside("try") or launcher_is_tested(program, row):
            continue
        if not entered.isdisjoint(entered_from(program, row)):
            return row.as_step()
    return None


def _launched_api(program: Program, starts: Iterable[int]) -> str | None:
    """Return a call that only programs of a launcher make."""
    files = frozenset().union(*(files_from(program, file) for file in starts))
    calls = called_in(program, files, *_LAUNCHED_APIS)
    return next((call.as_step() for call in calls if not program.is_test(call.file)), None)


def _has_ranks(init: SourceCall) -> bool:
    """Return whether a group has the ranks of a launcher, or others that come from optional."""
    size, rank = init.argument(3, "world_size"), init.argument(4, "rank")
    if size is not None and any(atom.kind == Kind.CONST for atom in size):
        return False
    return rank is None or (rank.rank is not None and not any(atom.kind == Kind.CONST for atom in rank))
