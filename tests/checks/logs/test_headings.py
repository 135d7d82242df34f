"""Which process a traceback or a part of a file is of, where only a line above it names it; and which lines name none."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.checks.logs.diagnose import read_timeline
from distcheck.checks.logs.headings import stated_rank
from distcheck.core.model import Report

from .cases import told, write_texts

TRACEBACK = """Traceback (most recent call last):
  File "/workspace/train.py", line 33, in <module>
    main()
  File "/workspace/train.py", line 12, in main
    raise ValueError("no such layer")
ValueError: no such layer
"""
#: Another rank that lost the failed one.
LOST = "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.4]:41002\n"


def report_of(text: str, folder: Path) -> Report:
    return told({"run.log": text.encode()}, folder / "log")


def failed_rank(text: str, folder: Path) -> int | None:
    return report_of(text, folder).story.get("guilty", {}).get("rank")


@pytest.mark.parametrize(
    "above",
    [
        "[Rank 3]",
        "[rank 3]:",
        "Rank 3:",
        "[Rank 3 Error Snippet]:",
        "=== rank 3 ===",
        "----- Rank 3 traceback -----",
        "Training failed on rank 3: see below",
        "Exception in rank 3",
        "Rank 3 raised an exception",
        "Rank 3 encountered an error:",
        "Exception in device=TPU:3: no such layer",
        "2025-11-22 07:43:25,250 - rank 3 - ERROR - training failed",
        "2025-11-22 07:43:25,250 [rank 3] ERROR training failed",
        "[2025-11-22 07:43:25] ERROR [rank3] training failed",
    ],
)
def test_the_line_above_names_the_rank(above: str, tmp_path: Path) -> None:
    assert failed_rank(f"step 4711\n{above}\n{TRACEBACK}", tmp_path) == 3
    assert failed_rank(f"step 4711\n{above}\n\n{TRACEBACK}", tmp_path) == 3


@pytest.mark.parametrize(
    "above",
    [
        "waiting for rank 3",
        "[Rank 3] loaded the data",
        "Rank 3: 4096 samples",
        "error on rank 3 and on rank 5",
        "rank 2 raised an exception that rank 3 got",
        "no error on 3 ranks",
        # a rank with the launcher's label, and a traceback without: of the launcher
        "[rank3]: RuntimeError: no such layer",
        "[rank3]:[E1122 07:43:25.250 ProcessGroupNCCL.cpp:616] [Rank 3] failed",
        # nothing is wrong yet
        "2025-11-22 07:43:25,250 - rank 3 - INFO - step 4711",
    ],
)
def test_the_line_above_names_no_rank(above: str, tmp_path: Path) -> None:
    report = report_of(f"step 4711\n{above}\n{TRACEBACK}", tmp_path)
    assert "rank" not in report.story["guilty"] or report.story["first"]["line"] == 2


def test_a_labelled_traceback_is_of_its_writer(tmp_path: Path) -> None:
    labelled = "".join(f"[rank1]: {line}\n" for line in TRACEBACK.splitlines())
    assert failed_rank(f"[Rank 3]\n{labelled}", tmp_path) == 1


def test_a_heading_counts_for_one_traceback(tmp_path: Path) -> None:
    other = TRACEBACK.replace("ValueError", "KeyError")
    report = report_of(f"[Rank 3]\n{TRACEBACK}\nmore\n{other}", tmp_path)
    events = {event["text"]: event.get("rank") for event in report.story["evidence"]}
    assert events["ValueError: no such layer"] == 3
    assert report.story["guilty"]["rank"] == 3


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("RuntimeError: training failed on rank 3", 3),
        ("[RANK 0]", 0),
        ("Rank 3 failed with exception: boom", 3),
        ("RuntimeError: Rank[3] failed.", 3),
        ("RuntimeError: rank 3 died", 3),
        ("AssertionError: Rank 3: found NaN in a gradient. Device: 1", 3),
        ("ValueError: [rank 3]: no batch is left", 3),
        ("ValueError: Rank 3: rank 0 has other sizes", None),
        ("ValueError: shapes differ. Rank 3: 12", None),
        ("rank 3 failed to connect to rank 0", None),
        ("rank 3 failed after 12 retries to open shard 7", None),
        ("Rank 3 has 5 batches", None),
        ("rank 3 crashed, rank 0 did not", None),
        ("Failed to broadcast the state. Start on rank 3", None),
        ("ranks 0-3:", None),
        ("rank: 3 (local_rank: 3)", None),
        ("ValueError: conversion failed on tensor of rank 4", None),
        ("LinAlgError: matrix of rank 2 failed", None),
        ("RuntimeError: merge failed in rank 16 adapter", None),
        ("ERROR: communication with rank 1 failed", None),
        ("RuntimeError: Socket error from rank 3", None),
    ],
)
def test_statements(line: str, rank: int | None) -> None:
    assert stated_rank(line) == rank


@pytest.mark.parametrize(
    ("heading", "end", "name", "number"),
    [
        ("==> logs/rank_3.log <==", "==> logs/rank_0.log <==", "rank", 3),
        ("==> attempt_0/3/stderr.log <==", "==> attempt_0/0/stderr.log <==", "rank", 3),
        ("Streaming user_logs/std_log_3.txt", "Streaming user_logs/std_log_0.txt", "rank", 3),
        (
            "----------Begin global rank 3 STDERR----------",
            "----------End global rank 3 STDERR----------",
            "rank",
            3,
        ),
        ("==> logs/train_rank_3 <==", "==> logs/train_rank_0 <==", "rank", 3),
        ("==> rank_3/stdout <==", "==> rank_0/stdout <==", "rank", 3),
        ("==> rank3.txt <==", "==> rank0.txt <==", "rank", 3),
        ("==> node07.log <==", "==> node08.log <==", "host", "node07"),
    ],
)
def test_the_text_below_the_heading_of_a_file_is_of_its_process(
    heading: str, end: str, name: str, number: int | str, tmp_path: Path
) -> None:
    before = "==> logs/rank_1.log <==\nstep 1\n\n" if name == "rank" else ""
    report = report_of(f"{before}{heading}\nstep 4711\n{TRACEBACK}\n{end}\n{LOST}", tmp_path)
    assert report.story["guilty"].get(name) == number
    assert report.story["first"]["text"] == "ValueError: no such layer"


def test_lines_of_slurm_below_the_heading_of_a_file_are_of_no_rank(tmp_path: Path) -> None:
    files = "==> logs/rank_6.log <==\nstep 1\n==> logs/rank_7.log <==\nstep 1\n"
    report = report_of(
        files + "slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***\n",
        tmp_path,
    )
    assert [finding.code for finding in report.findings][:1] == ["DC125"]
    assert "rank" not in report.story["first"]


def test_below_more_headings_than_are_kept_no_rank_is_known(tmp_path: Path) -> None:
    part = "==> rank_7.log <==\nstep 4711\n"
    assert failed_rank(f"{part * 10_000}==> rank_3.log <==\n{TRACEBACK}", tmp_path / "more") is None
    assert failed_rank(f"{part * 9_000}==> rank_3.log <==\n{TRACEBACK}", tmp_path / "fewer") == 3


def test_the_same_words_below_two_headings_are_of_two_processes(tmp_path: Path) -> None:
    parts = "".join(f"==> rank_{rank}.log <==\nstep {rank}\n{TRACEBACK}\n" for rank in range(3))
    timeline = read_timeline(write_texts({"run.log": parts.encode()}, tmp_path / "log"))
    assert timeline.ranks == (0, 1, 2)
    assert [event.who.rank for event in timeline.events if event.traceback is not None] == [0, 1, 2]


@pytest.mark.parametrize(
    "line",
    [
        "==> Preparing data for rank_3 <==",
        "==> rank_3.log",
        "print('==> rank_3.log <==')",
        "==> notes_rank_3 <==",
        "==> docs/lora_rank_3.md <==",
        "==> adapters/rank_3/README.txt <==",
    ],
)
def test_what_only_looks_like_the_heading_of_a_file(line: str, tmp_path: Path) -> None:
    assert failed_rank(f"{line}\n{TRACEBACK}", tmp_path) is None


def test_a_later_heading_ends_a_part(tmp_path: Path) -> None:
    assert failed_rank(f"==> rank_3.log <==\nstep 1\n==> launcher.log <==\n{TRACEBACK}", tmp_path) is None
