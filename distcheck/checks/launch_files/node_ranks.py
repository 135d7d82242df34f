"""The number of nodes that a launcher expects and the rank of each, compared with the scheduler and the file.

``pods.py`` checks the pods of Kubernetes manifests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.wording import counted

from .context import (
    NODE_RANK_OPTIONS,
    NODES_OPTIONS,
    ExpectedNodes,
    bears_on_nodes,
    by_each_task,
    edit_value,
    expected_nodes,
    is_remote,
    job_nodes,
    launch_lines,
    location_of,
    option_name,
    rendezvous_of,
    several_nodes,
    step_of,
    with_variables,
    worst_per_location,
)
from .model import TORCHRUN_LAUNCHERS, LaunchFile, LaunchFiles, LaunchSite, Repeat
from .rendezvous import agents_alone
from .variable_forwarding import takes_first_node

#: Variables with the number of a task or node in a step; they are 0 in the body of a job script.
_NUMBERS_TASK = lazy(r"\$\{?(SLURM_(?:PROCID|NODEID|LOCALID))\b")
#: Programs that run a command on each host of a list.
_FOR_ALL_HOSTS = frozenset({"pdsh", "clush"})
#: Kinds of files with examples, or whose lines no user starts on each node by hand.
_SHOWN = frozenset({"slurm", "markdown"})


class GivenNodes(NamedTuple):
    """The nodes that a launch line will run on, and their source for a message."""

    nodes: int
    by: str
    #: a fix can use the number from Slurm
    slurm: bool = False


# DC804


@probe(rules.DC804)
@worst_per_location
def launcher_expects_the_nodes_there_are(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The launcher expects as many nodes as the scheduler or the file's own loop starts it on."""
    for file, site in launch_lines(launch_files):
        expected = expected_nodes(site)
        if site.kind == "pod" or expected is None or not expected.literal or site.command.standalone:
            continue
        given = _given(file, site, expected)
        if given is None or expected.low <= given.nodes <= expected.high:
            continue
        yield _differ(site, expected, given)
    for file in launch_files.files:
        yield from _siblings_differ(file)


def _given(file: LaunchFile, site: LaunchSite, expected: ExpectedNodes) -> GivenNodes | None:
    """Return the nodes on which the line is started, or None if unknown, or if other lines may start the rest."""
    command = site.command
    step = step_of(site)
    whole = job_nodes(site)
    of_job = None if whole is None else GivenNodes(whole, _job(site), slurm=site.in_slurm_job)
    hosts = [repeat for repeat in site.repeats if repeat.what == "hosts"]
    in_array = site.job is not None and site.job.array
    # the elements of a job array may be the nodes of one job
    if bears_on_nodes(site) or (
        in_array and any("SLURM_ARRAY_TASK" in with_variables(site, one.text) for one in site.words)
    ):
        return None
    if expected.high == step.tasks and (step.tasks_on_node or 1) > 1:
        return None  # agents that share a node, and count as one each
    if command.launcher == "deepspeed":
        # started once, on hosts that it selects itself
        return of_job if of_job is not None and expected.low > of_job.nodes else None
    if step.starter == "srun":
        if step.partial:
            return of_job if of_job is not None and expected.low > of_job.nodes else None
        numbered = any("SLURM_PROCID" in word or "SLURM_NODEID" in word for word in command.script_args)
        if step.nodes is None or (expected.high == 1 and numbered):
            return None
        # in the body of the job $SLURM_NNODES is the number of all its nodes
        return GivenNodes(step.nodes, f"srun starts it on {counted(step.nodes, 'node')}", slurm=step.nodes == whole)
    if step.starter is not None:
        return (
            None
            if step.nodes is None
            else GivenNodes(step.nodes, f"{step.starter} starts it on {counted(step.nodes, 'node')}")
        )
    if hosts:
        return _by_loop(file, site, hosts[-1], expected)
    if is_remote(site) or site.repeats or expected.high == 1:
        return None  # a launcher for one node, in the body of a larger job, is the matter of DC108
    return of_job


def _job(site: LaunchSite) -> str:
    given = site.of_job
    scheduler = "" if given is None else given.scheduler
    by = f" of {scheduler.upper()}" if scheduler in ("pbs", "lsf") else ""
    return f"the job{by} requests {counted(job_nodes(site) or 0, 'node')}"


def _by_loop(file: LaunchFile, site: LaunchSite, loop: Repeat, expected: ExpectedNodes) -> GivenNodes | None:
    """Return the nodes of a loop over hosts in the file; another line may start the first node."""
    if loop.times is None or loop.times < 1 or expected.high == 1:
        return None
    others = [
        other
        for other in file.sites
        if other is not site and other.command.script == site.command.script and other.span != site.span
    ]
    if others and expected.low <= loop.times + len(others) <= expected.high:
        return None
    return GivenNodes(loop.times, f"{_repeated_by(site)} starts it on {counted(loop.times, 'node')}")


def _repeated_by(site: LaunchSite) -> str:
    """Return what runs the line on each host: a program with a list of hosts, or the file's own loop."""
    return next((name for name in site.command.wrappers if name in _FOR_ALL_HOSTS), "the loop")


def _differ(site: LaunchSite, expected: ExpectedNodes, given: GivenNodes) -> Finding:
    command = site.command
    word = site.value(*NODES_OPTIONS)
    name = option_name(site, NODES_OPTIONS)
    if expected.low > given.nodes:
        lack = expected.low - given.nodes
        then = f"it waits for {lack} that never come{'s' * (lack == 1)}"
    else:
        more = given.nodes - expected.high
        then = (
            agents_alone(site, given.nodes)
            if expected.high == 1
            else f"{more} of them find{'s' * (more == 1)} no slot in the job"
        )
    value = "$SLURM_NNODES" if given.slurm else str(given.nodes)
    edits = edit_value(site, NODES_OPTIONS, value)
    return rules.DC804.found(
        f"{command.launcher} expects {expected.text} node{'s' * (expected.high != 1)} ({name}), but {given.by}: {then}",
        where=location_of(site, word, name),
        evidence={"nnodes_min": expected.low, "nnodes_max": expected.high, "nodes": given.nodes},
        fix=Fix(
            f"use Slurm's number, so that both always agree: {name}=$SLURM_NNODES"
            if given.slurm
            else f"write {name}={given.nodes}, or start it on {expected.text} nodes",
            edits=edits,
            where="job-script" if given.slurm else "launch-line",
            risk="the number may be right, and the request wrong",
        ),
    )


def _siblings_differ(file: LaunchFile) -> Iterator[Finding]:
    """Yield the lines of one file for nodes of the same job that expect different numbers of nodes."""
    for group in _jobs_by_hand(file):
        counts = [expected.high for site in group if (expected := expected_nodes(site)) is not None]
        usual = max(set(counts), key=lambda count: (counts.count(count), count == len(group)))
        ranks = {site.command.node_rank for site in group}
        if len(set(counts)) < 2 or len(ranks) < len(group):
            continue
        for site in group:
            expected = expected_nodes(site)
            if expected is not None and expected.high != usual:
                yield _differ(
                    site, expected, GivenNodes(usual, f"the other lines of this job expect {counted(usual, 'node')}")
                )


def _jobs_by_hand(file: LaunchFile) -> list[list[LaunchSite]]:
    """Return the groups of lines that start the nodes of one job: same script and rendezvous, each with a node rank.

    Something must separate the nodes: a test, a remote host, or the background. Behind lines in the background, one may
    be in the foreground.
    """
    groups: dict[tuple[object, ...], list[LaunchSite]] = {}
    for site in file.sites:
        command = site.command
        expected = expected_nodes(site)
        rendezvous = rendezvous_of(site)
        if (
            command.node_rank is None
            or expected is None
            or expected.high < 2
            or rendezvous is None
            or site.kind == "pod"
        ):
            continue
        key = (
            command.launcher,
            command.script,
            rendezvous.host,
            command.master_port,
            command.script_args,
            site.routine,
        )
        groups.setdefault(key, []).append(site)
    return [group for group in groups.values() if len(group) > 1 and _are_separate(group)]


def _are_separate(group: list[LaunchSite]) -> bool:
    here = [site for site in group if not site.conditions and not is_remote(site) and not site.background]
    return not here or (here == group[-1:] and all(site.background for site in group[:-1]))


# DC805


@probe(rules.DC805)
@worst_per_location
def every_node_has_its_own_rank(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A line that runs on several nodes gives each of them a different node rank."""
    lines = list(launch_lines(launch_files))
    ranks = {site.command.node_rank for _, site in lines} - {None}
    for _, site in lines:
        if site.kind != "pod" and _takes_the_default(site):
            nodes = _on_several(site)
            if nodes is not None:
                yield _not_given(site, nodes)
        if site.kind == "pod" or not _rank_counts(site):
            continue
        rank = _constant(site)
        if rank is None:
            continue
        nodes = _on_several(site)
        if nodes is not None:
            yield _all_alike(site, rank, nodes)
        elif len(ranks) == 1 and _alone(site):
            yield _one_for_all(site, rank)
    for file in launch_files.files:
        yield from _given_twice(file)


def _rank_counts(site: LaunchSite) -> bool:
    """Return whether the launcher uses the node rank; with c10d it does not (DC806)."""
    command = site.command
    return (
        site.value(*NODE_RANK_OPTIONS) is not None
        and command.rdzv_backend in (None, "static")
        and "rdzv_backend" not in command.unknown
        and not command.standalone
    )


def _takes_the_default(site: LaunchSite) -> bool:
    """Return whether a torchrun for several nodes has a static rendezvous, and takes its default for the node rank."""
    expected = expected_nodes(site)
    return (
        expected is not None
        and expected.low > 1
        and not site.command.standalone
        and site.value(*NODE_RANK_OPTIONS) is None
        and takes_first_node(site)
    )


def _not_given(site: LaunchSite, nodes: str) -> Finding:
    loop = next((repeat for repeat in site.repeats if repeat.what == "hosts"), None)
    return rules.DC805.found(
        f"{nodes}, and torchrun gets no --node-rank: each node takes 0, and no process has the ranks of the others",
        where=location_of(site, site.value("--nnodes"), "--nnodes"),
        evidence={"node_rank": 0},
        fix=Fix(
            _per_node(site, "--node-rank", loop).removeprefix("drop --node-rank and "),
            where="job-script" if step_of(site).starter == "srun" else "launch-line",
        ),
    )


def _constant(site: LaunchSite) -> str | None:
    """Return the node rank if it is the same on every node, otherwise None."""
    if site.command.node_rank is not None:
        return str(site.command.node_rank)
    word = site.value(*NODE_RANK_OPTIONS)
    if word is None or step_of(site).starter != "srun":
        return None
    # in the body of a job script these belong to the batch task
    match = _NUMBERS_TASK.search(with_variables(site, word.text))
    return f"${match[1]}" if match is not None and by_each_task(site, word) is False else None


def _on_several(site: LaunchSite) -> str | None:
    """Return what runs the line on several nodes, for a message, or None."""
    command = site.command
    step = step_of(site)
    if several_nodes(site) is False:
        return None
    if step.starter == "srun":
        # one line per node, each with its own rank, uses a part of the nodes
        alone = step.nodes == 1 or step.tasks == 1
        several = (step.nodes or 1) > 1 and (step.tasks or 2) > 1
        return f"srun starts it on {step.nodes} nodes" if several and not alone else None
    if step.starter is not None:
        several = (step.nodes or 1) > 1 or ((step.tasks or 1) > 1 and several_nodes(site) is True)
        return f"{step.starter} starts it {step.tasks or step.nodes} times" if several else None
    for repeat in site.repeats:
        if repeat.what == "hosts" and (repeat.times is None or repeat.times > 1) and several_nodes(site):
            times = "on each of its hosts" if repeat.times is None else f"on {repeat.times} hosts"
            return f"{_repeated_by(site)} starts it {times}"
    if _FOR_ALL_HOSTS.intersection(command.wrappers) and several_nodes(site):
        return f"{_repeated_by(site)} starts it on all hosts"
    return None


def _all_alike(site: LaunchSite, rank: str, nodes: str) -> Finding:
    word = site.value(*NODE_RANK_OPTIONS)
    name = option_name(site, NODE_RANK_OPTIONS)
    expanded = rank.startswith("$")
    seen = f"{name}={rank}, which this shell expands to 0 before srun starts a task" if expanded else f"{name}={rank}"
    loop = next((repeat for repeat in site.repeats if repeat.what == "hosts"), None)
    return rules.DC805.found(
        f"{nodes}, and every node gets {seen}: the others wait for ranks that no process has",
        where=location_of(site, word, name),
        evidence={"node_rank": rank},
        fix=Fix(_per_node(site, name, loop), where="job-script" if step_of(site).starter == "srun" else "launch-line"),
    )


def _per_node(site: LaunchSite, name: str, loop: Repeat | None) -> str:
    command = site.command
    if step_of(site).starter == "srun":
        start = "accelerate launch" if command.launcher == "accelerate" else command.launcher
        inner = f"expand it in each task: srun … bash -c '{start} {name}=$SLURM_NODEID …'"
        if command.launcher in TORCHRUN_LAUNCHERS:
            return (
                f"drop {name} and let the nodes number themselves: --rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID "
                f"--rdzv-endpoint=HOST:29400 with the first node's name; or {inner}"
            )
        return inner
    if _repeated_by(site) == "pdsh":
        return f"let pdsh number them: {name}=%n"
    if loop is not None and _repeated_by(site) == "the loop":
        return f"count the hosts in the loop, and give each its number: {name}=$rank, with rank=$((rank + 1)) behind it"
    return f"give each node its own number from 0 on, as {name}"


def _alone(site: LaunchSite) -> bool:
    """Return whether each node may have its own copy of the file, with a literal rank in a line for several nodes."""
    expected = expected_nodes(site)
    if expected is None or expected.high < 2 or site.background or site.conditions or site.repeats or is_remote(site):
        return False
    return step_of(site).starter is None and site.command.node_rank is not None and site.kind not in _SHOWN


def _one_for_all(site: LaunchSite, rank: str) -> Finding:
    word = site.value(*NODE_RANK_OPTIONS)
    name = option_name(site, NODE_RANK_OPTIONS)
    return rules.DC805.found(
        f"each node that runs this line gets {name}={rank}, and it is for several nodes",
        severity=Severity.INFO,
        where=location_of(site, word, name),
        evidence={"node_rank": rank},
        fix=Fix(f'let each node give its number: {name}="$1", or {name}="$NODE_RANK"', where="launch-line"),
    )


def _given_twice(file: LaunchFile) -> Iterator[Finding]:
    """Yield two lines for nodes of one job with the same number, if the file starts all its nodes."""
    for group in _jobs_by_hand(file):
        counts = {expected.high for site in group if (expected := expected_nodes(site)) is not None}
        if counts != {len(group)}:
            continue
        first: dict[int, LaunchSite] = {}
        for site in group:
            rank = site.command.node_rank
            if rank is None or not _rank_counts(site):
                continue
            other = first.setdefault(rank, site)
            if other is site or other.span == site.span:
                continue
            word = site.value(*NODE_RANK_OPTIONS)
            free = sorted(set(range(len(group))) - {one.command.node_rank for one in group})
            name = option_name(site, NODE_RANK_OPTIONS)
            yield rules.DC805.found(
                f"two lines of this job give {name}={rank} (line {other.span.line} as well)"
                + (f", and none gives {free[0]}" if free else ""),
                where=location_of(site, word, name),
                evidence={"node_rank": str(rank), "other_line": other.span.line},
                fix=Fix(
                    f"write {name}={free[0]} here" if free else f"give each line its own {name}",
                    edits=edit_value(site, NODE_RANK_OPTIONS, str(free[0])) if len(free) == 1 else (),
                    where="launch-line",
                    risk="the other line may be the wrong one",
                ),
            )


# DC806


@probe(rules.DC806)
@worst_per_location
def node_rank_has_an_effect(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A node rank is given only to a rendezvous that uses it."""
    for _, site in launch_lines(launch_files):
        command = site.command
        word = site.value(*NODE_RANK_OPTIONS)
        if word is None or command.launcher == "deepspeed":
            continue
        backend = "c10d" if command.standalone else command.rdzv_backend
        expected = expected_nodes(site)
        if backend in (None, "static") or (not command.standalone and expected is not None and expected.high == 1):
            continue
        name = option_name(site, NODE_RANK_OPTIONS)
        because = "--standalone" if command.standalone else f"--rdzv-backend={backend}"
        yield rules.DC806.found(
            f"{name} has no effect with {because}: nodes are numbered in the order in which they join",
            severity=Severity.INFO,
            where=location_of(site, word, name),
            evidence={"rdzv_backend": backend, "node_rank": command.node_rank},
            fix=Fix(
                f"drop {name}; if the order matters, use the static rendezvous: --master-addr and "
                "--master-port with the first node's, and no --rdzv-backend",
                where="launch-line",
            ),
        )
