"""Why calls differ: one side of a mismatch left a loop in which the other still is, or took a branch that the other did
not take. If the lines do not show it, it stays a mismatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from distcheck.core.code_blocks import CodeBlock
from distcheck.core.model import grouped_pairs

from .call_signatures import agreed
from .locations import split_place
from .model import CallMismatch, CollectiveCall, Frame, Position, Positions

#: Why one side makes another call.
LOOP, BRANCH, FORWARD = "loop", "branch", "forward"


#: Ranks, and the call that they made.
Side = tuple[tuple[int, ...], CollectiveCall]


def sides_of(
    calls: Iterable[tuple[int, CollectiveCall]], key: Callable[[CollectiveCall], object] = agreed
) -> tuple[Side, ...]:
    """Return which ranks made which call, the largest side first.

    :param calls: rank and call
    :param key: what the calls of one side share
    """
    sides = grouped_pairs((key(call), (rank, call)) for rank, call in calls)
    found = [(tuple(rank for rank, _ in side), side[0][1]) for side in sides.values()]
    return tuple(sorted(found, key=lambda side: (-len(side[0]), side[0])))


class Divergence(NamedTuple):
    """The side that took another branch or left the loop."""

    why: str
    ranks: tuple[int, ...]
    call: CollectiveCall
    #: the calls of the others
    others: tuple[Side, ...]


def divergence_of(mismatch: CallMismatch, positions: Positions) -> Divergence | None:
    """Return the one side that explains a mismatch, or None if none does or several might."""
    by_rank = positions.by_rank
    sides = mismatch.calls
    if len({call.place for _, call in sides}) < len(sides) or not all(call.place for _, call in sides):
        return None
    # a rank that left a loop may then reach a branch that all would take; a branch on the rank explains itself
    for why, test in (
        (BRANCH, _stands_in_a_branch_on_the_rank),
        (BRANCH, _stands_in_a_branch_of_a_loop_that_ended_for_all),
        (LOOP, _has_left_the_loop),
        (FORWARD, _in_a_forward_of_its_own),
        (BRANCH, _stands_in_a_branch),
        (FORWARD, _in_ddp),
    ):
        found = [
            side for side in sides if all(test(side, other, by_rank, positions) for other in sides if other is not side)
        ]
        if len(found) == 1:
            (side,) = found
            if why == BRANCH and _in_forward(side, by_rank):
                why = FORWARD
            return Divergence(why, *side, tuple(other for other in sides if other is not side))
    return None


def _in_a_forward_of_its_own(side: Side, other: Side, by_rank: dict[int, Position], positions: Positions) -> bool:
    """Return whether a side is in a forward at a line where the other never was."""
    if any(by_rank[rank].places.get(side[1].place) for rank in other[0] if rank in by_rank):
        return False
    return _in_ddp(side, other, by_rank, positions)


def _in_ddp(side: Side, other: Side, by_rank: dict[int, Position], _: Positions) -> bool:
    """Return whether a side is in a forward in which the other is not."""
    return _in_forward(side, by_rank) and not _in_forward(other, by_rank)


def _in_forward(side: Side, by_rank: dict[int, Position]) -> bool:
    """Return whether a side is in DDP's forward, which begins with a broadcast of buffers."""
    return any(in_ddp_forward(by_rank[rank].stack) for rank in side[0] if rank in by_rank)


def in_ddp_forward(stack: Iterable[Frame]) -> bool:
    """Return whether a stack is in the forward of DistributedDataParallel."""
    return any("parallel/distributed.py" in frame.path and "forward" in frame.function for frame in stack)


def stands_in_a_branch_on_the_rank(position: Position, positions: Positions) -> bool:
    """Return whether one of its own frames is in a branch on the rank."""
    own = [frame for frame in position.stack if frame.own]
    return any(block.kind == "branch" and block.by_rank for frame in own for block in _around(frame, positions))


def is_in_branch_on_rank(mismatch: CallMismatch, positions: Positions) -> bool:
    """Return whether the first of two sides took a branch on the rank that the other did not take."""
    first, second = mismatch.calls
    return _stands_in_a_branch_on_the_rank(first, second, positions.by_rank, positions)


def skipped_a_branch_of_a_loop(mismatch: CallMismatch, positions: Positions) -> bool:
    """Return whether the first of two sides is in a branch of a loop that the other is past, after as many turns."""
    first, second = mismatch.calls
    return _stands_in_a_branch_of_a_loop_that_ended_for_all(first, second, positions.by_rank, positions)


def _has_left_the_loop(side: Side, other: Side, by_rank: dict[int, Position], positions: Positions) -> bool:
    """Return whether a side was in the loop in which the other still is, and is past it now."""
    if not all(by_rank[rank].places.get(other[1].place) for rank in side[0] if rank in by_rank):
        return False
    parted = _diverging_frames(side, other, by_rank)
    if parted is None:
        return False
    mine, theirs, _, deeper = parted
    if any(block.kind == "loop" and mine.line > block.last for block in _around(theirs, positions)):
        return True
    return mine.line > theirs.line and any(
        block.kind == "loop" for frame in deeper for block in _around(frame, positions)
    )


def _stands_in_a_branch_of_a_loop_that_ended_for_all(
    side: Side, other: Side, by_rank: dict[int, Position], positions: Positions
) -> bool:
    """Return whether a side is in a branch of a loop that the other is past, and that makes as many turns on each rank.

    So the other has not taken this branch in a turn.
    """
    parted = _diverging_frames(side, other, by_rank)
    if parted is None:
        return False
    mine, theirs, deeper, _ = parted
    around = _around(mine, positions)
    way = _path_to(side, by_rank)
    outer = way[: way.index(mine)] if mine in way else []
    # in a loop around both, the other may be in a later turn
    if any(block.kind == "loop" and block.holds(theirs.line) for block in around) or any(
        block.kind == "loop" for frame in outer for block in _around(frame, positions)
    ):
        return False
    left = [block for block in around if block.kind == "loop" and theirs.line > block.last]
    if not left or not all(block.fixed for block in left):
        return False
    inside = [block for block in around if left[0].first < block.first and block.last <= left[0].last]
    return any(
        block.kind == "branch" for blocks in (inside, *(_around(one, positions) for one in deeper)) for block in blocks
    )


def _stands_in_a_branch_on_the_rank(
    side: Side, other: Side, by_rank: dict[int, Position], positions: Positions
) -> bool:
    return _stands_in_a_branch(side, other, by_rank, positions, on_the_rank=True)


def _stands_in_a_branch(
    side: Side, other: Side, by_rank: dict[int, Position], positions: Positions, *, on_the_rank: bool = False
) -> bool:
    """Return whether a side is in a branch that the other did not take, at a line where the other never was."""
    parted = _diverging_frames(side, other, by_rank)
    if parted is None:
        return False
    mine, theirs, deeper, _ = parted
    if any(block.kind == "branch" and not block.holds(mine.line) for block in _around(theirs, positions)):
        return False  # two arms, or each in its own
    here = [block for block in _around(mine, positions) if not block.holds(theirs.line)]
    frames = [here, *(_around(frame, positions) for frame in deeper)]
    if any(by_rank[rank].places.get(side[1].place) for rank in other[0] if rank in by_rank):
        # a function may be called from many lines, and from one in a branch on the rank
        on_the_rank, frames = True, frames[:-1]
    return any(block.kind == "branch" and (block.by_rank or not on_the_rank) for blocks in frames for block in blocks)


def _diverging_frames(
    side: Side, other: Side, by_rank: dict[int, Position]
) -> tuple[Frame, Frame, Sequence[Frame], Sequence[Frame]] | None:
    """Return the two frames of one function with different lines, and the frames that each called from there."""
    mine, theirs = _path_to(side, by_rank), _path_to(other, by_rank)
    # the outer frames of one side may be unknown
    mine, theirs = _path_from(theirs[0], mine), _path_from(mine[0], theirs)
    for index, (first, second) in enumerate(zip(mine, theirs, strict=False)):
        if first == second:
            continue
        if (first.path, first.function) != (second.path, second.function):
            return None
        return first, second, mine[index + 1 :], theirs[index + 1 :]
    return None


def _path_from(frame: Frame, way: list[Frame]) -> list[Frame]:
    """Return a path from the function of a frame on, if it contains it."""
    function = (frame.path, frame.function)
    return next((way[at:] for at, item in enumerate(way) if (item.path, item.function) == function), way)


def _path_to(side: Side, by_rank: dict[int, Position]) -> list[Frame]:
    """Return the user's frames to the call, outermost first; only the line of the call if the stack has changed."""
    call = side[1]
    for rank in side[0]:
        own = [frame for frame in by_rank[rank].stack if frame.own] if rank in by_rank else []
        if own and own[0].place == call.place:
            return own[::-1]
    path, line = split_place(call.place)
    return [Frame(path or "", line or 0, call.function, True)]


def _around(frame: Frame, positions: Positions) -> tuple[CodeBlock, ...]:
    return positions.around.get(frame.place, ())
