"""The nodes of a Lightning Trainer against those of the step of Slurm that starts its script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.registry import probe
from distcheck.core.wording import counted

from .context import step_of
from .given_options import GivenOptions
from .model import LaunchFiles
from .scripts import ScriptStart, Started

if TYPE_CHECKING:
    from distcheck.checks.source.program import Program, SourceCall

_TRAINER = "lightning.pytorch.Trainer"
#: The argument of a strategy by which another environment counts the nodes.
_OTHER_NODES = "cluster_environment"
#: Larger numbers of nodes are not recognized.
_MOST_NODES = 256


@probe(rules.DC804)
def lightning_expects_the_nodes_there_are(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """A Trainer has as many nodes as srun starts its script on."""
    program = started.program
    if program is None:
        return
    for start in started.starts:
        site = start.site
        step = step_of(site)
        nodes = step.nodes if step.starter == "srun" and not step.partial else None
        if site.command.launcher != "python" or nodes is None or nodes < 2:
            continue
        trainers = _trainers(program, start.script, GivenOptions(site.command.script_args))
        counts = {_nodes_of(program, call, site.command.script_args) for call in trainers}
        count = counts.pop() if len(counts) == 1 else None
        if count not in (None, nodes):
            yield _differ(start, trainers[0], count, nodes)


def _trainers(program: Program, script: int, given: GivenOptions) -> list[SourceCall]:
    """Return the calls that make the trainers of a script with these options; none if others may count the nodes."""
    from distcheck.checks.source.call_paths import reached_from
    from distcheck.checks.source.device_uses import files_from
    from distcheck.checks.source.option_paths import path_needed

    if any(_OTHER_NODES in program.index.files[file].text for file in files_from(program, script)):
        return []
    found = []
    for call in program.calls_to(_TRAINER):
        if (call.file, call.scope) in reached_from(program, (script, 0)):
            needed = path_needed(program, (call.file, call.scope, call.block), script)
            if needed is not None and given.takes(needed) is not False:
                found.append(call)
    return found


def _nodes_of(program: Program, call: SourceCall, words: tuple[str, ...]) -> int | None:
    """Return ``num_nodes`` of a Trainer in a launch with these options, or None if unknown."""
    from distcheck.checks.source.option_paths import expression_of

    if call.gives(None, "plugins"):
        return None  # another environment may count the nodes
    term = call.argument_term(None, "num_nodes")
    if term < 0:
        return None if call.has_star or call.positional else 1
    value = expression_of(program, call.file, term)
    given = GivenOptions(words)
    # Trainer accepts a number as a text
    return next(
        (n for n in range(1, _MOST_NODES) if any(given.takes(("=", "==", value, ("k", one))) for one in (n, str(n)))),
        None,
    )


def _differ(start: ScriptStart, call: SourceCall, count: int, nodes: int) -> Finding:
    where = f"{call.path}:{call.line}"
    return rules.DC804.found(
        f"srun starts {start.path} on {counted(nodes, 'node')}, but its Trainer has num_nodes={count} ({where}): "
        "Lightning refuses to start, or trains without the other nodes",
        where=start.site.where(object="srun"),
        evidence={"num_nodes": count, "nodes": nodes, "flow": [f"{where}: {call.text()}"]},
        severity=Severity.WARNING,
        fix=Fix('give the Trainer the nodes of the job: num_nodes=int(os.environ["SLURM_NNODES"])', where="code"),
    )
