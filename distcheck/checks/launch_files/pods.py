"""Pods compared with their ranks: shared memory, GPUs, CPUs, the operator's variables, the nodes of a job.

Only numbers in a manifest are compared. A template, a patch or an image's own entry point is unknown. ``variables.py``
checks the variables themselves, ``ports.py`` and ``rendezvous.py`` the rendezvous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, surplus_ranks
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.core.wording import counted, size_text
from distcheck.launch.command import nproc_on
from distcheck.launch.endpoint import split_endpoint
from distcheck.launch.model import LOOPBACK_NAMES, NODE_LAUNCHERS, LaunchCommand

from .context import ADDRESS_OPTIONS, NODE_RANK_OPTIONS, NODES_OPTIONS
from .counts import SHARE_GPUS
from .model import TORCHRUN_LAUNCHERS, FileSetting, LaunchFile, LaunchFiles, LaunchSite, Pods, Scalar, Word, known

MIB = 1 << 20
GIB = 1 << 30
#: Size of /dev/shm that containerd and Docker mount by default.
CONTAINER_DEFAULT_BYTES = 64 * MIB
#: As for a host: NCCL needs segments of 9.2 MiB per channel pair (NVIDIA/nccl#290); eight ranks fail with less.
NEEDED_PER_RANK_BYTES = 64 * MIB
#: As for a host: with less, data loaders with several workers run out as well.
SMALL_BYTES = 1024 * MIB
#: Size in the fix, as in the notes of PyTorch and NCCL, unless the container has less memory.
_ADVISED_GIB = 16

#: Workloads with a whole job per object: no other file adds nodes.
_WHOLE_JOBS = frozenset({"PyTorchJob", "TrainJob", "VolcanoJob", "JobSet", "LeaderWorkerSet"})
#: In these each pod is a node of one job. A launcher that expects one node trains separately in each.
_ONE_WORLD = frozenset({"PyTorchJob", "TrainJob"})
#: Kinds for training: their pods use their GPUs.
_TRAINING_KINDS = _WHOLE_JOBS | {"MPIJob", "TrainingRuntime", "ClusterTrainingRuntime", "RayJob", "RayCluster"}
_LAUNCHERS = NODE_LAUNCHERS - {"deepspeed"}
_NPROC_OPTIONS = ("--nproc-per-node", "--num-processes", "--num-gpus")
_ADDRESS_OPTIONS = (*ADDRESS_OPTIONS, "--rdzv-endpoint")
#: A command that only waits or shows something. What is started in such a pod later is unknown.
_IDLE = lazy(r"\b(?:sleep|nvidia-smi|tail|dcgmi|nvcc|lspci|ibstat|vectorAdd|deviceQuery)\b")
_WORKS = lazy(r"\.py\b|\.sh\b|python|torchrun|accelerate|deepspeed|mpirun|horovod|_perf\b|vllm|sglang|jupyter|serve")
#: A test for GPUs before a launch already decides how many ranks there are.
_TESTS_GPUS = lazy(r"gpu|cuda|nvidia|nproc|device|debug", re.IGNORECASE)
#: Names of a machine's interfaces that a pod's own network (eth0, net1) does not have (systemd.net-naming-scheme(7);
#: ib, bond and hsn by their drivers).
_HOST_INTERFACE = lazy(r"=?(?:en[ospxP]|ib[0-9psP]|ib$|bond|hsn|mlx|team|wl|eth[1-9]|rdma|roce|br-?ex)")

#: Side effects of a fix.
_OTHER_WORLD_SIZE = "the number of ranks changes, and with it the batch of a step and what a checkpoint was made for"


class _Ranks(NamedTuple):
    """The number of ranks that a launch line or the manifest starts in a container, and its location."""

    number: int
    span: Span
    #: as written: ``--nproc-per-node=8``, ``nprocPerNode: 8``
    text: str
    #: false for a launcher's default
    stated: bool = True
    #: the word with the number, if there is one
    word: Word | None = None
    site: LaunchSite | None = None


@probe(rules.DC320)
def shared_memory_holds_the_ranks(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A pod with GPUs has more at /dev/shm than the default of 64 MiB."""
    reported: set[Span] = set()
    for manifest, pods in _all_pods(launch_files):
        gpus = known(pods.gpus)
        # one template can stand for several roles (an anchor)
        if not gpus or pods.shared_memory not in ("default", "mounted") or pods.span in reported:
            continue
        sites = manifest.sites(pods)
        ranks = max([gpus, *(ranks.number for ranks in _ranks(manifest, pods) if ranks.stated)])
        if not _uses_gpus(pods, sites, alone=ranks < 2):
            continue
        reported.add(pods.span)
        if pods.shared_memory == "default":
            yield _nothing_mounted(pods, gpus, ranks)
        elif pods.shared_memory_bytes is not None and pods.shared_memory_bytes.known:
            yield from _too_small(pods, pods.shared_memory_bytes, ranks)


@probe(rules.DC301)
def every_rank_has_a_gpu(launch_files: LaunchFiles) -> Iterator[Finding]:
    """No container starts more ranks than it has GPUs."""
    reported: set[Span] = set()
    for manifest, pods in _all_pods(launch_files):
        gpus = known(pods.gpus)
        if not gpus:
            continue
        for ranks in _ranks(manifest, pods):
            if ranks.number <= gpus or not ranks.stated or ranks.span in reported or _may_share(pods, ranks.site):
                continue
            reported.add(ranks.span)
            yield rules.DC301.found(
                f"{ranks.text} starts {ranks.number} ranks in a container with {counted(gpus, 'GPU')}: "
                f"{surplus_ranks(gpus, ranks.number)}",
                where=ranks.span.where(object=_name(pods)),
                evidence={"ranks": ranks.number, "gpus": gpus, "kind": pods.kind},
                fix=_as_many_as_gpus(pods, ranks, gpus),
            )


@probe(rules.DC302)
def no_gpu_is_left_idle(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A launcher starts a rank for each GPU of its container."""
    reported: set[Span] = set()
    for manifest, pods in _all_pods(launch_files):
        gpus = known(pods.gpus)
        if not gpus or gpus < 2 or pods.kind == "MPIJob":
            continue
        all_ranks = list(_ranks(manifest, pods))
        for ranks in all_ranks:
            if ranks.number >= gpus or ranks.span in reported or len(all_ranks) > 1 or _chooses_gpus(ranks.site):
                continue
            reported.add(ranks.span)
            rest = gpus - ranks.number
            starts = f"{counted(ranks.number, 'rank')}"
            how = f"{ranks.text} starts {starts}" if ranks.stated else f"{ranks.text}: {starts} is started"
            yield rules.DC302.found(
                f"{how} in a container with {counted(gpus, 'GPU')}: {rest} {'is' if rest == 1 else 'are'} idle",
                severity=Severity.WARNING if ranks.stated else Severity.INFO,
                where=ranks.span.where(object=_name(pods)),
                evidence={"ranks": ranks.number, "gpus": gpus, "kind": pods.kind},
                fix=_as_many_as_gpus(pods, ranks, gpus),
            )


@probe(rules.DC325)
def cpus_are_enough(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A container's CPU limit gives each of its ranks at least one CPU."""
    reported: set[Span] = set()
    for manifest, pods in _all_pods(launch_files):
        if pods.cpus is None or not pods.cpus.known or pods.cpus.span in reported:
            continue
        cpus = pods.cpus.value
        ranks = max((ranks.number for ranks in _ranks(manifest, pods)), default=0)
        if ranks < 2 or cpus >= ranks:
            continue
        reported.add(pods.cpus.span)
        yield rules.DC325.found(
            f"{ranks} ranks share the {cpus:g} CPU{'s' * (cpus != 1)} to which the container is limited",
            where=pods.cpus.span.where(object=_name(pods)),
            evidence={"ranks": ranks, "cpus": cpus, "kind": pods.kind},
            fix=Fix(
                f"raise resources.limits.cpu to {4 * ranks} (a rank needs one for itself and some for its data "
                "loader), or drop the limit",
                where="job-script",
            ),
        )


@probe(rules.DC804)
def nodes_are_as_many_as_pods(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A launcher expects as many nodes as the manifest has pods."""
    reported: set[Span] = set()
    for manifest, site, pods in _launches(launch_files):
        command = site.command
        nodes = known(pods.nodes)
        if site.span in reported or site.conditions or site.repeats or not nodes:
            continue
        if "nnodes_min" in command.unknown and not command.standalone:
            continue
        least, most = command.nnodes_min, command.nnodes_max or command.nnodes_min
        if command.standalone:
            # the rendezvous is in the pod, whatever the other options are (torch 2.13, torch.distributed.run)
            least = most = 1
        if least is None or most is None or least <= nodes <= most:
            continue
        if not _differ(manifest, site, pods, least, most, nodes):
            continue
        reported.add(site.span)
        word = site.value(*NODES_OPTIONS) or site.option("--standalone")
        by = "--standalone is" if command.standalone else f"{_option(site, NODES_OPTIONS)} counts"
        what = f"{by} {counted(least, 'node') if least == most else f'{least} to {most} nodes'}"
        becomes = "they wait for each other forever" if least > nodes else _what_becomes(most, nodes)
        yield rules.DC804.found(
            f"{what}, but this {pods.kind} has {counted(nodes, 'pod')}: {becomes}",
            where=site.where(word, object=_name(pods)),
            evidence={"nnodes_min": least, "nnodes_max": most, "pods": nodes, "kind": pods.kind},
            fix=_count_the_pods(site, pods, nodes),
        )


@probe(rules.DC805)
def each_pod_has_its_own_node_rank(launch_files: LaunchFiles) -> Iterator[Finding]:
    """No two pods of a job start their launcher with the same node rank."""
    seen: dict[tuple[str, str | None, str | None, int], LaunchSite] = {}
    reported: set[Span] = set()
    for manifest, site, pods in _launches(launch_files):
        command = site.command
        rank = command.node_rank
        if rank is None or site.span in reported or site.conditions or site.repeats or site.background:
            continue
        if command.standalone or command.rdzv_backend not in (None, "static") or "rdzv_backend" in command.unknown:
            continue  # the node rank is not used: DC806
        if (command.nnodes_max or command.nnodes_min or known(pods.nodes) or 1) < 2:
            continue
        replicas = known(pods.replicas)
        # two objects with one name in one file are two versions
        key = (manifest.path, pods.kind if pods.kind in _WHOLE_JOBS else None, pods.name, rank)
        other = seen.setdefault(key, site) if key[1] is not None else site
        several = replicas is not None and replicas > 1
        twin = other is not site and other.pods is not None and other.pods.role != pods.role
        if not several and not twin:
            continue
        reported.add(site.span)
        word = site.value(*NODE_RANK_OPTIONS)
        by = _option(site, NODE_RANK_OPTIONS) if word else f"a node rank of {rank}"
        which = (
            f"all {replicas} pods of this {_role(pods)}" if several else f"{_role(pods)} and {_role(other.pods)} alike"
        )
        yield rules.DC805.found(
            f"{by} stands for {which}: each node of a job needs its own",
            where=site.where(word, object=_name(pods)),
            evidence={"node_rank": rank, "pods": replicas, "kind": pods.kind},
            fix=_number_the_pods(site, pods, word),
        )


@probe(rules.DC419)
def pods_meet_at_an_address_that_all_reach(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The pods of a job on several nodes do not use a loopback address for the rendezvous."""
    reported: set[Span] = set()
    for manifest, site, pods in _launches(launch_files):
        command = site.command
        if site.span in reported or command.standalone or site.background or site.conditions:
            continue
        address = command.master_addr
        if command.rdzv_backend not in (None, "static") or address is None:
            address = split_endpoint(command.rdzv_endpoint)[0] if command.rdzv_endpoint else address
        if address is None or not (address.lower() in LOOPBACK_NAMES or address.startswith("127.")):
            continue
        most = command.nnodes_max or command.nnodes_min
        nodes = known(pods.nodes)
        if most is None and ("nnodes_min" in command.unknown or pods.kind in _ONE_WORLD):
            most = nodes
        if (most or 1) < 2 or (nodes is not None and nodes < 2):
            continue
        if known(pods.replicas) == 1 and (command.node_rank == 0 or (pods.role or "").lower() in ("master", "leader")):
            continue  # it is the head itself
        if known(pods.replicas) == 1 and _shares_its_pod(manifest, pods):
            continue
        reported.add(site.span)
        word = site.value(*_ADDRESS_OPTIONS)
        yield rules.DC419.found(
            f"each of these pods uses its own {address} as the rendezvous of a job on {counted(most or 2, 'node')}",
            where=site.where(word, object=_name(pods)),
            evidence={"address": address, "nnodes": most, "kind": pods.kind},
            fix=Fix(f"name the pod with node rank 0: {_head(pods)}", where="launch-line"),
        )


@probe(rules.DC809)
def the_operator_sets_its_variables_alone(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A container sets no variable that an operator sets, and no rank that all pods would share."""
    reported: set[Span] = set()
    for manifest, pods in _all_pods(launch_files):
        for setting in pods.settings:
            if setting.name in pods.injected and setting.span not in reported:
                for finding in _preset(pods, setting):
                    reported.add(setting.span)
                    yield finding
        replicas = known(pods.replicas)
        if replicas is None or replicas < 2 or pods.injected:
            continue
        settings = {setting.name: setting for setting in pods.settings}
        rank, world = settings.get("RANK"), settings.get("WORLD_SIZE")
        plain = [
            site
            for site in manifest.sites(pods)
            if site.command.launcher == "python" and not site.conditions and site.settings.get("RANK") == rank
        ]
        if (
            rank is None
            or world is None
            or not plain
            or rank.span in reported
            or not _is_count(rank.value)
            or not _is_count(world.value)
        ):
            continue
        if int(world.value or 0) > 1:
            reported.add(rank.span)
            yield rules.DC809.found(
                f"all {replicas} pods of this {_role(pods)} get RANK={rank.value} of {world.value}: "
                "each process of a job needs its own",
                where=rank.span.where(variable="RANK", object=_name(pods)),
                evidence={"RANK": rank.value, "WORLD_SIZE": world.value, "pods": replicas},
                fix=Fix(
                    "take RANK from the pod's own index (metadata.labels['apps.kubernetes.io/pod-index'] of a "
                    "StatefulSet, JOB_COMPLETION_INDEX of an Indexed Job), or start the pods with torchrun",
                    where="job-script",
                ),
            )


@probe(rules.DC406)
def nccl_interface_is_one_of_the_pod(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A pod with its own network does not select an interface of the machine for NCCL."""
    reported: set[Span] = set()
    for manifest, pods in _all_pods(launch_files):
        if pods.host_network is not False:
            continue
        found = list(pods.settings)
        found.extend(setting for site in manifest.sites(pods) for setting in site.settings.values())
        for setting in found:
            if setting.name != "NCCL_SOCKET_IFNAME" or not setting.value or setting.span in reported:
                continue
            names = [name.strip() for name in setting.value.split(",") if name.strip()]
            if setting.value.startswith("^") or not names or not all(map(_HOST_INTERFACE.match, names)):
                continue
            reported.add(setting.span)
            yield rules.DC406.found(
                f"NCCL_SOCKET_IFNAME={setting.value[:80]} names an interface of the machine, and without hostNetwork "
                "a pod has interfaces of its own, eth0 as a rule",
                severity=Severity.INFO,
                where=(setting.value_span or setting.span).where(variable=setting.name, object=_name(pods)),
                evidence={"value": setting.value[:80], "host_network": False, "kind": pods.kind},
                fix=Fix(
                    "write NCCL_SOCKET_IFNAME=eth0, or give the pod the machine's network: hostNetwork: true with "
                    "dnsPolicy: ClusterFirstWithHostNet",
                    where="job-script",
                ),
            )


# DC320


def _nothing_mounted(pods: Pods, gpus: int, ranks: int) -> Finding:
    held = counted(gpus, "GPU") if ranks == gpus else f"{counted(gpus, 'GPU')} and {ranks} ranks"
    return rules.DC320.found(
        f"nothing is mounted at /dev/shm of this container with {held}: "
        "it has 64 MiB, the default of container runtimes",
        severity=Severity.WARNING if ranks > 1 else Severity.INFO,
        where=pods.span.where(object=_name(pods))._replace(end_line=None, end_column=None),
        evidence={
            "total_bytes": CONTAINER_DEFAULT_BYTES,
            "ranks": ranks,
            "needed_bytes": max(ranks * NEEDED_PER_RANK_BYTES, SMALL_BYTES),
            "kind": pods.kind,
        },
        fix=Fix(
            f"mount a memory volume there: under volumes of the pod '- {{name: dshm, emptyDir: {{medium: Memory, "
            f"sizeLimit: {_advised(pods)}Gi}}}}', under volumeMounts of the container '- {{name: dshm, mountPath: "
            "/dev/shm}'; what is in it counts towards the container's memory",
            where="job-script",
        ),
    )


def _too_small(pods: Pods, size: Scalar, ranks: int) -> Iterator[Finding]:
    needed = max(ranks * NEEDED_PER_RANK_BYTES, SMALL_BYTES)
    if ranks < 2 or size.value >= needed:
        return
    yield rules.DC320.found(
        f"the volume at /dev/shm is limited to {size_text(size.value)}; NCCL of {ranks} ranks can need "
        f"{size_text(needed)}",
        where=size.span.where(object=_name(pods)),
        evidence={
            "total_bytes": size.value,
            "ranks": ranks,
            "needed_bytes": needed,
            "kind": pods.kind,
        },
        fix=Fix(
            f"write sizeLimit: {_advised(pods)}Gi, or drop it; without it the container's memory is the limit",
            edits=(size.span.replaced_by(f"{_advised(pods)}Gi"),),
            where="job-script",
            risk="what the ranks put there counts towards the memory of the container",
        ),
    )


def _advised(pods: Pods) -> int:
    """Return the recommended GiB: at most half of the container's memory, which includes shared memory."""
    memory = pods.memory_bytes
    if memory is None or not memory.known:
        return _ADVISED_GIB
    return max(1, min(_ADVISED_GIB, int(memory.value // (2 * GIB))))


def _uses_gpus(pods: Pods, sites: list[LaunchSite], *, alone: bool) -> bool:
    """Return whether the container uses its GPUs; with one GPU only if it certainly trains."""
    if sites:
        return True
    text = " ".join(pods.command)
    idle = _IDLE.search(text) is not None and not _WORKS.search(text)
    return not idle and (pods.kind in _TRAINING_KINDS or not alone)


# ranks


def _ranks(manifest: _Manifest, pods: Pods) -> Iterator[_Ranks]:
    """Yield the ranks of a container: from its launch lines, otherwise from the manifest."""
    sites = manifest.sites(pods)
    for site in sites:
        found = _ranks_of(pods, site)
        if found is not None and not any(_TESTS_GPUS.search(test) for test in site.conditions):
            yield found
    nproc = known(pods.nproc)
    if sites or nproc is None or pods.nproc is None:
        return
    if pods.kind == "MPIJob":
        # slots are a maximum for mpirun; its own -np gives the number
        launcher = [site for other in manifest.job(pods) if other.role == "Launcher" for site in manifest.sites(other)]
        replicas = known(pods.replicas)
        tasks = launcher[0].command.tasks if len(launcher) == 1 else None
        if tasks is None or replicas is None or tasks != nproc * replicas:
            return
        yield _Ranks(nproc, pods.nproc.span, f"slotsPerWorker: {nproc}")
        return
    yield _Ranks(nproc, pods.nproc.span, f"{_nproc_key(pods)}: {nproc}")


def _nproc_key(pods: Pods) -> str:
    return "numProcPerNode" if "Train" in pods.kind else "nprocPerNode"


def _ranks_of(pods: Pods, site: LaunchSite) -> _Ranks | None:
    command = site.command
    if command.launcher not in NODE_LAUNCHERS or command.nproc == "cpu" or site.repeats:
        return None
    count = nproc_on(command, gpus=known(pods.gpus), cpus=0)
    if count is None:
        return None
    if command.launcher in TORCHRUN_LAUNCHERS and command.nproc is None:
        if any(name in site.settings and site.settings[name].value is None for name in ("PET_NPROC_PER_NODE",)):
            return None
        return _Ranks(count, site.span, f"{command.launcher} without --nproc-per-node", stated=False, site=site)
    word = site.value(*_NPROC_OPTIONS)
    if word is not None:
        return _Ranks(count, word.span, _option(site, _NPROC_OPTIONS), word=word, site=site)
    setting = site.settings.get("PET_NPROC_PER_NODE")
    if setting is not None and setting.value is not None and command.launcher != "deepspeed":
        if pods.nproc is not None and str(pods.nproc.value) == setting.value and setting.value_span is None:
            return _Ranks(count, pods.nproc.span, f"{_nproc_key(pods)}: {setting.value}", site=site)
        return _Ranks(count, setting.span, f"PET_NPROC_PER_NODE={setting.value}", site=site)
    return _Ranks(count, site.span, f"this {command.launcher} line", stated=False, site=site)


def _may_share(pods: Pods, site: LaunchSite | None) -> bool:
    """Return whether the ranks share GPUs on purpose, or use none."""
    names = {setting.name for setting in pods.settings} | (set() if site is None else set(site.settings))
    if names.intersection(SHARE_GPUS):
        return True
    arguments = () if site is None else site.command.script_args
    return any(word.rpartition("=")[2] in ("gloo", "mpi", "cpu") for word in arguments)


def _chooses_gpus(site: LaunchSite | None) -> bool:
    """Return whether the line selects some of the GPUs."""
    if site is None:
        return False
    if site.conditions or site.background or site.command.gpu_ids or site.command.include:
        return True
    return "CUDA_VISIBLE_DEVICES" in site.settings or "CUDA_VISIBLE_DEVICES" in site.command.assignments


def _as_many_as_gpus(pods: Pods, ranks: _Ranks, gpus: int) -> Fix:
    limit = f"request {counted(ranks.number, 'GPU')} under resources.limits"
    if not ranks.stated:
        return Fix(f"write --nproc-per-node={gpus}, or {limit}", where="launch-line")
    if ranks.word is not None and ranks.site is not None:
        option = ranks.text.partition("=")[0]
        if ranks.site.command.launcher == "accelerate":
            # it counts the processes of all machines
            total = gpus * (ranks.site.command.nnodes_min or 1)
            return Fix(f"write {option}={total}, or {limit}", where="launch-line")
        edits = () if ranks.word.origins else (ranks.word.span.replaced_by(str(gpus)),)
        return Fix(f"write {option}={gpus}, or {limit}", edits=edits, where="launch-line", risk=_OTHER_WORLD_SIZE)
    edits = ()
    if pods.nproc is not None and ranks.span == pods.nproc.span:
        written = pods.nproc.written or str(ranks.number)
        edits = (ranks.span.replaced_by(written.replace(str(ranks.number), str(gpus))),)
    wanted = ranks.text.replace(str(ranks.number), str(gpus))
    return Fix(f"write {wanted}, or {limit}", edits=edits, where="job-script", risk=_OTHER_WORLD_SIZE)


# nodes


def _differ(manifest: _Manifest, site: LaunchSite, pods: Pods, least: int, most: int, nodes: int) -> bool:
    """Return whether the numbers certainly differ: no other object adds nodes, and no pod is excluded on purpose."""
    if pods.kind not in _WHOLE_JOBS | {"Job", "StatefulSet"}:
        return False
    if least > nodes:
        # several objects can be parts of one job
        return pods.kind in _WHOLE_JOBS or (nodes > 1 and manifest.objects(pods.kind) == 1)
    # several groups of pods may be separate jobs, and some pods of a job may not train
    if pods.kind not in ("PyTorchJob", "TrainJob", "LeaderWorkerSet"):
        alone = pods.kind in ("JobSet", "StatefulSet", "Job") and manifest.objects(pods.kind) == 1
        return alone and len(list(manifest.job(pods))) == 1 and most > 1 and _has_one_rendezvous(site.command)
    if not all(manifest.sites(other) for other in manifest.job(pods)):
        return False
    return most > 1 or pods.kind in _ONE_WORLD


def _has_one_rendezvous(command: LaunchCommand) -> bool:
    """Return whether all pods with this command use one address and one id."""
    endpoint = "rdzv_endpoint" if command.rdzv_endpoint is not None else "master_addr"
    return getattr(command, endpoint) is not None and not command.unknown & {endpoint, "rdzv_id"}


def _what_becomes(most: int, nodes: int) -> str:
    if most == 1:
        return "each of them trains for itself"
    return f"{nodes - most} of them find{'s' * (nodes - most == 1)} no slot"


def _count_the_pods(site: LaunchSite, pods: Pods, nodes: int) -> Fix:
    word = site.value(*NODES_OPTIONS)
    edits = () if word is None or word.origins else (word.span.replaced_by(str(nodes)),)
    if site.command.standalone:
        return Fix(
            f"drop --standalone, and give --nnodes={nodes} with the node rank and the head's address",
            where="launch-line",
        )
    option = _option(site, NODES_OPTIONS).partition("=")[0].partition(" ")[0]
    return Fix(
        f"write {option}={nodes}, or change the replicas of this {pods.kind}",
        edits=edits,
        where="launch-line",
        risk=_OTHER_WORLD_SIZE,
    )


def _number_the_pods(site: LaunchSite, pods: Pods, word: Word | None) -> Fix:
    by = {
        "PyTorchJob": "$RANK",
        "VolcanoJob": "$VC_TASK_INDEX",
        "Job": "$JOB_COMPLETION_INDEX",
        "JobSet": "$JOB_COMPLETION_INDEX",
        "TrainJob": "$JOB_COMPLETION_INDEX",
        "LeaderWorkerSet": "$LWS_WORKER_INDEX",
        "StatefulSet": "${HOSTNAME##*-}",
    }.get(pods.kind)
    if by is None:
        return Fix("give each pod its own number from 0 on, or use --rdzv-backend=c10d", where="launch-line")
    if pods.kind == "PyTorchJob" and "RANK" not in pods.injected:
        return Fix("drop the node rank: the operator's elasticPolicy numbers the pods", where="launch-line")
    option = _option(site, NODE_RANK_OPTIONS).partition("=")[0].partition(" ")[0] if word else "--node-rank"
    return Fix(f"write {option}={by} (in a text for a shell: bash -c), which differs in each pod", where="launch-line")


def _shares_its_pod(manifest: _Manifest, pods: Pods) -> bool:
    """Return whether another container of the same pod starts ranks: the two share one network."""
    others = [other for other in manifest.job(pods) if other.role == pods.role and other.span != pods.span]
    return any(manifest.sites(other) for other in others)


def _head(pods: Pods) -> str:
    name = pods.name or "NAME"
    if pods.kind == "PyTorchJob":
        return "$MASTER_ADDR" if "MASTER_ADDR" in pods.injected else f"{name}-worker-0"
    if pods.kind == "VolcanoJob":
        return "$MASTER_ADDR" if pods.injected else f"{name}-{pods.role or 'TASK'}-0.{name}"
    if pods.kind == "LeaderWorkerSet":
        return "$LWS_LEADER_ADDRESS"
    if pods.kind == "JobSet":
        # JobSet's host names: its name, the replicated job, the numbers of job and pod; the subdomain is its name
        return f"{name}-{pods.role or 'JOB'}-0-0.{name}"
    if pods.kind == "TrainJob":
        return "drop the option, the trainer sets PET_MASTER_ADDR"
    return f"{name}-0 with the name of its headless Service behind a dot"


# DC809


def _preset(pods: Pods, setting: FileSetting) -> Iterator[Finding]:
    given = pods.operator_values.get(setting.name, ())
    if setting.value is not None and setting.value in given:
        return
    shown = setting.value[:80] if setting.value is not None else None
    where = setting.span.where(variable=setting.name, object=_name(pods))
    evidence = {"value": shown, "operator_gives": list(given), "kind": pods.kind}
    if setting.name.startswith("PET_"):
        yield rules.DC809.found(
            f"{setting.name} is set in the trainer of this TrainJob, which refuses it: the trainer sets it itself",
            where=where,
            evidence=evidence,
            fix=Fix(f"remove {setting.name}; numNodes and numProcPerNode replace it", where="job-script"),
        )
        return
    # any port works, and the value of a reference is unknown
    harmless = setting.value is None or setting.name == "MASTER_PORT"
    is_set = f"{setting.name}={shown}" if shown is not None else setting.name
    instead = f" with {given[0]}" if given else ""
    yield rules.DC809.found(
        f"{is_set} is set in a container of this {pods.kind}, and its operator sets {setting.name} again behind it"
        f"{instead}: the value here has no effect",
        severity=Severity.INFO if harmless else None,
        where=where,
        evidence=evidence,
        fix=Fix(f"remove {setting.name} from env; the operator gives each pod the right one", where="job-script"),
    )


# all


class _Manifest:
    """A file with its pods and launch lines by job."""

    def __init__(self, file: LaunchFile) -> None:
        self.path = file.path
        self.pods = file.pods
        self._sites: dict[tuple[Span, str | None], list[LaunchSite]] = {}
        self._jobs: dict[tuple[str, str | None], list[Pods]] = {}
        self._names: dict[str, set[str | None]] = {}
        for site in file.sites:
            if site.pods is not None:
                self._sites.setdefault((site.pods.span, site.pods.role), []).append(site)
        for pods in file.pods:
            self._jobs.setdefault((pods.kind, pods.name), []).append(pods)
            self._names.setdefault(pods.kind, set()).add(pods.name)

    def sites(self, pods: Pods) -> list[LaunchSite]:
        """Return the launch lines in a container."""
        return self._sites.get((pods.span, pods.role), [])

    def job(self, pods: Pods) -> list[Pods]:
        """Return all pods of the same workload."""
        return self._jobs.get((pods.kind, pods.name), [])

    def objects(self, kind: str) -> int:
        """Return the number of workloads of a kind."""
        return len(self._names.get(kind, ()))


def _all_pods(launch_files: LaunchFiles) -> Iterator[tuple[_Manifest, Pods]]:
    for file in launch_files.files:
        manifest = _Manifest(file) if file.pods else None
        for pods in file.pods:
            if manifest is not None:
                yield manifest, pods


def _launches(launch_files: LaunchFiles) -> Iterator[tuple[_Manifest, LaunchSite, Pods]]:
    """Yield the launch lines in pods whose launcher counts nodes."""
    for manifest, pods in _all_pods(launch_files):
        for site in manifest.sites(pods):
            if site.command.launcher in _LAUNCHERS:
                yield manifest, site, pods


def _is_count(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"[0-9]{1,9}", text) is not None


def _option(site: LaunchSite, names: tuple[str, ...]) -> str:
    """Return an option with its value for a message: ``--nnodes=2``."""
    option, value = site.option(*names), site.value(*names)
    if option is None or value is None:
        return names[0]
    return f"{option.text.partition('=')[0]}={value.text[:40]}"


def _name(pods: Pods) -> str:
    """Return the container's name for the key of a finding; it does not depend on lines."""
    return "/".join(part[:60] for part in (pods.kind, pods.name, pods.role, pods.container) if part)


def _role(pods: Pods | None) -> str:
    if pods is None:
        return "another"
    return f"{pods.kind}'s {pods.role}" if pods.role else pods.kind
