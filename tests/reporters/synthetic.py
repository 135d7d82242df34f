"""SYNTHETIC measurements, made by formula for the tests of the reporters: nothing here was measured on any machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotChecked, Report, Where, to_plain
from distcheck.runtime.coordination.model import Failure, RankState
from distcheck.runtime.smoke_test.model import (
    Bandwidth,
    Comparison,
    Correctness,
    Lateness,
    Measurements,
    Pair,
    Pairs,
    SmokeTest,
    Times,
    WrongResult,
)

#: busbw / algbw for n ranks, as in nccl-tests' PERFORMANCE.md
FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "gather": lambda n: (n - 1) / n,
    "send_recv": lambda n: 1.0,
}
#: what each would reach at an endless size, in GB/s; invented
PEAKS = {
    "all_reduce": 482.0,
    "all_gather": 361.0,
    "reduce_scatter": 363.0,
    "all_to_all": 340.0,
    "broadcast": 330.0,
    "reduce": 310.0,
    "gather": 205.0,
    "send_recv": 130.0,
}
SIZES = tuple(1024 * 4**power for power in range(11))


def bandwidth(collective: str, size: int, ranks: int, *, latency_s: float = 28e-6, share: float = 1.0) -> Bandwidth:
    """A row of a sweep by the usual model: a constant time plus the size over the peak."""
    factor = FACTORS[collective](ranks) if ranks > 1 else 0.0
    median = latency_s + size * (factor or 0.01) / (PEAKS[collective] * share * 1e9)
    wobble = 1 + (size % 7) / 40
    return Bandwidth(
        collective,
        "float32",
        size,
        ranks,
        Times(median, median * 0.94, median * 1.09 * wobble, median * 0.92),
        size / median / 1e9,
        size / median / 1e9 * factor if ranks > 1 else None,
        (median, median * 0.94, median * 1.09 * wobble),
        20,
    )


def lateness(ranks: int, late: dict[int, float]) -> Lateness:
    """Small and different values, save for those who are late."""
    return Lateness(
        tuple(late.get(rank, (rank * 7919 % 97) * 0.31e-6) for rank in range(ranks)),
        tuple(1.81e-3 + (rank * 104729 % 89) * 0.4e-6 for rank in range(ranks)),
        5,
    )


def pairs(ranks: int, slow: dict[tuple[int, int], float], *, rounds: int | None = None) -> Pairs:
    """Round-robin: every pair, or only those of the first rounds."""
    found = []
    wanted = ranks - 1 if rounds is None else rounds
    for number in range(wanted):
        rank_infos = [0, *((place + number) % (ranks - 1) + 1 for place in range(ranks - 1))]
        for low in range(ranks // 2):
            a, b = sorted((rank_infos[low], rank_infos[ranks - 1 - low]))
            found.append(Pair(a, b, number, slow.get((a, b), 150.0 + (a * 31 + b * 17) % 13 - 6), 8.4e-6))
    found.extend(Pair(a, b, wanted, value, 8.5e-6, retest=True) for (a, b), value in slow.items())
    return Pairs(tuple(found), 64 * 1024**2, wanted, rounds is None, None, 3.2)


def smoke_test(
    ranks: int = 8,
    *,
    hosts: tuple[str, ...] = ("node1",),
    collectives: tuple[str, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    sizes: tuple[int, ...] = SIZES,
    judged: bool = True,
) -> SmokeTest:
    """A smoke test that came to its end."""
    rows = tuple(bandwidth(collective, size, ranks) for collective in collectives for size in sizes)
    comparisons = tuple(
        Comparison(
            row.collective,
            row.size_bytes,
            row.busbw_gbytes_per_s,
            PEAKS[row.collective],
            row.busbw_gbytes_per_s / PEAKS[row.collective],
            "shipped",
            "SYNTHETIC, 2026-01-01",
        )
        for row in rows
        if judged and row.size_bytes == max(sizes) and row.busbw_gbytes_per_s is not None
    )
    some = ranks > 1
    return SmokeTest(
        1,
        ranks,
        hosts,
        "nccl",
        "cuda",
        {"env": 0.42, "membership": 0.03, "compare": 0.011, "verify": 2.31, "measure": 6.02, "culprit": 1.4},
        Correctness(
            ranks, ranks, 1248 * ranks, elapsed_s=2.3, collectives=tuple(FACTORS), dtypes=("float32", "bfloat16")
        ),
        Measurements(ranks, "nccl", "cuda", "SYNTHETIC H200", len(hosts), 1.92, 0.4, rows, (), "cuda-events", 6.0),
        lateness(ranks, {3: 1.9e-3} if ranks > 3 else {}) if some else Lateness(not_applicable="there is one rank"),
        pairs(ranks, {(2, 5): 12.3}, rounds=None if ranks <= 64 else 3) if ranks > 6 else None,
        None,
        comparisons,
        f"{ranks} ranks on {len(hosts)} host: all collectives correct; all_reduce 478 GB/s bus bandwidth at 1 GiB, "
        "99 % of the SYNTHETIC baseline",
    )


def failed(*, ranks: int = 4) -> SmokeTest:
    """One that hung in the proof."""
    stack = 'File "train.py", line 3, in <module>\n  main()\nFile "worker.py", line 41, in verify\n  all_reduce(tensor)'
    return SmokeTest(
        1,
        ranks,
        ("node1", "node2"),
        "gloo",
        "cpu",
        {"env": 0.2, "membership": 0.01},
        failure=Failure(
            "timeout",
            "verify",
            "all_reduce float32 4 MiB",
            (3,),
            (0, 1, 2),
            (
                RankState(
                    3, "node2", 4711, "verify", "all_reduce float32 4 MiB", 12, "stopped", "SIGSTOP", "", (), 61.2
                ),
                RankState(
                    0,
                    "node1",
                    4708,
                    "verify",
                    "all_reduce float32 4 MiB",
                    13,
                    "running",
                    "",
                    stack,
                    ("12 all_reduce",),
                    60.1,
                ),
            ),
            "",
            60.0,
            61.4,
        ),
    )


def wrong() -> SmokeTest:
    """One whose results are wrong on a rank."""
    mismatch = WrongResult(3, "all_reduce", "bfloat16", 4096, 17, 2048, 1031, "28.0", "27.5", 2, 5)
    whole = smoke_test()
    assert whole.proof is not None
    return whole._replace(
        proof=whole.proof._replace(mismatches=(mismatch,), wrong_ranks=(3,), skipped=(("float16", "gloo has none"),))
    )


def finding(message: str = "rank 3 (node1, GPU 3) came 1.90 ms late, the others 14 µs") -> Finding:
    """A finding as the smoke test makes them."""
    return rules.DC401.found(
        message,
        where=Where(host="node1", rank=3, gpu="3", phase="culprit"),
        evidence={"lateness_s": 0.0019, "median_s": 1.4e-5, "ranks": [3]},
        fix=Fix(
            "look at what else runs there", command="nvidia-smi\nps aux", where="host", by="admin", risk="it is slow"
        ),
    )


def report(test: SmokeTest | None, *findings: Finding, **more: Any) -> Report:
    """A report that holds a smoke test as plain values, as the command makes it."""
    values: dict[str, Any] = {
        "stage": "rank",
        "subject": {"host": "node1", "line": ["torchrun 8 processes", "node1", "8× SYNTHETIC H200"]},
        "findings": findings,
        "not_checked": (NotChecked("DC413, DC414", "no InfiniBand port here"),),
        "elapsed_s": 10.31,
        "measurements": {} if test is None else to_plain(test),
    }
    return Report("collective", **{**values, **more})
