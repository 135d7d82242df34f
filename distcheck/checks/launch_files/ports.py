"""The port of the rendezvous: it must be usable at any time and next to other jobs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Rule, Severity, Where
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import SINCE
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.launch.endpoint import split_endpoint
from distcheck.launch.model import DEFAULT_PORT, HIGHEST_PORT, NODE_LAUNCHERS

from .context import (
    PORT_OPTIONS,
    assigned_in,
    by_each_task,
    edit_value,
    expected_nodes,
    host_of,
    is_remote,
    rendezvous_lines,
    rendezvous_of,
    several_nodes,
    source_of,
    step_of,
    unquoted,
    value_span,
    with_variables,
    worst_per_location,
)
from .model import TORCHRUN_LAUNCHERS, FileSetting, LaunchFile, LaunchFiles, LaunchSite, Word

#: Only root may use lower ports by default (ip(7), ip_unprivileged_port_start).
_PRIVILEGED_BELOW = 1024
#: The kernel uses these for outgoing connections by default (Linux, ip_local_port_range).
_EPHEMERAL = (32768, 60999)
#: Older ones silently took the lowest 16 bits of a port (torch 1.8, ``TCPStore``).
_REFUSED_SINCE = "1.9"
#: A port from the job's number, below the ephemeral ones.
PORT_OF_JOB = "$((20000 + SLURM_JOB_ID % 10000))"
#: A port from the number of the shell that starts the job.
_PORT_OF_SHELL = "$((20000 + $$ % 10000))"
#: Kinds of files in which ``$$`` is that number, and not the same in each container, or a dollar sign.
_WITH_SHELL = frozenset({"shell", "slurm", "markdown", "workflow"})
#: A smaller share of the ports that a script draws from is worth no warning: ``$((1024 + RANDOM))`` has 3 % of them.
_FEW = 0.1
#: bash(1): RANDOM is from 0 to 32767.
_RANDOM = (0, 32767)
_SHUF = lazy(r"\bshuf\b[^|)]*?(?:-i|--input-range[= ])\s*(\d{1,9})-(\d{1,9})")
_ARITHMETIC = lazy(r"\$\(\((.*)\)\)|(?:\$\(|`)[ \t]*expr[ \t]+([^()`]*)(?:\)|`)|(\$\{?RANDOM\}?)", re.DOTALL)
_JOB_NUMBERS = frozenset({"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID"})
#: The shell exits, or waits for its children.
_WAITS = lazy(r"\s*(?:wait|exit|sleep)\b")
#: Limit of earlier lines with one port.
_MAX_BEFORE = 16
#: Bits of a shell's number.
_MAX_SHIFT = 63
#: Limit of characters in a computed expression.
_MAX_LENGTH = 200


class Port(NamedTuple):
    """A port that a launch line uses."""

    #: the option or variable that gives it
    name: str
    #: as written, with variables of the file replaced
    text: str
    span: Span
    #: the assignment, if there is one
    given: FileSetting | None = None
    word: Word | None = None

    @property
    def where(self) -> Where:
        """Return the location of the port for a finding."""
        if self.given is not None:
            return self.span.where(variable=self.name)
        return self.span.where(object=self.name)


class Range(NamedTuple):
    """A range of ports; ``high`` is None without a limit."""

    low: int
    high: int | None


def port_of(site: LaunchSite) -> Port | None:
    """Return the port that the file gives for torch's store, or None."""
    command = site.command
    if command.standalone:
        return None
    if command.launcher not in NODE_LAUNCHERS:
        given = site.settings.get("MASTER_PORT")
        return None if given is None else _of_setting(site, given)
    endpoint = site.value("--rdzv-endpoint")
    if endpoint is not None:
        if command.rdzv_conf.get("store_type", "tcp") != "tcp":
            return None
        text = _port_part(endpoint.text)
        written = _port_part(unquoted(endpoint.written)) or text
        return None if not text else _of_word(site, "--rdzv-endpoint", endpoint, text, written)
    if command.rdzv_backend not in (None, "static") and command.launcher != "accelerate":
        return None  # --master-port is for the static rendezvous
    word = site.value(*PORT_OPTIONS)
    if word is None:
        return None
    option = site.option(*PORT_OPTIONS)
    name = PORT_OPTIONS[0] if option is None else option.text.partition("=")[0]
    return _of_word(site, name, word, word.text, unquoted(word.written))


def _port_part(endpoint: str) -> str:
    if "$(" not in endpoint and "${" not in endpoint and "`" not in endpoint:
        return split_endpoint(endpoint)[1] or ""
    match = re.search(r":(\d+|\$\w+|\$\{[^}]*\}|\$\(.*\)|`[^`]*`)$", endpoint, re.DOTALL)
    return "" if match is None else match[1]


def _of_word(site: LaunchSite, name: str, word: Word, text: str, written: str) -> Port:
    given = assigned_in(site, word, written, text)
    if given is None:
        return Port(name, with_variables(site, text), value_span(site, word), None, word)
    value = given.value if given.value is not None else with_variables(site, unquoted(given.written))
    return Port(given.name, value, given.span, given)


def _of_setting(site: LaunchSite, given: FileSetting) -> Port:
    first = source_of(site, given.written) or given
    value = given.value if given.value is not None else with_variables(site, unquoted(given.written))
    return Port(first.name, value, first.span, first)


# what a port may be


@probe(rules.DC102, rules.DC402)
@worst_per_location
def port_is_wise(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A given port exists, any user may bind it, and the kernel does not use it for other connections."""
    # a file that takes ports from the kernel names those that it uses, and may be read by another one
    reserves = {
        file.path for file in launch_files.files if any("ip_local_reserved_ports" in line for line in file.lines)
    }
    for file, site in rendezvous_lines(launch_files):
        port = port_of(site)
        if port is not None and not reserves & {file.path, port.where.path}:
            yield from _judge(site, port)


def _judge(site: LaunchSite, port: Port) -> Iterator[Finding]:
    if re.fullmatch(r"\s*-?[0-9]{1,18}\s*", port.text):
        number = int(port.text)
        if not 0 <= number <= HIGHEST_PORT:
            why = f"does not exist: ports end at {HIGHEST_PORT}, and torch {_REFUSED_SINCE} and later refuse others"
            evidence = {"port": number, SINCE: _REFUSED_SINCE}
            yield _unwise(site, port, f"port {number} {why}", evidence, None, rule=rules.DC102)
            return
        fault, severity = _fault_of(site, number)
        if fault is not None:
            yield _unwise(site, port, f"port {number} {fault}", {"port": number}, severity)
        return
    taken = range_of(port.text)
    if taken is None:
        return
    low, high = taken
    if high is None:
        why = f"grow with the number of the job, into those of outgoing connections ({_EPHEMERAL[0]} to "
        why += f"{_EPHEMERAL[1]}) and beyond {HIGHEST_PORT}"
        yield _unwise(site, port, f"ports from {low} on {why}", {"lowest": low}, None)
        return
    span = f"a port from {low} to {high} is picked"
    if high > HIGHEST_PORT:
        yield _unwise(
            site, port, f"{span}, and those above {HIGHEST_PORT} do not exist", {"lowest": low, "highest": high}, None
        )
    elif low < _PRIVILEGED_BELOW:
        yield _unwise(
            site,
            port,
            f"{span}, and those below {_PRIVILEGED_BELOW} may be bound by root only",
            {"lowest": low, "highest": high},
            None,
        )
    elif low <= _EPHEMERAL[1] and high >= _EPHEMERAL[0]:
        shared = min(high, _EPHEMERAL[1]) - max(low, _EPHEMERAL[0]) + 1
        yield _unwise(
            site,
            port,
            f"{span}, and from {_EPHEMERAL[0]} to {_EPHEMERAL[1]} the kernel serves outgoing connections: "
            "it may be in use when the job starts",
            {"lowest": low, "highest": high},
            Severity.INFO if shared < _FEW * (high - low + 1) else None,
        )


def _fault_of(site: LaunchSite, number: int) -> tuple[str | None, Severity | None]:
    if number == 0:
        # one node's agent passes it to its ranks; other nodes, or ranks without an agent, can't know it
        apart = several_nodes(site) is True or (site.command.launcher == "python" and (step_of(site).tasks or 1) > 1)
        if not apart:
            return None, None
        return "means any free one, which the other nodes can't know", Severity.ERROR
    if number < _PRIVILEGED_BELOW:
        return f"is below {_PRIVILEGED_BELOW}, and may be bound by root only", None
    if _EPHEMERAL[0] <= number <= _EPHEMERAL[1]:
        return (
            f"is one of those from which the kernel serves outgoing connections ({_EPHEMERAL[0]} to "
            f"{_EPHEMERAL[1]}): it may be in use when the job starts"
        ), None
    return None, None


def _unwise(
    site: LaunchSite,
    port: Port,
    message: str,
    evidence: dict[str, Any],
    severity: Severity | None,
    rule: Rule = rules.DC402,
) -> Finding:
    return rule.found(
        f"{port.name}: {message}",
        severity=severity,
        where=port.where,
        evidence=evidence,
        fix=_wise(site, port),
    )


def _wise(site: LaunchSite, port: Port) -> Fix:
    """Return the fix that gives a job a port of its own: none, one from its number, or else the default."""
    where = "launch-line" if port.given is None else "job-script"
    if _takes_a_free_one(site):
        return _standalone(site, port)
    wanted = _port_of_job(site, port)
    text = "take one from 1024 to 32767, the same on every node"
    if wanted == _PORT_OF_SHELL:
        text = "take one from 1024 to 32767, from the number of this shell"
    wanted = wanted or str(DEFAULT_PORT)
    edits = edit_value(site, PORT_OPTIONS, wanted) if port.word is not None and "endpoint" not in port.name else ()
    return Fix(
        f"{text}: {_assigned(port, wanted)}",
        edits=edits,
        where=where,
        risk="lines and scripts for other nodes of the same job must use the same port",
    )


def _assigned(port: Port, wanted: str) -> str:
    """Return the option or variable with another port; an endpoint keeps its host."""
    host = f"{host_of(port.word.text)}:" if port.word is not None and "endpoint" in port.name else ""
    return f"{port.name}={host}{wanted}"


def _takes_a_free_one(site: LaunchSite) -> bool:
    """Return whether torchrun starts all ranks on one host, so that it can choose the port."""
    torchrun = site.command.launcher in TORCHRUN_LAUNCHERS
    return torchrun and several_nodes(site) is False and step_of(site).starter is None


def _standalone(site: LaunchSite, port: Port) -> Fix:
    text = "on one node drop address and port, and write --standalone: torchrun takes a free port"
    edits: tuple[Edit, ...] = ()
    names = ("--rdzv-endpoint",) if "endpoint" in port.name else PORT_OPTIONS
    option, value = site.option(*names), site.value(*names)
    if port.word is not None and option is not None and value is not None and not option.origins:
        whole = option.span if "=" in option.text else option.span._replace(end_column=value.span.end_column)
        written = option.written if "=" in option.text else f"{option.written} {value.written}"
        if value.written == value.text and value.span.line == option.span.line:
            edits = whole.literal_edit(written, "--standalone")
    return Fix(
        text,
        edits=edits,
        where="launch-line" if port.given is None else "job-script",
        risk="safe only if no other program expects this port" if edits else None,
    )


def _port_of_job(site: LaunchSite, port: Port) -> str | None:
    """Return the text of a port that no other job on the host has, or None if nothing in the file gives one."""
    each = site.kind in _WITH_SHELL and port.word is not None and by_each_task(site, port.word) is True
    if site.in_slurm_job or (each and step_of(site).starter == "srun"):
        return PORT_OF_JOB
    command = site.command
    if site.kind not in _WITH_SHELL or each:
        return None
    if command.launcher == "deepspeed":
        at_once = command.node_rank is None and "node_rank" not in command.unknown
    elif command.launcher == "accelerate":
        at_once = command.node_rank is None and command.config_file is None and command.nnodes_max in (None, 1)
        at_once = at_once and not command.unknown & {"node_rank", "config_file", "nnodes_min", "nnodes_max"}
    else:
        at_once = step_of(site).starter is not None
    return _PORT_OF_SHELL if at_once and not is_remote(site) else None


# computed ports


def range_of(text: str) -> Range | None:
    """Return the possible ports of a substitution: ``$(shuf -i 20000-65000 -n 1)``, ``$((10000 + RANDOM % 20000))``.

    None if unknown. There is no upper limit if a job's number is added.
    """
    found = _SHUF.search(text)
    if found and text.lstrip().startswith(("$(", "`")):
        return Range(int(found[1]), int(found[2]))
    arithmetic = _ARITHMETIC.fullmatch(text.strip())
    if arithmetic is None or len(text) > _MAX_LENGTH:
        return None
    written = (arithmetic[2] or "").replace("\\*", "*") or arithmetic[3] or arithmetic[1]
    expression = re.sub(r"\$\{?([A-Za-z_]\w*)\}?", r"\1", written.replace("$$", "$BASHPID"))
    try:
        tree = ast.parse(expression.strip().replace("\n", " "), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    ports = _range(tree.body) if names else None
    if ports is None or (ports.high is None and not names <= _JOB_NUMBERS):
        return None
    return ports


def _range(node: ast.expr) -> Range | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Range(node.value, node.value)
    if isinstance(node, ast.Name):
        return Range(*_RANDOM) if node.id == "RANDOM" else Range(0, None)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _range(node.left), _range(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return Range(left.low + right.low, None if left.high is None or right.high is None else left.high + right.high)
    if isinstance(node.op, ast.Mod) and right.low == right.high and right.low > 0 and left.low >= 0:
        short = left.high is not None and left.high < right.low
        return left if short else Range(0, right.low - 1)
    if isinstance(node.op, ast.Mult) and right.low == right.high and right.low >= 0 and left.low >= 0:
        return Range(left.low * right.low, None if left.high is None else left.high * right.low)
    if isinstance(node.op, ast.Sub) and right.low == right.high:
        return Range(left.low - right.low, None if left.high is None else left.high - right.low)
    if left.low < 0 or right.low < 0 or left.high is None or right.high is None:
        return None
    if isinstance(node.op, ast.LShift) and right.high <= _MAX_SHIFT:
        return Range(left.low << right.low, left.high << right.high)
    if isinstance(node.op, ast.BitOr):
        return Range(max(left.low, right.low), (1 << max(left.high.bit_length(), right.high.bit_length())) - 1)
    return None


# ports that stand fixed


@probe(rules.DC744)
@worst_per_location
def port_is_not_fixed(launch_files: LaunchFiles) -> Iterator[Finding]:
    """Two jobs on one host do not use the same port."""
    for file in launch_files.files:
        before: dict[int, list[LaunchSite]] = {}
        for site in file.sites:
            port = port_of(site)
            if site.command.launcher == "other" or site.kind in ("pod", "markdown"):
                continue  # a document shows an example
            number = _wise_number(site, port)
            if port is None or number is None:
                continue
            neighbour = _concurrent_job(file, site, before.setdefault(number, []))
            array = site.job is not None and site.job.array and several_nodes(site) is False
            if neighbour is not None:
                text = (
                    f"line {neighbour.span.line} starts another job on this host at the same time, with the same port"
                )
            elif array:
                text = "all jobs of the array use it, and those that share a host fail"
            elif site.repeats and site.background and _is_job_of_its_own(site):
                text = "the loop starts several jobs at the same time, and all use it"
                if (expected := expected_nodes(site)) is not None and expected.high > 1:
                    continue
            else:
                text = "a second job on the host uses the same one"
            certain = neighbour is not None or array or text.startswith("the loop")
            yield rules.DC744.found(
                f"{port.name} is fixed at {number}: {text}",
                severity=None if certain else Severity.INFO,
                where=port.where,
                evidence={"setting": port.name, "value": str(number)},
                fix=_own_port(site, port, number),
            )


def _wise_number(site: LaunchSite, port: Port | None) -> int | None:
    """Return a literal port without another fault, or None; 0 is none."""
    if port is None or not re.fullmatch(r"\s*[0-9]{1,5}\s*", port.text):
        return None
    number = int(port.text)
    return number if 0 < number <= HIGHEST_PORT and _fault_of(site, number)[0] is None else None


def _concurrent_job(file: LaunchFile, site: LaunchSite, before: list[LaunchSite]) -> LaunchSite | None:
    """Return an earlier line that still runs on the same host for another job, with the same port.

    :param before: such lines with this port; this line is added
    """
    if not _is_job_of_its_own(site) or (expected_nodes(site) or (1, 1))[1] > 1:
        return None
    found = next((other for other in reversed(before) if _still_runs(file, other, site)), None)
    if site.background and len(before) < _MAX_BEFORE:
        before.append(site)
    return found


def _still_runs(file: LaunchFile, other: LaunchSite, site: LaunchSite) -> bool:
    if other.span == site.span or other.conditions != site.conditions or other.routine != site.routine:
        return False
    mine, its = rendezvous_of(site), rendezvous_of(other)
    between = file.lines[other.span.end_line : max(site.span.line - 1, 0)]
    return (mine is None or its is None or mine.host == its.host) and not any(map(_WAITS.match, between))


def _is_job_of_its_own(site: LaunchSite) -> bool:
    """Return whether it is a launcher on this host. Plain Python processes may be ranks of one job and share a port."""
    return site.command.launcher in NODE_LAUNCHERS and not is_remote(site) and step_of(site).starter is None


def _own_port(site: LaunchSite, port: Port, number: int) -> Fix:
    if _takes_a_free_one(site):
        return _standalone(site, port)
    wanted = _port_of_job(site, port)
    if wanted is None:
        text = f"give each job a port of its own, such as {_assigned(port, str(number + 1))} to the second"
    else:
        source = "the job's number" if wanted == PORT_OF_JOB else "the shell's process number"
        text = f"derive it from {source}: {_assigned(port, wanted)}"
    return Fix(text, where="launch-line" if port.given is None else "job-script")
