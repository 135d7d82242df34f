"""Check the built documentation as a browser reads it: all links, and all addresses of findings.

    sphinx-build -W -n docs docs/_build/html && python tools/check_docs.py docs/_build/html

Links within the documentation must lead to an existing page and anchor. Links to elsewhere are read for their
form only: nothing uses the network. The index of error messages is tried in a browser, where there is one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from distcheck import rules  # noqa: E402 - the checkout's own package, not an installed one
from distcheck.core.model import page_url  # noqa: E402 - as above

#: What a reader pastes, whole, with what stands around it; and the rule that must be the first answer.
PASTED = (
    (
        "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
        "address. port: 29511, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "DC401",
    ),
    ("ValueError: environment variable RANK expected, but not set", "DC101"),
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Page(NamedTuple):
    """The links and the anchors of a page."""

    links: tuple[str, ...]
    places: frozenset[str]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.places.add(value)
            elif value and (name == "href" or (name == "src" and tag in ("img", "script"))):
                self.links.append(value)


def read_pages(folder: Path) -> dict[Path, Page]:
    """All pages below a folder."""
    found = {}
    for path in sorted(folder.rglob("*.html")):
        reader = _Reader()
        reader.feed(path.read_text(encoding="utf-8"))
        found[path.resolve()] = Page(tuple(reader.links), frozenset(reader.places))
    return found


def broken_links(pages: dict[Path, Page]) -> list[str]:
    """Links that lead nowhere, or that can't be an address, with the page that they stand on."""
    wrong = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            why = (
                _wrong_outside(link)
                if urlsplit(link).scheme or link.startswith("//")
                else _wrong_inside(link, path, pages)
            )
            if why:
                wrong.append(f"{path.name}: {link}: {why}")
    return wrong


def _wrong_inside(link: str, path: Path, pages: dict[Path, Page]) -> str:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "there is no such file"
    place = unquote(parts.fragment)
    if place and target in pages and place not in pages[target].places:
        return "the page has no such anchor"
    return ""


def _wrong_outside(link: str) -> str:
    """Why an address can't be one."""
    parts = urlsplit(link)
    if parts.scheme in ("data", "mailto"):
        return ""
    if parts.scheme != "https":
        return "it is no https address"
    if not re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc) or re.search(r"\s", link):
        return "it has no host, or a space"
    return ""


def addresses(folder: Path) -> list[str]:
    """Rules that can't be reached by each of their addresses."""
    missing = []
    for rule in rules.ALL:
        carried = urlsplit(page_url(rule.code)).path.strip("/")
        for place in (f"rules/{rule.code}.html", f"{carried}/index.html", f"rules/{rule.name}.html"):
            path = folder / place
            if not path.exists() or rule.name not in path.read_text(encoding="utf-8"):
                missing.append(place)
    return missing


def first_answer(browser: str, folder: Path, text: str) -> str | None:
    """The first rule to which the index of error messages leads a pasted text, as a browser shows it."""
    with tempfile.TemporaryDirectory() as profile:
        address = f"{(folder / 'errors.html').resolve().as_uri()}?text={quote(text)}"
        shown = subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={profile}",
                "--dump-dom",
                address,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
    matches = re.search(r'<ul class="error-matches"[^>]*>(.*?)</ul>', shown, re.DOTALL)
    code = re.search(r"\bDC\d{3}\b", matches[1]) if matches else None
    return code[0] if code else None


def main(arguments: list[str]) -> int:
    """Check a built documentation; return 1 for an error."""
    if len(arguments) != 1 or not Path(arguments[0], "index.html").exists():
        print("name the folder of the built pages: python tools/check_docs.py docs/_build/html", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    pages = read_pages(folder)
    faults = broken_links(pages) + [f"{place}: there is no such page" for place in addresses(folder)]
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        print("documentation: the search for error messages was not checked: there is no browser here")
    else:
        for text, code in PASTED:
            answer = first_answer(browser, folder, text)
            if answer != code:
                faults.append(f"errors.html: {text[:50]!r} leads to {answer} and not to {code}")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"documentation: {len(pages)} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
