"""Calls that fail while the script goes on, on real gloo ranks. Each rank is a fork of this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from distcheck.runtime.coordination.failed_calls import CaughtFailure
from distcheck.testing import run_ranks

pytestmark = pytest.mark.torch


def observed(body: Callable[[Any, int], None]) -> list[CaughtFailure]:
    """Run one rank, and return the failures that it went on after."""
    import torch
    import torch.distributed as dist
    import torch.optim

    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.failed_calls import FailureObserver

    recorder = CallRecorder()
    recorder.attach(dist.distributed_c10d)
    observer = FailureObserver(recorder)
    observer.attach_backward(torch.autograd)
    body(torch, int(os.environ["RANK"]))
    return list(observer.found())


def found(body: Callable[[Any, int], None]) -> list[tuple[str, int]]:
    """Return the calls that failed on rank 0, and the steps after them."""
    rows = run_ranks(2, lambda: observed(body), init=False)[0]
    return [(CaughtFailure(*row).call, CaughtFailure(*row).steps) for row in rows]


def _step(torch: Any, model: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()


def _only_rank_0(torch: Any, rank: int) -> bool:
    """Make a group that rank 1 destroys at once."""
    torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()
    if rank:
        torch.distributed.destroy_process_group()
    return rank == 0


def peer_is_lost(torch: Any, rank: int) -> None:
    if _only_rank_0(torch, rank):
        with contextlib.suppress(RuntimeError):
            torch.distributed.all_reduce(torch.ones(1))
        _step(torch, torch.nn.Linear(3, 1))


def handle_of_a_lost_peer(torch: Any, rank: int) -> None:
    if _only_rank_0(torch, rank):
        with contextlib.suppress(RuntimeError):
            torch.distributed.all_reduce(torch.ones(1), async_op=True).wait()


def peer_is_lost_in_backward(torch: Any, rank: int) -> None:
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=12))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    # the second forward pass sends the order of the buckets
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
    if rank == 0:
        with contextlib.suppress(RuntimeError):
            model(torch.ones(2, 3)).sum().backward()


def rank_goes_on_in_a_group_of_its_own(torch: Any, rank: int) -> None:
    torch.distributed.init_process_group("gloo")
    alone = torch.distributed.new_group([0])
    side = torch.distributed.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        with contextlib.suppress(RuntimeError):
            torch.distributed.all_reduce(torch.ones(1), group=side)
        torch.distributed.all_reduce(torch.ones(1), group=alone)
    torch.distributed.broadcast(torch.ones(1), 0)


def no_group(torch: Any, rank: int) -> None:
    with contextlib.suppress(Exception):
        torch.distributed.init_process_group("gloo", world_size=3, rank=rank, timeout=timedelta(seconds=1))
    _step(torch, torch.nn.Linear(3, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (peer_is_lost, ("all_reduce", 1)), (handle_of_a_lost_peer, ("all_reduce", 0)),
        (peer_is_lost_in_backward, ("a collective of the backward pass", 0)), (no_group, ("init_process_group", 1)),
        (rank_goes_on_in_a_group_of_its_own, ("all_reduce", 0)),
    ],
)  # fmt: skip
def test_bad_dc749_dc747(body: Callable[[Any, int], None], expected: tuple[str, int]) -> None:
    assert found(body) == [expected]


def nothing_fails(torch: Any, rank: int) -> None:
    torch.distributed.init_process_group("gloo")
    torch.distributed.all_reduce(torch.ones(1))


def wrong_argument(torch: Any, rank: int) -> None:
    """The script tries what a backend may lack."""
    torch.distributed.init_process_group("gloo")
    with contextlib.suppress(Exception):
        torch.distributed.all_reduce("no tensor")


def polled_key(torch: Any, rank: int) -> None:
    torch.distributed.init_process_group("gloo")
    with contextlib.suppress(Exception):
        torch.distributed.distributed_c10d._get_default_store().wait(["never"], timedelta(milliseconds=10))


def error_of_the_loss(torch: Any, rank: int) -> None:
    torch.distributed.init_process_group("gloo")
    with contextlib.suppress(RuntimeError):
        torch.ones(1).backward()


def another_group_is_made(torch: Any, rank: int) -> None:
    if _only_rank_0(torch, rank):
        with contextlib.suppress(RuntimeError):
            torch.distributed.all_reduce(torch.ones(1))
        torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("gloo", init_method=f"file://{os.environ['SECOND']}", rank=rank, world_size=2)


def _side_group_fails(torch: Any, rank: int) -> None:
    """Let a call fail in a group that only finds out which rank is slow."""
    torch.distributed.init_process_group("gloo")
    side = torch.distributed.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        with contextlib.suppress(RuntimeError):
            torch.distributed.all_reduce(torch.ones(1), group=side)


def another_group_works(torch: Any, rank: int) -> None:
    _side_group_fails(torch, rank)
    torch.distributed.all_reduce(torch.ones(1))


def handle_in_another_group(torch: Any, rank: int) -> None:
    _side_group_fails(torch, rank)
    torch.distributed.all_reduce(torch.ones(1), async_op=True).wait()


def backward_in_another_group(torch: Any, rank: int) -> None:
    _side_group_fails(torch, rank)
    _step(torch, torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1)))


def no_group_and_no_step(torch: Any, rank: int) -> None:
    """The script finds out that it is alone, and trains nothing."""
    with contextlib.suppress(Exception):
        torch.distributed.init_process_group("gloo", world_size=3, rank=rank, timeout=timedelta(seconds=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        nothing_fails, wrong_argument, polled_key, error_of_the_loss, another_group_is_made, another_group_works,
        handle_in_another_group, backward_in_another_group, no_group_and_no_step,
    ],
)  # fmt: skip
def test_good_dc749_dc747(body: Callable[[Any, int], None], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECOND", str(tmp_path / "second"))
    assert found(body) == []
