"""Compares the measured bandwidth with a bound, an earlier run, and published figures.

Pure functions over :class:`Measurements`, without torch. Published figures are few: if none applies, the report states
*no baseline*, and never passes. The table omits figures that contradict each other (H100 NVL), that belong to a kind of
slot rather than to a GPU (PCIe), and those of more than 64 ranks, where the size must grow with the ranks.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from distcheck import rules
from distcheck.checks.cluster.hostlist import shorten_hosts
from distcheck.checks.cluster.records import Cluster
from distcheck.checks.logs.nccl_info import Transport
from distcheck.core.facts_file import from_plain
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Unavailable, Where, rank_ranges, size_text
from distcheck.core.registry import probe
from distcheck.core.resources import read_shipped
from distcheck.core.wording import counted
from distcheck.runtime.coordination.model import Failure

from .bandwidth import COLLECTIVES
from .model import MEASUREMENTS_VERSION, Bandwidth, Comparison, Correctness, Measurements, Options, SmokeTest

_Sized = TypeVar("_Sized", Bandwidth, Comparison)
#: At or above this share of what is expected a run is healthy (tolerance of nccl-tests and of NVIDIA/aicr).
HEALTHY = 0.9
#: Below this share of the caller's own figure it is an error (threshold of NVIDIA's resiliency extension).
DEGRADED = 0.75
#: gloo on one host differs by up to a factor of 3 from run to run: single iterations reach 10 times the median.
GLOO_HEALTHY = 1 / 3
#: Published figures are compared from this size on: 8 x H200 reach 72 % of their best at 64 MiB, 96 % at 1 GiB
#: (stas00/ml-engineering, all-reduce-8xH200.md).
PUBLISHED_FROM_BYTES = 1 << 30
#: Above this many ranks a fixed size finds healthy jobs slow: 586 GB/s at 72 ranks, 151 at 1,440, same hardware and
#: 512 MiB (coreweave/nccl-tests).
PUBLISHED_UP_TO_RANKS = 64
#: Below these sizes latency decides, and a bandwidth is no verdict: gloo on loopback takes as long for 64 KiB as for
#: 64 B; 8 x H200 reach 8 % of their best at 1 MiB and 46 % at 16 MiB.
LATENCY_BOUND_BYTES = {"cuda": 16 << 20, "cpu": 1 << 20}
#: Words in the names of GPUs that are on another board than those of the table, or a part of one.
_OTHER_BOARDS = frozenset({"nvl", "pcie", "mig"})
#: The last word of a virtual GPU: ``NVIDIA H200X-141C``.
_OF_A_VM = re.compile(r"\d+(?:a|b|c|q|cme)")
#: A baseline is a report of this tool: some hundred KiB.
_LONGEST_BASELINE = 64 << 20


class BandwidthBaselineError(ValueError):
    """A file that cannot serve as a baseline; the message gives the reason in one line."""


class Baselines(NamedTuple):
    """An earlier run, as the caller's own measure."""

    measured: Measurements
    #: the file that it comes from
    source: str = ""


class Published(NamedTuple):
    """A published measurement: one line of ``baselines.jsonl``."""

    #: words that the name of the GPU must hold, in lower case
    gpu: tuple[str, ...]
    #: GPUs that take part on each node
    gpus_per_node: int
    nodes: int
    #: ``nvlink``, ``nvls`` (the NVSwitch reduces), ``xgmi``; between nodes ``efa``, with ``-nvls`` where the NVSwitch
    #: reduces, ``infiniband-8x400`` (ports and Gbit/s of each), with ``-sharp`` where the switches reduce
    transport: str
    collective: str
    size_bytes: int
    ranks: int
    busbw_gbytes_per_s: float
    source: str
    #: when it was measured or published; ``read …`` where only the day of reading is known
    date: str


@functools.cache
def published() -> tuple[Published, ...]:
    """The figures that distcheck ships."""
    lines = read_shipped("distcheck.runtime.smoke_test", "baselines.jsonl").splitlines()
    return tuple(from_plain(Published, json.loads(line)) for line in lines)


def load_baseline(path: str) -> Baselines:
    """An earlier report of the smoke test (``--output-format json -o FILE``).

    :raises BaselineError: it can't be read, is no such report, or holds no measurement
    """
    try:
        with open(path, "rb") as file:
            text = file.read(_LONGEST_BASELINE + 1)
    except OSError as error:
        raise BandwidthBaselineError(f"it can't be read: {error.strerror}") from None
    if len(text) > _LONGEST_BASELINE:
        raise BandwidthBaselineError(
            f"it is larger than {size_text(_LONGEST_BASELINE)}, so it is no report of distcheck"
        )
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        raise BandwidthBaselineError(
            "it is no JSON; expected what 'distcheck collective --output-format json' wrote"
        ) from None
    found = plain.get("measurements") if isinstance(plain, dict) else None
    if not isinstance(found, dict):
        raise BandwidthBaselineError("it holds no measurements; expected a JSON report of 'distcheck collective'")
    if found.get("version") != MEASUREMENTS_VERSION:
        raise BandwidthBaselineError(
            f"its measurements are of version {found.get('version')!r}, this distcheck reads {MEASUREMENTS_VERSION}"
        )
    if not isinstance(found.get("measured"), dict):
        raise BandwidthBaselineError("that run measured no bandwidth (--quick, or it ended before)")
    try:
        measured: Measurements = from_plain(Measurements, found["measured"])
    except (TypeError, ValueError, KeyError) as error:
        raise BandwidthBaselineError(f"its measurements are damaged: {str(error).partition(chr(10))[0]}") from None
    if not any(item.busbw_gbytes_per_s for item in measured.bandwidth):
        raise BandwidthBaselineError("that run measured no bandwidth (one rank has none)")
    return Baselines(measured, path)


# comparing


def compare(
    measured: Measurements,
    options: Options = Options(),
    baselines: Baselines | None = None,
    transport: Transport | None = None,
    cluster: Cluster | None = None,
) -> tuple[Comparison, ...]:
    """Return each measured size with its reference, if there is one: the bound, the earlier run, or the table."""
    found = list(_with_bound(measured, options))
    if baselines is not None:
        found.extend(_with_own(measured, baselines))
    found.extend(_with_published(measured, transport, cluster))
    return tuple(found)


def _judged(measured: Measurements) -> tuple[Bandwidth, ...]:
    """What has a bandwidth that is no latency in disguise."""
    least = LATENCY_BOUND_BYTES.get(measured.device, LATENCY_BOUND_BYTES["cpu"])
    return tuple(
        item for item in measured.bandwidth if item.busbw_gbytes_per_s is not None and _reaches(item.size_bytes, least)
    )


def _reaches(size_bytes: int, least: int) -> bool:
    """At least a size, up to the elements that did not divide by the ranks: 1 GiB over 3 ranks is 4 bytes less."""
    return size_bytes >= 0.99 * least


def _largest(items: tuple[_Sized, ...]) -> tuple[_Sized, ...]:
    """Return the largest size of each collective: smaller sizes show the same, with more noise."""
    found: dict[str, _Sized] = {}
    for item in items:
        known = found.get(item.collective)
        if known is None or item.size_bytes > known.size_bytes:
            found[item.collective] = item
    return tuple(found.values())


def _compared(item: Bandwidth, expected: float, kind: str, source: str) -> Comparison:
    busbw = item.busbw_gbytes_per_s or 0.0
    return Comparison(item.collective, item.size_bytes, busbw, expected, busbw / expected, kind, source)


def _with_bound(measured: Measurements, options: Options) -> Iterator[Comparison]:
    """The bound is one for the best that a collective reaches: it counts at its largest size.

    It counts for the collectives that were named; without names, or with all of them, for all_reduce: a gather never
    reaches what an all_reduce does.
    """
    bound = options.min_busbw_gbytes_per_s
    if not bound:
        return
    named = set(options.collectives)
    wanted = named if named and not named.issuperset(COLLECTIVES) and "all" not in named else {"all_reduce"}
    for item in _largest(_judged(measured)):
        if item.collective in wanted:
            yield _compared(item, bound, "bound", "--min-busbw")


def _with_own(measured: Measurements, baselines: Baselines) -> Iterator[Comparison]:
    """The same collective, dtype and size of an earlier run like this one."""
    earlier = baselines.measured
    if _unlike(measured, earlier) is not None:
        return
    known = {
        (item.collective, item.dtype, item.size_bytes): item.busbw_gbytes_per_s
        for item in earlier.bandwidth
        if item.busbw_gbytes_per_s
    }
    for item in _judged(measured):
        expected = known.get((item.collective, item.dtype, item.size_bytes))
        if expected:
            yield _compared(item, expected, "baseline", baselines.source)


def _unlike(measured: Measurements, earlier: Measurements) -> str | None:
    """What makes two runs no match; None where they are alike."""
    for name, text in (
        ("ranks", "ranks"),
        ("hosts", "hosts"),
        ("backend", "backend"),
        ("device", "device"),
        ("device_name", "hardware"),
    ):
        now, then = getattr(measured, name), getattr(earlier, name)
        if now != then:
            return f"{text}: {then or 'none'} then, {now or 'none'} now"
    return None


def _with_published(
    measured: Measurements, transport: Transport | None, cluster: Cluster | None
) -> Iterator[Comparison]:
    """The figures of the table; an entry counts for its size and larger ones, since bandwidth grows with the size."""
    for item in _judged(measured):
        if not _reaches(item.size_bytes, PUBLISHED_FROM_BYTES):
            continue
        entries = _entries(measured, item.collective, transport, cluster)
        fitting = [entry for entry in entries if _reaches(item.size_bytes, entry.size_bytes)]
        if fitting:
            entry = max(fitting, key=lambda one: one.size_bytes)
            text = f"{_hardware(entry)}, {size_text(entry.size_bytes)}: {entry.source} ({entry.date})"
            yield _compared(item, entry.busbw_gbytes_per_s, "shipped", text)


def _entries(
    measured: Measurements, collective: str, transport: Transport | None, cluster: Cluster | None
) -> tuple[Published, ...]:
    """The entries for a collective on this hardware, of the first kind of transport that has some."""
    if measured.backend != "nccl" or not 1 < measured.ranks <= PUBLISHED_UP_TO_RANKS:
        return ()
    if measured.hosts < 1 or measured.ranks % measured.hosts:
        return ()
    words = set(re.findall(r"[a-z0-9]+", measured.device_name.lower()))
    if words & _OTHER_BOARDS or any(map(_OF_A_VM.fullmatch, words)):
        return ()
    here = [
        entry
        for entry in published()
        if words.issuperset(entry.gpu)
        and entry.collective == collective
        and entry.nodes == measured.hosts
        and entry.gpus_per_node == measured.ranks // measured.hosts
        and entry.ranks == measured.ranks
    ]
    for kind in _transports(measured, collective, transport, cluster):
        found = tuple(entry for entry in here if entry.transport == kind)
        if found:
            return found
    return ()


def _transports(
    measured: Measurements, collective: str, transport: Transport | None, cluster: Cluster | None
) -> tuple[str, ...]:
    """Return the kinds of transport to expect, the best first: only those that are known to exist."""
    # NVLS makes all_reduce faster and nothing else (stas00/ml-engineering, network/README.md)
    fast = collective == "all_reduce" and transport is not None and bool(transport.nvls)
    if measured.hosts == 1:
        return (*("nvls",) * fast, "nvlink", "xgmi")
    ports = [port for host in (cluster.hosts[:1] if cluster is not None else ()) for port in host.rdma_ports]
    active = [port for port in ports if port.state.endswith("ACTIVE") and port.selected]
    if any(port.efa for port in active):
        return (*("efa-nvls",) * fast, "efa")
    rates = {port.rate_gbit_per_s for port in active if port.link_layer == "InfiniBand"}
    if len(rates) != 1 or None in rates:
        return ()
    name = f"infiniband-{sum(port.link_layer == 'InfiniBand' for port in active)}x{rates.pop():g}"
    reduces = transport is not None and any(item.startswith("COLLNET") for item in transport.algorithms.values())
    return (f"{name}-sharp", name) if reduces else (name,)


def _hardware(entry: Published) -> str:
    """``8 x H200``, ``4 x 8 x B200`` with nodes."""
    nodes = f"{entry.nodes} x " if entry.nodes > 1 else ""
    return f"{nodes}{entry.gpus_per_node} x {entry.gpu[0].upper()}"


# judging


@probe(rules.DC513)
def bandwidth_reaches_the_bound(measured: Measurements, options: Options) -> Iterator[Finding]:
    """``--min-busbw``: the largest size of each collective that it is meant for reaches the bound."""
    bound = options.min_busbw_gbytes_per_s
    if not bound:
        raise NotApplicable("no bound was given")
    compared = tuple(_with_bound(measured, options))
    if not compared:
        raise Unavailable(f"--min-busbw {bound:g}: {_nothing_to_judge(measured)}")
    for item in compared:
        if item.share < 1:
            yield _below(measured, item, Severity.ERROR, f"below the bound of {bound:g} GB/s")


@probe(rules.DC513)
def bandwidth_is_that_of_the_baseline(measured: Measurements, baselines: Baselines) -> Iterator[Finding]:
    """``--baseline``: the largest size of each collective is as fast as in an earlier run like this one."""
    unlike = _unlike(measured, baselines.measured)
    if unlike is not None:
        raise Unavailable(f"no baseline: {baselines.source} is of another run ({unlike})")
    judged = _largest(_judged(measured))
    if not judged:
        raise Unavailable(f"no baseline: {_nothing_to_judge(measured)}")
    compared = _largest(tuple(_with_own(measured, baselines)))
    for item in compared:
        severity = _severity_of_own(measured, item)
        if severity is not None:
            than = f"{_percent(item.share)} of the {_gb(item.expected_gbytes_per_s)} of {baselines.source}"
            yield _below(measured, item, severity, than)
    missing = {item.collective for item in judged} - {item.collective for item in compared}
    if missing:
        raise Unavailable(f"no baseline: {baselines.source} has no size of {', '.join(sorted(missing))} in common")


@probe(rules.DC513)
def bandwidth_is_as_published(
    measured: Measurements,
    options: Options,
    baselines: Baselines | Unavailable,
    transport: Transport | Unavailable,
    cluster: Cluster | Unavailable,
) -> Iterator[Finding]:
    """The largest size of each collective is as fast as others measured on such hardware."""
    seen = None if isinstance(transport, Unavailable) else transport
    known = None if isinstance(cluster, Unavailable) else cluster
    compared = _largest(tuple(_with_published(measured, seen, known)))
    if not compared:
        if options.min_busbw_gbytes_per_s or not isinstance(baselines, Unavailable):
            raise NotApplicable("another measure was given")
        raise Unavailable(_why_no_figure(measured, seen, known))
    for item in compared:
        if item.share < HEALTHY:
            than = f"{_percent(item.share)} of the published {_gb(item.expected_gbytes_per_s)} ({item.source})"
            yield _below(measured, item, Severity.WARNING, than)


def _severity_of_own(measured: Measurements, item: Comparison) -> Severity | None:
    """How bad a share of the caller's own figure is; None where it is healthy."""
    if measured.backend == "gloo":
        return Severity.ERROR if item.share < GLOO_HEALTHY else None
    if item.share >= HEALTHY:
        return None
    return Severity.WARNING if item.share >= DEGRADED else Severity.ERROR


def _nothing_to_judge(measured: Measurements) -> str:
    if measured.ranks < 2:
        return "one rank has no bandwidth"
    least = LATENCY_BOUND_BYTES.get(measured.device, LATENCY_BOUND_BYTES["cpu"])
    return f"no size of {size_text(least)} or more was measured, and latency decides below (-e sets a larger one)"


def _why_no_figure(measured: Measurements, transport: Transport | None, cluster: Cluster | None) -> str:
    """Return why the table has no reference, and what would help."""
    if measured.ranks < 2:
        return "no baseline: one rank has no bandwidth"
    if measured.backend != "nccl":
        return f"no baseline: there are no published figures for {measured.backend or 'this backend'}"
    if measured.ranks > PUBLISHED_UP_TO_RANKS:
        return f"no baseline: published figures are compared up to {PUBLISHED_UP_TO_RANKS} ranks"
    names = dict.fromkeys(item.collective for item in measured.bandwidth)
    sizes = [entry.size_bytes for name in names for entry in _entries(measured, name, transport, cluster)]
    if sizes:
        least = max(min(sizes), PUBLISHED_FROM_BYTES)
        return f"no baseline for these sizes: published figures for this hardware begin at {size_text(least)} (-e)"
    return f"no baseline for this hardware: {measured.ranks} ranks on {measured.hosts} x {measured.device_name or '?'}"


def _below(measured: Measurements, item: Comparison, severity: Severity, than: str) -> Finding:
    """The finding, with the times that it rests on."""
    rows = [one for one in measured.bandwidth if (one.collective, one.size_bytes) == (item.collective, item.size_bytes)]
    time = rows[0].time
    where = "each host" if measured.hosts > 1 else "this host"
    return rules.DC513.found(
        f"{item.collective} over {measured.ranks} ranks reaches {_gb(item.busbw_gbytes_per_s)} bus bandwidth at "
        f"{size_text(item.size_bytes)}, {than}",
        severity=severity,
        where=Where(phase="measure", object=f"{item.collective} {size_text(item.size_bytes)}"),
        evidence={
            "collective": item.collective,
            "size_bytes": item.size_bytes,
            "ranks": measured.ranks,
            "hosts": measured.hosts,
            "device_name": measured.device_name,
            "busbw_gbytes_per_s": item.busbw_gbytes_per_s,
            "expected_gbytes_per_s": item.expected_gbytes_per_s,
            "share": round(item.share, 4),
            "kind": item.kind,
            "source": item.source,
            "median_s": time.median_s,
            "min_s": time.min_s,
            "max_s": time.max_s,
        },
        fix=Fix(
            f"follow the other findings of this report about slow ranks, links and the transport. Check {where} "
            "for throttled GPUs, links below their speed, and variables that disable transports",
            command="distcheck env -v",
            where="host",
        ),
    )


def _gb(gbytes_per_s: float) -> str:
    """A bandwidth for people: three digits."""
    return f"{gbytes_per_s:.3g} GB/s" if gbytes_per_s < 100 else f"{gbytes_per_s:.0f} GB/s"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


# the one line


def sentence(smoke: SmokeTest) -> str:
    """The one line to remember of a run: what failed, or that all is right and how fast it is."""
    if smoke.failure is not None:
        return _of_failure(smoke.failure, smoke.ranks)
    who = f"{counted(smoke.ranks, 'rank')} on {counted(max(1, len(smoke.hosts)), 'host')}"
    right = _of_correctness(smoke.proof)
    speed = _of_speed(smoke)
    return f"{who}: {right}; {speed}"


def _of_correctness(proof: Correctness | None) -> str:
    if proof is None:
        return "results not checked"
    if proof.wrong_ranks or proof.mismatches:
        ranks = proof.wrong_ranks or tuple(item.rank for item in proof.mismatches)
        names = dict.fromkeys(item.collective for item in proof.mismatches)
        of = f" of {', '.join(list(names)[:3])}" if names else ""
        return f"WRONG results{of} on {_ranks(ranks)}"
    if proof.failures:
        return f"{counted(len(proof.failures), 'collective')} failed ({proof.failures[0][0]})"
    if not proof.checks:
        return "results not checked"
    if proof.ranks < proof.world_size:
        return f"collectives correct on the {proof.ranks} of {counted(proof.world_size, 'rank')} that answered"
    return "all collectives correct"


def _of_speed(smoke: SmokeTest) -> str:
    if smoke.ranks < 2:
        return "bandwidth needs two ranks"
    if smoke.measured is None:
        return "bandwidth not measured"
    rows = [item for item in smoke.measured.bandwidth if item.busbw_gbytes_per_s is not None]
    rows = [item for item in rows if item.collective == "all_reduce"] or rows
    if not rows:
        return "bandwidth not measured"
    best = max(rows, key=lambda item: item.size_bytes)
    text = f"{best.collective} {_gb(best.busbw_gbytes_per_s or 0)} bus bandwidth at {size_text(best.size_bytes)}"
    here = {
        item.kind: item
        for item in smoke.baselines
        if (item.collective, item.size_bytes) == (best.collective, best.size_bytes)
    }
    if "bound" in here and here["bound"].share < 1:
        return f"{text}, below the bound of {_gb(here['bound'].expected_gbytes_per_s)}"
    if "baseline" in here:
        return f"{text}, {_percent(here['baseline'].share)} of the baseline"
    if "shipped" in here:
        return f"{text}, {_percent(here['shipped'].share)} of the {_model(smoke.measured.device_name)} baseline"
    if "bound" in here:
        return f"{text}, above the bound of {_gb(here['bound'].expected_gbytes_per_s)}"
    return f"{text}; no baseline for this hardware"


def _model(device_name: str) -> str:
    """``H100`` of ``NVIDIA H100 80GB HBM3``."""
    found = re.search(r"\b[A-Z]+\d+[A-Z]*\b", device_name)
    return found[0] if found else device_name or "published"


def _of_failure(failure: Failure, ranks: int) -> str:
    what: dict[str, Any] = {
        "timeout": "did not arrive at {step}",
        "died": "died at {step}",
        "raised": "failed at {step}",
        "stopped": "is stopped at {step}",
        "lost": "was not heard of again at {step}",
    }
    step = failure.step or "the next step"
    phase = f"(phase {failure.phase})"
    if failure.kind == "ended":
        return f"ended by {failure.error or 'a signal'} {phase}"
    if failure.kind == "lost" and not failure.culprits:
        return f"the other ranks were not reached {phase}: {failure.error.strip().partition(chr(10))[0][:120]}"
    if failure.kind == "raised" and not failure.culprits:
        return f"failed at {failure.step or failure.phase} {phase}: {failure.error.strip().partition(chr(10))[0][:120]}"
    if not failure.culprits:
        waited = f" after {failure.elapsed_s or failure.limit_s:.3g} s" if failure.limit_s else ""
        return f"{step} did not end{waited} on {counted(ranks, 'rank')}; which rank came late is unknown {phase}"
    hosts = list(dict.fromkeys(item.host for item in failure.states if item.rank in failure.culprits and item.host))
    on = f" on {shorten_hosts(hosts)}" if hosts else ""
    # the states name a handful: with more failed ranks their hosts would be only some of the hosts
    known = {item.rank for item in failure.states}
    if not known.issuperset(failure.culprits):
        on = ""
    details = {item.detail for item in failure.states if item.rank in failure.culprits and item.detail}
    detail = f" ({details.pop()})" if len(details) == 1 and failure.kind in ("died", "stopped") else ""
    verb = what.get(failure.kind, "failed at {step}").format(step=step)
    if len(failure.culprits) > 1:
        verb = verb.replace("is stopped", "are stopped").replace("was not", "were not")
    line = f"{_ranks(failure.culprits)}{on} {verb}{detail} {phase}"
    first = failure.error.strip().partition("\n")[0]
    return f"{line}: {first[:120]}" if failure.kind == "raised" and first else line


def _ranks(ranks: tuple[int, ...]) -> str:
    """``rank 3``, ``ranks 8-15``; a number where the list would be long."""
    text = rank_ranges(ranks)
    if len(set(ranks)) == 1:
        return f"rank {text}"
    return f"ranks {text}" if len(text) <= 40 else f"{len(set(ranks))} ranks ({text[:32].rpartition(',')[0]}, …)"
