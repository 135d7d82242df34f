"""Probes about how a script is started, by its source: what starts the ranks, their rendezvous, what they need.

Launch files and commands are judged elsewhere; here is only what stands in Python.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity
from distcheck.core.rank_evidence import SCRIPTS, SIGN, SINCE
from distcheck.core.registry import probe
from distcheck.rules.double_launch import KEEP_ONE

from . import call_paths
from .device_uses import is_overwritten, is_read, roots_of
from .environment_variables import VariableWrite, reads, version_is_tested, writes
from .imports_of_os import import_edit, import_place
from .program import EventRow, Program, SourceCall, cached
from .several_hosts import sign_of_hosts
from .source_spans import SourceSpan
from .values import Atom, Kind, Value, Who
from .vocabulary import INIT, SPAWNS

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
AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
#: Ports that only root may bind, and from which Linux serves outgoing connections (ip-sysctl:
#: ip_unprivileged_port_start, ip_local_port_range).
_UNPRIVILEGED = 1024
_LAST_PORT = 65535
_EPHEMERAL = (32768, 60999)
_URL = re.compile(r"tcp://(?P<host>\[[^\]]*\]|[^:/{}]*)(?::(?P<port>\d+))?")
_LAUNCHERS = re.compile(
    r"torchrun|torch\.distributed\.(launch|run)\b|accelerate launch|\bdeepspeed\b|\bsrun\b|\bmpirun\b|\bhorovodrun\b|"
    r"elastic_launch|\bmp\.spawn\b|notebook_launcher|run\.sh|sbatch"
)
_LOCAL = ("localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]")


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


_OF_TORCH = re.compile(r"torchrun|torch\.distributed\.(?:run|launch)\b|accelerate launch")


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


# where ranks synchronize


class RendezvousConstant(NamedTuple):
    """An address or port for the rendezvous that stands in code."""

    row: EventRow
    #: what holds it: a variable's name, ``init_method`` or ``TCPStore``
    what: str
    #: the address, empty where it is not known
    host: str
    #: the lowest and highest port that it may be, None where it is not known
    ports: tuple[int, int] | None
    #: it can be nothing else: no option, no parameter
    fixed: bool


def rendezvous_constants(program: Program) -> Iterator[RendezvousConstant]:
    """Yield all addresses and ports for the rendezvous that stand in code, in no order."""
    for write in program.table(writes):
        default = _default_of_all(program, write)
        if write.name == "MASTER_PORT":
            ports = _ports(program, write.value if default is None else default)
            if ports is not None:
                fixed = _is_fixed(program, write) or (default is not None and write.way in ("=", "update"))
                yield RendezvousConstant(write.row, write.name, "", ports, fixed)
        elif write.name == "MASTER_ADDR" and default is not None and isinstance(default.constant, str):
            yield RendezvousConstant(write.row, write.name, default.constant, None, write.way in ("=", "update"))
        elif write.name == "MASTER_ADDR" and isinstance(write.value.constant, str):
            yield RendezvousConstant(write.row, write.name, write.value.constant, None, _is_fixed(program, write))
    for call in program.calls_to(*INIT):
        url = call.argument(1, "init_method")
        if url is not None and isinstance(url.constant, str) and (match := _URL.match(url.constant)):
            port = int(match["port"]) if match["port"] else None
            yield RendezvousConstant(
                call,
                "init_method",
                match["host"],
                None if port is None else (port, port),
                not _has_parameter(program, call.file, call.argument_term(1, "init_method")),
            )
    for call in program.calls_to("torch.distributed.TCPStore"):
        given = call.argument(1, "port")
        ports = _ports(program, given) if given is not None else None
        if ports is not None:
            yield RendezvousConstant(call, "TCPStore", "", ports, False)


def _is_fixed(program: Program, write: VariableWrite) -> bool:
    return write.way in ("=", "update") and not _has_parameter(program, write.row.file, write.term)


def _default_of_all(program: Program, write: VariableWrite) -> Value | None:
    """Return the constant default of the parameter that a variable is set to, if a caller that is seen leaves it.

    A parameter that no call in sight leaves to its default is what its callers give; None for anything else.
    """
    terms = write.row.terms
    term = write.term
    if term >= 0 and terms[term][0] == "c" and len(terms[term][2]) == 1 and _is_str(write.row, terms[term]):
        term = terms[term][2][0]
    if term < 0 or terms[term][0] != "p" or terms[term][1] != write.row.scope:
        return None
    name = terms[term][2]
    default = next((given for own, given, _ in write.row.function.parameters if own == name), -1)
    if default < 0 or terms[default][0] != "k":
        return None
    function = (write.row.file, write.row.scope)
    for site in program.evaluator.callers.get(function, ()):
        call = SourceCall(program, *site[:2])
        if site.kind == "call" and not site.weak and not call.has_star and not program.is_test(call.file):
            passed = program.evaluator.passed(site, write.row.function, name)
            if passed is None:
                return write.row.term_value(default)
    return None


def _is_str(row: EventRow, call: tuple[Any, ...]) -> bool:
    return bool(row.term_value(call[1]).named("str"))


def _has_parameter(program: Program, file: int, term: int) -> bool:
    """Return whether callers may give another value, whatever those that are seen give."""
    terms = program.terms[file]
    return any(terms[number][0] == "p" for number in program.subterms(file, term, names=False))


def _ports(program: Program, value: Value) -> tuple[int, int] | None:
    constant = value.constant
    if isinstance(constant, str) and constant.isdigit():
        return int(constant), int(constant)
    if isinstance(constant, int) and not isinstance(constant, bool):
        return constant, constant
    atoms = list(value)
    if len(atoms) == 1 and atoms[0].kind == Kind.TEXT and atoms[0].const == "{}" and len(atoms[0].of) == 1:
        atoms = list(atoms[0].of)
    if len(atoms) == 1 and atoms[0].kind == Kind.RESULT and atoms[0].const in _RANDOM:
        call = program.call_of(atoms[0])
        if call is not None and call.positional == 2:
            low, high = (item.constant if (item := call.argument(position)) else None for position in (0, 1))
            if isinstance(low, int) and isinstance(high, int):
                return low, high - (0 if call.method == "randint" and "numpy" not in atoms[0].const else 1)
    return None


_RANDOM = frozenset(["random.randint", "random.randrange", "numpy.random.randint"])


def _hard_coded(program: Program, constant: RendezvousConstant) -> Severity | None:
    """Return how loud a constant of the rendezvous is to be reported; None where it is right."""
    row = constant.row
    if (
        not constant.fixed
        or (constant.ports is not None and constant.ports[0] != constant.ports[1])
        or launcher_is_tested(program, row)
    ):
        return None
    if isinstance(row, SourceCall) and constant.what == "init_method":
        if _is_of_one_process(row):
            return None
        if not constant.ports and constant.host not in _LOCAL:
            return None
    nearby = {
        write.name: write
        for write in program.table(writes)
        if write.row.file == row.file and write.row.scope == row.scope
    }
    if any(name in nearby and nearby[name].value.constant in ("0", "1") for name in ("RANK", "WORLD_SIZE")):
        return None  # one process that is its own launcher
    if any(
        _is_of_one_process(call) for call in program.calls_to(*INIT) if (call.file, call.scope) == (row.file, row.scope)
    ):
        return None
    if (
        program.is_test(row.file)
        or in_spawned_process(program, row)
        or program.framework(row.file) is not None
        or any(name in nearby for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        or any(call.file == row.file for call in program.calls_to(*STARTERS))
        or not program.is_distributed(row.file)
    ):
        return Severity.INFO
    if constant.what == "MASTER_ADDR" and constant.host in _LOCAL and sign_of_hosts(program, row) is None:
        return Severity.INFO  # right on one host, and nothing shows another
    return Severity.WARNING


def _is_of_one_process(init: SourceCall) -> bool:
    """Return whether a group has one rank."""
    size = init.constant(3, "world_size")
    return size == 1 or (init.constant(4, "rank") == 0 and size is None)


@probe(rules.DC744)
def rendezvous_in_the_code(program: Program) -> Iterator[Finding]:
    """Address and port of the rendezvous come from the launcher."""
    local = {read.row.file for read in program.table(reads) if read.name == "LOCAL_RANK"}
    for constant in program.table(rendezvous_constants):
        severity = _hard_coded(program, constant)
        if severity is None or constant.what == "TCPStore":
            continue
        if constant.ports and constant.ports[0] > _LAST_PORT:
            continue  # DC402 reports it, and no default is to be made of it
        row = constant.row
        value = str(constant.ports[0]) if constant.ports and not constant.host else constant.host
        if constant.what == "init_method":
            value = f"tcp://{constant.host}" + (f":{constant.ports[0]}" if constant.ports else "")
            message = f"init_method is the constant {value} and ignores the address and port of the launcher"
            advice = "drop init_method: init_process_group() then reads MASTER_ADDR and MASTER_PORT of the launcher"
            if local.intersection(program.component(row.file)):
                message += "; under torchrun no process listens there, and all ranks wait"
        else:
            message = f"{constant.what} is set to {value}"
            advice = f'set a default only: os.environ.setdefault("{constant.what}", "{value}")'
            if not in_spawned_process(program, row):
                message += ", which overrides the launcher"
                advice = f"drop the assignment, or {advice}"
            if constant.ports:
                message += "; a second job on the host uses the same port"
            elif constant.host in _LOCAL:
                message += "; with several nodes, each node connects only to itself"
        if constant.ports and (unwise := _unwise(constant.ports)):
            message += f"; and port {constant.ports[0]} {unwise}"
        yield row.found(rules.DC744, message, fix=advice, severity=severity, setting=constant.what, value=value)


def _unwise(ports: tuple[int, int]) -> str:
    """Return what is wrong with a port, or with one of a range; empty where nothing is."""
    low, high = ports
    if low == high == 0:
        return ""
    if high > _LAST_PORT:
        return f"is above {_LAST_PORT}, the last one, and torch raises a ValueError"
    if 0 < low < _UNPRIVILEGED:
        return f"is below {_UNPRIVILEGED}, so that only root may bind it"
    if high >= _EPHEMERAL[0] and low <= _EPHEMERAL[1]:
        return f"is in the range from which the kernel serves outgoing connections ({_EPHEMERAL[0]} to {_EPHEMERAL[1]})"
    return ""


@probe(rules.DC402)
def port_may_be_taken(program: Program) -> Iterator[Finding]:
    """A port for the rendezvous that code chooses is neither privileged nor one of those that the kernel gives away."""
    for constant in program.table(rendezvous_constants):
        if constant.ports is None or not (why := _unwise(constant.ports)):
            continue
        low, high = constant.ports
        exists = low <= _LAST_PORT
        if exists and constant.what != "TCPStore" and _hard_coded(program, constant) is Severity.WARNING:
            continue  # that reports it too
        if low == high:
            text = f"{constant.what} gets port {low}: it {why}"
            evidence: dict[str, Any] = {"port": low}
        else:
            many = why.replace("is below", "are below").replace("is among", "are among").replace("bind it", "bind them")
            many = many.replace("is above", "are above")
            text = f"{constant.what} gets a port from {low} to {high}, some of which {many}"
            evidence = {"lowest": low, "highest": high}
        yield constant.row.found(
            rules.DC402,
            text,
            fix="use a port from 1024 to 32767, or bind port 0 to let the system choose a free one",
            severity=constant.row.level_in_tests or _level_of_a_port(program, constant, exists),
            setting=constant.what,
            **evidence,
        )


def _level_of_a_port(program: Program, constant: RendezvousConstant, exists: bool) -> Severity | None:
    if constant.what == "MASTER_PORT":
        files = call_paths.related(program, constant.row.file)
        if not any(call.file in files for call in program.calls_to(*INIT)) and not program.framework(constant.row.file):
            return Severity.INFO  # no group is made in this program
    return None if exists or not constant.fixed else Severity.ERROR


# torchrun's store


@probe(rules.DC104)
def store_that_no_process_serves(program: Program) -> Iterator[Finding]:
    """Under torchrun a group uses the agent's store, not an address of the script."""
    local = {read.row.file for read in program.table(reads) if read.name == "LOCAL_RANK"}
    if not local:
        return
    cleared = {read.row.file for read in program.table(reads) if read.name == AGENT_STORE}
    cleared |= {write.row.file for write in program.table(writes) if write.name == AGENT_STORE}
    for call in program.calls_to(*INIT):
        url, rank = call.argument(1, "init_method"), call.argument(4, "rank")
        if url is None or rank is None or call.gives(None, "store") or not _own_address(url) or not _of_torchrun(rank):
            continue
        files = set(program.component(call.file))
        if cleared.intersection(files) or not local.intersection(files) or launcher_is_tested(program, call):
            continue
        flow = [step for atom in rank if atom.kind in (Kind.GLOBAL_RANK, Kind.ENV_TEXT) for step in atom.flow]
        given = call.argument_text(1, "init_method")
        yield rules.DC104.found(
            f"init_method is an address of the script ({given}), but the rank is torchrun's. Under torchrun "
            "no rank serves a store, so all ranks wait until the timeout",
            where=_where(program, call, call.argument_span(1, "init_method")),
            # older launchers have no agent
            evidence={"flow": program.flow(flow), SINCE: "1.9"},
            severity=call.level_in_tests,
            fix=Fix(
                'drop init_method, or pass "env://": the group then uses the store of torchrun\'s agent',
                where="code",
            ),
        )


def _where(program: Program, row: EventRow, span: SourceSpan | None) -> Any:
    return row.where() if span is None else program.where(row.file, span, row.function.qualified or None)


def _own_address(url: Value) -> bool:
    """Whether a URL is ``tcp://`` with parts that are not the launcher's; a constant one is another rule's matter."""
    texts = [atom for atom in url if atom.kind == Kind.TEXT]
    if not texts or not all(str(atom.const).startswith("tcp://") for atom in texts) or len(texts) != len(url.atoms):
        return False
    parts = [part for atom in texts for part in atom.of]
    return not any(part.kind == Kind.ENV_TEXT and str(part.const).startswith("MASTER_") for part in parts)


def _of_torchrun(rank: Value) -> bool:
    atom = rank.get(Kind.GLOBAL_RANK, Kind.ENV_TEXT)
    return atom is not None and atom.const == "RANK"


# options for the local rank


_SPELLINGS = ("--local_rank", "--local-rank")
#: The release that passes the second spelling, as evidence.
_SPELLED_SINCE: dict[str, Any] = {SINCE: "2.0"}
#: torch 1.9 deprecated the launcher, and 1.10 brought torchrun.
_DEPRECATED_SINCE: dict[str, Any] = {SINCE: "1.10"}
#: With it the old launcher adds no argument.
_USE_ENV = re.compile(r"\s*--use[-_]env\b")


@probe(rules.DC207)
def one_spelling_of_local_rank(program: Program) -> Iterator[Finding]:
    """A script that takes the local rank as an option takes both spellings, or reads LOCAL_RANK."""
    options: dict[int, list[tuple[SourceCall, list[str]]]] = {}
    for call in program.calls_named("add_argument", "option"):
        spelled = [text for position in range(call.positional) if (text := call.constant(position)) in _SPELLINGS]
        if spelled:
            options.setdefault(call.file, []).append((call, spelled))
    if not options:
        return
    readers = {read.row.file for read in program.table(reads) if read.name == "LOCAL_RANK"}
    # if "LOCAL_RANK" not in os.environ: os.environ["LOCAL_RANK"] = str(args.local_rank)
    readers |= {
        write.row.file for write in program.table(writes) if write.name == "LOCAL_RANK" and write.row.inside("if")
    }
    for file, found in options.items():
        every = {text for _, spelled in found for text in spelled}
        if len(every) == 2 or program.imports_from(file, *_PASSED_BY_OTHERS):
            continue
        if any(_is_of_deepspeed(program, other) for other in (file, *program.index.importers(file))):
            continue
        call = found[0][0]
        files = _used_files(program, file)
        spelling, reader = every.pop(), bool(readers.intersection(files))
        if _completed(program, call, files) or (reader and spelling == _SPELLINGS[1]):
            continue
        dest = _destination(call)
        together = frozenset(files).union(program.index.importers(file))
        known = bool(readers & together)
        alone = not any(start.file in together for start in program.calls_to(*INIT))
        # an option that no code reads decides nothing; a launcher that passes it starts scripts with a group
        passed = call.method == "option" or _is_taken_whole(program, together)  # click makes it a parameter
        if not is_read(program, together, dest) and (known or (alone and not passed)):
            continue
        if (known or alone) and is_overwritten(program, together, dest):
            continue
        yield _one_spelling(program, call, spelling, reader, own_launcher=_launches_with(program, file, spelling))


@cached
def _launches_with(program: Program, file: int, spelling: str) -> bool:
    """Return whether a launcher of the project itself passes an option with this spelling: ``"--local_rank=3"``."""
    repository = program.index.files[file].repository
    return any(
        term[0] == "k" and term[1] == "str" and str(term[2]).startswith(f"{spelling}=")
        for starter in {call.file for call in program.calls_to(*_COMMANDS)} - {file}
        if program.index.files[starter].repository == repository
        for term in program.terms[starter]
    )


#: What starts the processes of a launcher.
_COMMANDS = tuple(f"subprocess.{name}" for name in ("Popen", "run", "call", "check_call"))


def _is_of_deepspeed(program: Program, file: int) -> bool:
    """Return whether deepspeed starts a file, as far as imports show: not where a switch decides whether it is used."""
    if not program.imports_from(file, "deepspeed"):
        return False
    used = [call for call in program.calls_in({file}) if any(one.startswith("deepspeed.") for one in call.targets)]
    own = any(start.is_to("torch.distributed.init_process_group") for start in _inits(program, file))
    return not used or not own or not all(call.inside("if") for call in used)


def _inits(program: Program, file: int) -> Iterator[SourceCall]:
    files = _used_files(program, file)
    return (call for call in program.calls_to(*INIT) if call.file in files)


def _is_taken_whole(program: Program, files: frozenset[int]) -> bool:
    """Return whether all options are passed on at once: ``vars(args)``, ``args.__dict__``, a parser of dataclasses."""
    for call in program.calls_named("vars", "parse_args_into_dataclasses", "asdict", "from_argparse_args"):
        if call.file in files:
            return True
    return any(term[0] == "a" and term[2] == "__dict__" for file in files for term in program.terms[file])


#: Their launchers pass the option, or set LOCAL_RANK for code of their own that reads it.
_PASSED_BY_OTHERS = ("accelerate", "lightning", "pytorch_lightning", "ray.train", "transformers.Trainer")


def _completed(program: Program, call: SourceCall, files: set[int]) -> bool:
    """Whether an option gets its value from LOCAL_RANK: as its default, or assigned where it was parsed or is used."""
    default = call.argument(None, "default")
    if default is not None and any(_of_local_rank(atom) for atom in default):
        return True
    dest = _destination(call)
    for row in program.rows("attribute"):
        if row.file in files and row.payload[1] == dest:
            terms = program.subterms(row.file, row.payload[2], names=False)
            if any(_of_local_rank(atom) for number in terms for atom in row.term_value(number)):
                return True
    return False


def _of_local_rank(atom: Atom) -> bool:
    return atom.const == "LOCAL_RANK" and atom.kind in (Kind.ENV_TEXT, Kind.LOCAL_RANK)


def _destination(call: SourceCall) -> str:
    """Return the name of the attribute that an option of the local rank is stored under."""
    given = call.constant(None, "dest")
    return given if isinstance(given, str) and given else "local_rank"


def _used_files(program: Program, file: int) -> set[int]:
    """A file, what it imports, and what that imports: where its options may be completed."""
    found, edge = {file}, {file}
    for _ in range(2):
        edge = {
            located[0]
            for own in edge
            for dotted in program.imports(own)
            if (located := program.index.locate(own, dotted)) is not None
        } - found
        found |= edge
    return found


#: Evidence of a script that reads the variable as well.
_READS_VARIABLE: dict[str, Any] = {"variable": "LOCAL_RANK"}


def _one_spelling(program: Program, call: SourceCall, spelling: str, reader: bool, *, own_launcher: bool) -> Finding:
    other = _SPELLINGS[1 - _SPELLINGS.index(spelling)]
    if reader:
        why = "torch.distributed.launch passes --local-rank from torch 2.0 on, which this parser refuses"
    elif spelling == _SPELLINGS[0]:
        why = (
            "torch.distributed.launch passes --local-rank from torch 2.0 on and torchrun passes none, "
            "so the script ends or every rank uses the default"
        )
    else:
        why = "torchrun passes no such option, so every rank uses the default"
    edits = _both_spellings(program, call)
    return call.found(
        rules.DC207,
        f"{spelling} is the only spelling of this option: {why}",
        fix=f'read int(os.environ["LOCAL_RANK"]); for old launchers accept {other} too, with the variable as default',
        edits=edits,
        safe=bool(edits),
        # a launcher of the project passes what this parser takes; torch's is only one that may be used as well
        severity=Severity.INFO if own_launcher else None,
        option=spelling,
        **_scripts_of(program, call),
        **(_READS_VARIABLE if reader else {}),
        # older launchers pass what this parser takes
        **(_SPELLED_SINCE if spelling == _SPELLINGS[0] else {}),
    )


def _scripts_of(program: Program, call: SourceCall) -> dict[str, Any]:
    """Return the scripts that reach a call, whose launch lines decide whether it matters, and a sign of a launcher."""
    scripts = sorted({file for file, scope in roots_of(program, call) if scope == 0})
    named = next((file for file in (call.file, *scripts) if names_launcher(program, file)), None)
    return {
        SCRIPTS: [program.index.files[file].path for file in scripts],
        **({} if named is None else {SIGN: f"{program.index.files[named].path} names a launcher"}),
    }


def _both_spellings(program: Program, call: SourceCall) -> tuple[Edit, ...]:
    """Return the edits that make an option take both spellings, and LOCAL_RANK for its default; none if not sure."""
    position = next((item for item in range(call.positional) if call.constant(item) in _SPELLINGS), -1)
    span = call.argument_span(position)
    place = import_place(program, call.file)
    if position < 0 or span is None or call.has_star or place is None or program.index.files[call.file].cells:
        return ()
    quote = program.source(span)[:1]
    if quote not in ("'", '"'):
        return ()
    edits = [span.replaced(f"{quote}--local-rank{quote}, {quote}--local_rank{quote}")]
    default = call.argument_span(None, "default")
    if default is not None:
        old = program.source(default)
        if "\n" in old:
            return ()
        edits.append(default.replaced(f'int(os.environ.get("LOCAL_RANK", {old}))'))
    else:
        added = program.argument_edit(call, 'default=int(os.environ.get("LOCAL_RANK", 0))')
        if added is None:
            return ()
        edits.append(added)
    required = call.argument_span(None, "required")
    if required is not None:
        edits.append(required.replaced("False"))
    if place:
        edits.append(import_edit(call.path, place))
    return tuple(edits)


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


# the old launcher


#: Launchers in a command that waits for its ranks.
_WAITED_FOR = re.compile(
    r"(^|[\s/'\"])(torchrun|deepspeed|accelerate launch|horovodrun|mpirun|srun)\s|-m torch\.distributed\.(launch|run)\b"
)


@probe(rules.DC813)
def status_of_a_started_launch_is_read(program: Program) -> Iterator[Finding]:
    """A script that starts ranks by a command reads how that command ended."""
    for call in program.calls_to("os.system", "subprocess.call", "subprocess.run"):
        checks = call.argument(None, "check")
        if call.use != "drop" or call.has_star or (checks is not None and checks.constant is not False):
            continue
        command = call.argument_term(0, "args" if call.method != "system" else "command")
        if command < 0 or not _WAITED_FOR.search(_command_text(program, call.file, command)):
            continue
        if any(_EXITS.search(line) for line in program.lines(call.file)[call.line - 1 : call.line + 2]):
            continue
        shell = call.method == "system"
        yield call.found(
            rules.DC813,
            f"{call.targets[0]}() starts ranks, and nothing checks their exit status: this script succeeds if they "
            "fail",
            fix="sys.exit(os.waitstatus_to_exitcode(os.system(…))), or subprocess.run(…, shell=True, check=True)"
            if shell
            else "add check=True"
            if call.method == "run"
            else "use subprocess.run(…, check=True)",
            severity=Severity.INFO,
        )


_EXITS = re.compile(r"exit|returncode|check_returncode")


def _command_text(program: Program, file: int, term: int) -> str:
    """Return the words of a command that are known, in order as far as it is one text or list."""
    terms = program.terms[file]
    part = terms[term]
    if part[:2] == ("k", "str"):
        return str(part[2])
    if part[0] in ("f", "t", "l"):
        between = "" if part[0] == "f" else " "
        return between.join(_command_text(program, file, inner) for inner in part[1])
    if part[0] == "o":
        return _command_text(program, file, part[2]) + _command_text(program, file, part[3])
    if part[0] == "c" and terms[part[1]][0] == "a" and terms[part[1]][2] in ("format", "strip", "join"):
        return _command_text(program, file, terms[part[1]][1])
    if part[0] == "v":
        return "\n".join(_command_text(program, file, inner) for inner in program.bound(file, part))
    return "…"


@probe(rules.DC801)
def starts_the_old_launcher(program: Program) -> Iterator[Finding]:
    """No code starts torch.distributed.launch."""
    importing = {
        file for file in range(len(program.index.files)) if program.imports_from(file, "torch.distributed.launch")
    }
    for row in program.rows("import", importing):
        if row.payload[0] == "torch.distributed.launch" or row.payload[0].startswith("torch.distributed.launch."):
            yield row.found(
                rules.DC801,
                "torch.distributed.launch is imported; it is deprecated and will be removed",
                fix="import torch.distributed.run: it has the same main(), and passes no --local-rank",
                severity=row.level_in_tests,
                **_DEPRECATED_SINCE,
            )
    texts = [row for row in program.rows("text") if "torch.distributed.launch" in row.payload[0]]
    if not texts:
        return
    commands = {file: _commands(program, file) for file in {row.file for row in texts}}
    takes_option = {
        call.file
        for call in program.calls_named("add_argument", "option")
        if any(call.constant(position) in _SPELLINGS for position in range(call.positional))
    }
    for row in texts:
        text = row.payload[0]
        if text not in commands[row.file] or version_is_tested(program, row):
            continue
        edits = _to_torchrun(program, row)
        script = _script(program, row)
        # the other options of a list are texts of their own
        whole = program.index.files[row.file].text if text == "torch.distributed.launch" else text
        adds = not _USE_ENV.search(whole)
        without = not adds or (script is not None and not takes_option.intersection(_used_files(program, script)))
        yield row.found(
            rules.DC801,
            "torch.distributed.launch is started; it is deprecated"
            + (", and adds --local-rank (before torch 2.0: --local_rank) to the script's command line" if adds else ""),
            fix="start torchrun, or from this Python torch.distributed.run"
            + ("" if without else '; it passes no --local-rank: the script must read int(os.environ["LOCAL_RANK"])'),
            edits=edits,
            safe=bool(edits) and without,
            risk="a script that only knows --local-rank then gets no local rank" if edits and not without else None,
            severity=row.level_in_tests,
            **_DEPRECATED_SINCE,
        )


def _commands(program: Program, file: int) -> set[str]:
    """The texts with the old launcher in commands: given to what starts processes, or behind ``-m`` in a list."""
    terms = program.terms[file]
    found = set()
    for term in terms:
        if term[0] in ("t", "l"):
            inner = [terms[number] for number in term[1]]
            words = [item[2] if item[:2] == ("k", "str") else "" for item in inner]
            if ("-m", "torch.distributed.launch") in itertools.pairwise(words):
                found.add("torch.distributed.launch")
    for call in program.calls_to(*STARTERS):
        if call.file != file:
            continue
        roots = call.argument_terms
        for number in program.subterms(file, *roots):
            term = terms[number]
            if term[0] == "k" and term[1] == "str" and "torch.distributed.launch" in term[2]:
                found.add(term[2])
        for root in roots:
            found.update(
                constant
                for constant in call.term_value(root).constants
                if isinstance(constant, str) and "torch.distributed.launch" in constant
            )
    return found


def _script(program: Program, row: EventRow) -> int | None:
    """The file that a command with the old launcher starts, where it is one of the program and surely the one."""
    text = row.payload[0]
    words = text.split()
    if len(words) == 1:
        terms = program.terms[row.file]
        lists = [
            [terms[number][2] for number in term[1] if terms[number][:2] == ("k", "str")]
            for term in terms
            if term[0] in ("t", "l") and any(terms[number][:3] == ("k", "str", text) for number in term[1])
        ]
        words = lists[0] if len(lists) == 1 else []
    names = [word for word in words if word.endswith(".py")]
    if len(names) != 1:
        return None
    found = [
        number
        for number, facts in enumerate(program.index.files)
        if f"/{facts.path}".endswith("/" + names[0].removeprefix("./"))
    ]
    return found[0] if len(found) == 1 else None


_OLD = re.compile(r"(?P<python>(?:python[\d.]*\s+)?-m\s+)?torch\.distributed\.launch")


def _to_torchrun(program: Program, row: EventRow) -> tuple[Edit, ...]:
    """Return the edits that start torchrun instead, where the text stands on one line."""
    span = row.span
    if span.line != span.end_line:
        return ()
    line = program.lines(row.file)[span.line - 1]
    match = _OLD.search(line, span.column - 1, span.end_column - 1)
    if match is None:
        return ()
    python = match["python"]
    text = "torchrun" if python and python.startswith("python") else f"{python or ''}torch.distributed.run"
    # torchrun refuses this option of the old launcher
    options = list(_USE_ENV.finditer(line, span.column - 1, span.end_column - 1))
    if not options and _USE_ENV.search(program.index.files[row.file].text):
        return ()
    return tuple(
        Edit(row.path, span.line, found.start() + 1, span.line, found.end() + 1, new)
        for found, new in ((match, text), *((option, "") for option in options))
    )


__all__ = ["RendezvousConstant", "conditional", "launcher_is_tested", "rendezvous_constants"]
