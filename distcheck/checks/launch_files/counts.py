"""The numbers of ranks, nodes, tasks and GPUs of a launch line. None is *unknown*.

The parser of launch commands counts for the launcher. These functions add what the scheduler gives. They report
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from distcheck.core.patterns import lazy
from distcheck.launch.command import nproc_on
from distcheck.launch.model import NODE_LAUNCHERS
from distcheck.launch.schedulers import task_starter

from .context import expected_nodes, step_of
from .model import Allocation, LaunchSite, Scalar, Word, known

#: The options that set the number of processes on a node, by launcher.
PROCESS_OPTIONS = {
    "torchrun": ("--nproc-per-node",),
    "torch.distributed.launch": ("--nproc-per-node",),
    "accelerate": ("--num-processes",),
    "deepspeed": ("--num-gpus",),
}
#: Variables that let ranks share GPUs.
SHARE_GPUS = ("NCCL_MULTI_RANK_GPU_ENABLE", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
#: Script arguments that mean that no GPU is used.
_ON_CPU = lazy(
    r"(?i)--?[\w-]*backend[= ]['\"]?gloo\b|--?(?:use[-_])?cpu(?:[-_]only)?(?![\w-])(?![= ](?:false|0)\b)"
    r"|--?no[-_](?:cuda|gpu)\b|--?[\w-]*(?:device|accelerator)[= ]['\"]?cpu\b|\bbackend[=:]['\"]?gloo\b"
)


class Count(NamedTuple):
    """A number, and where the file gives it."""

    number: int
    #: the option's value or the directive; None for a default
    source: Word | Scalar | None = None


def ranks_on_node(site: LaunchSite) -> int | None:
    """Return the ranks that the line starts on each node, if the number is literal."""
    command = site.command
    if command.nproc in ("cpu", "gpu", "auto", "xpu"):
        return None
    found = nproc_on(command, gpus=None, cpus=0)
    if command.launcher != "python" or not task_starter(site.command):
        return found or None
    return tasks_on_node(site)


def process_count_word(site: LaunchSite) -> Word | None:
    """Return the word with the number of ranks."""
    return site.value(*PROCESS_OPTIONS.get(site.command.launcher, ()))


def tasks_on_node(site: LaunchSite) -> int | None:
    """Return the tasks that a scheduler or MPI starts on each node; 1 without either."""
    command = site.command
    starter = task_starter(site.command)
    if starter is None:
        return 1
    found = step_of(site).tasks_on_node
    given = site.allocation
    if found is not None or starter != "srun" or given is None or given.heterogeneous:
        return found
    # with a number of CPUs srun may start as many tasks as fit (huggingface/datatrove#296), otherwise one on each node
    counts = [
        count
        for one in (given, site.job or given)
        for count in (one.tasks, one.tasks_per_node, one.cpus_per_task, one.gpus_per_task, one.cpus_per_gpu)
    ]
    open_ended = command.unknown & {"tasks", "tasks_per_node", "cpus_per_task", "nodes"}
    return 1 if all(one is None for one in counts) and not open_ended else None


def tasks_of(site: LaunchSite) -> int | None:
    """Return the total number of tasks; 1 if nothing starts tasks."""
    if task_starter(site.command) is None:
        return 1
    tasks = step_of(site).tasks
    if tasks is not None:
        return tasks
    each, nodes = tasks_on_node(site), nodes_given(site)
    return None if each is None or nodes is None else each * nodes


def nodes_given(site: LaunchSite) -> int | None:
    """Return the nodes on which a scheduler, an operator or MPI starts the line."""
    command = site.command
    if command.nodes is not None:
        return command.nodes
    if "nodes" in command.unknown:
        return None
    if site.pods is not None:
        return known(site.pods.nodes)
    given = site.allocation
    if given is None or given.heterogeneous:
        return None
    nodes = known(given.nodes)
    return nodes if given.nodes_max is None or known(given.nodes_max) == nodes else None


def nodes_of(site: LaunchSite) -> int | None:
    """Return the nodes of the job of a line: those that the launcher expects, otherwise those that it is given.

    A launcher without such an option has one node.
    """
    command = site.command
    if command.launcher in NODE_LAUNCHERS:
        if command.standalone:
            return 1
        if command.unknown & {"nnodes_min", "nnodes_max"}:
            expected = expected_nodes(site)
            return None if expected is None else expected.high
        if command.nnodes_max is not None or command.nnodes_min is not None:
            return command.nnodes_max or command.nnodes_min
        if command.launcher == "deepspeed" and (command.hostfile or command.include or command.unknown):
            return None
        if command.launcher == "accelerate" and (command.config_file or "config_file" in command.unknown):
            return None
        return 1
    return nodes_given(site)


def gpus_given(site: LaunchSite) -> Count | None:
    """Return the GPUs that the scheduler gives to the line on each node, or to a launcher in a task.

    For unequal nodes it is the mean.
    """
    command = site.command
    given = site.allocation
    if command.unknown & {"gpus_per_node", "gpus_per_task", "gpus"}:
        return None
    if given is None or given.heterogeneous:
        return None
    each = _count(given.gpus_per_node)
    if each is not None:
        return each
    total, nodes = _count(given.gpus), nodes_given(site)
    if total is not None and nodes and total.number % nodes == 0:
        return total._replace(number=total.number // nodes)
    per_task, tasks = _count(given.gpus_per_task), tasks_in_job(given)
    if per_task is not None and task_starter(site.command) is not None and command.launcher in NODE_LAUNCHERS:
        return per_task  # the ranks of a launcher share what its task has
    if per_task is not None and tasks is not None:
        return per_task._replace(number=per_task.number * tasks)
    return None


def tasks_in_job(given: Allocation) -> int | None:
    """Return the tasks on each node of an allocation."""
    each = known(given.tasks_per_node)
    if each is not None:
        return each
    tasks, nodes = known(given.tasks), known(given.nodes)
    if tasks is not None and nodes:
        return tasks // nodes if tasks % nodes == 0 else None
    if tasks == 1 or (given.tasks is None and given.tasks_per_node is None):
        return 1
    return None


def _count(scalar: Scalar | None) -> Count | None:
    number = known(scalar)
    return None if number is None else Count(number, scalar)


def is_distributed(site: LaunchSite) -> bool:
    """Return whether the line certainly starts ranks of one job: with a launcher, or as tasks with a rendezvous."""
    if site.command.launcher in NODE_LAUNCHERS:
        return True
    rendezvous = {"MASTER_ADDR", "MASTER_PORT"} & set(site.settings)
    return site.command.launcher == "python" and bool(rendezvous) and task_starter(site.command) is not None


def runs_on_cpu(site: LaunchSite) -> bool:
    """Return whether the arguments or variables mean that no GPU is used."""
    command = site.command
    if command.nproc == "cpu":
        return True
    hidden = site.settings.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.value is not None and hidden.value.strip() in ("", "-1", "NoDevFiles"):
        return True
    if (cpu := site.settings.get("ACCELERATE_USE_CPU")) is not None and cpu.value not in (None, "0", "false", "False"):
        return True
    behind = len(command.script_args)
    own = command.argv[: len(command.argv) - behind] if behind else command.argv
    if command.launcher == "accelerate" and any(word in ("--cpu", "--use_cpu") for word in own):
        return True
    return _ON_CPU.search(" ".join(command.script_args)) is not None
