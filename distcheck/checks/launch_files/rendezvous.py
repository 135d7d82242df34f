"""Address and id of the rendezvous of a launch line: one host that all nodes reach, one id for the job.

``ports.py`` checks the port, ``malformed.py`` the syntax of the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.redaction import mask
from distcheck.core.registry import probe
from distcheck.launch.endpoint import is_node_list
from distcheck.launch.model import LOOPBACK_NAMES, NODE_LAUNCHERS
from distcheck.rules import shared_fixes
from distcheck.rules.double_launch import agents_for_one_node

from .context import (
    ADDRESS_OPTIONS,
    Rendezvous,
    assigned_in,
    by_each_task,
    edit_value,
    expected_nodes,
    is_remote,
    job_nodes,
    launch_lines,
    location_of,
    rendezvous_lines,
    rendezvous_of,
    setting,
    several_nodes,
    shown,
    step_of,
    unquoted,
    with_variables,
    worst_per_location,
)
from .model import TORCHRUN_LAUNCHERS, LaunchFile, LaunchFiles, LaunchSite

#: Substitutions with a different result on each host or at each time.
_DIFFERS = lazy(
    r"\$\{?(RANDOM|SRANDOM|EPOCHSECONDS|EPOCHREALTIME|BASHPID|HOSTNAME|SLURM_PROCID|SLURM_NODEID|SLURMD_NODENAME"
    r"|SLURM_LOCALID)\b|\$\$|\b(uuidgen|uuid4?|date|hostname|mktemp|shuf|openssl\s+rand)\b|/dev/u?random|/random/uuid"
)
#: A date without a time is the same on all nodes of a job.
_DAY_ALONE = lazy(r"\bdate\b[^)`|]*%(?:Y|y|F|m|d|D|j|U|V)")
_TIME_OF_DAY = lazy(r"%(?:H|I|k|l|M|S|s|N|T|R|r|c|X)")
_LOOPBACK = lazy(r"127\.\d{1,3}\.\d{1,3}\.\d{1,3}")
_NODE_LISTS = frozenset({"SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "LSB_HOSTS", "LSB_MCPU_HOSTS"})
_SCONTROL = lazy(r"^(?:\$\(|`)\s*scontrol\s+show\s+hostnames?\b[^|;&]*[)`]$")
_ALL_ADDRESSES = lazy(r"^(?:\$\(|`)\s*hostname\s+(?:-I|--all-ip-addresses)\s*[)`]$")
#: The name or address of the host that expands it.
_OWN_NAME = lazy(
    r"(?:\$\(|`)\s*hostname\b[^|;&]*(?:\|\s*(?:awk|cut|head|tr|xargs|sed)\b[^;&]*)?[)`]"
    r"|\$\{?(?:HOSTNAME|SLURMD_NODENAME)\}?"
)
_FALLS_BACK = lazy(r"\|\|\s*(?:echo|printf)\s+['\"]?(localhost|127\.0\.0\.1|0\.0\.0\.0|::1)")
#: Limit of lines of one job that are compared.
_MAX_TOGETHER = 64
#: Words in a path, a name or a comment that mean several simulated nodes on one machine.
_SIMULATED = lazy(
    r"(?i)simulat|emulat|\bfake|\bmock|single[ _-]?(?:machine|host|box)|same (?:machine|host)|one machine"
)
_TEST_PATH = lazy(r"(?:^|/)(?:tests?|testing|ci)(?:/|$)|(?:^|/)test_[^/]*$|_test\.[a-z]+$")


# DC419


@probe(rules.DC419)
@worst_per_location
def master_is_no_loopback(launch_files: LaunchFiles) -> Iterator[Finding]:
    """With several nodes, the rendezvous address is the same host for all of them."""
    jobs = _by_script(launch_files)
    for file, site in rendezvous_lines(launch_files):
        together = jobs.get((file.path, site.command.script), ())
        if site.kind == "pod" or several_nodes(site) is not True:
            continue
        rendezvous = rendezvous_of(site)
        if rendezvous is None:
            yield from _by_default(file, site, together)
            continue
        if not rendezvous.known or not is_loopback(rendezvous.host):
            continue
        given = site.settings.get(rendezvous.variable or "")
        if given is not None and not given.certain and site.command.launcher not in NODE_LAUNCHERS:
            continue
        simulated = _on_one_machine(file, site, together)
        if simulated == "sure":
            continue
        expected = expected_nodes(site)
        nodes = expected.high if expected is not None else step_of(site).nodes
        count = "several" if nodes is None else str(nodes)
        message = f"{count} nodes use the rendezvous {rendezvous.host} ({rendezvous.source}), so each finds only itself"
        # the first node serves the rendezvous and may name itself so; the others give its address in lines of their own
        first = site.command.node_rank == 0 and site.command.rdzv_backend in (None, "static")
        if first:
            message = (
                f"only the first of {count} nodes can use the rendezvous {rendezvous.host} ({rendezvous.source}): "
                "the same line on another one finds only that node"
            )
        yield rules.DC419.found(
            message,
            severity=Severity.INFO if first or simulated or (expected is not None and expected.low == 1) else None,
            where=rendezvous.where,
            evidence={"name": rendezvous.host, "nodes": nodes},
            fix=_first_node(site, rendezvous.source),
        )


def _by_script(launch_files: LaunchFiles) -> dict[tuple[str, str | None], list[LaunchSite]]:
    """Return the first lines of each file by script: lines with the same script may be nodes of one job."""
    found: dict[tuple[str, str | None], list[LaunchSite]] = {}
    for file, site in launch_lines(launch_files):
        lines = found.setdefault((file.path, site.command.script), [])
        if len(lines) < _MAX_TOGETHER:
            lines.append(site)
    return found


def agents_alone(site: LaunchSite, agents: int) -> str:
    """Return what agents do that each expect one node, as a clause: whether they have a rendezvous in common."""
    command = site.command
    rendezvous = rendezvous_of(site)
    own = command.launcher not in TORCHRUN_LAUNCHERS or rendezvous is None or is_loopback(rendezvous.host)
    if rendezvous is None or own or _own_rendezvous(site, rendezvous):
        return agents_for_one_node(agents, command.rdzv_backend, None)
    return agents_for_one_node(agents, command.rdzv_backend, shown(rendezvous.host))


def _own_rendezvous(site: LaunchSite, rendezvous: Rendezvous) -> bool:
    """Return whether each task makes its own address or rendezvous id."""
    word = site.value("--rdzv-id")
    own_id = word is not None and _DIFFERS.search(with_variables(site, word.text)) is not None
    if word is not None and own_id and site.command.rdzv_backend not in (None, "static"):
        return by_each_task(site, word) is True
    return rendezvous.by_each_task is True and _DIFFERS.search(rendezvous.with_variables) is not None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means "this machine" on every machine."""
    bare = host.strip().strip("[]").rstrip(".").lower()
    return bare in LOOPBACK_NAMES or _LOOPBACK.fullmatch(bare) is not None


def _by_default(file: LaunchFile, site: LaunchSite, together: Sequence[LaunchSite]) -> Iterator[Finding]:
    """Yield the finding if torchrun uses 127.0.0.1 because no address is given."""
    command = site.command
    expected = expected_nodes(site)
    if command.launcher not in TORCHRUN_LAUNCHERS or expected is None:
        return
    # an operator or an image may set torchrun's PET_ variables, and a plug-in's backend finds its own address
    unknown = command.unknown & {"rdzv_endpoint", "rdzv_backend", "rdzv_conf"}
    if unknown or command.rdzv_backend not in (None, "static", "c10d") or command.rdzv_conf.get("store_type"):
        return
    static = command.rdzv_backend != "c10d"
    if static and (command.master_addr is not None or "master_addr" in command.unknown):
        return
    if site.kind in ("dockerfile", "pod") or command.rdzv_endpoint is not None:
        return
    names = set(site.settings) | set(site.unexported)
    if any(name.startswith("PET_") for name in names) or (static and "MASTER_ADDR" in site.settings):
        return  # torchrun does not read the latter: DC809
    simulated = _on_one_machine(file, site, together)
    if simulated == "sure":
        return
    option = "--master-addr" if static else "--rdzv-endpoint"
    given = "" if static or site.value(*ADDRESS_OPTIONS) is None else ", and c10d does not use --master-addr"
    yield rules.DC419.found(
        f"{expected.high} nodes need a rendezvous, but {option} is not given{given}: each uses "
        f"{'127.0.0.1' if static else 'localhost'}, where it finds only itself",
        severity=Severity.INFO if simulated or expected.low == 1 else None,
        where=location_of(site, site.value("--nnodes"), option),
        evidence={"name": None, "nodes": expected.high},
        fix=_first_node(site, option),
    )


def _assigned_first_host(name: str) -> str:
    """Return the option or variable with the first host of a job of Slurm; an endpoint also gets a port."""
    return f"{name}={shared_fixes.FIRST_HOST_OF_SLURM}{':29400' if 'endpoint' in name else ''}"


def _first_node(site: LaunchSite, name: str) -> Fix:
    if site.in_slurm_job:
        return Fix(f"take the first host of the job: {_assigned_first_host(name)}", where="job-script")
    return Fix(
        f"give {name} the address of the first node in the network that all nodes share, the same on every node",
        where="launch-line",
    )


def _on_one_machine(file: LaunchFile, site: LaunchSite, together: Sequence[LaunchSite]) -> str | None:
    """Return ``sure`` if one machine simulates several nodes on purpose, ``perhaps`` if something suggests it."""
    if is_remote(site) or step_of(site).starter is not None:
        return None
    local = [
        other
        for other in together
        if not is_remote(other) and step_of(other).starter is None and several_nodes(other) is not False
    ]
    ranks = {other.command.node_rank for other in local}
    if len(local) > 1 and any(other.background for other in local) and not site.conditions:
        return "sure"
    if site.background and site.repeats:
        return "sure"
    masks = {given.value for other in local if (given := other.settings.get("CUDA_VISIBLE_DEVICES")) is not None}
    if len(local) > 1 and len(ranks) == len(local) and len(masks) == len(local):
        return "sure"
    if _TEST_PATH.search(file.path) or _SIMULATED.search(file.path):
        return "perhaps"
    near = " ".join(text for line, text in file.comments if abs(line - site.span.line) <= 15)
    if _SIMULATED.search(near):
        return "perhaps"
    if "CUDA_VISIBLE_DEVICES" in site.settings and site.command.node_rank is None:
        return "perhaps"
    # in a document these are two terminals or two nodes
    return "perhaps" if site.kind == "markdown" and len(local) > 1 else None


# DC109


@probe(rules.DC109)
@worst_per_location
def master_is_one_host(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The rendezvous address is one host, not the job's list of nodes."""
    for _, site in rendezvous_lines(launch_files):
        rendezvous = rendezvous_of(site)
        if rendezvous is None:
            continue
        what, sure = _list_of(rendezvous)
        if what is None or (not sure and several_nodes(site) is False):
            continue
        unresolved = not sure and several_nodes(site) is None and (job_nodes(site) or 1) < 2
        name = rendezvous.source
        slurm = not sure or "[" in rendezvous.host
        yield rules.DC109.found(
            f"{name} is {what} where one host belongs",
            severity=Severity.INFO if unresolved else None,
            where=rendezvous.where,
            evidence={"value": mask(rendezvous.with_variables)},
            fix=Fix(
                f"take the first host of the list: {_assigned_first_host(name)}"
                if slurm
                else f"take one host of the list: {name}=HOST",
                where="job-script" if rendezvous.variable else "launch-line",
            ),
        )


def _list_of(rendezvous: Rendezvous) -> tuple[str | None, bool]:
    """Return what list an address is, for a message, and whether that holds even with a single node."""
    text = unquoted(rendezvous.with_variables).strip()
    if rendezvous.known and "://" not in text:
        return (f"a list of nodes, {shown(text)!r},", True) if is_node_list(text) else (None, False)
    match = re.fullmatch(r"\$\{?(\w+)\}?", text)
    if match is not None and match[1] in _NODE_LISTS:
        return f"${match[1]}, the list of all nodes of the job,", False
    if _SCONTROL.match(text):
        return "what 'scontrol show hostnames' prints, a line for each node,", False
    if _ALL_ADDRESSES.match(text):
        return "what 'hostname -I' prints, all addresses of a host,", False
    return None, False


# DC810


@probe(rules.DC810)
@worst_per_location
def master_is_a_node_of_the_job(launch_files: LaunchFiles) -> Iterator[Finding]:
    """The rendezvous address is a node of the job: not the submit host, and not each node's own name."""
    for _, site in rendezvous_lines(launch_files):
        rendezvous = rendezvous_of(site)
        if rendezvous is None or several_nodes(site) is False:
            continue
        falls_back = _FALLS_BACK.search(rendezvous.with_variables)
        name = rendezvous.source
        first_host = f"take the first host of the job: {_assigned_first_host(name)}"
        if "SLURM_LAUNCH_NODE_IPADDR" in rendezvous.with_variables:
            message = (
                f"{name} is SLURM_LAUNCH_NODE_IPADDR, the host on which srun was started: that may be the login node, "
                "and in the body of a job script it is not set"
            )
            fix = first_host
        elif "SLURM_SUBMIT_HOST" in rendezvous.with_variables:
            message = f"{name} is SLURM_SUBMIT_HOST, the host on which sbatch was started: that is the login node"
            fix = first_host
        elif falls_back is not None:
            message = f"{name} becomes {falls_back[1]} where its command fails: each node then finds only itself"
            fix = f"drop '|| echo {falls_back[1]}', and let the job stop there (set -euo pipefail)"
        elif _OWN_NAME.fullmatch(rendezvous.with_variables.strip()) and _expanded_on_each_node(site, rendezvous):
            message = (
                f"{name} is {shown(rendezvous.with_variables)}, which each node expands to itself: they never connect"
            )
            fix = first_host if site.in_slurm_job else f"give {name} the first host's name, the same on every node"
        else:
            continue
        yield rules.DC810.found(
            message,
            where=rendezvous.where,
            evidence={"value": mask(rendezvous.with_variables)},
            fix=Fix(fix, where="job-script"),
        )


def _expanded_on_each_node(site: LaunchSite, rendezvous: Rendezvous) -> bool:
    """Return whether every node of the job runs the line and expands its rendezvous variables itself."""
    expected = expected_nodes(site)
    if several_nodes(site) is not True or site.conditions or (expected is not None and expected.low == 1):
        return False
    given = None if rendezvous.variable is None else setting(site, rendezvous.variable)
    if rendezvous.by_each_task is not True or (given is not None and given.by_each_task is not True):
        return False
    step = step_of(site)
    on_all = step.starter == "srun" and not step.partial and (step.nodes or 1) > 1
    return on_all or any(repeat.what == "hosts" and (repeat.times or 1) > 1 for repeat in site.repeats)


# DC744: a fixed host in a job script


@probe(rules.DC744)
@worst_per_location
def master_is_not_fixed(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A job on nodes of the scheduler's choice has no fixed host as the rendezvous address."""
    for _, site in rendezvous_lines(launch_files):
        rendezvous = rendezvous_of(site)
        given = site.of_job
        if rendezvous is None or given is None or given.scheduler != "slurm" or site.kind != "slurm":
            continue
        if (
            not rendezvous.known
            or is_loopback(rendezvous.host)
            or is_node_list(rendezvous.host)
            or not rendezvous.host.strip()
        ):
            continue
        if _is_malformed(rendezvous.host):
            continue  # DC102 reports it
        chosen = any(name in given.directives for name in ("nodelist", "reservation", "nodefile"))
        if chosen or site.value("-w", "--nodelist") is not None:
            continue
        name = rendezvous.source
        yield rules.DC744.found(
            f"{name} is fixed to {shown(rendezvous.host)}, but Slurm chooses the nodes of this job: "
            "if that one is not among them, no process answers there",
            where=rendezvous.where,
            evidence={"setting": name, "value": rendezvous.host},
            fix=Fix(
                f"take the first host of the job: {_assigned_first_host(name)}; or request the host: "
                "'#SBATCH --nodelist'",
                where="job-script",
            ),
        )


def _is_malformed(host: str) -> bool:
    # few launch files hold an address, and the package reads a whole machine
    from distcheck.checks.host.rendezvous import address_problem

    return address_problem(host) is not None


# DC807


@probe(rules.DC807)
@worst_per_location
def nodes_have_one_rendezvous_id(launch_files: LaunchFiles) -> Iterator[Finding]:
    """All nodes of a job have the same rendezvous id."""
    jobs = _by_script(launch_files)
    for file, site in launch_lines(launch_files):
        command = site.command
        if command.launcher not in TORCHRUN_LAUNCHERS or command.standalone:
            continue
        several = several_nodes(site)
        word = site.value("--rdzv-id")
        if several is False or (several is None and "nnodes_min" not in command.unknown):
            continue
        if word is None:
            yield from _no_id(site, several)
            continue
        if "rdzv_id" not in command.unknown:
            yield from _other_id(site, jobs[file.path, command.script])
            continue
        why = _why_it_differs(site)
        if why is None:
            continue
        given = assigned_in(site, word, unquoted(word.written), word.text)
        yield rules.DC807.found(
            why,
            where=location_of(site, word, "--rdzv-id"),
            evidence={
                "rdzv_id": mask(with_variables(site, word.text)),
                "assigned_in_line": None if given is None else given.span.line,
            },
            fix=Fix(f"give all nodes one id: --rdzv-id={_id_for(site)}", where="launch-line"),
        )


def _why_it_differs(site: LaunchSite) -> str | None:
    """Return why the id differs on each node, as a sentence, or None."""
    word = site.value("--rdzv-id")
    if word is None:
        return None
    text = with_variables(site, word.text)
    match = _DIFFERS.search(text)
    if match is None or (match[2] == "date" and _DAY_ALONE.search(text) and not _TIME_OF_DAY.search(text)):
        return None
    what = match[0].strip()
    given = assigned_in(site, word, unquoted(word.written), word.text)
    starter = step_of(site).starter
    each_task = by_each_task(site, word)
    if starter is not None:
        if each_task is not True:
            return None  # expanded once, before srun starts the tasks
        return f"--rdzv-id is made of {what}, which {starter} lets each node expand for itself: every node waits alone"
    direct = given is None
    if site.repeats and direct:
        return f"--rdzv-id is made of {what}, which is expanded again for each host of the loop: every node waits alone"
    if is_remote(site) or site.repeats or site.kind == "slurm" or site.background:
        return None
    return f"--rdzv-id is made of {what}, and each node that runs this line gets another one: every node waits alone"


def _id_for(site: LaunchSite) -> str:
    given = site.of_job
    scheduler = "" if given is None else given.scheduler
    return {"slurm": "$SLURM_JOB_ID", "pbs": "$PBS_JOBID", "lsf": "$LSB_JOBID"}.get(scheduler, "my-job")


def _no_id(site: LaunchSite, several: bool | None) -> Iterator[Finding]:
    command = site.command
    if command.rdzv_backend not in ("c10d", "etcd", "etcd-v2") or several is not True or "rdzv_id" in command.unknown:
        return
    yield rules.DC807.found(
        "--rdzv-id is not given: all jobs with this endpoint have the id 'none', so agents of an earlier job can join "
        "this one",
        severity=Severity.INFO,
        where=location_of(site, site.option("--rdzv-backend"), "--rdzv-id"),
        evidence={"rdzv_id": None},
        fix=Fix(f"give all nodes of the job one id: --rdzv-id={_id_for(site)}", where="launch-line"),
    )


def _other_id(site: LaunchSite, together: Sequence[LaunchSite]) -> Iterator[Finding]:
    """Yield the finding if another line of the same job, for another node, has another id."""
    command = site.command
    rendezvous = rendezvous_of(site)
    if rendezvous is None:
        return
    for other in together:
        its = other.command
        if other.span == site.span:
            return  # the first line of a job sets its id
        apart = is_remote(site) or site.background or (site.conditions and site.conditions != other.conditions)
        if (
            apart
            and its.rdzv_id not in (None, command.rdzv_id)
            and (its.launcher, its.script, its.script_args) == (command.launcher, command.script, command.script_args)
            and (theirs := rendezvous_of(other)) is not None
            and theirs.host == rendezvous.host
            and several_nodes(other) is True
        ):
            word = site.value("--rdzv-id")
            yield rules.DC807.found(
                f"--rdzv-id is {shown(command.rdzv_id or '')!r} here and {shown(its.rdzv_id or '')!r} in line "
                f"{other.span.line}, which starts another node of the same job",
                where=location_of(site, word, "--rdzv-id"),
                evidence={"rdzv_id": mask(command.rdzv_id or ""), "other": mask(its.rdzv_id or "")},
                fix=Fix(
                    f"give all nodes one id: --rdzv-id={its.rdzv_id}",
                    edits=edit_value(site, ("--rdzv-id",), its.rdzv_id or ""),
                    where="launch-line",
                    risk="the lines may start two jobs, and share an endpoint by mistake",
                ),
            )
            return
