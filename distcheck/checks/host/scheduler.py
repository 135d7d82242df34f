"""Compares the scheduler's job with what the launch makes of it: numbered tasks, pods, counts, time.

The variables themselves are the matter of ``rendezvous.py``, two launchers in a row that of ``launching.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.redaction import mask_arguments
from distcheck.core.registry import probe
from distcheck.core.wording import listed
from distcheck.launch.endpoint import split_endpoint
from distcheck.launch.model import LOOPBACK_NAMES, NODE_LAUNCHERS, RENDEZVOUS_VARIABLES, Launch
from distcheck.launch.schedulers import Scheduler, mapping_lines, started_by, task_starter
from distcheck.rules import shared_fixes
from distcheck.rules.double_launch import agents_for_one_node

from .devices import Devices
from .gpus import Gpus
from .launcher import Script, is_numbered_pod, launch_line, task_plan, usable_gpus

#: Below so much time a job is hardly worth its start: as long as NCCL waits for a lost rank before it gives up
#: (10 minutes, torch 2.13), so that not even a failure would be reported in time.
SHORT_TIME_S = 600


def unmapped_tasks(launch: Launch, scheduler: Scheduler | Unavailable) -> Scheduler | None:
    """Return the launcher that numbers this process among several tasks, if no number reaches torch; else None."""
    if all(name in launch.variables for name in ("RANK", "WORLD_SIZE")) or launch.launcher in NODE_LAUNCHERS:
        return None
    job = None if isinstance(scheduler, Unavailable) else scheduler
    if launch.stage == "rank":
        return job if job is not None and _several(job) else None
    command = launch.command
    if launch.stage != "planned" or command is None or command.launcher != "python":
        return None
    starter = task_starter(command)
    if starter is not None:
        return None if command.tasks == 1 else started_by(starter)
    return job if job is not None and _several(job) and launch.on_this_host else None


def _several(job: Scheduler) -> bool:
    """Return whether it numbers several tasks: a shell in a step of its own is no rank."""
    return job.numbered_by is not None and job.tasks != 1


def pods_for_ranks(launch: Launch, scheduler: Scheduler | Unavailable, usable: int | None) -> int | None:
    """Processes that belong into this pod where an operator's RANK and WORLD_SIZE number pods, else None."""
    if (
        isinstance(scheduler, Unavailable)
        or not is_numbered_pod(launch, scheduler)
        or launch.launcher in NODE_LAUNCHERS
    ):
        return None
    text = scheduler.nproc_text or ""
    wanted = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else usable
    return wanted if wanted is not None and wanted > 1 else None


@probe(rules.DC105)
def tasks_get_ranks(
    launch: Launch, scheduler: Scheduler | Unavailable, script: Script | Unavailable
) -> Iterator[Finding]:
    """Where a scheduler numbers the tasks, something maps those numbers to torch's variables."""
    tasks = unmapped_tasks(launch, scheduler)
    if tasks is None:
        return
    plain = None if isinstance(script, Unavailable) else script
    own = tasks.mapping.get("RANK", "")
    if plain is not None and any(name in own for name in plain.scheduler_variables):
        return  # the script maps them itself
    absent = [name for name in RENDEZVOUS_VARIABLES if name not in launch.variables]
    arranged = f"; {plain.path} {plain.arranges}, though" if plain is not None and plain.arranges else ""
    rank = own if "{" not in own else "OMPI_COMM_WORLD_RANK or PMI_RANK"
    starter = task_starter(launch.command) if launch.command is not None else None
    yield rules.DC105.found(
        f"{starter or tasks.numbered_by} numbers the tasks in {rank}, but torch reads {listed(absent)}, which is "
        f"not set{arranged}",
        severity=Severity.INFO if arranged else None,
        where=Where(variable="RANK"),
        evidence={
            "numbered_by": tasks.numbered_by,
            "task_rank": tasks.rank,
            "tasks": tasks.tasks,
            "absent": absent,
        },
        fix=_map_tasks(launch, tasks),
    )


def _map_tasks(launch: Launch, tasks: Scheduler) -> Fix:
    """The command with its tasks' numbers handed on; it is given only where it can be typed as it stands."""
    import shlex

    argv = () if launch.command is None else launch.command.argv
    at = next((place for place, word in enumerate(argv) if _is_python(word)), None)
    before: tuple[str, ...] = ()
    words: tuple[str, ...] = ("python", "train.py")
    if at is not None:
        before, words = argv[:at], argv[at:]
    shown = mask_arguments(argv) == argv and not any("'" in word for word in words)
    if not shown or {"bash", "sh", "zsh"} & {word.rpartition("/")[2] for word in before}:
        before, words = (), ("python", "train.py")
    lines = mapping_lines(tasks, shlex.join(words))
    if not lines:
        return Fix("set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in each task", where="each-task")
    line = lines[-1]
    if before and line.startswith(("srun ", "mpirun ")):
        # the options that were given to srun or mpirun stay
        line = f"{shlex.join(before)} {line.partition(' ')[2]}"
    return shared_fixes.number_the_tasks(line)


def _is_python(word: str) -> bool:
    return word.rpartition("/")[2].startswith("python") or word.endswith(".py")


@probe(rules.DC107)
def pods_are_not_ranks(
    launch: Launch,
    scheduler: Scheduler | Unavailable,
    devices: Devices | Unavailable,
    gpus: Gpus | Unavailable,
    script: Script | Unavailable,
) -> Iterator[Finding]:
    """Where an operator numbers pods, a launcher starts the ranks of each."""
    plain = launch.stage == "planned" and launch.command is not None and launch.command.launcher == "python"
    if not plain and launch.stage != "rank":
        return
    processes = pods_for_ranks(launch, scheduler, usable_gpus(devices, gpus))
    if processes is None:
        return
    arranged = isinstance(script, Script) and script.arranges == "starts its ranks itself"
    replicas = launch.variables["WORLD_SIZE"]
    start = launch_line(launch, processes, scheduler)
    yield rules.DC107.found(
        f"RANK={launch.variables['RANK']} and WORLD_SIZE={replicas} number the pods of this job, but {processes} "
        "processes belong into each of them: a plain start uses one GPU a pod",
        severity=Severity.INFO if arranged else None,
        where=Where(variable="WORLD_SIZE"),
        evidence={"rank": launch.variables["RANK"], "world_size": replicas, "processes_per_pod": processes},
        fix=start._replace(text=f"let torchrun start the ranks of each pod; {start.text}"),
    )


@probe(rules.DC108)
def task_count_fits_the_launch(launch: Launch, scheduler: Scheduler | Unavailable) -> Iterator[Finding]:
    """The scheduler starts as many tasks as the launch has agents or ranks."""
    plan = task_plan(launch, scheduler)
    if not launch.launched or plan is None:
        return
    command = launch.command
    if command is not None and plan.starter == "srun" and plan.tasks is None and plan.tasks_on_node is None:
        if command.cpus_per_task is not None and not command.unknown & {"tasks", "tasks_per_node"}:
            yield rules.DC108.found(
                f"srun gives {command.cpus_per_task} cores to each task, but no option sets the number of tasks: "
                "it starts as many as fit",
                where=Where(object="srun"),
                evidence={"cpus_per_task": command.cpus_per_task},
                fix=Fix("set it: srun --ntasks-per-node=1 for torchrun, or one task for each GPU", where="launch-line"),
            )
        return
    if plan.tasks is None:
        return
    if launch.launcher in NODE_LAUNCHERS:
        yield from _agents_fit(launch, plan.starter or "", plan.tasks, plan.tasks_on_node)
    elif (
        launch.stage == "rank" and launch.world_size is not None and plan.tasks > 1 and launch.world_size != plan.tasks
    ):
        yield rules.DC108.found(
            f"{plan.starter} runs {plan.tasks} tasks, but WORLD_SIZE is {launch.world_size}",
            where=Where(variable="WORLD_SIZE"),
            evidence={"tasks": plan.tasks, "world_size": launch.world_size},
            fix=Fix(
                f"start {launch.world_size} tasks, or set WORLD_SIZE from the scheduler's count in each task"
                + (": export WORLD_SIZE=$SLURM_NTASKS" if plan.starter == "srun" else ""),
                where="job-script",
            ),
        )


def _agents_fit(launch: Launch, starter: str, tasks: int, on_node: int | None) -> Iterator[Finding]:
    """Each task starts an agent; torchrun must expect as many nodes as there are agents."""
    low, high = launch.nnodes, launch.nnodes_max
    if low is None or high is None or low <= tasks <= high or launch.launcher == "deepspeed":
        return
    if (on_node or 1) > 1:
        return  # reported by DC106, where the ranks of a node are started twice
    if launch.command is not None and launch.command.standalone:
        return  # several jobs side by side, as the launch states
    agents = f"{starter} starts {tasks} task{'s' * (tasks != 1)}"
    if high == 1:
        message = f"{agents}, but {launch.launcher} is set to one node: {_alone(launch, tasks)}"
    else:
        nodes = str(low) if low == high else f"{low} to {high}"
        message = f"{agents}, but {launch.launcher} expects {nodes} nodes"
    slurm = starter == "srun"
    yield rules.DC108.found(
        message,
        # seen from a rank, these may be several jobs on purpose
        severity=Severity.INFO if high == 1 and launch.stage == "rank" else None,
        where=Where(object=starter),
        evidence={"starter": starter, "tasks": tasks, "nnodes_min": low, "nnodes_max": high},
        fix=Fix(
            f"give torchrun the number of nodes and a rendezvous: {shared_fixes.MEET_BY_SLURM}"
            if slurm
            else f"start as many tasks as there are nodes, and set --nnodes={tasks}",
            where="job-script" if slurm else "launch-line",
        ),
    )


def _alone(launch: Launch, agents: int) -> str:
    """Return what agents do that each expect one node, as a clause."""
    host = split_endpoint(launch.rdzv_endpoint)[0] if launch.rdzv_endpoint else launch.master_addr
    # the ranks of an agent have its own host's address
    if launch.stage == "rank" or launch.launcher == "accelerate" or not host or host in LOOPBACK_NAMES:
        host = None
    return agents_for_one_node(agents, launch.rdzv_backend, host)


@probe(rules.DC125)
def time_is_left(launch: Launch, scheduler: Scheduler) -> Iterator[Finding]:
    """The job's time limit leaves time for a run."""
    left_s = scheduler.left_s
    # a time in the past is left over from a job that has ended
    if left_s is None or left_s > SHORT_TIME_S or left_s < 0 or not launch.on_this_host:
        return
    yield rules.DC125.found(
        f"the scheduler ends this job in {int(left_s // 60)} min {int(left_s % 60)} s",
        severity=None if launch.launched else Severity.INFO,
        where=Where(variable="SLURM_JOB_END_TIME" if scheduler.name == "slurm" else None),
        evidence={"left_s": round(left_s), "job_id": scheduler.job_id},
        fix=shared_fixes.MORE_TIME,
    )
