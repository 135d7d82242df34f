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
from distcheck.core.rank_evidence import SINCE
from distcheck.core.registry import probe
from distcheck.core.wording import listed
from distcheck.launch.model import ELASTIC_LAUNCHERS, NODE_LAUNCHERS, RENDEZVOUS_VARIABLES
from distcheck.launch.schedulers import task_starter
from distcheck.rules.shared_fixes import MEET_BY_SLURM, ONE_TASK_A_NODE, processes_on_a_host

from . import context
from .counts import tasks_on_node
from .model import LaunchFile, LaunchFiles, LaunchSite, Word
from .paths import normalized, the_one
from .scripts import STARTED_BY, ScriptStart, Started, names_of

if TYPE_CHECKING:
    from distcheck.checks.source.program import EventRow, Program, SourceCall

#: Text of a file that uses a launcher's variables from outside: a launcher starts the file.
_TAKES_RANKS = re.compile(
    r"\$\{?(RANK|LOCAL_RANK|WORLD_SIZE|NODE_RANK|MASTER_ADDR|OMPI_COMM_WORLD_(?:LOCAL_)?RANK|PMI_RANK)\b"
)
_LOCAL_RANK_OPTIONS = ("--local-rank", "--local_rank")
_DEPRECATED = "torch.distributed.launch"
#: Kinds of files whose command may be started by something outside the file.
_OPEN_KINDS = frozenset({"dockerfile"})
#: Pods whose operator starts the ranks itself.
_OWN_STARTERS = re.compile(r"(?i)mpi|ray|horovod|tf")


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
_MANY = re.compile(
    r"""^["']?\$(?:[@*]|\{[@*]\}|\{?\w*(?:args|argv|opts|options|params|flags)\w*(?:\[[@*]\])?\}?)["']?$""", re.I
)
_OTHER_METHODS = re.compile(r"\b(?:tcp|file)://")


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


def script_word(site: LaunchSite) -> Word | None:
    """Return the word that names the script or module."""
    at = len(site.words) - len(site.command.script_args) - 1
    if 0 <= at < len(site.words):
        word = site.words[at]
        if word.text == site.command.script or (site.command.script is None and word.text.endswith(".py")):
            return word
    return None


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


# the option with the local rank


@probe(rules.DC207)
def local_rank_is_passed_as_it_is_taken(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """A launcher passes the local rank as an option only to a script with that option, and a required one is passed."""
    program = started.program
    if program is None:
        return
    for start in started.starts:
        command = start.site.command
        if command.launcher not in NODE_LAUNCHERS or command.no_python or "script_args" in command.unknown:
            continue
        parser = parser_of(program, start.script)
        if parser is None:
            continue
        if command.local_rank_argument is not None:
            if (
                parser.strict
                and command.local_rank_argument not in parser.spellings
                and is_whole(program, start.script)
            ):
                yield _not_taken(start, command.local_rank_argument, parser)
        elif command.launcher in ELASTIC_LAUNCHERS and parser.option is not None and not parser.completed:
            passed = any(word.partition("=")[0] in parser.spellings for word in command.script_args)
            single = command.nproc in (None, "1") and "nproc" not in command.unknown
            if not passed and (parser.required or (parser.used and not single)) and command.launcher != "accelerate":
                yield _not_passed(start, parser)


class _Parser(NamedTuple):
    """How a script and its imports use options."""

    #: the spellings of the option for the local rank
    spellings: frozenset[str]
    #: the call that adds it
    option: SourceCall | None
    #: ``parse_args``, which refuses unknown options
    strict: bool
    #: LOCAL_RANK is read somewhere, so the option is not the only source
    completed: bool
    required: bool
    #: its value is used
    used: bool


def parser_of(program: Program, script: int) -> _Parser | None:
    known: dict[int, _Parser | None] = program.notes.setdefault("parsers of scripts", {})
    if script not in known:
        known[script] = _find_parser(program, script)
    return known[script]


def _find_parser(program: Program, script: int) -> _Parser | None:
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.environment_variables import reads

    files = files_from(program, script)
    made = [call for call in program.calls_to("argparse.ArgumentParser") if call.file in files]
    if not made:
        return None
    spellings: set[str] = set()
    option = None
    swallows = False
    for call in program.calls_named("add_argument", files=files):
        own = [text_of_argument(call, position) for position in range(call.positional)]
        takes = call.argument(None, "nargs")
        swallows = swallows or (takes is not None and not isinstance(takes.constant, (str, int)))
        if any(one in _LOCAL_RANK_OPTIONS for one in own):
            spellings.update(one for one in own if one is not None)
            option = call
    parsing = list(program.calls_named("parse_args", "parse_known_args", files=files))
    # a parser that first takes some options and then all of them refuses what it does not know
    parses = {call.method for call in parsing if not _is_only_first(call, parsing)}
    completed = any(read.name == "LOCAL_RANK" and read.row.file in files for read in reads(program))
    completed = completed or any(
        call.file in files for call in program.calls_to("torch.distributed.get_node_local_rank")
    )
    dest = (None if option is None else _keyword(option, "dest")) or "local_rank"
    used = option is not None and any(
        re.search(rf"\.{re.escape(str(dest))}\b", program.index.files[one].text) for one in files
    )
    return _Parser(
        frozenset(spellings),
        option,
        parses == {"parse_args"} and not swallows and any(_is_reached(program, script, call) for call in parsing),
        completed or program.framework(script) is not None,
        option is not None and _keyword(option, "required") is True,
        used,
    )


def _is_reached(program: Program, script: int, call: SourceCall) -> bool:
    """Return whether a script gets to a call, or imports a module that makes it."""
    from distcheck.checks.source.device_uses import roots_of

    return (script, 0) in roots_of(program, call) or (call.at_module_level and not call.inside("if"))


def _is_only_first(call: SourceCall, parsing: list[SourceCall]) -> bool:
    """Return whether ``parse_known_args`` is followed by ``parse_args`` of the same parser, for the same arguments."""
    return call.method == "parse_known_args" and any(
        other.method == "parse_args"
        and (other.file, other.scope, other.receiver_text) == (call.file, call.scope, call.receiver_text)
        and other.number > call.number
        and not other.inside("if", "else", "try", "except", "for", "while")
        and not other.positional
        and not other.keywords
        for other in parsing
    )


def text_of_argument(call: SourceCall, position: int) -> str | None:
    value = call.argument(position)
    constant = None if value is None else value.constant
    return constant if isinstance(constant, str) else None


def _keyword(call: SourceCall, name: str) -> object:
    value = call.argument(None, name)
    return None if value is None else value.constant


def is_whole(program: Program, script: int) -> bool:
    """Return whether the project adds all options of a parser: it has no parents, and no other code gets it."""
    known: dict[int, bool] = program.notes.setdefault("whole parsers of scripts", {})
    if script not in known:
        known[script] = all(not _adds_unseen(call) for call in _calls_of(program, script))
    return known[script]


def _calls_of(program: Program, script: int) -> Iterator[SourceCall]:
    """Yield the calls of a script and of its imports."""
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.program import SourceCall

    for file in files_from(program, script):
        for number, event in enumerate(program.index.files[file].summary.events):
            if event[0] == "call":
                yield SourceCall(program, file, number)


def _adds_unseen(call: SourceCall) -> bool:
    """Return whether a call may add options outside the project."""
    if call.is_to("argparse.ArgumentParser"):
        return call.has_star or call.gives(None, "parents")
    roots = (*call.term[2], *(value for _, value in call.term[3]))
    if not roots or call.is_to("deepspeed.add_config_arguments") or call.program.functions(call):
        return False
    return any(
        atom.kind == "result" and atom.const == "argparse.ArgumentParser"
        for root in roots
        for atom in call.term_value(root)
    )


def _not_taken(start: ScriptStart, given: str, parser: _Parser) -> Finding:
    site = start.site
    other = next(iter(sorted(parser.spellings)), None)
    does = f"knows {other} only" if other else "knows no such option"
    word = script_word(site)
    # older releases pass the other spelling
    old = site.command.launcher == _DEPRECATED and parser.spellings.intersection(_LOCAL_RANK_OPTIONS)
    since_torch = {SINCE: "2.0"} if old else {}
    launcher = "python -m torch.distributed.launch" if site.command.launcher == _DEPRECATED else site.command.launcher
    since = " from torch 2.0 on" if site.command.launcher == _DEPRECATED else ""
    how = (
        f'start it with torchrun, which passes none, and read int(os.environ["LOCAL_RANK"]) in {start.path}'
        if site.command.launcher == _DEPRECATED
        else f'add parser.add_argument("--local_rank", type=int, default=-1) to {start.path}, or give deepspeed '
        "--no_local_rank and read LOCAL_RANK"
    )
    return rules.DC207.found(
        f"{launcher} adds {given}=N to the arguments of {start.path}{since}, whose parser {does} and ends with "
        f'"unrecognized arguments: {given}=0"',
        where=site.where(word, object=start.path),
        evidence={"script": start.path, "option": given, **since_torch, **_flow(parser)},
        fix=Fix(how, where="code"),
    )


def _not_passed(start: ScriptStart, parser: _Parser) -> Finding:
    site = start.site
    option = parser.option
    spelled = sorted(parser.spellings & set(_LOCAL_RANK_OPTIONS))[0] if parser.spellings else "--local_rank"
    what = "ends at once, since that is required" if parser.required else "takes the default of it in every rank"
    word = script_word(site)
    return rules.DC207.found(
        f"{site.command.launcher} passes no {spelled}, and {start.path} {what}"
        + (f" ({option.path}:{option.line})" if option is not None else ""),
        where=site.where(word, object=start.path),
        evidence={"script": start.path, "option": spelled, **_flow(parser)},
        fix=Fix(f'read int(os.environ["LOCAL_RANK"]) in {start.path}, which torchrun sets for each rank', where="code"),
    )


def _flow(parser: _Parser) -> dict[str, list[str]]:
    option = parser.option
    return {} if option is None else {"flow": [f"{option.path}:{option.line}: {option.text()}"]}


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
_UNKNOWN_FOLDERS = re.compile(r"^(?:(?:[^/]*\$[^/]*|\.\.?)/)+")


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


# the old launcher


@probe(rules.DC801)
def launch_line_has_the_old_launcher(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """No launch line uses torch.distributed.launch."""
    starts = {id(start.site): start for start in started.starts}
    for _, site in launch_files.sites():
        if site.command.launcher != _DEPRECATED or not context.is_complete(site):
            continue
        word = _module_word(site)
        start = starts.get(id(site))
        edits = _to_torchrun(site, word)
        ready = start is not None and _reads_local_rank(started, start, site)
        adds = site.command.local_rank_argument
        env_option = next((one.text for one in site.words if one.text in ("--use_env", "--use-env")), None)
        yield rules.DC801.found(
            "torch.distributed.launch is deprecated"
            # torch 2.0 changed the spelling
            + (
                f", and adds {adds} (before torch 2.0: --local_rank) to the script's arguments"
                if adds
                else "; torchrun does the same"
            ),
            where=site.where(word, object=_DEPRECATED),
            # torch 1.9 deprecated it, and 1.10 brought torchrun
            evidence={SINCE: "1.10"} if start is None else {"script": start.path, SINCE: "1.10"},
            fix=Fix(
                "replace it by torchrun, which has the same options"
                + (f" but {env_option}: leave that out" if env_option else "")
                + (f"; {start.path} reads LOCAL_RANK" if ready and start is not None else "")
                + ("" if ready or not adds else _what_the_script_needs(started, start)),
                edits=edits,
                safe=bool(edits) and ready,
                where="launch-line",
                risk="a script that only knows --local-rank then gets no local rank" if edits and not ready else None,
            ),
        )


def _what_the_script_needs(started: Started, start: ScriptStart | None) -> str:
    """Return what has to change in a script before torchrun starts it, which passes no ``--local-rank``."""
    if start is None:
        return '; it passes no --local-rank: a script with that option reads int(os.environ["LOCAL_RANK"]) instead'
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.environment_variables import reads

    program = started.program
    files = () if program is None else files_from(program, start.script)
    if program is not None and any(read.name == "LOCAL_RANK" and read.row.file in files for read in reads(program)):
        return f"; it passes no --local-rank, so {start.path} must use LOCAL_RANK, which it reads, and no option"
    return f'; first read int(os.environ["LOCAL_RANK"]) in {start.path}: torchrun passes no --local-rank'


def _module_word(site: LaunchSite) -> Word | None:
    for word in site.words:
        if word.text == _DEPRECATED or word.text.endswith("torch/distributed/launch.py"):
            return word
    return None


def _reads_local_rank(started: Started, start: ScriptStart, site: LaunchSite) -> bool:
    """Return whether the script reads the local rank from the environment and needs no option for it."""
    program = started.program
    if program is None:
        return False
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.environment_variables import reads

    files = files_from(program, start.script)
    if not any(read.name == "LOCAL_RANK" and read.row.file in files for read in reads(program)):
        return False
    if site.command.local_rank_argument is None:
        return True
    options = [
        call
        for call in program.calls_named("add_argument", "option", files=files)
        if any(text_of_argument(call, position) in _LOCAL_RANK_OPTIONS for position in range(call.positional))
    ]
    return not options


def _to_torchrun(site: LaunchSite, word: Word | None) -> tuple[Edit, ...]:
    """Return the edits that replace ``python -m`` and the module by torchrun, without ``--use-env``."""
    if word is None or word.origins or word.text != _DEPRECATED or _DEPRECATED not in word.written:
        return ()
    at = site.words.index(word)
    python, option = (site.words[at - 2], site.words[at - 1]) if at >= 2 else (None, None)
    plain = (
        python is not None
        and option is not None
        and re.fullmatch(r"python[\d.]*", python.written) is not None
        and option.written == "-m"
        and word.written == _DEPRECATED
        and python.span.line == word.span.end_line
        and option.span.column == python.span.end_column + 1
        and word.span.column == option.span.end_column + 1
    )
    if plain and python is not None:
        end = word.span
        edits = [python.span._replace(end_line=end.end_line, end_column=end.end_column).replaced_by("torchrun")]
    else:
        edits = [word.span.replaced_by(word.written.replace(_DEPRECATED, "torch.distributed.run"))]
    for index in range(at + 1, len(site.words) - len(site.command.script_args)):
        flag = site.words[index]
        if flag.text in ("--use_env", "--use-env"):
            before = site.words[index - 1].span
            if flag.origins or before.end_line != flag.span.line or flag.written != flag.text:
                return ()
            edits.append(flag.span._replace(line=before.end_line, column=before.end_column).replaced_by(""))
    return tuple(edits)
