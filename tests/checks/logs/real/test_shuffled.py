"""The same output with other interleaving, other labels, cut off, without a file, in noise: the answer stays."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from . import restyle
from .conftest import Recordings
from .jobs import CLEAN, CONSEQUENCES, UNNAMED, Job
from .told import complaints, parameters, summarize, tell_job

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.full]

#: Started by hand: each line's process is known, so that any label can be put before it.
BY_HAND = (
    *("world-size-missing", "port-of-a-service", "port-taken-by-hand", "name-unknown", "gloo-interface-list"),
    *("rank-twice", "kinds-differ-detail", "monitored-barrier", "reduce-without-group", "memory-limit-python"),
    *("open-files-loader", "group-saved", "lock-gathered", "torn-old-checkpoint", "exception-labelled"),
    *("exception-in-loader", "shapes-differ", "healthy-labelled", "mpi-absent"),
)
#: Started by torchrun, into one file.
BY_TORCHRUN = (
    *("nccl-on-cpu", "module-shadowed", "init-twice", "gloo-interface", "sizes-differ-detail", "models-differ"),
    *("small-floats", "killed", "memory-limit", "open-files", "options-in-checkpoint", "unused-parameters"),
    *("wrapped-weights", "group-copied", "exception", "hangup", "healthy"),
)
FILES = ("master-addr-missing", "rank-absent", "exception-files", "master-refused")
#: Their decisive line stands for itself; what else the others need is the table, or what other ranks say.
CUT = (*BY_HAND[:-2], "nccl-on-cpu", "module-shadowed", "gloo-interface", "small-floats", "unused-parameters")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("job", parameters(*BY_HAND, *BY_TORCHRUN))
def test_interleaved_at_random(job: Job, seed: int, recordings: Recordings, tmp_path: Path) -> None:
    recording = recordings.get(job.name)
    lines = restyle.shuffled(recording.lines, seed)
    assert not list(complaints(job, tell_job(job, recording._replace(lines=tuple(lines)), tmp_path)))


@pytest.mark.parametrize("style", restyle.STYLES)
@pytest.mark.parametrize("job", parameters(*BY_HAND))
def test_with_other_labels(job: Job, style: str, recordings: Recordings, tmp_path: Path) -> None:
    report = summarize(tmp_path, {"train.log": restyle.STYLES[style](recordings.get(job.name).lines)})
    if style == "pods" and job.expected == ("DC709",):
        job = job._replace(expected=("DC507",))  # each pod is a host, and the code of hosts may differ
    # the number of a pod need not be that of its rank: it is the pod that is named
    named = report.story.get("guilty", {}).get("host") == f"train-worker-{job.rank}"
    assert not list(complaints(job, report, rank=not named))


@pytest.mark.parametrize("name", ["rank_{}.log", "job-4711-{}.out"])
@pytest.mark.parametrize("job", parameters(*BY_HAND))
def test_in_a_file_for_each_rank(job: Job, name: str, recordings: Recordings, tmp_path: Path) -> None:
    report = summarize(tmp_path, restyle.files(recordings.get(job.name).lines, name))
    assert not list(complaints(job, report))


@pytest.mark.parametrize("job", parameters(*FILES, *BY_HAND))
def test_without_the_file_of_one_rank(job: Job, recordings: Recordings, tmp_path: Path) -> None:
    texts = restyle.files(recordings.get(job.name).lines)
    witness = f"rank_{max(int(name[5:-4]) for name in texts if name != f'rank_{job.rank}.log')}.log"
    if len(texts) < 3 and job.rank is None:
        pytest.skip("either of the two may be the one that is needed")
    del texts[witness]
    # a rank that never came is known by those that did
    assert not list(complaints(job, summarize(tmp_path, texts), rank=f"rank_{job.rank}.log" in texts))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("job", parameters(*CUT))
def test_cut_off_at_both_ends(job: Job, seed: int, recordings: Recordings, tmp_path: Path) -> None:
    recording = recordings.get(job.name)
    whole = restyle.labelled(recording.lines) if job.style == "label" else recording.text
    decisive = summarize(tmp_path / "whole", {"train.log": whole}).story["first"]["line"] - 1
    chance = random.Random(seed)
    lines = whole.splitlines(keepends=True)
    begin, end = max(0, decisive - chance.randrange(25)), decisive + 1 + chance.randrange(25)
    report = summarize(tmp_path / "cut", {"train.log": "".join(lines[begin:end])})
    # without a label, the rank stands in the launcher's table
    assert not list(complaints(job, report, rank=job.style == "label")), "".join(lines[begin:end])


@pytest.mark.parametrize(
    "job",
    parameters(
        *("exception", "exception-labelled", "gloo-interface", "killed", "port-taken-static", "unused-parameters"),
        *("shm-full", "sizes-differ-detail", "rank-absent", "healthy", "healthy-noisy", "world-size-missing"),
    ),
)
def test_in_a_hundred_thousand_lines_of_noise(job: Job, recordings: Recordings, tmp_path: Path) -> None:
    recording = recordings.get(job.name)
    # what follows a failure is little: other ranks wrote on until they were ended
    after = 30_000 if CLEAN in job.expected else 300
    if job.style == "files":
        texts = {
            name: restyle.in_noise(text, before=30_000, between=300, after=0, seed=1)
            for name, text in restyle.files(recording.lines).items()
        }
        assert not list(complaints(job, summarize(tmp_path, texts)))
        return
    text = restyle.labelled(recording.lines) if job.style == "label" else recording.text
    if job.style == "label":
        before = "".join(f"{number % 8}: {line}\n" for number, line in enumerate(restyle.noise(100_000, 1)))
        noisy = before + text
    else:
        noisy = restyle.in_noise(text, before=100_000, between=600, after=after, seed=1)
    assert not list(complaints(job, summarize(tmp_path, {"train.log": noisy})))


@pytest.mark.parametrize("job", parameters("gloo-interface", "exception", "nccl-on-cpu", "unused-parameters"))
def test_between_two_other_jobs_in_one_file(job: Job, recordings: Recordings, tmp_path: Path) -> None:
    """A file that jobs are appended to: what is before was well, and so is what comes after."""
    healthy = recordings.get("healthy").text
    report = summarize(tmp_path, {"train.log": healthy + recordings.get(job.name).text})
    assert not list(complaints(job, report))


def test_a_consequence_is_no_cause_where_the_cause_is_cut_off(recordings: Recordings, tmp_path: Path) -> None:
    """Without the guilty rank's lines, what is left is told as what others died of."""
    lines = [line for line in recordings.get("exception-labelled").lines if line.process != 2]
    report = summarize(tmp_path, {"train.log": restyle.labelled(lines)})
    assert report.story["outcome"] == CONSEQUENCES or report.story.get("code") == "DC518", report.story
    assert report.story["outcome"] != UNNAMED
