"""Who is blamed, judged from synthetic measurements of 3 to 16,384 ranks."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.cluster.records import Cluster, Device, HostRecord, RankRecord
from distcheck.core.model import Finding, NotApplicable, Severity, Unavailable
from distcheck.runtime.smoke_test.model import Lateness, Measurements, Pair, Pairs
from distcheck.runtime.smoke_test.straggler_checks import (
    ALONE,
    MOST_FINDINGS,
    late_ranks,
    links_are_alike,
    ranks_keep_up,
    slack,
    slow_computers,
)
from distcheck.runtime.smoke_test.stragglers import retests_of, rounds_of

UNKNOWN = Unavailable("it was not given")
GPU = Device("GPU-1", "00000000:5D:00.0", "NVIDIA H100 80GB HBM3")
#: Bytes of a message: 7 ms at 10 GB/s, 67 ms at 1 GB/s.
SIZE = 64 << 20
#: Hosts of each rank: one host, several, one rank a host, ranks dealt out in turn, and more than every pair is met.
LAYOUTS = [
    pytest.param([0] * 4, id="4 on 1 host"),
    pytest.param([0] * 8, id="8 on 1 host"),
    pytest.param([0, 1, 2, 3], id="4 on 4 hosts"),
    pytest.param([rank // 4 for rank in range(8)], id="8 on 2 hosts"),
    pytest.param([rank // 2 for rank in range(8)], id="8 on 4 hosts"),
    pytest.param([rank % 4 for rank in range(32)], id="32 dealt out to 4 hosts"),
    pytest.param([rank // 8 for rank in range(64)], id="64 on 8 hosts"),
    pytest.param(list(range(64)), id="64 on 64 hosts"),
    pytest.param([rank // 8 for rank in range(256)], id="256 on 32 hosts"),
]


def cluster_of(hosts: Sequence[int], backend: str = "gloo", device: Device | None = None) -> Cluster:
    members: dict[int, list[int]] = {}
    for rank, host in enumerate(hosts):
        members.setdefault(host, []).append(rank)
    records = (
        HostRecord(f"gpu{host:02}", tuple(RankRecord(rank, device=device) for rank in ranks))
        for host, ranks in members.items()
    )
    return Cluster(tuple(records), backend=backend)


def measure(
    hosts: Sequence[int],
    noise: float,
    seed: int,
    *,
    backend: str = "gloo",
    slower: Callable[[int, int], float] = lambda a, b: 1.0,
) -> Pairs:
    """What the schedule would measure: 10 GB/s inside of a host, 1 between hosts, the slower ones less, with noise."""
    dice = random.Random(seed)

    def meet(a: int, b: int, number: int, retest: bool) -> Pair:
        rate = (10.0 if hosts[a] == hosts[b] else 1.0) / slower(a, b)
        return Pair(a, b, number, rate * dice.lognormvariate(0, noise), 1e-4, retest)

    rounds = rounds_of(len(hosts), hosts)
    found = [meet(a, b, number, False) for number, pairs in enumerate(rounds) for a, b in pairs]
    again = retests_of(found, hosts, backend, SIZE)
    found += [meet(a, b, len(rounds) + number, True) for number, pairs in enumerate(again) for a, b in pairs]
    return Pairs(tuple(found), SIZE, len(rounds) + len(again), len(hosts) <= 32)


def loud(findings: Iterator[Finding]) -> list[Finding]:
    """What is above info; that something could not be judged ends the list."""
    found: list[Finding] = []
    with contextlib.suppress(Unavailable):
        for finding in findings:
            if finding.severity > Severity.INFO:
                found.append(finding)
    return found


def judged(pairs: Pairs, hosts: Sequence[int], backend: str = "gloo") -> list[Finding]:
    return loud(links_are_alike(pairs, UNKNOWN, cluster_of(hosts, backend)))


# DC515


@pytest.mark.parametrize("hosts", LAYOUTS)
@pytest.mark.parametrize(("backend", "factor", "noise"), [("gloo", 9.0, 0.15), ("nccl", 4.0, 0.05)])
def test_bad_dc515_one_slow_link(hosts: list[int], backend: str, factor: float, noise: float) -> None:
    dice = random.Random(len(hosts))
    a, b = dice.choice([pair for pairs in rounds_of(len(hosts), hosts) for pair in pairs])
    pairs = measure(hosts, noise, 1, backend=backend, slower=lambda x, y: factor if (x, y) == (a, b) else 1.0)
    (finding,) = judged(pairs, hosts, backend)
    assert (finding.code, finding.severity) == ("DC515", Severity.WARNING)
    assert finding.evidence["kind"] == "slow-link"
    assert finding.where.rank == a
    assert str(b) in str(finding.where.peer)
    home = f"gpu{hosts[a]:02}"
    assert finding.where.host == home
    assert finding.evidence["measurements"] == 2
    apart = f"rank {a} on {home} and rank {b} on gpu{hosts[b]:02} gives"
    assert (f"ranks {a} and {b} on {home} gives" if hosts[a] == hosts[b] else apart) in finding.message
    for key, digits in (("gbytes_per_s", 4), ("median_gbytes_per_s", 4), ("ratio", 2)):
        assert finding.evidence[key] == round(finding.evidence[key], digits), key


@pytest.mark.parametrize("hosts", LAYOUTS)
@pytest.mark.parametrize(("backend", "factor", "noise"), [("gloo", 9.0, 0.15), ("nccl", 4.0, 0.05)])
def test_bad_dc515_one_rank_slow_with_everybody(hosts: list[int], backend: str, factor: float, noise: float) -> None:
    rank = len(hosts) // 2
    pairs = measure(hosts, noise, 2, backend=backend, slower=lambda x, y: factor if rank in (x, y) else 1.0)
    (finding,) = judged(pairs, hosts, backend)
    assert (finding.code, finding.where.rank, finding.where.host) == ("DC515", rank, f"gpu{hosts[rank]:02}")
    assert f"rank {rank} on gpu{hosts[rank]:02}" in finding.message


@pytest.mark.parametrize("hosts", [case for case in LAYOUTS if len(set(case.values[0])) > 2])
@pytest.mark.parametrize(("backend", "factor", "noise"), [("gloo", 20.0, 0.15), ("nccl", 4.0, 0.05)])
def test_bad_dc515_one_host_behind_a_slow_link(hosts: list[int], backend: str, factor: float, noise: float) -> None:
    host = hosts[-1]

    def slower(a: int, b: int) -> float:
        return factor if hosts[a] != hosts[b] and host in (hosts[a], hosts[b]) else 1.0

    (finding,) = judged(measure(hosts, noise, 3, backend=backend, slower=slower), hosts, backend)
    assert (finding.code, finding.evidence["kind"]) == ("DC515", "slow-host")
    assert finding.where.host == f"gpu{host:02}"
    assert finding.fix.where == "host"


def test_bad_dc515_one_slow_host_of_three() -> None:
    """Two of three pairs are slow, and still the host that they share is the odd one."""
    hosts = [0, 1, 2]
    (finding,) = judged(measure(hosts, 0.1, 4, slower=lambda a, b: 20.0 if b == 2 else 1.0), hosts)
    assert (finding.where.host, finding.where.rank) == ("gpu02", 2)


def test_bad_dc515_two_hosts_that_are_slow_with_each_other_only() -> None:
    hosts = [rank // 2 for rank in range(8)]
    pairs = measure(hosts, 0.1, 5, slower=lambda a, b: 10.0 if {hosts[a], hosts[b]} == {1, 2} else 1.0)
    (finding,) = judged(pairs, hosts)
    assert "the link between gpu01 and gpu02" in finding.message
    assert ", the worst of 4 pairs;" in finding.message
    assert (finding.where.host, finding.where.peer, finding.where.rank) == ("gpu01", "gpu02", None)
    assert finding.evidence["pairs"] == 4


def test_bad_dc515_two_ports_of_a_host_are_one_finding() -> None:
    hosts = [rank // 8 for rank in range(64)]
    pairs = measure(hosts, 0.05, 6, backend="nccl", slower=lambda a, b: 8.0 if {a, b} & {24, 25} else 1.0)
    (finding,) = judged(pairs, hosts, "nccl")
    assert (finding.where.host, finding.where.ranks) == ("gpu03", "24-25")


def test_bad_dc515_a_single_host_needs_no_records() -> None:
    pairs = measure([0] * 4, 0.1, 7, slower=lambda a, b: 10.0 if (a, b) == (1, 3) else 1.0)
    (finding,) = links_are_alike(pairs, Measurements(4, "gloo", "cpu", hosts=1), UNKNOWN)
    assert (finding.where.rank, finding.where.peer, finding.where.host) == (1, "rank 3", None)


def test_bad_dc515_never_more_than_three_findings_worst_first() -> None:
    hosts = list(range(64))
    slow = {3: 10.0, 17: 40.0, 30: 20.0, 41: 80.0, 50: 15.0}

    def slower(a: int, b: int) -> float:
        return max(slow.get(a, 1.0), slow.get(b, 1.0))

    found = judged(measure(hosts, 0.05, 8, slower=slower), hosts)
    assert [finding.where.host for finding in found] == ["gpu41", "gpu17", "gpu30"]
    assert len(found) == MOST_FINDINGS
    assert found[0].evidence["further_culprits"] == 2


def test_bad_dc515_what_a_retest_did_not_confirm_is_dropped() -> None:
    hosts = [0] * 4
    pairs = measure(hosts, 0.02, 9, backend="nccl", slower=lambda a, b: 3.0 if (a, b) == (0, 2) else 1.0)
    assert judged(pairs, hosts, "nccl")
    # three times slower is enough after a repetition, not without one; what a repetition makes good never is
    once = pairs._replace(pairs=tuple(pair for pair in pairs.pairs if not pair.retest))
    assert not judged(once, hosts, "nccl")
    well = (*once.pairs, Pair(0, 2, 9, 9.5, 1e-4, retest=True))
    assert not judged(once._replace(pairs=well), hosts, "nccl")


def test_bad_dc515_a_slow_host_is_found_while_other_processes_take_the_cores() -> None:
    """Measured: four hosts on one busy machine, the third behind 50 Mbit/s."""
    rates = {(0, 1): 0.2104, (0, 2): 0.0058, (0, 3): 0.3946, (1, 2): 0.006, (1, 3): 0.0538, (2, 3): 0.006}
    pairs = Pairs(tuple(Pair(a, b, 0, rate, 1e-3) for (a, b), rate in rates.items()), 2 << 20, 3, True)
    (finding,) = judged(pairs, [0, 1, 2, 3])
    assert (finding.where.host, finding.evidence["kind"]) == ("gpu02", "slow-host")


def test_good_dc515_a_few_ms_over_sockets_are_the_scheduler() -> None:
    """64 KiB in 0.1 ms or in 4 ms: forty times slower, and no link is to blame; 50 ms more are a link."""
    rates = {(0, 1): 0.65, (0, 2): 0.016, (0, 3): 0.5, (1, 2): 0.02, (1, 3): 0.6, (2, 3): 0.4}
    pairs = Pairs(
        tuple(Pair(a, b, 0, rate, 1e-4, retest) for (a, b), rate in rates.items() for retest in (False, True))
    )
    pairs = pairs._replace(size_bytes=1 << 16)
    assert judged(pairs, [0] * 4) == []
    slow = [pair._replace(busbw_gbytes_per_s=0.0012) if (pair.a, pair.b) == (0, 2) else pair for pair in pairs.pairs]
    (finding,) = judged(pairs._replace(pairs=tuple(slow)), [0] * 4)
    assert (finding.where.rank, finding.where.peer) == (0, "rank 2")


@given(
    hosts=st.sampled_from([case.values[0] for case in LAYOUTS if len(case.values[0]) <= 64]),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=60, deadline=None)
def test_good_dc515_healthy_noise_of_30_percent(hosts: list[int], seed: int) -> None:
    assert judged(measure(hosts, 0.3, seed), hosts) == []
    assert judged(measure(hosts, 0.1, seed, backend="nccl"), hosts, "nccl") == []


def test_good_dc515_bridges_and_switches_are_no_slow_links() -> None:
    """Healthy wirings: two pairs with NVLink bridges, two sockets, a cube mesh, a host with three GPUs."""

    def bridges(a: int, b: int) -> float:
        return 1.0 if a // 2 == b // 2 else 10.0

    def sockets(a: int, b: int) -> float:
        return 1.0 if a // 4 == b // 4 else 2.4

    def mesh(a: int, b: int) -> float:
        return (1.0, 2.0, 5.0)[(a ^ b).bit_count() - 1]

    for ranks, slower in ((4, bridges), (8, bridges), (8, sockets), (8, mesh), (3, bridges)):
        hosts = [0] * ranks
        assert judged(measure(hosts, 0.03, 10, backend="nccl", slower=slower), hosts, "nccl") == []
    hosts = [rank // 8 for rank in range(64)]
    slower = lambda a, b: sockets(a % 8, b % 8) if a // 8 == b // 8 else 1.0  # noqa: E731
    assert judged(measure(hosts, 0.03, 11, backend="nccl", slower=slower), hosts, "nccl") == []


@pytest.mark.parametrize("hosts_in_rack", [4, 8, 12])
def test_good_dc515_racks_of_one_nvlink_domain_are_info_at_most(hosts_in_rack: int) -> None:
    hosts = [rank // 4 for rank in range(64)]

    def slower(a: int, b: int) -> float:
        return 1.0 if hosts[a] // hosts_in_rack == hosts[b] // hosts_in_rack else 8.0

    pairs = measure(hosts, 0.03, 12, backend="nccl", slower=slower)
    found = list(links_are_alike(pairs, UNKNOWN, cluster_of(hosts, "nccl")))
    assert all(finding.severity is Severity.INFO for finding in found)
    assert all("two kinds of paths" in finding.message for finding in found)
    assert all(" pairs between hosts reach less " in finding.message for finding in found)


def test_good_dc515_within_a_host_is_faster_than_between() -> None:
    """One rank alone on its host: all of its pairs cross the network, and that is no fault of its."""
    hosts = [0] * 7 + [1]
    assert judged(measure(hosts, 0.1, 13), hosts) == []


def test_what_has_no_peers_is_not_judged() -> None:
    two = Pairs((Pair(0, 1, 0, 0.006, 1e-2),), 1 << 20, 1, True)
    with pytest.raises(NotApplicable, match="too few peers"):
        list(links_are_alike(two, UNKNOWN, cluster_of([0, 1])))
    with pytest.raises(NotApplicable):
        list(links_are_alike(Pairs(not_applicable=ALONE), UNKNOWN, UNKNOWN))
    with pytest.raises(Unavailable, match="cores") as crowded:
        list(links_are_alike(Pairs(not_applicable="more ranks than cores"), UNKNOWN, cluster_of([0] * 8)))
    assert not isinstance(crowded.value, NotApplicable)
    with pytest.raises(Unavailable, match="no pairs"):
        list(links_are_alike(Pairs(), UNKNOWN, cluster_of([0] * 8)))
    with pytest.raises(Unavailable, match="share a host"):
        list(links_are_alike(measure([0] * 4, 0.1, 1), UNKNOWN, UNKNOWN))


def test_a_kind_of_pair_without_peers_is_said() -> None:
    """Two hosts of two ranks: the pairs between hosts are judged, the two inside of hosts have no peers."""
    hosts = [0, 0, 1, 1]
    pairs = measure(hosts, 0.05, 14)
    with pytest.raises(Unavailable, match="2 pairs"):
        list(links_are_alike(pairs, UNKNOWN, cluster_of(hosts)))


# DC514


def on_time(ranks: int, seed: int = 0, noise: float = 0.3) -> list[float]:
    dice = random.Random(seed)
    return [0.001 * dice.lognormvariate(0, noise) for _ in range(ranks)]


def computing(ranks: int, seed: int = 0, noise: float = 0.02) -> list[float]:
    dice = random.Random(seed)
    return [0.0025 * dice.lognormvariate(0, noise) for _ in range(ranks)]


CUDA = Measurements(8, "nccl", "cuda", hosts=1)
CPU = Measurements(8, "gloo", "cpu", hosts=1)


@pytest.mark.parametrize("ranks", [3, 4, 8, 64, 1024])
@pytest.mark.parametrize(("measured", "factor"), [(CUDA, 1.7), (CPU, 4.0)])
def test_bad_dc514_computes_slowly(ranks: int, measured: Measurements, factor: float) -> None:
    own = computing(ranks)
    own[2] *= factor
    hosts = [rank // 8 for rank in range(ranks)]
    facts = Lateness(tuple(on_time(ranks)), tuple(own), 14)
    (finding,) = ranks_keep_up(facts, measured, cluster_of(hosts, device=GPU))
    assert (finding.code, finding.severity) == ("DC514", Severity.WARNING)
    assert (finding.where.rank, finding.where.host) == (2, "gpu00")
    assert finding.where.gpu == (GPU.pci if measured is CUDA else None)
    assert finding.evidence["kind"] == "computes-slowly"
    assert finding.evidence["ratio"] == pytest.approx(factor, rel=0.15)


def test_bad_dc514_throttle_reasons_are_named() -> None:
    own = computing(4)
    own[1] *= 2
    hot = GPU._replace(throttle=("hw-thermal",))
    record = HostRecord("gpu07", tuple(RankRecord(rank, device=hot if rank == 1 else GPU) for rank in range(4)))
    (finding,) = ranks_keep_up(Lateness(tuple(on_time(4)), tuple(own), 14), CUDA, Cluster((record,)))
    assert "hw-thermal" in finding.message
    assert finding.evidence["throttle"] == ["hw-thermal"]
    assert finding.fix.command is not None
    assert GPU.pci in finding.fix.command


@pytest.mark.parametrize("ranks", [3, 4, 8, 64, 1024])
def test_bad_dc514_comes_late(ranks: int) -> None:
    late = on_time(ranks)
    late[1] = 0.05
    (finding,) = ranks_keep_up(Lateness(tuple(late), tuple(computing(ranks)), 14), CPU, UNKNOWN)
    assert (finding.code, finding.where.rank, finding.evidence["kind"]) == ("DC514", 1, "comes-late")
    assert "50 ms after the first" in finding.message


def test_bad_dc514_who_computes_slowly_and_therefore_late_is_one_finding() -> None:
    late, own = on_time(8), computing(8)
    late[5], own[5] = 0.05, 0.05
    (finding,) = ranks_keep_up(Lateness(tuple(late), tuple(own), 14), CPU, UNKNOWN)
    assert (finding.where.rank, finding.evidence["kind"]) == (5, "computes-slowly")


def test_bad_dc514_all_ranks_of_a_host_are_one_finding() -> None:
    own = computing(64)
    own[16:24] = [value * 2 for value in own[16:24]]
    hosts = [rank // 8 for rank in range(64)]
    (finding,) = ranks_keep_up(Lateness(tuple(on_time(64)), tuple(own), 14), CUDA, cluster_of(hosts, device=GPU))
    assert (finding.where.host, finding.where.ranks, finding.where.rank) == ("gpu02", "16-23", None)
    assert "all 8 ranks on gpu02" in finding.message


def test_bad_dc514_never_more_than_three_findings_worst_first() -> None:
    late = on_time(64)
    for rank, seconds in ((9, 0.2), (20, 0.5), (33, 0.1), (50, 0.9)):
        late[rank] = seconds
    hosts = list(range(64))
    found = list(ranks_keep_up(Lateness(tuple(late), tuple(computing(64)), 14), CPU, cluster_of(hosts)))
    assert [finding.where.rank for finding in found] == [50, 20, 9]
    assert found[0].evidence["slow_ranks"] == 4


def test_good_dc514_mixed_gpus_are_compared_with_their_like() -> None:
    own = [value * (2.5 if rank < 4 else 1) for rank, value in enumerate(computing(12))]
    old = GPU._replace(name="NVIDIA A100-SXM4-80GB")
    ranks = tuple(RankRecord(rank, device=old if rank < 4 else GPU) for rank in range(12))
    facts = Lateness(tuple(on_time(12)), tuple(own), 14)
    assert list(ranks_keep_up(facts, CUDA, Cluster((HostRecord("gpu00", ranks),)))) == []


def test_a_gpu_without_its_like_is_not_judged() -> None:
    own = [value * (3 if rank == 0 else 1) for rank, value in enumerate(computing(8))]
    old = GPU._replace(name="NVIDIA T400")
    ranks = tuple(RankRecord(rank, device=old if rank == 0 else GPU) for rank in range(8))
    with pytest.raises(Unavailable, match="1 ranks"):
        list(ranks_keep_up(Lateness((), tuple(own), 14), CUDA, Cluster((HostRecord("gpu00", ranks),))))


def test_good_dc514_two_kinds_of_ranks_are_info() -> None:
    own = [value * (2 if rank % 3 == 0 else 1) for rank, value in enumerate(computing(60))]
    (finding,) = ranks_keep_up(Lateness((), tuple(own), 14), CUDA, UNKNOWN)
    assert finding.severity is Severity.INFO
    assert finding.evidence["slow_computing_ranks"] == 20


def test_good_dc514_late_by_less_than_a_slice_or_all_alike() -> None:
    almost = [0.0, 0.001, 0.019, 0.002]
    assert loud(ranks_keep_up(Lateness(tuple(almost), (), 14), CPU, UNKNOWN)) == []
    # a host that swaps makes all of them late: nobody stands out
    everybody = [0.0, 0.08, 0.1, 0.12, 0.09, 0.11]
    assert loud(ranks_keep_up(Lateness(tuple(everybody), (), 14), CPU, UNKNOWN)) == []


@given(ranks=st.integers(4, 64), seed=st.integers(0, 1 << 30))
@settings(max_examples=100, deadline=None)
def test_good_dc514_healthy_noise_of_30_percent(ranks: int, seed: int) -> None:
    """Noise of each repetition, as the driver takes the median of seven; a few ms of lateness come with it."""
    dice = random.Random(seed)

    def median(scale: float) -> float:
        return sorted(scale * dice.lognormvariate(0, 0.3) for _ in range(7))[3]

    own = tuple(median(0.0025) for _ in range(ranks))
    late = tuple(median(0.003) for _ in range(ranks))
    for measured in (CPU, UNKNOWN):
        assert loud(ranks_keep_up(Lateness(late, own, 7), measured, UNKNOWN)) == []
    steady = tuple(0.0025 * dice.lognormvariate(0, 0.05) for _ in range(ranks))
    assert loud(ranks_keep_up(Lateness(late, steady, 7), CUDA, UNKNOWN)) == []


def test_lateness_without_peers_is_not_judged() -> None:
    with pytest.raises(NotApplicable, match="too few peers"):
        list(ranks_keep_up(Lateness((0.0, 0.5), (0.002, 0.02), 14), CPU, UNKNOWN))
    with pytest.raises(NotApplicable):
        list(ranks_keep_up(Lateness(not_applicable=ALONE), CPU, UNKNOWN))
    with pytest.raises(Unavailable, match="cores") as crowded:
        list(ranks_keep_up(Lateness(not_applicable="more ranks than cores"), CPU, UNKNOWN))
    assert not isinstance(crowded.value, NotApplicable)
    with pytest.raises(Unavailable, match="no rank"):
        list(ranks_keep_up(Lateness(), CPU, UNKNOWN))


@pytest.mark.slow
def test_at_16384_ranks_the_three_culprits_are_found_and_nobody_else() -> None:
    hosts = [rank // 8 for rank in range(16384)]
    cluster = cluster_of(hosts, "nccl")

    def slower(a: int, b: int) -> float:
        if 1000 in (a, b):
            return 6.0
        return 4.0 if hosts[a] != hosts[b] and 77 in (hosts[a], hosts[b]) else 1.0

    pairs = measure(hosts, 0.05, 15, backend="nccl", slower=slower)
    late, own = on_time(16384), computing(16384)
    late[5555], own[99] = 0.2, own[99] * 1.8
    begun = time.perf_counter()
    links = judged(pairs, hosts, "nccl")
    ranks = list(ranks_keep_up(Lateness(tuple(late), tuple(own), 14), CUDA, cluster))
    assert time.perf_counter() - begun < 20  # against what grows with the square of the ranks
    assert {(finding.where.host, finding.where.rank) for finding in links} == {("gpu77", None), ("gpu125", 1000)}
    assert {finding.where.rank for finding in ranks} == {5555, 99}
    assert all(len(finding.message) < 250 and len(str(finding.evidence)) < 500 for finding in (*links, *ranks))


# at the bounds


@pytest.mark.parametrize(
    ("seconds", "cuda", "slow"),
    [
        ((1.0, 1.0, 1.0, 1.5), True, [3]),
        ((1.0, 1.0, 1.0, 1.49), True, []),
        ((1.0, 1.0, 1.0, 3.0), False, [3]),
        ((1.0, 1.0, 1.0, 2.99), False, []),
        # a long measurement is no scatter
        ((10.0, 10.0, 10.0, 30.0), False, [3]),
    ],
)
def test_how_slow_a_rank_computes_that_is_slow(seconds: tuple[float, ...], cuda: bool, slow: list[int]) -> None:
    assert slow_computers(seconds, cuda=cuda) == slow


@pytest.mark.parametrize(
    ("seconds", "late"),
    [
        ((0.0, 0.0, 0.0, 0.02), [3]),
        ((0.0, 0.0, 0.0, 0.019), []),
        # five times the middle
        ((0.01, 0.01, 0.01, 0.05), [3]),
        ((0.01, 0.01, 0.01, 0.049), []),
        # all of them scatter: six times the middle is within that
        ((0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.6), []),
        ((0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.9), [6]),
    ],
)
def test_how_late_a_rank_comes_that_is_late(seconds: tuple[float, ...], late: list[int]) -> None:
    assert late_ranks(seconds) == late


def test_bad_dc514_all_others_come_at_once() -> None:
    """The middle is 0, and nothing can be divided by it."""
    lateness = Lateness((0.0, 0.0, 0.0, 0.5), (1.0, 1.0, 1.0, 1.0), 7)
    (finding,) = ranks_keep_up(lateness, UNKNOWN, cluster_of([0, 1, 2, 3]))
    assert (finding.code, finding.where.rank) == ("DC514", 3)


def test_only_sockets_are_granted_a_slice() -> None:
    assert slack("gloo", SIZE) > 0
    assert slack("nccl", SIZE) == slack("gloo", 0) == 0


def test_a_host_that_met_one_other_is_not_slow_with_every_host() -> None:
    hosts = list(range(5))
    well = [Pair(a, b, 0, 1.0, 1e-4) for a in hosts for b in hosts if 0 < a < b]
    (finding,) = judged(Pairs((*well, Pair(0, 1, 0, 0.05, 1e-4)), SIZE, 1, False), hosts)
    assert finding.evidence["kind"] == "slow-link"


def test_bad_dc515_a_slow_link_inside_of_a_slow_host() -> None:
    """That the host is slow with other hosts explains nothing inside of it."""
    hosts = [rank // 4 for rank in range(16)]

    def slower(a: int, b: int) -> float:
        return 20.0 if (a, b) == (12, 13) or (hosts[a] != hosts[b] and 3 in (hosts[a], hosts[b])) else 1.0

    found = judged(measure(hosts, 0.1, 8, slower=slower), hosts)
    assert sorted(str(finding.evidence["kind"]) for finding in found) == ["slow-host", "slow-link"]


def test_pairs_of_several_hosts_need_to_know_which_is_where() -> None:
    pairs = measure([0, 0, 1, 1], 0.1, 9)
    with pytest.raises(Unavailable, match="which ranks share a host is not known"):
        list(links_are_alike(pairs, Measurements(4, "gloo", "cpu", hosts=2), UNKNOWN))
