"""What the documents say to type: their fenced blocks, and the commands of ours in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .documents import ROOT, written

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)
_INLINE = re.compile(r"`(distcheck [^`\n]+)`")
#: What a document writes for "and so on".
ELLIPSIS = "…"


class Block(NamedTuple):
    """A fenced block: its file relative to the project, the line that it begins in, its language, its text."""

    path: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """``docs/env.md:12``."""
        return f"{self.path}:{self.line}"


class Typed(NamedTuple):
    """A command of ours as a document shows it, and where."""

    place: str
    words: tuple[str, ...]


def documents() -> list[Path]:
    """The READMEs, and what people write below ``docs``."""
    return [*sorted(ROOT.glob("README*.md")), *written()]


def name_of(path: Path) -> str:
    """A document by its path in the project: the id of its test."""
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> Iterator[Block]:
    """The fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        body = re.sub(rf"(?m)^{match['indent']}", "", match["body"])
        yield Block(name_of(path), line, match["language"], body)


def shell(block: Block) -> str:
    """What a block asks somebody to type: all of a script, the lines behind ``$`` of a session, nothing of the rest."""
    if block.language in ("bash", "sh", "shell"):
        return block.text
    if block.language != "console":
        return ""
    lines: list[str] = []
    continued = False
    for line in block.text.splitlines():
        if line.startswith("$ ") or (continued and line.startswith("> ")):
            lines.append(line[2:])
            continued = line.endswith("\\")
    return "\n".join(lines) + "\n"


def typed(path: Path) -> Iterator[Typed]:
    """The commands of ours in a document: in its blocks, and between backticks in its text."""
    for block in blocks(path):
        for words in commands(shell(block)):
            yield Typed(block.place, words)
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))
    for match in _INLINE.finditer(text):
        for words in commands(match[1].replace(r"\|", "|")):
            yield Typed(f"{name_of(path)}:{text.count(chr(10), 0, match.start()) + 1}", words)


def commands(script: str) -> Iterator[tuple[str, ...]]:
    """The commands of ours in some lines of shell, without the word ``distcheck``; what stands behind ``&&`` or a pipe too."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.commenters = "#"
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue
        for command in _split(words):
            yield from _ours(command)


def _split(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in words:
        if word and set(word) <= set("|&;()"):
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _ours(words: list[str]) -> Iterator[tuple[str, ...]]:
    """Our command in a simple one; a launcher may stand before it, a redirection behind it."""
    for at, word in enumerate(words):
        if word == "distcheck" and words[at - 1 : at] not in (["install"], ["import"], ["add"]):
            yield tuple(_without_redirections(words[at + 1 :]))
            return
        if word in ("-m", "--module") and words[at + 1 : at + 2] in (["distcheck.collective"], ["distcheck.watch"]):
            yield (words[at + 1].partition(".")[2], *_without_redirections(words[at + 2 :]))
            return


def _without_redirections(words: list[str]) -> Iterator[str]:
    skip = False
    for at, word in enumerate(words):
        following = words[at + 1 : at + 2]
        if skip:
            skip = False
        elif word and set(word) <= set("<>&"):
            skip = True
        elif not (word.isdigit() and following and following[0][0] in "<>"):
            yield word
