"""From where all ranks are to who is to blame: one failure out of the states that the supervisors saw.

Pure. A rank that died, was stopped or gave no word is blamed before those that merely waited for it; an exception that
only tells of a lost peer is a consequence, never the cause while there is another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .model import Failure, RankState

#: States that are told in full; more would make the report grow with the number of ranks.
_MOST_STATES = 4
#: What torch, gloo and NCCL say on ranks that have lost another one (torch 2.13 and NCCL 2.27, as run and as in their
#: sources): the rank that says it is not the one to blame.
_LOST_PEER = re.compile(
    r"Connection (?:closed|reset) by peer|Broken pipe|Read timeout|got 0 bytes|remote process exit|ncclRemoteError"
    r"|Timed out waiting \d+ms for|wait timeout after|client socket has timed out|store->get|Socket closed"
    r"|NCCL communicator was aborted|failed to (?:recv|send)",
    re.IGNORECASE,
)


def reports_lost_peer(text: str) -> bool:
    """Whether an exception only says that another rank has gone or does not answer."""
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
    """Who is to blame.

    :param states: by rank; a rank without one gave no word
    :param kind: how this supervisor came to know: ``timeout``, ``died``, ``raised``, ``stopped``, ``ended``, ``alarm``
    :param alone: the others can't be reached, so their silence means nothing
    """
    present = sorted(states.values(), key=lambda state: state.rank)
    silent = () if alone else tuple(rank for rank in range(world_size) if rank not in states)
    ended = [state for state in present if state.state in ("killed", "exited")]
    # gloo ends its process with SIGABRT when a peer goes at a bad moment (torch 2.13): that may be a consequence
    gone = [state for state in ended if "SIGABRT" not in state.detail]
    stopped = [state for state in present if state.state == "stopped"]
    raised = [state for state in present if state.state == "raised" and not reports_lost_peer(state.detail)]
    lost = [state for state in present if state.state == "raised" and reports_lost_peer(state.detail)]
    living = [state for state in present if state.state in ("running", "blocked")]
    steps = {state.steps for state in living}
    behind = [state for state in living if state.steps == min(steps)] if len(steps) > 1 else []
    # a rank may wait in an earlier step because the one to blame has not joined that either
    behind = _elsewhere(behind or living) or behind
    blamed: tuple[int, ...]
    error = ""
    if gone:
        verdict, blamed, error = "died", _ranks(gone), gone[0].detail
    elif stopped:
        verdict, blamed, error = "stopped", _ranks(stopped), stopped[0].detail
    elif raised:
        verdict, blamed, error = "raised", _ranks(raised), raised[0].detail
    elif silent:
        verdict, blamed = "lost", silent
    elif ended:
        verdict, blamed, error = "died", _ranks(ended), ended[0].detail
    elif kind == "ended":
        verdict, blamed = "ended", ()
    elif kind == "error":
        verdict, blamed = "raised", ()
    elif behind:
        verdict, blamed = "timeout", _ranks(behind)
    elif lost and not living:
        verdict, blamed, error = "raised", (), lost[0].detail
    else:
        verdict, blamed = "timeout", ()
    waiting = [state for state in present if state.rank not in blamed and state.state not in ("finished",)]
    furthest = max(waiting, key=lambda state: state.steps, default=None)
    told = [states[rank] for rank in blamed[: _MOST_STATES - 1] if rank in states]
    if furthest is not None:
        told.append(furthest)
    # the phase in which the blamed rank was: the others may have learned of it a little later
    first = next((states[rank] for rank in blamed if rank in states), None)
    where = first.phase if first is not None and first.phase in _LIVE else phase
    step = (
        furthest.step if furthest is not None and furthest.phase in _LIVE else first.step if first is not None else ""
    )
    return Failure(
        verdict, where, step, blamed, _ranks(waiting), tuple(told), error or ("" if kind == "alarm" else text),
        limit_s, round(elapsed_s, 3),
    )  # fmt: skip


#: Phases in which a worker has steps of its own.
_LIVE = frozenset({"start", "prove", "measure", "find", "end"})


def _elsewhere(states: list[RankState]) -> list[RankState]:
    """Those that are in code of their own while others wait inside of torch for them, by their stacks."""
    known = [state for state in states if state.stack]
    inside = [state for state in known if "torch/distributed/" in state.stack]
    outside = [state for state in known if state not in inside]
    return outside if inside else []


def _ranks(states: Iterable[RankState]) -> tuple[int, ...]:
    return tuple(state.rank for state in states)
