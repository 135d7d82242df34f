"""Which side of a mismatch has gone its own way, by the loops and branches around the lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.core.checker import Checker
from distcheck.core.code_blocks import CodeBlock
from distcheck.core.model import Finding
from distcheck.runtime.coordination.code_blocks import around, with_blocks
from distcheck.runtime.coordination.model import CallMismatch, CollectiveCall, Frame, Position, Positions

SCRIPT = """\
def reduce_all(x):
    dist.all_reduce(x)          # 2

def epoch(loader):
    for batch in loader:        # 5
        reduce_all(batch)       # 6
        if rank == 0:           # 7
            dist.barrier()      # 8

def main():
    for _ in range(9):          # 11
        epoch(loader)           # 12
        validate()              # 13
    if rank == 0:               # 14
        save()                  # 15
    else:
        dist.all_reduce(y)      # 17
    dist.barrier()              # 18
    try:
        load()                  # 20
    except OSError:
        dist.all_reduce(z)      # 22

def validate():
    dist.barrier()              # 25

def save():
    dist.barrier()              # 28

def epochs():
    for number in range(9):     # 31
        epoch(loader)           # 32
        if number % 2 == 0:
            validate()          # 34
        if rank == 0:
            save()              # 36

def first():
    validate()                  # 39
    epoch(loader)               # 40
    if len(loader) > 4:         # 41
        validate()              # 42
        save()                  # 43
    left()                      # 44
    right()                     # 45

def left():
    if len(loader) > 4:
        dist.barrier()          # 49

def right():
    if len(loader) < 4:
        dist.barrier()          # 53

def saving():
    for _ in range(3):          # 56
        for batch in loader:    # 57
            reduce_all(batch)   # 58
        keep()                  # 59

def keep():
    if rank != 0:               # 62
        return
    torch.save(state, "x.pt")   # 64
    dist.barrier()              # 65

def coins():
    for _ in range(7):          # 68
        if coin():
            reduce_all(x)       # 70
    dist.barrier()              # 71

def stops():
    for _ in range(7):          # 74
        if coin():
            reduce_all(x)       # 76
        if done():
            break
    dist.barrier()              # 79

def nested():
    for _ in range(3):          # 82
        for _ in range(4):
            if coin():
                reduce_all(x)   # 85
        if better():
            dist.barrier()      # 87
"""
OF_LINES = {2: "reduce_all", 6: "epoch", 8: "epoch", 12: "main", 13: "main", 15: "main", 17: "main", 18: "main",
            22: "main", 32: "epochs", 34: "epochs", 36: "epochs", 25: "validate", 28: "save",
            39: "first", 40: "first", 42: "first", 43: "first", 44: "first", 45: "first", 49: "left",
            53: "right", 58: "saving", 59: "saving", 65: "keep",
            70: "coins", 71: "coins", 76: "stops", 79: "stops",
            85: "nested", 87: "nested"}  # fmt: skip
LIBRARY = Frame("torch/distributed/c10d_logger.py", 83, "wrapper")


def rank(number: int, path: Path, *lines: int, places: tuple[int, ...] = (), above: Frame = LIBRARY) -> Position:
    """A rank that waits in a call at the last of these lines, called from the others."""
    stack = (above, *(Frame(str(path), line, OF_LINES[line], True) for line in reversed(lines)))
    operation = "barrier" if lines[-1] in (8, 18, 25, 28, 49, 53, 65, 71, 79, 87) else "all_reduce"
    call = CollectiveCall(4, operation, place=f"{path}:{lines[-1]}", function=OF_LINES[lines[-1]])
    return Position(
        number, state="waiting", call=call, stack=stack, places={f"{path}:{line}": 3 for line in places},
        entered={"0": 4},
    )  # fmt: skip


def longer(position: Position) -> Position:
    """With another number of elements in its call."""
    return position._replace(call=position.call and position.call._replace(sizes=((4,),)))


def judged(*ranks: Position) -> Finding:
    """What is found where ranks whose calls are equal are one side of a mismatch."""
    calls = dict.fromkeys(item.call for item in ranks if item.call)
    sides = tuple((tuple(item.rank for item in ranks if item.call == call), call) for call in calls)
    positions = Positions(ranks, len(ranks), 20.0, mismatches=(CallMismatch("0", 4, sides),))
    checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
    (finding,) = checker.plan(Positions, command="watch", closed=True).run(with_blocks(positions)).findings
    return finding


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_blocks_of_the_same_function(path: Path) -> None:
    assert around(str(path), 8) == (CodeBlock("loop", 5, 8), CodeBlock("branch", 8, 8, by_rank=True))
    assert around(str(path), 17) == (CodeBlock("branch", 17, 17, by_rank=True),)
    assert around(str(path), 20) == ()
    assert around(str(path), 22) == (CodeBlock("branch", 22, 22),)
    assert around(str(path), 2) == ()
    assert around(str(path.with_name("gone.py")), 2) == ()


def test_bad_a_collective_in_a_branch(path: Path) -> None:
    finding = judged(rank(0, path, 12, 8, places=(2,)), rank(1, path, 12, 6, 2, places=(2,)))
    assert (finding.code, finding.where.line, finding.where.rank) == ("DC701", 8, 0)
    assert "rank 0 stands in a branch that the others have not taken, and calls barrier #4" in finding.message


def test_bad_a_collective_in_a_function_that_a_branch_calls(path: Path) -> None:
    finding = judged(rank(0, path, 15, 28), rank(1, path, 18))
    assert (finding.code, finding.where.line) == ("DC701", 28)


def test_bad_a_handler_of_an_exception(path: Path) -> None:
    assert judged(rank(0, path, 18), rank(1, path, 22)).code == "DC701"


def test_bad_a_loop_that_one_rank_has_left(path: Path) -> None:
    """Its call behind the loop is in another function, and so is the loop."""
    finding = judged(rank(0, path, 12, 6, 2, places=(2,)), rank(1, path, 13, 25, places=(2,)))
    assert (finding.code, finding.where.line, finding.where.rank) == ("DC519", 2, 1)
    assert "rank 1 has left the loop, and calls barrier #4" in finding.message


def test_bad_a_branch_of_a_loop_that_makes_as_many_turns_on_each_rank(path: Path) -> None:
    finding = judged(rank(0, path, 70, 2, places=(2,)), rank(1, path, 71, places=(2,)))
    assert (finding.code, finding.where.line, finding.where.rank) == ("DC701", 2, 0)
    # the loop has another way out
    assert judged(rank(0, path, 76, 2, places=(2,)), rank(1, path, 79, places=(2,))).code == "DC519"
    # another loop, whose turns are not known
    assert judged(rank(0, path, 12, 6, 2, places=(2,)), rank(1, path, 18, places=(2,))).code == "DC519"


def test_bad_a_branch_behind_a_loop_in_which_the_other_is_in_its_next_turn(path: Path) -> None:
    """The rank in the inner loop was called the one in a branch: it may be in a later turn of the outer loop."""
    finding = judged(rank(0, path, 85, 2, places=(2,)), rank(1, path, 87, places=(2,)))
    assert finding.where.rank != 0 or finding.where.line != 2


def test_bad_a_branch_on_the_rank_behind_a_loop_in_which_the_others_are_again(path: Path) -> None:
    """They are in the next epoch's loop: who is not on its own has left nothing."""
    in_loop = rank(1, path, 32, 6, 2, places=(2,))
    assert judged(rank(0, path, 36, 28, places=(2,)), in_loop).code == "DC701"
    # a branch that all would come to
    assert judged(rank(0, path, 34, 25, places=(2,)), in_loop).code == "DC519"


def test_bad_what_follows_the_early_return_of_the_other_ranks(path: Path) -> None:
    assert around(str(path), 65) == (CodeBlock("branch", 64, 65, by_rank=True),)
    assert around(str(path), 59) == (CodeBlock("loop", 56, 59, fixed=True),)
    in_loop = rank(1, path, 58, 2, places=(2,))
    assert judged(rank(0, path, 59, 65, places=(2,)), in_loop).code == "DC701"


def test_good_ranks_that_tell_nothing_stay_a_mismatch(path: Path) -> None:
    # the same line; two arms; a loop that one has not been in; lines of other functions
    assert judged(rank(0, path, 18), longer(rank(1, path, 18))).code == "DC517"
    assert judged(rank(0, path, 15, 28), rank(1, path, 17)).code == "DC517"
    assert judged(rank(0, path, 12, 6, 2), rank(1, path, 13, 25)).code == "DC517"
    assert judged(rank(0, path, 25), rank(1, path, 28)).code == "DC517"
    # two branches, of which one is on the rank
    assert judged(rank(0, path, 15, 28), rank(1, path, 22)).code == "DC517"
    # a branch on the rank in a function that the other rank is not in
    assert judged(rank(0, path, 8), rank(1, path, 25)).code == "DC517"
    # a line before a loop: a rank that comes to it later has not left the loop
    assert judged(rank(0, path, 40, 6, 2, places=(2,)), rank(1, path, 39, 25, places=(2,))).code == "DC517"
    # two lines of one branch
    assert judged(rank(0, path, 42, 25), rank(1, path, 43, 28, places=(25,))).code == "DC517"
    # each in a branch of a function of its own: either may be the one that should not be there
    assert judged(rank(0, path, 44, 49), rank(1, path, 45, 53)).code == "DC517"


def test_good_not_all_ranks_of_a_side_have_been_there(path: Path) -> None:
    in_loop = rank(0, path, 12, 6, 2, places=(2,))
    # of the two behind the loop one has never been in it
    behind = rank(1, path, 13, 25, places=(2,))
    assert judged(in_loop, behind, rank(2, path, 13, 25, places=(2,))).code == "DC519"
    assert judged(in_loop, behind, rank(2, path, 13, 25)).code == "DC517"
    # of the two in the loop one has been in the branch
    others = (rank(1, path, 12, 6, 2, places=(2, 8)), rank(2, path, 12, 6, 2, places=(2,)))
    assert judged(rank(0, path, 12, 8, places=(2,)), *others).code == "DC517"


def test_good_a_branch_in_which_the_others_have_been(path: Path) -> None:
    finding = judged(rank(0, path, 12, 8, places=(2,)), rank(1, path, 12, 6, 2, places=(2, 8)))
    assert finding.code == "DC517"


def test_bad_the_forward_of_ddp_on_one_rank(path: Path) -> None:
    forward = Frame("torch/nn/parallel/distributed.py", 1661, "forward")
    finding = judged(rank(0, path, 17, above=forward), rank(1, path, 18))
    assert (finding.code, finding.where.line) == ("DC704", 17)


def test_good_ddp_on_both_sides_or_not_in_its_forward(path: Path) -> None:
    forward = Frame("torch/nn/parallel/distributed.py", 1661, "forward")
    made = Frame("torch/nn/parallel/distributed.py", 800, "__init__")
    # the same line
    assert judged(rank(0, path, 17, above=forward), longer(rank(1, path, 17))).code == "DC517"
    # the constructor
    assert judged(rank(0, path, 25, above=made), rank(1, path, 28)).code == "DC517"
    # both are in it, and one of them has been at the other's line
    both = rank(0, path, 13, 25, places=(18,), above=forward), rank(1, path, 18, above=forward)
    assert judged(*both).code == "DC517"


def test_bad_a_forward_behind_a_loop_that_one_rank_has_left(path: Path) -> None:
    """That it left the loop explains that it is in a forward in which the others have not been."""
    forward = Frame("torch/nn/parallel/distributed.py", 1661, "forward")
    left = rank(1, path, 13, 25, places=(2,), above=forward)
    assert judged(rank(0, path, 12, 6, 2, places=(2,)), left).code == "DC519"


def test_bad_a_branch_that_keeps_one_from_the_forward_of_all(path: Path) -> None:
    # the test of the branch names no rank: all have been in that forward, and only one in the branch
    forward = Frame("torch/nn/parallel/distributed.py", 1661, "forward")
    steps = rank(1, path, 32, 2, places=(2,), above=forward)
    finding = judged(steps, rank(0, path, 34, 25, places=(2,)))
    assert (finding.code, finding.where.line, finding.where.rank) == ("DC701", 25, 0)


def test_good_a_forward_of_ddp_in_a_loop_that_another_rank_has_left(path: Path) -> None:
    forward = Frame("torch/nn/parallel/distributed.py", 1661, "forward")
    stays = rank(0, path, 12, 6, 2, places=(2,), above=forward)
    assert judged(stays, rank(1, path, 13, 25, places=(2,))).code == "DC519"


def test_bad_a_rank_that_was_killed_has_taken_no_branch(path: Path) -> None:
    forward = Frame("torch/nn/parallel/distributed.py", 1661, "forward")
    waits = rank(0, path, 15, 28, above=forward)._replace(since_s=30.0)
    positions = Positions((waits, Position(1, state="left", status=-11, detail="signal 11")), 2, 20.0)
    checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
    (finding,) = checker.plan(Positions, command="watch", closed=True).run(with_blocks(positions)).findings
    assert (finding.code, "status -11" in finding.message) == ("DC511", True)


def test_bad_a_branch_on_the_rank_calls_what_all_have_called_before(path: Path) -> None:
    """In a group of its own, so that no call differs: the others wait in the next step of the loop."""
    waits = rank(0, path, 36, 28)
    waits = waits._replace(since_s=30.0, call=waits.call and waits.call._replace(group="1", number=2), entered={"1": 2})
    checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
    found = []
    for lines in ((32, 6, 2), (36, 28)):
        others = rank(1, path, *lines, places=(2, 28))._replace(since_s=20.0)
        positions = Positions((waits, others), 2, 20.0, groups={"1": (0, 1)})
        (finding, *_) = checker.plan(Positions, command="watch", closed=True).run(with_blocks(positions)).findings
        found.append((finding.code, finding.where.line))
    assert found == [("DC701", 28), ("DC519", 28)]


def test_bad_the_others_have_ended_and_one_waits_in_a_branch(path: Path) -> None:
    checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
    # the third stands in a branch whose test names no rank
    waiting = ((rank(0, path, 15, 28), "DC701"), (rank(0, path, 18), "DC702"), (rank(0, path, 34, 25), "DC702"))
    for waits, code in waiting:
        positions = Positions((waits._replace(since_s=30.0), Position(1, state="left", status=0)), 2, 20.0)
        (finding,) = checker.plan(Positions, command="watch", closed=True).run(with_blocks(positions)).findings
        assert finding.code == code


def test_bad_one_waits_in_the_forward_of_ddp_and_another_is_elsewhere(path: Path) -> None:
    """The forward is the cause only if nothing else explains why the other rank is not in it."""
    forward = Frame("torch/nn/parallel/distributed.py", 1661, "forward")
    waits = rank(0, path, 32, 6, 2, places=(2,), above=forward)._replace(since_s=30.0)
    left = Position(1, state="left", status=0)
    in_branch = rank(1, path, 36, 28, places=(2,))._replace(since_s=25.0)
    in_branch = in_branch._replace(
        call=in_branch.call and in_branch.call._replace(group="1", number=2), entered={"1": 2}
    )
    checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
    found = []
    for other in (left, left._replace(places={f"{path}:2": 3}), in_branch):
        positions = Positions((waits, other), 2, 20.0, groups={"1": (0, 1)})
        (finding, *_) = checker.plan(Positions, command="watch", closed=True).run(with_blocks(positions)).findings
        found.append(finding.code)
    # it ended without such a forward; it ended its loop; it took a branch
    assert found == ["DC704", "DC519", "DC701"]


def test_two_arms_of_a_branch_are_two_orders(path: Path) -> None:
    """Each rank is in an arm of its own, and waits for the other in another group: neither arm is one too many."""
    one = rank(0, path, 15, 28)._replace(since_s=40.0)
    one = one._replace(call=one.call and one.call._replace(group="1", number=2), entered={"0": 3, "1": 2})
    positions = Positions((one, rank(1, path, 17)._replace(since_s=30.0)), 2, 20.0, groups={"1": (0, 1)})
    checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
    (finding,) = checker.plan(Positions, command="watch", closed=True).run(with_blocks(positions)).findings
    assert finding.code == "DC517"
