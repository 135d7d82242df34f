"""Labels that look like text: ``3: ``, ``host: ``, ``name | ``. They count only where a whole file speaks for them.

A label is a launcher's where most lines have one, the same few come again and again, and they look like task numbers
or hosts; or where a line goes on with what only begins lines.
"""

from __future__ import annotations

import re
from collections import Counter

#: The pattern of a host's name.
HOST = r"[A-Za-z0-9](?:[\w.-]{0,120}[A-Za-z0-9])?"

#: Words of the text before a colon, or in brackets with a number, that name no process.
NOBODIES = frozenset(
    {"acc", "accuracy", "args", "batch", "block", "bucket", "chunk", "cuda", "data", "dataset", "debug"}
    | {"device", "ep", "epoch", "error", "eta", "eval", "exception", "file", "fold", "frame", "gpu"}
    | {"group", "info", "it", "item", "iter", "iteration", "job", "layer", "line", "loss", "lr", "mem"}
    | {"memory", "message", "model", "n", "node_rank", "note", "param", "params", "rank", "seed", "shape"}
    | {"shard", "size", "stage", "step", "task", "tensor", "test", "time", "total", "trial", "v", "val"}
    | {"valid", "version", "warning"}
)
LABEL = re.compile(r" {0,5}(\d{1,5}): ?(?! *$)| {0,5}(\d{1,5}):$")
LABEL_APART = re.compile(r"(\d{1,5}) :")
NUMBERED = re.compile(r"\[(\d{1,5})\]:? ?")
NAMED = re.compile(r"(" + HOST + r"):(?: |$)")
PIPED = re.compile(r"(" + HOST + r") {0,40}\| ?")
PAIR = re.compile(r"((?=[a-z0-9-]*\d)[a-z0-9](?:[a-z0-9.-]{0,120}-[a-z0-9]{1,60})) [a-z][a-z0-9-]{0,60} ")
#: What torchx writes before the lines of a replica.
REPLICA = re.compile(r"([A-Za-z_][\w.-]{0,62}/\d{1,4}) ")
_NOT_A_HOST = re.compile(
    r"(?:Error|Exception|Warning|Interrupt|Exit|Failure|Failed|Expired|Timeout|error|timeout|Empty|\.py|\.cpp|\.cc|\.cu|\.h)$"
)
#: Words of a text that hosts are named by as well; ``gpu0`` is more often a process than a host.
_DOUBTFUL = re.compile(r"n-?\d+|gpu-?\d{2,}")
#: What follows a launcher's label and nothing else: with it, one line speaks for itself.
PLAIN = re.compile(
    r" *(?:Traceback \(most recent call last\)|File \"[^\"]+\", line \d+|\[(?:rank|default)\d+\]:"
    r"|\[[EWIF]\d{3,4} \d\d:|[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ |[\w.-]+:\d+:\d+ \[-?\d+\] NCCL "
    r"|(?:\w+\.)*[A-Z]\w*(?:Error|Exception): )"
)


class LabelStyle:
    """A way to label lines that counts only where the whole file speaks for it."""

    def __init__(self, pattern: re.Pattern[str], *, of_hosts: bool) -> None:
        self.pattern = pattern
        self.of_hosts = of_hosts
        self.names: Counter[str] = Counter()
        self.shapes: set[str] = set()
        #: names before what only begins lines, though they look like words of a text: n1, gpu-101
        self._doubtful: Counter[str] = Counter()
        self.hits = 0
        self.certain = 0
        self.stepping = 0
        self.enabled = False
        self._before = -2

    def name_of(self, match: re.Match[str]) -> str:
        return match[match.lastindex or 1]

    def could_be(self, name: str) -> bool:
        if not self.of_hosts:
            return True
        if _NOT_A_HOST.search(name):
            return False
        return name.strip("0123456789_-./").lower() not in NOBODIES or shape(name) in self.shapes

    def question(self, name: str, rest: str) -> None:
        """A label like a word of a text (``n1``, ``gpu-101``) is a host's where its kind begins lines of tracebacks."""
        if self.of_hosts and _DOUBTFUL.fullmatch(name) and PLAIN.match(rest):
            self._doubtful[name] += 1
            alike = [other for other in self._doubtful if shape(other) == shape(name)]
            if len(alike) > 1 or self._doubtful[name] > 2:
                self.shapes.add(shape(name))
                self.certain += sum(self._doubtful[other] for other in alike)

    def note(self, name: str, rest: str) -> None:
        """One line of the sample has this label."""
        self.hits += 1
        if len(self.names) < 4096 or name in self.names:
            self.names[name] += 1
        plain = rest.lstrip().startswith(("Traceback", 'File "'))
        if PLAIN.match(rest) and (plain or not self.of_hosts or looks_like_a_host(name)):
            self.certain += 1
            self.shapes.add(shape(name))
        if not self.of_hosts:
            number = int(name)
            self.stepping += number == self._before + 1
            self._before = number

    def decide(self, lines: int) -> None:
        """Judge by all that was noted, among so many lines."""
        if self.certain >= 2 and not self._counts_lines():
            self.enabled = True
        if self.hits < max(3, 0.6 * lines) or self._counts_lines():
            return
        if not self.of_hosts:
            self.enabled = True
            return
        many = [name for name, count in self.names.items() if count >= 2]
        if self.hits >= 2 * len(self.names) and (self.certain or all(map(looks_like_a_host, many))):
            self.enabled = True
            self.shapes.update(map(shape, many))

    def _counts_lines(self) -> bool:
        """Numbers that rise by one from line to line are those of ``grep -n``, and no tasks."""
        return self.hits >= 6 and self.stepping >= 0.9 * (self.hits - 1) and len(self.names) >= 0.9 * self.hits


def shape(name: str) -> str:
    """What is common to ``node01`` and ``node17``."""
    return re.sub(r"\d+", "0", name)


def looks_like_a_host(name: str) -> bool:
    return name == "localhost" or any(letter.isdigit() for letter in name) or "-" in name
