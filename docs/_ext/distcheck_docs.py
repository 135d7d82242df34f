"""The extension of Sphinx that makes pages from the package, and links codes and issues in texts.

- Before Sphinx collects files, the pages of the rules, the index of error messages and the pages of the commands are
  written next to the others; git does not know them.
- In every document a code (``DC401``) and an issue (``owner/project#12``) become links.
- Names of Python's own library in signatures lead to its documentation, without a request at build time.
- After the build each rule can be reached by ``rules/DC401.html``, by ``rules/DC401/`` (the address that findings
  carry) and by ``rules/master-port-in-use.html``.
"""

from __future__ import annotations

import html
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import command_pages
import error_index
import fact_pages
import rule_pages
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import find_pending_xref_condition

from distcheck import rules
from tools.make_rules import FAMILIES

#: What is made here, relative to the sources; nothing else may stand in these folders.
FOLDERS = ("rules", "cli")
ISSUES = "https://github.com/{0}/issues/{1}"
PYTHON = "https://docs.python.org/3/library/"
#: Where Python documents the names that stand in our signatures.
PYTHON_PAGES = {
    "functions.html": (
        "bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple", "type",
    ),
    "constants.html": ("None",),
    "exceptions.html": (
        "AssertionError", "BaseException", "Exception", "FileNotFoundError", "OSError", "RuntimeError", "TypeError",
        "ValueError",
    ),
    "socket.html": ("socket.socket",),
    "unittest.html": ("unittest.SkipTest",),
    "typing.html": ("typing.Any", "typing.NamedTuple", "typing.TypeVar"),
    "enum.html": ("enum.IntEnum",),
    "pathlib.html": ("pathlib.Path",),
    "os.html": ("os.PathLike",),
    "io.html": ("io.BufferedIOBase",),
    "collections.abc.html": tuple(
        f"collections.abc.{name}"
        for name in ("Callable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence", "Set", "Collection")
    ),
}  # fmt: skip
#: both spellings of a name, with and without its module, and its address
PYTHON_NAMES = {
    spelling: f"{PYTHON}{page}#{name}"
    for page, names in PYTHON_PAGES.items()
    for name in names
    for spelling in (name, name.rpartition(".")[2])
}
RULES = frozenset(rules.known())
_LINKED = re.compile(r"\b(?P<code>DC\d{3})\b|(?<![\w/.@-])(?P<project>[\w.-]+/[\w.-]+)#(?P<number>\d+)\b")
#: a link to another document, or to a folder, outside of these
_OUTSIDE = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<path>(?:\.\./)+[^)#\s]*?(?:\.md|/))(?:#[^)\s]*)?\)")
_PACKAGED = re.compile(r"\]\((?:\.\./)+distcheck/rules/pages/(DC\d{3})\.md(#[\w-]+)?\)")


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("config-inited", write_pages)
    app.connect("source-read", lead_to_rules)
    app.connect("source-read", lead_outside)
    app.connect("autodoc-process-docstring", without_field_numbers)
    app.connect("html-page-context", add_the_finder)
    app.connect("build-finished", write_aliases)
    app.add_post_transform(LinkPython)
    app.add_post_transform(Dashes)
    app.add_post_transform(LinkTexts)
    app.add_post_transform(ShortCode)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx, _: object) -> None:
    """Write what is made from the package; a page that is the same is left alone, one too many is removed."""
    source = Path(app.srcdir)
    own = {str(path.relative_to(source).with_suffix("")) for path in source.glob("*.md")}
    documents = {
        **rule_pages.pages(),
        **command_pages.pages(own),
        "errors": error_index.error_page(),
        "facts": fact_pages.fact_page(),
    }
    for name, text in documents.items():
        path = source / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for folder in FOLDERS:
        for path in (source / folder).glob("*.md"):
            if str(path.relative_to(source).with_suffix("")) not in documents:
                path.unlink()


def lead_to_rules(_: Sphinx, name: str, source: list[str]) -> None:
    """Links to the pages as they lie in the package lead to those that are built; the list of rules gets its tree."""
    source[0] = _PACKAGED.sub(r"](/rules/\1.md\2)", source[0])
    if name == "rules":
        entries = "\n".join(f"rules/DC{digit}xx" for digit in FAMILIES)
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def lead_outside(app: Sphinx, name: str, source: list[str]) -> None:
    """Return a link to download what other documents of the repository name; a folder is only named."""
    here = Path(app.srcdir, name).parent

    def lead(match: re.Match[str]) -> str:
        path = (here / match["path"]).resolve()
        if path.is_relative_to(Path(app.srcdir).resolve()):
            return match[0]
        text = match["text"].replace("`", "")
        return f"`{text}`" if path.is_dir() else f"{{download}}`{text} <{match['path']}>`"

    source[0] = _OUTSIDE.sub(lead, source[0])


def _is_type_variable(target: str) -> bool:
    """Return whether a name in a signature is only a type variable, about which there is nothing to read."""
    path, _, name = target.rpartition(".")
    if not path.startswith("distcheck."):
        return False
    try:
        # by its name: it may have been read in another process
        module = importlib.import_module(path)
    except ModuleNotFoundError:
        # a method: what stands before its name is a class
        return False
    return isinstance(getattr(module, name, None), TypeVar)


class ShortCode(SphinxPostTransform):
    """Options and names in running text stay on one line: browsers would break them at each hyphen."""

    default_priority = 220
    #: characters; what is longer must be allowed to break on a narrow screen
    longest = 28

    def run(self, **_: Any) -> None:
        """On the tree of one document."""
        for node in self.document.findall(nodes.literal):
            if "-" in node.astext() and len(node.astext()) <= self.longest:
                node["classes"].append("one-line")


class Dashes(SphinxPostTransform):
    """Between a parameter and its words Sphinx writes two hyphens, and leaves it to smart quotes, which we have not."""

    default_priority = 210

    def run(self, **_: Any) -> None:
        """On the tree of one document."""
        for body in list(self.document.findall(nodes.field_body)):
            for node in list(body.findall(nodes.Text)):
                if node == " -- ":
                    node.parent.replace(node, nodes.Text(": "))


class LinkTexts(SphinxPostTransform):
    """Codes of rules and numbers of issues in running text become links."""

    default_priority = 200
    #: in here a link would be one too many
    closed = (nodes.reference, nodes.title, nodes.literal_block, nodes.raw)

    def run(self, **_: Any) -> None:
        """On the tree of one document."""
        for node in list(self.document.findall(nodes.Text)):
            if any(isinstance(parent, self.closed) for parent in _parents(node)):
                continue
            literal = node.parent if isinstance(node.parent, nodes.literal) else None
            if literal is None:
                pieces = list(self._pieces(str(node)))
                if any(isinstance(piece, nodes.reference) for piece in pieces):
                    node.parent.replace(node, pieces)
            elif (target := self._page_of(str(node))) is not None:
                literal.parent.replace(literal, _link(literal.deepcopy(), target))

    def _pieces(self, text: str) -> Iterator[nodes.Node]:
        """A text in parts, some of them links."""
        place = 0
        for match in _LINKED.finditer(text):
            project = match["project"]
            target = ISSUES.format(project, match["number"]) if project else self._page_of(match["code"])
            if target is not None:
                yield nodes.Text(text[place : match.start()])
                yield _link(nodes.Text(match[0]), target)
                place = match.end()
        yield nodes.Text(text[place:])

    def _page_of(self, code: str) -> str | None:
        """The page of a rule as seen from this document; None for what is no rule, and for this page itself."""
        own = f"rules/{code}"
        if code not in RULES or own == self.env.docname:
            return None
        return self.app.builder.get_relative_uri(self.env.docname, own)


def _link(content: nodes.Node | list[nodes.Node], target: str) -> nodes.reference:
    link = nodes.reference("", "", internal=False, refuri=target)
    link.extend(content if isinstance(content, list) else [content])
    return link


def _parents(node: nodes.Node) -> Iterator[nodes.Element]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


class LinkPython(SphinxPostTransform):
    """Link names of Python's own library to its documentation; Sphinx would search ``type`` among our attributes.

    Type variables lead nowhere.
    """

    #: before Sphinx resolves names itself
    default_priority = 5

    def run(self, **_: Any) -> None:
        """On the tree of one document."""
        for node in list(self.document.findall(addnodes.pending_xref)):
            target = node.get("reftarget", "")
            if node.get("refdomain") != "py":
                continue
            # the short form of a name stands next to the long one, for when it is known
            short = find_pending_xref_condition(node, "resolved")
            content = (node if short is None else short).children
            if _is_type_variable(target):
                node.replace_self(content)
            elif target in PYTHON_NAMES:
                node.replace_self(_link(content, PYTHON_NAMES[target]))


def without_field_numbers(_: Sphinx, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Drop the number of a field of a named tuple that has no description of its own."""
    if lines and re.fullmatch(r"Alias for field number \d+", lines[0]):
        lines.clear()


def add_the_finder(app: Sphinx, name: str, _: str, __: dict[str, Any], ___: object) -> None:
    """The index of error messages searches a pasted text as ``distcheck explain`` does."""
    if name == "errors":
        app.add_js_file("find-error.js")


def write_aliases(app: Sphinx, error: Exception | None) -> None:
    """Other addresses of each rule's page: the one that findings carry, and its name."""
    if error is not None or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "rules"
    for rule in rules.ALL:
        (folder / rule.code).mkdir(exist_ok=True)
        _redirect(folder / rule.code / "index.html", f"../{rule.code}.html", rule.name)
        _redirect(folder / f"{rule.name}.html", f"{rule.code}.html", rule.name)


def _redirect(path: Path, target: str, title: str) -> None:
    path.write_text(
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<link rel="canonical" href="{target}">\n<meta http-equiv="refresh" content="0; url={target}">\n'
        f'<p><a href="{target}">{html.escape(title)}</a></p>\n</html>\n',
        encoding="utf-8",
    )
