"""GPUs of all ranks side by side, from hand-made rows: DC201, DC202, DC206, DC303, DC723."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.plan import Rehearsal, RehearsalPlan

TWO_NODES = RehearsalPlan("train.py", nnodes=2, nproc_per_node=2, gpus_per_node=2)
ONE_NODE = RehearsalPlan("train.py", nnodes=1, nproc_per_node=2, gpus_per_node=2)


def row(kind: str, rank: int, line: int, at_s: float = 1.0, **data: Any) -> LoggedEvent:
    return LoggedEvent(f"devices.{kind}", rank, 100 + rank, at_s, 0, f"train.py:{line}", "main", data)


def bind(rank: int, index: int, line: int = 7, at_s: float = 1.0, kind: str = "bind", **more: Any) -> LoggedEvent:
    data = {"card": str(index), "visible": 2, "mask": None, "given_mask": None, **more}
    return row(kind, rank, line, at_s, index=index, **data)


def refused(rank: int, index: int, line: int = 7, **more: Any) -> LoggedEvent:
    return bind(rank, index, line, kind="refused", card=None, why="CUDA error: invalid device ordinal", **more)


def part(rank: int, index: int, line: int = 9, at_s: float = 2.0, **more: Any) -> LoggedEvent:
    data = {
        "card": str(index), "visible": 2, "operation": "all_reduce", "group": "0", "size": 2, "nccl": True,
        "guessed": False, "current": True, **more,
    }  # fmt: skip
    return row("collective", rank, line, at_s, index=index, **data)


def made(rank: int, line: int = 8, device: int | None = None, at_s: float = 1.5) -> LoggedEvent:
    data = {"backend": "nccl", "devices": "cuda:nccl", "size": 2, "device": device, "direct": True}
    return LoggedEvent("groups.made", rank, 100 + rank, at_s, 0, f"train.py:{line}", "main", data)


def load(rank: int, cards: dict[str, int], why: str = "", line: int = 20) -> LoggedEvent:
    return row("load", rank, line, 3.0, file="last.pt", cards=cards, why=why)


def judged(plan: RehearsalPlan, *rows: LoggedEvent) -> list[Finding]:
    rehearsal = Rehearsal(plan, (), tuple(sorted(rows, key=lambda one: one.at_s)))
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.devices",), plug_ins=False)
    report = checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal)
    assert all(probe.status in ("ran", "not-applicable") for probe in report.probes), report.probes
    return list(report.findings)


def codes(plan: RehearsalPlan, *rows: LoggedEvent) -> list[str]:
    return [finding.code for finding in judged(plan, *rows)]


# DC201


def test_bad_dc201_the_second_node_has_no_gpu_of_the_global_rank() -> None:
    (found,) = judged(TWO_NODES, bind(0, 0), bind(1, 1), refused(2, 2), refused(3, 3))
    assert (found.code, found.severity) == ("DC201", Severity.ERROR)
    assert (found.where.path, found.where.line, found.where.ranks) == ("train.py", 7, "2-3")
    assert "rank 2, local rank 0 of node 1, requests GPU 2" in found.message
    assert "LOCAL_RANK" in found.fix.text
    assert found.evidence["index_by_rank"] == {"0": 0, "1": 1, "2": 2, "3": 3}


def test_bad_dc201_a_model_that_is_sent_to_the_global_rank() -> None:
    (found,) = judged(TWO_NODES, bind(0, 0, 14, kind="taken"), bind(1, 1, 14, kind="taken"), refused(2, 2, 14))
    assert (found.code, found.where.line, found.where.ranks) == ("DC201", 14, "2")


def test_bad_dc201_more_gpus_than_ranks_hide_it() -> None:
    plan = TWO_NODES._replace(gpus_per_node=8)
    (found,) = judged(plan, *(bind(rank, rank, visible=8) for rank in range(4)))
    assert (found.code, found.severity) == ("DC201", Severity.WARNING)


@pytest.mark.parametrize(
    ("plan", "indices"),
    [
        (TWO_NODES, (0, 1, 0, 1)),
        # on one node the two numbers are one
        (ONE_NODE, (0, 1)),
        # all ranks name one number
        (TWO_NODES, (1, 1, 1, 1)),
        # every rank has two GPUs
        (TWO_NODES._replace(gpus_per_node=4), (0, 2, 0, 2)),
        # the number that some ranks of the second node share with their rank, by chance
        (TWO_NODES._replace(gpus_per_node=4), (2, 3, 2, 3)),
    ],
)
def test_good_dc201(plan: RehearsalPlan, indices: tuple[int, ...]) -> None:
    assert not judged(plan, *(bind(rank, index) for rank, index in enumerate(indices)))


def test_good_dc201_the_second_node_alone_proves_nothing() -> None:
    assert not judged(TWO_NODES._replace(nproc_per_node=1), refused(1, 1))


# DC202


@pytest.mark.parametrize(("given", "who"), [(None, "the script, at train.py:5,"), ("1", "the launcher")])
def test_bad_dc202_one_gpu_is_masked_and_counted_again(given: str | None, who: str) -> None:
    rows = [bind(0, 0, visible=1), refused(1, 1, visible=1, mask="1", given_mask=given)]
    if given is None:
        rows.append(row("mask", 1, 5, 0.5, value="1"))
    (found,) = judged(ONE_NODE, *rows)
    assert (found.code, found.where.line, found.where.ranks) == ("DC202", 7, "1")
    assert f"{who} has set CUDA_VISIBLE_DEVICES=1" in found.message
    assert ("delete the assignment at train.py:5" in found.fix.text) is (given is None)


@pytest.mark.parametrize(
    "rows",
    [
        # masked, and number 0 on each
        [bind(0, 0, visible=1, card="0"), bind(1, 0, visible=1, card="1", mask="1", given_mask=None)],
        # a number that has nothing to do with the rank
        [refused(0, 5), refused(1, 5)],
        # without a mask
        [bind(0, 0), refused(1, 1, visible=2)],
    ],
)
def test_good_dc202(rows: list[LoggedEvent]) -> None:
    assert not judged(ONE_NODE, *rows)


def test_good_dc202_more_ranks_than_gpus_are_no_mask() -> None:
    assert not judged(ONE_NODE._replace(nproc_per_node=4), refused(2, 2), refused(3, 3))


# DC206


def test_bad_dc206_nobody_chooses_and_all_are_on_gpu_0() -> None:
    (found,) = judged(ONE_NODE, made(0), made(1), part(0, 0, operation="DistributedDataParallel"), part(1, 0))
    assert (found.code, found.severity) == ("DC206", Severity.ERROR)
    assert (found.where.line, found.where.ranks) == (8, "0-1")
    assert "ranks 0-1 of node 0 are all on GPU 0" in found.message


def test_bad_dc206_a_barrier_before_the_device_is_chosen() -> None:
    barrier = {"operation": "barrier", "guessed": True}
    rows = [part(0, 0, **barrier), part(1, 0, **barrier), bind(0, 0, at_s=3.0), bind(1, 1, at_s=3.0)]
    (found,) = judged(ONE_NODE, made(0), made(1), *rows)
    assert (found.code, found.severity) == ("DC206", Severity.WARNING)


def test_bad_dc206_a_barrier_before_each_rank_binds_its_own_gpu() -> None:
    """Rank 0 then uses its own GPU, on which the barrier of rank 1 was."""
    barrier = {"operation": "barrier", "guessed": True}
    rows = [part(0, 0, **barrier), part(1, 0, **barrier), bind(0, 0, at_s=3.0), bind(1, 1, at_s=3.0)]
    rows += [part(rank, rank, 15, 4.0, operation="DistributedDataParallel") for rank in (0, 1)]
    (found,) = judged(ONE_NODE, made(0), made(1), *rows)
    assert (found.code, found.severity, found.where.ranks) == ("DC206", Severity.WARNING, "0-1")


def test_bad_dc303_a_barrier_after_all_ranks_bind_gpu_0() -> None:
    barrier = {"operation": "barrier", "guessed": True, "at_s": 3.0}
    (found,) = judged(ONE_NODE, bind(0, 0), bind(1, 0), part(0, 0, at_s=3.0), part(1, 0, **barrier))
    assert found.code == "DC303"


def test_bad_dc206_a_barrier_and_then_a_model_on_all_nodes() -> None:
    barrier = {"operation": "barrier", "guessed": True}
    rows = [made(rank) for rank in range(4)] + [part(rank, 0, **barrier) for rank in range(4)]
    rows += [part(rank, 0, 15, 3.0, operation="DistributedDataParallel") for rank in range(4)]
    (found,) = judged(TWO_NODES, *rows)
    assert (found.code, found.severity, found.where.ranks) == ("DC206", Severity.ERROR, "0-3")
    assert "train.py:15" in found.message


@pytest.mark.parametrize(
    "rows",
    [
        # explicit devices, and nothing bound
        [part(0, 0), part(1, 1, current=False)],
        [bind(0, 0), bind(1, 1), part(0, 0), part(1, 1)],
        # the group knows its device
        [made(0, device=0), made(1, device=1), part(0, 0), part(1, 1)],
        # gloo lets ranks share a GPU
        [part(0, 0, nccl=False), part(1, 0, nccl=False)],
        # one GPU for each rank, by a mask: all call it 0
        [part(0, 0, card="0"), part(1, 0, card="1")],
        [part(0, 0, card="GPU-1a"), part(1, 0, card="GPU-2b")],
        # groups of their own
        [part(0, 0, group="1"), part(1, 0, group="2")],
    ],
)
def test_good_dc206_and_dc303(rows: list[LoggedEvent]) -> None:
    assert not judged(ONE_NODE, *rows)


def test_good_dc206_first_gpus_of_two_nodes() -> None:
    assert not judged(TWO_NODES._replace(nproc_per_node=1), part(0, 0), part(1, 0))


# DC303


def test_bad_dc303_all_ranks_bind_gpu_0() -> None:
    (found,) = judged(ONE_NODE, bind(0, 0), bind(1, 0), part(0, 0), part(1, 0))
    assert (found.code, found.where.line, found.where.ranks) == ("DC303", 7, "0-1")
    assert "LOCAL_RANK" in found.fix.text


def test_bad_dc303_bound_right_and_placed_wrong() -> None:
    """The tensor of the collective is where a literal has sent it."""
    rows = [bind(0, 0), bind(1, 1), bind(1, 0, 11, kind="taken"), part(0, 0), part(1, 0, current=False)]
    (found,) = judged(ONE_NODE, *rows)
    assert (found.code, found.where.line) == ("DC303", 11)


def test_bad_dc303_more_ranks_than_gpus() -> None:
    plan = ONE_NODE._replace(nproc_per_node=4)
    found = judged(plan, *(one for rank in range(4) for one in (bind(rank, rank % 2), part(rank, rank % 2))))
    assert {one.code for one in found} == {"DC303"}
    assert found[0].fix.where == "launch-line"
    assert "at most 2 ranks" in found[0].fix.text


# DC723


def test_bad_dc723_all_ranks_load_onto_the_gpu_that_saved_it() -> None:
    (found,) = judged(ONE_NODE, bind(0, 0), bind(1, 1), load(0, {"0": 4_000_000}), load(1, {"0": 4_000_000}))
    assert (found.code, found.severity, found.where.line, found.where.ranks) == ("DC723", Severity.WARNING, 20, "1")
    assert "onto GPU 0, 4 MB each" in found.message
    everywhere = judged(
        TWO_NODES, *(bind(rank, rank % 2) for rank in range(4)), *(load(rank, {"0": 8}) for rank in range(4))
    )
    assert [one.where.ranks for one in everywhere] == ["1,3"]
    assert "map_location" in found.fix.text


def test_bad_dc723_a_gpu_that_is_not_there() -> None:
    why = "Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 2."
    (found,) = judged(ONE_NODE, load(0, {}, why), load(1, {}, why))
    assert (found.code, found.severity, found.where.ranks) == ("DC723", Severity.ERROR, "0-1")


@pytest.mark.parametrize(
    "rows",
    [
        # one rank loads, and sends it to the others
        [bind(0, 0), bind(1, 1), load(0, {"0": 8})],
        # each the file of its own
        [bind(0, 0), bind(1, 1), load(0, {"0": 8}), load(1, {"1": 8})],
        # the same GPU is another, by masks
        [bind(0, 0, card="0"), bind(1, 0, card="1"), load(0, {"0": 8}), load(1, {"1": 8})],
    ],
)
def test_good_dc723(rows: list[LoggedEvent]) -> None:
    assert not judged(ONE_NODE, *rows)


def test_good_dc723_two_nodes_have_a_gpu_0_each() -> None:
    plan = TWO_NODES._replace(nproc_per_node=1)
    assert not judged(plan, bind(0, 0), bind(1, 0), load(0, {"0": 8}), load(1, {"0": 8}))


def test_without_gpus_there_is_nothing_to_judge() -> None:
    assert not codes(ONE_NODE._replace(gpus_per_node=0), bind(0, 0), bind(1, 0), part(0, 0), part(1, 0))
