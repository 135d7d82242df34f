"""The positions of all ranks as plain JSON values: equal stacks once, those that differ first.

The one shape in which ``stuck``, ``watch`` and ``rehearse`` report stacks: an entry of ``jobs`` in a report's subject,
printed by :mod:`distcheck.reporters.ranks`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import grouped_pairs, rank_names, rank_ranges

from .model import Frame, Position, Positions

#: A file of torch that only wraps collectives.
WRAPPER = "torch/distributed/c10d_logger.py"
#: States of a rank, in words that fit one and many.
_DOING = {
    "computing": "in other code", "waiting": "waiting", "left": "ended", "raised": "ended by an exception",
    "stopped": "stopped", "silent": "not known",
}  # fmt: skip


class StackGroup(NamedTuple):
    """Ranks with the same stack of their main threads."""

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...]
    #: their state, in few words: ``waiting in all_reduce``
    doing: str = ""

    @property
    def who(self) -> str:
        """Return ``rank 3``, ``ranks 0-2,5``."""
        return rank_names(self.ranks)


def group_stacks(positions: Iterable[Position]) -> tuple[StackGroup, ...]:
    """Return groups of equal stacks, the smallest group first, and ranks that wait last."""
    groups = grouped_pairs(((doing(position), position.stack), position.rank) for position in positions)
    made = (StackGroup(tuple(ranks), frames, text) for (text, frames), ranks in groups.items())
    return tuple(sorted(made, key=lambda group: (len(group.ranks), group.doing.startswith("waiting"), group.ranks)))


def worth_showing(frames: Sequence[Frame]) -> tuple[bool, ...]:
    """Return the frames to show: the user's own, and the innermost ones of the libraries that they call."""
    own = next((number for number, frame in enumerate(frames) if frame.own), len(frames))
    called = next((number for number in range(own) if not frames[number].path.endswith(WRAPPER)), 0)
    return tuple(frame.own or number == called for number, frame in enumerate(frames))


def doing(position: Position) -> str:
    """Return the state of a rank in few words."""
    if position.awaited_call is not None:
        text = f"waiting in {position.awaited_call.text}"
    else:
        text = _DOING.get(position.state, position.state)
    return f"{text} ({position.detail})" if position.detail else text


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
    """Return a job with its ranks, and with their stacks by equality.

    :param name: what a user calls it
    :param seen: how it was inspected, a clause: ``two samples, 2.0 s apart``, ``no progress for 20 s``
    :param interval_s: seconds between the first and the last sample
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
