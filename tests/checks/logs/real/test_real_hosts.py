"""What is told of jobs on two hosts in network namespaces whose network is really broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.core.model import Severity

from . import restyle
from .conftest import Recordings
from .hosts import SCENARIOS, Scenario
from .jobs import CLEAN
from .told import summarize

pytestmark = [pytest.mark.netns, pytest.mark.torch, pytest.mark.slow]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_job_of_two_hosts_is_told_as_what_it_was(scenario: Scenario, recordings: Recordings, tmp_path: Path) -> None:
    """In a file of each host, and in one file with the hosts before the lines."""
    recording = recordings.on_hosts(scenario)
    labelled = "".join(f"node{line.process}: {line.text}\n" for line in recording.lines)
    if CLEAN in scenario.expected:
        assert set(recording.statuses) == {0}, labelled
    for style, texts in (
        ("files", restyle.files(recording.lines, "node{}.log")),
        ("label", {"train.log": labelled}),
    ):
        report = summarize(tmp_path / style, texts)
        story = report.story
        assert (story.get("code") or story["outcome"]) in scenario.expected, (
            f"{style}: {story.get('first')}\n{labelled}"
        )
        assert scenario.rank in (None, story.get("guilty", {}).get("rank")), f"{style}: {story['guilty']}\n{labelled}"
        loud = [finding.code for finding in report.findings if finding.severity > Severity.INFO]
        assert CLEAN not in scenario.expected or not loud, labelled
