"""Long waits for a rank that computes: no hang while no timeout ends, and worth knowing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck.core.model import rank_ranges

from .hang_detector import ABSENT, waits
from .model import Positions

#: Seconds after which such a wait is reported, whatever the hang timeout.
_LONG_S = 60.0
#: Part of the group's timeout after which it is reported as a warning.
_NEAR = 0.5


class LongWait(NamedTuple):
    """A wait for ranks that compute."""

    #: ``barrier at train.py:88``
    call: str
    place: str
    #: ranks, as ranges
    waiting: str
    missing: str
    since_s: float
    #: where these ranks are: ``tokenize() at data.py:33``; "": unknown
    inside: str = ""
    #: of the group; 0: unknown
    timeout_s: float = 0.0
    #: its length when it was reported
    reported_s: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        return self.place or self.call, self.missing

    @property
    def near(self) -> bool:
        """Return whether the group's timeout ends soon, or nearly ended."""
        return bool(self.timeout_s) and self.since_s >= _NEAR * self.timeout_s

    def report_after_s(self, hang_timeout_s: float) -> float:
        """Return the seconds after which it is reported."""
        long_s = max(3 * hang_timeout_s, _LONG_S)
        return min(long_s, max(_NEAR * self.timeout_s, hang_timeout_s)) if self.timeout_s else long_s

    def text(self, when: str = "now") -> str:
        """Return ``ranks 1-7 wait for 120 s in barrier at train.py:88, for rank 0, which is in tokenize() at …``.

        :param when: ``now``, or ``then``: it is over
        """
        several, many = not self.waiting.isdigit(), not self.missing.isdigit()
        verb, being = ("waited", "were" if many else "was") if when == "then" else ("wait", "are" if many else "is")
        verb += "s" * (not several and when == "now")
        inside = f", which {being} in {self.inside}" if self.inside else ""
        return (
            f"rank{'s' * several} {self.waiting} {verb} for {self.since_s:.0f} s in {self.call}, for "
            f"rank{'s' * many} {self.missing}{inside}"
        )

    @property
    def limit(self) -> str:
        """Return the effect of the group's timeout; "" if it is far, or unknown."""
        if not self.near:
            return ""
        return f"the group's timeout of {self.timeout_s:.0f} s would end the job"


def long_waits(positions: Positions) -> Iterator[LongWait]:
    """Return the waits of at least the hang timeout that end when a few computing ranks arrive."""
    by_rank = positions.by_rank
    for wait in waits(positions):
        if wait.since_s < positions.hang_timeout_s or not wait.missing:
            continue
        missing = [by_rank[rank] for rank in wait.missing if rank in by_rank]
        # ranks that wait for most of the job are early, and no rank is late
        if 2 * len(missing) > positions.world_size or any(
            position.state in (*ABSENT, "waiting") for position in missing
        ):
            continue
        frame = missing[0].own_frame if missing else None
        call = wait.call
        yield LongWait(
            call.text_with_place, call.place, rank_ranges(wait.waiting),
            rank_ranges(wait.missing), wait.since_s, frame.text if frame else missing[0].detail if missing else "",
            positions.timeouts.get(call.group, 0.0),
        )  # fmt: skip
