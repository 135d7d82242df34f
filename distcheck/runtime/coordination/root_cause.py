"""Names the failed ranks from the states of all ranks that the supervisors read.

All functions are pure. A rank that exited, was stopped or is silent comes before ranks that waited for it. An exception
that only reports a lost peer is a consequence, and never the cause while there is another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .model import Failure, RankState

#: States that are reported in full; more would make the report grow with the number of ranks.
_MOST_STATES = 4
#: Texts of torch, gloo and NCCL on ranks that lost another one (torch 2.13 and NCCL 2.27, from runs and sources). The
#: rank that prints one is not the root cause.
_LOST_PEER = re.compile(
    r"Connection (?:closed|reset) by peer|Broken pipe|Read timeout|got 0 bytes|remote process exit|ncclRemoteError"
    r"|Timed out waiting \d+ms for|wait timeout after|client socket has timed out|store->get|Socket closed"
    r"|NCCL communicator was aborted|failed to (?:recv|send)",
    re.IGNORECASE,
)


def reports_lost_peer(text: str) -> bool:
    """Return whether an exception only reports that another rank exited or does not answer."""
    return bool(_LOST_PEER.search(text))


def compose_failure(
    states: Mapping[int, RankState],
    world_size: int,
    phase: str,
    kind: str,
    text: str = "",
    *,
    limit_s: float = 0.0,
    elapsed_s: float = 0.0,
    alone: bool = False,
) -> Failure:
    """Return the failure with its root cause.

    :param states: by rank; a rank without one gave no word
    :param kind: how this supervisor noticed: ``timeout``, ``died``, ``raised``, ``stopped``, ``ended``, ``alarm``
    :param alone: the other hosts cannot be reached, so their silence means nothing
    """
    present = sorted(states.values(), key=lambda state: state.rank)
    silent = () if alone else tuple(rank for rank in range(world_size) if rank not in states)
    ended = [state for state in present if state.state in ("killed", "exited")]
    # gloo ends its process with SIGABRT when a peer exits at a bad moment (torch 2.13): a possible consequence
    exited = [state for state in ended if "SIGABRT" not in state.detail]
    stopped = [state for state in present if state.state == "stopped"]
    raised = [state for state in present if state.state == "raised" and not reports_lost_peer(state.detail)]
    lost = [state for state in present if state.state == "raised" and reports_lost_peer(state.detail)]
    living = [state for state in present if state.state in ("running", "blocked")]
    steps = {state.steps for state in living}
    behind = [state for state in living if state.steps == min(steps)] if len(steps) > 1 else []
    # a rank may wait in an earlier step because the failed rank has not joined that either
    behind = _elsewhere(behind or living) or behind
    failed: tuple[int, ...]
    error = ""
    if exited:
        verdict, failed, error = "died", _ranks(exited), exited[0].detail
    elif stopped:
        verdict, failed, error = "stopped", _ranks(stopped), stopped[0].detail
    elif raised:
        verdict, failed, error = "raised", _ranks(raised), raised[0].detail
    elif silent:
        verdict, failed = "lost", silent
    elif ended:
        verdict, failed, error = "died", _ranks(ended), ended[0].detail
    elif kind == "ended":
        verdict, failed = "ended", ()
    elif kind == "error":
        verdict, failed = "raised", ()
    elif behind:
        verdict, failed = "timeout", _ranks(behind)
    elif lost and not living:
        verdict, failed, error = "raised", (), lost[0].detail
    else:
        verdict, failed = "timeout", ()
    waiting = [state for state in present if state.rank not in failed and state.state not in ("finished",)]
    furthest = max(waiting, key=lambda state: state.steps, default=None)
    shown = [states[rank] for rank in failed[: _MOST_STATES - 1] if rank in states]
    if furthest is not None:
        shown.append(furthest)
    # the phase of the failed rank: the others may notice a little later
    first = next((states[rank] for rank in failed if rank in states), None)
    where = first.phase if first is not None and first.phase in _LIVE else phase
    step = (
        furthest.step if furthest is not None and furthest.phase in _LIVE else first.step if first is not None else ""
    )
    return Failure(
        verdict, where, step, failed, _ranks(waiting), tuple(shown), error or ("" if kind == "alarm" else text),
        limit_s, round(elapsed_s, 3),
    )  # fmt: skip


#: A frame of torch or of the standard library, whose files are shown by their last parts.
_OF_TORCH = re.compile(r"(?:^|/)(?:torch|python3\.\d+)/")

#: Phases in which a worker has steps.
_LIVE = frozenset({"start", "verify", "measure", "stragglers", "end"})


def _elsewhere(states: list[RankState]) -> list[RankState]:
    """Return the ranks that run their own code while others wait for them inside torch, by their stacks."""
    known = [state for state in states if state.stack]
    inside = [state for state in known if _waits_in_torch(state.stack)]
    outside = [state for state in known if state not in inside]
    return outside if inside else []


def _waits_in_torch(stack: str) -> bool:
    """Return whether the innermost calls are torch's: a signal handler or a hook inside of it is other code."""
    inner, call, _ = stack.partition("torch/distributed/")
    return bool(call) and all(_OF_TORCH.search(frame) for frame in inner.splitlines())


def _ranks(states: Iterable[RankState]) -> tuple[int, ...]:
    return tuple(state.rank for state in states)
