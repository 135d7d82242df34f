"""Gradients that are divided twice, or summed again, are found on real gloo ranks, and other factors are not."""

from __future__ import annotations

import importlib
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.cli.watch import reduction_report_of
from distcheck.core.model import Finding
from distcheck.rules import Selection
from distcheck.runtime.coordination.protocol import packed
from distcheck.runtime.coordination.reductions import Reductions, gradient_of
from distcheck.runtime.coordination.store_client import MemoryStore
from distcheck.runtime.monitor.reduction_exchange import ReductionExchange
from distcheck.testing import run_ranks


class Ended:
    """What the side thread of a rank reads."""

    def __init__(self, rows: Any, *, complete: bool = True) -> None:
        self.reductions = deque(rows)
        self.reductions_are_complete = complete


def observed(body: Callable[[Any, Any, Any, int], None]) -> tuple[str, bool, int]:
    """Run one rank with an observer; return its rows, whether they are complete, and the hooks that are left."""
    import torch
    import torch.distributed as dist

    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.training import TrainingObserver

    recorder = CallRecorder()
    recorder.attach(dist.distributed_c10d)
    observer = TrainingObserver(recorder, 100, digests=True)
    observer.install()
    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3)
    torch.manual_seed(1 + dist.get_rank())
    body(torch, dist, model, dist.get_rank())
    assert observer.error == ""
    dist.barrier()
    return packed(list(observer.reductions)), observer.reductions_are_complete, len(model.weight._backward_hooks or {})


def compared(body: Callable[[Any, Any, Any, int], None]) -> list[Finding]:
    store, found = MemoryStore(), []  # type: ignore[var-annotated]

    def judge(reductions: Reductions, _: Any) -> None:
        found.extend(reduction_report_of(reductions, Selection()).findings)

    for rank, (rows, _, _) in enumerate(run_ranks(2, lambda: observed(body))):
        ended: Any = Ended(map(gradient_of, json.loads(rows)))
        ReductionExchange(ended, judge).tick(store, rank, 2, True)
    return found


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in ("torch._dynamo", "torch.distributed.algorithms.join"):
        importlib.import_module(name)


def train(
    torch: Any, model: Any, reduce: Callable[[Any], None], *, steps: int = 5, passes: int = 1, each_pass: bool = False
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(passes):
            model(torch.randn(4, 5)).square().mean().backward()
            if each_pass:
                reduce(model)
        if not each_pass:
            reduce(model)
        optimizer.step()


def averaged(dist: Any, model: Any, factor: float = 1.0) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad *= factor / dist.get_world_size()


def divided_twice(torch: Any, dist: Any, model: Any, rank: int) -> None:
    train(torch, model, lambda one: averaged(dist, one, 0.5))


def divided_after_ddp(torch: Any, dist: Any, model: Any, rank: int) -> None:
    ddp = torch.nn.parallel.DistributedDataParallel(model)

    def divide(one: Any) -> None:
        for parameter in one.parameters():
            parameter.grad /= dist.get_world_size()

    train(torch, ddp, divide)


def summed_again(torch: Any, dist: Any, model: Any, rank: int) -> None:
    train(torch, model, lambda one: averaged(dist, one), passes=2, each_pass=True)


def summed_again_without_division(torch: Any, dist: Any, model: Any, rank: int) -> None:
    def reduce(one: Any) -> None:
        for parameter in one.parameters():
            dist.all_reduce(parameter.grad)

    train(torch, model, reduce, passes=2, each_pass=True)


def mean(torch: Any, dist: Any, model: Any, rank: int) -> None:
    train(torch, model, lambda one: averaged(dist, one))


def mean_of_ddp(torch: Any, dist: Any, model: Any, rank: int) -> None:
    train(torch, torch.nn.parallel.DistributedDataParallel(model), lambda _: None)


def mean_of_micro_batches(torch: Any, dist: Any, model: Any, rank: int) -> None:
    train(torch, model, lambda one: averaged(dist, one, 0.5), passes=2)


def total(torch: Any, dist: Any, model: Any, rank: int) -> None:
    """A sum is the mean if the script has divided the loss."""
    train(torch, model, lambda one: averaged(dist, one, 2.0))


def each_rank_alone(torch: Any, dist: Any, model: Any, rank: int) -> None:
    train(torch, model, lambda _: None)


BAD = [(divided_twice, "divided by the number of ranks twice"), (divided_after_ddp, "divided by the number of ranks twice"),
       (summed_again_without_division, "sums a gradient 2 times for one step")]  # fmt: skip
#: After each pass the division undoes the sum, so the mean stays right.
GOOD = [mean, mean_of_ddp, mean_of_micro_batches, total, each_rank_alone, summed_again]


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "text"), BAD)
def test_bad_dc758(body: Callable[[Any, Any, Any, int], None], text: str) -> None:
    (finding,) = compared(body)
    assert finding.code == "DC758"
    assert text in finding.message


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", GOOD)
def test_good_dc758(body: Callable[[Any, Any, Any, int], None]) -> None:
    assert compared(body) == []


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("steps", "complete"), [(4, False), (20, True)])
def test_only_the_first_steps_are_observed(steps: int, complete: bool) -> None:
    def body(torch: Any, dist: Any, model: Any, rank: int) -> None:
        train(torch, model, lambda one: averaged(dist, one), steps=steps)

    for rows, done, hooks in run_ranks(2, lambda: observed(body)):
        assert (done, bool(hooks)) == (complete, not complete)
        assert len(json.loads(rows)) == 2 * (min(steps, 12) - 1)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_a_job_of_one_rank_gets_no_hooks() -> None:
    ((rows, complete, hooks),) = run_ranks(1, lambda: observed(mean))
    assert (rows, complete, hooks) == ("[]", False, 0)


@pytest.mark.torch
def test_an_error_here_ends_no_other_comparison() -> None:
    import torch

    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.training import TrainingObserver

    observer = TrainingObserver(CallRecorder(), 100, digests=True)
    observer._attach_optimizers(importlib.import_module("types").SimpleNamespace())
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer: Any = torch.optim.SGD([parameter], 0.1)
    assert observer._reduction_observer is not None
    list(observer._reduction_observer.before_step(optimizer, rank=0, place="", scaled=False))
    observer._reduction_observer._digests = None  # type: ignore[assignment]
    parameter.sum().backward()
    assert observer.error == ""
    assert observer.reduction_error.startswith("AttributeError")
    assert observer.reductions_are_complete
    assert not parameter._backward_hooks


def test_rows_are_sent_once_and_judged_when_all_ranks_have_sent_theirs() -> None:
    store, judged = MemoryStore(), []
    ranks: list[Any] = [Ended((), complete=False), Ended(())]
    exchanges = [ReductionExchange(one, lambda reductions, _: judged.append(reductions)) for one in ranks]
    for rank in (1, 0):
        exchanges[rank].tick(store, rank, 2, False)
    assert judged == []
    ranks[0].reductions_are_complete = True
    for _ in range(2):
        exchanges[0].tick(store, 0, 2, False)
    assert judged == [Reductions(())]


def test_large_jobs_send_nothing() -> None:
    store = MemoryStore()
    ended: Any = Ended(())
    ReductionExchange(ended, lambda *_: None).tick(store, 0, 65, True)
    assert not store.check(["distcheck/watch/reductions/0"])
