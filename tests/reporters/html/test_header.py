"""The top of a page: one line to remember, its colour, the tally and what is to be noted."""

from __future__ import annotations

import re

import pytest

from distcheck.core.model import NotChecked, Report
from distcheck.reporters.html import header
from tests.reporters import samples
from tests.reporters.pages import CASES, page


@pytest.mark.parametrize(
    ("name", "line", "mood"),
    [
        ("env", "1 error, 1 warning, 1 info", "error"),
        ("merged", "1 warning, 1 info", "warning"),
        ("log", "port 29500 is taken: another process listens there, and the store of this job can't", "error"),
        ("log-undecided", "no rule of distcheck names this failure; it was the first that was seen", "warning"),
        ("log-clean", "No failure is in this text", "good"),
        ("pickle", "1 dangerous, 1 not read completely, 1 needs allow-listing, 1 safe", "error"),
        ("failed", "timed out in phase verify, at all_reduce float32 4 MiB, after 61.4 s", "error"),
        ("empty", "No findings in what was checked", "good"),
    ],
)
def test_the_headline_and_its_colour(name: str, line: str, mood: str) -> None:
    text, _ = page(CASES[name])
    assert header.headline(CASES[name]).startswith(line)
    assert f'<header class="top {mood}">' in text


def test_only_what_was_looked_at_is_good() -> None:
    """Green says that nothing is wrong: not where something was not looked at, or is not safe."""
    (info,) = (finding for finding in samples.ENV.findings if finding.code == "DC115")
    found = Report("env", findings=(info,))
    assert header.headline(found) == "no errors, no warnings, 1 info"
    assert header._mood(found) == "good"
    assert header._mood(found._replace(not_checked=(NotChecked("DC301", "no driver"),))) == "plain"
    assert header._mood(found._replace(out_of_time=True)) == "plain"
    verdicts = [samples.verdict("a.pt", "incomplete", "not all of it was looked at")]
    assert header._mood(Report("pickle", subject={"verdicts": verdicts})) == "plain"


def test_the_tally_leads_to_its_sections() -> None:
    text, read = page(samples.ENV)
    nav = re.search(r"<nav.*?</nav>", text, re.DOTALL)
    assert nav is not None
    assert re.findall(r'<a class="(\w+)" href="#([\w-]+)"><b>(\d+)</b> ([\w ]+)', nav[0]) == [
        ("error", "errors", "1", "error"),
        ("warning", "warnings", "1", "warning"),
        ("info", "info", "1", "info"),
        ("unseen", "not-checked", "4", "not checked"),
    ]
    assert "in 0.08 s" in read.words
    # what is zero leads nowhere
    assert '<span class="none"><b>0</b> errors</span>' in page(samples.MERGED)[0]


def test_the_finding_of_a_story_is_reached_there() -> None:
    assert '<a class="error" href="#story"><b>1</b> error</a>' in page(samples.LOG)[0]


def test_what_a_merged_report_says_last_stands_first() -> None:
    text, _ = page(samples.MERGED)
    note = '<div class="note"><p>sent nothing within 30 s: gpu[39-40]</p><p>to run without them: --exclude=gpu[17,39-40]</p>'
    assert note in text
    assert text.index('class="note"') < text.index('class="finding')
    assert 'class="note"' not in page(samples.OBJECT)[0]
