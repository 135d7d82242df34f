"""From the states of all ranks to who is to blame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.runtime.coordination.model import RankState
from distcheck.runtime.coordination.root_cause import compose_failure, reports_lost_peer

INSIDE = "torch/distributed/distributed_c10d.py:3252 in all_reduce\ntrain.py:9 in main"
#: A signal handler of the script runs inside of the call; and torch's own decorator.
INTERRUPTED = f"job/hooks/handler.py:5 in hang\ntorch/distributed/c10d_logger.py:83 in wrapper\n{INSIDE}"
DECORATED = f"lib/python3.11/contextlib.py:81 in inner\ntorch/utils/_contextlib.py:9 in wrapper\n{INSIDE}"
OUTSIDE = "data/loader.py:77 in next\ntrain.py:8 in main"
LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1"


def state(rank: int, state: str = "running", **more: object) -> RankState:
    base = RankState(rank, "host", 100 + rank, "verify", "all_reduce float32 4 KiB", 5, state, stack=INSIDE)
    return base._replace(**more)  # type: ignore[arg-type]


def blame(
    *states: RankState, size: int | None = None, kind: str = "timeout", alone: bool = False
) -> tuple[str, tuple[int, ...]]:
    found = compose_failure(
        {item.rank: item for item in states},
        len(states) if size is None else size,
        "verify",
        kind,
        "text",
        alone=alone,
    )
    return found.kind, found.culprits


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([state(0), state(1, "killed", detail="SIGKILL"), state(2, "raised", detail=LOST)], ("died", (1,))),
        ([state(0), state(1, "stopped"), state(2)], ("stopped", (1,))),
        ([state(0, "raised", detail=LOST), state(1, "raised", detail="ValueError: boom")], ("raised", (1,))),
        ([state(0), state(1, steps=4), state(2)], ("timeout", (1,))),
        ([state(0), state(1, stack=OUTSIDE), state(2)], ("timeout", (1,))),
        ([state(0), state(1, stack=INTERRUPTED), state(2)], ("timeout", (1,))),
        ([state(0), state(1, stack=DECORATED), state(2)], ("timeout", ())),
        # gloo aborts where a peer went: who went is to blame, and who aborted only where nobody else did
        ([state(0, "killed", detail="SIGABRT"), state(1, "exited", detail="status 7")], ("died", (1,))),
        ([state(0, "killed", detail="SIGABRT"), state(1, "raised", detail=LOST)], ("died", (0,))),
        # who sleeps has not joined the step before, either, in which another one waits for it
        ([state(0), state(1, stack=OUTSIDE, steps=4), state(2, steps=4)], ("timeout", (1,))),
        # all of them wait inside: the transport, not a rank
        ([state(0), state(1), state(2)], ("timeout", ())),
        # who is an earlier step is to blame before who is in other code
        ([state(0), state(1, stack=OUTSIDE), state(2, steps=4)], ("timeout", (2,))),
        ([state(0), state(1, "blocked", steps=4), state(2)], ("timeout", (1,))),
        # all of them are in other code, or nothing is known of one
        ([state(0, stack=OUTSIDE), state(1, stack=OUTSIDE)], ("timeout", ())),
        ([state(0), state(1, stack="")], ("timeout", ())),
        # a folder of the user's has that name
        ([state(0), state(1, stack="home/me/distributed/loader.py:7 in next")], ("timeout", (1,))),
        # one lost its link while the other one was between two calls
        ([state(0, "raised", detail=LOST), state(1, stack=OUTSIDE)], ("timeout", ())),
        # one lost a peer, and all others wait as before
        ([state(0), state(1), state(2, "raised", detail=LOST)], ("timeout", ())),
        # all of them lost each other, and nobody tells why
        ([state(0, "raised", detail=LOST), state(1, "raised", detail=LOST)], ("raised", ())),
    ],
)
def test_who_is_blamed(states: list[RankState], expected: tuple[str, tuple[int, ...]]) -> None:
    assert blame(*states) == expected


def test_a_rank_without_a_word_is_lost_unless_nobody_could_be_asked() -> None:
    assert blame(state(0), state(2), size=3) == ("lost", (1,))
    assert blame(state(0), state(2), size=3, alone=True) == ("timeout", ())
    assert blame(state(0, "killed", detail="SIGABRT"), state(2), size=3) == ("lost", (1,))


def test_a_signal_from_outside_blames_who_went_before_it() -> None:
    assert blame(state(0), state(1), kind="ended") == ("ended", ())
    assert blame(state(0), size=2, kind="ended") == ("lost", (1,))


def test_an_error_of_a_supervisor_blames_no_rank() -> None:
    assert blame(state(0), state(1), kind="error") == ("raised", ())


@pytest.mark.parametrize(("kind", "error"), [("ended", "SIGTERM"), ("timeout", "SIGTERM"), ("alarm", "")])
@pytest.mark.parametrize("ranks", [(0, 1), (0,)])
def test_what_the_supervisor_was_told_is_kept(kind: str, error: str, ranks: tuple[int, ...]) -> None:
    """With nobody to blame, and with a rank that gave no word. An alarm says nothing of the cause."""
    states = {rank: state(rank) for rank in ranks}
    assert compose_failure(states, 2, "verify", kind, "SIGTERM").error == error


def test_what_the_failed_rank_says_comes_first() -> None:
    states = {0: state(0), 1: state(1, "killed", detail="SIGKILL")}
    assert compose_failure(states, 2, "verify", "ended", "SIGTERM").error == "SIGKILL"


def test_the_phase_is_that_of_the_blamed_rank() -> None:
    states = {0: state(0, phase="measure", steps=9), 1: state(1, "killed", detail="SIGKILL")}
    assert compose_failure(states, 2, "measure", "died").phase == "verify"
    # before its first step it has none of its own
    states[1] = states[1]._replace(phase="env")
    assert compose_failure(states, 2, "measure", "died").phase == "measure"


def test_the_step_is_that_of_the_rank_that_came_furthest() -> None:
    states = {
        0: state(0, steps=6, step="broadcast"), 1: state(1, "killed", steps=9, step="all_gather"),
        2: state(2, steps=7, step="all_reduce"), 3: state(3, "finished", steps=8),
    }  # fmt: skip
    failure = compose_failure(states, 4, "verify", "died")
    assert failure.step == "all_reduce"
    assert failure.waiting == (0, 2)
    assert [item.rank for item in failure.states] == [1, 2]
    # who waits has no step yet
    early = {0: state(0, phase="env", step="?"), 1: state(1, "killed", step="all_gather")}
    assert compose_failure(early, 2, "verify", "died").step == "all_gather"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOST, True),
        ("Timed out waiting 8000ms for recv operation to complete", True),
        ("Failed to recv, got 0 bytes. Connection was likely closed.", True),
        ("NCCL error: remote process exited or there was a network error, ncclRemoteError", True),
        ("ValueError: boom", False),
        ("CUDA error: out of memory", False),
        ("Invalid scalar type", False),
    ],
)
def test_texts_that_only_tell_of_another_rank(text: str, expected: bool) -> None:
    assert reports_lost_peer(text) is expected


@given(
    st.integers(2, 64),
    st.sets(st.integers(0, 63), max_size=3),
    st.sampled_from(["killed", "exited", "stopped"]),
)
def test_only_those_at_fault_are_blamed(size: int, faulty: set[int], how: str) -> None:
    """However many ranks wait, and whatever they say about their lost peers."""
    faulty = {rank for rank in faulty if rank < size}
    states = [
        state(rank, how, detail="gone")
        if rank in faulty
        else state(rank, "raised" if rank % 2 else "running", detail=LOST)
        for rank in range(size)
    ]
    _, culprits = blame(*states)
    assert set(culprits) == faulty if faulty else culprits == ()


def test_what_is_told_does_not_grow_with_the_ranks() -> None:
    for how in ("running", "killed"):
        states = {rank: state(rank, how) for rank in range(4096)} | {5000: state(5000)}
        assert len(compose_failure(states, 16384, "verify", "timeout").states) <= 4
