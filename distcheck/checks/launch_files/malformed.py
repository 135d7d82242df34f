"""Values that torch or its launcher can't parse: bad numbers, addresses with a scheme, unknown options.

``ports.py`` checks the range of ports, ``rendezvous.py`` lists of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import ACCELERATE_SINCE
from distcheck.core.redaction import mask
from distcheck.core.registry import probe
from distcheck.core.wording import counted
from distcheck.launch.model import ELASTIC_LAUNCHERS, NODE_LAUNCHERS, LaunchProblem
from distcheck.rules import shared_fixes

from .context import (
    NODE_RANK_OPTIONS,
    edit_value,
    expected_nodes,
    launch_lines,
    location_of,
    option_name,
    rendezvous_lines,
    rendezvous_of,
    setting,
    shown,
    source_of,
    with_variables,
    worst_per_location,
)
from .model import TORCHRUN_LAUNCHERS, FileSetting, LaunchFile, LaunchFiles, LaunchSite
from .ports import port_of

#: torch's numbers with their minimum.
_NUMBERS = (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0), ("LOCAL_WORLD_SIZE", 1))
#: Words in place of a script in documents and usage lines.
_PLACEHOLDER = lazy(r"\.\.\.|…|<[^>]*>|\[[^\]]*\]|\.\.\.\s*$|(?:--[\w-]+=)?\?{2,}")
#: Placeholders: ``YOUR_PORT``, ``<ip of node 0>``, ``xxx.xxx.xxx.xxx``, ``???``.
_STANDS_FOR = lazy(
    r"(?i)your|<[^>]*>?|^[x.:]+$|\?{2,}|\.\.\.|todo|change_?me|replace|fill_?(?:in|me)|_here\b|^my_|\{|__\w+__|@\w+@|%[a-z(]"
)
#: Rendezvous backends that torch registers (torch 2.15, ``elastic/rendezvous/registry.py``).
_BACKENDS = ("static", "c10d", "etcd", "etcd-v2")
_PORT_OPTIONS = frozenset({"master-port", "main-process-port"})
#: A division by a variable that only the ranks have.
_DIVIDES = lazy(r"\$\(\([^()]*[/%]\s*\$?\{?((?:LOCAL_)?WORLD_SIZE)\b(?![:=]).{0,40}?\)\)")
_READS_FILE = lazy(r"\s*(?:source|\.)\s")
#: Commands after which any variable may be set; those that activate an environment of Python set none of these.
_MAY_SET = lazy(
    r"(?:^|[;&|(]|\b(?:then|do|else)\b)\s*(?:(?:source|\.)\s+(?!\S*(?:bin/activate|conda\.sh|/activate)\b)|eval\b(?!.*\bconda\b)"
    r"|export\s+\$\()|\bset -a\b|\bdeclare -n\b"
)
#: A variable without a default.
_PLAIN_VARIABLE = lazy(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_ADDRESS_OPTIONS = ("--rdzv-endpoint", "--master-addr", "--master-port", "--main-process-ip", "--main-process-port")
#: By whether it is a port: what a batch script sets the variable to.
_VALUES = {
    False: '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)',
    True: "$((10000 + SLURM_JOB_ID % 20000))",
}


@probe(rules.DC102)
@worst_per_location
def rendezvous_values_are_readable(launch_files: LaunchFiles) -> Iterator[Finding]:
    """torch or its launcher can use each value: a whole number in its range, one bare host name or address."""
    for file, site in rendezvous_lines(launch_files):
        if site.command.launcher not in NODE_LAUNCHERS:
            for name, low in _NUMBERS:
                given = site.settings.get(name)
                if given is not None and given.value is not None:
                    yield from _number(given, low)
        yield from _port(site)
        yield from _address(file, site)
    for file, site in launch_lines(launch_files, complete=False):
        # a syntax error is a problem of the file, and the line may read differently
        is_broken = any(site.span.line <= line <= site.span.end_line for _, line, _ in file.problems)
        if not is_broken and not _has_blank(file, site):
            yield from _options(site)
        yield from _node_rank(site)


@probe(rules.DC102)
def divisors_are_set(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A batch script divides by no variable that only the ranks have."""
    seen: set[Where] = set()
    for file, site in launch_lines(launch_files):
        if site.kind != "slurm" or site.job is None or any(_READS_FILE.match(line) for line in file.lines):
            continue
        for word in site.words:
            text = with_variables(site, word.text)
            match = _DIVIDES.search(text)
            name = None if match is None else match[1]
            # a shell of each task may run in a container that sets the variable
            if match is None or name is None or word.by_each_task is True or setting(site, name) is not None:
                continue
            if any(re.search(rf"\b{name}(?:=|:=)|\bread\b.*\b{name}\b", line) for line in file.lines):
                continue
            given = source_of(site, word.written or word.text)
            where = location_of(site, word) if given is None else given.span.where(variable=given.name)
            if where in seen:
                continue
            seen.add(where)
            result = "does not run the command" if given is None else f"leaves {given.name} empty"
            yield rules.DC102.found(
                f"{shown(match[0])} divides by {name}, which neither this script nor Slurm sets: bash prints "
                f"'division by 0' and {result}",
                severity=Severity.WARNING,
                where=where,
                evidence={"divisor": name},
                fix=Fix(f"set it before that line: {name}={_ranks(site, name)}", where="job-script"),
            )


@probe(rules.DC102)
def addresses_are_set(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A batch script sets each variable of its rendezvous address and port."""
    seen: set[tuple[str, str]] = set()
    for file, site in launch_lines(launch_files):
        # a file that the shell reads, or a text that it runs, may set anything
        if site.kind != "slurm" or site.job is None or any(_MAY_SET.search(line) for line in file.lines):
            continue
        for option in _ADDRESS_OPTIONS:
            word = site.value(option)
            if word is None or word.by_each_task is True:
                continue
            text = with_variables(site, word.text)
            values: dict[str, str] = {}
            for match in _PLAIN_VARIABLE.finditer(text):
                name = match[1] or match[2]
                if (file.path, name) not in seen and _is_never_set(name, file, site, launch_files):
                    seen.add((file.path, name))
                    values[name] = _VALUES[_is_port(option, text, match)]
            if values:
                yield rules.DC102.found(
                    f"{option_name(site, (option,))} uses {' and '.join(values)}, which neither this script nor Slurm "
                    f"sets: {'it is' if len(values) == 1 else 'they are'} empty, unless the shell that submits the job "
                    "exports it",
                    severity=Severity.WARNING,
                    where=location_of(site, word, option),
                    evidence={"variables": list(values)},
                    fix=Fix(
                        f"write before the launch: {' '.join(f'{name}={value}' for name, value in values.items())}",
                        where="job-script",
                    ),
                )


def _is_never_set(name: str, file: LaunchFile, site: LaunchSite, launch_files: LaunchFiles) -> bool:
    """Return whether neither the script, nor Slurm, nor a file that names the script gives a variable."""
    if name.startswith(("SLURM", "SBATCH", "PMI", "OMPI")) or setting(site, name) is not None:
        return False
    base = re.escape(file.path.replace("\\", "/").rpartition("/")[2])
    sets = lazy(rf"(?<![\w$]){name}=|\bread\b.*\b{name}\b|\bfor\s+{name}\b|--export\S*\b{name}\b|\$\{{{name}:?[-=]")
    return not any(
        any(map(sets.search, other.lines))
        for other in launch_files.files
        if other.path == file.path or any(re.search(rf"(?<![\w-]){base}\b", line) for line in other.lines)
    )


def _is_port(option: str, text: str, match: re.Match[str]) -> bool:
    """Return whether a variable stands for a port: in an option for one, or after the colon of an endpoint."""
    return option.endswith("port") or text[: match.start()].endswith(":")


def _ranks(site: LaunchSite, name: str) -> str:
    """Return the number of ranks of a node or of the job, as a word of the shell."""
    is_known = (site.command.nproc or "").isdecimal()
    each = site.command.nproc if is_known else "8"
    value = f"{each}" if name == "LOCAL_WORLD_SIZE" else f"$((SLURM_NNODES * {each}))"
    return value if is_known else f"{value}, if a node runs {each} ranks"


def _number(given: FileSetting, low: int) -> Iterator[Finding]:
    value = given.value or ""
    try:
        number = int(value)
    except ValueError:
        pass
    else:
        # old scripts write -1 for "not distributed"
        if number >= low or (given.name == "LOCAL_RANK" and number == -1):
            return
    if not value.strip():
        return  # torch takes it for not set
    yield _malformed(
        given.name,
        value,
        f"expected a whole number from {low}",
        f"let the launcher set {given.name}, and export it nowhere",
        given.span.where(variable=given.name),
    )


def _port(site: LaunchSite) -> Iterator[Finding]:
    port = port_of(site)
    if port is None or "$" in port.text or "`" in port.text or not port.text.strip():
        return
    if _stands_for_another(site, port.text):
        return
    if re.fullmatch(r"\s*[+-]?[0-9]+\s*", port.text):
        return  # port_is_wise checks the range
    yield _malformed(
        port.name,
        port.text,
        "expected a port from 1 to 65535",
        "write one port, from 1024 to 32767, for all ranks",
        port.where,
    )


def _stands_for_another(site: LaunchSite, text: str) -> bool:
    """Return whether the text is a placeholder; in a document any word may be one."""
    return _STANDS_FOR.search(text) is not None or (
        site.kind == "markdown" and re.search(r"[A-Za-z]", text) is not None
    )


def _address(file: LaunchFile, site: LaunchSite) -> Iterator[Finding]:
    rendezvous = rendezvous_of(site)
    if rendezvous is None or not rendezvous.known or not rendezvous.host.strip():
        return
    from distcheck.checks.host.rendezvous import address_problem

    host = rendezvous.host
    endpoint = "endpoint" in rendezvous.name
    # torchrun needs brackets around an IPv6 address and removes them
    if site.command.launcher in NODE_LAUNCHERS and host.startswith("[") and host.endswith("]"):
        return
    problem = address_problem(host)
    literal = endpoint and rendezvous.variable is None and ":" in host and "://" not in host
    if problem is None or literal or _stands_for_another(site, host) or _is_compared(file, host):
        return
    why, remedy = problem
    if endpoint and rendezvous.variable is None:
        remedy = f"{remedy}, with its port behind a colon"
    yield _malformed(rendezvous.source, host, why, remedy, rendezvous.where)


def _is_compared(file: LaunchFile, host: str) -> bool:
    """Return whether an address is an item of a list that the script compares with the name of its own host.

    A placeholder in such a list equals no host, so that the script shows what is missing.
    """
    text = "\n".join(file.lines)
    lists = re.findall(rf"^[ \t]*(\w+)=\([^()]*(?<![\w.]){re.escape(host)}(?![\w.])[^()]*\)", text, re.MULTILINE)
    return any(re.search(rf"\[[^\n]*(?:==?[^\n]*\$\{{{name}\[|\$\{{{name}\[[^\n]*==?)[^\n]*\]", text) for name in lists)


def _has_blank(file: LaunchFile, site: LaunchSite) -> bool:
    """Return whether a command uses a variable that the file leaves empty, for its user to fill in (``GPUS=``)."""
    empty = [name for name, one in {**site.settings, **site.unexported}.items() if one.value == ""]
    lines = [word.span.line for word in site.words if word.span.path == file.path]
    if not empty or not lines:
        return False
    # a last word that vanishes has no line
    text = "\n".join(file.lines[min(lines) - 1 : max(lines) + 1])
    return any(re.search(rf"\$(?:{re.escape(name)}\b|\{{{re.escape(name)}\}})", text) for name in empty)


def _options(site: LaunchSite) -> Iterator[Finding]:
    """Yield the options that the launcher refuses."""
    command = site.command
    elastic = command.launcher in ELASTIC_LAUNCHERS
    for problem in command.problems:
        plain = problem.word.lstrip("-").replace("_", "-")
        if plain in _PORT_OPTIONS and problem.kind == "bad-value":
            continue
        if plain == "rdzv-endpoint" and re.search(r":[0-9]{1,18}'", problem.text):
            continue
        refused = problem.kind in ("unknown-option", "missing-value", "missing-script") and elastic
        if (problem.kind != "bad-value" and not refused) or _is_usage(site, problem):
            continue
        yield rules.DC102.found(
            problem.text,
            where=_of_problem(site, problem),
            evidence={"option": problem.word, **_since(site, problem)},
            fix=shared_fixes.of_refused_option(problem.kind, problem.word),
        )
    backend = command.rdzv_backend
    if command.launcher in TORCHRUN_LAUNCHERS and backend not in (None, *_BACKENDS):
        word = site.value("--rdzv-backend")
        yield rules.DC102.found(
            f"--rdzv-backend is {shown(backend or '')!r}; torch has {', '.join(_BACKENDS)}",
            where=location_of(site, word, "--rdzv-backend"),
            evidence={"value": backend},
            fix=shared_fixes.KNOWN_BACKEND._replace(
                edits=edit_value(site, ("--rdzv-backend",), "c10d"), risk="a plug-in may bring a backend of this name"
            ),
        )


def _since(site: LaunchSite, problem: LaunchProblem) -> dict[str, str]:
    """Return the first release that is known to refuse one process with ``--multi_gpu``: the first of accelerate 1."""
    of_multi_gpu = site.command.launcher == "accelerate" and "--multi_gpu" in problem.text
    return {ACCELERATE_SINCE: "1.0"} if of_multi_gpu else {}


def _is_usage(site: LaunchSite, problem: LaunchProblem) -> bool:
    """Return whether the line only documents a command: in a document, or with placeholders."""
    if problem.kind == "bad-value":
        word = site.value(problem.word)
        return word is not None and _stands_for_another(site, word.text)
    if problem.kind not in ("missing-script", "missing-value", "unknown-option"):
        return False
    if any(_PLACEHOLDER.fullmatch(word.text) for word in site.words):
        return True
    return problem.kind == "missing-script" and (site.kind == "markdown" or len(site.words) < 2)


def _of_problem(site: LaunchSite, problem: LaunchProblem) -> Where:
    word = site.value(problem.word) if problem.kind == "bad-value" else None
    word = word if word is not None else site.option(problem.word)
    return location_of(site, word, problem.word)


def _node_rank(site: LaunchSite) -> Iterator[Finding]:
    """Yield node ranks that are not between 0 and the number of nodes."""
    command = site.command
    expected = expected_nodes(site)
    rank = command.node_rank
    used = command.rdzv_backend in (None, "static") and not command.standalone and "rdzv_backend" not in command.unknown
    if rank is None or expected is None or not expected.literal or not used or 0 <= rank < expected.high:
        return
    word = site.value(*NODE_RANK_OPTIONS)
    name = option_name(site, NODE_RANK_OPTIONS)
    nodes = f"{counted(expected.high, 'node')}"
    yield rules.DC102.found(
        f"{name} is {rank}, but there are {nodes}, numbered from 0 to {expected.high - 1}",
        where=location_of(site, word, name),
        evidence={"node_rank": rank, "nnodes_max": expected.high},
        fix=Fix(f"count the nodes from 0: the first has {name}=0, the last {expected.high - 1}", where="launch-line"),
    )


def _malformed(name: str, value: str, why: str, remedy: str, where: Where) -> Finding:
    return rules.DC102.found(
        f"{name} is {shown(value)!r}: {why}",
        where=where,
        evidence={"value": mask(value)},
        fix=Fix(remedy, where="job-script"),
    )
