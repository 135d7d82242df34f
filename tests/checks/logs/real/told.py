"""Gives the output of a job to distcheck, and says what is wrong with the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from distcheck.checks.logs.diagnose import diagnose, read_timeline
from distcheck.core.model import Report, Severity

from . import restyle
from .bench import Recording
from .jobs import CLEAN, JOBS, Job


def parameters(*names: str) -> list[object]:
    """Jobs as parameters of a test: all, or those named."""
    return [
        pytest.param(job, id=job.name, marks=[getattr(pytest.mark, mark) for mark in job.marks])
        for job in JOBS
        if not names or job.name in names
    ]


def summarize(folder: Path, texts: Mapping[str, str]) -> Report:
    """What distcheck says of these texts, in one file or in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return diagnose(read_timeline([str(folder if len(texts) > 1 else folder / next(iter(texts)))]))


def tell_job(job: Job, recording: Recording, folder: Path) -> Report:
    """What distcheck says of a job's output, in the style that the job is looked at in."""
    if job.style == "files":
        return summarize(folder, restyle.files(recording.lines))
    if job.style == "folder":
        (folder / "launcher.log").write_text(recording.text, encoding="utf-8")
        return diagnose(read_timeline([str(recording.folder / "logs"), str(folder / "launcher.log")]))
    if job.style == "dumps":
        (folder / "train.log").write_text(restyle.labelled(recording.lines), encoding="utf-8")
        return diagnose(read_timeline([str(recording.folder / "dumps"), str(folder / "train.log")]))
    text = restyle.labelled(recording.lines) if job.style == "label" else recording.text
    return summarize(folder, {"train.log": text})


def complaints(job: Job, report: Report, *, rank: bool = True) -> Iterator[str]:
    """What is not as it must be, a sentence each.

    :param rank: whether the output still shows which rank is to blame
    """
    story = report.story
    told = story.get("code") or story["outcome"]
    loud = {finding.code: finding.message for finding in report.findings if finding.severity > Severity.INFO}
    guilty = story.get("guilty", {})
    if told not in job.expected:
        yield f"{' or '.join(job.expected)} is the truth, and {told} is told: {story.get('first', {}).get('text')}"
    if CLEAN in job.expected and loud:
        yield f"nothing is wrong, and this is reported: {loud}"
    if rank and job.rank is not None and guilty.get("rank") != job.rank:
        yield f"rank {job.rank} is to blame, and {guilty} is named"
    missing = set(job.also) - {finding.code for finding in report.findings}
    if missing:
        yield f"not reported: {sorted(missing)}"
    if own := [finding.message for finding in report.findings if finding.code.startswith("DC9")]:
        yield f"about itself: {own}"
