"""The launch command and what it runs under: two launchers in a row, hang-ups, restarts, GPUs that can't be counted.

It also writes the launch line for this machine, and reads from the script what that arranges by itself; the
variables that the ranks get are the matter of ``rendezvous.py`` and ``scheduling.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.redaction import mask_arguments
from distcheck.core.registry import fact, probe
from distcheck.core.world import World
from distcheck.launch.misplaced import misplaced_options
from distcheck.launch.model import ELASTIC_LAUNCHERS, NODE_LAUNCHERS, Launch, LaunchCommand
from distcheck.launch.schedulers import Scheduler, SchedulerStep, task_starter
from distcheck.rules import shared_fixes
from distcheck.rules.double_launch import start_once, tasks_start_launchers

from .devices import Devices
from .gpus import Driver, Gpus
from .platform import Platform
from .processes import Ancestry

#: Programs behind which no hang-up of this terminal comes any more.
_NO_HANGUP = frozenset(
    {
        "setsid", "tmux", "screen", "systemd-run", "sbatch", "salloc", "ssh", "pdsh", "clush", "kubectl", "oc",
        "docker", "podman", "nvidia-docker",
    }
)  # fmt: skip
_HOST_FILES = ("hostfile", "machinefile")
#: Bytes of a script that are read; longer ones are generated.
_LONGEST_SCRIPT = 1 << 20
#: Longest script arguments that a proposed line repeats, in characters.
_LONGEST_ARGUMENTS = 400


#: The rendezvous in a pod whose operator sets torch's variables only.
_OF_POD = ' --nnodes="$WORLD_SIZE" --node-rank="$RANK" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'
NO_SCHEDULER = Unavailable("no scheduler was queried")


class Script(NamedTuple):
    """What a training script arranges by itself, so that a plain start of it can be right. None: no sign of it."""

    path: str
    #: how it starts its ranks or sets their variables, as the words were found
    arranges: str | None = None
    #: variables of schedulers that it reads: ``SLURM_PROCID`` …
    scheduler_variables: tuple[str, ...] = ()


_NAME = rb"""['"](?:RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR)['"]"""
_FRAMEWORKS = rb"lightning|pytorch_lightning|accelerate|transformers|ignite|ray|horovod|composer"
#: What a script contains, and what that means. Compiled on first use, since few runs need it.
_ARRANGES = (
    (rb"\bmp\.spawn\(|multiprocessing\.spawn\b|\bnotebook_launcher\(|\belastic_launch\(", "starts its ranks itself"),
    (rb"environ(?:\.setdefault\(\s*" + _NAME + rb"|\[\s*" + _NAME + rb"\s*\]\s*=[^=])", "sets them itself"),
    (rb"init_method\s*=\s*[fr]?['\"](?:tcp|file)://", "uses its own init_method as the rendezvous"),
    (
        rb"(?:environ\.get|getenv)\(\s*" + _NAME + rb"\s*,|" + _NAME + rb"\s+(?:not\s+)?in\s+os\.environ",
        "does without them in a single process",
    ),
    (rb"(?m)^\s*(?:from|import)\s+(?:" + _FRAMEWORKS + rb")\b", "uses a framework that can do without them"),
)
#: What a script that needs a launcher names itself, or imports from a module of its project.
_DISTRIBUTED = (
    rb"(?i)distribut|init_process_group|\bD?DP\b|fsdp|parallel|\bRANK\b|LOCAL_RANK|WORLD_SIZE|local_rank|deepspeed|megatron"
    rb"|(?m:^\s*from\s+\.)"
)
_SCHEDULER_VARIABLES = (
    rb"\b(SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMI_RANK|MV2_COMM_WORLD_RANK|PMIX_RANK|FLUX_TASK_RANK|JSM_NAMESPACE_RANK)\b"
)


@fact(of_launch=True)
def read_script(world: World, launch: Launch) -> Script:
    """From the first MiB of the script that a planned command names; it is searched for words, and not run."""
    if launch.script is None or launch.command is None or launch.command.module:
        raise Unavailable("no script is named")
    path = launch.script
    try:
        full = path if path.startswith("/") else f"{world.working_folder}/{path}"
        if world.exists(full) and not world.is_file(full):
            raise Unavailable(f"{path} is no ordinary file")
        text = world.read_bytes(full, _LONGEST_SCRIPT)
    except OSError as error:
        raise Unavailable(f"{path} can't be read: {error.strerror}") from error
    arranges = next((what for pattern, what in _ARRANGES if re.search(pattern, text)), None)
    if arranges is None and not re.search(_DISTRIBUTED, text):
        arranges = "names nothing of torch.distributed"
    return Script(path, arranges, tuple(sorted({found.decode() for found in re.findall(_SCHEDULER_VARIABLES, text)})))


# used by other modules


def usable_gpus(devices: Devices | Unavailable, gpus: Gpus | Unavailable) -> int | None:
    """Return the GPUs that this process may use; None: unknown."""
    if isinstance(devices, Devices) and devices.count is not None:
        return devices.count
    return None if isinstance(gpus, Unavailable) else len(gpus.gpus)


def launch_line(launch: Launch, processes: int, scheduler: Scheduler | Unavailable = NO_SCHEDULER) -> Fix:
    """The command that starts the launch's script with so many ranks on each host of the job."""
    import shlex

    command = launch.command
    words = ["-m"] if command is not None and command.module else []
    words.append(launch.script or "train.py")
    arguments = () if command is None else command.script_args
    complete = mask_arguments(arguments) == arguments and sum(map(len, arguments)) < _LONGEST_ARGUMENTS
    script = shlex.join((*words, *(arguments if complete else ())))
    start, where = _start(launch, processes, None if isinstance(scheduler, Unavailable) else scheduler)
    line = f"{start} {script}"
    if complete:
        return Fix("start it with torchrun", command=line, where=where)
    return Fix(f"start it with torchrun, and its own arguments behind: {line}", where=where)


def _start(launch: Launch, processes: int, job: Scheduler | None) -> tuple[str, str]:
    """The launcher with its options, up to the script, and where it is to be written."""
    if job is not None and is_numbered_pod(launch, job):
        # torchrun uses PET_ variables as its defaults, so nothing is set twice
        given = ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
        count = "" if "PET_NPROC_PER_NODE" in launch.variables else f" --nproc-per-node={processes}"
        return f"torchrun{'' if all(name in launch.variables for name in given) else _OF_POD}{count}", "launch-line"
    if job is not None and job.name == "slurm" and (job.nodes or 1) > 1:
        return (
            f"srun {shared_fixes.ONE_TASK_A_NODE} torchrun {shared_fixes.MEET_BY_SLURM} --nproc-per-node={processes}",
            "job-script",
        )
    return f"torchrun --standalone --nproc-per-node={processes}", "launch-line"


def is_numbered_pod(launch: Launch, job: Scheduler) -> bool:
    """RANK and WORLD_SIZE are an operator's numbers of pods, and no launcher has started ranks in this one."""
    if job.name != "kubernetes" or job.numbered_by is not None:
        return False
    variables = launch.variables
    started = "LOCAL_RANK" in variables or "TORCHELASTIC_RUN_ID" in variables
    return "RANK" in variables and "WORLD_SIZE" in variables and not started


def paste(command: LaunchCommand) -> str | None:
    """The command as a line to paste, None where it holds something that must not be shown."""
    from distcheck.launch.command import shell_line

    return shell_line(command) if mask_arguments(command.argv) == command.argv else None


def task_plan(launch: Launch, scheduler: Scheduler | Unavailable) -> SchedulerStep | None:
    """The tasks that start the launcher, None where it is started once, by a person or a job script's body."""
    job = None if isinstance(scheduler, Unavailable) else scheduler
    command = launch.command
    starter = None if command is None else task_starter(command)
    if command is None or starter is None:
        if job is None or job.numbered_by is None or (command is not None and not launch.on_this_host):
            return None
        return SchedulerStep(
            _STARTER_NAMES.get(job.numbered_by, job.numbered_by), job.nodes, job.tasks, job.tasks_on_node
        )
    plan = SchedulerStep(starter, command.nodes, command.tasks, command.tasks_per_node)
    in_body = job is not None and job.name == "slurm" and job.place == "batch"
    if starter == "srun" and in_body and job is not None:
        # srun takes from the job what its own options do not set (srun(1), input environment variables)
        if not command.unknown & {"tasks", "tasks_per_node"} and plan.tasks is None and plan.tasks_on_node is None:
            on_node = job.tasks_on_node if plan.nodes in (None, job.nodes) else None
            plan = plan._replace(tasks=job.tasks, tasks_on_node=on_node)
        if plan.nodes is None and "nodes" not in command.unknown:
            plan = plan._replace(nodes=job.nodes)
    if starter.startswith(("mpirun", "mpiexec", "orterun")) and plan.nodes is None and "nodes" not in command.unknown:
        hosts_named = any(name in word for word in command.argv for name in _HOST_FILES)
        plan = plan._replace(nodes=None if hosts_named else job.nodes if in_body and job is not None else 1)
    return plan.counted()


_STARTER_NAMES = {"slurm": "srun", "openmpi": "mpirun", "pmi": "mpiexec", "mvapich": "mpirun_rsh", "flux": "flux run"}


# probes


@probe(rules.DC106)
def ranks_are_started_once(launch: Launch, scheduler: Scheduler | Unavailable) -> Iterator[Finding]:
    """A launcher that starts all ranks of a node is itself started once on it."""
    plan = task_plan(launch, scheduler)
    if plan is None or not launch.launched or launch.launcher not in NODE_LAUNCHERS or (plan.tasks_on_node or 1) < 2:
        return
    command = launch.command
    several = launch.ranks_here is not None and launch.ranks_here > 1
    if not several and launch.nproc_text not in ("gpu", "auto"):
        return  # one rank for each agent: the tasks are the ranks
    if launch.nnodes_max is not None and launch.nnodes_max == plan.tasks:
        return  # every task counts as a node of its own, as for two agents that share a node's GPUs
    shares = command is not None and command.gpus_per_task is not None
    shares = shares or (isinstance(scheduler, Scheduler) and scheduler.gpus_per_task is not None)
    if shares and (launch.nnodes_max is None or launch.nnodes_max > 1):
        return
    yield tasks_start_launchers(
        plan.starter or "",
        launch.launcher,
        tasks_on_node=plan.tasks_on_node,
        tasks=plan.tasks,
        nodes=plan.nodes,
        each=launch.ranks_here,
        where=Where(object=plan.starter),
        fix=_start_once(launch, plan),
    )


def _start_once(launch: Launch, plan: SchedulerStep) -> Fix:
    by_mpi_here = plan.starter != "srun" and plan.nodes == 1 and launch.on_this_host
    if by_mpi_here and launch.launcher in ELASTIC_LAUNCHERS and launch.ranks_here and launch.stage == "planned":
        alone = launch_line(launch, launch.ranks_here)
        return alone._replace(text=f"omit {plan.starter} on a single node; {alone.text}")
    return start_once(launch.launcher or "", plan.starter or "")


@probe(rules.DC803)
def options_stand_before_the_script(launch: Launch) -> Iterator[Finding]:
    """The options of a launcher come before the script: later ones belong to the script."""
    command = launch.command
    if command is None or command.script is None:
        return
    arguments = command.script_args
    found = misplaced_options(command, arguments)
    if not found:
        return
    moved = [index for group in found for index in group]
    shown = " ".join(arguments[index] for index in moved)
    names = [arguments[group[0]].partition("=")[0] for group in found]
    one = len(names) == 1
    first = len(command.argv) - len(arguments)
    before = first - 1 - command.module
    rest = [word for index, word in enumerate(arguments) if index not in moved]
    line = (*command.argv[:before], *(arguments[index] for index in moved), *command.argv[before:first], *rest)
    known = command.argv[first - 1] == command.script
    yield rules.DC803.found(
        f"{' and '.join(names)} stand{'s' * one} after {command.script}, which gets {'it' if one else 'them'} instead "
        f"of {command.launcher}",
        where=Where(object=names[0]),
        evidence={"options": names, "script": command.script, "launcher": command.launcher},
        fix=Fix(
            f"write {shown} before {'-m ' if command.module else ''}{command.script}",
            command=paste(command._replace(argv=line, script_args=tuple(rest))) if known else None,
            where="launch-line",
        ),
    )


@probe(rules.DC117)
def launcher_survives_a_hangup(launch: Launch, ancestry: Ancestry | Unavailable) -> Iterator[Finding]:
    """Report nohup in front of a launcher that disables it."""
    command = launch.command
    if not launch.launched or not launch.on_this_host or launch.launcher not in ELASTIC_LAUNCHERS:
        return
    if isinstance(ancestry, Ancestry) and ancestry.keepers:
        return
    if command is not None:
        wrappers = frozenset(command.wrappers)
        signals = command.signals_to_handle
        if wrappers & _NO_HANGUP or task_starter(command) is not None:
            return
        nohup = "nohup" in wrappers or _under_nohup(ancestry)
    else:
        signals = launch.variables.get("TORCHELASTIC_SIGNALS_TO_HANDLE")
        nohup = _under_nohup(ancestry) and isinstance(ancestry, Ancestry) and ancestry.under_torchrun
    if not nohup or (signals is not None and "SIGHUP" not in signals):
        return
    pasted = paste(command) if command is not None else None
    line = f"setsid {pasted}" if pasted is not None else None
    by_line = f": {line}" if line else ", with setsid"
    yield rules.DC117.found(
        f"{launch.launcher} runs under nohup, but installs a handler of its own for SIGHUP: "
        "it ends all ranks when the terminal closes",
        where=Where(object="nohup"),
        evidence={"launcher": launch.launcher},
        fix=Fix(
            f"start it in tmux or screen, or in a session without terminal{by_line}",
            command=line,
            where="launch-line",
        ),
    )


def _under_nohup(ancestry: Ancestry | Unavailable) -> bool:
    """What started this process was put under nohup, and has a terminal that can close."""
    return isinstance(ancestry, Ancestry) and ancestry.under_nohup and ancestry.from_terminal


@probe(rules.DC118)
def first_error_stays_visible(launch: Launch) -> Iterator[Finding]:
    """Automatic restarts are known of: the first error stands before the last one in the log."""
    if not launch.launched:
        return
    count = launch.variables.get("TORCHELASTIC_RESTART_COUNT", "") if launch.stage == "rank" else ""
    restarted = int(count) if count.isdecimal() and len(count) < 10 else 0
    limit = launch.max_restarts or 0
    if restarted > 0:
        yield rules.DC118.found(
            f"the ranks were restarted {restarted} time{'s' * (restarted != 1)} already: "
            "the first error stands in the log of an earlier attempt",
            where=Where(variable="TORCHELASTIC_RESTART_COUNT"),
            evidence={"restarts": restarted, "max_restarts": launch.max_restarts},
            fix=Fix("find the first error in the log of attempt 0; later ones follow from it", where="job-script"),
        )
    elif limit > 0:
        yield rules.DC118.found(
            f"up to {limit} restart{'s' * (limit != 1)} are allowed: the log will end with the last attempt's error, "
            "which is often not the first",
            where=Where(object="--max-restarts"),
            evidence={"restarts": 0, "max_restarts": limit},
            fix=shared_fixes.NO_RESTARTS,
        )


@probe(rules.DC121)
def processes_can_be_counted_by_gpus(
    launch: Launch,
    devices: Devices | Unavailable,
    gpus: Gpus | Unavailable,
    driver: Driver | Unavailable,
    platform: Platform | Unavailable,
) -> Iterator[Finding]:
    """Where a process is wanted for each GPU, there is at least one that can be used."""
    if launch.launched and launch.nproc_text == "xpu" and isinstance(gpus, Gpus) and gpus.vendor == "nvidia":
        yield rules.DC121.found(
            "--nproc-per-node=xpu counts GPUs of Intel, and those of this host are NVIDIA's",
            where=Where(object="--nproc-per-node"),
            evidence={"nproc_per_node": "xpu", "vendor": gpus.vendor},
            fix=Fix("write --nproc-per-node=gpu, or a number", command="--nproc-per-node=gpu", where="launch-line"),
        )
    if not launch.launched or launch.nproc_text not in ("gpu", "auto"):
        return
    count = usable_gpus(devices, gpus)
    if count is None:
        # torch for macOS has no CUDA, whatever is in the machine
        never = isinstance(platform, Platform) and platform.system == "darwin"
        if not never and (isinstance(driver, Unavailable) or not driver.nothing_there):
            raise Unavailable(gpus.why if isinstance(gpus, Unavailable) else "the GPUs that are usable are not known")
        count = 0
    if count:
        return
    masks = {} if isinstance(devices, Unavailable) else dict(devices.masks)
    evidence: Mapping[str, object] = {"nproc_per_node": launch.nproc_text, "usable_gpus": 0, "masks": masks}
    seen = f" ({', '.join(f'{name}={value}' for name, value in masks.items())})" if masks else ""
    if launch.nproc_text == "gpu":
        yield rules.DC121.found(
            f"--nproc-per-node=gpu counts GPUs, and this process can use none{seen}",
            where=Where(object="--nproc-per-node"),
            evidence=evidence,
            fix=shared_fixes.NUMBER_OF_PROCESSES,
        )
    else:
        wanted = launch.backend is not None and "nccl" in launch.backend
        yield rules.DC121.found(
            f"--nproc-per-node=auto finds no GPU that this process can use{seen}: it starts one for each CPU core",
            severity=Severity.ERROR if wanted else Severity.INFO,
            where=Where(object="--nproc-per-node"),
            evidence=evidence,
            fix=shared_fixes.NUMBER_OF_PROCESSES,
        )
