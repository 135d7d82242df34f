"""Check the words and the length of sentences in product and documents.

``python tools/check_language.py [PATH…]`` prints ``path:line: what is wrong`` and exits with 1 if anything is. Without
paths it checks the package, the documents and the tools. ``--summary`` prints only counts for each package and word.

Words: those that CONTRIBUTING.md lists under "Words", in prose (documents, rule pages, docstrings, comments, messages)
and in names. Text of other programs is not checked: code spans, code blocks, quoted messages, regular expressions.

Sentences: at most 25 words in rule pages and in messages (what a call of ``Finding``, ``Fix``, ``found``,
``Unavailable`` or ``NotApplicable`` gets). A value in braces counts as one word, a code span too.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHECKED = (
    "distcheck",
    "docs",
    "tools",
    "benchmarks",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "RELEASING.md",
)
#: Words of one sentence in messages and rule pages.
LONGEST = 25

#: What is not written in prose, and what is written instead.
WORDS = (
    (r"mend(s|ed|ing)?", "fix"),
    (r"pretend(s|ed|ing)?", "simulate"),
    (r"tell(s|ing)?|told", "report, show, print, mean"),
    (r"says?|said|saying", "report, show, print, mean, state"),
    (r"ask(s|ed|ing)?(?! (the|an|your) administrators?)", "request, read, query, need"),
    (r"look(s|ed|ing)?(?! like)", "check, inspect, search"),
    (r"beside|anew|merely|some day|for ever|otherwise than|by its own words|it may yet", "a plain word"),
    (r"nobody|somebody|whoever|someone", "no process, another process, the caller"),
    (r"(?<!in )(?<!takes )(?<!take )places?(?! of\b)", "location, call site"),
    (r"trails?", "data-flow path"),
    (r"without a word", "prints nothing"),
    (r"gone", "exited, finished, missing"),
    (r"guilty|culprits?|suspects?|blam(e|es|ed|ing)", "root cause, failed rank, straggler"),
    (r"stands? still|standstills?|stillness", "hang, deadlock"),
    (r"the roll|roll call", "membership check"),
    (r"meetings?|meets?|met", "rendezvous, collective, join"),
    (r"posts?(?!-)", "heartbeat, call record"),
    (r"proofs?", "correctness check"),
    (r"lea(ve|ves|ving) (it |them )?away|left away|lea(ve|ves|ving) out|left out", "drop, omit"),
    (r"troubles?|oddit(y|ies)|doubts?", "error, anomaly, unresolved"),
    (r"inert|vouch(es|ed)?", "benign, trusted"),
    (r"chairs?|seats?|patrols?|guardians?|prompters?", "coordinator, rank info, monitor, supervisor"),
)
PROSE = [(re.compile(rf"(?<![\w`/.-])(?:{pattern})(?![\w`/-])", re.IGNORECASE), instead) for pattern, instead in WORDS]
#: What is no part of a name.
NAMES = {
    word: instead
    for words, instead in (
        ("mend mended", "fix"),
        ("pretended pretend", "simulated, fake"),
        ("told tell tells said says asked asks", "reported, requested, options"),
        ("looked", "checked, result"),
        ("beside nobody somebody whoever anew", "a plain word"),
        ("trail trails", "path"),
        ("guilty culprit culprits suspect suspects blame blames blamed", "root_cause, straggler"),
        ("stillness standstill", "hang"),
        ("meeting meetings", "rendezvous, collective_site"),
        ("chair seat patrol guardian prompter whereabouts", "coordinator, rank_info, monitor, supervisor"),
        ("oddity oddities trouble troubles doubt doubts", "anomaly, error, unresolved"),
        ("inert vouched vouch", "benign, trusted"),
        ("proof proofs prover", "correctness"),
    )
    for word in words.split()
}
#: Keys of the JSON formats: the fields that hold them keep these names.
_KEYS = frozenset({"asked_at", "culprits", "proof", "troubles"})
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MESSAGES = frozenset({"Finding", "Fix", "found", "Unavailable", "NotApplicable", "UsageError", "BadParameter"})
_PATTERNS = frozenset(
    {"compile", "search", "match", "fullmatch", "sub", "findall", "finditer", "split", "Signature", "row"}
)
_SPAN = re.compile(r"``[^`]*``|`[^`]*`|:\w+:`[^`]*`|:param \w+:|\"[^\"]*\"|“[^”]*”")
#: Names that stay in lower case at the start of a sentence.
_LOWER = r"(?:torch|torchrun|gloo|c10d|distcheck|scikit-learn|ssh|pip|srun)\b"
_SENTENCE_END = re.compile(rf"(?<=[.!?])[)\"']?\s+(?=[A-Z`*\[(]|{_LOWER})|\n\s*\n|;\s|:\s+(?=[A-Z`])")


class Problem(NamedTuple):
    """One thing to change."""

    path: Path
    line: int
    word: str
    text: str


def main() -> int:
    """Print the problems of all files; return 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders (default: package, documents, tools)")
    parser.add_argument("--summary", action="store_true", help="print counts by package and by word")
    options = parser.parse_args()
    paths = options.paths or [ROOT / name for name in CHECKED]
    problems = [problem for path in paths for file in files(path) for problem in check(file)]
    if options.summary:
        for title, key in (("package", _package), ("word", lambda problem: problem.word)):
            print(f"{title}:")
            for name, count in Counter(map(key, problems)).most_common():
                print(f"{count:6} {name}")
    else:
        for problem in problems:
            print(f"{_shown(problem.path)}:{problem.line}: {problem.text}")
    print(f"{len(problems)} problems", file=sys.stderr)
    return bool(problems)


def files(path: Path) -> Iterator[Path]:
    """Yield the Python, Markdown and text files below a path, or the path itself."""
    if path.is_file():
        yield path
        return
    for suffix in ("*.py", "*.md", "*.txt"):
        for file in sorted(path.rglob(suffix)):
            if file != Path(__file__).resolve() and "__pycache__" not in file.parts:
                yield file


def check(path: Path) -> Iterator[Problem]:
    """Yield the problems of one file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from _check_document(path, text)
    else:
        yield from _check_module(path, text)


def _check_document(path: Path, text: str) -> Iterator[Problem]:
    """Yield the problems of a Markdown or text file: words everywhere, sentences in rule pages."""
    is_page = path.parent.name == "pages"
    for line, paragraph in _paragraphs(text):
        yield from _words(path, line, paragraph)
        if is_page:
            yield from _sentences(path, line, paragraph)


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each paragraph, list item and heading that is our own prose."""
    fenced = quoted = False
    start = 0
    lines: list[str] = []
    rows = text.split("\n")
    begin = 0
    if rows[0] == "---":
        begin = rows.index("---", 1) + 1
    for number, row in enumerate([*rows[begin:], ""], begin + 1):
        stripped = row.strip()
        if stripped.startswith(("```", "~~~")):
            fenced = not fenced
        if stripped.startswith("#") and not fenced:
            quoted = stripped.lstrip("# ") in ("Error messages", "References", "Words")
        breaks = not stripped or fenced or quoted or stripped.startswith(("```", "~~~", "|", "#", "- ", "* ", "> "))
        breaks = breaks or bool(re.match(r"\d+\. ", stripped))
        if breaks and lines:
            yield start, "\n".join(lines)
            lines = []
        if not stripped or fenced or quoted or stripped.startswith(("```", "~~~", "<")):
            continue
        if not lines:
            start = number
        lines.append(stripped)


def _check_module(path: Path, text: str) -> Iterator[Problem]:
    """Yield the problems of a Python file: names, comments, docstrings and texts."""
    tree = ast.parse(text)
    skipped = set(_patterns(tree)) if "signatures" not in path.parts else set(_strings(tree))
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in skipped]
    for node in texts:
        if isinstance(node.value, str) and " " in node.value.strip():
            yield from _words(path, node.lineno, node.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _words(path, token.start[0], token.string)
    yield from _names(path, tree)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _called(call) in _MESSAGES:
            for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                if (message := _message(argument)) is not None:
                    yield from _sentences(path, argument.lineno, message)


def _names(path: Path, tree: ast.Module) -> Iterator[Problem]:
    """Yield the names that a module defines with a word that we do not use."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name = node.name
            case ast.Name(ctx=ast.Store()):
                name = node.id
            case ast.Attribute(ctx=ast.Store()):
                name = node.attr
            case ast.arg():
                name = node.arg
            case ast.ImportFrom():
                continue
            case _:
                continue
        for part in () if name in _KEYS else _PARTS.findall(name):
            if instead := NAMES.get(part.lower()):
                yield Problem(path, node.lineno, f"name {part.lower()}", f"name {name!r}: {part.lower()} → {instead}")


def _patterns(tree: ast.Module) -> Iterator[int]:
    """Yield the identities of constants that are regular expressions."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _called(call) in _PATTERNS:
            yield from _strings(call)


def _strings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield id(node)


def _called(call: ast.Call) -> str:
    """Return the last name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _message(node: ast.expr) -> str | None:
    """Return a text with `{}` for each value, or None for what is no text."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_message(part) or "" for part in parts)
        case ast.FormattedValue():
            return "{}"
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            sides = _message(left), _message(right)
            return None if sides == (None, None) else "".join(side or "{}" for side in sides)
        case _:
            return None


def _words(path: Path, line: int, text: str) -> Iterator[Problem]:
    """Yield the words of a text that we do not use."""
    plain = _SPAN.sub(lambda match: re.sub(r"[^\n]", "x", match[0]), text)
    for pattern, instead in PROSE:
        for match in pattern.finditer(plain):
            where = line + plain.count("\n", 0, match.start())
            word = match[0].lower()
            yield Problem(path, where, word, f"{word!r} → {instead}")


def _sentences(path: Path, line: int, text: str) -> Iterator[Problem]:
    """Yield the sentences of a text that are too long."""
    for sentence in _SENTENCE_END.split(_SPAN.sub("`span`", text)):
        words = [word for word in sentence.split() if re.search(r"\w|\{\}", word)]
        if len(words) > LONGEST:
            yield Problem(path, line, "long sentence", f"a sentence of {len(words)} words: {' '.join(words[:8])} …")


def _package(problem: Problem) -> str:
    parts = Path(_shown(problem.path)).parts
    return "/".join(parts[: 3 if parts[0] == "distcheck" else 1][: max(1, len(parts) - 1)])


def _shown(path: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    sys.exit(main())
