"""DC106 in words: the message and the fixes of two launchers that each start all ranks.

The checks of a host, of launch files, of source and of logs see the same error in different inputs. The page is
``pages/DC106.md``. What several agents for one node do (DC108, DC804) is here as well.
"""

from __future__ import annotations

from distcheck.core.model import Finding, Fix, Where

from .catalogue import DC106
from .shared_fixes import ONE_TASK_A_NODE

#: The fix of ranks that are spawned under a launcher.
KEEP_ONE = (
    "keep one launcher: with torchrun call the function directly; with spawn use its argument as local rank; "
    'or choose by "LOCAL_RANK" in os.environ'
)


def tasks_start_launchers(
    starter: str,
    launcher: str,
    *,
    tasks_on_node: int | None,
    tasks: int | None,
    nodes: int | None,
    each: int | None,
    where: Where,
    fix: Fix,
) -> Finding:
    """Return the finding of a launcher for all ranks of a node that several tasks of the node start.

    :param starter: ``srun``, ``mpirun`` …
    :param each: the ranks that each launcher starts; None: one for each GPU
    """
    count = f"{each} processes" if each else "as many processes as there are GPUs"
    total = f": {tasks_on_node * each} in all" if each and tasks_on_node else ""
    return DC106.found(
        f"{starter} starts {tasks_on_node} tasks on a node, and in each of them {launcher} starts {count}{total}",
        where=where,
        evidence={
            "starter": starter,
            "tasks_on_node": tasks_on_node,
            "tasks": tasks,
            "nodes": nodes,
            "launcher": launcher,
            "processes_of_each": each,
        },
        fix=fix,
    )


def start_once(launcher: str, starter: str, how: str = f"srun {ONE_TASK_A_NODE}") -> Fix:
    """Return the fix: one task a node, or no second launcher.

    :param how: how srun gets one task a node here
    """
    if starter == "srun":
        return Fix(
            f"give {launcher} one task a node: {how}; or drop {launcher}, and let srun start one python per GPU with "
            "RANK, LOCAL_RANK and WORLD_SIZE set from SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS",
            where="job-script",
        )
    return Fix(
        f"start {launcher} once on each node ({starter} with one process a node). "
        f"Or start the script with {starter} alone and set torch's variables from those of MPI",
        where="launch-line",
    )


def agents_for_one_node(agents: int, backend: str | None, host: str | None) -> str:
    """Return what several torchrun agents do that each expect a single node, as a clause (torch 2.13, tried).

    :param backend: the rendezvous backend; None: torchrun's own, static
    :param host: the host of the rendezvous that all of them have in common; None: each has its own
    """
    if host is None:
        return f"{agents} independent jobs"
    if backend in (None, "static"):
        return f"the ranks of all {agents} use the same numbers in the store of {host}, and collide"
    others = "the other waits" if agents == 2 else f"the other {agents - 1} wait"
    return f"all have the rendezvous {host}, so one node trains alone and {others} until it ends"
