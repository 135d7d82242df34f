"""Hostfiles: the hosts of a job, one a line, with the number of processes (slots) that each takes.

Those of DeepSpeed and Open MPI say ``host slots=8``, those of MPICH ``host:8``, and some say the host alone.
"""

from __future__ import annotations

import re

from .fragments import Fragment
from .model import HostSlots, LaunchFile, LookUp

#: Hosts that are kept; the largest machines have about ten thousand.
_MOST_HOSTS = 100_000
_LINE = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:]+\]|[^\s#:=]+)"
    r"(?:\s*:\s*(?P<colon>[0-9]{1,9})|[^#\n]*?\s(?i:slots|cpu|count)\s*=\s*(?P<slots>[0-9]{1,9})(?![0-9]))?"
)


def read_hostfile(path: str, text: str, look_up: LookUp | None = None) -> LaunchFile:
    """All hosts of a file. Never raises.

    :param look_up: not asked, since a hostfile names no other file
    """
    fragment = Fragment(text, path)
    hosts: list[HostSlots] = []
    comments: list[tuple[int, str]] = []
    position = 0
    for line in text.split("\n"):
        sign = line.find("#")
        if sign >= 0:
            comments.append((fragment.place(position + sign)[0], line[sign:].rstrip("\r")))
        content = line[:sign] if sign >= 0 else line
        start = len(content) - len(content.lstrip())
        match = _LINE.match(content, start)
        if match and len(hosts) < _MOST_HOSTS:
            number = match["slots"] or match["colon"]
            span = fragment.span(position + start, position + len(content.rstrip()))
            hosts.append(HostSlots(match["host"], int(number) if number else None, span))
        position += len(line) + 1
    return LaunchFile(path, "hostfile", hosts=tuple(hosts), comments=tuple(comments))
