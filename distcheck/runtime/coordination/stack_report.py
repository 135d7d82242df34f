"""Where ranks are, laid side by side as plain JSON values: equal stacks once, those that differ from the others first.

The one shape in which ``stuck``, ``watch`` and ``rehearse`` report stacks: an entry of ``jobs`` in a report's subject,
printed by :mod:`distcheck.reporters.ranks`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import rank_ranges

from .model import Frame, Position, Positions

#: A file of torch that only wraps collectives.
WRAPPER = "torch/distributed/c10d_logger.py"
#: What a rank does, in words that fit one and many.
_DOING = {
    "computing": "in other code", "waiting": "waiting", "left": "ended", "raised": "ended by an exception",
    "stopped": "stopped", "silent": "not known",
}  # fmt: skip


class StackGroup(NamedTuple):
    """Ranks whose main threads stand at the same lines."""

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...]
    #: what they do, in few words: ``waiting in all_reduce``
    doing: str = ""

    @property
    def who(self) -> str:
        """``rank 3``, ``ranks 0-2,5``."""
        return f"rank{'s' * (len(self.ranks) > 1)} {rank_ranges(self.ranks)}"


def group_stacks(positions: Iterable[Position]) -> tuple[StackGroup, ...]:
    """Equal stacks once; the smallest group first, and who waits last: those that differ are what one looks for."""
    groups: dict[tuple[str, tuple[Frame, ...]], list[int]] = {}
    for position in positions:
        groups.setdefault((doing(position), position.stack), []).append(position.rank)
    made = (StackGroup(tuple(ranks), frames, said) for (said, frames), ranks in groups.items())
    return tuple(sorted(made, key=lambda group: (len(group.ranks), group.doing.startswith("waiting"), group.ranks)))


def worth_showing(frames: Sequence[Frame]) -> tuple[bool, ...]:
    """Which frames a person wants to see: the user's own, and where the thread is in the libraries that they call."""
    own = next((number for number, frame in enumerate(frames) if frame.own), len(frames))
    called = next((number for number in range(own) if not frames[number].path.endswith(WRAPPER)), 0)
    return tuple(frame.own or number == called for number, frame in enumerate(frames))


def doing(position: Position) -> str:
    """What a rank does, in few words."""
    if position.state == "waiting" and position.call is not None:
        said = f"waiting in {position.call.text}"
    else:
        said = _DOING.get(position.state, position.state)
    return f"{said} ({position.detail})" if position.detail else said


def plain_job(
    name: str,
    positions: Positions,
    *,
    seen: str,
    interval_s: float,
    hosts: Iterable[str] = (),
    gpus: Mapping[int, str] = {},
    recorded: Iterable[int] = (),
    guessed: bool = False,
    still: Iterable[int] = (),
) -> dict[str, Any]:
    """A job with its ranks, and with their stacks by equality.

    :param name: what a user calls it
    :param seen: how it was looked at, a clause: ``two looks, 2.0 s apart``, ``nothing has moved for 20 s``
    :param interval_s: seconds for which it was looked at
    :param gpus: rank → what its process uses of GPUs
    :param recorded: ranks whose flight recorder was read
    """
    recorder = set(recorded)
    known = dict.fromkeys(hosts) or dict.fromkeys(item.host for item in positions.ranks if item.host)
    return {
        "job": name,
        "world_size": positions.world_size,
        "hosts": ", ".join(known),
        "seen": seen,
        "interval_s": interval_s,
        "guessed": guessed,
        "still": rank_ranges(still),
        "ranks": [
            {
                "rank": item.rank,
                "host": item.host,
                "pid": item.pid,
                "state": item.state,
                "call": None if item.call is None else item.call.text,
                "place": None if item.call is None else item.call.place,
                "detail": item.detail,
                "gpu": gpus.get(item.rank, ""),
                "recorded": item.rank in recorder,
            }
            for item in positions.ranks
        ],
        "stacks": [
            {
                "ranks": rank_ranges(group.ranks),
                "members": list(group.ranks),
                "doing": group.doing,
                "frames": [
                    {**frame._asdict(), "shown": shown}
                    for frame, shown in zip(group.frames, worth_showing(group.frames), strict=True)
                ],
            }
            for group in group_stacks(positions.ranks)
        ],
    }
