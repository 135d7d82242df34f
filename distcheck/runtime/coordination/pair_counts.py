"""Counts the sends and receives of this rank, so that others know whether theirs have another side.

The nth send to a rank with a tag ends with that rank's nth receive from here with that tag. NCCL ignores tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .call_signatures import CallKind, tensors_of
from .model import ANY_RANK, CollectiveCall, pair_key

#: Messages that one call of these sends or receives: the sizes, then the objects.
_MESSAGES = {"send_object_list": 2, "recv_object_list": 2}
_RECEIVING = frozenset({"recv", "irecv", "recv_object_list"})


class PairCounts:
    """The sends and receives that this rank has posted."""

    def __init__(self) -> None:
        #: see :func:`.model.pair_key`
        self.posted: dict[str, int] = {}
        #: the script also sends or receives by methods of ``ProcessGroup``, which are not counted
        self.incomplete = False

    def counted(self, call: CollectiveCall, has_tags: bool) -> CollectiveCall:
        """Count a send or receive that is about to begin, and return it with its tag and number."""
        tag = call.tag if has_tags else 0
        direction = direction_of(call)
        key = pair_key(call.group, direction, ANY_RANK if call.peer is None else call.peer, tag)
        before = self.posted.get(key, 0)
        self.posted[key] = before + messages_of(call.operation)
        return call._replace(tag=tag, nth=before + 1)


def messages_of(operation: str) -> int:
    """Return the number of messages that one call sends or receives."""
    return _MESSAGES.get(operation, 1)


def direction_of(call: CollectiveCall) -> str:
    """Return ``send`` or ``recv``."""
    return "recv" if call.operation in _RECEIVING else "send"


def calls_of_batch(batch: Sequence[Any], place: str, function: str) -> tuple[CollectiveCall, ...]:
    """Return the sends and receives that ``batch_isend_irecv`` is about to begin.

    :param batch: objects of ``P2POp``
    """
    return tuple(
        CollectiveCall(
            0, op.op.__name__, op.group.group_name, *tensors_of(op.tensor), "", op.peer, place, function, op.tag or 0
        )
        for op in batch
    )


def tag_of(kind: CallKind, given: Mapping[str, Any]) -> int:
    """Return the tag of a send or receive; lists of objects have none."""
    tag = given.get("tag", 0)
    return tag if "tag" in kind.parameters and isinstance(tag, int) else 0


def has_other_side(call: CollectiveCall, rank: int, posted: Mapping[str, int]) -> bool:
    """Return whether another rank has posted the other side of a send or receive.

    :param rank: that made the call
    :param posted: what the other rank has posted
    """
    direction = "send" if direction_of(call) == "recv" else "recv"
    there = posted.get(pair_key(call.group, direction, rank, call.tag), 0)
    if direction == "recv":
        there += posted.get(pair_key(call.group, direction, ANY_RANK, call.tag), 0)
    return there >= call.nth
