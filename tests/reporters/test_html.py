"""The page: well formed, closed to what values bring along, readable in both colour schemes, and in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck import rules
from distcheck.model import Finding, Fix, NotChecked, ProbeRun, Report, Severity, Where
from distcheck.reporters import Style, charts, html, measurements, render, sentence

from . import synthetic

VOID = {"meta", "br", "hr", "img", "input", "link", "col", "area", "base", "embed", "source", "track", "wbr"}
#: Elements that the page may have; anything else came in with a value.
# fmt: off
KNOWN = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "section", "article", "footer", "figure",
    "figcaption", "h1", "h2", "h3", "p", "a", "span", "strong", "ul", "li", "dl", "dt", "dd", "pre", "code",
    "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "svg", "desc", "g",
    "path", "rect", "text",
}
# fmt: on
INFO = rules.DC330.found("torch is not installed for this Python", fix=Fix("install it", command="pip install torch"))
HOSTS = tuple(f"gpu{number:02}" for number in range(8))
CASES: dict[str, Report] = {
    "eight": synthetic.report(synthetic.smoke_test(), synthetic.finding(), INFO),
    "all-collectives": synthetic.report(synthetic.smoke_test(collectives=tuple(synthetic.FACTORS))),
    "one": synthetic.report(synthetic.smoke_test(1)),
    "two": synthetic.report(synthetic.smoke_test(2, judged=False)),
    "sixty-four": synthetic.report(synthetic.smoke_test(64, hosts=HOSTS)),
    "thousand": synthetic.report(synthetic.smoke_test(1024, hosts=HOSTS)),
    "failed": synthetic.report(synthetic.failed(), synthetic.finding("rank 3 never came")),
    "wrong": synthetic.report(synthetic.wrong()),
    "env": synthetic.report(
        None,
        synthetic.finding(),
        INFO,
        facts={"Platform": {"system": "linux", "container": None}},
        probes=(ProbeRun("environment.ports.master_port_is_free", "ran", 0.001),),
    ),
    "empty": Report("env"),
}


class Page(HTMLParser):
    """Reads a page strictly: every element that is opened is closed, in order, and known."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_decl(self, decl: str) -> None:
        assert decl == "DOCTYPE html"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN, tag
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # in SVG an element may close itself; elsewhere HTML has no such thing
        assert "svg" in self.stack
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] != "style":
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def values(self, tag: str, name: str) -> list[str | None]:
        return [attributes[name] for element, attributes in self.elements if element == tag and name in attributes]


def page(report: Report, **style: Any) -> tuple[str, Page]:
    text = render(report, "html", Style(**style))
    return text, Page(text)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_page_is_well_formed_and_stands_alone(name: str, verbose: bool) -> None:
    text, read = page(CASES[name], verbose=verbose)
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        root = ElementTree.fromstring(svg)
        assert [root[0].tag, root[1].tag] == ["title", "desc"]
        assert root[1].text
    # nothing is fetched: no script, image, font, frame or style sheet; links lead to the pages of the rules only
    assert not {"script", "img", "link", "iframe", "object"} & {tag for tag, _ in read.elements}
    assert not re.search(r"url\(|@import|\bsrc=", text)
    assert all(str(link).startswith("https://distcheck.readthedocs.io/rules/DC") for link in read.values("a", "href"))
    assert "default-src 'none'" in str(read.values("meta", "content"))
    identifiers = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for _, attributes in read.elements:
        assert set((attributes.get("aria-labelledby") or "").split()) <= set(identifiers)
    assert text.count("<h1>") == 1
    assert "NaN" not in text
    assert ">None<" not in text


@pytest.mark.parametrize("name", CASES)
def test_tables_have_captions_and_headers_with_a_scope(name: str) -> None:
    text, read = page(CASES[name])
    assert all("scope" in attributes for tag, attributes in read.elements if tag == "th")
    assert text.count("<caption>") == text.count("<table>")


def test_findings_are_whole() -> None:
    text, read = page(CASES["eight"])
    words = " ".join(read.text)
    for part in (
        "8 ranks on 1 host: all collectives correct",
        "DC401",
        "master-port-in-use",
        "node1, rank 3, GPU 3",
        "rank 3 (node1, GPU 3) came 1.90 ms late, the others 14 µs",
        "lateness_s",
        "(on this host, by an administrator): look at what else runs there",
        "it is slow",
        "pip install torch",
        "DC413, DC414: no InfiniBand port here",
    ):
        assert part in words, part
    assert "<code>nvidia-smi\nps aux</code>" in text
    assert "https://distcheck.readthedocs.io/rules/DC401/" in read.values("a", "href")
    assert text.index("DC401") < text.index("DC330")
    assert '<details class="finding info">' in text


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


def test_one_rank_is_not_applicable() -> None:
    text, _ = page(CASES["one"])
    assert "One rank: bus bandwidth is not applicable." in text
    assert "busbw" not in text
    assert "Not applicable: there is one rank." in text
    assert "bandwidth over size" not in text


def test_without_a_baseline_that_is_said() -> None:
    assert "no baseline: the bandwidth is measured, not judged" in page(CASES["two"])[0]


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
    assert "<h1>timed out in phase prove, at all_reduce float32 4 MiB, after 61.4 s" in text
    assert "rank 3 on node2, pid 4711: stopped (SIGSTOP)" in " ".join(read.text)
    assert "all_reduce(tensor)" in text
    assert "Bandwidth and latency" not in text


def test_facts_and_probes_are_folded_and_only_with_verbose() -> None:
    assert "Platform" not in page(CASES["env"])[0]
    text, read = page(CASES["env"], verbose=True)
    assert "<dt>system</dt><dd>linux</dd>" in text
    assert "environment.ports.master_port_is_free" in " ".join(read.text)


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;\x1b[2J\u202e</title></style></svg>-->"


def test_no_value_becomes_markup() -> None:
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
    hostile = test._replace(
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
    finding = rules.DC401.found(
        EVIL,
        fix=Fix(EVIL, command=f"{EVIL}\n{EVIL}", risk=EVIL),
        where=Where(host=EVIL, gpu=EVIL, variable=EVIL),
        evidence={EVIL: EVIL, "nested": {"list": [EVIL]}},
    )
    report = synthetic.report(
        hostile,
        finding,
        finding._replace(severity=Severity.INFO, code=EVIL, name=EVIL),
        subject={"line": [EVIL]},
        stage=EVIL,
        facts={EVIL: {EVIL: EVIL}, "list": [EVIL]},
        probes=(ProbeRun(EVIL, "failed", 0.1, EVIL),),
    )
    text, read = page(report, verbose=True)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    handlers = [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert handlers == []
    assert "alert(1)" in " ".join(read.text)
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)


@given(st.text(max_size=60), st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip())))
def test_any_text_leaves_the_page_whole(host: str, message: str) -> None:
    test = synthetic.smoke_test(8, hosts=(host,), collectives=("all_reduce",), sizes=(1024, 4096))
    text, read = page(synthetic.report(test, synthetic.finding(message)))
    assert "\x1b" not in text
    # what is printable arrives as it is
    if message.isprintable():
        assert message in unescape("".join(read.text))


COLOR = re.compile(r"--([\w-]+):#([0-9a-f]{3,6})\b")


def contrast(one: str, other: str) -> float:
    lights = sorted(
        charts.luminance(*(int(color[at : at + 2], 16) for at in (0, 2, 4)))
        for color in ("".join(char * 2 for char in item) if len(item) == 3 else item for item in (one, other))
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("scheme", [html._LIGHT, html._DARK], ids=["light", "dark"])
def test_colours_can_be_read(scheme: str) -> None:
    """WCAG 2.2 AA: 4.5:1 for text, 3:1 for marks and lines that carry meaning."""
    colors = dict(COLOR.findall(scheme))
    for ink in ("ink", "soft", "accent"):
        assert contrast(colors[ink], colors["page"]) >= 4.5, ink
        assert contrast(colors[ink], colors["panel"]) >= 4.5, ink
    for badge in ("error", "warning", "info", "soft"):
        assert contrast(colors["on-badge"], colors[badge]) >= 4.5, badge
    for mark in ("loud", "bar", *(f"s{number}" for number in range(charts.COLORS))):
        assert contrast(colors[mark], colors["page"]) >= 3, mark


def test_both_schemes_have_the_same_colours_and_paper_is_light() -> None:
    light, dark = (set(dict(COLOR.findall(scheme))) for scheme in (html._LIGHT, html._DARK))
    assert light == dark
    assert set(re.findall(r"var\(--([\w-]+)\)", html._STYLE)) - light == {"c"}
    assert html._STYLE.index(html._DARK) < html._STYLE.rindex(html._LIGHT)
    assert html._STYLE.index("@media print") < html._STYLE.rindex(html._LIGHT)


def test_classes_that_are_drawn_have_a_style() -> None:
    drawn = {
        name
        for report in CASES.values()
        for value in re.findall(r'class="([^"]*)"', page(report, verbose=True)[0])
        for name in value.split()
    }
    styled = set(re.findall(r"\.([a-z][\w-]*)", html._STYLE))
    assert drawn - styled <= {"finding", "series", "mark"} | styled


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def browse(profile: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the browser without a window, a network or anything of the user's; its children end with it."""
    program = chromium()
    assert program is not None
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        f"--user-data-dir={profile}",
        *arguments,
    ]
    environ = {**os.environ, "HOME": str(profile), "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


browser = pytest.mark.skipif(chromium() is None, reason="chromium is not installed")


@pytest.mark.slow
@browser
def test_a_real_browser_reads_the_page(tmp_path: Path) -> None:
    name = "eight"
    file = tmp_path / "report.html"
    file.write_text(render(CASES[name], "html", Style(verbose=True)), encoding="utf-8")
    seen = browse(tmp_path / "profile", "--dump-dom", file.as_uri())
    assert seen.returncode == 0, seen.stderr
    # what the page would not be allowed to load, and what it can't make sense of, are messages on the console
    assert "CONSOLE" not in seen.stderr
    headline = sentence(CASES[name]) or measurements.failure_text(CASES[name].measurements)
    assert headline in unescape(seen.stdout)
    # the browser's own parser found no more and no fewer elements than were written
    written, read = page(CASES[name], verbose=True)[1], Page(seen.stdout)
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in written.elements]


@pytest.mark.slow
@browser
def test_a_real_browser_prints_the_page_with_nothing_folded(tmp_path: Path) -> None:
    """What is folded on the screen is on paper: a long folded list makes more pages."""
    many = tuple(NotChecked(f"DC{number}", f"reason {number}") for number in range(200))
    pages = []
    for name, report in {"short": CASES["eight"], "long": CASES["eight"]._replace(not_checked=many)}.items():
        file = tmp_path / f"{name}.html"
        file.write_text(render(report, "html"), encoding="utf-8")
        printed = tmp_path / f"{name}.pdf"
        seen = browse(tmp_path / name, f"--print-to-pdf={printed}", "--no-pdf-header-footer", file.as_uri())
        assert seen.returncode == 0, seen.stderr
        data = printed.read_bytes()
        assert data.startswith(b"%PDF-")
        pages.append(len(re.findall(rb"/Type /Page\b", data)))
    assert pages[0] >= 3
    assert pages[1] >= pages[0] + 3


@pytest.mark.slow
@browser
@pytest.mark.parametrize(("scheme", "expected"), [("1", 255), ("0", 20)], ids=["light", "dark"])
def test_a_real_browser_follows_the_colour_scheme(scheme: str, expected: int, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(CASES["eight"], "html"), encoding="utf-8")
    picture = tmp_path / "report.png"
    seen = browse(
        tmp_path / "profile",
        f"--blink-settings=preferredColorScheme={scheme}",
        "--window-size=1000,800",
        f"--screenshot={picture}",
        file.as_uri(),
    )
    assert seen.returncode == 0, seen.stderr
    assert first_pixel(picture.read_bytes())[0] == expected


def first_pixel(png: bytes) -> tuple[int, ...]:
    """The upper left pixel of a PNG: its first line is never filtered against another pixel there."""
    import struct
    import zlib

    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    data, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    return tuple(zlib.decompress(data)[1:4])


def test_findings_come_worst_first() -> None:
    """The reporter keeps the order of the report, which is worst first."""
    found: tuple[Finding, ...] = (synthetic.finding("first one"), synthetic.finding("second one"))
    text, _ = page(synthetic.report(None, *found))
    assert text.index("first one") < text.index("second one")
