"""Is the bandwidth what it should be: the bound, an earlier run, published figures, and the one line at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.cluster.records import Cluster, HostRdmaPort, HostRecord
from distcheck.checks.logs.nccl_info import Transport
from distcheck.core.checker import Checker
from distcheck.core.model import Finding, NotApplicable, Report, Severity, Unavailable, to_plain
from distcheck.runtime.coordination.model import Failure, RankState
from distcheck.runtime.smoke_test import bandwidth_checks
from distcheck.runtime.smoke_test.bandwidth import COLLECTIVES
from distcheck.runtime.smoke_test.bandwidth_checks import (
    BandwidthBaselineError,
    Baselines,
    bandwidth_is_as_published,
    bandwidth_is_that_of_the_baseline,
    bandwidth_reaches_the_bound,
    compare,
    load_baseline,
    published,
    sentence,
)
from distcheck.runtime.smoke_test.model import (
    MEASUREMENTS_VERSION,
    Bandwidth,
    Correctness,
    Measurements,
    Options,
    SmokeTest,
    Times,
    WrongResult,
)

MIB = 1 << 20
GIB = 1 << 30
H200 = "NVIDIA H200"
NVLS = Transport(network="Socket", algorithms={"AllReduce": "NVLS"})
NOT_GIVEN = NotApplicable("not given")


def row(busbw: float | None, size_bytes: int = GIB, *, collective: str = "all_reduce", ranks: int = 8) -> Bandwidth:
    time = Times(0.004, 0.0039, 0.0042, 0.0038)
    return Bandwidth(collective, "float32", size_bytes, ranks, time, busbw, busbw, (0.004,), 1)


def run(*rows: Bandwidth, ranks: int = 8, hosts: int = 1, name: str = H200, backend: str = "nccl") -> Measurements:
    device = "cuda" if backend == "nccl" else "cpu"
    return Measurements(ranks, backend, device, name, hosts, bandwidth=rows)


def gloo(*rows: Bandwidth, ranks: int = 2) -> Measurements:
    return run(*rows, ranks=ranks, name="Some Processor", backend="gloo")


# the bound


def below_bound(measured: Measurements, bound: float, *collectives: str) -> list[Finding]:
    options = Options(min_busbw_gbytes_per_s=bound, collectives=collectives)
    return list(bandwidth_reaches_the_bound(measured, options))


def test_bad_dc513_below_the_bound() -> None:
    (finding,) = below_bound(run(row(9.0, MIB), row(380.0)), 400)
    assert (finding.code, finding.severity) == ("DC513", Severity.ERROR)
    assert finding.evidence["busbw_gbytes_per_s"] == 380.0
    assert "1 GiB" in finding.message and "400" in finding.message


def test_bad_dc513_each_named_collective_has_the_bound() -> None:
    measured = run(row(480.0), row(300.0, collective="all_gather"), row(250.0, collective="reduce_scatter"))
    found = below_bound(measured, 280, "all_gather", "reduce_scatter")
    assert [finding.evidence["collective"] for finding in found] == ["reduce_scatter"]


@pytest.mark.parametrize(
    ("measured", "collectives"),
    [
        pytest.param(run(row(400.0)), (), id="exactly the bound"),
        pytest.param(run(row(2.0, 64 << 10), row(450.0)), (), id="small sizes do not count"),
        pytest.param(
            run(row(450.0), row(60.0, collective="gather")), tuple(COLLECTIVES), id="a gather is no all_reduce"
        ),
        pytest.param(run(row(450.0), row(60.0, collective="gather")), ("all",), id="all of them"),
    ],
)
def test_good_dc513_bound(measured: Measurements, collectives: tuple[str, ...]) -> None:
    assert below_bound(measured, 400, *collectives) == []


def test_dc513_no_bound_and_nothing_to_judge() -> None:
    with pytest.raises(NotApplicable):
        list(bandwidth_reaches_the_bound(run(row(1.0)), Options()))
    with pytest.raises(Unavailable, match="one rank"):
        below_bound(run(row(None, ranks=1), ranks=1), 400)
    with pytest.raises(Unavailable, match="latency"):
        below_bound(run(row(2.0, MIB)), 400)


# the caller's own baseline


def beside(now: Measurements, then: Measurements) -> list[Finding]:
    return list(bandwidth_is_that_of_the_baseline(now, Baselines(then, "last-week.json")))


@pytest.mark.parametrize(
    ("busbw", "severity"),
    [(89.0, Severity.WARNING), (75.0, Severity.WARNING), (74.9, Severity.ERROR), (1.0, Severity.ERROR)],
)
def test_bad_dc513_slower_than_the_earlier_run(busbw: float, severity: Severity) -> None:
    (finding,) = beside(run(row(busbw)), run(row(100.0)))
    assert (finding.code, finding.severity) == ("DC513", severity)
    assert "last-week.json" in finding.message


def test_bad_dc513_gloo_is_judged_by_a_factor_of_three() -> None:
    (finding,) = beside(gloo(row(0.3, 16 * MIB, ranks=2)), gloo(row(1.0, 16 * MIB, ranks=2)))
    assert finding.severity is Severity.ERROR


def test_bad_dc513_only_a_smaller_size_is_in_common() -> None:
    (finding,) = beside(run(row(20.0, 256 * MIB)), run(row(400.0, 256 * MIB), row(480.0)))
    assert finding.evidence["size_bytes"] == 256 * MIB


@pytest.mark.parametrize(
    ("now", "then"),
    [
        pytest.param(run(row(90.0)), run(row(100.0)), id="90 percent"),
        pytest.param(run(row(120.0)), run(row(100.0)), id="faster"),
        pytest.param(run(row(1.0, MIB), row(99.0)), run(row(9.0, MIB), row(100.0)), id="latency of small sizes varies"),
        pytest.param(
            run(row(50.0, 64 * MIB), row(99.0)), run(row(90.0, 64 * MIB), row(100.0)), id="the largest decides"
        ),
        pytest.param(gloo(row(0.34, 16 * MIB)), gloo(row(1.0, 16 * MIB)), id="gloo within a factor of three"),
    ],
)
def test_good_dc513_baseline(now: Measurements, then: Measurements) -> None:
    assert beside(now, then) == []


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (run(row(100.0, ranks=16), ranks=16), "ranks"),
        (run(row(100.0), name="NVIDIA H100 80GB HBM3"), "hardware"),
        (run(row(100.0), hosts=2), "hosts"),
        (run(row(100.0), backend="gloo"), "backend"),
    ],
)
def test_dc513_a_run_of_another_kind_is_no_baseline(then: Measurements, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        beside(run(row(1.0)), then)


def test_dc513_a_collective_that_the_baseline_lacks_is_not_checked() -> None:
    now = run(row(10.0), row(10.0, collective="all_gather"))
    findings = []
    with pytest.raises(Unavailable, match="all_gather"):
        for finding in bandwidth_is_that_of_the_baseline(now, Baselines(run(row(100.0)), "a.json")):
            findings.append(finding)
    assert len(findings) == 1


def report(measured: Measurements | None, version: int = MEASUREMENTS_VERSION) -> str:
    smoke = SmokeTest(version, 8, ("gpu01",), measured=measured)
    return json.dumps({"schema_version": 1, "measurements": to_plain(smoke)})


def test_a_baseline_is_read_from_a_report(tmp_path: Path) -> None:
    path = tmp_path / "last.json"
    measured = run(row(3.0, MIB), row(480.0))
    path.write_text(report(measured))
    assert load_baseline(str(path)) == Baselines(measured, str(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("[1, 2]", "no measurements"),
        ('{"findings": []}', "no measurements"),
        ('{"measurements": 7}', "no measurements"),
        (report(None), "no bandwidth"),
        (report(run(row(1.0)), version=99), "version 99"),
        (report(run(row(None, ranks=1), ranks=1)), "one rank"),
        ('{"measurements": {"version": 1, "measured": {"ranks": "eight"}}}', "damaged"),
        ('{"measurements": {"version": 1, "measured": {}}}', "damaged"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_baseline_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "last.json"
    path.write_text(text)
    with pytest.raises(BandwidthBaselineError, match=words) as caught:
        load_baseline(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BandwidthBaselineError, match="No such file"):
        load_baseline(str(tmp_path / "none.json"))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_baseline_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("baseline") / "file"
    path.write_bytes(data)
    with pytest.raises(BandwidthBaselineError):
        load_baseline(str(path))


# published figures


def as_published(
    measured: Measurements,
    transport: Transport | Unavailable = NVLS,
    cluster: Cluster | Unavailable = NOT_GIVEN,
    options: Options = Options(),
    baselines: Baselines | Unavailable = NOT_GIVEN,
) -> list[Finding]:
    return list(bandwidth_is_as_published(measured, options, baselines, transport, cluster))


def fabric(link_layer: str, *, rate: float = 400.0, count: int = 8, efa: bool = False) -> Cluster:
    ports = tuple(HostRdmaPort(f"mlx5_{n}", 1, "ACTIVE", link_layer, rate, efa=efa) for n in range(count))
    return Cluster(tuple(HostRecord(f"gpu{n:02d}", rdma_ports=ports) for n in range(8)))


def test_the_table_is_whole() -> None:
    for entry in published():
        assert entry.collective in COLLECTIVES
        assert entry.ranks == entry.gpus_per_node * entry.nodes <= bandwidth_checks.PUBLISHED_UP_TO_RANKS
        assert entry.busbw_gbytes_per_s > 0 and entry.size_bytes >= bandwidth_checks.PUBLISHED_FROM_BYTES
        assert entry.source and entry.date
        assert entry.gpu and all(word == word.lower() for word in entry.gpu)
    keys = [entry[:7] for entry in published()]
    assert len(set(keys)) == len(keys)


#: names of nvidia-smi and torch since 2018, and the GPU of the table that they are
PRODUCTS = {
    "A100": ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "A100-SXM4-40GB", "A100-SXM4-80GB"),
    "V100": ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB-LS"),
    "H100": ("NVIDIA H100 80GB HBM3", "NVIDIA H100 64GB HBM3", "NVIDIA H100 96GB HBM3"),
    "H200": ("NVIDIA H200",),
    "B200": ("NVIDIA B200",),
    "H800": ("NVIDIA H800",),
    "MI300X": ("AMD Instinct MI300X", "AMD Instinct MI300X OAM", "AMD Instinct MI300X VF"),
    "": (
        "NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM-64GB", "NVIDIA A100X",
        "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "GRID A100X-40C", "NVIDIA A100X-80C", "NVIDIA A800-SXM4-80GB",
        "NVIDIA A800 80GB PCIe", "NVIDIA A800 40GB Active", "NVIDIA A30", "NVIDIA A30X", "NVIDIA A40", "NVIDIA A10",
        "NVIDIA A10G", "NVIDIA A16", "NVIDIA A2", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H100 80GB HBM2e",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100XM-80C", "NVIDIA H800 PCIe", "NVIDIA H800 NVL",
        "NVIDIA H800-80C", "NVIDIA H20", "NVIDIA H20-3e", "NVIDIA H200 NVL", "NVIDIA H200-141C", "NVIDIA H200X-141C",
        "NVIDIA H200 MIG 1g.18gb", "NVIDIA GH200 480GB", "NVIDIA GH200 120GB", "NVIDIA GH200 144G HBM3e",
        "NVIDIA GB200", "NVIDIA GB300", "NVIDIA B300 SXM6 AC", "NVIDIA B200-180C", "NVIDIA GB10", "NVIDIA L4",
        "NVIDIA L40", "NVIDIA L40S", "NVIDIA L20", "NVIDIA L2", "Tesla T4", "Tesla V100-PCIE-16GB",
        "Tesla V100-PCIE-32GB", "Tesla V100S-PCIE-32GB", "Tesla V100-SXM3-32GB", "Tesla V100-FHHL-16GB",
        "GRID V100DX-32C", "Tesla P100-SXM2-16GB", "Tesla P100-PCIE-16GB", "Tesla P40", "Tesla P4",
        "NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 3090",
        "NVIDIA GeForce RTX 2080 Ti", "NVIDIA TITAN RTX", "TITAN V", "Quadro RTX 8000", "Quadro GV100",
        "NVIDIA RTX A6000", "NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "NVIDIA CMP 170HX", "NVIDIA T400", "NVIDIA PG506-232", "AMD Instinct MI100", "AMD Instinct MI250X",
        "AMD Instinct MI300A", "AMD Instinct MI308X", "AMD Instinct MI325X", "AMD Instinct MI355X",
    ),
}  # fmt: skip


#: each name of the driver's own list, which begins with Turing
LISTED = tuple(
    line
    for line in Path(__file__).with_name("product_names.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def test_every_product_of_the_driver_s_list_finds_the_figures_of_its_own_board() -> None:
    boards = {name: gpu for gpu, names in PRODUCTS.items() for name in names}
    assert len(LISTED) == len(set(LISTED)) > 200
    assert {boards[name] for name in LISTED if name in boards} >= {"A100", "H100", "H200", "B200", "H800", ""}
    for name in LISTED:
        gpu = boards.get(name, "")
        found = compare(run(row(1.0, 16 * GIB), name=name), transport=NVLS)
        assert [item.source.partition(",")[0] for item in found] == ([f"8 x {gpu}"] if gpu else []), name


@pytest.mark.parametrize("gpu", PRODUCTS)
@pytest.mark.parametrize("transport", [NVLS, Transport(multicast=False)], ids=["nvls", "ring"])
def test_products_find_the_figures_of_their_own_board(gpu: str, transport: Transport) -> None:
    for name in PRODUCTS[gpu]:
        found = compare(run(row(1.0, 16 * GIB), name=name), transport=transport)
        assert [item.source.partition(",")[0] for item in found] == ([f"8 x {gpu}"] if gpu else []), name


@pytest.mark.parametrize(
    ("measured", "transport", "cluster"),
    [
        pytest.param(run(row(400.0)), NVLS, NOT_GIVEN, id="H200, at 1 GiB 86 percent"),
        pytest.param(run(row(200.0), name="NVIDIA A100-SXM4-80GB"), NOT_GIVEN, NOT_GIVEN, id="A100, no log"),
        pytest.param(run(row(300.0, 16 * GIB)), Transport(multicast=False), NOT_GIVEN, id="H200 without NVLS"),
        pytest.param(run(row(300.0, ranks=32), ranks=32, hosts=4, name="NVIDIA B200"), NVLS, fabric("", efa=True), id="EFA"),
        pytest.param(
            run(row(380.0, 2 * GIB, ranks=16), ranks=16, hosts=2, name="NVIDIA H100 80GB HBM3"), NVLS,
            fabric("", efa=True), id="two p5 nodes",
        ),
        pytest.param(
            run(row(140.0, 8 * GIB, ranks=16), ranks=16, hosts=2, name="NVIDIA A100-SXM4-80GB"),
            Transport(network="IB"), fabric("InfiniBand", rate=200.0), id="two A100 nodes",
        ),
        pytest.param(run(row(480.0), row(300.0, 16 * GIB, collective="all_gather")), NVLS, NOT_GIVEN, id="another collective"),
    ],
)  # fmt: skip
def test_bad_dc513_below_what_others_measured(
    measured: Measurements, transport: Transport | Unavailable, cluster: Cluster | Unavailable
) -> None:
    (finding,) = as_published(measured, transport, cluster)
    assert (finding.code, finding.severity) == ("DC513", Severity.WARNING)
    assert "published" in finding.message


@pytest.mark.parametrize(
    ("measured", "transport"),
    [
        pytest.param(run(row(420.0)), NVLS, id="90 percent of H200"),
        pytest.param(run(row(350.0, 16 * GIB)), Transport(multicast=False), id="a ring is all that is there"),
        pytest.param(run(row(3.0, 64 * MIB), row(463.0)), NVLS, id="small sizes are no verdict"),
        pytest.param(run(row(100.0), row(480.0, 4 * GIB)), NVLS, id="the largest decides"),
        pytest.param(run(row(207.0), name="NVIDIA A100-SXM4-40GB"), Transport(), id="A100"),
    ],
)
def test_good_dc513_published(measured: Measurements, transport: Transport) -> None:
    assert as_published(measured, transport) == []


@pytest.mark.parametrize(
    ("measured", "transport", "cluster", "words"),
    [
        pytest.param(gloo(row(1.0, 16 * MIB)), NVLS, NOT_GIVEN, "gloo", id="gloo"),
        pytest.param(run(row(1.0), name="NVIDIA L40S"), NVLS, NOT_GIVEN, "this hardware", id="no entry"),
        pytest.param(run(row(1.0), name="NVIDIA H200 NVL"), NVLS, NOT_GIVEN, "this hardware", id="NVL is another"),
        pytest.param(run(row(1.0), name="NVIDIA GH200 480GB"), NVLS, NOT_GIVEN, "this hardware", id="GH200 is another"),
        pytest.param(run(row(1.0, ranks=3), ranks=3), NVLS, NOT_GIVEN, "this hardware", id="another number of GPUs"),
        pytest.param(run(row(1.0, 256 * MIB)), NVLS, NOT_GIVEN, "1 GiB", id="only smaller sizes"),
        pytest.param(run(row(1.0), name="NVIDIA H100 80GB HBM3"), NVLS, NOT_GIVEN, "8 GiB", id="only larger sizes"),
        pytest.param(run(row(1.0, ranks=1024), ranks=1024, hosts=128), NVLS, NOT_GIVEN, "64 ranks", id="many ranks"),
        pytest.param(run(row(None, ranks=1), ranks=1), NVLS, NOT_GIVEN, "one rank", id="one rank"),
        pytest.param(
            run(row(1.0, ranks=32), ranks=32, hosts=4), NVLS, NOT_GIVEN, "this hardware", id="a network that is not known"
        ),
        pytest.param(
            run(row(1.0, 8 * GIB, ranks=64), ranks=64, hosts=8, name="NVIDIA H100 80GB HBM3"), Transport(network="IB"),
            fabric("InfiniBand"), "this hardware", id="figures with SHARP are not for those without",
        ),
        pytest.param(
            run(row(1.0, 2 * GIB, ranks=16), ranks=16, hosts=2, name="NVIDIA H100 80GB HBM3"), Transport(multicast=False),
            fabric("", efa=True), "this hardware", id="figures with NVLS are not for those without",
        ),
        pytest.param(
            run(row(1.0, ranks=16), ranks=16, hosts=2, name="NVIDIA H100 80GB HBM3"), NVLS, fabric("", efa=True), "2 GiB",
            id="two p5 nodes, only smaller sizes",
        ),
    ],
)  # fmt: skip
def test_dc513_no_baseline_is_said_and_is_no_pass(
    measured: Measurements, transport: Transport, cluster: Cluster | Unavailable, words: str
) -> None:
    with pytest.raises(Unavailable, match="no baseline") as caught:
        as_published(measured, transport, cluster)
    assert not isinstance(caught.value, NotApplicable)
    assert words in caught.value.why


def test_dc513_with_sharp_the_figures_with_sharp_count() -> None:
    measured = run(row(300.0, 8 * GIB, ranks=64), ranks=64, hosts=8, name="NVIDIA H100 80GB HBM3")
    sharp = Transport(network="IB", algorithms={"AllReduce": "COLLNET_DIRECT"})
    (finding,) = as_published(measured, sharp, fabric("InfiniBand"))
    assert "SHARP" in finding.message


def test_dc513_another_measure_makes_the_table_needless() -> None:
    measured = gloo(row(1.0, 16 * MIB))
    with pytest.raises(NotApplicable):
        as_published(measured, options=Options(min_busbw_gbytes_per_s=0.1))
    with pytest.raises(NotApplicable):
        as_published(measured, baselines=Baselines(measured, "a.json"))


def test_comparisons_list_every_size_that_can_be_judged() -> None:
    then = run(row(5.0, MIB), row(300.0, 64 * MIB), row(480.0))
    now = run(row(4.0, MIB), row(330.0, 64 * MIB), row(432.0))
    found = compare(now, Options(min_busbw_gbytes_per_s=400), Baselines(then, "a.json"), NVLS)
    assert [(item.kind, item.size_bytes, round(item.share, 2)) for item in found] == [
        ("bound", GIB, 1.08),
        ("baseline", 64 * MIB, 1.1),
        ("baseline", GIB, 0.9),
        ("shipped", GIB, 0.93),
    ]
    assert compare(gloo(row(1.0, 16 * MIB))) == ()


# the one line


def smoke(
    measured: Measurements | None = None, *, ranks: int = 8, hosts: tuple[str, ...] = ("gpu01",), **others: object
) -> SmokeTest:
    proof = others.pop("proof", Correctness(ranks, ranks, checks=100, collectives=("all_reduce",)))
    return SmokeTest(1, ranks, hosts, "nccl", "cuda", measured=measured, proof=proof, **others)  # type: ignore[arg-type]


def test_the_line_of_a_healthy_run() -> None:
    measured = run(row(3.0, MIB), row(482.0))
    assert sentence(smoke(measured, baselines=compare(measured, transport=NVLS))) == (
        "8 ranks on 1 host: all collectives correct; all_reduce 482 GB/s bus bandwidth at 1 GiB, 104 % of the H200 baseline"
    )
    own = compare(measured, baselines=Baselines(run(row(500.0)), "a.json"), transport=NVLS)
    assert sentence(smoke(measured, baselines=own)).endswith(", 96 % of the baseline")


def test_the_line_without_a_baseline() -> None:
    measured = gloo(row(0.912, 16 * MIB, ranks=2))
    line = sentence(smoke(measured, ranks=2))
    assert line == (
        "2 ranks on 1 host: all collectives correct; all_reduce 0.912 GB/s bus bandwidth at 16 MiB; "
        "no baseline for this hardware"
    )


@pytest.mark.parametrize(
    ("test", "line"),
    [
        (smoke(), "8 ranks on 1 host: all collectives correct; bandwidth not measured"),
        (
            smoke(run(row(None, ranks=1), ranks=1), ranks=1),
            "1 rank on 1 host: all collectives correct; bandwidth needs two ranks",
        ),
        (smoke(proof=None), "8 ranks on 1 host: results not checked; bandwidth not measured"),
        (smoke(hosts=("a", "b"), ranks=16), "16 ranks on 2 hosts: all collectives correct; bandwidth not measured"),
        (
            smoke(
                proof=Correctness(8, 8, 100, (WrongResult(3, "all_gather", "int64", 64, 1, 8, 0, "1", "2"),), (3, 4))
            ),
            "8 ranks on 1 host: WRONG results of all_gather on ranks 3-4; bandwidth not measured",
        ),
    ],
)
def test_the_line_of_other_runs(test: SmokeTest, line: str) -> None:
    assert sentence(test) == line


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (
            Failure(
                "timeout",
                "verify",
                "all_reduce float32 4 MiB",
                (3,),
                (0, 1, 2),
                (RankState(3, "node7"),),
                limit_s=60,
            ),
            "rank 3 on node7 did not arrive at all_reduce float32 4 MiB (phase verify)",
        ),
        (
            Failure("died", "measure", "all_reduce", (3,), (), (RankState(3, "node7", detail="SIGKILL"),)),
            "rank 3 on node7 died at all_reduce (SIGKILL) (phase measure)",
        ),
        (
            Failure("raised", "verify", "broadcast", (1,), (), (RankState(1, "node7"),), "RuntimeError: boom\nmore"),
            "rank 1 on node7 failed at broadcast (phase verify): RuntimeError: boom",
        ),
        (
            Failure("stopped", "measure", "all_reduce", (1, 2), (), (RankState(1, "a"), RankState(2, "b"))),
            "ranks 1-2 on a,b are stopped at all_reduce (phase measure)",
        ),
        (
            Failure("lost", "start", "", tuple(range(8, 16)), (), (RankState(8, "b"),)),
            "ranks 8-15 were not heard of again at the next step (phase start)",
        ),
        (Failure("ended", "verify", error="SIGTERM"), "ended by SIGTERM (phase verify)"),
        (
            Failure("timeout", "measure", "all_reduce float32 1 GiB", limit_s=60),
            "all_reduce float32 1 GiB did not end after 60 s on 8 ranks; which rank came late is unknown (phase measure)",
        ),
    ],
)
def test_the_line_of_a_run_that_failed(failure: Failure, line: str) -> None:
    assert sentence(smoke(failure=failure)) == line


@given(st.sets(st.integers(0, 16_383), min_size=1))
def test_the_line_stays_short(ranks: set[int]) -> None:
    states = tuple(RankState(rank, f"node{rank // 8:04d}") for rank in sorted(ranks)[:5])
    failure = Failure("timeout", "verify", "all_reduce float32 4 MiB", tuple(sorted(ranks)), (), states)
    assert len(sentence(smoke(failure=failure, ranks=16_384))) < 250


# in a report


def judged(**facts: object) -> Report:
    modules = ("distcheck.runtime.smoke_test.bandwidth_checks", "distcheck.runtime.smoke_test.nccl_log")
    types: dict[type, object] = {
        Measurements: facts["measured"],
        Options: facts.get("options", Options()),
        Baselines: facts.get("baselines", NOT_GIVEN),
        Transport: facts.get("transport", NOT_GIVEN),
        Cluster: facts.get("cluster", Cluster((HostRecord("gpu01"),))),
    }
    plan = Checker(modules=modules, plug_ins=False).plan(*types, command="collective", closed=True)
    return plan.run(facts=types)


def test_a_report_says_that_there_is_no_baseline() -> None:
    report = judged(measured=gloo(row(1.0, 16 * MIB)))
    assert report.findings == ()
    assert [item.what for item in report.not_checked] == ["DC513"]
    assert "no baseline" in report.not_checked[0].why
    assert "DC513" not in report.checked


def test_a_report_of_a_healthy_run_is_clean() -> None:
    report = judged(measured=run(row(470.0)), transport=NVLS, options=Options(min_busbw_gbytes_per_s=400))
    assert (report.findings, report.not_checked) == ((), ())
    assert "DC513" in report.checked


def test_without_a_measurement_nothing_is_passed() -> None:
    report = judged(measured=Unavailable("--quick leaves it out"), options=Options(min_busbw_gbytes_per_s=400))
    assert {(item.what, item.why) for item in report.not_checked} >= {("DC513", "--quick leaves it out")}
    assert report.checked == frozenset()


def test_judging_needs_no_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from distcheck.runtime.smoke_test import bandwidth, bandwidth_checks as verdicts, nccl_log\n"
        "from distcheck.runtime.smoke_test.model import Measurements, SmokeTest\n"
        "assert verdicts.published()\n"
        "assert verdicts.compare(Measurements(2)) == ()\n"
        "assert verdicts.sentence(SmokeTest(1, 2, ('a',)))\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=Path(bandwidth_checks.__file__).parents[3], timeout=60
    )
