"""Markdown documents: the shell commands in their fenced and indented blocks, as a reader types them.

Source for blocks: CommonMark 0.31. A console block holds commands after prompts, and their output. Placeholders
(``<node_rank>``, ``YOUR_HOST``) are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .fragments import Fragment, is_continued, placeholder
from .model import WITHOUT_GRAMMAR, LaunchFile, LookUp
from .plain_commands import FileContents, as_written, joined
from .training_words import mentions_training

_FENCE = lazy(r"(?P<indent>[ \t]*(?:(?:[-*+>]|[0-9]{1,9}[.)])[ \t]+)*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")
#: The start of a line of an indented block; it follows an empty line.
_INDENT = lazy(r"(?: {4}|\t)[ \t]*(?=\S)")
_LANGUAGE = lazy(r"\{?[ \t]*(?:code-block\}|code\}|\.)?[ \t]*([A-Za-z0-9_+-]*)")
#: Languages that mean none: an editor writes ``angular2html`` into those that have none.
_UNNAMED = frozenset({"", "angular2html"})
_SHELLS = frozenset({"sh", "bash", "shell", "zsh", "ksh", "slurm", "sbatch", "shellscript", "bashrc"})
_CONSOLES = frozenset({"console", "shell-session", "sh-session", "shellsession", "bash-session", "terminal", "session"})
#: ``$ torchrun``, ``user@node1:~$ torchrun``, ``(venv) $ torchrun``; in a console also ``# torchrun`` as root
_PROMPT = lazy(r"(?:\([\w.-]+\)[ ]*)?(?:\[?[\w.-]+@[\w.-]+[^$#%\n]{0,60})?[$%][ ]")
_ROOT_PROMPT = lazy(r"(?:\[?[\w.-]+@[\w.-]+[^$#%\n]{0,60})?#[ ](?=\S)")
#: A line that only a shell reads: a block without a language holds commands if one of its lines is such a line.
_COMMAND = lazy(
    r"[ \t]*(?:[$%] )?(?:[A-Za-z_]\w*=\S* +)*(?:torchrun|accelerate launch|deepspeed|srun|sbatch|mpirun|python3?) "
    r"(?=.*(?:\.(?:py|sh|sbatch)\b| -m | --\w|\\$))"
)
#: ``<node_rank>``, ``<YOUR IP>``: a shell reads a redirection. ``<file.txt`` has no end, ``<(…)`` no letter.
_LEFT_TO_READER = lazy(r"<[A-Za-z][\w .:/'-]{0,60}>")


class _CodeBlock(NamedTuple):
    language: str
    #: the start and end of each line, without the indentation of the block
    lines: tuple[tuple[int, int], ...]


def read_markdown(path: str, text: str, look_up: LookUp) -> LaunchFile:
    """Return the contents of the shell commands in a document. Never raises."""
    from .shell import read_shell

    source = Fragment(text, path)
    contents = FileContents()
    lines = text.split("\n")
    for block in _blocks(text):
        stretches = list(_commands(text, block))
        if not stretches:
            continue
        fragment = _with_unknown(joined(source, stretches))
        if not mentions_training(fragment.text.encode()):
            continue
        read = read_shell(fragment, look_up, kind="markdown")
        # a block need not be a whole script: a part that no shell can read is no error of the document
        problems = tuple(problem for problem in read.problems if problem[0].startswith(WITHOUT_GRAMMAR))
        contents.add(read._replace(sites=tuple(as_written(read.sites, path, lines)), problems=problems))
    return contents.file(path, "markdown")


def _blocks(text: str) -> Iterator[_CodeBlock]:
    fence: tuple[str, str, int] | None = None
    lines: list[tuple[int, int]] = []
    #: the lines of an indented block; None behind a line of a paragraph
    indented: list[tuple[int, int]] | None = []
    position = 0
    for line in text.split("\n"):
        start, end = position, position + len(line) - line.endswith("\r")
        position += len(line) + 1
        bare = text[start:end]
        if fence is None:
            match = _FENCE.match(bare)
            indent_of_code = _INDENT.match(bare)
            if not bare.strip():
                indented = [*indented, (start, end)] if indented else []
                continue
            if match is None and indent_of_code is not None and indented is not None:
                indented.append((start + indent_of_code.end(), end))
                continue
            if indented:
                yield _CodeBlock("", tuple(indented))
            indented = None if match is None else []
            if match is not None:
                language = _LANGUAGE.match(match["info"])
                fence = match["fence"], language[1].lower() if language else "", len(match["indent"])
                lines = []
            continue
        sign, language_name, indent = fence
        stripped = bare.strip(" \t>")
        if len(stripped) >= len(sign) and not stripped.strip(sign[0]):
            yield _CodeBlock(language_name, tuple(lines))
            fence = None
            continue
        # the indentation of the fence, or the sign of a quotation, is no part of the lines
        lead = re.match(r"[ \t>]*", bare[:indent])
        lines.append((start + (lead.end() if lead else 0), end))
    if fence is not None:
        yield _CodeBlock(fence[1], tuple(lines))
    elif indented:
        yield _CodeBlock("", tuple(indented))


def _commands(text: str, block: _CodeBlock) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a block that are commands, each with the end of its line."""
    console = block.language in _CONSOLES
    unnamed = block.language in _UNNAMED and any(_COMMAND.match(text, start, end) for start, end in block.lines)
    if not console and not unnamed and block.language not in _SHELLS:
        return
    prompt = re.compile(
        f"[ \t]*(?:{_PROMPT.pattern}|{_ROOT_PROMPT.pattern})" if console else f"[ \t]*{_PROMPT.pattern}"
    )
    prompted = console or any(prompt.match(text, start, end) for start, end in block.lines)
    goes_on = False
    for start, end in block.lines:
        match = prompt.match(text, start, end)
        behind = end
        while behind < len(text) and text[behind] != "\n":
            behind += 1
        behind += behind < len(text)
        if prompted and not goes_on and match is None:
            continue
        if prompted:
            # ``> `` before a continued line is a prompt as well
            second = re.compile(r"[ \t]*>[ ]").match(text, start, end) if goes_on else None
            begin = match.end() if match and not goes_on else second.end() if second else start
        else:
            begin = start
        line = text[begin:end]
        goes_on = is_continued(line)
        yield begin, end
        if behind > end:
            yield behind - 1, behind


def _with_unknown(fragment: Fragment) -> Fragment:
    """Return the text with placeholders for what its reader has to fill in."""
    text = _LEFT_TO_READER.sub(lambda match: placeholder(len(match[0])), fragment.text)
    return Fragment(text, fragment.path, fragment.pieces)
