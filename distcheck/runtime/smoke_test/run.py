"""The smoke test in one process: inspect, connect, run the phases, and make one report.

It prints nothing and decides no exit status; the command and the entry point do.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.checks.cluster.comparison import ALSO_SEEN_BY_HOSTS, judge
from distcheck.checks.cluster.membership_server import recognise
from distcheck.checks.cluster.merge import group_findings
from distcheck.checks.cluster.own_record import read_host_record, rendezvous_of
from distcheck.checks.cluster.records import Cluster, HostRecord, RankRecord, Roll
from distcheck.checks.host.examine import examine
from distcheck.checks.logs.nccl_info import Transport, read_log
from distcheck.core.checker import Checker
from distcheck.core.model import (
    Finding,
    NotApplicable,
    NotChecked,
    Report,
    Severity,
    Unavailable,
    merge_findings,
    merge_not_checked,
    placement_of,
    rank_ranges,
    size_text,
    sort_findings,
    to_plain,
)
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.rules import Selection
from distcheck.runtime.coordination.model import Failure
from distcheck.runtime.coordination.processes import usable_cores
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.store_client import (
    MemoryStore,
    StoreClient,
    StoreLost,
    TorchStoreClient,
    keep_if_held_up,
    open_store,
)

from .backend import Choice, choose, hardware_text
from .bandwidth_checks import Baselines, compare, sentence
from .driver import OwnState, PhaseDriver, PhaseResults, address_of, takes_the_floor
from .model import MEASUREMENTS_VERSION, Correctness, Lateness, Measurements, Options, Pairs, SmokeTest
from .phases import PHASES, live_phases
from .supervisor import Supervisor
from .worker import WorkerHooks

#: The modules whose probes judge what a live group showed.
PROBE_MODULES = (
    "distcheck.runtime.smoke_test.correctness_checks",
    "distcheck.runtime.smoke_test.backend",
    "distcheck.runtime.smoke_test.bandwidth_checks",
    "distcheck.runtime.smoke_test.nccl_log",
    "distcheck.runtime.smoke_test.straggler_checks",
    "distcheck.runtime.smoke_test.failures",
)

#: Pairs of 64 ranks, each measured once and some twice, are all listed; with more ranks so many of the slowest.
_MOST_PAIRS = 4096
_SLOWEST_PAIRS = 256
#: Seconds within which two signals are one request. torchrun passes a signal on when it next checks its ranks: every
#: 0.1 s by default (``--monitor-interval``, torch 2.13).
_SAME_REQUEST_S = 1.0
#: Missing ranks that one line names.
_MOST_NAMED = 64


class Request(NamedTuple):
    """What the caller wants of a run."""

    options: Options = Options()
    selection: Selection = Selection()
    #: go on although something was found that should stop the run
    go_on: bool = False
    baselines: Baselines | None = None
    show: Callable[[str, str, float], None] | None = None
    #: a folder in which each rank leaves a record
    output_dir: str | None = None
    #: for tests: other collectives, or something that happens before a step
    seams: WorkerHooks = WorkerHooks()


class HostResult(NamedTuple):
    """The results of the checks of this process and this host."""

    report: Report
    record: HostRecord
    rendezvous: str | None = None


def look(rank_infos: tuple[RankInfo, ...], launch: Launch, world: World, selection: Selection) -> HostResult:
    """The environment probes, and the record of this host with the ranks of these rank_infos.

    A rank that is not the first of its host runs only the probes that each process must run.
    """
    per = None if rank_infos[0].leads else "process"
    report = examine(launch, world, selection=selection, per=per)
    # whether the GPUs can be used is judged for all ranks together, and by the backend that is taken (backend.py)
    report = report._replace(findings=tuple(one for one in report.findings if one.code != rules.DC315.code))
    ranks = tuple(
        RankRecord(
            info.rank, info.local_rank, info.world_size, info.local_world_size, info.node_rank, os.getpid()
        )
        for info in rank_infos
    )  # fmt: skip
    record = read_host_record(launch, world, report.facts, ranks=ranks, whole=rank_infos[0].leads)
    return HostResult(report, record, rendezvous_of(launch))


def plain_look(report: Report, *, whole: bool) -> dict[str, Any]:
    """Return what is sent to the other processes: findings and, of the first rank of a host, what was not checked."""
    plain = report.as_dict()
    # what one process can't check, the first of its host can't either, and reports
    not_checked = plain["not_checked"] if whole else []
    return {"findings": plain["findings"], "not_checked": not_checked}


class RunResult(NamedTuple):
    """How the run ended in this process."""

    #: None: another process speaks
    report: Report | None
    #: send the exit status to the others (where this process reports), or wait for it (where it does not), with a line
    #: for standard error if no process printed it
    publish: Callable[[int], None]
    hear: Callable[[], tuple[int, str | None]]
    #: leave the report among the ranks' records
    keep: Callable[[Mapping[str, Any]], None]
    #: lets this process report for its host: another one may, once this is closed
    floor: object = None


def run(rank_infos: tuple[RankInfo, ...], inspected: HostResult, ask: Request) -> RunResult:
    """Run all phases with the other processes; the caller has run the checks already.

    Imports torch, and starts a worker for each rank_info before any thread or connection is there.
    """
    start = time.monotonic()
    # torch's own C++ log would bury the report; a user who sets it wants it
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    import_torch()
    if not inspected.record.backends:  # torch's files do not show how it was built
        inspected = inspected._replace(record=inspected.record._replace(backends=_backends_of_torch()))

    world_size = rank_infos[0].world_size
    alone = len(rank_infos) == world_size
    supervisor = Supervisor([rank_info.rank for rank_info in rank_infos], ask.seams)
    signals = _Signals()
    try:
        # the store lives for as long as this name does: where this process serves it, its workers use it
        client, address, _store = _connect(rank_infos, alone, ask.options, lambda: signals.seen)
    except StoreLost as lost:
        supervisor.end()
        what = recognise(rank_infos[0].master_addr, rank_infos[0].master_port, 2.0)
        text = str(lost) if what is None else f"{lost}; {what} answers there"
        found = PhaseResults(
            looks=((inspected.record.host, plain_look(inspected.report, whole=rank_infos[0].leads)),),
            alone=text,
            failure=Failure(
                "lost", "membership", "", (), (), (), text, ask.options.timeout_s, round(time.monotonic() - start, 3)
            ),
        )
        floor = takes_the_floor(address_of(rank_infos[0]), leads=rank_infos[0].leads)
        report = None if floor is None else report_of(found, inspected, ask, rank_infos, time.monotonic() - start)
        return RunResult(report, lambda _status: signals.restore(), lambda: (1, None), lambda _report: None, floor)
    own = OwnState(
        rank_infos,
        inspected.record,
        plain_look(inspected.report, whole=rank_infos[0].leads),
        rendezvous=inspected.rendezvous,
    )
    driver = PhaseDriver(
        own,
        client,
        supervisor,
        ask.options,
        store=address,
        cores=usable_cores(),
        stops=lambda found: not ask.go_on and _has_error(found, ask),
        show=ask.show,
        output_dir=ask.output_dir,
        signalled=lambda: signals.seen,
    )
    try:
        found_or_none = driver.run()
    finally:
        if alone:
            keep_if_held_up(_store)
    report = None
    if found_or_none is not None:
        transport = _transport(found_or_none, supervisor)
        try:
            report = report_of(found_or_none, inspected, ask, rank_infos, time.monotonic() - start, transport)
        except BaseException:
            driver.publish(2)  # the others must not wait for a verdict that will not come
            raise
    if report is not None and driver.unwritten is not None:
        unwritten = NotChecked("--output-dir", f"a record could not be written: {driver.unwritten}")
        report = report._replace(not_checked=(*report.not_checked, unwritten))

    def publish(status: int) -> None:
        driver.publish(status)
        signals.restore()

    def hear() -> tuple[int, str | None]:
        heard = driver.hear()
        signals.restore()
        return heard

    return RunResult(report, publish, hear, driver.keep)


class SmokeTorchMissing(Exception):  # noqa: N818 - a state of this Python
    """torch cannot be imported; the message gives the reason."""


def import_torch() -> None:
    """Import torch before the fork, so that it is done once; raises TorchMissing.

    An interrupt ends the process at once: torch's and NumPy's own start would swallow it, or end half done.
    """
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGINT, lambda _number, _frame: (os.write(2, b"Interrupted.\n"), os._exit(130)))
    try:
        with warnings.catch_warnings():
            # torch works without NumPy; what needs it is listed as not checked
            warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
            import torch.distributed  # noqa: F401 - imported for what comes after
    except (ImportError, OSError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise SmokeTorchMissing(f"torch is not installed for {sys.executable}") from None
        raise SmokeTorchMissing(
            f"torch can't be imported: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _backends_of_torch() -> tuple[str, ...]:
    import torch.distributed as dist

    able = {"gloo": "is_gloo_available", "nccl": "is_nccl_available"}
    return tuple(name for name, call in able.items() if getattr(dist, call, bool)())


def _transport(found: PhaseResults, supervisor: Supervisor) -> Transport | Unavailable:
    """Return what the first rank's NCCL logged about its choices."""
    if found.choice.backend != "nccl":
        return NotApplicable(f"the backend is {found.choice.backend or 'not chosen'}, not NCCL")
    if supervisor.log_file is None:
        return Unavailable("NCCL's log could not be kept apart here")
    try:
        return read_log(f"/proc/self/fd/{supervisor.log_file}")
    except Unavailable as unavailable:
        return unavailable


def _connect(
    rank_infos: tuple[RankInfo, ...], alone: bool, options: Options, stopped: Callable[[], str | None]
) -> tuple[StoreClient, tuple[str, int], Any]:
    """Return the supervisors' client, and the address and store that the process group of the workers uses."""
    first = rank_infos[0]
    if alone:
        # no other process can listen on a port that the kernel picks, so that only a busy machine takes long
        store = open_store("127.0.0.1", 0, serve=True, timeout_s=max(60.0, options.timeout_s))
        return MemoryStore(), ("127.0.0.1", store.port), store
    serves = any(rank_info.serves for rank_info in rank_infos)
    try:
        store = open_store(
            first.master_addr, first.master_port, serve=serves, timeout_s=options.timeout_s, stopped=stopped
        )
    except StoreLost as lost:
        if not serves or "EADDRINUSE" not in str(lost):
            raise
        # another process may use rank 0 as well; then the membership check reports it
        store = open_store(first.master_addr, first.master_port, serve=False, timeout_s=min(10.0, options.timeout_s))
    return (
        TorchStoreClient(store, f"distcheck/{first.restarts}", clients=first.world_size),
        (first.master_addr, first.master_port),
        store,
    )


class _Signals:
    """Record the signal of a launcher or a user who ends the run. The next poll sees it; all findings are kept.

    The handlers stay until the report is out: torchrun ends all ranks as soon as one of them has left. A second signal
    ends this process at once, its workers with it. One that follows closely is the same request: Ctrl-C reaches all
    processes of a terminal, and torchrun passes it on.
    """

    def __init__(self) -> None:
        #: the first signal that came
        self.seen: str | None = None
        self._seen_at = 0.0
        self._before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ())):
            # what is switched off (nohup, a job in the background) stays off
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        if self.seen is None:
            self.seen, self._seen_at = signal.Signals(number).name, time.monotonic()
        elif time.monotonic() - self._seen_at > _SAME_REQUEST_S:
            os._exit(128 + number)

    def restore(self) -> None:
        """Restore the previous handlers of the signals."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()


# judging


def _has_error(found: PhaseResults, ask: Request) -> bool:
    """Something was found before any group is made that the group would not survive."""
    looks = any(
        finding["severity"] == "error" and ask.selection.takes(_rule(finding["code"]))
        for _, plain in found.looks
        for finding in plain["findings"]
        if _rule(finding["code"]) is not None
    )
    return looks or any(
        part.worst is Severity.ERROR for part in (_judge_cluster(found, ask), _judge_choice(found, ask))
    )


def _rule(code: str) -> Any:
    from distcheck.rules import known

    return known().get(code)


def _judge_cluster(found: PhaseResults, ask: Request) -> Report:
    return judge(
        found.cluster if found.cluster is not None else Unavailable("ranks are missing"),
        found.roll if found.roll is not None else Unavailable("the membership could not be checked"),
        found.reach if found.reach is not None else _untried(found),
        selection=ask.selection,
        command="collective",
    )


def _judge_choice(found: PhaseResults, ask: Request) -> Report:
    """Whether the backend leaves GPUs untested."""
    facts: dict[type, object] = {
        Choice: found.choice,
        Cluster: found.cluster or Unavailable("ranks are missing"),
    }
    checker = Checker(ask.selection, modules=("distcheck.runtime.smoke_test.backend",), plug_ins=False)
    return checker.plan(*facts, command="collective", closed=True).run(facts=facts)


def _untried(found: PhaseResults) -> Unavailable:
    """Why no host tried the others' ports."""
    if found.cluster is not None and len(found.cluster.hosts) < 2:
        return NotApplicable("there is one host")
    return Unavailable("the hosts did not try each other's ports")


def _judge_live(found: PhaseResults, ask: Request, transport: Transport | Unavailable) -> Report:
    missing = found.failure
    why = (
        f"the run ended in {missing.phase}" if missing is not None
        else "the run was stopped before any group was made" if "start" not in found.phases
        else "--quick leaves it out" if ask.options.quick
        else "no option requested it"
    )  # fmt: skip
    absent = Unavailable(why)
    facts: dict[type, object] = {
        Correctness: found.proof or absent,
        Measurements: found.measured or absent,
        Lateness: found.lateness or absent,
        Pairs: found.pairs or absent,
        Failure: found.failure or NotApplicable("nothing failed"),
        Cluster: found.cluster or absent,
        Choice: found.choice if found.choice.backend else NotApplicable("no backend was chosen"),
        Options: ask.options,
        Transport: transport,
        Baselines: ask.baselines or NotApplicable("no baseline was given"),
    }
    plan = Checker(ask.selection, modules=PROBE_MODULES).plan(*facts, command="collective", closed=True)
    return plan.run(facts=facts)


def report_of(
    found: PhaseResults,
    inspected: HostResult,
    ask: Request,
    rank_infos: tuple[RankInfo, ...],
    elapsed_s: float,
    transport: Transport | Unavailable = NotApplicable("no group was made"),
) -> Report:
    """Return one report of all that was checked, compared, verified and measured."""
    hosts = tuple(host.host for host in found.cluster.hosts) if found.cluster is not None else (inspected.record.host,)
    several = len(hosts) > 1
    used = transport if isinstance(transport, Transport) else None
    comparisons = (
        () if found.measured is None else compare(found.measured, ask.options, ask.baselines, used, found.cluster)
    )
    parts = [_judge_cluster(found, ask), _judge_live(found, ask, transport)]
    findings = [finding for part in parts for finding in part.findings]
    not_checked = [item for part in parts for item in part.not_checked]
    checked = set().union(*(part.checked for part in parts), inspected.report.checked)
    not_checked.extend(NotChecked(**item) for _, plain in found.looks for item in plain["not_checked"])
    findings.extend(_of_hosts(found.looks, {finding.code for finding in findings}, several=several))
    not_checked.extend(NotChecked(f"the record of {host}", why) for host, why in found.unread)
    # with one rank, collectives that are not checked have no meaning; with more they are unverified, and must show it
    if found.proof is not None and rank_infos[0].world_size > 1:
        not_checked.extend(NotChecked(what, why) for what, why in found.proof.skipped)
    not_checked.extend(NotChecked(f"phase {phase}", why) for phase, why in _left_out(found, ask))
    smoke = SmokeTest(
        MEASUREMENTS_VERSION,
        rank_infos[0].world_size,
        hosts,
        found.choice.backend,
        found.choice.device,
        found.phases,
        found.proof,
        found.measured,
        found.lateness,
        None if found.pairs is None else _worth_telling(found.pairs),
        found.failure,
        comparisons,
    )
    choice = found.choice if found.choice.backend else choose(ask.options)
    on = hardware_text(choice, found.gpu_names or _gpu_names(found.cluster), rank_infos[0].world_size)
    smoke = smoke._replace(sentence=f"{_of_roll(found.roll) or sentence(smoke)}; {on}")
    subject = dict(inspected.report.subject)
    subject["line"] = _line(rank_infos, hosts, found, inspected, ask)
    records = () if found.cluster is None else found.cluster.hosts
    subject["placement"] = placement_of({rank.rank: record.host for record in records for rank in record.ranks})
    return Report(
        "collective",
        stage="rank",
        subject=subject,
        findings=sort_findings(findings),
        not_checked=merge_not_checked(not_checked),
        probes=(*inspected.report.probes, *(probe for part in parts for probe in part.probes)),
        facts={**inspected.report.facts, **({"Cluster": found.cluster} if found.cluster is not None else {})},
        elapsed_s=elapsed_s,
        checked=frozenset(checked),
        measurements=to_plain(smoke),
    )


def _gpu_names(cluster: Cluster | None) -> tuple[str, ...]:
    """The GPUs that the ranks would use, by NVML."""
    hosts = () if cluster is None else cluster.hosts
    return tuple(rank.device.name for host in hosts for rank in host.ranks if rank.device is not None)


def _of_roll(roll: Roll | None) -> str:
    """The line for a roll that was not complete, "" for one that was."""
    if roll is None or not (roll.missing or roll.surplus):
        return ""
    if not roll.missing:
        return f"{len(roll.surplus)} processes too many came for {roll.world_size} ranks"
    names = rank_ranges(roll.missing[:_MOST_NAMED]) + (" …" if len(roll.missing) > _MOST_NAMED else "")
    is_ = "is" if len(roll.missing) == 1 else "are"
    return f"{roll.present} of {roll.world_size} ranks came; rank{'s' * (is_ == 'are')} {names} {is_} missing"


def _worth_telling(pairs: Pairs) -> Pairs:
    """All pairs of few ranks; of many the slowest, since their number grows with the square of the ranks."""
    if len(pairs.pairs) <= _MOST_PAIRS:
        return pairs
    slowest = sorted(pairs.pairs, key=lambda pair: pair.busbw_gbytes_per_s or 0.0)[:_SLOWEST_PAIRS]
    return pairs._replace(pairs=tuple(slowest))


def _of_hosts(
    looks: Iterable[tuple[str, Mapping[str, Any]]], compared: set[str], *, several: bool
) -> Iterable[Finding]:
    """Yield the findings of the hosts' own checks: once for all hosts, and not again what the comparison reports."""
    # two ranks on one GPU are also more ranks than GPUs: the comparison names the ranks
    reported = compared & ALSO_SEEN_BY_HOSTS | ({"DC301"} if "DC303" in compared else set())
    hosts: dict[str, list[Finding]] = {}
    for host, plain in looks:
        own = [Finding.from_dict(item) for item in plain["findings"]]
        hosts.setdefault(host, []).extend(finding for finding in own if finding.code not in reported)
    merged = {host: merge_findings(findings) for host, findings in hosts.items()}
    if several:
        return group_findings((host, host, findings) for host, findings in merged.items())
    return [finding for findings in merged.values() for finding in findings]


def _left_out(found: PhaseResults, ask: Request) -> Iterable[tuple[str, str]]:
    """The phases that did not run, and why."""
    if found.failure is not None:
        return found.left_out
    if "compare" not in found.phases:
        return [(phase.name, "not all ranks came") for phase in PHASES if phase.live or phase.name == "compare"]
    if "start" not in found.phases:
        why = "something was found before that a group would not survive; --continue goes on all the same"
        return [(phase.name, why) for phase in PHASES if phase.live]
    ran = live_phases(ask.options, found.roll.world_size if found.roll else 1)
    why = "--quick proves and compares only" if ask.options.quick else "--check 0 leaves it out"
    return [(phase.name, why) for phase in PHASES if phase.live and phase.name not in ran]


def _line(
    rank_infos: tuple[RankInfo, ...], hosts: tuple[str, ...], found: PhaseResults, inspected: HostResult, ask: Request
) -> list[str]:  # fmt: skip
    """Return the checks as short phrases."""
    size = rank_infos[0].world_size
    parts = [f"{size} rank{'s' * (size != 1)} on {len(hosts)} host{'s' * (len(hosts) != 1)}"]
    parts.append(hosts[0] if len(hosts) == 1 else f"{hosts[0]} …")
    if found.choice.backend:
        parts.append(f"{found.choice.backend} on {found.choice.device}")
    if ask.options.max_bytes is not None:
        parts.append(f"up to {size_text(ask.options.max_bytes)}")
    versions: Mapping[str, str] = inspected.record.versions
    parts.extend(f"{name} {versions[name]}" for name in ("torch", "nccl", "driver") if versions.get(name))
    return parts


def usable_gpus(world: World) -> int:
    """GPUs that a process here can use, by NVML and the masks; 0 without a driver."""
    from distcheck.checks.host.devices import Devices
    from distcheck.checks.host.gpus import Gpus

    checker = Checker(Selection(ignore=("ALL",)), plug_ins=False)
    facts = checker.plan(type(world), Launch, also=(Devices, Gpus)).run(world, Launch()).facts
    devices, gpus = facts.get(Devices.__name__), facts.get(Gpus.__name__)
    if isinstance(devices, Devices) and devices.visible is not None:
        return len(devices.visible)
    return len(gpus.gpus) if isinstance(gpus, Gpus) else 0
