"""Whether every launch of a script creates the folder first that an option of the script names, with ``mkdir -p``.

A launch may go through a command that is not known as a launcher (``$cuda_cmd --gpu 1 log train.py …``), so the lines
are read as text. What is not certain counts as a launch that creates nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from distcheck.core.model import Finding
from distcheck.core.rank_evidence import FOLDER_OPTION

from .model import LaunchFile, LaunchFiles

#: Commands that take a script as a file, and start nothing.
_NO_START = re.compile(r"\s*(?:chmod\b|cp\b|mv\b|ls\b|cat\b|echo\b|printf\b|rm\b|git\b|grep\b|sed\b|test\b|\[)")
_ASSIGNS = re.compile(
    r"\s*(?:export\s+|local\s+|readonly\s+|declare\s+)?(\w+)\+?=|\s*(?:read|for)\s.*?(\w+)\s*(?:$|;|in\b)"
)
_OPENS = re.compile(r"(?:^|[;&|]|\bdo|\bthen|\belse)\s*(?:if|for|while|until|case|select)\b|(?:^|\s)[{(]\s*$")
_CLOSES = re.compile(r"(?:^|[;\s])(?:fi|done|esac)\b|^\s*[})]")
_ARM = re.compile(r"\s*(?:else|elif)\b|.*;;\s*$")
#: More words of a line are not read.
_LONGEST = 20_000


class _Command(NamedTuple):
    """A line with those that continue it."""

    line: int
    text: str
    #: how many blocks are open
    depth: int


def with_made_folders(findings: Iterable[Finding], files: LaunchFiles) -> list[Finding]:
    """Return the findings; one about a folder of an option gets the line that creates it before every launch."""
    found = []
    for finding in findings:
        if FOLDER_OPTION in finding.evidence:
            script, spellings = finding.evidence[FOLDER_OPTION]
            made = _made_by(files, script, spellings)
            evidence = {key: value for key, value in finding.evidence.items() if key != FOLDER_OPTION}
            if made is not None:
                evidence[FOLDER_OPTION] = (script, made)
            finding = finding._replace(evidence=evidence)
        found.append(finding)
    return found


def _made_by(files: LaunchFiles, script: str, spellings: Iterable[str]) -> str | None:
    """Return the line that creates the folder of the first launch, if each launch has one; None otherwise."""
    name = posixpath.basename(script.replace("\\", "/"))
    starts = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
    given = re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, spellings))})(?:=|\s+)(\"[^\"]*\"|'[^']*'|[^\s;&|]+)")
    made = []
    for file in files.files:
        if not any(name in line for line in file.lines):
            continue
        commands = list(_commands(file))
        for number, command in enumerate(commands):
            if starts.search(command.text) is None or _NO_START.match(command.text) is not None:
                continue
            values = given.findall(command.text)
            before = _creates(commands[:number], command, _plain(values[0])) if len(values) == 1 else None
            if before is None:
                return None
            made.append(f"{file.path}:{before.line}")
    return made[0] if made else None


def _creates(commands: list[_Command], launch: _Command, folder: str) -> _Command | None:
    """Return the command before a launch that always creates a folder, and that no assignment follows."""
    lowest = launch.depth
    variables = set(re.findall(r"\$(\w+)", folder))
    if not folder or re.search(r"[`(*?@]|\$\d|\$\$", folder) is not None:
        return None
    for command in reversed(commands):
        assigned = _ASSIGNS.match(command.text)
        if assigned is not None and variables.intersection(assigned.groups()):
            return None
        if _ARM.match(command.text) is not None and command.depth <= lowest:
            lowest = min(lowest, command.depth - 1)
        lowest = min(lowest, command.depth)
        if command.depth <= lowest and _makes(command.text, folder):
            return command
    return None


def _makes(text: str, folder: str) -> bool:
    """Return whether a command creates a folder, unless a test finds that it is there already."""
    test, _, make = text.rpartition("&&" if "&&" in text else "||")
    words = make.split()
    if words[:2] != ["mkdir", "-p"] or folder not in map(_plain, words[2:]):
        return False
    if not test.strip():
        return True
    tested = re.fullmatch(r"\s*(?:\[\[?|test)\s+(!\s+)?-[ed]\s+(\S+?)\s*(?:\]\]?)?\s*", test)
    return tested is not None and _plain(tested[2]) == folder and bool(tested[1]) == ("&&" in text)


def _plain(word: str) -> str:
    """Return a word without its quotes, and with one spelling of variables."""
    return re.sub(r"\$\{(\w+)\}", r"$\1", word.replace('"', "").replace("'", "")).rstrip("/").removeprefix("./")


def _commands(file: LaunchFile) -> Iterator[_Command]:
    """Yield the commands of a file, one a line; a comment is none."""
    depth = 0
    text, first = "", 0
    for number, line in enumerate(file.lines, 1):
        first = first or number
        text += re.sub(r"(?:^|\s)#.*", "", line.rstrip("\r\n"))
        if text.endswith("\\") and len(text) < _LONGEST:
            text = f"{text[:-1]} "
            continue
        if text.strip():
            closes = len(_CLOSES.findall(text))
            yield _Command(first, text, max(depth - closes, 0) if closes else depth)
            depth = max(depth + len(_OPENS.findall(text)) - closes, 0)
        text, first = "", 0
