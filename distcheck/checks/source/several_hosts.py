"""Signs that a program runs on several hosts: rules whose consequence needs a second host are quiet without one.

On one host the local rank is the global one. A program shows that it knows of several if it reads the number of nodes
or of this node, takes them as options, or works out ranks from them. Launch files are other signs, see
:mod:`..launch_files.started_scripts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Rule, Severity
from distcheck.core.patterns import lazy

from .device_uses import called_in, files_from, roots_of
from .program import EventRow, Program, cached
from .source_text import last_name
from .values import Atom, Kind, RankCondition
from .vocabulary import VARIABLES, word_set

#: Variables about the nodes of a job: their number, their names, the number of this one.
_VARIABLES = frozenset(name for name, kind in VARIABLES.items() if kind == Kind.NODE_RANK) | word_set(
    "SLURM_NNODES SLURM_JOB_NUM_NODES SLURM_NODELIST SLURM_JOB_NODELIST SLURM_STEP_NODELIST SLURM_STEP_NUM_NODES "
    "PET_NNODES PET_NODE_RANK NNODES NNODE NUM_NODES N_NODES NODE_COUNT NUM_MACHINES GROUP_WORLD_SIZE CROSS_RANK "
    "CROSS_SIZE PBS_NODEFILE PBS_NUM_NODES LSB_HOSTS LSB_MCPU_HOSTS LSB_DJOB_HOSTFILE OAR_NODEFILE COBALT_NODEFILE "
    "AZ_BATCH_HOST_LIST AZ_BATCH_MASTER_NODE SM_HOSTS SM_CURRENT_HOST VC_WORKER_HOSTS VC_WORKER_NUM MLP_WORKER_NUM "
    "ARNOLD_WORKER_NUM DLWS_NUM_WORKER"
)
#: Options about nodes, without dashes and with underscores.
_OPTIONS = word_set(
    "nnodes nnode num_nodes n_nodes nodes num_machines n_machines num_hosts n_hosts node_rank machine_rank hostfile"
)
#: The three options of a script that is started by hand on each node, as torch's ImageNet example has them.
_BY_HAND = frozenset({"dist_url", "world_size", "rank"})
#: Names of variables, parameters and attributes that are the number of nodes, or of this one. Not ``num_nodes`` and
#: ``n_nodes``, which graphs have as well.
_NAMES = word_set("node_rank noderank machine_rank nnodes nnode num_machines n_machines num_hosts")
#: Keywords about nodes, and the last names of what takes them; none: whatever takes them.
_KEYWORDS: dict[str, frozenset[str]] = {
    "num_nodes": word_set(
        "Trainer Fabric LightningLite DDPStrategy FSDPStrategy launch elastic_launch TorchDistributor"
    ),
    "nodes": word_set("update_parameters AutoExecutor SlurmExecutor"),
    "slurm_nodes": frozenset(),
    "nnodes": frozenset(),
    "max_nodes": word_set("LaunchConfig"),
    "num_machines": frozenset(),
    "machine_rank": frozenset(),
    "node_rank": frozenset(),
}
#: Functions that return the number of this node.
_FUNCTIONS = word_set("cross_rank cross_size get_node_rank")
_OPTION = lazy(r"--?[A-Za-z][\w-]*$")
_HOST_LIST = lazy(r"\bscontrol\s+show\s+hostnames?\b")


class HostSign(NamedTuple):
    """What shows that several hosts are meant."""

    path: str
    #: 0 where it is no line of its own
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


class HostFinding(NamedTuple):
    """A finding whose consequence needs a second host."""

    finding: Finding
    row: EventRow
    #: its level if the script certainly runs on several hosts
    worst: Severity


def by_hosts(
    row: EventRow,
    rule: Rule,
    finding: Finding,
    basis: tuple[Atom | RankCondition | int, ...],
    sign: HostSign | None = None,
) -> HostFinding:
    """Return a finding with its level: ``warning`` with a sign of a second host, ``info`` without one.

    :param basis: the alternatives and conditions that it rests on
    :param sign: one that is known already
    """
    worst, evidence = row.judged(rule, max(rule.severities), basis, dict(finding.evidence))
    sign = sign or sign_of_hosts(row.program, row)
    if sign is None:
        return HostFinding(finding._replace(severity=Severity.INFO, evidence=evidence), row, worst)
    level = min(worst, Severity.WARNING)
    return HostFinding(finding._replace(severity=level, evidence={**evidence, "several_hosts": str(sign)}), row, worst)


def quiet(row: EventRow, finding: Finding) -> HostFinding:
    """Return a finding that is ``info`` on any number of hosts: in a test, or in a program for one host."""
    return HostFinding(finding._replace(severity=Severity.INFO), row, Severity.INFO)


def sign_of_hosts(program: Program, row: EventRow) -> HostSign | None:
    """Return what shows that the processes that reach a row may run on several hosts; None if nothing does."""
    files = files_around(program, row)
    for file in sorted(files, key=lambda file: (file != row.file, file)):
        sign = _sign_in(program, file)
        if sign is not None:
            return sign
    for init in called_in(program, files, "torch.distributed.init_process_group"):
        rank = init.argument(4, "rank")
        atom = rank.get(Kind.GLOBAL_RANK) if rank is not None else None
        if atom is not None and atom.const == "sum":
            return HostSign(init.path, init.line, "the rank is worked out from the number of the node")
    return None


def files_around(program: Program, row: EventRow) -> frozenset[int]:
    """Return the files of the programs that reach a row: what they start with, and all that this imports."""
    return _files_around(program, row.file, row.scope)


@cached
def _files_around(program: Program, file: int, scope: int) -> frozenset[int]:
    row = next(iter(program.rows_of(file, scope)), None)
    roots = {root[0] for root in roots_of(program, row)} if row is not None else set()
    if not roots - {file}:
        roots |= {file, *program.index.importers(file)}
    return frozenset().union(*(files_from(program, root) for root in roots))


@cached
def _sign_in(program: Program, file: int) -> HostSign | None:
    if program.is_test(file):
        return None
    path = program.index.files[file].path
    return next((HostSign(path, line, text) for line, text in _signs(program, file)), None)


def _signs(program: Program, file: int) -> Iterator[tuple[int, str]]:
    """Yield the signs in one file: (line, or 0 where it is not known, text)."""
    terms = program.terms[file]
    for event in program.events[file]:
        if event[0] == "call":
            text = _of_call(terms, terms[event[7]])
            if text:
                yield event[3], text
        elif event[0] in ("bind", "attribute"):
            name = event[7] if event[0] == "bind" else event[8]
            if name in _NAMES:
                yield event[3], f"it has {name}"
    options: set[str] = set()
    for term in terms:
        if term[0] == "k" and term[1] == "str":
            text = _of_text(term[2])
            if text:
                yield 0, text
            if _OPTION.match(term[2]):
                options.add(term[2].lstrip("-").replace("-", "_"))
        elif term[0] in ("p", "v", "a") and term[2] in _NAMES:
            yield 0, f"it has {term[2]}"
    if options >= _BY_HAND:
        yield 0, "it takes --dist-url, --world-size and --rank"


def _of_call(terms: list[tuple[Any, ...]], call: tuple[Any, ...]) -> str:
    """Return what of a call is about nodes: an argument that is given as something else than one."""
    if last_name(terms, call[1]) in _FUNCTIONS:
        return f"it calls {last_name(terms, call[1])}()"
    for keyword, value in call[3]:
        takers = _KEYWORDS.get(keyword)
        if takers is None or terms[value][:1] + terms[value][2:] in (("k", 1), ("k", 0), ("k", None)):
            continue
        if not takers or last_name(terms, call[1]) in takers:
            return f"{last_name(terms, call[1])}({keyword}=…)"
    return ""


def _of_text(text: str) -> str:
    if text in _VARIABLES:
        return f"it reads {text}"
    if _OPTION.match(text) and text.lstrip("-").replace("-", "_") in _OPTIONS:
        return f"it takes {text}"
    return "it lists the hosts of a Slurm job" if _HOST_LIST.search(text) else ""
