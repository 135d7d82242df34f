"""The page in a real browser: quiet, readable and as wide as its window, in both colour schemes and on paper."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from distcheck.core.model import NotChecked, Report
from distcheck.reporters import Style, measurements, render, sentence
from distcheck.reporters.html import style
from tests.reporters import samples
from tests.reporters.html import test_page
from tests.reporters.pages import CASES, Page, browse, browser, page

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.full, browser]
#: What is looked at in the browser: each kind of page, and one with all the pictures.
SHOWN = (*samples.REPORTS, "eight", "failed", "empty")
#: Looks at each frame, and leaves what it saw in the document.
_EXAMINE = """
const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const light = (color) => {
  const [r, g, b] = channels(color).slice(0, 3).map((c) => {
    c /= 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element, view) => {
  for (let at = element; at; at = at.parentElement) {
    const color = view.getComputedStyle(at).backgroundColor;
    const [, , , alpha = 1] = channels(color);
    if (alpha === 1) return color;
    if (alpha !== 0) throw new Error("half transparent: " + color);
  }
  return "rgb(255, 255, 255)";
};
const palest = (page, view) => {
  let worst = [99, ""];
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || parent.closest("svg, script") || !parent.checkVisibility()) continue;
    const [a, b] = [light(view.getComputedStyle(parent).color), light(ground(parent, view))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < worst[0]) worst = [contrast, walker.currentNode.data];
  }
  return worst;
};
const later = () => new Promise((done) => setTimeout(done, 0));
const examine = async (frame) => {
  const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
  const copied = [];
  Object.defineProperty(view.navigator, "clipboard", {value: {writeText: async (text) => { copied.push(text); }}});
  const buttons = [...page.querySelectorAll("button.copy")];
  const seen = {
    wide: root.scrollWidth - root.clientWidth,
    outside: [...page.body.querySelectorAll("*")].filter((element) =>
      !element.closest(".wide, pre, figure, svg, thead") && element.getBoundingClientRect().right > root.clientWidth + 1
    ).map((element) => element.outerHTML.slice(0, 80)),
    hidden: buttons.filter((button) => !button.checkVisibility() && !button.closest("details:not([open])")).length,
    palest: palest(page, view),
  };
  for (const button of buttons) button.click();
  await later();
  seen.copied = copied;
  seen.said = [...new Set(buttons.map((button) => button.textContent))];
  view.navigator.clipboard.writeText = async () => { throw new Error("no clipboard"); };
  if (buttons.length) {
    buttons[0].click();
    await later();
    seen.selected = view.getSelection().toString();
  }
  return seen;
};
addEventListener("load", async () => {
  const seen = {};
  for (const frame of document.querySelectorAll("iframe")) {
    try { seen[frame.id] = await examine(frame); } catch (error) { seen[frame.id] = {error: String(error)}; }
  }
  document.body.textContent = JSON.stringify(seen);
});
"""


def framed(folder: Path, scheme: str) -> tuple[Mapping[str, Any], str]:
    """What the browser sees of each page in a narrow and a wide frame, and what it complains of.

    Frames, since no window of the browser is as narrow as a telephone.
    """
    pages = [
        (f"{name} {width}", width, render(CASES[name], "html", Style(verbose=2)))
        for name in SHOWN
        for width in (360, 1400)
    ]
    return opened(folder, pages, _EXAMINE, f"--blink-settings=preferredColorScheme={scheme}")


def opened(
    folder: Path, pages: Sequence[tuple[str, int, str]], script: str, *options: str
) -> tuple[Mapping[str, Any], str]:
    """Return what a script sees of pages, each in a frame with a name and a width, and what the browser reports."""
    frames = [
        f'<iframe id="{name}" width="{width}" height="800" srcdoc="{escape(text)}"></iframe>'
        for name, width, text in pages
    ]
    file = folder / "frames.html"
    file.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><body>{"".join(frames)}<script>{script}</script>', encoding="utf-8"
    )
    seen = browse(
        folder / "profile",
        *options,
        "--virtual-time-budget=10000",
        "--dump-dom",
        file.as_uri(),
    )
    assert seen.returncode == 0, seen.stderr
    body = re.search(r"<body[^>]*>(.*)</body>", seen.stdout, re.DOTALL)
    assert body is not None
    plain: Mapping[str, Any] = json.loads(unescape(body[1]))
    return plain, seen.stderr


@pytest.mark.parametrize("scheme", ["1", "0"], ids=["light", "dark"])
def test_pages_fit_their_window_can_be_read_and_copied(scheme: str, tmp_path: Path) -> None:
    seen, complaints = framed(tmp_path, scheme)
    assert "CONSOLE" not in complaints
    assert len(seen) == 2 * len(SHOWN)
    for place, what in seen.items():
        assert "error" not in what, (place, what)
        # nothing makes the page scroll sideways, and nothing is cut off
        assert (what["wide"], what["outside"]) == (0, []), place
        assert what["palest"][0] >= 4.5, (place, what["palest"])
        assert what["hidden"] == 0, place
    commands = [finding.fix.command for finding in samples.ENV.findings if finding.fix.command]
    for width in (360, 1400):
        env = seen[f"env {width}"]
        assert env["copied"] == commands
        assert env["said"] == ["Copied"]
        # without a clipboard the command is at least selected
        assert env["selected"] == commands[0]
    (methods,) = seen["pickle-object 360"]["copied"]
    assert methods == "def __getstate__(self):\n    return {**self.__dict__, 'lock': None}"


@pytest.mark.parametrize("name", ["eight", "log"])
def test_the_browser_reads_what_was_written(name: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(CASES[name], "html", Style(verbose=2)), encoding="utf-8")
    seen = browse(tmp_path / "profile", "--dump-dom", file.as_uri())
    assert seen.returncode == 0, seen.stderr
    # what the page would not be allowed to load or run, and what it can't make sense of, are messages on the console
    assert "CONSOLE" not in seen.stderr
    headline = sentence(CASES[name]) or measurements.failure_text(CASES[name].measurements)
    assert headline in unescape(seen.stdout)
    # the browser's own parser found no more and no fewer elements than were written
    written, read = page(CASES[name], verbose=2)[1], Page(seen.stdout)
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in written.elements]
    # the script ran: the buttons show
    assert [attributes for tag, attributes in read.elements if tag == "button" and "hidden" in attributes] == []


def printed(report: Report, folder: Path) -> tuple[int, str]:
    """Pages of paper, and the text on them without blanks, which a PDF sets where it likes."""
    import pypdf

    folder.mkdir()
    file, paper = folder / "report.html", folder / "report.pdf"
    file.write_text(render(report, "html", Style(verbose=2)), encoding="utf-8")
    seen = browse(folder / "profile", f"--print-to-pdf={paper}", "--no-pdf-header-footer", file.as_uri())
    assert seen.returncode == 0, seen.stderr
    pages = pypdf.PdfReader(paper).pages
    return len(pages), together("".join(sheet.extract_text() for sheet in pages))


def together(text: str) -> str:
    # ligatures are one letter on paper
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", text))


@pytest.mark.parametrize("name", ["env", "lint", "log", "pickle-many"])
def test_all_that_was_found_is_on_paper(name: str, tmp_path: Path) -> None:
    report = samples.REPORTS[name]
    _, text = printed(report, tmp_path / "it")
    for finding in report.findings:
        for part in (finding.code, finding.name, finding.message, finding.fix.text, finding.fix.command or ""):
            assert together(part.replace("`", "")) in text, part
        # where a link leads is written out
        if finding is not report.findings[0] or not report.story:
            assert f"https://distcheck.readthedocs.io/rules/{finding.code}/" in text
    # what is folded on the screen
    folded = {
        "env": "systemlinux",
        "lint": "startedbytrain.sbatch:6",
        "log": "Everyevent(1)",
        "pickle-many": "good-39.pt",
    }
    assert folded[name] in text
    # what only a screen can do
    assert "Copy" not in text


def test_a_long_folded_list_makes_more_pages(tmp_path: Path) -> None:
    many = tuple(NotChecked(f"DC{number}", f"reason {number}") for number in range(200))
    sheets, text = printed(Report("env", not_checked=many), tmp_path / "it")
    assert sheets >= 4
    assert [number for number in range(200) if f"reason{number}DC{number}" not in text] == []


def test_light_and_dark_differ_and_follow_the_reader(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(samples.ENV, "html"), encoding="utf-8")
    pixels = {}
    for scheme, colors in (("1", style.LIGHT), ("0", style.DARK)):
        picture = tmp_path / f"{scheme}.png"
        seen = browse(
            tmp_path / scheme,
            f"--blink-settings=preferredColorScheme={scheme}",
            "--window-size=1000,800",
            f"--screenshot={picture}",
            file.as_uri(),
        )
        assert seen.returncode == 0, seen.stderr
        # the edge of the page has the colour of the worst that was found
        expected = re.search(r"--error:#(\w{6})", colors)
        assert expected is not None
        pixels[scheme] = first_pixel(picture.read_bytes())
        assert bytes(pixels[scheme]) == bytes.fromhex(expected[1])
    assert pixels["0"] != pixels["1"]
    assert (tmp_path / "0.png").read_bytes() != (tmp_path / "1.png").read_bytes()


@pytest.mark.torch
def test_the_pictures_of_the_documents_can_be_made(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "tools/make_screenshots.py"), str(tmp_path)], check=True)
    shown = set(re.findall(r"\(_static/(report-.+?\.png)\)", (ROOT / "docs/formats.md").read_text(encoding="utf-8")))
    assert shown == {made.name for made in tmp_path.iterdir()}
    for name in shown:
        made, kept = ((folder / name).read_bytes() for folder in (tmp_path, ROOT / "docs/_static"))
        assert made[16:24] == kept[16:24]  # width and height


def first_pixel(png: bytes) -> tuple[int, ...]:
    """The upper left pixel of a PNG: its first line is never filtered against another pixel there."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    data, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    return tuple(zlib.decompress(data)[1:4])


#: What runs if it becomes markup, in each way that HTML knows.
EVIL = (
    "<script>top.evil=1</script>\"'><img src=x onerror=top.evil=1></title></style></svg>--><svg onload=top.evil=1></svg>"
    "<a href='javascript:top.evil=1'>evil</a><iframe srcdoc='<script>top.evil=1</script>'></iframe>"
)
_NOTE = """
addEventListener("load", () => {
  for (const frame of document.querySelectorAll("iframe"))
    for (const element of frame.contentDocument.querySelectorAll("a[href^=javascript], button, summary")) element.click();
  setTimeout(() => {
    const pages = [...document.querySelectorAll("iframe")].map((frame) => frame.contentDocument);
    const brought = pages.map((page) => page.querySelectorAll("img, iframe, a[href^=javascript]").length);
    const shown = pages.filter((page) => page.body.textContent.includes("top.evil=1")).length;
    document.body.textContent = JSON.stringify({ran: Boolean(window.evil), brought, shown});
  }, 200);
});
"""


def test_no_hostile_name_becomes_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_page, "EVIL", EVIL)
    pages = [render(test_page.hostile(report), "html", Style(verbose=2)) for report in samples.REPORTS.values()]
    seen, complaints = opened(tmp_path, [(str(number), 800, text) for number, text in enumerate(pages)], _NOTE)
    assert seen == {"ran": False, "brought": [0] * len(pages), "shown": len(pages)}
    assert "CONSOLE" not in complaints


@pytest.mark.parametrize("policy", [True, False])
def test_the_policy_stops_a_script_that_came_in(policy: bool, tmp_path: Path) -> None:
    """The second line of defence: markup that was not escaped. Without the policy it runs, so the test can see it."""
    text = render(samples.ENV, "html").replace("</main>", f"{EVIL}</main>")
    if not policy:
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    seen, complaints = opened(tmp_path, [("page", 800, text)], _NOTE)
    assert seen["brought"] == [3]
    assert seen["ran"] is not policy
    assert ("Content Security Policy" in complaints) is policy
