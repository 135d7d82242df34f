"""Every document is in the tree, is written in one shape, and its links lead somewhere. Sphinx looks again when it builds."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from distcheck import rules
from distcheck.cli.main import COMMANDS
from distcheck.core.model import page_url

from .documents import DOCS, MADE, PAGES, ROOT, fences, linked, name_of, places, prose, titles, written

#: Languages that stand behind fences; all of them are known to Pygments, or are directives of MyST.
LANGUAGES = {
    "bash", "console", "diff", "dockerfile", "elisp", "groovy", "ini", "json", "lua", "py", "python", "sh", "text", "toml", "yaml",
    "{toctree}", "{eval-rst}",
}  # fmt: skip
CAPTIONS = ("Start", "Capabilities", "Recipes", "Stories", "Reference", "How it is made")
#: One page for each capability.
CAPABILITIES = (
    "env", "collective", "lint", "pickle", "pickling", "log", "watch", "stuck", "rehearse", "rehearse-calls", "ci",
    "editors", "scheduler", "one-file", "pytest", "formats",
)  # fmt: skip


def tree() -> dict[str, list[str]]:
    """The entries of the start page's tables of contents, by caption."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    found = {}
    for body in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        caption = re.search(r"^:caption: (.+)$", body, re.MULTILINE)
        assert caption is not None
        entries = [line for line in body.splitlines() if line and not line.startswith(":")]
        found[caption[1]] = [re.sub(r".*<(.+)>", r"\1", entry) for entry in entries]
    return found


def test_the_tree_has_its_captions_in_order() -> None:
    assert tuple(tree()) == CAPTIONS


def test_every_capability_has_a_page() -> None:
    assert tuple(tree()["Capabilities"]) == CAPABILITIES
    assert not [name for name in CAPABILITIES if not (DOCS / f"{name}.md").exists()]


def test_every_document_is_in_the_tree_and_the_tree_names_only_documents() -> None:
    entries = [entry for part in tree().values() for entry in part if entry != "self"]
    names = {name_of(path) for path in written()} - {"index"}
    assert not [name for name in names if not any(fnmatch.fnmatchcase(name, entry) for entry in entries)]
    assert not [
        entry
        for entry in entries
        if not MADE.fullmatch(entry) and not any(fnmatch.fnmatchcase(name, entry) for name in names)
    ]


@pytest.mark.parametrize("path", written(), ids=name_of)
def test_a_document_has_one_title_and_no_unknown_language(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(titles(text)) == 1
    assert text.startswith("# ")
    unknown = {info.split()[0] for info in fences(text) if info} - LANGUAGES
    assert not unknown


def links(text: str) -> list[str]:
    return re.findall(r"(?<!\\)\]\(<?([^)\s>]+)>?\)", prose(text)) + re.findall(r"<(https?://[^>]+)>", prose(text))


@pytest.mark.parametrize("path", linked(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in links(text):
        parts = urlsplit(link)
        if parts.scheme:
            # the network is not asked: an address is read for its form only
            assert parts.scheme in ("https", "mailto"), link
            assert parts.scheme == "mailto" or re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc), link
            continue
        target = path if not parts.path else path.parent / unquote(parts.path)
        # on the pages of a repository only what is in git can be followed
        if path.is_relative_to(DOCS) and made_later(target):
            continue
        assert target.exists(), f"{link}: there is no {target}"
        if parts.fragment and target.suffix == ".md":
            assert unquote(parts.fragment) in places(target.read_text(encoding="utf-8")), f"{link}: no such place"


def made_later(target: Path) -> bool:
    """Whether a link leads to a page that is made while Sphinx starts, and that is sure to be made."""
    target = target.resolve()
    if not target.is_relative_to(DOCS) or target.suffix != ".md":
        return False
    folder, _, name = target.relative_to(DOCS).with_suffix("").as_posix().rpartition("/")
    codes = {rule.code for rule in rules.ALL} | {f"{rule.code[:3]}xx" for rule in rules.ALL}
    return (
        (folder == "rules" and name in codes)
        or (folder == "cli" and name in {*COMMANDS, "index"})
        or (folder == "" and name in ("errors", "facts"))
    )


def test_what_is_made_is_not_in_git_nor_in_the_archive() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    for name in ("rules", "cli"):
        assert f"docs/{name}/" in ignored
        assert f"prune docs/{name}" in manifest
    for name in ("errors", "facts"):
        assert f"docs/{name}.md" in ignored
        assert f"docs/{name}.md" in manifest


def test_the_address_that_findings_carry_is_one_that_is_built() -> None:
    """``_ext/distcheck_docs.py`` writes rules/CODE/index.html; ``tools/check_docs.py`` looks for it."""
    assert urlsplit(page_url("DC401")).path == "/rules/DC401/"
    assert (PAGES / "DC401.md").exists()
