"""The outcome of the ranks in words: a line that names the failed rank, and a section for each rank that is shown.

Pure: from what was seen of each rank to an exception. The failed rank is found as in the smoke test
(``runtime/smoke_test/root_cause.py``): who died or raised before who was elsewhere, and those before who only waited.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distcheck.core.model import grouped_pairs, rank_ranges
from distcheck.runtime.coordination.model import RankState
from distcheck.runtime.coordination.root_cause import compose_failure, reports_lost_peer

from .rank import RankReport, StackLine

#: Lines of one kind that the summary and a section show.
_MOST_LINES = 4
#: An entry of the flight recorder without what gloo never changes.
_ENTRY = re.compile(r"(?P<number>#\d+) (?:\w+:)?(?P<rest>.*?)(?: scheduled)?$")
#: torch's error in a process that was forked after CUDA was initialised (torch 2.13).
_FORKED = re.compile(r"Cannot re-initialize CUDA in forked subprocess|combination with fork-based multiprocessing")
_FORK_HINT = (
    "the ranks were forked from a process that had used a GPU before. Start them with start='spawn', or use the "
    "GPU only inside of the body"
)


class RankOutcome(NamedTuple):
    """What was seen of one rank."""

    rank: int
    #: ``returned``, ``raised``, ``died`` or ``running``
    state: str
    report: RankReport | None = None
    #: how it ended, in words
    detail: str = ""
    #: it was in its body, and no longer on its way there
    started: bool = False
    #: where it was, outermost first
    places: tuple[StackLine, ...] = ()
    #: the last collectives that it began
    recorder: tuple[str, ...] = ()
    #: letter of the kernel's state (proc(5))
    kernel: str = ""


class RankFailure(NamedTuple):
    """What became of one rank."""

    rank: int
    #: ``raised``, ``died`` or ``running``
    state: str
    #: name of the exception's class; "" where none was raised
    kind: str
    message: str
    #: its traceback, or where it was
    text: str
    #: ``failed``; ``skipped`` or ``xfailed`` where it reported so
    outcome: str = "failed"


class RanksFailed(Exception):  # noqa: N818 - the name states the outcome, as pytest's own outcomes do
    """Not all ranks came to the end of the body.

    Its text names the failed ranks; ``sections`` has each rank's traceback or stack, and ``failures`` the same by rank.
    Ranks that returned are in neither.
    """

    #: as users import it, and as tracebacks name it
    __module__ = "distcheck.testing"

    def __init__(self, summary: str, sections: Sequence[tuple[str, str]], failures: Mapping[int, RankFailure]) -> None:
        super().__init__(summary)
        #: title and text, failed ranks first
        self.sections = tuple(sections)
        self.failures = dict(failures)

    def full_text(self) -> str:
        """Return the summary and all sections."""
        return "\n\n".join([str(self), *(f"{title}\n{text}" for title, text in self.sections)])


def failed(seen: Sequence[RankOutcome], limit_s: float, *, root: str | None = None) -> RanksFailed:
    """Return the result of the ranks as an exception.

    :param limit_s: seconds that the body had
    :param root: paths below this folder are shown relative to it
    """
    known = {item.rank: item for item in seen}
    size = len(seen)
    timed_out = all(item.state in ("running", "returned") for item in seen)
    failed = _root_causes(seen, timed_out)
    builder = _ReportBuilder(root, size, limit_s)
    sections: list[tuple[str, str]] = []
    shown = [*failed, *(item.rank for item in seen if item.rank not in failed and item.state != "returned")]
    for title, text, ranks in _alike((*builder.section(known[rank], rank in failed), rank) for rank in shown):
        sections.append((f"{_ranks(ranks)} {title}", text))
    summary = builder.timeout(seen, failed) if timed_out else builder.summary([known[rank] for rank in failed])
    if any(item.report is not None and _FORKED.search(item.report.message) for item in seen):
        summary += f"\n{_FORK_HINT}"
    failures = {item.rank: builder.failure(item) for item in seen if item.state != "returned"}
    return RanksFailed(summary, sections, failures)


def _root_causes(seen: Sequence[RankOutcome], timed_out: bool) -> list[int]:
    """Return the failed ranks; all that failed where none of them comes first."""
    states = {item.rank: _state(item) for item in seen}
    failure = compose_failure(states, len(seen), "body", "timeout" if timed_out else "raised")
    failed_ranks = list(failure.culprits)
    # a rank that raised is as much a root cause as one that died: both are shown with their texts
    failed_ranks += [
        item.rank for item in seen if item.rank not in failed_ranks and item.state == "raised" and not _is_lost(item)
    ]
    return failed_ranks or [item.rank for item in seen if item.state != "returned"]


def _is_lost(item: RankOutcome) -> bool:
    return item.report is not None and reports_lost_peer(item.report.message)


def _state(item: RankOutcome) -> RankState:
    state, detail = item.state, item.detail
    if state == "returned":
        state = "finished"
    elif state == "died":
        state = "killed" if "killed" in detail else "exited"
    elif state == "raised" and item.report is not None:
        detail = f"{item.report.kind}: {item.report.message}"
    elif item.kernel in ("T", "t"):
        state, detail = "stopped", "SIGSTOP"
    stack = "\n".join(f"{place.path}:{place.line} in {place.function}" for place in reversed(item.places))
    return RankState(item.rank, state=state, detail=detail, stack=stack, recorder=item.recorder)


class _ReportBuilder(NamedTuple):
    root: str | None
    size: int
    limit_s: float

    def summary(self, failed: Sequence[RankOutcome]) -> str:
        """A line for each way in which ranks failed."""
        lines = [
            f"{_ranks(ranks)} of {self.size} {title}: {text}" if text else f"{_ranks(ranks)} of {self.size} {title}"
            for title, text, ranks in _alike((*self._brief(item), item.rank) for item in failed)
        ]
        more = len(lines) - _MOST_LINES
        return "\n".join([*lines[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])])

    def _brief(self, item: RankOutcome) -> tuple[str, str]:
        if item.report is not None:
            first = item.report.message.strip().splitlines()[:1]
            # pytest's own outcomes and assertions are clear enough by themselves
            named = (
                "" if item.report.kind in ("AssertionError", "Failed", "Skipped", "XFailed", "Unpicklable") else None
            )
            text = "".join(first)
            if named is None:
                text = f"{item.report.kind}: {text}" if text else item.report.kind
            return {"skipped": "skipped", "xfailed": "xfailed"}.get(item.report.outcome, "failed"), text
        if item.state == "died":
            return "died", item.detail
        return "did not come to the end", self.where(item)

    def timeout(self, seen: Sequence[RankOutcome], failed: Sequence[int]) -> str:
        """Return the text for ranks of which none failed, and not all came to the end."""
        running = [item for item in seen if item.state == "running"]
        waiting = [item for item in running if _waits(item) is not None]
        elsewhere = [item for item in running if item.rank in failed and item not in waiting]
        returned = [item.rank for item in seen if item.state == "returned"]
        head = f"not all of {self.size} ranks came to the end within {self.limit_s:g} s"
        if not any(item.started for item in running):
            return f"{head}: {_ranks([item.rank for item in running])} had no process group yet"
        parts = [
            f"{_ranks(ranks)} {'is' if len(ranks) == 1 else 'are'} {text}"
            for text, _, ranks in _alike((self.where(item), "", item.rank) for item in elsewhere or running)
        ]
        if elsewhere and waiting:
            parts += self._waits(waiting)
        if returned and waiting and not elsewhere:
            parts = [f"{_ranks(returned)} returned without it", *self._waits(waiting)][::-1]
        return f"{head}: " + "; ".join(parts)

    def _waits(self, waiting: Sequence[RankOutcome]) -> list[str]:
        return [
            f"{_ranks(ranks)} {'waits' if len(ranks) == 1 else 'wait'} in {text}"
            for text, _, ranks in _alike((_waits(item) or "", "", item.rank) for item in waiting)
        ]

    def where(self, item: RankOutcome) -> str:
        """Where a rank is, in a few words."""
        if item.kernel in ("T", "t"):
            return "stopped (SIGSTOP)"
        what = _waits(item)
        place = self._own_place(item)
        at = "" if place is None else f" at {self.path(place.path)}:{place.line}"
        if what is not None:
            return f"in {what}{at}"
        source = "" if place is None or not place.source else f" ({place.source})"
        return f"{at.strip()}{source}" if at else "at an unknown line"

    def _own_place(self, item: RankOutcome) -> StackLine | None:
        """The innermost frame that is neither of a library nor of Python itself."""
        own = [place for place in item.places if not _is_library(place.path)] or item.places
        return own[-1] if own else None

    def path(self, path: str) -> str:
        if self.root is not None:
            relative = os.path.relpath(path, self.root) if os.path.isabs(path) else path
            if not relative.startswith(".."):
                return relative
        marker = f"{os.sep}site-packages{os.sep}"
        return "…/" + path.rpartition(marker)[2] if marker in path else path

    def section(self, item: RankOutcome, failed: bool) -> tuple[str, str]:
        """Title (behind the rank's name) and text."""
        if item.report is not None:
            if not failed:
                first = item.report.message.strip().splitlines()[:1]
                return "lost the others", f"{item.report.kind}: {''.join(first)}"
            return {"skipped": "skipped", "xfailed": "xfailed"}.get(item.report.outcome, "failed"), item.report.trace
        if item.state == "died":
            return "died", f"{item.detail}; what it printed last is in its output"
        return "still running", self.stack(item)

    def stack(self, item: RankOutcome) -> str:
        """Where a rank was, outermost first, with what it had begun."""
        lines = []
        if item.kernel in ("T", "t"):
            lines.append("stopped (SIGSTOP): its stack cannot be read")
        if not item.started:
            lines.append("it had not come to the body yet")
        for place in item.places:
            lines.append(f"{self.path(place.path)}:{place.line} in {place.function}")
            if place.source:
                lines.append(f"    {place.source}")
        if not item.places and item.kernel not in ("T", "t"):
            lines.append("its stack could not be had")
        begun = [match for match in map(_ENTRY.match, item.recorder) if match is not None]
        if begun:
            shown = ", ".join(f"{match['number']} {match['rest']}" for match in begun[-_MOST_LINES:])
            lines.append(f"last collectives: {shown}")
        return "\n".join(lines)

    def failure(self, item: RankOutcome) -> RankFailure:
        if item.report is not None:
            shown = item.report
            return RankFailure(item.rank, "raised", shown.kind, shown.message, shown.trace, shown.outcome)
        text = item.detail if item.state == "died" else self.stack(item)
        return RankFailure(item.rank, item.state, "", item.detail or self.where(item), text)


def _waits(item: RankOutcome) -> str | None:
    """The collective in which a rank waits; None where it is in code of its own."""
    inside = [place for place in item.places if "/torch/distributed/" in place.path.replace("\\", "/")]
    if not inside:
        return None
    # torch wraps its collectives: the outermost frame that isn't a wrapper is what was called
    called = next((place.function for place in inside if place.function not in ("wrapper", "_fn")), inside[-1].function)
    entry = _ENTRY.match(item.recorder[-1]) if item.recorder else None
    return f"{called} ({entry['number']})" if entry is not None and called in entry["rest"] else called


def _is_library(path: str) -> bool:
    path = path.replace("\\", "/")
    return (
        "/site-packages/" in path
        or "/dist-packages/" in path
        or re.search(r"/lib/python3\.\d+/", path) is not None
        or path.startswith(("<", os.path.dirname(os.__file__).replace("\\", "/") + "/"))
    )


def _alike(items: Iterable[tuple[str, str, int]]) -> list[tuple[str, str, list[int]]]:
    """Equal texts once, with all the ranks that they are about."""
    groups = grouped_pairs(((title, text), rank) for title, text, rank in items)
    return [(title, text, ranks) for (title, text), ranks in groups.items()]


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) != 1)} {rank_ranges(tuple(sorted(ranks)))}"
