"""Jobs that fail here and now in many ways: the cause is told first, and the rank that is to blame."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck import rules
from tests.cli.test_cli import environment

from . import restyle
from .bench import Bench, Task, record
from .conftest import Recordings
from .jobs import BY_NAME, CLEAN, CONSEQUENCES, JOBS, UNNAMED, Job
from .told import complaints, parameters, summarize, tell_job

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("job", parameters())
@pytest.mark.sampled(every=6)
def test_a_real_job_is_told_as_what_it_was(job: Job, recordings: Recordings, tmp_path: Path) -> None:
    recording = recordings.get(job.name)
    if CLEAN in job.expected:
        assert set(recording.statuses) == {0}, recording.text
    else:
        assert any(status != 0 for status in recording.statuses), recording.text
    assert not list(complaints(job, tell_job(job, recording, tmp_path))), restyle.labelled(recording.lines)


def test_there_are_thirty_rules_and_more_among_them() -> None:
    codes = {job.expected[0] for job in JOBS} - {UNNAMED, CONSEQUENCES, CLEAN}
    assert len(codes) >= 30
    assert codes <= {rule.code for rule in rules.ALL if "log" in rule.ways}
    assert len(BY_NAME) == len(JOBS)


@pytest.mark.parametrize(
    ("job", "status"),
    [
        (BY_NAME[name], status)
        for name, status in (("gloo-interface", 1), ("gloo-interface-list", 1), ("exception", 3), ("healthy", 0))
    ],
    ids=lambda value: value.name if isinstance(value, Job) else "",
)
def test_the_command_tells_the_same(job: Job, status: int, recordings: Recordings, tmp_path: Path) -> None:
    recording = recordings.get(job.name)
    log = tmp_path / "train.log"
    log.write_text(restyle.labelled(recording.lines) if job.style == "label" else recording.text, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "log", "--isolated", "--output-format", "json", str(log)],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=60,
    )
    story = json.loads(result.stdout)["story"]
    assert (story.get("code") or story["outcome"]) in job.expected, result.stdout
    assert result.returncode == status, result.stderr


def test_the_command_reads_a_pipe(recordings: Recordings, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "log", "--isolated", "--output-format", "concise", "-"],
        input=recordings.get("module-shadowed").text,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=60,
    )
    assert result.returncode == 1, result.stderr
    assert "DC122" in result.stdout


def test_a_folder_without_the_file_of_the_guilty_rank(recordings: Recordings, tmp_path: Path) -> None:
    texts = restyle.files(recordings.get("exception-files").lines)
    del texts["rank_2.log"]
    report = summarize(tmp_path / "logs", texts)
    assert report.story["outcome"] == CONSEQUENCES or report.story.get("code") == "DC518", report.story


@pytest.mark.full
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """What a launcher started in a session of its own ends with the job."""
    with Bench() as bench:
        recording = record(
            [bench],
            [Task("torchrun", ("--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=1", "waits.py"))],
            tmp_path,
            limit_s=8,
        )
    assert recording.statuses == (None,)
    assert not [
        folder
        for folder in Path("/proc").iterdir()
        if folder.name.isdecimal() and str(tmp_path / "waits.py").encode() in _command(folder)
    ]


def _command(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""
