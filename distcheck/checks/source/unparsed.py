"""Why a file can't be read, and how loud that is: an error of the project, or a file that is no Python of this version.

Templates, links that were checked out as text, Python 2 and newer Python are no errors of a project. What was found in
a folder and has nothing to do with distributed training is a note. A file that was named is always an error: the
requested check could not run.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from distcheck.core.model import Severity
from distcheck.core.patterns import lazy

from .notebooks import python_lines
from .source_parsing import parses

#: What only code or commands of distributed training hold.
_DISTRIBUTED = lazy(
    rb"torch\.distributed|torch import distributed|torchrun|DistributedDataParallel|DistributedSampler"
    rb"|init_process_group|FullyShardedDataParallel|\bfully_shard\b|\bLOCAL_RANK\b|\bWORLD_SIZE\b|\bMASTER_ADDR\b"
    rb"|\b(?:import|from)[ \t]+(?:deepspeed|accelerate|horovod)\b|\b(?:deepspeed|accelerate launch|horovodrun)[ \t]"
)
#: Marks in the path of a template: ``{{cookiecutter.name}}``, ``<%= name %>``, ``train.py.j2``, ``x_TEMPLATE.json``.
_TEMPLATE_PATH = lazy(
    r"\{\{|\{%|<%|__\w+__/|\.(?:j2|jinja2?|tmpl|tpl|mako|erb|in)(?:\.|$)|(?:^|/)templates?/|cookiecutter"
    r"|(?:^|[/._-])(?:template|tmpl|tpl)(?:[._-]|$)",
    re.IGNORECASE,
)
#: A statement of a template language. Prompts of language models hold them in texts, hence the start of a line.
_TEMPLATE_STATEMENT = lazy(r"^[ \t]*(?:\{%[-+~]?\s*\w.*%\}|<%[=!@\s].*%>|\{#-?\s.*#\}|\{\{-?\s*\w.*\}\})", re.MULTILINE)
#: Placeholders on the line where reading ended: ``{{ name }}``, ``@NAME@``; ``${name}`` and ``<your path>``.
_PLACEHOLDER = lazy(r"\{\{.*\}\}|\{%.*%\}|<%.*%>|(?<![\w)\]])@[A-Z][A-Z0-9_]*@")
_NO_SHELL = lazy(r"\$\{?\w+\}?|(?<![\w)\]])<[A-Za-z][\w ./-]*>")
_QUOTED = lazy(r"'[^'\n]*'|\"[^\"\n]*\"")
_LFS = b"version https://git-lfs.github.com/spec/"
#: The whole content of a link that was checked out as text: one path.
_LINK = lazy(rb"(?:\.{1,2}/)+[^\0\n]+|[\w.+-]+(?:/[\w.+-]+)*/?[\w+-]+\.(?:pyw?|ipynb|ya?ml|json|sh)")
_MAX_LINK = 1024
#: Characters of a line that the patterns below read: some need the square of the length.
_LONGEST_LINE = 1000

#: Forms of Python 2 on the line where reading ended.
_PYTHON_2 = lazy(
    r"""^\s*(?:.*[;:]\s*)?(?:print(?:\s+[^\s=(.,]|\s*>>|\s*$|\s+\()|exec\s+[^\s=(.,])"""
    r"""|\bexcept\s+[\w.]+\s*,\s*[a-z_]\w*\s*:|\bexcept\s*\([^()]*\)\s*,\s*\w+\s*:|^\s*raise\s+[\w.]+\s*,"""
    r"""|<>|`[^`]+`|\b(?:0[xX][0-9a-fA-F]+|[0-9]+)[lL]\b|(?<![\w.])0[0-9]+\b|\b[uU][rR]["']"""
    r"""|^\s*def\s+\w+\(.*\((?:\w+\s*,\s*)+\w*\).*\)\s*:|\blambda\s*\(""",
)
#: What only Python 3 has: a file with it has an error, and is no file of Python 2.
_PYTHON_3 = lazy(
    r"""\b[fF][rR]?["']|\basync\s+def\b|^[ \t]*nonlocal\b|\)[ \t]*->|\byield[ \t]+from\b|:="""
    r"""|\bprint\(.{0,300}\b(?:end|file|flush|sep)[ \t]*=|^[ \t]*\w+[ \t]*:[\w.\[\], \t]+=\s|\bsuper\(\)"""
    r"""|def[ \t]+\w+\([^)]{0,300}\w[ \t]*:\s{0,100}\w""",
    re.MULTILINE,
)

#: Syntax that a release of Python 3 added, on the line where reading ended, with that release.
_NEWER = (
    ((3, 14), lazy(r"""\b[tT][rR]?["']|^\s*except\s+[A-Z][\w.]*\s*(?:,\s*[A-Z][\w.]*\s*)+:""")),
    ((3, 13), lazy(r"^\s*(?:async\s+)?(?:def|class|type)\s+\w+\[[^\]]*\w\s*(?::[^\],=]*)?=")),
    ((3, 12), lazy(r"^\s*(?:(?:async\s+)?def|class)\s+\w+\[|^\s*type\s+\w+\s*(?:\[.*\])?\s*=[^=]")),
    ((3, 11), lazy(r"^\s*except\s*\*|\*\w+\s*:\s*\*|\[\s*(?:[^\[\]]*,\s*)?\*\w+")),
)
_TEXT_WITH_VALUES = lazy(r"""\b[rR]?[fF][rR]?('''|\"\"\"|'|")""")
#: The first release in which an f-string may hold its own quotes, backslashes and comments (PEP 701).
_PEP_701 = (3, 12)


class Unparsed(NamedTuple):
    """Why a file can't be read."""

    #: ``syntax``, ``template``, ``link``, ``lfs``, ``ipython``, ``python-2``, ``newer-python``
    kind: str
    severity: Severity
    #: what it is, where it is no error of its syntax, such as ``it is a template``
    what: str = ""
    #: the release of Python that can read it
    needs: tuple[int, int] | None = None


def classify(
    path: str, data: bytes, problem: tuple[str, int, int], *, named: bool, version: tuple[int, int]
) -> Unparsed:
    """Return why a Python file or a notebook can't be read.

    :param problem: the parser's message, with the line and the column
    :param named: it was named on the command line, and not found in a folder
    :param version: the version of Python that tried
    """
    kind, what, needs = _kind(path, data, problem, version)
    if named:
        return Unparsed(kind, Severity.ERROR, what, needs)
    severity = Severity.INFO
    if kind in ("syntax", "newer-python") and is_distributed(data, 0 if path.endswith(".ipynb") else problem[1]):
        # a notebook runs with a cell that fails, and the file of another Python is no error
        severity = Severity.ERROR if kind == "syntax" and not path.endswith(".ipynb") else Severity.WARNING
    return Unparsed(kind, severity, what, needs)


def is_distributed(data: bytes, line: int = 0) -> bool:
    """Return whether a text is about distributed training.

    :param line: a line that does not count, from 1, unless it is an import
    """
    lines = data.split(b"\n")
    if 1 <= line <= len(lines) and not lines[line - 1].lstrip().startswith((b"import ", b"from ")):
        lines[line - 1] = b""
    return _DISTRIBUTED.search(b"\n".join(lines)) is not None


def is_template(path: str, text: str, line: int = 0, *, shell: bool = True) -> bool:
    """Return whether a file is a template: by its path, by a statement of a template language, or by a placeholder.

    :param line: the line where reading ended, which a placeholder has to stand on or next to
    :param shell: the text may hold commands, where ``$NAME`` and ``< file`` are none
    """
    if _TEMPLATE_PATH.search(path) is not None or _TEMPLATE_STATEMENT.search(text) is not None:
        return True
    lines = text.split("\n")
    near = [one[:_LONGEST_LINE] for one in lines[max(line - 2, 0) : line]] if line else ()
    bare = [_QUOTED.sub("''", one) for one in near]
    return any(_PLACEHOLDER.search(one) or (not shell and _NO_SHELL.search(one)) for one in bare)


def is_link(data: bytes) -> bool:
    """Return whether a file is a link that was checked out as text: its whole content is one relative path."""
    return len(data) <= _MAX_LINK and _LINK.fullmatch(data.rstrip(b"\r\n")) is not None


def _kind(
    path: str, data: bytes, problem: tuple[str, int, int], version: tuple[int, int]
) -> tuple[str, str, tuple[int, int] | None]:
    why, line, _ = problem
    if data.startswith(_LFS):
        return "lfs", "it is a pointer of Git LFS, and its content was not fetched", None
    if is_link(data):
        return "link", "it is a link that was checked out as text", None
    text = data.decode("utf-8", "replace")
    notebook = path.endswith(".ipynb")
    if is_template(path, "" if notebook else text, 0 if notebook else line, shell=False):
        return "template", "it is a template", None
    if notebook:
        return "syntax", "", None
    lines = [one[:_LONGEST_LINE] for one in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    own = lines[line - 1] if 1 <= line <= len(lines) else ""
    release = _release(own, why, lines[line - 1 :])
    if release is not None and release > version:
        return "newer-python", f"it has syntax of Python {release[0]}.{release[1]}", release
    if _is_python_2(why, own, text):
        return "python-2", "it is written for Python 2", None
    if re.search(r"^[ \t]*(?:[!%]\w|%%\w)", text, re.MULTILINE) and parses("\n".join(python_lines(text))):
        return "ipython", "it is written for IPython", None
    return "syntax", "", None


def _is_python_2(why: str, line: str, text: str) -> bool:
    tabs = "inconsistent use of tabs" in why
    return (tabs or _PYTHON_2.search(line) is not None) and _PYTHON_3.search(text) is None


def _release(line: str, why: str, rest: list[str]) -> tuple[int, int] | None:
    """Return the release of Python that has the syntax of a line which an older one can't read."""
    for release, pattern in _NEWER:
        if pattern.search(line) is not None:
            return release
    return _PEP_701 if _is_new_text(line) or ("f-string" in why and any(map(_is_new_text, rest[:20]))) else None


def _is_new_text(line: str) -> bool:
    """Return whether a line has an f-string that is complete with its own quotes, or a backslash, in a replacement."""
    for match in _TEXT_WITH_VALUES.finditer(line):
        if (held := _held_by(line, match.end(), match[1])) is not None and held:
            return True
    return False


def _held_by(line: str, position: int, quote: str) -> bool | None:
    """Return whether the replacements of an f-string hold its quote or a backslash; None if it does not end here."""
    depth, special = 0, False
    inner: str | None = None
    while position < len(line):
        char = line[position]
        if inner is not None:
            special = special or char == "\\" or inner == quote
            if char == "\\":
                position += 1
            elif line.startswith(inner, position):
                inner = None
        elif depth == 0:
            if line.startswith(quote, position):
                return special
            if char == "\\" or line.startswith(("{{", "}}"), position):
                position += 1
            elif char == "{":
                depth = 1
        elif char in "\"'":
            inner = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        position += 1
    return None
