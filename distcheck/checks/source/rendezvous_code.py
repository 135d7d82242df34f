"""Probes about the rendezvous that code chooses: constant addresses and ports, and stores that no process serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import SINCE
from distcheck.core.registry import probe
from distcheck.core.spans import Span

from . import call_paths
from .environment_variables import VariableWrite, reads, writes
from .process_start import STARTERS, in_spawned_process, launcher_is_tested
from .program import EventRow, Program, SourceCall
from .several_hosts import sign_of_hosts
from .values import Kind, Value
from .vocabulary import INIT

AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
#: Ports that only root may bind, and from which Linux serves outgoing connections (ip-sysctl:
#: ip_unprivileged_port_start, ip_local_port_range).
_UNPRIVILEGED = 1024
_LAST_PORT = 65535
_EPHEMERAL = (32768, 60999)
_URL = lazy(r"tcp://(?P<host>\[[^\]]*\]|[^:/{}]*)(?::(?P<port>\d+))?")
_LOCAL = ("localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]")


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


def _where(program: Program, row: EventRow, span: Span | None) -> Any:
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
