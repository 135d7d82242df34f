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
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import FOLDER_OPTION

from .model import LaunchFile, LaunchFiles

#: Commands that take a script as a file, and start nothing.
_NO_START = lazy(r"\s*(?:chmod\b|cp\b|mv\b|ls\b|cat\b|echo\b|printf\b|rm\b|git\b|grep\b|sed\b|test\b|\[)")
#: Commands that change the working directory, run other commands, remove folders, or set variables.
_MOVES = frozenset({"cd", "pushd", "popd"})
_RUNS = frozenset({"source", "eval"})
_REMOVES = frozenset({"rm", "rmdir", "mv"})
_SETS = frozenset({"for", "read", "unset", "getopts", "mapfile", "readarray"})
_PARTS = lazy(r"[;&|(){}]")
_OPENS = lazy(r"(?:^|[;&|]|\bdo|\bthen|\belse)\s*(?:if|for|while|until|case|select)\b|(?:^|\s)[{(]\s*$")
_CLOSES = lazy(r"(?:^|[;\s])(?:fi|done|esac)\b|^\s*[})]")
_ARM = lazy(r"\s*(?:else|elif)\b|.*;;\s*$")
#: Longer lines are not read, nor lines farther before a launch.
_LONGEST = 20_000
_FARTHEST = 200


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
        if max(map(len, file.lines)) > _LONGEST:
            return None
        commands = list(_commands(file))
        for number, command in enumerate(commands):
            start = starts.search(command.text)
            if start is None or _NO_START.match(command.text) is not None:
                continue
            values = given.findall(command.text)
            earlier = commands[max(number - _FARTHEST, 0) : number]
            launch = command._replace(text=command.text[: start.start()])
            before = _creates(earlier, launch, _plain(values[0])) if len(values) == 1 else None
            if before is None:
                return None
            made.append(f"{file.path}:{before.line}")
    return made[0] if made else None


def _creates(commands: list[_Command], launch: _Command, folder: str) -> _Command | None:
    """Return the command before a launch that always creates a folder, if nothing in between changes that.

    :param launch: the launch up to the script
    """
    lowest = launch.depth
    variables = set(re.findall(r"\$(\w+)", folder))
    if not folder or re.search(r"[`(*?@]|\$\d|\$\$", folder) is not None or _ends(launch.text, folder, variables):
        return None
    for command in reversed(commands):
        if _ends(command.text, folder, variables):
            return None
        if _ARM.match(command.text) is not None and command.depth <= lowest:
            lowest = min(lowest, command.depth - 1)
        lowest = min(lowest, command.depth)
        if command.depth <= lowest and _makes(command.text, folder):
            return command
    return None


def _ends(text: str, folder: str, variables: set[str]) -> bool:
    """Return whether a folder may not be there after a command, or be another one."""
    for part in _PARTS.split(re.sub(r"\$\{(\w+)\}", r"$\1", text)):
        words = [_plain(word) for word in part.split()]
        commands = set(words)
        if (
            (commands & _MOVES and not folder.startswith("/"))
            or commands & _RUNS
            or words[:1] == ["."]
            or (commands & _REMOVES and any(_holds(word, folder) for word in words))
            or (commands & _SETS and commands & variables)
            or any("=" in word and word.partition("=")[0].rstrip("+") in variables for word in words)
        ):
            return True
    return False


def _holds(word: str, folder: str) -> bool:
    """Return whether a word names a folder, one above it, or may do so."""
    start = re.split(r"[*?\[]", word, maxsplit=1)[0]
    return folder.startswith(start) if start != word else f"{folder}/".startswith(f"{word}/")


def _makes(text: str, folder: str) -> bool:
    """Return whether a command creates a folder, unless a test finds that it is there already."""
    test, _, make = text.rpartition("&&" if "&&" in text else "||")
    words = make.split()
    if words[:2] != ["mkdir", "-p"] or folder not in map(_plain, words[2:]):
        return False
    if not test.strip():
        return True
    tested = re.fullmatch(r"\s*(?:\[\[?|test)\s+(!\s+)?-[ed]\s+(\S+?)(?:\s*\]\]?)?\s*", test)
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
