"""Probes that compare a launch line with the Python file that it starts.

The line gives ranks, variables, an option with the local rank, and nodes. The probes compare them with their use in the
script. A line whose file is uncertain is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.wording import listed
from distcheck.launch.model import NODE_LAUNCHERS, RENDEZVOUS_VARIABLES
from distcheck.launch.schedulers import task_starter
from distcheck.rules.shared_fixes import MEET_BY_SLURM, ONE_TASK_A_NODE, processes_on_a_host

from . import context
from .counts import tasks_on_node
from .model import LaunchFile, LaunchFiles, LaunchSite
from .paths import normalized, the_one
from .scripts import STARTED_BY, ScriptStart, Started, names_of, script_word

if TYPE_CHECKING:
    from distcheck.checks.source.program import EventRow, Program, SourceCall

#: Text of a file that uses a launcher's variables from outside: a launcher starts the file.
_TAKES_RANKS = lazy(
    r"\$\{?(RANK|LOCAL_RANK|WORLD_SIZE|NODE_RANK|MASTER_ADDR|OMPI_COMM_WORLD_(?:LOCAL_)?RANK|PMI_RANK)\b"
)
#: Kinds of files whose command may be started by something outside the file.
_OPEN_KINDS = frozenset({"dockerfile"})
#: Pods whose operator starts the ranks itself.
_OWN_STARTERS = lazy(r"(?i)mpi|ray|horovod|tf")


# plain python


@probe(rules.DC802)
def plain_python_starts_ranks(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """A script that needs a launcher's variables is started by a launcher, or gets them otherwise."""
    program = started.program
    if program is None:
        return
    outer = _outer_lines(launch_files)
    taking = {file.path for file in launch_files.files if _takes_ranks(file, "\n".join(file.lines))}
    needs: dict[int, tuple[_Need, ...]] = {}
    for start in started.starts:
        site = start.site
        if site.command.launcher != "python" or site.kind in _OPEN_KINDS:
            continue
        if site.pods is not None and _OWN_STARTERS.search(site.pods.kind):
            continue
        if start.file.path in taking:
            continue
        given = _given(start.file, site, outer.get(start.file.path, ()))
        if given is None:
            continue
        if start.script not in needs:
            needs[start.script] = tuple(_needs(program, start.script))
        for need in needs[start.script]:
            missing = tuple(name for name in need.names if name not in given)
            if missing and not (need.by_torch and _meets_elsewhere(program, need.row, start.site, given)):
                yield _plain_python(start, need, missing)
                break


class _Need(NamedTuple):
    """A line that a script always reaches, and the variables without which it fails there."""

    row: EventRow
    names: tuple[str, ...]
    by_torch: bool


def _outer_lines(launch_files: LaunchFiles) -> dict[str, list[LaunchSite]]:
    """Return the lines that start a launch file, by its path."""
    paths = {file.path.replace("\\", "/"): file.path for file in launch_files.files}
    found: dict[str, list[LaunchSite]] = {}
    for _, site in launch_files.sites():
        script = site.command.script
        if script is not None and not script.endswith(".py"):
            path = the_one(site, (script,), paths.__contains__)
            if path is not None and paths[path] != site.span.path:
                found.setdefault(paths[path], []).append(site)
    return found


def _given(
    file: LaunchFile, site: LaunchSite, outer: list[LaunchSite] | tuple[LaunchSite, ...]
) -> frozenset[str] | None:
    """Return the variables that the processes of a line get, or None if unknown."""
    given = {name for name, setting in site.settings.items() if setting.reaches_processes}
    given.update(site.command.assignments)
    if site.pods is not None:
        given.update(site.pods.injected, (setting.name for setting in site.pods.settings))
    if _takes_ranks(file, "\n".join((*site.conditions, *(word.text for word in site.words)))):
        return None
    for line in outer:
        if line.command.launcher in NODE_LAUNCHERS:
            return None
        given.update(line.settings, line.command.assignments)
    return frozenset(given)


def _takes_ranks(file: LaunchFile, text: str) -> bool:
    """Return whether a text of a file uses a launcher's variables that the file does not set."""
    names = set(_TAKES_RANKS.findall(text))
    return bool(names) and not names <= {setting.name for setting in file.settings}


def _needs(program: Program, script: int) -> Iterator[_Need]:
    """Yield the lines that a script always reaches and that need a launcher's variables, its own first."""
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.environment_variables import writes
    from distcheck.checks.source.process_start import starts_itself

    files = files_from(program, script)
    found = [
        need
        for need in program.table(_all_needs)
        if need.row.file in files and _always_reached(program, script, need.row)
    ]
    if not found or program.framework(script) is not None or files & set(program.table(_unknown_setters)):
        return
    if starts_itself(program, script):
        return
    written = {write.name for write in writes(program) if write.row.file in files}
    for need in sorted(found, key=lambda need: (need.row.file != script, -len(need.names), need.row.line)):
        names = tuple(name for name in need.names if name not in written)
        if names:
            yield need._replace(names=names)


def _all_needs(program: Program) -> Iterator[_Need]:
    """Yield the lines of a program that fail without a launcher's variables."""
    from distcheck.checks.source.environment_variables import reads
    from distcheck.checks.source.process_start import launcher_is_tested

    for read in reads(program):
        row = read.row
        wanted = read.must and read.name in RENDEZVOUS_VARIABLES and not row.inside("try", "except")
        if wanted and program.framework(row.file) is None and not launcher_is_tested(program, row):
            yield _Need(row, (read.name,), False)
    for call in program.calls_to("torch.distributed.init_process_group"):
        names = () if call.inside("try", "except") else _needed_by(call)
        if names and program.framework(call.file) is None and not launcher_is_tested(program, call):
            yield _Need(call, names, True)


def _needed_by(init: SourceCall) -> tuple[str, ...]:
    """Return the variables that ``init_process_group`` reads, given its arguments."""
    url, backend = init.argument(1, "init_method"), init.argument(0, "backend")
    if init.has_star or init.gives(None, "store"):
        return ()
    if url is not None and list(url.constants) not in (["env://"], [None]):
        return ()
    if backend is not None and backend.constant in ("mpi", "fake"):
        return ()
    names = ["MASTER_ADDR", "MASTER_PORT"]
    if not init.gives(3, "world_size"):
        names.insert(0, "WORLD_SIZE")
    if not init.gives(4, "rank"):
        names.insert(0, "RANK")
    return tuple(names)


#: Steps from a call to the option that it is given.
_DEEPEST = 6
#: Arguments that only the shell knows, as ``"$@"`` or ``"${ARGS[@]}"``: any option may be among them.
_MANY = lazy(
    r"""^["']?\$(?:[@*]|\{[@*]\}|\{?\w*(?:args|argv|opts|options|params|flags)\w*(?:\[[@*]\])?\}?)["']?$""", re.I
)
_OTHER_METHODS = lazy(r"\b(?:tcp|file)://")


def _meets_elsewhere(program: Program, row: EventRow, site: LaunchSite, given: frozenset[str]) -> bool:
    """Return whether the address of a group is an option or a variable that a line gives, so that it is not ``env://``."""
    from distcheck.checks.source.program import SourceCall

    if not isinstance(row, SourceCall):
        return False
    url = row.argument_term(1, "init_method")
    if url < 0:
        return False
    options, variables = _sources(program, row.file, url)
    if variables & given:
        return True
    arguments = site.command.script_args
    if options and any(_OTHER_METHODS.search(text) or _MANY.match(text) for text in arguments):
        return True
    spellings = {f"--{name}" for option in options for name in (option, option.replace("_", "-"))}
    for option in options:
        for declared in program.evaluator.options.get(option, ()):
            call = SourceCall(program, *declared)
            for position in range(call.positional):
                value = call.argument(position)
                if value is not None and isinstance(value.constant, str) and value.constant.startswith("-"):
                    spellings.add(value.constant)
    for position, text in enumerate(arguments):
        name, equals, given_text = text.partition("=")
        if name in spellings:
            if not equals:
                given_text = arguments[position + 1] if position + 1 < len(arguments) else ""
            if given_text.strip("\"'") != "env://":
                return True
    return False


def _sources(program: Program, file: int, term: int, depth: int = 0) -> tuple[set[str], set[str]]:
    """Return the names of the options, and those of the variables, that a term may come from."""
    from distcheck.checks.source import path_values
    from distcheck.checks.source.program import SourceCall
    from distcheck.checks.source.values import Kind

    options: set[str] = set()
    variables: set[str] = set()
    terms = program.terms[file]
    for number in program.subterms(file, term):
        part = terms[number]
        for atom in program.evaluator.value(file, number):
            if atom.kind == Kind.ENV_TEXT and isinstance(atom.const, str):
                variables.add(atom.const)
        if part[0] == "a" and part[2] in program.evaluator.options:
            options.add(part[2])
        if part[0] == "s":
            key = program.evaluator.value(file, part[2]).constant
            if isinstance(key, str) and key in program.evaluator.options:
                options.add(key)
        if part[0] == "p" and depth < _DEEPEST:
            if part[2] in program.evaluator.options:
                options.add(part[2])  # click, and main(**vars(args))
            for site in program.evaluator.callers.get((file, part[1]), ())[:_DEEPEST]:
                passed = path_values.passed_term(
                    program, SourceCall(program, site.file, site.event), (file, part[1]), part[2]
                )
                if passed is not None and passed != (file, number):
                    inner = _sources(program, *passed, depth + 1)
                    options |= inner[0]
                    variables |= inner[1]
    return options, variables


def _unknown_setters(program: Program) -> Iterator[int]:
    """Yield the files that set variables with unknown names."""
    from distcheck.checks.source.source_text import last_name

    for row in program.rows("store"):
        base, index = row.payload[0], row.payload[1]
        # as in source.settings: the name of the target decides before its value
        if "env" not in last_name(program.index.files[row.file].summary.terms, base).lower():
            continue
        if row.term_value(base).named("os.environ") and not isinstance(row.term_value(index).constant, str):
            yield row.file
    for call in program.calls_to("os.environ.update", "os.environ.setdefault", "os.putenv"):
        key = call.argument(0, "key")
        if call.method == "update":
            known = not call.positional or (key is not None and key.get("dict") is not None)
        else:
            known = key is not None and isinstance(key.constant, str)
        if call.has_star or not known:
            yield call.file
    for call in program.calls_named("load_dotenv"):
        yield call.file


def _always_reached(program: Program, script: int, row: EventRow) -> bool:
    """Return whether a script reaches a line on every path, as far as calls show."""
    from distcheck.checks.source.process_start import conditional, entered_from

    return not conditional(row) and (script, 0) in entered_from(program, row)


def _plain_python(start: ScriptStart, need: _Need, missing: tuple[str, ...]) -> Finding:
    site = start.site
    starter = task_starter(site.command)
    location = f"{need.row.path}:{need.row.line}"
    who = "init_process_group" if need.by_torch else "the script"
    word = script_word(site)
    return rules.DC802.found(
        f"{start.path} is started by {starter or 'plain'} python, and no launcher sets {listed(missing)}, "
        f"which {who} reads at {location}",
        where=site.where(word, object=start.path),
        evidence={"script": start.path, "missing": list(missing), "flow": [f"{location}: {need.row.text()}"]},
        fix=_by_torchrun(start, starter, gloo=_uses_gloo(need.row)),
    )


def _uses_gloo(row: EventRow) -> bool:
    """Return whether a row creates a group of gloo alone."""
    from distcheck.checks.source.program import SourceCall

    backend = row.argument(0, "backend") if isinstance(row, SourceCall) else None
    return backend is not None and backend.constant == "gloo"


def _by_torchrun(start: ScriptStart, starter: str | None, *, gloo: bool) -> Fix:
    site = start.site
    number, otherwise = processes_on_a_host(gloo=gloo)
    script = f"-m {site.command.script}" if site.command.module else f"{site.command.script or start.path}"
    if starter == "srun":
        return Fix(
            "set them from Slurm's in each task: srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID "
            f"WORLD_SIZE=$SLURM_NTASKS exec python {script} …', with MASTER_ADDR and MASTER_PORT exported before; or "
            "give torchrun one task a node",
            where="job-script",
        )
    if starter is not None:
        return Fix(
            f"set them from the variables of {starter} in each task (Open MPI: RANK=$OMPI_COMM_WORLD_RANK "
            "LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE), with MASTER_ADDR and "
            "MASTER_PORT exported before; or start torchrun once on each node",
            where="launch-line",
        )
    if site.pods is not None and site.pods.injected:
        return Fix(
            "start it with torchrun in each pod, which counts nodes as the operator does: bash -c 'torchrun "
            '--nnodes="$WORLD_SIZE" --node-rank="$RANK" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" '
            f"{number} {script}'{otherwise}",
            where="job-script",
        )
    if (context.job_nodes(site) or 1) > 1:
        return Fix(
            f"let srun start torchrun once on each node: srun {ONE_TASK_A_NODE} torchrun {MEET_BY_SLURM} "
            f"{number} {script}{otherwise}",
            where="job-script",
        )
    edits = _replace_python(site, number)
    return Fix(
        f"start it with torchrun: torchrun --standalone {number} {script}{otherwise}",
        edits=edits,
        where="launch-line",
        risk=f"it then runs {'twice' if gloo else 'once for each GPU'}" if edits else None,
    )


def _replace_python(site: LaunchSite, number: str) -> tuple[Edit, ...]:
    """Return the edit that replaces ``python`` by torchrun, if no option is between it and the script."""
    word = script_word(site)
    if word is None:
        return ()
    at = site.words.index(word) - (2 if site.command.module else 1)
    if at < 0 or not re.fullmatch(r"python[\d.]*", site.words[at].written):
        return ()
    return (site.words[at].span.replaced_by(f"torchrun --standalone {number}"),)


# two launchers


@probe(rules.DC106)
def ranks_spawn_ranks(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """A script that a launcher starts several times on a node does not start ranks itself."""
    program = started.program
    if program is None:
        return
    spawns: dict[int, SourceCall | None] = {}
    for start in started.starts:
        many = _started_often(start.site)
        if many is None:
            continue
        if start.script not in spawns:
            spawns[start.script] = next(_spawns(program, start.script), None)
        call = spawns[start.script]
        if call is None:
            continue
        word = script_word(start.site)
        yield rules.DC106.found(
            f"{many} of {start.path} on a node, and each of them starts all ranks once more with {call.method} "
            f"({call.path}:{call.line})",
            where=start.site.where(word, object=start.path),
            evidence={"script": start.path, "flow": [f"{call.path}:{call.line}: {call.text()}"]},
            fix=Fix(
                f"keep one launcher: python {start.path}, which starts its ranks itself; or take {call.method} out of "
                'it, and call the function with int(os.environ["LOCAL_RANK"])',
                where="launch-line",
            ),
        )


def _started_often(site: LaunchSite) -> str | None:
    """Return how often a line starts its script on one node, in words; None for once or unknown."""
    command = site.command
    name = command.launcher
    count: int | str | None = None
    if name in NODE_LAUNCHERS:
        if command.unknown & {"nproc", "processes"}:
            return None
        if name == "accelerate":
            machines = command.nnodes_min or 1
            count = (
                None if command.processes is None or command.unknown & {"nnodes_min"} else command.processes // machines
            )
        elif command.nproc is not None and command.nproc.isdigit():
            count = int(command.nproc)
        elif command.nproc in ("gpu", "auto") or (
            name == "deepspeed" and command.nproc is None and not command.unknown & {"include", "exclude", "hostfile"}
        ):
            return f"{name} starts a process a GPU"
    elif name == "python":
        starter = task_starter(site.command)
        allocation = site.allocation
        if starter is None or command.gpus_per_task or (allocation is not None and allocation.binds_gpus):
            return None
        name, count = starter, tasks_on_node(site)
    return f"{name} starts {count} processes" if isinstance(count, int) and count > 1 else None


def _spawns(program: Program, script: int) -> Iterator[SourceCall]:
    """Yield the calls that start ranks and that a script always reaches."""
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.process_start import reached_by_calls
    from distcheck.checks.source.vocabulary import INIT, SPAWNS

    files = files_from(program, script)
    inits = {(call.file, call.scope) for call in program.calls_to(*INIT)}
    for call in program.calls_to(*SPAWNS):
        if call.file not in files or not _always_reached(program, script, call):
            continue
        count = call.argument(2, "nprocs")
        if (count is None and not call.has_star) or (
            count is not None and {0, 1}.intersection(one for one in count.constants if isinstance(one, int))
        ):
            continue
        target = call.argument(0, "fn")
        functions = [atom.const for atom in target if atom.kind == "function"] if target is not None else []
        if inits & reached_by_calls(program, functions):
            yield call


# the local rank and the global one


@probe(rules.DC201, rules.DC217, rules.DC219)
def ranks_are_mixed_up_on_several_nodes(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """What is only wrong with a second host is louder if a launch line has one, or may have one."""
    program = started.program
    if program is None:
        return
    configured = _configured_for_several(launch_files)
    lines = [
        line
        for _, site in launch_files.sites()
        if (line := _line_of_nodes(started, program, site, configured=configured)) is not None
    ]
    if not lines:
        return
    from distcheck.checks.source.device_indices import global_ranks_as_devices
    from distcheck.checks.source.rank_numbers import local_ranks_as_global, writers_of_each_host
    from distcheck.checks.source.several_hosts import files_around

    lines.sort(key=lambda line: not line.certain)
    for table in (global_ranks_as_devices, local_ranks_as_global, writers_of_each_host):
        for found in program.table(table):
            if found.worst is Severity.INFO:
                continue
            around = files_around(program, found.row)
            line = next((line for line in lines if line.scripts & around), None)
            if line is not None:
                yield _with_nodes(found.finding, line, found.worst)


#: Folders at the beginning of a path that a variable holds, or that are relative to an unknown one.
_UNKNOWN_FOLDERS = lazy(r"^(?:(?:[^/]*\$[^/]*|\.\.?)/)+")


class _LineOfNodes(NamedTuple):
    """A launch line with several nodes."""

    site: LaunchSite
    #: the files that it may start
    scripts: frozenset[int]
    #: it starts its script on several nodes; otherwise it may do so
    certain: bool


def _line_of_nodes(started: Started, program: Program, site: LaunchSite, *, configured: bool) -> _LineOfNodes | None:
    """Return a line that starts files of the program on several nodes, or on as many as a variable holds."""
    several = _on_several_nodes(site)
    if not several and not _may_have_nodes(site, configured=configured):
        return None
    start = started.of(site)
    if start is not None:
        return _LineOfNodes(site, frozenset({start.script}), several)
    scripts = frozenset(_likely_scripts(program, site))
    return _LineOfNodes(site, scripts, False) if scripts else None


def _configured_for_several(launch_files: LaunchFiles) -> bool:
    """Return whether a configuration of Accelerate has several machines."""
    return any(
        (machines := config.get("num_machines")) is not None and (machines.number or 0) > 1
        for file in launch_files.files
        for config in file.configurations
        if config.launcher == "accelerate"
    )


def _on_several_nodes(site: LaunchSite) -> bool:
    if site.pods is not None and site.pods.nodes is not None and (site.pods.nodes.number or 0) > 1:
        return True
    return context.several_nodes(site) is True


def _may_have_nodes(site: LaunchSite, *, configured: bool) -> bool:
    """Return whether the nodes of a line are more than one, or a variable: one is only its default.

    :param configured: a configuration of Accelerate has several machines
    """
    command = site.command
    if command.standalone:
        return False
    word = site.value(*context.NODES_OPTIONS)
    if word is not None:
        return bool(command.unknown & {"nnodes_min", "nnodes_max"} or word.origins or "$" in word.written)
    if command.launcher == "deepspeed" and command.hostfile is not None:
        return True
    if command.launcher == "accelerate" and configured:
        return True
    return "nodes" in command.unknown or (context.job_nodes(site) or 1) > 1


def _likely_scripts(program: Program, site: LaunchSite) -> Iterator[int]:
    """Yield the file whose path ends like the script of a line, if there is one only."""
    by_name: dict[str, list[tuple[int, str]]] = program.notes.setdefault("files by name", {})
    if not by_name:
        for number, facts in enumerate(program.index.files):
            path = normalized(facts.path)
            by_name.setdefault(path.rpartition("/")[2], []).append((number, path))
    found = {
        number
        for given in names_of(site)
        if (name := _UNKNOWN_FOLDERS.sub("", given))
        for number, path in by_name.get(name.rpartition("/")[2], ())
        if f"/{path}".endswith(f"/{name}")
    }
    if len(found) == 1:
        yield from found


def _with_nodes(finding: Finding, line: _LineOfNodes, worst: Severity) -> Finding:
    place = f"{line.site.span.path}:{line.site.span.line}"
    how = "on several nodes" if line.certain else "on as many nodes as a variable holds"
    return finding._replace(
        severity=worst if line.certain else min(worst, Severity.WARNING),
        message=f"{finding.message}, and {place} starts it {how}",
        evidence={**finding.evidence, STARTED_BY: place},
    )
