"""Whether rank, counts and node number can all be true at once, and fit the number that a scheduler gave this task.

One process is checked. Two ranks with the same number are seen only where ranks are compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.registry import probe
from distcheck.launch.model import NODE_LAUNCHERS, Launch, integer
from distcheck.launch.schedulers import Scheduler, mapping_lines, started_by, task_starter
from distcheck.rules import shared_fixes

from .rendezvous import reads_variables, value_of

_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")


@probe(rules.DC103, per="process")
def ranks_agree(launch: Launch, scheduler: Scheduler | Unavailable) -> Iterator[Finding]:
    """Rank, counts and node number can be true at once, and fit the scheduler's number of this task."""
    if not launch.launched or not reads_variables(launch):
        return
    numbers = {name: number for name in _NAMES if (number := _number(launch, name)) is not None}
    # other launchers may number the ranks in another order
    order = None if "TORCHELASTIC_RUN_ID" in launch.variables else Severity.INFO
    problems = (
        *((None, *problem) for problem in (*_out_of_range(numbers), *_counts_disagree(numbers))),
        *((order, *problem) for problem in _not_in_order(numbers)),
    )
    for severity, name, message in problems:
        yield rules.DC103.found(
            message,
            severity=severity,
            where=Where(variable=name, rank=launch.rank, local_rank=launch.local_rank),
            evidence={key: launch.variables[key] for key in _NAMES if key in launch.variables},
            fix=shared_fixes.ONE_LAUNCHER,
        )
    yield from _preset_rank(launch, numbers)
    yield from _task_disagrees(launch, scheduler, numbers)


@probe(rules.DC103)
def node_rank_is_in_range(launch: Launch) -> Iterator[Finding]:
    """Report a node rank that is none of those that the launch counts: torchrun waits there and prints nothing."""
    nodes = launch.nnodes_max or launch.nnodes
    if launch.stage != "planned" or launch.node_rank is None or nodes is None or 0 <= launch.node_rank < nodes:
        return
    last = "" if nodes == 1 else f" to {nodes - 1}"
    yield rules.DC103.found(
        f"the node rank is {launch.node_rank}, but a launch of {nodes} node{'s' * (nodes != 1)} has 0{last}",
        where=Where(object="--node-rank"),
        evidence={"node_rank": launch.node_rank, "nnodes": nodes},
        fix=Fix("number the nodes from 0, one number for each", where="launch-line"),
    )


def _number(launch: Launch, name: str) -> int | None:
    """A variable as a number; what can't be read, or makes no sense alone, is DC102's."""
    value = value_of(launch, name)
    number = None if value is None else integer(value)
    least = 1 if name.endswith("SIZE") else 0
    return number if number is not None and number >= least else None


def _out_of_range(numbers: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name, count, counted in (
        ("RANK", "WORLD_SIZE", "ranks"),
        ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "ranks on this node"),
        ("GROUP_RANK", "GROUP_WORLD_SIZE", "nodes"),
    ):
        number, size = numbers.get(name), numbers.get(count)
        if number is not None and size is not None and number >= size:
            yield name, f"{name} is {number}, but {count} is {size}: the last of {size} {counted} is {size - 1}"


def _counts_disagree(numbers: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Nodes may have different numbers of ranks, but each has at least one."""
    world, here = numbers.get("WORLD_SIZE"), numbers.get("LOCAL_WORLD_SIZE")
    if world is None or here is None:
        return
    if here > world:
        yield "LOCAL_WORLD_SIZE", f"LOCAL_WORLD_SIZE is {here}, but WORLD_SIZE, which counts all nodes, is {world}"
        return
    nodes = numbers.get("GROUP_WORLD_SIZE")
    if nodes is not None and (world != here if nodes == 1 else world < here + nodes - 1):
        yield (
            "WORLD_SIZE",
            f"WORLD_SIZE is {world}, which can't be: {nodes} node{'s' * (nodes != 1)}, {here} ranks on this one",
        )


def _not_in_order(numbers: dict[str, int]) -> Iterator[tuple[str, str]]:
    """torchrun numbers ranks node by node. Only where all nodes have as many is the first rank of one known."""
    if any(name not in numbers for name in _NAMES[:5]):
        return
    rank, world, local, here, node = (numbers[name] for name in _NAMES[:5])
    nodes = numbers.get("GROUP_WORLD_SIZE", world // here)
    if world != nodes * here or rank >= world or local >= here or node >= nodes:
        return
    # with --virtual-local-rank (torch 2.10) LOCAL_RANK is 0 everywhere
    virtual = local == 0 and 0 <= rank - node * here < here
    if node * here + local != rank and not virtual:
        place = f"LOCAL_RANK {local} of node {node} with {here} ranks a node"
        yield "RANK", f"RANK is {rank}, but {place} is rank {node * here + local}"


def _preset_rank(launch: Launch, numbers: dict[str, int]) -> Iterator[Finding]:
    """One value for all tasks that srun or mpirun will start."""
    command = launch.command
    starter = None if command is None or launch.stage != "planned" else task_starter(command)
    rank = numbers.get("RANK")
    if command is None or starter is None or rank is None or command.tasks == 1 or numbers.get("WORLD_SIZE") == 1:
        return
    lines = mapping_lines(started_by(starter))
    yield rules.DC103.found(
        f"RANK={rank} is set before {starter} starts the tasks: all of them would have that rank",
        where=Where(variable="RANK"),
        evidence={"RANK": rank, "starter": starter, "tasks": command.tasks},
        fix=Fix(
            "set it in each task, from the task's own number" + (f": {lines[-1]}" if lines else ""), where="each-task"
        ),
    )


def _task_disagrees(launch: Launch, scheduler: Scheduler | Unavailable, numbers: dict[str, int]) -> Iterator[Finding]:
    """Where each task is a rank, its number is the rank, or follows from its position on its node."""
    if isinstance(scheduler, Unavailable) or launch.stage != "rank" or launch.launcher in NODE_LAUNCHERS:
        return
    rank, world, task = numbers.get("RANK"), numbers.get("WORLD_SIZE"), scheduler.rank
    if rank is None or task is None or rank == task or world is None or world < 2 or scheduler.tasks != world:
        return
    # tasks that are dealt out to the nodes in turn (srun -m cyclic, mpirun --map-by node) are not numbered node by node
    node, on_node, local = scheduler.node_rank, scheduler.tasks_on_node, scheduler.local_rank
    if node is not None and on_node is not None and local is not None and rank == node * on_node + local:
        return
    own = scheduler.mapping.get("RANK", "")
    frozen = "; it was set once, before the tasks were started" if rank == 0 else ""
    yield rules.DC103.found(
        f"RANK is {rank}, but this is task {task} of {world} ({own}={task}){frozen}",
        where=Where(variable="RANK", rank=rank, local_rank=launch.local_rank),
        evidence={"RANK": rank, "WORLD_SIZE": world, own: task},
        fix=Fix(f"set it in each task: export RANK=${own}", where="each-task"),
    )
