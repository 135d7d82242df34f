"""What the tests of pages share: a strict reader, the reports that are drawn, and a browser without a window."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from distcheck import rules
from distcheck.core.model import Fix, ProbeRun, Report
from distcheck.reporters import Style, render

from . import samples, synthetic

VOID = {"meta", "br", "hr", "img", "input", "link", "col", "area", "base", "embed", "source", "track", "wbr"}
#: Elements within a word or a sentence.
INLINE = {"a", "b", "code", "del", "ins", "mark", "span", "strong"}
#: Elements that the page may have; anything else came in with a value.
# fmt: off
KNOWN = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "nav", "section", "article", "footer", "figure",
    "figcaption", "h1", "h2", "h3", "p", "a", "b", "br", "span", "strong", "mark", "del", "ins", "ul", "ol", "li", "dl",
    "dt", "dd", "pre", "code", "button", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "details",
    "summary", "script", "svg", "desc", "g", "path", "rect", "text",
}
# fmt: on
INFO = rules.DC330.found("torch is not installed for this Python", fix=Fix("install it", command="pip install torch"))
HOSTS = tuple(f"gpu{number:02}" for number in range(8))
MEASURED: dict[str, Report] = {
    "eight": synthetic.report(synthetic.smoke_test(), synthetic.finding(), INFO),
    "all-collectives": synthetic.report(synthetic.smoke_test(collectives=tuple(synthetic.FACTORS))),
    "one": synthetic.report(synthetic.smoke_test(1)),
    "two": synthetic.report(synthetic.smoke_test(2, judged=False)),
    "sixty-four": synthetic.report(synthetic.smoke_test(64, hosts=HOSTS)),
    "thousand": synthetic.report(synthetic.smoke_test(1024, hosts=HOSTS)),
    "failed": synthetic.report(synthetic.failed(), synthetic.finding("rank 3 never came")),
    "wrong": synthetic.report(synthetic.wrong()),
    "facts": synthetic.report(
        None,
        synthetic.finding(),
        INFO,
        facts={"Platform": {"system": "linux", "container": None}},
        probes=(ProbeRun("host.ports.master_port_is_free", "ran", 0.001),),
    ),
    "empty": Report("env"),
}
CASES: dict[str, Report] = {**MEASURED, **samples.REPORTS}


class Page(HTMLParser):
    """Reads a page strictly: every element that is opened is closed, in order, and known."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_decl(self, decl: str) -> None:
        assert decl == "DOCTYPE html"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN, tag
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in INLINE:
            self.text.append(" ")
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
        if self.stack and self.stack[-1] == "script":
            self.scripts.append(data)
        elif self.stack and self.stack[-1] != "style":
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def values(self, tag: str, name: str) -> list[str | None]:
        return [attributes[name] for element, attributes in self.elements if element == tag and name in attributes]

    @property
    def words(self) -> str:
        """All that a reader sees, in one line."""
        return " ".join("".join(self.text).split())


def page(report: Report, **style: Any) -> tuple[str, Page]:
    """The page of a report as text, and read."""
    text = render(report, "html", Style(**style))
    return text, Page(text)


def chromium() -> str | None:
    """The browser that is here."""
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
