"""Launch lines for tests of probes, made of a text without the readers of files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from distcheck.checks.launch_files.model import FileSetting, LaunchFile, LaunchFiles, LaunchSite, Word
from distcheck.core.spans import Span
from distcheck.launch.command import parse_command


def site_of(
    text: str, path: str = "run.sh", line: int = 1, *, settings: Mapping[str, str] = {}, **fields: Any
) -> LaunchSite:
    """The launch line that a text on one line is; ``$X`` in it is unknown."""
    words = []
    for match in re.finditer(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", text):
        span = Span(path, line, match.start() + 1, line, match.end() + 1)
        words.append(Word("".join(shlex.split(match[0])), span, match[0]))
    given = {
        name: FileSetting(name, value, Span(path, 1, 1, 1, 1), Span(path, 1, 1, 1, 1))
        for name, value in settings.items()
    }
    command = parse_command([word.text for word in words])
    return LaunchSite(command, tuple(words), Span(path, line, 1, line, len(text) + 1), settings=given, **fields)


def shell_file(*lines: str, path: str = "run.sh", **fields: Any) -> LaunchFile:
    """A script of launch lines, one after the other."""
    sites = tuple(site_of(line, path, number, **fields) for number, line in enumerate(lines, 1))
    return LaunchFile(path, "shell", sites, lines=tuple(lines))


def launch_files(*files: LaunchFile) -> LaunchFiles:
    return LaunchFiles(files)
