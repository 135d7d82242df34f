"""What stands and what only takes long, from hand-made positions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.code_blocks import CodeBlock
from distcheck.core.model import Finding, Severity
from distcheck.runtime.coordination.hang_detector import (
    cause_of,
    deadlocks,
    hangs,
    is_hung,
    mismatched_waits,
    suspicious,
    waits,
)
from distcheck.runtime.coordination.model import (
    SETUP,
    STORE,
    UNSEEN,
    CallMismatch,
    CollectiveCall,
    Frame,
    Position,
    Positions,
)

TRAIN = "train.py:88"


def call(number: int, operation: str = "all_reduce", group: str = "0", place: str = TRAIN) -> CollectiveCall:
    return CollectiveCall(number, operation, group, ((20,),), ("float32",), "sum", None, place, "main")


def waiting(rank: int, entered: CollectiveCall, since: float = 30.0, **more: object) -> Position:
    return Position(
        rank,
        "gpu01",
        100 + rank,
        "waiting",
        entered,
        since_s=since,
        entered={entered.group: entered.number},
        **more,  # type: ignore[arg-type]
    )


def pair(operation: str, peer: int | None, tag: int = 0) -> CollectiveCall:
    """The first send or receive with another rank."""
    return CollectiveCall(0, operation, peer=peer, place=TRAIN, function="main", tag=tag, nth=1)


def key() -> CollectiveCall:
    return CollectiveCall(0, "store.wait", STORE, place=TRAIN, function="main", key="ready")


def computing(rank: int, number: int, group: str = "0") -> Position:
    return Position(rank, "gpu01", state="computing", call=call(number), entered={group: number})


def job(*ranks: Position, **more: object) -> Positions:
    return Positions(ranks, len(ranks), 20.0, **more)  # type: ignore[arg-type]


def judged(positions: Positions) -> list[Finding]:
    return list(
        Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
        .plan(Positions, command="watch", closed=True)
        .run(positions)
        .findings
    )


def left(rank: int, number: int, **more: object) -> Position:
    return Position(rank, state="left", status=0, call=call(number), entered={"0": number}, **more)  # type: ignore[arg-type]


# good


@pytest.mark.parametrize(
    "positions",
    [
        job(computing(0, 5), computing(1, 5)),
        # rank 0 prepares data for an hour
        job(computing(0, 4), *(waiting(rank, call(5, "barrier"), 3600.0) for rank in range(1, 8))),
        # all are in it, and it takes its time
        job(waiting(0, call(5), 30.0), waiting(1, call(5), 30.0)),
        # all make the group, which takes minutes where there are thousands of ranks, or a machine is busy
        job(*(waiting(rank, call(1, "init_process_group", "setup"), 250.0) for rank in range(2))),
        # rank 0 waits for rank 1, which waits in another group for rank 2, which computes
        job(
            waiting(0, call(5)),
            waiting(1, call(2, group="1"))._replace(entered={"0": 4, "1": 2}),
            computing(2, 5),
            groups={"1": (1, 2)},
        ),
        # rank 1 has been through the broadcast and goes on
        job(waiting(0, call(5, "broadcast")), computing(1, 6)),
        # a sub-group of which the one that left is no member
        job(
            waiting(0, call(3, group="1")), computing(1, 3)._replace(entered={"1": 2}), left(2, 9), groups={"1": (0, 1)}
        ),
        # two that exchange
        job(
            waiting(0, CollectiveCall(0, "send", peer=1)),
            waiting(1, CollectiveCall(0, "recv", peer=0)),
        ),
        job(waiting(0, CollectiveCall(0, "batch_isend_irecv")), left(1, 3)),
        # two that exchange what takes long
        job(waiting(0, CollectiveCall(0, "send", peer=1), 500.0), waiting(1, CollectiveCall(0, "recv", peer=0), 500.0)),
        # two sends, and one of the two has posted a receive before: a large transfer takes long
        job(
            waiting(0, pair("send", 1), 500.0, posted={"0 send 1 0": 1}),
            waiting(1, pair("send", 0), 500.0, posted={"0 send 0 0": 1, "0 recv 0 0": 1}),
        ),
        # whether the other side posted a receive is not known
        job(waiting(0, pair("send", 1), 500.0), waiting(1, pair("recv", 0), 500.0)),
        # the receive from any rank takes the send of one of the two
        job(
            waiting(0, pair("send", 1), 500.0, posted={"0 send 1 0": 1}),
            waiting(1, pair("recv", None), 500.0, posted={"0 recv * 0": 1}),
            waiting(2, call(5), posted={}),
        ),
        # any rank may still set the key, and rank 1 waits for rank 0
        job(waiting(0, key(), 500.0), waiting(1, call(5)), computing(2, 4)),
        # all are in it and data still moves, or they wait for less than twice the timeout
        job(waiting(0, call(5), 100.0, idle_s=3.0), waiting(1, call(5), 100.0, idle_s=100.0)),
        job(waiting(0, call(5), 39.0, idle_s=39.0), waiting(1, call(5), 39.0, idle_s=39.0)),
        # the root has been through the broadcast, and has ended
        job(waiting(0, call(5, "broadcast")), left(1, 5)),
        # less than six times the patience
        job(waiting(0, call(5), 100.0), waiting(1, call(5), 100.0)),
    ],
)
def test_good_what_may_yet_go_on(positions: Positions) -> None:
    """Neither DC511, DC517, DC519, DC701, DC702 nor DC704."""
    assert not is_hung(positions)
    assert judged(positions) == []


# bad


@pytest.mark.parametrize("direction", ["send", "recv"])
def test_bad_all_send_or_all_receive(direction: str) -> None:
    """Each rank of a ring waits for the next one, which has posted nothing for it."""
    ring = [
        waiting(rank, pair(direction, (rank + 1) % 3), posted={f"0 {direction} {(rank + 1) % 3} 0": 1})
        for rank in range(3)
    ]
    (finding,) = judged(job(*ring))
    assert (finding.code, finding.severity, finding.where.line) == ("DC716", Severity.ERROR, 88)
    assert finding.where.ranks == "0-2"


@pytest.mark.parametrize(
    ("other", "code", "said"),
    [
        (waiting(1, pair("recv", 0, tag=2), posted={"0 recv 0 2": 1}), "DC709", "receives from rank 0 with tag 2"),
        (waiting(1, pair("recv", 2), posted={"0 recv 2 0": 1}), "DC709", "receives from rank 2 instead"),
        (Position(1, state="left", status=0, posted={}), "DC511", "has ended"),
        # what it has received matches
        (waiting(1, call(5), posted={"0 recv 2 0": 1}), "DC511", "rank 1 waits in all_reduce #5"),
    ],
)
def test_bad_a_send_without_a_receive(other: Position, code: str, said: str) -> None:
    third = waiting(2, call(5), posted={"0 send 1 0": int(code == "DC511")})
    positions = job(waiting(0, pair("send", 1), posted={"0 send 1 0": 1}), other, third)
    (finding, *_) = judged(positions)
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert finding.evidence["missing"] == "1"
    assert said in finding.message


def test_bad_a_message_for_a_rank_that_does_not_exist() -> None:
    """Also -1, the left neighbor of rank 0."""
    for peer in (-1, 2):
        waits = waiting(1, pair("recv", peer), posted={f"0 recv {peer} 0": 1})
        (finding,) = judged(job(waiting(0, call(5), posted={}), waits))
        assert finding.code == "DC709"
        assert f"rank {peer} is not in the default group" in finding.message


def test_bad_a_ring_in_which_all_receive_from_the_right() -> None:
    """Each has started a send to the right, which the right neighbor does not receive."""
    ring = [
        waiting(
            rank, pair("recv", (rank + 1) % 3),
            posted={f"0 recv {(rank + 1) % 3} 0": 1, f"0 send {(rank + 1) % 3} 0": 1},
        )
        for rank in range(3)
    ]  # fmt: skip
    (finding,) = judged(job(*ring))
    assert finding.code == "DC709"
    assert "sent to rank 2 instead" in finding.message


def test_bad_a_message_that_is_missing_before_a_collective() -> None:
    """The branch on the rank around a message explains nothing: messages are always between some ranks."""
    stack = (Frame("train.py", 12, "main", own=True),)
    waits = waiting(1, pair("recv", 0)._replace(place="train.py:12"), posted={"0 recv 0 0": 1}, stack=stack)
    around = {"train.py:12": (CodeBlock("branch", 11, 13, by_rank=True),), TRAIN: ()}
    (finding,) = judged(job(waiting(0, call(5), 40.0, posted={}), waits, around=around))
    assert finding.code == "DC511"
    assert "rank 0 waits in all_reduce #5" in finding.message


def test_bad_a_reply_that_is_not_sent() -> None:
    """Both receive, at different lines: the ranks do not run the same calls in the same order."""
    request, reply = pair("recv", 1), pair("recv", 0)._replace(place="train.py:40")
    ranks = (waiting(0, request, posted={"0 recv 1 0": 1}), waiting(1, reply, posted={"0 recv 0 0": 1}))
    (finding,) = judged(job(*ranks))
    assert finding.code == "DC511"


def test_bad_two_receives_from_any_rank() -> None:
    ranks = [waiting(rank, pair("recv", None), posted={"0 recv * 0": 1}) for rank in range(2)]
    assert len(hangs(job(*ranks))) == 2


def test_good_a_receive_from_any_rank_whose_number_is_unknown() -> None:
    """Whether a send for it was posted cannot be decided."""
    receive = pair("recv", None)._replace(nth=0)
    ranks = [waiting(rank, receive, posted={f"0 recv {1 - rank} 0": 1}) for rank in range(2)]
    assert hangs(job(*ranks)) == ()


def test_bad_a_key_that_no_rank_sets() -> None:
    (finding,) = judged(job(waiting(0, call(5)), waiting(1, key(), 40.04)))
    assert finding.code == "DC511"
    assert finding.evidence["since_s"] == 40.0
    assert finding.message == (
        f"rank 1 waits in store.wait (key 'ready') at {TRAIN}; rank 0 waits in {call(5).text_with_place}"
    )
    # a job of one rank
    assert len(hangs(job(waiting(0, key(), 40.0)))) == 1


def test_bad_all_are_in_a_call_and_no_data_moves() -> None:
    """Rank 2 has passed it: it was in another group of that name."""
    stuck = [waiting(rank, call(5), 41.0, idle_s=41.0) for rank in range(2)]
    (finding,) = judged(job(*stuck))
    assert finding.code == "DC511"
    assert "all ranks of the default group are in all_reduce #5" in finding.message
    (finding,) = judged(job(*stuck, computing(2, 6)))
    assert "ranks 0-1 are in all_reduce #5" in finding.message
    assert "rank 2 made the same call before" in finding.message


def test_bad_groups_that_differ_are_the_cause_of_each_hang() -> None:
    made = [CollectiveCall(2, "new_group", SETUP, sizes) for sizes in (((0, 1),), ((2, 3),))]
    differs = CallMismatch(SETUP, 2, (((0,), made[0]), ((1,), made[1])))
    positions = job(*(waiting(rank, call(5), 41.0, idle_s=41.0) for rank in range(2)), mismatches=(differs,))
    assert cause_of(hangs(positions), positions) == made[0]


def test_bad_a_send_to_a_rank_in_a_collective() -> None:
    positions = job(waiting(0, CollectiveCall(0, "send", peer=1), 40.0), waiting(1, call(5)))
    assert [wait.missing for wait in hangs(positions)] == [(1,), (0,)]
    (finding,) = judged(positions)
    assert finding.code == "DC517"
    # and the other way round
    (finding,) = judged(job(waiting(0, call(5), 40.0), waiting(1, CollectiveCall(0, "recv", peer=0))))
    assert finding.code == "DC517"


def test_bad_ranks_are_missing_for_different_reasons() -> None:
    """One is in another group, and one further back in this one: no order of the groups explains that."""
    positions = job(
        waiting(0, call(5), 50.0), waiting(1, call(2, group="1"))._replace(entered={"0": 4, "1": 2}),
        waiting(2, call(4)), groups={"1": (0, 1)},
    )  # fmt: skip
    (finding,) = judged(positions)
    assert finding.code == "DC701"


@pytest.mark.parametrize(("where", "code"), [("_engine_run_backward", "DC519"), ("main", "DC702")])
def test_bad_what_cpp_calls_is_known_by_the_backward(where: str, code: str) -> None:
    stack = (Frame("torch/autograd/graph.py", 979, where), Frame("train.py", 88, "main", own=True))
    (finding,) = judged(job(waiting(0, call(412), stack=stack), left(1, 411, places={UNSEEN: 40})))
    assert finding.code == code


def test_only_the_first_causes_are_reported() -> None:
    """Five groups, each with a rank that has ended."""
    ranks = (
        position
        for group in range(5)
        for position in (
            waiting(2 * group, call(2, group=f"g{group}"), 30.0 + group), Position(2 * group + 1, state="left", status=0)
        )
    )  # fmt: skip
    groups = {f"g{group}": (2 * group, 2 * group + 1) for group in range(5)}
    found = judged(job(*ranks, groups=groups))
    assert sorted(finding.where.rank or 0 for finding in found) == [5, 7, 9]


def test_bad_a_rank_has_ended_before_the_loop_did() -> None:
    (finding,) = judged(job(waiting(0, call(412)), left(1, 411, places={TRAIN: 411})))
    assert finding.code == "DC519"
    assert finding.severity.word == "error"
    assert finding.fix is not None
    assert finding.fix.where == "code"
    assert finding.message == (
        "rank 0 waits in all_reduce #412 (float32 [20]) at train.py:88; rank 1 has ended with status 0, last in "
        "all_reduce #411 (float32 [20]) at train.py:88"
    )
    assert (finding.where.path, finding.where.line) == ("train.py", 88)


@pytest.mark.parametrize("status", [None, -9])
def test_bad_a_rank_that_was_killed(status: int | None) -> None:
    """DC511: there is no exit in the script that could be moved."""
    (finding,) = judged(job(waiting(0, call(412)), left(1, 400, places={TRAIN: 400})._replace(status=status)))
    assert finding.code == "DC511"
    assert "last heard of in all_reduce #400" in finding.message
    assert finding.fix is not None
    assert "dmesg -T" in finding.fix.text


def test_bad_a_collective_behind_an_exit() -> None:
    (finding,) = judged(job(waiting(0, call(412, "barrier", place="train.py:93")), left(1, 411, places={TRAIN: 411})))
    assert finding.code == "DC702"


def test_bad_a_collective_in_a_branch() -> None:
    """Rank 1 never calls it and waits in another group, for rank 0."""
    positions = job(
        waiting(0, call(5, place="train.py:50")),
        waiting(1, call(2, "barrier", "1", "train.py:60"))._replace(entered={"0": 4, "1": 2}),
        groups={"1": (0, 1)},
    )
    (finding,) = judged(positions)
    assert finding.code == "DC517"  # or another order of the groups: the calls do not tell
    positions = positions._replace(around={"train.py:60": (CodeBlock("branch", 58, 61),)})
    (finding,) = judged(positions)
    assert finding.code == "DC701"
    assert "rank 1 waits in barrier #2 of group 1 (float32 [20]) at train.py:60" in finding.message


@pytest.mark.parametrize("seconds", [(9.0, 6.0), (6.0, 9.0)], ids=["the branch first", "the branch last"])
def test_bad_the_branch_on_the_rank_is_the_cause_whichever_rank_came_first(seconds: tuple[float, float]) -> None:
    """Rank 0 reduces under `if rank == 0`; the others are in the next backward, which has reduced before."""
    in_branch = (
        Frame("train.py", 176, "mean", own=True),
        Frame("train.py", 78, "on_step_end", own=True),
        Frame("train.py", 158, "fit", own=True),
    )
    in_backward = (
        Frame("torch/autograd/graph.py", 979, "_engine_run_backward"),
        Frame("train.py", 155, "fit", own=True),
    )
    mean = call(1, group="1", place="train.py:176")
    backward = call(11, place="train.py:155")
    positions = job(
        waiting(0, mean, 20 + seconds[0], stack=in_branch, places={UNSEEN: 10})._replace(entered={"0": 10, "1": 1}),
        *(waiting(rank, backward, 20 + seconds[1], stack=in_backward, places={UNSEEN: 11}) for rank in (1, 2, 3)),
        groups={"1": (0, 1, 2, 3)},
        around={
            "train.py:176": (),
            "train.py:78": (CodeBlock("branch", 75, 79), CodeBlock("branch", 77, 79, by_rank=True)),
            "train.py:158": (CodeBlock("loop", 149, 161), CodeBlock("loop", 152, 158)),
            "train.py:155": (CodeBlock("loop", 149, 161), CodeBlock("loop", 152, 158)),
        },
    )
    (finding,) = judged(positions)
    assert (finding.code, finding.where.line, finding.where.ranks) == ("DC701", 176, "1-3")


def test_bad_a_forward_of_ddp_on_one_rank() -> None:
    stack = (
        Frame("torch/distributed/distributed_c10d.py", 1, "broadcast"),
        Frame("torch/nn/parallel/distributed.py", 1500, "_pre_forward"),
        Frame("eval.py", 41, "validate", own=True),
    )
    waits = waiting(0, call(5, "broadcast", place="eval.py:41"), stack=stack)
    (finding,) = judged(job(waits, left(1, 4)))
    assert finding.code == "DC704"
    # no stack is known of the last one that waits
    (finding,) = judged(job(waits, waiting(1, call(5, "broadcast", place="eval.py:41")), left(2, 4)))
    assert finding.code == "DC704"


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (Position(1, state="stopped", detail="SIGSTOP, or a debugger"), "rank 1 is stopped (SIGSTOP, or a debugger)"),
        (Position(1, state="raised", detail="KeyError: 'x'", stack=(Frame("data.py", 7, "load", own=True),)), "rank 1 raised KeyError: 'x' in load() at data.py:7"),
        (Position(1, state="silent", detail="for 31 s"), "rank 1 gives no word (for 31 s)"),
    ],
)  # fmt: skip
def test_bad_a_rank_is_gone(gone: Position, said: str) -> None:
    (finding,) = judged(job(waiting(0, call(5)), gone))
    assert finding.code == "DC511"
    assert finding.fix is not None
    assert finding.fix.where == "host"
    assert said in finding.message


def test_bad_calls_that_differ() -> None:
    one, other = call(5), call(5)._replace(reduce="max", place="train.py:90")
    (finding,) = judged(
        job(computing(0, 5), computing(1, 5), mismatches=(CallMismatch("0", 5, (((0,), one), ((1,), other))),))
    )
    assert finding.code == "DC517"
    assert "differs in reduction" in finding.message
    assert "rank 1 calls all_reduce #5 (float32 [20], max) at train.py:90" in finding.message
    assert (finding.where.line, finding.where.rank) == (90, 1)


@pytest.mark.parametrize("other", [{"sizes": ((30,),)}, {"dtypes": ("int64",)}, {"reduce": "max"}])
def test_bad_arguments_of_one_line_that_differ(other: dict[str, Any]) -> None:
    """DC709 where no rank can be a turn of a loop ahead, which would be DC517."""
    one, two = call(5), call(5)._replace(**other)

    def code(*positions: Position, place: str = TRAIN) -> str:
        sides = (((0,), one), ((1,), two._replace(place=place)))
        (finding,) = judged(job(*positions, mismatches=(CallMismatch("0", 5, sides),)))
        assert finding.severity is Severity.ERROR
        return finding.code

    first = [waiting(0, one, places={"train.py:3": 4}), waiting(1, two, places={"train.py:3": 4})]
    assert code(*first) == "DC709"
    assert code(*first, place="train.py:90") == "DC517"
    again = first[1]._replace(places={"train.py:3": 3, TRAIN: 1})
    assert code(first[0], again) == "DC517"
    assert code(*(position._replace(places={}) for position in first)) == "DC517"


def test_bad_roots_that_differ() -> None:
    one, other = call(5, "broadcast")._replace(peer=0), call(5, "broadcast")._replace(peer=1)
    (finding,) = judged(job(waiting(0, one), waiting(1, other), **apart(one, other)))
    assert (finding.code, finding.severity) == ("DC709", Severity.ERROR)
    assert "differs in root" in finding.message


def test_bad_each_call_that_differs_is_found() -> None:
    """One of which the calls were not kept, one that a forward of DDP explains, and one that nothing explains."""
    forward = (Frame("torch/nn/parallel/distributed.py", 1661, "forward"), Frame("train.py", 70, "main", own=True))
    one, other = call(6, place="train.py:70"), call(6, "barrier", place="train.py:90")
    unexplained = call(5), call(5)._replace(reduce="max")
    found = judged(
        job(
            waiting(0, one, stack=forward), waiting(1, other),
            mismatches=(
                CallMismatch("1", 2, ()), *apart(one, other)["mismatches"], *apart(*unexplained)["mismatches"],
            ),
        )
    )  # fmt: skip
    assert sorted((finding.code, finding.evidence["number"]) for finding in found) == [
        ("DC517", 2), ("DC517", 5), ("DC704", 6)
    ]  # fmt: skip


def test_ranks_that_have_not_waited_for_the_hang_timeout_are_not_suspicious() -> None:
    positions = job(waiting(0, call(11)), waiting(1, call(11, "barrier", place="train.py:10")))
    longer = max(position.since_s for position in positions.ranks) + 1
    assert not suspicious(positions._replace(hang_timeout_s=longer))


def test_bad_one_waits_where_ddp_reduces() -> None:
    positions = job(waiting(0, call(11)), waiting(1, call(11, "barrier", place="train.py:10")))
    assert not is_hung(positions)
    assert suspicious(positions)
    (mismatch,) = mismatched_waits(positions)
    assert [ranks for ranks, _ in mismatch.calls] == [(0,), (1,)]
    assert is_hung(positions._replace(mismatches=(mismatch,)))


def apart(one: CollectiveCall, other: CollectiveCall) -> dict[str, tuple[CallMismatch, ...]]:
    return {"mismatches": (CallMismatch(one.group, one.number, (((0,), one), ((1,), other))),)}


#: A mismatch: rank 0 reduces, rank 1 is in a barrier.
REDUCES, IN_BARRIER = call(5), call(5, "barrier", place="train.py:90")
#: Torch compares neither of these.
MAX, AS_INT = call(5)._replace(reduce="max"), call(5)._replace(dtypes=("int32",))


@pytest.mark.parametrize(
    "positions",
    [
        job(waiting(0, REDUCES), waiting(1, IN_BARRIER), **apart(REDUCES, IN_BARRIER)),
        # the third makes the call of one of them
        job(waiting(0, REDUCES), waiting(1, IN_BARRIER), waiting(2, IN_BARRIER), **apart(REDUCES, IN_BARRIER)),
        # a root goes through its broadcast alone, and waits in the next call
        job(
            waiting(0, call(6)), waiting(1, REDUCES), **apart(call(5, "broadcast"), REDUCES)
        ),
        # it has ended after its broadcast
        job(left(0, 5), waiting(1, REDUCES), **apart(call(5, "broadcast"), REDUCES)),
        # it has lost its peer in the call, and another group waits for it
        job(
            left(0, 5)._replace(state="raised", detail="RuntimeError"), computing(1, 6),
            waiting(2, call(2, group="1")), groups={"1": (0, 2)}, **apart(REDUCES, IN_BARRIER),
        ),
        # the rank that is missing here waits in the call that differs
        job(
            waiting(0, REDUCES), waiting(1, IN_BARRIER), waiting(2, call(2, group="1"))._replace(entered={"0": 4, "1": 2}),
            groups={"1": (0, 2), "0": (0, 1)}, **apart(REDUCES, IN_BARRIER),
        ),
        # group numbers differ where C++ has made a call on one rank only
        job(waiting(0, REDUCES), waiting(1, call(6, "barrier")), **apart(REDUCES, call(6, "barrier"))),
        job(waiting(0, REDUCES, 20.0), waiting(1, AS_INT, 20.0), **apart(REDUCES, AS_INT)),
    ],
)  # fmt: skip
def test_bad_ranks_hang_in_calls_that_differ(positions: Positions) -> None:
    """DC517 has been reported: the hang follows from it."""
    cause = cause_of(hangs(positions), positions)
    assert cause is not None
    assert cause.number in (5, 6)


@pytest.mark.parametrize(
    "positions",
    [
        # the last one came a moment ago, and its call may end
        job(waiting(0, REDUCES, 3600.0), waiting(1, AS_INT, 19.0), **apart(REDUCES, AS_INT)),
        # the last one has yet to come
        job(waiting(0, REDUCES), waiting(1, AS_INT), computing(2, 4), **apart(REDUCES, AS_INT)),
        # one has gone through it and computes
        job(computing(0, 5), waiting(1, AS_INT), **apart(REDUCES, AS_INT)),
        # another reduction hangs nowhere: all are in one call, which takes its time
        job(waiting(0, REDUCES), waiting(1, MAX), **apart(REDUCES, MAX)),
        # all have come further
        job(waiting(0, call(6)), waiting(1, call(6)), **apart(REDUCES, AS_INT)),
        # the same number in another group
        job(
            *(waiting(rank, call(5, group="1")) for rank in range(2)), groups={"1": (0, 1)}, **apart(REDUCES, AS_INT)
        ),
        # which call differs was not kept
        job(waiting(0, call(5)), waiting(1, call(5)), mismatches=(CallMismatch("0", 5, ()),)),
    ],
)  # fmt: skip
def test_good_calls_that_differ_may_end(positions: Positions) -> None:
    assert hangs(positions) == ()
    assert cause_of((), positions) is None


def test_a_hang_with_another_cause_than_the_calls_that_differ() -> None:
    positions = job(
        waiting(0, REDUCES), waiting(1, IN_BARRIER),
        waiting(2, call(2, group="1")), Position(3, state="stopped", entered={"1": 1}),
        groups={"0": (0, 1), "1": (2, 3)}, **apart(REDUCES, IN_BARRIER),
    )  # fmt: skip
    stuck = hangs(positions)
    assert [wait.waiting for wait in stuck] == [(0, 1), (2,)]
    assert cause_of(stuck[:1], positions) == REDUCES
    assert cause_of(stuck, positions) is None


def test_of_two_causes_the_first_wait_has_its_own() -> None:
    """Two groups, each of which hangs in calls that differ."""
    others = call(7, group="1"), call(7, "barrier", "1", "train.py:91")
    positions = job(
        waiting(0, REDUCES), waiting(1, IN_BARRIER), waiting(2, others[0]), waiting(3, others[1]),
        groups={"0": (0, 1), "1": (2, 3)},
        mismatches=(
            *apart(REDUCES, IN_BARRIER)["mismatches"], CallMismatch("1", 7, (((2,), others[0]), ((3,), others[1]))),
        ),
    )  # fmt: skip
    stuck = hangs(positions)
    assert [wait.waiting for wait in stuck] == [(0, 1), (2, 3)]
    assert cause_of(stuck, positions) == REDUCES
    assert cause_of(stuck[::-1], positions) == others[0]


def test_good_one_collective_by_two_names() -> None:
    assert mismatched_waits(job(waiting(0, call(1)), waiting(1, call(1, "allreduce")))) == ()


def test_bad_all_have_come_and_it_does_not_end() -> None:
    (finding,) = judged(job(waiting(0, call(5), 200.0), waiting(1, call(5), 180.0)))
    assert finding.code == "DC511"
    assert "all ranks" in finding.message


def test_nothing_is_said_before_the_patience_is_over() -> None:
    assert not is_hung(job(waiting(0, call(412), 19.0), left(1, 411)))
    assert is_hung(job(waiting(0, call(412), 20.0), left(1, 411)))


def test_who_gave_up_waits_for_nobody() -> None:
    """gloo has said that a peer is gone: one that computes now left the group."""
    positions = job(waiting(0, call(5)), computing(1, 4))
    assert not is_hung(positions)
    (finding,) = judged(positions._replace(over=True))
    assert finding.message.startswith("rank 0 waited in all_reduce #5")


def test_thousands_of_ranks() -> None:
    positions = job(*(waiting(rank, call(5)) for rank in range(16383)), left(16383, 4, places={TRAIN: 4}))
    begun = time.monotonic()
    (wait,) = deadlocks(positions)
    assert len(wait.waiting) == 16383
    assert wait.missing == (16383,)
    (finding,) = judged(positions)
    assert "ranks 0-16382 wait in all_reduce #5" in finding.message
    # generous: it is a tenth of that on the machine where it was written
    assert time.monotonic() - begun < 10
    assert len(waits(positions)) == 1
