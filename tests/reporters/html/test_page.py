"""The page as a whole: well formed, alone, closed to what values bring along, and as it was last time."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import distcheck
from distcheck.core.model import Edit, Fix, NotChecked, ProbeRun, Report, Where
from distcheck.reporters.html import style
from tests.reporters import any_report, samples, synthetic
from tests.reporters.pages import CASES, page

SCHEMA = json.loads((Path(distcheck.__file__).parent / "reporters" / "report.schema.json").read_text())
GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", samples.REPORTS)
def test_the_samples_have_the_shape_of_real_reports(name: str) -> None:
    jsonschema.validate(json.loads(json.dumps(samples.REPORTS[name].as_dict(with_facts=True))), SCHEMA)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_page_is_well_formed_and_stands_alone(name: str, verbose: bool) -> None:
    text, read = page(CASES[name], verbose=verbose)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        root = ElementTree.fromstring(svg)
        assert [root[0].tag, root[1].tag] == ["title", "desc"]
        assert root[1].text
    # nothing is fetched: no image, font, frame or style sheet; links lead to the pages of the rules only
    assert not re.search(r"url\(|@import|\bsrc=|\bsrcset=", text)
    links = [str(link) for link in read.values("a", "href")]
    assert all(re.fullmatch(r"#[\w-]+|https://distcheck\.readthedocs\.io/rules/DC\d{3}/", link) for link in links)
    assert re.findall(r"https?://[^/\"<\s]*", text) == ["https://distcheck.readthedocs.io"] * len(
        [link for link in links if link.startswith("https")]
    )
    identifiers = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert {link[1:] for link in links if link.startswith("#")} <= set(identifiers)
    for _, attributes in read.elements:
        assert set((attributes.get("aria-labelledby") or "").split()) <= set(identifiers)
    assert "NaN" not in text
    assert ">None<" not in text


@pytest.mark.parametrize("name", CASES)
def test_the_policy_lets_one_script_run_and_nothing_load(name: str) -> None:
    _, read = page(CASES[name])
    digest = base64.b64encode(hashlib.sha256("".join(read.scripts).encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in read.values(
        "meta", "content"
    )
    assert "".join(read.scripts) == style.SCRIPT
    assert sum(tag == "script" for tag, _ in read.elements) == 1


@pytest.mark.parametrize("name", CASES)
def test_who_reads_with_a_screen_reader_finds_the_way(name: str) -> None:
    text, read = page(CASES[name], verbose=2)
    tags = [tag for tag, _ in read.elements]
    assert (tags.count("h1"), tags.count("main"), tags.count("header"), tags.count("nav")) == (1, 1, 1, 1)
    # no level is skipped
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(
        attributes.get("scope") in ("col", "row", "rowgroup") for tag, attributes in read.elements if tag == "th"
    )
    assert text.count("<caption>") == len(re.findall(r"<table[ >]", text))
    assert "<caption></caption>" not in text
    # what scrolls can be reached by keyboard, and has a name
    for _, attributes in read.elements:
        assert ("tabindex" in attributes) == (attributes.get("role") == "region")
        assert "tabindex" not in attributes or attributes["aria-label"]


#: Pages that are kept; ``python -m tests.reporters.html.test_page`` writes them again: look at the difference before you do.
KEPT = ("env", "lint", "log", "log-undecided", "pickle", "pickle-object", "merged")


def kept(name: str) -> str:
    """The page without its head, an element on a line: the looks have tests of their own."""
    text = page(CASES[name], verbose=2)[0]
    body = text[text.index("<body>") : text.index("<script>")].replace(distcheck.__version__, "VERSION")
    return re.sub(r">(?=<[^/])", ">\n", body)


@pytest.mark.parametrize("name", KEPT)
def test_the_page_is_as_it_was(name: str) -> None:
    assert kept(name) == (GOLDEN / f"{name}.html").read_text(encoding="utf-8")


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;\x1b[2J\u202e</title></style></svg>-->`<b>`"


def hostile(report: Report) -> Report:
    """The report with EVIL in place of each text that a value can bring along, and as a name where names are free."""

    def poison(value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            # words that the schema fixes
            fixed = name in ("outcome", "by", "where", "verdict", "kind", "severity", "ranks_seen", "silent_ranks")
            return value if fixed else EVIL
        if isinstance(value, (Where, NotChecked, ProbeRun, Edit)):
            return value._replace(**{field: poison(part, field) for field, part in value._asdict().items()})
        if isinstance(value, Fix):
            edits = tuple(edit._replace(text=EVIL, path=EVIL) for edit in value.edits)
            return value._replace(text=EVIL, command=f"{EVIL}\n{EVIL}", risk=EVIL, edits=edits)
        if isinstance(value, dict):
            free = name in ("evidence", "facts")
            poisoned = {key: poison(part, key) for key, part in value.items()}
            return {**poisoned, **({EVIL: EVIL, "nested": [{EVIL: [EVIL]}]} if free else {})}
        if isinstance(value, (list, tuple)):
            return type(value)(poison(part, name) for part in value)
        return value

    return report._replace(
        stage=EVIL,
        subject=poison(dict(report.subject)),
        findings=tuple(
            finding._replace(
                code=EVIL if number % 2 else finding.code,
                name=EVIL,
                message=EVIL,
                fix=poison(finding.fix),
                where=poison(finding.where),
                evidence=poison(dict(finding.evidence), "evidence"),
            )
            for number, finding in enumerate(report.findings)
        ),
        not_checked=poison(report.not_checked),
        probes=poison(report.probes),
        facts=poison(dict(report.facts), "facts"),
        story=poison(dict(report.story)),
    )


@pytest.mark.parametrize("name", samples.REPORTS)
def test_no_value_becomes_markup(name: str) -> None:
    text, read = page(hostile(samples.REPORTS[name]), verbose=2)
    holds_no_evil(text, [attribute for _, attributes in read.elements for attribute in attributes])
    assert "alert(1)" in read.words


def holds_no_evil(text: str, attributes: list[str]) -> None:
    text.encode("utf-8")  # no half of a character
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert [name for name in attributes if name.startswith("on")] == []
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)


def test_no_measured_value_becomes_markup() -> None:
    """Names of hosts, messages, exceptions: each place that a value can reach holds the same hostile text."""
    test = synthetic.smoke_test(8, collectives=("all_reduce",))
    assert test.measured is not None and test.proof is not None and test.lateness is not None
    assert test.pairs is not None
    failure = synthetic.failed().failure
    assert failure is not None
    rows = tuple(row._replace(collective=EVIL, dtype=EVIL) for row in test.measured.bandwidth)
    wrong = synthetic.wrong().proof
    assert wrong is not None
    mismatch = wrong.mismatches[0]._replace(collective=EVIL, dtype=EVIL, expected=EVIL, seen=EVIL)
    evil = test._replace(
        hosts=tuple(f"{EVIL}{number}" for number in range(8)),
        backend=EVIL,
        device=EVIL,
        phases={EVIL: 1.0},
        sentence=EVIL,
        measured=test.measured._replace(bandwidth=rows, device_name=EVIL, clock=EVIL, skipped=((EVIL, EVIL),)),
        proof=wrong._replace(mismatches=(mismatch,), wrong=((EVIL, EVIL),), failures=((EVIL, EVIL),)),
        failure=failure._replace(
            kind=EVIL,
            phase=EVIL,
            step=EVIL,
            error=EVIL,
            states=tuple(
                state._replace(host=EVIL, state=EVIL, detail=EVIL, stack=EVIL, step=EVIL, recorder=(EVIL,))
                for state in failure.states
            ),
        ),
        baselines=tuple(
            item._replace(collective=EVIL, kind=kind, source=EVIL)
            for item in test.baselines
            for kind in ("baseline", "shipped", "bound")
        ),
    )
    text, read = page(synthetic.report(evil, subject={"line": [EVIL]}, stage=EVIL), verbose=2)
    holds_no_evil(text, [attribute for _, attributes in read.elements for attribute in attributes])
    assert "alert(1)" in read.words


@given(st.text(max_size=60), st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip())))
@pytest.mark.slow
def test_any_text_leaves_the_page_whole(host: str, message: str) -> None:
    test = synthetic.smoke_test(8, hosts=(host,), collectives=("all_reduce",), sizes=(1024, 4096))
    text, read = page(synthetic.report(test, synthetic.finding(message)))
    assert "\x1b" not in text
    # what is printable arrives as it is; backquotes become the marks of code
    if message.isprintable() and "`" not in message:
        assert message in unescape("".join(read.text))


#: Texts that are likely to break out of something.
_SHARP = st.text(st.sampled_from("<>&\"'`/-!=; \t\n\\#%{}[]()ab\x00\x1b\u202e\ud800漢é"), max_size=24)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(any_report.reports())
@pytest.mark.slow
def test_any_finding_leaves_the_page_whole(report: Report) -> None:
    text, read = page(report, verbose=2)
    holds_no_evil(text, [attribute for _, attributes in read.elements for attribute in attributes])
    cards = [
        attributes["id"] for tag, attributes in read.elements if tag in ("article", "details") and "id" in attributes
    ]
    assert len(cards) == len(report.findings)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_SHARP, _SHARP, _SHARP, st.lists(_SHARP, max_size=3))
def test_any_log_and_any_file_leave_the_page_whole(path: str, said: str, why: str, more: list[str]) -> None:
    event = samples.event(3, said, path=path, host=why)
    story = {**samples.LOG.story, "first": event, "why": why, "place": path, "led_to": more, "evidence": [event]}
    verdict = samples.verdict(path, "incomplete", said, unopened=more, confirmation=why)
    for report in (
        samples.LOG._replace(story=story),
        samples.PICKLE._replace(subject={**samples.PICKLE.subject, "verdicts": [verdict], "line": more}),
    ):
        text, read = page(report, verbose=2)
        holds_no_evil(text, [attribute for _, attributes in read.elements for attribute in attributes])


def parts() -> Iterator[str]:
    for name in ("env", "lint", "pickle", "pickle-object", "merged"):
        for finding in samples.REPORTS[name].findings:
            yield from (finding.message, finding.fix.text, finding.code, finding.name)
            yield from (finding.fix.command or "").splitlines()


def test_all_texts_of_all_findings_are_there() -> None:
    words = " ".join(page(samples.REPORTS[name])[1].words for name in samples.REPORTS)
    missing = [part for part in parts() if " ".join(part.replace("`", "").split()) not in words]
    assert missing == []


if __name__ == "__main__":
    for name in KEPT:
        (GOLDEN / f"{name}.html").write_text(kept(name), encoding="utf-8")
