"""What a smoke test measured, on a page: tables, curves, bars, the map of pairs."""

from __future__ import annotations

import re

from tests.reporters.pages import CASES, page


def test_the_finding_of_a_run_is_whole() -> None:
    text, read = page(CASES["eight"])
    words = read.words
    for part in (
        "8 ranks on 1 host: all collectives correct",
        "DC401 master-port-in-use node1, rank 3, GPU 3",
        "rank 3 (node1, GPU 3) came 1.90 ms late, the others 14 µs",
        "lateness s",
        "(on this host, by an administrator) look at what else runs there",
        "it is slow",
        "pip install torch",
        "no InfiniBand port here",
    ):
        assert part in words, part
    assert "<code>nvidia-smi\nps aux</code>" in text
    assert text.index("DC401") < text.index("DC330")


def test_the_measurements_are_tables_and_pictures() -> None:
    text, _ = page(CASES["eight"])
    titles = re.findall(r"<title id=\"[^\"]*\">(.*?)</title>", text)
    assert titles == [
        "all_reduce: bus bandwidth over size",
        "all_gather: bus bandwidth over size",
        "reduce_scatter: bus bandwidth over size",
        "all_to_all: bus bandwidth over size",
        "Time over message size",
        "Late at the collective",
        "Own time of an equal computation",
        "Bandwidth of each pair of ranks",
    ]
    assert (
        "<td>1 GiB</td><td>3.93 ms</td><td>3.69–4.39 ms</td><td>273</td><td>479</td><td>482</td><td>99 %</td>" in text
    )
    assert "baseline 482 GB/s at 1 GiB" in text
    assert "<title>all_reduce, 1 GiB: 3.93 ms (3.69–4.39 ms), 479 GB/s bus bandwidth</title>" in text
    assert "<title>ranks 2 ↔ 5: 12.3 GB/s, 8.40 µs, again 12.3 GB/s</title>" in text
    assert text.count('class="bar loud"') == 1
    # 479 GB/s in 3.93 ms are 482 GB/s in 3.90 ms; the line is that of one bandwidth, where latency counts little
    times = text[text.index("Time over message size") :]
    assert "<title>baseline of all_reduce, 1 GiB: 3.90 ms</title>" in times
    assert len(re.findall(r"<title>baseline of all_reduce, ", times)) > 1
    assert "Dashed: baseline." in times
    assert times.count(">baseline</text>") == 1


def test_one_rank_is_not_applicable() -> None:
    text, _ = page(CASES["one"])
    assert "One rank: bus bandwidth is not applicable." in text
    assert "busbw" not in text
    assert "Not applicable: there is one rank." in text
    assert "bandwidth over size" not in text


def test_without_a_baseline_that_is_said() -> None:
    text = page(CASES["two"])[0]
    assert "no baseline: the bandwidth is measured, not judged" in text
    assert "Dashed:" not in text


def test_many_ranks_are_a_distribution_and_outliers() -> None:
    text, _ = page(CASES["thousand"])
    assert "ranks (root scale)" in text
    assert "ranks that stand out" in text
    assert "Bandwidth of each pair" not in text
    assert "The slowest 10 of" in text
    assert len(text) < 100_000
    text, _ = page(CASES["sixty-four"])
    assert "root scale" not in text
    assert "Bandwidth of each pair" in text
    assert len(text) < 500_000


def test_a_run_that_failed_says_where() -> None:
    text, read = page(CASES["failed"])
    assert "<h1>timed out in phase verify, at all_reduce float32 4 MiB, after 61.4 s" in text
    assert "rank 3 on node2, pid 4711: stopped (SIGSTOP)" in read.words
    assert "all_reduce(tensor)" in text
    assert "Bandwidth and latency" not in text
