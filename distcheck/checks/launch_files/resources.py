"""What a launch line needs of a node compared with what it gets: GPUs, CPUs and memory.

The sources are masks, the scheduler's directives and options, and the facts of a node from the caller. ``pods.py``
checks pods.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, surplus_ranks
from distcheck.core.registry import probe
from distcheck.core.wording import counted
from distcheck.launch._wrapper_table import SUBMITTERS
from distcheck.launch.command import SHELLS
from distcheck.launch.model import NODE_LAUNCHERS
from distcheck.launch.schedulers import task_starter

from .context import CONTAINER_PROGRAMS, stays_outside, worst_per_location
from .counts import (
    SHARE_GPUS,
    Count,
    gpus_given,
    is_distributed,
    process_count_word,
    ranks_on_node,
    runs_on_cpu,
    tasks_in_job,
    tasks_on_node,
)
from .launcher import double_launch
from .model import Allocation, FileSetting, LaunchFile, LaunchFiles, LaunchSite, Nodes, Scalar, known
from .shell_commands import SCRIPTS, read_chain
from .variables import MASKS, corrected_line, is_certain, value_edit

GIB = 1 << 30
#: Side effects of a fix.
_FEWER = "the job has fewer ranks, and with them another batch size"
_MORE = "the job has more ranks, and with them another batch size"


#: Programs that a batch script starts with srun to prepare or inspect its nodes (GNU coreutils and the like).
_UTILITIES = frozenset(
    """
    hostname echo printf true false mkdir rmdir rm cp mv ln ls cat touch chmod chown tar unzip gzip rsync scp wget curl
    git find df du date env printenv sleep kill pkill killall ps which test stat dd sbcast squeue scontrol sacct sinfo
    nvidia-smi rocm-smi dcgmi ip ifconfig ibstat lscpu nproc free uname ulimit module conda pip docker podman enroot
    make cmake ninja
    """.split()  # noqa: SIM905 - reads better than a hundred quoted words
)


#: By scheduler: the directive for CPUs, and what a job gets without one (sbatch(1), Slurm 24.05; PBS Professional 2022,
#: "Default resources").
_ONE_CPU = {
    "slurm": ("--cpus-per-task={}", "Slurm gives each task one CPU unless the partition sets DefCpuPerGPU"),
    "pbs": ("ncpus={} in the chunk", "PBS gives each chunk one CPU unless the queue sets another default"),
}
#: Directives that give a job CPUs in another way.
_WAYS_TO_CPUS = frozenset(
    """
    exclusive cpus-per-task cpus-per-gpu mincpus cores-per-socket threads-per-core extra-node-info tres-per-task
    ncpus ppn place mpiprocs
    """.split()  # noqa: SIM905 - reads better than a dozen quoted words
)


#: Programs that submit a container with a number of GPUs: ``gantry run --gpus 4 -- …``.
_SUBMITS_CONTAINERS = frozenset({"gantry"})


class NodeGpus(NamedTuple):
    """The GPUs that the ranks of a line find on a node, and the source of the number."""

    gpus: int
    #: a clause for a message: ``CUDA_VISIBLE_DEVICES=0,1 leaves 2 GPUs``
    text: str
    #: ``mask``, ``numbers`` (a mask with GPUs that the job does not have), ``container``, ``scheduler`` or ``nodes``
    by: str
    source: FileSetting | Count | None = None


@probe(rules.DC301)
@worst_per_location
def every_rank_has_a_gpu(launch_files: LaunchFiles, nodes: Nodes | Unavailable) -> Iterator[Finding]:
    """No more ranks start on a node than it has GPUs."""
    stated = nodes if isinstance(nodes, Nodes) else None
    for file, site in launch_files.sites():
        ranks = ranks_on_node(site)
        if ranks is None or ranks < 2 or not is_distributed(site) or _shares_or_needs_none(site):
            continue
        for limit in map(functools.partial(_with_all_chunks, site), gpu_limits(site, stated)):
            # a launcher in each of several tasks is DC106, so the GPUs of one task do not matter
            if limit.gpus < ranks and (limit.by != "scheduler" or double_launch(site) is None):
                yield _too_many(ranks, limit, file, site)
                break
    if stated is not None and stated.gpus is not None:
        for allocation in _allocations(launch_files):
            requested = _requested_gpus(allocation)
            if requested is not None and requested.number > stated.gpus and isinstance(requested.source, Scalar):
                yield rules.DC301.found(
                    f"the job requests {requested.number} GPUs per node, but the nodes of {stated.origin} have "
                    f"{stated.gpus}: it never starts",
                    where=requested.source.span.where(object="directive"),
                    evidence={"asked": requested.number, "gpus_on_node": stated.gpus},
                    fix=Fix(f"request at most {stated.gpus} GPUs per node", where="job-script"),
                )


@probe(rules.DC302)
def no_gpu_is_left_idle(launch_files: LaunchFiles, nodes: Nodes | Unavailable) -> Iterator[Finding]:
    """All GPUs that the job gets on a node have a rank."""
    stated = nodes if isinstance(nodes, Nodes) else None
    for file in launch_files.files:
        candidates = [
            (ranks, site)
            for site in file.sites
            if (ranks := ranks_on_node(site)) is not None
            and (site.command.launcher in NODE_LAUNCHERS or _starts_ranks(site, ranks))
            and not _shares_or_needs_none(site)
            # several launchers on a node share its GPUs
            and (site.command.launcher == "python" or tasks_on_node(site) == 1)
        ]
        # lines that run at the same time share the GPUs, and another line may use all of them
        if not candidates or any(site.background and site.repeats for _, site in candidates):
            continue
        most = max(ranks for ranks, _ in candidates)
        together = sum(site.background for _, site in candidates) > 1
        for ranks, site in candidates:
            if ranks == most and not together:
                yield from _idle(ranks, site, file, stated)
                break


@probe(rules.DC325)
@worst_per_location
def ranks_have_cpus(launch_files: LaunchFiles, nodes: Nodes | Unavailable) -> Iterator[Finding]:
    """A rank has at least one CPU, the tasks get the requested CPUs, and the nodes have as many."""
    stated = nodes if isinstance(nodes, Nodes) else None
    for file, site in launch_files.sites():
        if site.kind != "pod" and is_distributed(site):
            yield from _cpus_of(file, site)
            yield from _cpus_of_container(site)
        elif (lost := _cpus_that_srun_forgets(site)) is not None and uses_gpus(site):
            yield _pass_them_on(lost, file, site)
        elif site.kind == "slurm":
            yield from _default_cpus_of_a_script(site)
    if stated is None or stated.cpus is None:
        return
    for allocation in _allocations(launch_files):
        each = known(allocation.cpus_per_task)
        tasks = tasks_in_job(allocation)
        if each is None or tasks is None or allocation.cpus_per_task is None or each * tasks <= stated.cpus:
            continue
        times = f"{tasks} tasks of {each} CPUs" if tasks > 1 else f"{each} CPUs"
        yield rules.DC325.found(
            f"the job requests {times} on each node, but the nodes of {stated.origin} have {stated.cpus} CPUs",
            where=allocation.cpus_per_task.span.where(object="directive"),
            evidence={"asked": each * tasks, "cpus_on_node": stated.cpus},
            fix=Fix(
                f"request at most {max(stated.cpus // tasks, 1)} CPUs per task (--cpus-per-task)", where="job-script"
            ),
        )


@probe(rules.DC323)
@worst_per_location
def memory_is_enough(launch_files: LaunchFiles, nodes: Nodes | Unavailable) -> Iterator[Finding]:
    """A job requests the minimum memory of its ranks, and no more than its nodes have."""
    for _, site in launch_files.sites():
        memory = None if site.allocation is None else site.allocation.memory_bytes_per_node
        limit, ranks = known(memory), ranks_on_node(site)
        # 0 is all memory of a node
        if memory is None or not limit or ranks is None or not is_distributed(site):
            continue
        each = _bytes_per_rank(site)
        if limit < ranks * each:
            yield rules.DC323.found(
                f"the job requests {_size(limit)} of memory on each node, but "
                + (f"{ranks} ranks need at least {_size(each)} each" if ranks > 1 else f"a rank needs {_size(each)}"),
                where=memory.span.where(object="directive"),
                evidence={"asked_bytes": limit, "ranks_on_node": ranks, "needed_bytes": ranks * each},
                fix=Fix("request more, or all memory of a node: --mem=0 with --exclusive", where="job-script"),
            )
    if isinstance(nodes, Unavailable) or nodes.memory_bytes is None:
        return
    for allocation in _allocations(launch_files):
        memory = allocation.memory_bytes_per_node
        requested = known(memory)
        if memory is None or requested is None or requested <= nodes.memory_bytes:
            continue
        yield rules.DC323.found(
            f"the job requests {_size(requested)} of memory on each node, but the nodes of {nodes.origin} have "
            f"{_size(nodes.memory_bytes)}",
            where=memory.span.where(object="directive"),
            evidence={"asked_bytes": requested, "memory_bytes": nodes.memory_bytes},
            fix=Fix(
                f"request less than {_size(nodes.memory_bytes)} (a node keeps some for itself), or all that it "
                "gives: --mem=0",
                where="job-script",
            ),
        )


def _bytes_per_rank(site: LaunchSite) -> int:
    # few launch files request memory, and the package reads a whole machine
    from distcheck.checks.host.limits import MEMORY_PER_GPU_RANK_BYTES, MEMORY_PER_RANK_BYTES

    return MEMORY_PER_RANK_BYTES if runs_on_cpu(site) else MEMORY_PER_GPU_RANK_BYTES


def _size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.4g} GiB"


# GPUs


def _shares_or_needs_none(site: LaunchSite) -> bool:
    """Return whether the ranks use no GPU, or share one on purpose."""
    return runs_on_cpu(site) or any(
        (setting := site.settings.get(name)) is not None and setting.value not in ("", "0") for name in SHARE_GPUS
    )


def _starts_ranks(site: LaunchSite, tasks: int) -> bool:
    """Return whether plain Python runs as several tasks on a node, each with one GPU."""
    each = None if site.allocation is None else site.allocation.gpus_per_task
    one_each = each is None or known(each) == 1
    return site.command.launcher == "python" and site.command.script is not None and tasks > 1 and one_each


def gpu_limits(site: LaunchSite, nodes: Nodes | None) -> Iterator[NodeGpus]:
    """Yield the limits of a line's GPUs, the nearest to its ranks first; an unknown mask ends the list."""
    for name in MASKS:
        setting = site.settings.get(name)
        if setting is None or stays_outside(site, setting):
            continue
        # a mask that is set only on some paths hides nothing for certain
        count = _masked(setting.value) if is_certain(setting, site) else None
        if count is None:
            return
        yield from _of_numbers(site, setting)
        if count:
            yield NodeGpus(count, f"{name}={setting.value} leaves {counted(count, 'GPU')}", "mask", setting)
        break
    if (CONTAINER_PROGRAMS | _SUBMITS_CONTAINERS).intersection(site.command.wrappers):
        yield from _of_container(site)
    if site.kind == "pod" and (site.allocation is None or site.pods is not None):
        return
    given = gpus_given(site)
    if given is not None and given.number > 0:
        directive = _written(given, site.of_job)
        yield NodeGpus(
            given.number, f"the scheduler gives {counted(given.number, 'GPU')} there{directive}", "scheduler", given
        )
    elif given is None and nodes is not None and nodes.gpus:
        yield NodeGpus(nodes.gpus, f"the nodes of {nodes.origin} have {counted(nodes.gpus, 'GPU')}", "nodes")


def _of_numbers(site: LaunchSite, mask: FileSetting) -> Iterator[NodeGpus]:
    """Yield the limit of a mask that numbers GPUs as the machine does: those of a job of Slurm begin at 0.

    CUDA uses the entries before the first one that it does not have. A cluster without ConstrainDevices in its
    cgroup.conf shows all GPUs.
    """
    given, job = gpus_given(site), site.of_job
    if not site.in_slurm_job or given is None or job is None or "exclusive" in job.directives:
        return
    if known(job.gpus_per_node) is None and known(job.nodes) != 1:
        return
    entries = (mask.value or "").split(",")
    if not all(map(str.isdecimal, entries)):
        return
    usable = next((at for at, entry in enumerate(entries) if int(entry) >= given.number), len(entries))
    if usable < len(entries) <= given.number:
        has = "GPU 0 only" if given.number == 1 else f"GPUs 0 to {given.number - 1} only"
        text = f"{mask.name}={mask.value} leaves {counted(usable, 'GPU')}, because the job has {has}"
        yield NodeGpus(usable, f"{text}{_written(given, job)}", "numbers", mask)


def _with_all_chunks(site: LaunchSite, limit: NodeGpus) -> NodeGpus:
    """Return a limit with the GPUs of all chunks of PBS, which may be on one host unless ``place`` scatters them."""
    given = site.of_job
    if limit.by != "scheduler" or given is None or given.scheduler != "pbs" or "select" not in given.directives:
        return limit
    place = given.directives.get("place")
    chunks = known(given.nodes) or 1
    if chunks == 1 or (place is not None and "scatter" in str(place.value)):
        return limit
    number = limit.gpus * chunks
    return limit._replace(gpus=number, text=f"the scheduler gives at most {counted(number, 'GPU')} there")


def _of_container(site: LaunchSite) -> Iterator[NodeGpus]:
    """Yield the limit of ``docker run --gpus=2`` or ``--gpus '"device=0,1"'`` before the launcher."""
    source = site.value("--gpus")
    if source is None:
        return
    text = source.text.strip("\"'")
    count = int(text) if re.fullmatch(r"[0-9]{1,4}", text) else _masked(text.removeprefix("device="))
    if count and (text.isdigit() or text.startswith("device=")):
        yield NodeGpus(
            count, f"the container is given {counted(count, 'GPU')} (--gpus={text})", "container", Count(count, source)
        )


def _masked(value: str | None) -> int | None:
    """Return the number of GPUs in a mask, or None if it is unknown or faulty (DC204)."""
    if value is None:
        return None
    entries = [entry.strip() for entry in value.split(",")]
    if entries and not entries[-1]:
        entries.pop()
    plain = all(re.fullmatch(r"\d+|(?:GPU|MIG)-[\w/-]+", entry) for entry in entries)
    if not plain or len(set(entries)) != len(entries) or any(entry.startswith("MIG-") for entry in entries):
        return None
    return len(entries)


def _written(count: Count, given: Allocation | None) -> str:
    """Return the directive with a count, as written; empty if it is an option of the line."""
    if given is None or not isinstance(count.source, Scalar):
        return ""
    for name, scalar in given.directives.items():
        if scalar.span == count.source.span:
            return f" (--{name}={scalar.written.strip()[:60] or count.number})"
    return ""


def _too_many(ranks: int, limit: NodeGpus, file: LaunchFile, site: LaunchSite) -> Finding:
    word = process_count_word(site)
    if limit.by == "numbers" and isinstance(limit.source, FileSetting):
        return _wrong_numbers(ranks, limit, limit.source, file, site)
    processes = f"{limit.gpus} process{'es' * (limit.gpus != 1)}"
    fix = Fix(f"start {processes} on each node, or use {ranks} GPUs", where="launch-line")
    if word is not None and word.span.path == file.path and not word.origins and word.text == str(ranks):
        edit = word.span.replaced_by(str(limit.gpus))
        line = corrected_line(file, (edit,)) if site.command.launcher != "accelerate" else None
        if line is not None:
            fix = fix._replace(text=f"{fix.text}: {line}", edits=(edit,), risk=_FEWER)
    return rules.DC301.found(
        f"{ranks} ranks start on each node, but {limit.text}: {surplus_ranks(limit.gpus, ranks)}",
        where=site.where(word, object="nproc"),
        evidence={"ranks_on_node": ranks, "gpus": limit.gpus, "by": limit.by},
        fix=fix,
    )


def _wrong_numbers(ranks: int, limit: NodeGpus, mask: FileSetting, file: LaunchFile, site: LaunchSite) -> Finding:
    numbers = ",".join(map(str, range((mask.value or "").count(",") + 1)))
    edit = value_edit(mask, numbers, file)
    return rules.DC301.found(
        f"{ranks} ranks start on each node, but {limit.text}: {surplus_ranks(limit.gpus, ranks)}",
        where=mask.span.where(variable=mask.name, object="nproc"),
        evidence={"ranks_on_node": ranks, "gpus": limit.gpus, "by": limit.by},
        # a cluster may show all GPUs to each job
        severity=Severity.WARNING,
        fix=Fix(
            f"number the GPUs as the job does: {mask.name}={numbers}; or drop it, because Slurm sets it",
            edits=() if edit is None else (edit,),
            where="job-script",
            risk="where Slurm does not hide the GPUs of other jobs, these may be theirs" if edit else None,
        ),
    )


def _idle(ranks: int, site: LaunchSite, file: LaunchFile, nodes: Nodes | None) -> Iterator[Finding]:
    limit = next(gpu_limits(site, nodes), None)
    if limit is None or limit.gpus <= ranks:
        return
    word = process_count_word(site)
    # one process may use several GPUs itself, and a user may hide GPUs or reserve a whole node on purpose
    wasted = limit.by == "scheduler" and ranks > 1
    option = {"deepspeed": "--num_gpus", "accelerate": "--num_processes", "python": "--ntasks-per-node"}.get(
        site.command.launcher, "--nproc-per-node"
    )
    fix = Fix(f"start a process for each GPU ({option}={limit.gpus}), or request {ranks} only", where="launch-line")
    if (
        word is not None
        and word.span.path == file.path
        and not word.origins
        and word.text == str(ranks)
        and site.command.launcher != "accelerate"
    ):
        edit = word.span.replaced_by(str(limit.gpus))
        line = corrected_line(file, (edit,))
        if line is not None:
            text = f"start a process for each GPU: {line}; or request {ranks} only"
            fix = Fix(text, edits=(edit,), where=fix.where, risk=_MORE)
    yield rules.DC302.found(
        f"{ranks} {'rank starts' if ranks == 1 else 'ranks start'} on each node, but {limit.text}: "
        f"{limit.gpus - ranks} {'is' if limit.gpus - ranks == 1 else 'are'} idle",
        severity=Severity.WARNING if wasted else Severity.INFO,
        where=site.where(word, object="nproc"),
        evidence={"ranks_on_node": ranks, "gpus": limit.gpus, "by": limit.by},
        fix=fix,
    )


# CPUs


def _cpus_of(file: LaunchFile, site: LaunchSite) -> Iterator[Finding]:
    given = site.allocation
    if given is None or given.heterogeneous:
        return
    if given.scheduler == "lsf":
        yield from _slots_of(site, given)
        return
    if given.scheduler in _ONE_CPU and _requests_no_cpus(site, given):
        yield from _default_cpus(site, given)
        return
    if given.scheduler != "slurm":
        return
    lost = _cpus_that_srun_forgets(site)
    if lost is not None:
        yield _pass_them_on(lost, file, site)
        return
    each = known(given.cpus_per_task)
    ranks = ranks_on_node(site)
    if each is None or ranks is None or ranks < 2 or given.cpus_per_gpu is not None:
        return
    # the ranks of a launcher share the CPUs of its task; without srun, those of the job on the node
    started = tasks_on_node(site) if task_starter(site.command) else tasks_in_job(given)
    if started is None or site.command.launcher not in NODE_LAUNCHERS:
        return
    limit = each if task_starter(site.command) else each * started
    if limit >= ranks:
        return
    source = process_count_word(site)
    yield rules.DC325.found(
        f"{ranks} ranks share {counted(limit, 'CPU')}" + _written(Count(each, given.cpus_per_task), site.job or given),
        where=site.where(source, object="cpu"),
        evidence={"ranks_on_node": ranks, "cpus": limit, "cpus_per_task": each},
        fix=Fix(
            f"request the CPUs of all ranks and their data loaders: --cpus-per-task={ranks} is one for each rank"
            if started == 1
            else f"request more CPUs for each task (--cpus-per-task): {ranks} ranks and their data loaders share them",
            where="job-script",
        ),
    )


def _requests_no_cpus(site: LaunchSite, given: Allocation) -> bool:
    """Return whether nothing in a batch script sets the CPUs of a job, and no option gives it a whole node."""
    job = site.of_job
    named = {name for one in (given, job) if one is not None for name in one.directives}
    return (
        job is not None
        and bool(job.directives)
        and site.command.cpus_per_task is None
        and not (site.command.unknown & {"cpus_per_task", "tasks", "tasks_per_node"})
        and given.cpus_per_task is None
        and given.cpus_per_gpu is None
        and named.isdisjoint(_WAYS_TO_CPUS)
        and any(scalar is not None for scalar in (job.gpus, job.gpus_per_node, job.gpus_per_task))
    )


def _default_cpus(site: LaunchSite, given: Allocation) -> Iterator[Finding]:
    """Yield the finding if the ranks of a launcher share the one CPU that each task or chunk gets by default."""
    ranks = ranks_on_node(site)
    starter = task_starter(site.command)
    if site.kind == "markdown" or ranks is None or ranks < 2 or site.command.launcher not in NODE_LAUNCHERS:
        return
    # the tasks of a job are CPUs for a launcher that the script itself starts
    tasks = tasks_on_node(site) if starter else tasks_in_job(given)
    if tasks is None or starter not in (None, "srun") or (limit := 1 if starter else tasks) >= ranks:
        return
    option, default = _ONE_CPU[given.scheduler]
    source = process_count_word(site)
    yield rules.DC325.found(
        f"{ranks} ranks share {counted(limit, 'CPU')}: the script requests none, and {default}",
        # a site may set another default, and whole nodes
        severity=Severity.INFO,
        where=site.where(source, object="cpu"),
        evidence={"ranks_on_node": ranks, "cpus": limit},
        fix=Fix(
            f"request the CPUs of all ranks and their data loaders: {option.format(ranks)} is one for each rank",
            where="job-script",
        ),
    )


def _default_cpus_of_a_script(site: LaunchSite) -> Iterator[Finding]:
    """Yield the finding if srun starts a script on several GPUs, which may start ranks, with the CPU of a default."""
    given = site.allocation
    if given is None or given.heterogeneous or task_starter(site.command) != "srun":
        return
    gpus, tasks = gpus_given(site), tasks_on_node(site)
    if (
        gpus is None
        or not tasks
        or gpus.number < 2 * tasks
        or not uses_gpus(site)
        or not _requests_no_cpus(site, given)
    ):
        return
    option, default = _ONE_CPU["slurm"]
    each = gpus.number // tasks
    yield rules.DC325.found(
        f"each task has one CPU for {each} GPUs: the script requests none, and {default}",
        severity=Severity.INFO,
        where=site.where(object="cpu"),
        evidence={"gpus_of_task": each, "cpus": 1},
        fix=Fix(
            f"request the CPUs of all ranks and their data loaders: {option.format(each)} is one for each GPU",
            where="job-script",
        ),
    )


def _slots_of(site: LaunchSite, given: Allocation) -> Iterator[Finding]:
    """Yield the finding if more ranks than slots start on a host of LSF, where a slot is a core (bsub(1), ``-n``)."""
    ranks, job = ranks_on_node(site), site.of_job
    if job is None or site.command.launcher not in NODE_LAUNCHERS or task_starter(site.command) is not None:
        return
    if ranks is None or not {"cpus", "nnodes"}.isdisjoint(job.directives) or runs_on_cpu(site):
        return
    slots = 1 if job.tasks is None else known(job.tasks)
    each = known(given.tasks_per_node)
    if slots is None or (each is None and given.tasks_per_node is not None):
        return
    limit = min(slots, each or slots)
    if limit >= ranks:
        return
    source = process_count_word(site)
    requested = "requests none, and LSF gives it one" if job.tasks is None else f"requests -n {slots}"
    each_host = f" in the job, and span[ptile={each}]" if each is not None and each < slots else ""
    whole = f'#BSUB -n {ranks} and #BSUB -R "span[hosts=1]"'
    yield rules.DC325.found(
        f"{ranks} ranks share {counted(limit, 'slot')} of LSF: the script {requested}{each_host}",
        # a slot is no limit unless the site binds jobs to their cores
        severity=Severity.INFO,
        where=site.where(source, object="cpu"),
        evidence={"ranks_on_node": ranks, "cpus": limit},
        fix=Fix(
            f"request a slot for each rank and its data loaders: {whole} give each rank one on a single host",
            where="job-script",
        ),
    )


def _cpus_of_container(site: LaunchSite) -> Iterator[Finding]:
    """Yield the finding if ``docker run --cpus=2`` is before a launcher of more ranks."""
    ranks = ranks_on_node(site)
    if ranks is None or ranks < 2 or not CONTAINER_PROGRAMS.intersection(site.command.wrappers):
        return
    source = site.value("--cpus")
    if source is None:
        return
    if not re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", source.text) or not 0 < float(source.text) < ranks:
        return
    yield rules.DC325.found(
        f"{ranks} ranks share the {float(source.text):g} CPUs that the container is given",
        where=site.where(source, object="cpu"),
        evidence={"ranks_on_node": ranks, "cpus": float(source.text)},
        fix=Fix("drop --cpus, or give the container the CPUs of all ranks and their data loaders", where="launch-line"),
    )


def uses_gpus(site: LaunchSite) -> bool:
    """Return whether a step runs more than a utility in a job with GPUs: a wrapper of a launcher, or a script."""
    if gpus_given(site) is None:
        return False
    chain = read_chain([word.text for word in site.words])
    program = site.words[chain.position].text if chain.kind == "command" else ""
    if program.rpartition("/")[2] in SHELLS:
        return any(word.text.endswith(SCRIPTS) for word in site.words[chain.position :])
    return bool(program) and program.rpartition("/")[2] not in _UTILITIES


def _cpus_that_srun_forgets(site: LaunchSite) -> int | None:
    """Return the CPUs per task of the batch script if its srun does not use them (Slurm 22.05 and newer).

    srun(1), "--cpus-per-task": the job's value is no longer inherited; SRUN_CPUS_PER_TASK is its variable.
    """
    command = site.command
    if site.kind not in ("slurm", "markdown") or task_starter(site.command) != "srun":
        return None
    if command.cpus_per_task is not None or "cpus_per_task" in command.unknown:
        return None
    if any(name in site.settings for name in ("SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK")):
        return None
    # these set a task's CPUs in another way
    ways = ("--cpus-per-gpu", "--exclusive", "--exact", "--cpu-bind=none", "--cpu-bind=no", "--overcommit", "-O")
    own = [word.text for word in site.words[: len(site.words) - len(command.script_args)]]
    bind = site.value("--cpu-bind")
    if any(word.partition("=")[0] in ways or word in ways for word in own) or (bind and "none" in bind.text):
        return None
    job = site.of_job
    requested = None if job is None else known(job.cpus_per_task)
    return requested if requested is not None and requested > 1 else None


def _pass_them_on(requested: int, file: LaunchFile, site: LaunchSite) -> Finding:
    word = next(word for word in site.words if word.text.rpartition("/")[2] == "srun")
    # in a heredoc for sbatch, the shell that submits would expand the variable
    own = word.span.path == file.path and SUBMITTERS.keys().isdisjoint(site.command.wrappers)
    edits = (word.span.followed_by(" --cpus-per-task=$SLURM_CPUS_PER_TASK"),) if own else ()
    line = corrected_line(file, edits) if edits else None
    return rules.DC325.found(
        f"srun does not inherit the batch script's {requested} CPUs per task, so each task may run on one CPU",
        # the site's task binding decides, and no job script shows it
        severity=Severity.INFO,
        where=site.where(word, object="srun"),
        evidence={"cpus_per_task": requested},
        fix=Fix(
            (
                "write 'export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK' before it, or give srun the number"
                if own
                else f"give srun the number: --cpus-per-task={requested}"
            )
            + (f": {line}" if line else ""),
            edits=edits,
            where="job-script",
            risk="each task takes all the CPUs that the script requests" if edits else None,
        ),
    )


# what a job requests of its nodes


def _allocations(launch_files: LaunchFiles) -> Iterator[Allocation]:
    """Yield each job's allocation once: that of the file, or of an sbatch or srun in it."""
    for file in launch_files.files:
        if file.allocation is not None:
            found = [file.allocation]
        else:
            found = [site.allocation for site in file.sites if site.allocation is not None]
        seen: set[int] = set()
        for allocation in found:
            if not allocation.heterogeneous and id(allocation) not in seen:
                seen.add(id(allocation))
                yield allocation


def _requested_gpus(given: Allocation) -> Count | None:
    """Return the GPUs that an allocation requests on each node."""
    each = known(given.gpus_per_node)
    if each is not None:
        return Count(each, given.gpus_per_node)
    nodes, total = known(given.nodes), known(given.gpus)
    if total is not None and nodes and total % nodes == 0:
        return Count(total // nodes, given.gpus)
    per_task, tasks = known(given.gpus_per_task), tasks_in_job(given)
    if per_task is not None and tasks is not None:
        return Count(per_task * tasks, given.gpus_per_task)
    return None
