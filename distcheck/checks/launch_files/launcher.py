"""How a launch line starts its ranks: nested launchers, hang-ups, restarts, and tasks that do not fit the launcher.

``rendezvous.py`` and ``ports.py`` check the rendezvous, ``node_ranks.py`` the numbers of nodes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity, Unavailable
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.core.wording import counted, listed
from distcheck.launch.misplaced import misplaced_options
from distcheck.launch.model import ELASTIC_LAUNCHERS, NODE_LAUNCHERS, LaunchCommand
from distcheck.launch.schedulers import SchedulerStep
from distcheck.rules import shared_fixes
from distcheck.rules.double_launch import start_once, tasks_start_launchers
from distcheck.rules.shared_fixes import MEET_BY_SLURM, ONE_TASK_A_NODE

from .context import (
    CONTAINER_PROGRAMS,
    REMOTE_SHELLS,
    bears_on_nodes,
    edit_word,
    expected_nodes,
    is_complete,
    is_remote,
    job_nodes,
    launch_lines,
    location_of,
    may_be_started_by_variable,
    only_variable,
    stays_outside,
    step_of,
    with_variables,
    worst_per_location,
)
from .counts import is_distributed
from .model import (
    AZURE,
    TORCHRUN_LAUNCHERS,
    Allocation,
    LaunchFile,
    LaunchFiles,
    LaunchSite,
    Nodes,
    Scalar,
    Word,
    known,
)
from .paths import the_one
from .rendezvous import agents_alone
from .scripts import Started

#: Kinds of files without a terminal that could close.
_WITHOUT_TERMINAL = frozenset({"slurm", "pod", "dockerfile", "workflow"})
#: Programs that shield a command from the hang-up of the terminal.
_NO_HANGUP = frozenset(
    {
        "setsid", "tmux", "screen", "systemd-run", "sbatch", "salloc", "docker", "podman", "nvidia-docker", "kubectl",
        "oc", *REMOTE_SHELLS,
    }
)  # fmt: skip
#: Slurm's variables for the tasks and GPUs of a node, and the fields of the directives.
_SLURM_COUNTS = {
    "SLURM_NTASKS_PER_NODE": "tasks_per_node",
    "SLURM_TASKS_PER_NODE": "tasks_per_node",
    "SLURM_GPUS_PER_NODE": "gpus_per_node",
    "SLURM_GPUS_ON_NODE": "gpus_per_node",
}
#: Script arguments that give each task its own part: a shard, a seed, an output.
_OWN_PART = lazy(r"SLURM_(?:PROCID|NODEID|LOCALID|ARRAY_TASK_ID)|PMI_RANK|OMPI_COMM_WORLD_RANK")
#: Options of srun that set the number of tasks, directly or not.
_SETS_TASKS = ("--ntasks", "--multi-prog", "--gpus-per-task", "--tres-per-task", "--distribution")
#: What gives deepspeed hosts, or starts it on each of them.
_HOSTS_OF_DEEPSPEED = lazy(r"(?i)host_?file|--(?:include|launcher|no_ssh|force_multi)\b|DLTS_")
#: deepspeed accepts a regular file only (0.19, launcher/runner.py, fetch_hostfile).
_NO_HOSTS = lazy(r"--hostfile[= \t]+/dev/null\b")
#: A function is exported to other shells.
_HANDS_ON = lazy(r"\b(?:export|declare|typeset)\s+-[a-z]*f")
#: Programs that start others on the hosts of a job, and are not read as launch lines.
_ELSEWHERE = lazy(r"[^#]*\b(?:pbsdsh|pbs_tmrsh|blaunch|parallel|dask-\w+)\b")
_GIVES_GPUS = lazy(
    r"--gpus\b|--device\b|--runtime\b|NVIDIA_VISIBLE_DEVICES|--cdi|--privileged|nvidia|/dev/(?:kfd|dri)"
    r"|\$(?i:[\w{]*(?:args?|opts?|options|flags|gpu))"
)


# two launchers in a row


@probe(rules.DC106)
@worst_per_location
def launcher_is_started_once_a_node(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A launcher that starts all ranks of a node is started once per node."""
    for _, site in launch_lines(launch_files):
        double = double_launch(site)
        if double is None:
            continue
        step, on_node, each = double
        yield tasks_start_launchers(
            step.starter or "",
            site.command.launcher,
            tasks_on_node=on_node,
            tasks=step.tasks,
            nodes=step.nodes,
            each=int(each) if each.isdecimal() else None,
            where=site.where(object=step.starter),
            fix=_start_once(site, step, on_node),
        )


def double_launch(site: LaunchSite) -> tuple[SchedulerStep, int, str] | None:
    """Return how several tasks of a node start a launcher for all its ranks, or None if they do not.

    :returns: the step, its tasks on a node, and the processes of each task: a number, or ``gpu``
    """
    step = _step_of_service(site) or step_of(site)
    on_node = _tasks_on_node(site, step)
    if site.command.launcher not in NODE_LAUNCHERS or step.starter is None or on_node is None or on_node < 2:
        return None
    each = _processes(site)
    if each is None or (each.isdecimal() and int(each) < 2):
        return None  # one rank for each agent: the tasks are the ranks
    expected = expected_nodes(site)
    tasks = on_node * (step.nodes or 1)
    if expected is not None and expected.high > 1 and expected.high in (tasks, step.tasks):
        return None  # every task counts as a node of its own
    own_gpus = site.command.gpus_per_task is not None or (site.allocation is not None and site.allocation.binds_gpus)
    if own_gpus and (expected is None or expected.high > 1) and site.value("--nnodes") is not None:
        return None  # agents side by side, each with its GPUs
    return step, on_node, each


def _step_of_service(site: LaunchSite) -> SchedulerStep | None:
    """Return how Azure ML starts the command of a job; None for another job."""
    given = site.allocation
    if given is None or given.scheduler != AZURE:
        return None
    nodes = 1 if given.nodes is None else given.nodes.number
    return SchedulerStep(AZURE, nodes, tasks_on_node=known(given.tasks_per_node)).counted()


def _tasks_on_node(site: LaunchSite, step: SchedulerStep) -> int | None:
    if step.tasks_on_node is not None or step.starter in (None, "srun"):
        return step.tasks_on_node
    # mpirun alone puts all processes on this host; a host file or a scheduler would distribute them
    command = site.command
    named = any("hostfile" in word.text or "machinefile" in word.text for word in site.words)
    if named or command.nodes is not None or site.allocation is not None or site.kind in ("slurm", "pod"):
        return None
    expected = expected_nodes(site)
    return command.tasks if expected is None or expected.high == 1 else None


def _processes(site: LaunchSite) -> str | None:
    """Return the processes of the launcher on a node: a number, ``gpu`` for one per GPU, or None if unknown."""
    command = site.command
    if command.launcher == "accelerate":
        expected = expected_nodes(site)
        machines = 1 if expected is None else expected.high
        unknown = command.unknown & {"processes", "nnodes_min"}
        return None if unknown or command.processes is None else str(-(-command.processes // max(machines, 1)))
    if command.launcher == "deepspeed" and command.nproc is None and "nproc" not in command.unknown:
        return None if command.include or command.hostfile else "gpu"
    if command.nproc is not None:
        return command.nproc if command.nproc.isdecimal() else "gpu" if command.nproc in ("gpu", "auto") else None
    if "nproc" not in command.unknown:
        return None
    word = site.value("--nproc-per-node")
    name = None if word is None else only_variable(with_variables(site, word.text))
    field = _SLURM_COUNTS.get(name or "")
    given = site.of_job
    count = known(getattr(given, field)) if field and given is not None and not given.heterogeneous else None
    return None if count is None else str(count)


def _start_once(site: LaunchSite, step: SchedulerStep, on_node: int) -> Fix:
    given = site.allocation
    if step.starter == AZURE and given is not None and given.tasks_per_node is not None:
        return Fix(
            "write process_count_per_instance: 1, or start the script with python: Azure ML sets RANK, LOCAL_RANK and "
            "WORLD_SIZE of each process",
            edits=_set_scalar(given.tasks_per_node, "1"),
            where="job-script",
        )
    fix = start_once(site.command.launcher, step.starter or "")
    given = site.job
    directive = None if given is None else given.tasks_per_node
    if (
        step.starter != "srun"
        or directive is None
        or known(directive) != on_node
        or site.command.tasks_per_node is not None
    ):
        return fix
    how = "'#SBATCH --ntasks-per-node=1'"
    edits = _set_scalar(directive, "1")
    cores = None if given is None else given.cpus_per_task
    count = known(cores)
    if cores is not None and count is not None:
        how += f" and '#SBATCH --cpus-per-task={count * on_node}'"
        edits = (*edits, *_set_scalar(cores, str(count * on_node))) if edits else ()
    return start_once(site.command.launcher, "srun", how)._replace(
        edits=edits,
        risk="options of the job that count by task (--gpus-per-task, --mem-per-cpu) mean another number then",
    )


def _set_scalar(scalar: Scalar, text: str) -> tuple[Edit, ...]:
    """Return the edit that writes another number, if the number is literal."""
    return scalar.span.literal_edit(scalar.written, text) if scalar.written.isdecimal() else ()


# tasks


@probe(rules.DC108)
@worst_per_location
def task_count_fits_the_launcher(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The scheduler starts as many tasks as the launch has agents or ranks."""
    reaches: dict[str, bool] = {}
    for file, site in launch_files.sites():
        if not is_complete(site):
            continue
        if site.command.launcher in NODE_LAUNCHERS:
            step = step_of(site)
            if step.starter is None:
                if file.path not in reaches:
                    reaches[file.path] = _reaches_other_nodes(file)
                if not reaches[file.path] and not (site.command.launcher == "deepspeed" and _names_hosts(file)):
                    yield from _started_once(site)
            else:
                yield from _uncounted(site, step)
                yield from _agents(site, step)
                if site.command.launcher == "deepspeed" and not _names_hosts(file):
                    yield from _runners_alone(site, step)
        elif site.command.launcher == "python":
            step = step_of(site)
            if step.starter is not None:
                yield from _uncounted(site, step)
                yield from _ranks(site, step)


def _uncounted(site: LaunchSite, step: SchedulerStep) -> Iterator[Finding]:
    """Yield the finding if srun knows the cores of a task, but not the number of tasks."""
    command, around = site.command, site.allocation
    if step.starter != "srun" or command.unknown & {"tasks", "tasks_per_node", "cpus_per_task"}:
        return
    if command.tasks is not None or command.tasks_per_node is not None or step.tasks is not None:
        return
    if around is not None and (around.tasks is not None or around.tasks_per_node is not None or around.heterogeneous):
        return
    if any(word.text.startswith(_SETS_TASKS) for word in site.words):
        return
    of_job = None if site.job is None else known(site.job.cpus_per_task)
    own = command.cpus_per_task
    exclusive = site.job is not None and "exclusive" in site.job.directives
    cores = own if own is not None else of_job
    if cores is None:
        return
    # the job has cores for exactly one task on each node, unless it requested whole nodes
    fits_once = site.job is not None and not exclusive and own in (None, of_job)
    if fits_once and own is not None:
        return
    trains = is_distributed(site) or any((command.gpus, command.gpus_per_node, command.gpus_per_task))
    yield rules.DC108.found(
        f"srun has {cores} cores for each task, but no number of tasks: it starts as many as fit",
        severity=None if not fits_once and (exclusive or trains) else Severity.INFO,
        where=site.where(object="srun"),
        evidence={"cpus_per_task": cores},
        fix=Fix(
            "give it: srun --ntasks-per-node=1 for torchrun, or one task for each GPU"
            if site.command.launcher == "python"
            else "give it: srun --ntasks-per-node=1 (and '#SBATCH --ntasks-per-node=1')",
            where="job-script" if site.job is not None else "launch-line",
        ),
    )


def _agents(site: LaunchSite, step: SchedulerStep) -> Iterator[Finding]:
    """Yield the finding if each task starts an agent that knows no other node."""
    command = site.command
    stated = site.value("--nnodes", "--num-machines", "--num-nodes") is not None
    if stated or command.nnodes_max is not None or command.unknown & {"nnodes_min", "nnodes_max"}:
        # DC804 reports wrong numbers of nodes; here only the tasks are checked
        yield from _agents_of_nodes(site, step)
        return
    if command.launcher not in TORCHRUN_LAUNCHERS or command.standalone or step.partial:
        return
    on_node = step.tasks_on_node or 1
    if _does_own_part(site) or ((step.nodes or 1) < 2 and on_node < 2) or (on_node > 1 and not _has_one_rank(site)):
        return
    if any(problem.kind == "misplaced-option" and "nnodes" in problem.word for problem in command.problems):
        return  # DC803 reports it
    tasks = step.tasks or step.nodes or 1
    yield rules.DC108.found(
        f"{step.starter} starts {tasks} tasks, {on_node if on_node > 1 else 'one'} on each node, but "
        f"{command.launcher} expects one node: " + _agents_alone(site, tasks, on_node),
        where=site.where(object=step.starter),
        evidence={"starter": step.starter, "tasks": tasks, "nodes": step.nodes, "nnodes_max": 1},
        fix=_nodes_fix(step) if on_node == 1 else _ranks_of_node(step, on_node),
    )


def _runners_alone(site: LaunchSite, step: SchedulerStep) -> Iterator[Finding]:
    """Yield the finding if srun starts deepspeed on each node: without a hostfile each one uses its own node only.

    deepspeed 0.19, launcher/runner.py: then it refuses ``--num_nodes`` above one.
    """
    command = site.command
    options = site.words[: len(site.words) - len(command.script_args)]
    if step.starter != "srun" or step.partial or (step.nodes or 1) < 2 or step.tasks_on_node != 1:
        return  # DC106 reports several tasks of a node
    if _does_own_part(site) or any(word.text.startswith(("$", "`", "-H", "-i")) for word in options):
        return
    yield rules.DC108.found(
        f"srun starts deepspeed on each of {step.nodes} nodes, and none gets a hostfile: each uses its own node only",
        where=site.where(object="srun"),
        evidence={"starter": "srun", "tasks": step.tasks, "nodes": step.nodes, "nnodes_max": 1},
        fix=_hosts_for_deepspeed(site, "start it once, without srun: "),
    )


def _has_one_rank(site: LaunchSite) -> bool:
    """Return whether torchrun starts one rank for certain, with a port that is the same in all tasks of a node."""
    command = site.command
    unknown = command.unknown & {"nproc", "master_port", "rdzv_endpoint"}
    return not unknown and command.nproc in (None, "1") and (site.pods is None or site.pods.nproc is None)


def _agents_alone(site: LaunchSite, agents: int, on_node: int) -> str:
    """Return what the agents of tasks do that each expect one node, as a clause.

    :param on_node: the tasks of a node
    """
    own_store = site.command.rdzv_backend in (None, "static") and site.command.master_addr is None
    if on_node > 1 and own_store:
        return f"each has one rank, and those of a node collide at port {site.command.master_port or 29500}"
    return agents_alone(site, agents)


def _ranks_of_node(step: SchedulerStep, ranks: int) -> Fix:
    """Return the fix that lets one torchrun start the ranks of a node."""
    if step.starter == "srun":
        how = f"srun {ONE_TASK_A_NODE} torchrun --nproc-per-node={ranks} {MEET_BY_SLURM} …"
    else:
        how = f"{step.starter} with one process a node, and torchrun --nproc-per-node={ranks} …"
    return Fix(f"start it once on each node, with a rank for each task: {how}", where="job-script")


def _nodes_fix(step: SchedulerStep) -> Fix:
    if step.starter == "srun":
        return Fix(f"give torchrun the number of nodes and a rendezvous: {MEET_BY_SLURM}", where="job-script")
    return Fix(
        f"give torchrun: --nnodes={step.nodes} --rdzv-backend=c10d and --rdzv-endpoint=HOST:29400 with the "
        "first node's name, the same for all",
        where="launch-line",
    )


def _agents_of_nodes(site: LaunchSite, step: SchedulerStep) -> Iterator[Finding]:
    expected = expected_nodes(site)
    tasks = step.tasks
    if (
        expected is None
        or not expected.literal
        or tasks is None
        or expected.low <= tasks <= expected.high
        or step.partial
    ):
        return
    if (step.tasks_on_node or 1) > 1 or site.command.standalone or site.command.launcher == "deepspeed":
        return  # DC106 reports it
    if step.nodes is not None and not expected.low <= step.nodes <= expected.high:
        return  # DC804 reports it
    if expected.high == 1 and (_does_own_part(site) or step.nodes is None):
        return
    yield rules.DC108.found(
        f"{step.starter} starts {counted(tasks, 'task')}, but {site.command.launcher} expects "
        f"{expected.text} node{'s' * (expected.high != 1)}",
        where=site.where(object=step.starter),
        evidence={"starter": step.starter, "tasks": tasks, "nnodes_min": expected.low, "nnodes_max": expected.high},
        fix=Fix(f"start one task on each of {expected.text} nodes", where="job-script"),
    )


def _does_own_part(site: LaunchSite) -> bool:
    """Return whether the script's arguments give each task its own part of the work."""
    return any(_OWN_PART.search(with_variables(site, word)) for word in site.command.script_args)


def _reaches_other_nodes(file: LaunchFile) -> bool:
    """Return whether a line of the file may start something on all nodes of the job."""
    if any(step_of(site).starter is not None or is_remote(site) or site.repeats for site in file.sites):
        return True
    # srun bash -c may call the function
    return any(_HANDS_ON.search(line) or _ELSEWHERE.match(line) for line in file.lines)


def _names_hosts(file: LaunchFile) -> bool:
    """Return whether deepspeed may find the hosts of the job: by default it reads /job/hostfile."""
    return any(_HOSTS_OF_DEEPSPEED.search(_NO_HOSTS.sub("", line)) for line in file.lines)


def _started_once(site: LaunchSite) -> Iterator[Finding]:
    """Yield the finding for the body of a job script, which runs on the first node only."""
    command = site.command
    by_pbs = site.job is not None and site.job.scheduler == "pbs"
    if not (site.kind == "slurm" or by_pbs) or command.standalone or is_remote(site):
        return
    nodes = job_nodes(site)
    if nodes is None or nodes < 2 or bears_on_nodes(site):
        return
    if command.launcher == "accelerate" and (command.config_file or "config_file" in command.unknown):
        return  # a configuration can name a starter of its own
    if command.wrappers and {"bash", "sh", *CONTAINER_PROGRAMS}.intersection(command.wrappers):
        return
    expected = expected_nodes(site)
    deepspeed = command.launcher == "deepspeed"
    own = site.words[: len(site.words) - len(command.script_args)]
    if deepspeed and any(word.text.startswith(("$", "`", "-H", "-i")) for word in own):
        return  # options that only the shell knows may name the hosts
    if may_be_started_by_variable(site):
        return
    waits = not deepspeed and expected is not None and expected.high > 1
    if by_pbs and not waits:
        return  # several chunks may be on one host
    expects = f", and waits for {expected.text} nodes" if waits and expected is not None else ""
    yield rules.DC108.found(
        f"the job has {nodes} nodes, but {command.launcher} is started once, on the first of them{expects}: "
        + ("without a hostfile it uses this node only" if deepspeed else "nothing starts it on the others"),
        where=site.where(object=command.launcher),
        evidence={"nodes": nodes, "tasks": 1, "nnodes_max": None if expected is None else expected.high},
        fix=Fix(
            f"start it once on each node, with the first host as rendezvous: mpiexec -n {nodes} --map-by ppr:1:node …, "
            'and --rdzv-endpoint="$(head -n1 "$PBS_NODEFILE"):29400" for torchrun',
            where="job-script",
        )
        if by_pbs
        else Fix(
            f"let srun start it on each node: srun {ONE_TASK_A_NODE} bash -c "
            "'accelerate launch --num_machines=$SLURM_NNODES --machine_rank=$SLURM_NODEID …'",
            where="job-script",
        )
        if command.launcher == "accelerate"
        else _hosts_for_deepspeed(site)
        if deepspeed
        else _on_each_node(site),
    )


def _hosts_for_deepspeed(site: LaunchSite, first: str = "") -> Fix:
    """Return the fix that gives deepspeed the hosts of a Slurm job, behind another step."""
    gpus = known(None if site.job is None else site.job.gpus_per_node)
    slots = gpus if gpus is not None else "N"
    write = f"scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed 's/$/ slots={slots}/' > hostfile"
    what = "" if gpus is not None else ", with N for the GPUs of a node"
    return Fix(
        f"{first}write its hosts, and name them: {write}; deepspeed --hostfile=hostfile …{what} "
        "(it reaches them by ssh)",
        where="job-script",
    )


def _on_each_node(site: LaunchSite) -> Fix:
    """Return the fix that starts torchrun on each node of a Slurm job, in the form in which the line names it."""
    command = site.command
    names = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
    at = next((index for index, word in enumerate(site.words) if word.text.rpartition("/")[2] in names), None)
    name = None if at is None else site.words[at].text.rpartition("/")[2]
    module = name is not None and name != "torchrun"
    edits: tuple[Edit, ...] = ()
    first = None if at is None or at < 2 * module else site.words[at - 2 * module]
    whole = module and at is not None and at > 1 and site.words[at - 1].text == "-m"
    options = (command.nnodes_max, command.node_rank, command.master_addr, command.rdzv_endpoint, command.rdzv_backend)
    given = any(option is not None for option in options) or command.standalone or bool(command.unknown)
    if at is not None and first is not None and (whole or not module) and not given:
        last = site.words[at]
        if not first.origins and not last.origins and first.span.path == last.span.path:
            edits = (
                first.span.preceded_by(f"srun {ONE_TASK_A_NODE} "),
                last.span.followed_by(f" {MEET_BY_SLURM}"),
            )
    program = f"python -m {name}" if module else "torchrun"
    return Fix(
        f"let srun start it on each node: srun {ONE_TASK_A_NODE} {program} {MEET_BY_SLURM} …",
        edits=edits,
        where="job-script",
        risk="the job then has ranks on all of its nodes, and another batch size" if edits else None,
    )


def _ranks(site: LaunchSite, step: SchedulerStep) -> Iterator[Finding]:
    """Yield the finding if WORLD_SIZE is not the number of tasks, with one rank per task."""
    given = site.settings.get("WORLD_SIZE")
    if given is None or not given.certain or given.value is None or not given.value.strip().isdecimal():
        return
    size = int(given.value)
    if step.tasks is None or step.tasks < 2 or step.partial or size in (0, step.tasks):
        return
    yield rules.DC108.found(
        f"{step.starter} runs {step.tasks} tasks, but WORLD_SIZE is {size}",
        where=given.span.where(variable="WORLD_SIZE"),
        evidence={"tasks": step.tasks, "world_size": size},
        fix=Fix(
            "take the scheduler's count: export WORLD_SIZE=$SLURM_NTASKS"
            if step.starter == "srun"
            else f"start {size} tasks, or set WORLD_SIZE={step.tasks}",
            where="job-script",
        ),
    )


# hang-ups and restarts


@probe(rules.DC117)
@worst_per_location
def launcher_survives_a_hangup(launch_files: LaunchFiles) -> Iterator[Finding]:
    """No launcher relies on nohup if it replaces nohup's signal handling."""
    scripts = {file.path.replace("\\", "/"): file for file in launch_files.files}
    for file, site in launch_files.sites():
        command = site.command
        wrappers = frozenset(command.wrappers)
        if "nohup" not in wrappers or site.kind in _WITHOUT_TERMINAL or wrappers & _NO_HANGUP:
            continue
        if step_of(site).starter is not None:
            continue
        launcher = command.launcher if _handles_hangups(command) else _launcher_within(file, site, scripts)
        if launcher is None:
            continue
        word = next((word for word in site.words if word.text.rpartition("/")[2] == "nohup"), None)
        inside = "" if launcher == command.launcher else f", which {command.script} starts,"
        yield rules.DC117.found(
            f"{launcher}{inside} runs under nohup, but installs a handler of its own for SIGHUP: "
            "it ends all ranks when the terminal closes",
            where=location_of(site, word, "nohup"),
            evidence={"launcher": launcher},
            fix=Fix(
                "replace nohup by setsid: a session without a terminal (and send its output "
                "to a file); or start it in tmux or screen, or as a job of the scheduler",
                edits=edit_word(word, "setsid"),
                where="launch-line",
                risk="setsid makes no nohup.out: redirect the output",
            ),
        )


def _handles_hangups(command: LaunchCommand) -> bool:
    if command.launcher not in ELASTIC_LAUNCHERS or "signals_to_handle" in command.unknown:
        return False
    if command.launcher == "accelerate" and command.processes == 1:
        return False  # started without torchrun's agent
    return command.signals_to_handle is None or "SIGHUP" in command.signals_to_handle


def _launcher_within(file: LaunchFile, site: LaunchSite, scripts: Mapping[str, LaunchFile]) -> str | None:
    """Return the launcher in the shell script that the line starts, if that script was read."""
    script = site.command.script
    if site.command.launcher != "other" or script is None:
        return None
    path = the_one(site, (script,), scripts.__contains__)
    target = None if path is None else scripts[path]
    if target is None or target is file or target.allocation is not None:
        return None
    for inner in target.sites:
        wrappers = frozenset(inner.command.wrappers)
        if _handles_hangups(inner.command) and not wrappers & _NO_HANGUP and step_of(inner).starter is None:
            return inner.command.launcher
    return None


@probe(rules.DC118)
@worst_per_location
def first_error_stays_visible(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The user knows about automatic restarts: the log ends with the last error, not the first."""
    for _, site in launch_lines(launch_files):
        limit = site.command.max_restarts or 0
        if limit < 1:
            continue
        word = site.value("--max-restarts")
        yield rules.DC118.found(
            f"up to {counted(limit, 'restart')} are allowed: the log will end with the last attempt's error, "
            "which is often not the first",
            where=location_of(site, word, "--max-restarts"),
            evidence={"restarts": 0, "max_restarts": limit},
            fix=shared_fixes.NO_RESTARTS,
        )


# GPUs


@probe(rules.DC121)
@worst_per_location
def processes_can_be_counted_by_gpus(launch_files: LaunchFiles, nodes: Nodes | Unavailable) -> Iterator[Finding]:
    """With one process per GPU there is at least one usable GPU."""
    for _, site in launch_lines(launch_files):
        command = site.command
        word = site.value("--nproc-per-node")
        wanted = command.nproc
        if command.launcher not in TORCHRUN_LAUNCHERS:
            continue
        if wanted is None and "nproc" not in command.unknown and site.pods is not None and site.pods.nproc is not None:
            wanted = str(site.pods.nproc.value) if site.pods.nproc.known else None
        if wanted not in ("gpu", "auto"):
            continue
        absent, sure = _no_gpus(site, nodes)
        if absent is None:
            continue
        if wanted == "gpu":
            message = f"--nproc-per-node=gpu counts GPUs, and {absent}"
        else:
            message = f"--nproc-per-node=auto finds no GPU, since {absent}: it starts one process for each CPU core"
        yield rules.DC121.found(
            message,
            severity=None if sure and wanted == "gpu" else Severity.INFO,
            where=location_of(site, word, "--nproc-per-node"),
            evidence={"nproc_per_node": wanted, "why": absent},
            fix=Fix(
                "give a number: --nproc-per-node=2 starts two processes on the CPU; if there should be GPUs, "
                "request them for the job first",
                where="launch-line",
            ),
        )


def _no_gpus(site: LaunchSite, nodes: Nodes | Unavailable) -> tuple[str | None, bool]:
    """Return why no GPU is usable, as a clause, and whether that is certain; None if there may be one."""
    mask = site.settings.get("CUDA_VISIBLE_DEVICES")
    if mask is not None and stays_outside(site, mask):
        mask = None
    if mask is not None and mask.certain and mask.value is not None and mask.value.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={mask.value} hides all of them", True
    if site.pods is not None:
        gpus = site.pods.gpus
        count = known(gpus)
        if gpus is None or (gpus.known and count == 0):
            return "the container requests none", True
        return None, False
    if isinstance(nodes, Nodes) and nodes.gpus == 0:
        return f"by {nodes.origin} the nodes have none", True
    if CONTAINER_PROGRAMS.intersection(site.command.wrappers) and "exec" not in {word.text for word in site.words}:
        own = " ".join(word.text for word in site.words)
        if not _GIVES_GPUS.search(own):
            return "docker run gives none to the container without --gpus (unless the daemon is set up to)", False
    return None, False


@probe(rules.DC203)
@worst_per_location
def tasks_see_all_gpus(launch_files: LaunchFiles, started: Started | Unavailable) -> Iterator[Finding]:
    """Each task sees all GPUs of its node, so that LOCAL_RANK is a device index and NVLink is usable."""
    for _, site in launch_files.sites():
        command = site.command
        if command.launcher == "other" or double_launch(site) is not None:
            continue
        step = step_of(site)
        around = site.allocation
        if step.starter != "srun" or step.tasks == 1 or step.tasks_on_node == 1:
            continue
        each = command.gpus_per_task
        each = known(around.gpus_per_task) if each is None and around is not None else each
        binding = _binding(site, around)
        if binding == "none" or ((each or 0) != 1 and binding is None):
            continue
        by = f"--gpu-bind={binding}" if binding is not None else "--gpus-per-task=1"
        use = None if isinstance(started, Unavailable) else _index_by_local_rank(started, site)
        takes = "" if use is None else f", but {use[0]} takes the one numbered LOCAL_RANK ({use[1]}, line {use[2]})"
        yield rules.DC203.found(
            f"each task sees one GPU only ({by}): its device is 0, whatever its local rank is{takes}",
            severity=Severity.INFO if use is None else Severity.WARNING,
            where=location_of(site, site.value("--gpu-bind", "--gpus-per-task"), by.partition("=")[0]),
            evidence={"gpus_per_task": each, "gpu_bind": binding, "tasks_on_node": step.tasks_on_node},
            fix=Fix(
                "use device 0 in the script, not the one numbered LOCAL_RANK; otherwise: request GPUs by "
                "node (--gpus-per-node) and add --gpu-bind=none to srun",
                where="code",
            ),
        )


def _index_by_local_rank(started: Started, site: LaunchSite) -> tuple[str, str, int] | None:
    """Return a location in the script that uses the local rank as a device index: path, text and line."""
    from distcheck.checks.source.device_uses import device_uses, files_from
    from distcheck.checks.source.values import Kind

    start, program = started.of(site), started.program
    if start is None or program is None:
        return None
    files = files_from(program, start.script)
    for use in device_uses(program):
        if use.row.file in files and use.number.get(Kind.LOCAL_RANK) is not None:
            return use.row.path, use.shown, use.row.line
    return None


def _binding(site: LaunchSite, around: Allocation | None) -> str | None:
    """Return how srun binds GPUs to tasks, or None if not given or unknown."""
    word = site.value("--gpu-bind")
    directive = None if around is None else around.directives.get("gpu-bind")
    text = word.text if word is not None else str(directive.value) if directive is not None and directive.known else ""
    text = text.removeprefix("verbose,").removeprefix("v,")
    if text.startswith("none"):
        return "none"
    return text if re.match(r"(?:single:1\b|per_task:1\b|map_gpu|map:)", text) and "," not in text[:8] else None


# misplaced options


@probe(rules.DC803)
@worst_per_location
def launcher_options_stand_before_the_script(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The options of a launcher come before the script: later ones belong to the script."""
    for file, site in launch_lines(launch_files):
        command = site.command
        first = len(site.words) - len(command.script_args)
        if not command.script_args or first < 1:
            continue
        behind = list(site.words[first:])
        found = misplaced_options(command, [word.text for word in behind])
        if not found:
            continue
        words = [behind[index] for group in found for index in group]
        shown = " ".join(word.text for word in words)
        script = site.words[first - 1]
        names = [behind[group[0]].text.partition("=")[0] for group in found]
        stands = "stands" if len(names) == 1 else "stand"
        gets = "gets it" if len(names) == 1 else "gets them"
        yield rules.DC803.found(
            f"{listed(names)} {stands} after {command.script}, which {gets} instead of {command.launcher}",
            where=location_of(site, words[0], names[0]),
            evidence={"options": names, "script": command.script, "launcher": command.launcher},
            fix=Fix(
                f"write {shown} before {'-m ' if command.module else ''}{command.script}",
                edits=_move(file, site, script, behind, found),
                safe=True,
                where="launch-line",
            ),
        )


def _move(
    file: LaunchFile, site: LaunchSite, script: Word, behind: list[Word], found: list[list[int]]
) -> tuple[Edit, ...]:
    """Return the edits that move the words before the script.

    They are empty if a word comes from a variable, or if the words are items of a list in a manifest or an image.
    """
    words = [behind[index] for group in found for index in group]
    before = _before_script(site, script)
    if before is None or any(not word.written or word.span.path != before.span.path for word in words):
        return ()
    if not all(behind[group[0]].written.lstrip("\"'").startswith("-") for group in found):
        return ()
    spans = [word.span for word in words]
    if len({(span.line, span.column) for span in spans}) < len(spans) or before.span.line > spans[0].line:
        return ()  # several words out of one array
    through = (script, *behind[: found[-1][-1] + 1])
    if not all(_next_in_shell(file, one.span, other.span) for one, other in itertools.pairwise(through)):
        return ()
    edits = [before.span.preceded_by("".join(f"{word.written} " for word in words))]
    previous = {id(word): (behind[index - 1] if index else script) for index, word in enumerate(behind)}
    for word in words:
        span, last = word.span, previous[id(word)].span
        start = last.end_column if last.end_line == span.line and last.path == span.path else span.column
        edits.append(span._replace(column=start).replaced_by(""))
    return tuple(edits)


def _next_in_shell(file: LaunchFile, one: Span, other: Span) -> bool:
    """Return whether only blanks and line continuations separate two words."""
    if one.path != file.path or other.path != file.path or not 0 < one.end_line <= other.line <= len(file.lines):
        return False
    if one.end_line == other.line:
        return not file.lines[one.end_line - 1][one.end_column - 1 : other.column - 1].strip()
    rest = [file.lines[one.end_line - 1][one.end_column - 1 :], *file.lines[one.end_line : other.line - 1]]
    goes_on = all(line.strip() == "\\" for line in rest)
    return goes_on and not file.lines[other.line - 1][: other.column - 1].strip()


def _before_script(site: LaunchSite, script: Word) -> Word | None:
    """Return the word before which options can be inserted: the script, or the -m before a module."""
    if not script.written or script.origins:
        return None
    if not site.command.module:
        return script
    index = site.words.index(script)
    flag = site.words[index - 1] if index else None
    return flag if flag is not None and flag.text in ("-m", "--module") else None
