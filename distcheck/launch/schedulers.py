"""What a scheduler or an MPI launcher sets for this process: Slurm, Kubernetes, PBS, LSF, Flux, Open MPI, PMI …

It reads the variables of a job and its tasks, expands Slurm's host lists, and writes the lines that pass a task's
number to torch. Other modules check whether the numbers fit the launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from distcheck.core.model import NotApplicable
from distcheck.core.registry import fact
from distcheck.core.world import World
from distcheck.rules.shared_fixes import FIRST_HOST_OF_SLURM

from .model import LaunchCommand

#: Limit of expanded hosts. The largest published Slurm cluster has fewer than 20,000 nodes.
MAX_HOSTS = 100_000
#: From here on Slurm numbers its own steps: interactive, batch, extern (slurm.h, Slurm 23.11).
_FIRST_SPECIAL_STEP = 0xFFFFFFFA
#: Free on most hosts, and below the ephemeral ports, which start at 32768 (Linux, ip_local_port_range).
_PORT_OF_JOB = "$((10000 + SLURM_JOB_ID % 20000))"


class Scheduler(NamedTuple):
    """A job and this process in it. None: unknown."""

    #: the scheduler of the job: ``slurm``, ``kubernetes``, ``pbs``, ``lsf``, ``flux``, ``ray``; otherwise the launcher
    #: of the tasks
    name: str
    #: the program that numbered this task: ``slurm``, ``openmpi``, ``mvapich``, ``pmi``, ``pmix``, ``flux``, ``jsrun``;
    #: None in a job script's body, an interactive allocation or a pod
    numbered_by: str | None = None
    #: ``task``, ``batch`` (the body of a job script, or an allocation's shell) or ``pod``
    place: str = "task"
    job_id: str | None = None
    step_id: str | None = None
    #: the number of this task among all, and on its node
    rank: int | None = None
    local_rank: int | None = None
    #: tasks in all and on this node: those of the step in a task, of the allocation in a job script's body
    tasks: int | None = None
    tasks_on_node: int | None = None
    nodes: int | None = None
    node_rank: int | None = None
    node_name: str | None = None
    #: as the scheduler writes it: ``gpu[01-04]``
    node_list: str | None = None
    gpus_on_node: int | None = None
    gpus_per_task: int | None = None
    cpus_per_task: int | None = None
    #: processes per pod that an operator passes to torchrun: a number, ``gpu`` or ``auto``
    nproc_text: str | None = None
    #: when the job will end, and when that was read, in seconds since 1970
    end_time_s: float | None = None
    now_s: float | None = None
    #: the variables that number a task: torch's name to the name here
    mapping: Mapping[str, str] = {}

    @property
    def runs_the_job(self) -> bool:
        """Return whether the name is that of a scheduler or operator, not of a launcher alone."""
        return self.job_id is not None or self.name == "kubernetes"

    @property
    def left_s(self) -> float | None:
        """Return the seconds until the job will end, or None if unknown."""
        return None if self.end_time_s is None or self.now_s is None else self.end_time_s - self.now_s


#: The variables of each launcher of tasks for rank, local rank and world size, in order of precedence: a launcher
#: inside another's task still sees the other's variables.
_TASK_VARIABLES: tuple[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    # name, rank, local rank, world size, tasks on the node
    (
        "openmpi",
        ("OMPI_COMM_WORLD_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    (
        "mvapich",
        ("MV2_COMM_WORLD_RANK",),
        ("MV2_COMM_WORLD_LOCAL_RANK",),
        ("MV2_COMM_WORLD_SIZE",),
        ("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    ("jsrun", ("JSM_NAMESPACE_RANK",), ("JSM_NAMESPACE_LOCAL_RANK",), ("JSM_NAMESPACE_SIZE",), ()),
    ("flux", ("FLUX_TASK_RANK",), ("FLUX_TASK_LOCAL_ID",), ("FLUX_JOB_SIZE",), ()),
    ("pmi", ("PMI_RANK",), ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"), ("PMI_SIZE",), ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")),
    ("slurm", ("SLURM_PROCID",), ("SLURM_LOCALID",), ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"), ()),
    ("pmix", ("PMIX_RANK",), (), (), ()),
)

_JOBS = (
    ("slurm", ("SLURM_JOB_ID", "SLURM_JOBID")),
    ("flux", ("FLUX_JOB_ID",)),
    ("lsf", ("LSB_JOBID",)),
    ("pbs", ("PBS_JOBID",)),
    ("kubernetes", ("KUBERNETES_SERVICE_HOST",)),
    ("ray", ("RAY_JOB_ID",)),
)

_NODE_LISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "LSB_HOSTS")


@fact(of_this_host=False)
def read_scheduler(world: World) -> Scheduler:
    """Read the variables of schedulers and MPI launchers."""
    found = scheduler_of(world.environ, now_s=world.now())
    if found is None:
        raise NotApplicable("no scheduler or MPI launcher set variables here")
    return found


def scheduler_of(environ: Mapping[str, str], *, now_s: float | None = None) -> Scheduler | None:
    """Return the scheduler or MPI launcher that set these variables, or None.

    :param now_s: seconds since 1970
    """
    job = next(((name, value) for name, keys in _JOBS if (value := _first(environ, keys))), None)
    numbered_by, mapping = _numbering(environ)
    if job is None and numbered_by is None:
        if not _pod_variables(environ):
            return None
        job = ("kubernetes", "")
    name, job_id = (numbered_by or "", None) if job is None else job
    found = Scheduler(
        name,
        numbered_by,
        "task" if numbered_by else "pod" if name == "kubernetes" else "batch",
        job_id if name != "kubernetes" else None,
        rank=_number(environ, (mapping.get("RANK", ""),)),
        local_rank=_number(environ, (mapping.get("LOCAL_RANK", ""),)),
        tasks=_number(environ, (mapping.get("WORLD_SIZE", ""),)),
        tasks_on_node=_number(environ, (mapping.get("LOCAL_WORLD_SIZE", ""),)),
        node_name=environ.get("SLURMD_NODENAME") or None,
        node_list=_first(environ, _NODE_LISTS),
        now_s=now_s,
        mapping={key: value for key, value in mapping.items() if key != "LOCAL_WORLD_SIZE"},
    )
    if name == "slurm":
        return _with_slurm(found, environ)
    if name == "kubernetes" and numbered_by is None:
        return found._replace(
            nodes=_number(environ, ("PET_NNODES",)),
            node_rank=_number(environ, ("PET_NODE_RANK", "RANK")),
            nproc_text=environ.get("PET_NPROC_PER_NODE") or None,
        )
    if name == "flux":
        return found._replace(nodes=_number(environ, ("FLUX_JOB_NNODES",)))
    if name == "pbs":
        return found._replace(nodes=_number(environ, ("PBS_NUM_NODES",)))
    return found


def _pod_variables(environ: Mapping[str, str]) -> bool:
    """Return whether an operator numbers the pods, even if the cluster's own variables are hidden."""
    return bool(environ.get("PET_NNODES") and environ.get("RANK")) and not environ.get("LOCAL_RANK")


def _with_slurm(found: Scheduler, environ: Mapping[str, str]) -> Scheduler:
    step = _first(environ, ("SLURM_STEP_ID", "SLURM_STEPID"))
    node_rank = _number(environ, ("SLURM_NODEID",))
    in_step = found.numbered_by == "slurm"
    of_step = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE") if in_step else ("SLURM_TASKS_PER_NODE",)
    text = _first(environ, of_step)
    on_node = tasks_on_node(text, node_rank or 0) if text else None
    if found.numbered_by in (None, "slurm"):
        found = found._replace(
            tasks=found.tasks if in_step else _number(environ, ("SLURM_NTASKS", "SLURM_NPROCS")),
            tasks_on_node=on_node if on_node is not None else _number(environ, ("SLURM_NTASKS_PER_NODE",)),
        )
    nodes = ("SLURM_STEP_NUM_NODES",) if in_step else ()
    return found._replace(
        step_id=step,
        nodes=_number(environ, (*nodes, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")),
        node_rank=node_rank,
        gpus_on_node=_number(environ, ("SLURM_GPUS_ON_NODE",)),
        gpus_per_task=_gpus(environ.get("SLURM_GPUS_PER_TASK", "")),
        cpus_per_task=_number(environ, ("SLURM_CPUS_PER_TASK",)),
        end_time_s=_number(environ, ("SLURM_JOB_END_TIME",)),
    )


def _numbering(environ: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Return the program that numbered this task, and its variables."""
    for name, *variables in _TASK_VARIABLES:
        if not _first(environ, variables[0]) or (name == "slurm" and not _is_slurm_step(environ)):
            continue
        if name in ("pmi", "flux") and _is_slurm_step(environ) and _same_numbers(environ, variables[0], variables[2]):
            continue  # srun --mpi=pmi2 sets them in addition to its own, which hold more
        mapping = {}
        for torch_name, names in zip(("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"), variables, strict=True):
            used = next((variable for variable in names if environ.get(variable)), None)
            if used is not None:
                mapping[torch_name] = used
        return name, mapping
    return None, {}


def _is_slurm_step(environ: Mapping[str, str]) -> bool:
    """Return whether srun started this task.

    The body of a job script has SLURM_PROCID=0, but no step (sbatch(1), 23.11).
    """
    step = _first(environ, ("SLURM_STEP_ID", "SLURM_STEPID"))
    if step is None or not environ.get("SLURM_PROCID"):
        return False
    return not (step.isdecimal() and int(step[:20]) >= _FIRST_SPECIAL_STEP)


def _same_numbers(environ: Mapping[str, str], rank: tuple[str, ...], size: tuple[str, ...]) -> bool:
    return (_number(environ, rank), _number(environ, size)) == (
        _number(environ, ("SLURM_PROCID",)),
        _number(environ, ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    )


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the first of these variables that is set and not empty."""
    return next((value for name in names if (value := environ.get(name))), None)


def _number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Return the first of these variables with a whole number; no real count has more than 18 digits."""
    for name in names:
        text = environ.get(name, "")
        if text.isascii() and text.isdigit() and len(text) <= 18:
            return int(text)
    return None


def _gpus(text: str) -> int | None:
    """Return ``4``, ``a100:4`` or ``a100:2,v100:1`` as a number of GPUs."""
    counts = [part.rpartition(":")[2] for part in text.split(",")]
    if not all(count.isascii() and count.isdigit() and len(count) < 9 for count in counts):
        return None
    return sum(map(int, counts))


def tasks_on_node(text: str, node_rank: int) -> int | None:
    """Return the tasks on one node by Slurm's short form: ``tasks_on_node("8(x2),4", 2) == 4``; None if not given."""
    position = 0
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part)
        if match is None:
            return None
        position += int(match[2] or 1)
        if node_rank < position:
            return int(match[1])
    return None


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return the hosts of a list in Slurm's form: ``gpu[01-02,07],login1`` is gpu01, gpu02, gpu07 and login1.

    :raises ValueError: brackets that do not match, a range in reverse order, or more than MAX_HOSTS hosts
    """
    names: list[str] = []
    for item in _items(text):
        parts = re.split(r"\[([^\[\]]*)\]", item)
        if any("[" in part or "]" in part for part in parts[::2]):
            raise ValueError(f"the brackets of {_short(item)!r} do not match")
        hosts = [""]
        for index, part in enumerate(parts):
            if index % 2 == 0:
                hosts = [host + part for host in hosts]
                continue
            numbers = list(_ranges(part, MAX_HOSTS // max(1, len(hosts))))
            hosts = [host + number for host in hosts for number in numbers]
        if len(names) + len(hosts) > MAX_HOSTS:
            raise ValueError(f"{_short(text)!r} names more than {MAX_HOSTS} hosts")
        names.extend(hosts)
    return tuple(names)


def _items(text: str) -> Iterator[str]:
    """Yield the parts between commas outside brackets."""
    for item in re.split(r",(?![^\[\]]*\])", text):
        if item.strip():
            yield item.strip()


def _ranges(text: str, most: int) -> Iterator[str]:
    """Yield ``01-03,7`` as 01, 02, 03 and 7."""
    count = 0
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip())
        if match is None:
            raise ValueError(f"{_short(part)!r} is no number and no range of numbers")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(f"the range {_short(part)!r} runs backwards")
        count += high - low + 1
        if count > most:
            raise ValueError(f"[{_short(text)}] names more than {MAX_HOSTS} hosts")
        for number in range(low, high + 1):
            yield str(number).zfill(len(match[1]))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def first_host(node_list: str | None) -> str | None:
    """Return the first host of a list, or None if there is none or the list is malformed."""
    if not node_list:
        return None
    try:
        hosts = expand_hostlist(",".join(node_list.split()))
    except ValueError:
        return None
    return hosts[0] if hosts else None


#: Programs that start one process per task, with the kind of their variables. mpirun and mpiexec have the same names in
#: Open MPI and MPICH, so both kinds of variables are read.
_STARTERS = {
    "srun": "slurm", "ibrun": "mpi", "flux": "flux", "jsrun": "jsrun", "mpirun_rsh": "mvapich",
    **dict.fromkeys(("mpirun", "mpiexec"), "mpi"),
    **dict.fromkeys(("mpirun.openmpi", "mpiexec.openmpi", "orterun", "prterun", "prun"), "openmpi"),
    **dict.fromkeys(("mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra", "aprun"), "pmi"),
}  # fmt: skip
TASK_STARTERS = frozenset(_STARTERS)


class SchedulerStep(NamedTuple):
    """How often, and on how many nodes, a command is started by the program before it. None: unknown."""

    #: ``srun``, ``mpirun`` …; None: a shell starts it, of a file or one that it reaches through ssh
    starter: str | None = None
    nodes: int | None = None
    tasks: int | None = None
    tasks_on_node: int | None = None
    #: it uses some of the job's nodes, so that other lines may start the rest
    partial: bool = False

    def counted(self) -> SchedulerStep:
        """Return the step with the counts that follow from the others."""
        if self.tasks == 1:
            return self._replace(nodes=1, tasks_on_node=1)
        if self.tasks is None and self.tasks_on_node and self.nodes:
            return self._replace(tasks=self.tasks_on_node * self.nodes)
        if self.tasks_on_node is None and self.tasks and self.nodes:
            return self._replace(tasks_on_node=-(-self.tasks // self.nodes))
        return self


def task_starter(command: LaunchCommand) -> str | None:
    """Return the innermost program that starts one process per task (``srun``, ``mpirun``), or None."""
    return next((program for program in reversed(command.wrappers) if program in _STARTERS), None)


def started_by(program: str) -> Scheduler:
    """Return what a task of ``srun``, ``mpirun`` and similar will see, as far as it is known before."""
    kind = _STARTERS[program]
    if kind == "mpi":
        return Scheduler(
            "openmpi",
            "openmpi",
            mapping={
                "RANK": "{OMPI_COMM_WORLD_RANK:-$PMI_RANK}",
                "LOCAL_RANK": "{OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}",
                "WORLD_SIZE": "{OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}",
            },
        )
    if kind == "slurm":
        mapping = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}
        return Scheduler("slurm", "slurm", mapping=mapping)
    row = next(row for row in _TASK_VARIABLES if row[0] == kind)
    return Scheduler(kind, kind, mapping={"RANK": row[1][0], "LOCAL_RANK": row[2][0], "WORLD_SIZE": row[3][0]})


def mapping_lines(scheduler: Scheduler, run: str = "python train.py") -> tuple[str, ...]:
    """Return the lines that pass a task's number to torch: a comment, then the command.

    They must run in each task: the body of a job script would use the number 0 for all tasks. For Slurm and MPI the
    second line starts the tasks itself, so it works in a job script. Unknown values (the host of task 0 under Flux or
    jsrun) are in angle brackets.

    :param run: the command of each task, as a shell text without single quotes
    """
    kind = scheduler.numbered_by
    exports = " ".join(f"{name}=${value}" for name, value in scheduler.mapping.items())
    if kind is None or "RANK" not in scheduler.mapping:
        return ()
    why = "# in each task: exported once in the job script, these would be 0 for all tasks"
    if kind == "slurm":
        address = FIRST_HOST_OF_SLURM
        return (why, f"srun bash -c 'export {exports} MASTER_ADDR={address} MASTER_PORT={_PORT_OF_JOB}; exec {run}'")
    if kind in ("openmpi", "pmi", "mvapich"):
        # env, because each MPI has another option for it, and Open MPI does not pass exported variables
        count = f" -n {scheduler.tasks}" if scheduler.tasks else ""
        meet = 'env MASTER_ADDR="$(hostname)" MASTER_PORT=29500'
        return (why, f"mpirun{count} {meet} bash -c 'export {exports}; exec {run}'")
    return (why, f"export {exports} MASTER_ADDR=<the host of task 0> MASTER_PORT=29500; exec {run}")
