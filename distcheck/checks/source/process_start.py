"""What starts the ranks, as far as a script shows it, and probes about scripts that need a launcher.

Launch files and commands are judged elsewhere; here is only what stands in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.rules.double_launch import KEEP_ONE

from .environment_variables import reads, writes
from .program import EventRow, Program, SourceCall, cached
from .values import Kind, Value, Who
from .vocabulary import SPAWNS

#: Calls that start processes, or split a command for one that does.
STARTERS = (
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen", "getoutput")),
    "os.system",
    "os.popen",
    "os.execv",
    "os.execvp",
    "os.execvpe",
    "shlex.split",
    "runpy.run_module",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
)  # fmt: skip
_LAUNCHERS = lazy(
    r"torchrun|torch\.distributed\.(launch|run)\b|accelerate launch|\bdeepspeed\b|\bsrun\b|\bmpirun\b|\bhorovodrun\b|"
    r"elastic_launch|\bmp\.spawn\b|notebook_launcher|run\.sh|sbatch",
    literals=(
        "torchrun", "torch.distributed.", "accelerate launch", "deepspeed", "srun", "mpirun", "horovodrun",
        "elastic_launch", "mp.spawn", "notebook_launcher", "run.sh", "sbatch",
    ),
)  # fmt: skip


# conditions


def launcher_is_tested(program: Program, row: EventRow) -> bool:
    """Whether a condition around a row, or an exit before it, tests if a variable is set, or if others are there."""
    if row.reached_by.who == Who.SINGLE:
        return True
    terms = program.terms[row.file]
    for _, node in row.blocks:
        if node[1] not in ("if", "while") and not node[1].startswith("exit:"):
            continue
        for number in program.subterms(row.file, node[2]):
            term = terms[number]
            if term[0] == "=" and term[1] in ("in", "not in") and row.term_value(term[3]).named("os.environ"):
                return True
            if term[0] == "=" and _may_be_missing(row.term_value(term[2])) and _means_missing(row.term_value(term[3])):
                return True
            if number == node[2] and _may_be_missing(row.term_value(number)):
                return True
            if term[0] == "u" and term[1] == "not" and _may_be_missing(row.term_value(term[2])):
                return True
            if term[0] == "c" and any(item.const in _PRESENCE for item in row.term_value(term[1])):
                return True
    return False


_PRESENCE = frozenset(
    ["torch.distributed.is_torchelastic_launched", "torch.distributed.is_initialized", "os.environ.__contains__"]
)


def _may_be_missing(value: Value) -> bool:
    """Return whether a value is what ``get`` gives for a variable, which may not be there."""
    atom = value.get(Kind.ENV_TEXT)
    return atom is not None and all(item.kind in (Kind.ENV_TEXT, Kind.CONST) for item in value)


def _means_missing(value: Value) -> bool:
    return any(constant is None or constant in ("", -1, "-1") for constant in value.constants)


def conditional(row: EventRow) -> bool:
    """Return whether a row runs on some ways through its function only; errors that end the script do not count."""
    program = row.program
    for _, node in row.blocks:
        if node[1] in ("except", "while") or (node[1].startswith("exit:") and node[1] != "exit:raise"):
            return True
        if node[1] == "if" and not _is_main_guard(program, row.file, node[2]):
            return True
    return False


def _is_main_guard(program: Program, file: int, number: int) -> bool:
    terms = program.terms[file]
    term = terms[number]
    return term[0] == "=" and any(terms[side] == ("k", "str", "__main__") for side in term[2:4])


def entered_from(program: Program, row: EventRow) -> list[tuple[int, int]]:
    """Return the functions and modules from which a row is reached by calls without a condition, its own among them."""
    found = [(row.file, row.scope)]
    for file, scope in found:
        if scope == 0 or len(found) > 30:
            continue
        for site in program.evaluator.callers.get((file, scope), ()):
            caller = EventRow(program, site.file, site.event)
            key = (site.file, caller.scope)
            if site.kind == "call" and not conditional(caller) and key not in found:
                found.append(key)
    return found


def reached_by_calls(program: Program, functions: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Functions of the project that these enter, directly or through others; themselves among them."""
    found: list[tuple[int, int]] = list(functions)
    seen = set(found)
    for file, scope in found:
        if len(found) > 200:
            break
        for row in program.rows_of(file, scope):
            if isinstance(row, SourceCall):
                for inner in program.functions(row):
                    if inner not in seen:
                        seen.add(inner)
                        found.append(inner)
    return seen


@cached
def starts_itself(program: Program, script: int) -> bool:
    """Return whether a script may start itself again with a launcher."""
    return any(call.file == script for call in program.calls_to(*STARTERS)) and bool(
        _LAUNCHERS.search(program.index.files[script].text)
    )


_OF_TORCH = lazy(r"torchrun|torch\.distributed\.(?:run|launch)\b|accelerate launch")


@cached
def names_launcher(program: Program, file: int) -> bool:
    """Return whether a file names a launcher anywhere: its docstring shows how it is started."""
    return _OF_TORCH.search(program.index.files[file].text) is not None


def in_spawned_process(program: Program, row: EventRow) -> bool:
    """Return whether a row runs in processes of this host that the program starts itself, as far as calls show."""
    own = {row.file}
    if any(call.file in own for call in program.calls_to(*SPAWNS, *_PROCESSES)):
        return True
    pending = [(row.file, row.scope)]
    seen: set[tuple[int, int]] = set()
    while pending:
        key = pending.pop()
        if key in seen or len(seen) > 100:
            continue
        seen.add(key)
        for site in program.evaluator.callers.get(key, ()):
            if site.kind in ("spawn", "process"):
                return True
            pending.append((site.file, EventRow(program, site.file, site.event).scope))
    return False


_PROCESSES = ("torch.multiprocessing.Process", "multiprocessing.Process", "torch.multiprocessing.get_context.Process")


# two launchers


@probe(rules.DC106)
def spawns_under_a_launcher(program: Program) -> Iterator[Finding]:
    """A program that needs a launcher's LOCAL_RANK does not start ranks itself."""
    needed = [
        read.row
        for read in program.table(reads)
        if read.name == "LOCAL_RANK"
        and read.must
        and not launcher_is_tested(program, read.row)
        and not read.row.inside("try", "except")
    ]
    if not needed:
        return
    given = {write.row.file for write in program.table(writes) if write.name == "LOCAL_RANK"}
    for call in program.calls_to(*SPAWNS):
        if conditional(call) or call.reached_by.who not in (Who.EVERYONE, Who.SINGLE, Who.UNCLEAR, Who.DISTRIBUTED):
            continue
        if given.intersection(program.component(call.file)):
            continue
        if call.constant(2, "nprocs") in (0, 1):
            continue
        before = entered_from(program, call)
        started = _targets(program, call)
        inside = reached_by_calls(program, started)
        for row in needed:
            key = (row.file, row.scope)
            if key in inside or (key in before and (row.file, row.scope) != (call.file, 0)):
                where = "the started function" if key in inside else "the starting process"
                yield call.found(
                    rules.DC106,
                    f"{call.method} starts ranks, but {where} needs LOCAL_RANK of a launcher ({row.place}). "
                    "Under torchrun every rank starts all ranks once more; without it the variable is missing",
                    fix=KEEP_ONE,
                    flow=[f"{row.place}: LOCAL_RANK is read"],
                )
                break


def _targets(program: Program, call: SourceCall) -> list[tuple[int, int]]:
    target = call.argument(0, "fn")
    return [atom.const for atom in target if atom.kind == Kind.FUNCTION] if target is not None else []


# variables that a launcher sets


@probe(rules.DC208)
def rank_read_without_launcher(program: Program) -> Iterator[Finding]:
    """A script that can be started alone documents how, or works without a launcher's variables."""
    wanted = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    must = [
        read for read in program.table(reads) if read.must and read.name in wanted and program.is_script(read.row.file)
    ]
    if not must:
        return
    given = {(write.row.file, write.name) for write in program.table(writes)}
    seen = set()
    launched: dict[int, bool] = {}
    for read in sorted(must, key=lambda item: (item.row.file, item.row.line)):
        row = read.row
        if row.file in seen or row.inside("try", "except") or launcher_is_tested(program, row):
            continue
        files = program.component(row.file)
        if files[0] not in launched:
            launched[files[0]] = any(_names_a_launcher(program, file) for file in files)
        if launched[files[0]] or any((file, read.name) in given for file in files):
            continue
        seen.add(row.file)
        alone = 1 if read.name == "WORLD_SIZE" else 0
        yield row.found(
            rules.DC208,
            f"{read.name} is read without a default, and nothing here sets it: plain python raises a KeyError",
            fix=f'set a default for one process, os.environ.get("{read.name}", "{alone}"), or write in the docstring '
            "that torchrun starts it",
            variable=read.name,
        )


def _names_a_launcher(program: Program, file: int) -> bool:
    return _LAUNCHERS.search(program.index.files[file].text) is not None
