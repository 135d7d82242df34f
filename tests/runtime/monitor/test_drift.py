"""Replicas that differ are found on real gloo ranks, and correct training is silent. Each rank is a fork of this process."""

from __future__ import annotations

import copy
import importlib
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.cli.watch import drift_report_of, summary_of
from distcheck.rules import Selection
from distcheck.runtime.coordination.digests import Digest
from distcheck.runtime.coordination.drift import Drift, ReplicaExchange, ReplicaRow, drift_of
from distcheck.runtime.coordination.ledger import Summary
from distcheck.runtime.coordination.protocol import REPLICAS_UNCHECKED
from distcheck.runtime.coordination.store_client import MemoryStore
from distcheck.testing import run_ranks

from .test_summary import ledger

STEPS = 4


def observed(body: Callable[[Any, int], None], *, digests: bool = True, every: int = 2) -> tuple[list[ReplicaRow], str]:
    """Run one rank with an observer, and return its rows, and why it compares nothing."""
    import torch
    import torch.distributed as dist

    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.training import TrainingObserver

    recorder = CallRecorder()
    recorder.attach(dist.distributed_c10d)
    observer = TrainingObserver(recorder, every, digests=digests)
    observer.install()
    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    body(torch, dist.get_rank())
    assert observer.error in ("", "Join")
    rows = list(observer.rows)
    dist.barrier()
    return rows, observer.unchecked()


def compared(body: Callable[[Any, int], None], ranks: int = 2, **more: Any) -> tuple[list[Drift], str]:
    """Return the drifts of a body on some ranks, as the last rank that ends sees them, and why nothing was compared."""
    store, drifts = MemoryStore(), []  # type: ignore[var-annotated]
    for rank, (rows, why) in enumerate(run_ranks(ranks, lambda: observed(body, **more))):
        exchange = ReplicaExchange(deque(ReplicaRow(*row) for row in rows), drifts.append, lambda why=why: why)
        exchange.tick(store, rank, True)
    return drifts, store.get(REPLICAS_UNCHECKED) or ""


def found(body: Callable[[Any, int], None], **more: Any) -> list[Drift]:
    """Return the drifts of a body on two ranks."""
    return compared(body, **more)[0]


def _net(torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Linear(5, 2))


def _ddp(torch: Any, net: Any = None, **more: Any) -> tuple[Any, Any]:
    ddp = torch.nn.parallel.DistributedDataParallel(net or _net(torch), **more)
    return ddp, torch.optim.AdamW(ddp.parameters(), lr=0.1)


def _loss(torch: Any, model: Any, rank: int) -> Any:
    return (model(torch.randn(8, 6) + rank) - 1).square().mean()


def _train(
    torch: Any, rank: int, model: Any, optimizer: Any, before_step: Callable[[int], Any] = lambda _: None
) -> None:
    for step in range(STEPS):
        optimizer.zero_grad()
        _loss(torch, model, rank).backward()
        before_step(step)
        optimizer.step()


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in ("torch._dynamo", "torch.distributed.optim", "torch.distributed.algorithms.join"):
        importlib.import_module(name)


# faults


def unwrapped(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    _train(torch, rank, ddp.module, optimizer)


def no_sync_at_the_boundary(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    for _ in range(STEPS):
        optimizer.zero_grad()
        _loss(torch, ddp, rank).backward()
        with ddp.no_sync():
            _loss(torch, ddp, rank).backward()
        optimizer.step()


def unfrozen_after_wrapping(torch: Any, rank: int) -> None:
    net = _net(torch)
    net[0].requires_grad_(False)
    ddp, optimizer = _ddp(torch, net)
    net[0].requires_grad_(True)
    _train(torch, rank, ddp, optimizer)


def head_replaced_after_wrapping(torch: Any, rank: int) -> None:
    """The old head still gets a gradient, so that DDP does not wait for it."""
    net = _net(torch)
    ddp, _ = _ddp(torch, net)
    old, net[3] = net[3], torch.nn.Linear(5, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(STEPS):
        net.zero_grad()
        (_loss(torch, ddp, rank) + 0 * (old.weight.sum() + old.bias.sum())).backward()
        optimizer.step()


def gradients_of_both_kinds(torch: Any, rank: int) -> None:
    """A forward through the wrapper, and another one around it: nothing that is seen at the step names the cause."""
    ddp, optimizer = _ddp(torch)
    _train(torch, rank, ddp, optimizer, lambda _: _loss(torch, ddp.module, rank).backward())


def gradients_changed_on_one_rank(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    _train(torch, rank, ddp, optimizer, lambda _: rank and ddp.module[0].weight.grad.mul_(0.5))


def clipped_on_one_rank(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    _train(torch, rank, ddp, optimizer, lambda _: rank and torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1e-3))


def written_on_one_rank(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    if rank:
        with torch.no_grad():
            ddp.module[3].bias.add_(1)
    _train(torch, rank, ddp, optimizer)


def other_learning_rate(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    optimizer.param_groups[0]["lr"] = 0.1 * (rank + 1)
    _train(torch, rank, ddp, optimizer)


def steps_skipped_on_one_rank(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    for step in range(3 * STEPS):
        optimizer.zero_grad()
        _loss(torch, ddp, rank).backward()
        if rank == 0 or step % 2:
            optimizer.step()


def resumed_on_one_rank(torch: Any, rank: int) -> None:
    """The state of the optimizer comes from a checkpoint on one rank."""
    ddp, _ = _ddp(torch)
    # so that the parameters stay equal
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.0)

    def load(step: int) -> None:
        if rank and step == 1:
            state = optimizer.state_dict()
            for one in state["state"].values():
                one["exp_avg"] = one["exp_avg"] + 1
            optimizer.load_state_dict(state)

    _train(torch, rank, ddp, optimizer, load)


def _with_center(torch: Any) -> Any:
    net = torch.nn.Linear(6, 2)
    net.register_buffer("center", torch.zeros(2))
    net.register_buffer("queue", torch.zeros(2))
    return net


def center_of_each_rank(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch, _with_center(torch), broadcast_buffers=False)
    _train(torch, rank, ddp, optimizer, lambda _: ddp.module.center.add_(1.0 + rank))


def _average(net: Any) -> None:
    import torch.distributed as dist

    for one in net.parameters():
        if one.grad is not None:
            dist.all_reduce(one.grad.data)
            one.grad /= dist.get_world_size()


def manual_with_other_parameters(torch: Any, rank: int) -> None:
    torch.manual_seed(rank)
    net = _net(torch)
    _train(torch, rank, net, torch.optim.SGD(net.parameters(), lr=0.1), lambda _: _average(net))


def manual_with_another_rate(torch: Any, rank: int) -> None:
    net = _net(torch)
    _train(torch, rank, net, torch.optim.SGD(net.parameters(), lr=0.1 / (rank + 1)), lambda _: _average(net))


def _train_embedding(torch: Any, rank: int, reduced: Callable[[Any], Any]) -> None:
    """Train an embedding with sparse gradients, and average what a function returns of them."""
    import torch.distributed as dist

    net = torch.nn.Sequential(torch.nn.Embedding(20, 6, sparse=True), torch.nn.Linear(6, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        net(torch.arange(8) + step + 5 * rank).square().mean().backward()
        for one in (reduced(net[0].weight.grad), net[1].weight.grad, net[1].bias.grad):
            dist.all_reduce(one)
            one /= dist.get_world_size()
        optimizer.step()


def values_of_sparse_gradients_alone(torch: Any, rank: int) -> None:
    """Ranks have gradients of other rows, and add their values."""
    _train_embedding(torch, rank, lambda gradient: gradient._values())


def _evaluate_on_one_rank(torch: Any, rank: int, switch_back: Callable[[Any], Any]) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.2))
    ddp, optimizer = _ddp(torch, net)

    def evaluate(_: int) -> None:
        if rank:
            ddp.module.eval()(torch.randn(4, 6))
            switch_back(ddp.module)

    _train(torch, rank, ddp, optimizer, evaluate)


def evaluation_mode_stays_on_one_rank(torch: Any, rank: int) -> None:
    _evaluate_on_one_rank(torch, rank, lambda _: None)


def scaled_before_the_reduction(torch: Any, rank: int) -> None:
    """An overflow on one rank alone: it skips the step, and halves its scale."""
    net = torch.nn.Linear(6, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    scale = torch.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(3 * STEPS):
        optimizer.zero_grad()
        scale.scale(_loss(torch, net, rank) * (float("inf") if step == 1 and rank else 1.0)).backward()
        scale.unscale_(optimizer)
        for one in net.parameters():
            one.grad.nan_to_num_(0.0, 1.0, -1.0)
        _average(net)
        scale.step(optimizer)
        scale.update()


def _average_in_order(parameters: Any) -> None:
    import torch.distributed as dist

    for one in parameters:
        dist.all_reduce(one.grad)
        one.grad /= dist.get_world_size()


def reduced_in_the_order_of_a_set(torch: Any, rank: int) -> None:
    """Two layers of one size, whose gradients a rank reduces the other way round."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    torch.manual_seed(5 + rank)
    data = torch.randn(8, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (net(data) - 1).square().mean().backward()
        _average_in_order([*(net[0].weight, net[2].weight)[:: 1 - 2 * rank], net[0].bias, net[2].bias])
        optimizer.step()


def own_scaler_skips_on_one_rank(torch: Any, rank: int) -> None:
    """No wrapper and no scaler of torch: the collectives of the script show the iteration."""
    net = torch.nn.Linear(6, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        _loss(torch, net, rank).backward()
        _average(net)
        if rank == 0 or step != 1:
            optimizer.step()


def _with_codes(torch: Any) -> Any:
    net = torch.nn.Linear(6, 2)
    net.codes = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
    net.memory = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
    return net


def codes_follow_own_batches(torch: Any, rank: int) -> None:
    """A parameter without a gradient, which no optimizer steps."""
    ddp, _ = _ddp(torch, _with_codes(torch))
    optimizer = torch.optim.SGD([ddp.module.weight, ddp.module.bias], lr=0.1)
    _train(torch, rank, ddp, optimizer, lambda _: ddp.module.codes.add_(1.0 + rank))


def _rounded(torch: Any, rank: int, seed: int) -> None:
    """The optimizer steps copies of the parameters, which are rounded at random."""
    ddp, _ = _ddp(torch, torch.nn.Linear(6, 2))
    masters = [one.detach().clone() for one in ddp.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1)
    noise = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        ddp.zero_grad()
        _loss(torch, ddp, rank).backward()
        for one, master in zip(ddp.parameters(), masters, strict=True):
            master.grad = one.grad
        optimizer.step()
        with torch.no_grad():
            for one, master in zip(ddp.parameters(), masters, strict=True):
                one.copy_(master + 1e-4 * torch.rand(master.shape, generator=noise))


def copies_rounded_by_each_rank(torch: Any, rank: int) -> None:
    _rounded(torch, rank, rank)


def moments_cleared_on_one_rank(torch: Any, rank: int) -> None:
    """After seven steps, between which all are compared: the eighth lacks them, and the ninth has others."""
    ddp, optimizer = _ddp(torch, torch.nn.Linear(6, 2))
    for step in range(10):
        optimizer.zero_grad()
        _loss(torch, ddp, rank).backward()
        optimizer.step()
        if rank and step == 6:
            optimizer.state.clear()


def _weighted(torch: Any, rank: int, weight: Any, *, reduced: bool = False) -> None:
    """Train with class weights."""
    if reduced:
        torch.distributed.all_reduce(weight)
    ddp, optimizer = _ddp(torch)
    loss = torch.nn.CrossEntropyLoss(weight=weight)
    for _ in range(STEPS + 3):
        optimizer.zero_grad()
        loss(ddp(torch.randn(8, 6) + rank), torch.arange(8) % 2).backward()
        optimizer.step()


def class_weights_of_each_rank(torch: Any, rank: int) -> None:
    _weighted(torch, rank, torch.tensor([1.0, 2.0 + rank]))


def _averaged(torch: Any, rank: int, copied: Callable[[Any, Any], Any], follow: Callable[[Any, Any], Any]) -> None:
    """Train a model whose start weights come from rank 0, with a copy of it."""
    torch.manual_seed(rank)
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 2))
    before = copy.deepcopy(net)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    average = copied(before, ddp.module).requires_grad_(False)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(7):
        optimizer.zero_grad()
        _loss(torch, ddp, rank).backward()
        optimizer.step()
        for mine, theirs in zip(average.parameters(), ddp.module.parameters(), strict=True):
            mine.data.copy_(follow(mine.data, theirs.data))


def average_of_the_own_start_weights(torch: Any, rank: int) -> None:
    _averaged(torch, rank, lambda before, _: before, lambda mine, theirs: mine.lerp(theirs, 0.1))


def one_of_two_averages_of_the_own_start_weights(torch: Any, rank: int) -> None:
    torch.manual_seed(rank)
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 2))
    before = copy.deepcopy(net).requires_grad_(False)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    averages = {0.1: before, 0.5: copy.deepcopy(ddp.module).requires_grad_(False)}
    _follow_all(torch, rank, ddp, optimizer, averages)


FAULTS = [
    (one_of_two_averages_of_the_own_start_weights, "DC763", "moving average of"),
    (average_of_the_own_start_weights, "DC763", "moving average of"),
    (class_weights_of_each_rank, "DC763", "loss weight"),
    (codes_follow_own_batches, "DC763", "parameter outside of optimizers"),
    (copies_rounded_by_each_rank, "DC763", "parameter outside of optimizers"),
    (moments_cleared_on_one_rank, "DC763", "optimizer state"),
    (reduced_in_the_order_of_a_set, "DC709", "order of reductions"),
    (own_scaler_skips_on_one_rank, "DC757", "step count"),
    (unwrapped, "DC750", "gradient"), (no_sync_at_the_boundary, "DC759", "gradient"),
    (unfrozen_after_wrapping, "DC751", "gradient"), (head_replaced_after_wrapping, "DC751", "gradient"),
    (gradients_of_both_kinds, "DC763", "gradient"),
    (gradients_changed_on_one_rank, "DC763", "gradient"), (clipped_on_one_rank, "DC763", "gradient"),
    (written_on_one_rank, "DC763", "parameter"), (other_learning_rate, "DC764", "learning rate"),
    (steps_skipped_on_one_rank, "DC757", "step count"), (resumed_on_one_rank, "DC763", "optimizer state"),
    (center_of_each_rank, "DC763", "buffer"), (scaled_before_the_reduction, "DC757", "loss scale"),
    (manual_with_other_parameters, "DC763", "parameter"), (manual_with_another_rate, "DC764", "learning rate"),
    (values_of_sparse_gradients_alone, "DC763", "parameter"),
    (evaluation_mode_stays_on_one_rank, "DC763", "training mode of"),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "code", "what"), FAULTS)
def test_bad(body: Callable[[Any, int], None], code: str, what: str) -> None:
    (drift,) = found(body)
    (finding,) = drift_report_of(drift, Selection()).findings
    assert (finding.code, drift.what, drift.minority) == (code, what, (1,))
    assert (finding.where.path or "").endswith("test_drift.py")


# correct twins


def plain(torch: Any, rank: int) -> None:
    _train(torch, rank, *_ddp(torch))


def own_buffers(torch: Any, rank: int) -> None:
    _train(torch, rank, *_ddp(torch, broadcast_buffers=False))


def accumulation(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with ddp.no_sync():
            for _ in range(1 + rank):
                _loss(torch, ddp, rank).backward()
        _loss(torch, ddp, rank).backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 0.1)
        optimizer.step()


def local_steps(torch: Any, rank: int) -> None:
    """Local SGD on purpose: the script averages the parameters from time to time."""
    import torch.distributed as dist

    ddp, optimizer = _ddp(torch)
    for step in range(3 * STEPS):
        optimizer.zero_grad()
        with ddp.no_sync():
            _loss(torch, ddp, rank).backward()
        optimizer.step()
        dist.all_reduce(torch.ones(1))
        if step % 5 == 4:
            for one in ddp.parameters():
                dist.all_reduce(one.data)
                one.data /= 2


def frozen_and_unused(torch: Any, rank: int) -> None:
    net = _net(torch)
    net[0].requires_grad_(False)
    net.unused = torch.nn.Linear(3, 3)
    net.forward = lambda x: net[3](net[2](net[1](net[0](x))))
    _train(torch, rank, *_ddp(torch, net, find_unused_parameters=True))


def moving_average(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    average = torch.optim.swa_utils.AveragedModel(ddp.module)
    _train(torch, rank, ddp, optimizer, lambda _: rank == 0 and average.update_parameters(ddp.module))


def scaler(torch: Any, rank: int) -> None:
    """The first step is skipped on all ranks: the gradients overflow."""
    ddp, optimizer = _ddp(torch)
    scale = torch.amp.GradScaler("cpu", init_scale=2.0)
    for step in range(3 * STEPS):
        optimizer.zero_grad()
        loss = _loss(torch, ddp, rank) * (float("inf") if step % 3 == 0 and rank else 1.0)
        scale.scale(loss).backward()
        scale.step(optimizer)
        scale.update()


def dropout(torch: Any, rank: int) -> None:
    torch.manual_seed(rank)
    _train(
        torch, rank, *_ddp(torch, torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Dropout(), torch.nn.Linear(5, 2)))
    )


def zero(torch: Any, rank: int) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    ddp, _ = _ddp(torch)
    _train(torch, rank, ddp, ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.AdamW, lr=0.1))


def uneven(torch: Any, rank: int) -> None:
    from torch.distributed.algorithms.join import Join

    ddp, optimizer = _ddp(torch, torch.nn.Linear(6, 2))
    for _ in range(3):
        with Join([ddp]):
            for _ in range(3 + rank):
                optimizer.zero_grad()
                _loss(torch, ddp, rank).backward()
                optimizer.step()


def closure(torch: Any, rank: int) -> None:
    ddp, _ = _ddp(torch, torch.nn.Linear(6, 2))
    optimizer = torch.optim.LBFGS(ddp.parameters(), max_iter=2)

    def once() -> Any:
        optimizer.zero_grad()
        loss = _loss(torch, ddp, rank)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(once)


def two_models(torch: Any, rank: int) -> None:
    """A generator and a discriminator; gradients of the one remain while the other one steps."""
    one, first = _ddp(torch, torch.nn.Linear(6, 6))
    two, second = _ddp(torch, torch.nn.Linear(6, 1))
    for _ in range(STEPS):
        first.zero_grad()
        two(one(torch.randn(8, 6) + rank)).mean().backward()
        first.step()
        second.zero_grad()
        two(torch.randn(8, 6) + rank).mean().backward()
        second.step()


def manual(torch: Any, rank: int) -> None:
    net = _net(torch)
    _train(torch, rank, net, torch.optim.SGD(net.parameters(), lr=0.1), lambda _: _average(net))


def evaluated_on_one_rank(torch: Any, rank: int) -> None:
    _evaluate_on_one_rank(torch, rank, lambda module: module.train())


def fixed_statistics(torch: Any, rank: int) -> None:
    """All ranks train with batch normalization in evaluation mode, as in a fine-tuning."""
    ddp, optimizer = _ddp(torch, torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4)))
    ddp.module[1].eval()
    _train(torch, rank, ddp, optimizer)


def whole_sparse_gradients(torch: Any, rank: int) -> None:
    _train_embedding(torch, rank, lambda gradient: gradient)


def values_of_the_same_rows(torch: Any, rank: int) -> None:
    """All ranks have gradients of the same rows, so that their values are enough."""
    _train_embedding(torch, 0, lambda gradient: gradient._values())


def parts_of_an_optimizer(torch: Any, rank: int) -> None:
    """Each rank steps one of two layers of the same shape, and sends it to the other."""
    import torch.distributed as dist

    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(net[rank].parameters(), lr=0.1)
    for _ in range(STEPS):
        net.zero_grad()
        net(torch.randn(8, 4)).square().mean().backward()
        _average(net)
        optimizer.step()
        for owner in (0, 1):
            for parameter in net[owner].parameters():
                dist.broadcast(parameter.data, owner)


def model_parallel(torch: Any, rank: int) -> None:
    """Each rank has its own part, and only a common scale is reduced."""
    import torch.distributed as dist

    torch.manual_seed(rank)
    net = _net(torch)
    scale = torch.nn.Parameter(torch.ones(()))

    def reduce(_: int) -> None:
        scale.grad = torch.full((), 1.0 + rank)
        dist.all_reduce(scale.grad)

    _train(torch, rank, net, torch.optim.SGD([*net.parameters(), scale], lr=0.1), reduce)


def queue_of_each_rank(torch: Any, rank: int) -> None:
    """Each rank keeps its own samples, on purpose."""
    ddp, optimizer = _ddp(torch, _with_center(torch), broadcast_buffers=False)
    _train(torch, rank, ddp, optimizer, lambda _: ddp.module.queue.add_(1.0 + rank))


def center_from_rank_0(torch: Any, rank: int) -> None:
    """DDP broadcasts it before each forward."""
    ddp, optimizer = _ddp(torch, _with_center(torch))
    _train(torch, rank, ddp, optimizer, lambda _: ddp.module.center.add_(1.0 + rank))


def resumed_on_all_ranks(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    _train(torch, rank, ddp, optimizer, lambda step: step == 1 and optimizer.load_state_dict(optimizer.state_dict()))


def messages_to_one_rank(torch: Any, rank: int) -> None:
    """One rank sends more than it steps: sends count as collectives there."""
    import torch.distributed as dist

    ddp, optimizer = _ddp(torch)
    for _ in range(3 * STEPS):
        optimizer.zero_grad()
        _loss(torch, ddp, rank).backward()
        if rank:
            handle = dist.isend(torch.ones(1), 0)
        optimizer.step()
        if rank:
            handle.wait()
        else:
            dist.recv(torch.ones(1), 1)


def evaluation_on_all_ranks(torch: Any, rank: int) -> None:
    """One rank reduces its metrics right before the step, the other one right after it."""
    import torch.distributed as dist

    ddp, optimizer = _ddp(torch)
    for _ in range(3 * STEPS):
        optimizer.zero_grad()
        _loss(torch, ddp, rank).backward()
        if rank:
            dist.all_reduce(torch.ones(1))
        optimizer.step()
        if not rank:
            dist.all_reduce(torch.ones(1))


def unrelated(torch: Any, rank: int) -> None:
    """Each rank trains for itself, and only the loss is reduced."""
    import torch.distributed as dist

    torch.manual_seed(rank)
    net = _net(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    _train(torch, rank, net, optimizer, lambda _: dist.all_reduce(torch.randn(5)))


def hooked(torch: Any, rank: int) -> None:
    """A communication hook that averages nothing: what it does is its own affair."""
    ddp, optimizer = _ddp(torch)

    def keep(_, bucket):  # type: ignore[no-untyped-def]
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    ddp.register_comm_hook(None, keep)
    _train(torch, rank, ddp, optimizer)


def codes_and_a_memory(torch: Any, rank: int) -> None:
    """Codes that all ranks change alike, and a memory that each keeps for itself."""
    ddp, _ = _ddp(torch, _with_codes(torch))
    optimizer = torch.optim.SGD([ddp.module.weight, ddp.module.bias], lr=0.1)
    _train(torch, rank, ddp, optimizer, lambda _: (ddp.module.codes.add_(1.0), ddp.module.memory.add_(1.0 + rank)))


def copies_rounded_alike(torch: Any, rank: int) -> None:
    _rounded(torch, rank, 0)


def moments_cleared_on_all_ranks(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    _train(torch, rank, ddp, optimizer, lambda step: step == 2 and optimizer.state.clear())


def class_weights_of_all_ranks(torch: Any, rank: int) -> None:
    _weighted(torch, rank, torch.tensor([1.0, 2.0 + rank]), reduced=True)


def class_weights_of_another_number(torch: Any, rank: int) -> None:
    """A loss that one rank alone makes, before the others make theirs."""
    if rank == 0:
        torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0]))
    _weighted(torch, rank, torch.tensor([1.0, 2.0]))


def average_of_the_shared_weights(torch: Any, rank: int) -> None:
    _averaged(torch, rank, lambda _, net: copy.deepcopy(net), lambda mine, theirs: mine.lerp(theirs, 0.1))


def teacher_of_each_rank(torch: Any, rank: int) -> None:
    _averaged(torch, rank, lambda before, _: before, lambda mine, _: mine)


def copies_with_noise_of_each_rank(torch: Any, rank: int) -> None:
    noise = torch.Generator().manual_seed(rank)

    def follow(mine: Any, theirs: Any) -> Any:
        return theirs + 0.1 * torch.randn(mine.shape, generator=noise)

    _averaged(torch, rank, lambda before, _: before, follow)


def two_averages_in_other_orders(torch: Any, rank: int) -> None:
    """A rank has the same averages, and made them in another order."""
    ddp, optimizer = _ddp(torch)
    averages = {
        decay: copy.deepcopy(ddp.module).requires_grad_(False) for decay in ((0.5, 0.1) if rank else (0.1, 0.5))
    }
    _follow_all(torch, rank, ddp, optimizer, averages)


def one_more_average_on_rank_0(torch: Any, rank: int) -> None:
    ddp, optimizer = _ddp(torch)
    averages = {decay: copy.deepcopy(ddp.module).requires_grad_(False) for decay in ((0.1,) if rank else (0.5, 0.1))}
    _follow_all(torch, rank, ddp, optimizer, averages)


def _follow_all(torch: Any, rank: int, ddp: Any, optimizer: Any, averages: dict[float, Any]) -> None:
    for _ in range(7):
        optimizer.zero_grad()
        _loss(torch, ddp, rank).backward()
        optimizer.step()
        for part, average in averages.items():
            for mine, theirs in zip(average.parameters(), ddp.module.parameters(), strict=True):
                mine.data.lerp_(theirs.data, part)


def average_of_one_rank(torch: Any, rank: int) -> None:
    """Rank 0 alone uses it, as for a checkpoint."""
    _averaged(torch, rank, lambda before, _: before, lambda mine, theirs: mine if rank else mine.lerp(theirs, 0.1))


def class_weights_of_an_evaluation_first(torch: Any, rank: int) -> None:
    """Rank 0 has another loss with weights."""
    kept = [torch.nn.CrossEntropyLoss(weight=torch.tensor([3.0, 1.0])) for _ in range(rank == 0)]
    _weighted(torch, rank, torch.tensor([1.0, 2.0]))
    kept.clear()


def class_weights_of_each_batch(torch: Any, rank: int) -> None:
    """Each rank balances the classes of its own batch, on purpose."""
    ddp, optimizer = _ddp(torch)
    loss = torch.nn.CrossEntropyLoss(weight=torch.ones(2))
    for step in range(12):
        loss.weight.copy_(torch.tensor([1.0, 2.0 + (step // 2 + rank) % 4]))
        optimizer.zero_grad()
        loss(ddp(torch.randn(8, 6) + rank), torch.arange(8) % 2).backward()
        optimizer.step()


TWINS = [
    two_averages_in_other_orders, one_more_average_on_rank_0,
    class_weights_of_an_evaluation_first, class_weights_of_each_batch,
    average_of_the_shared_weights, teacher_of_each_rank, copies_with_noise_of_each_rank, average_of_one_rank,
    class_weights_of_all_ranks, class_weights_of_another_number,
    codes_and_a_memory, copies_rounded_alike, moments_cleared_on_all_ranks,
    plain, own_buffers, accumulation, local_steps, frozen_and_unused, moving_average, scaler, dropout, zero, uneven, closure,
    two_models, manual, parts_of_an_optimizer, model_parallel, unrelated, hooked, queue_of_each_rank, center_from_rank_0,
    resumed_on_all_ranks, messages_to_one_rank, evaluation_on_all_ranks, whole_sparse_gradients, values_of_the_same_rows,
    evaluated_on_one_rank, fixed_statistics,
]  # fmt: skip
#: Where nothing can be compared, or not to the end, and what is said then.
UNCHECKED = {uneven: "uses Join", model_parallel: "no optimizer", unrelated: "no optimizer", hooked: "no optimizer"}


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", TWINS)
def test_good(body: Callable[[Any, int], None]) -> None:
    drifts, unchecked = compared(body)
    assert drifts == []
    # silence counts only where something was compared
    assert UNCHECKED[body] in unchecked if body in UNCHECKED else not unchecked


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_what_was_not_compared_is_said() -> None:
    drifts, unchecked = compared(unrelated)
    assert (drifts, unchecked.startswith("rank 1: no optimizer steps")) == ([], True)
    assert compared(unrelated, digests=False) == ([], "")
    report = summary_of(Summary((ledger(0), ledger(1)), 2, replicas_unchecked=unchecked), Selection())
    assert ("DC763", unchecked) in [(item.what, item.why) for item in report.not_checked]


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_learning_rates_are_compared_by_default() -> None:
    assert [drift.what for drift in found(other_learning_rate, digests=False)] == ["learning rate"]
    assert found(unwrapped, digests=False) == []


def _row(rank: int, step: int, parameter: float, *, number: int = 0, rate: float = 0.1) -> ReplicaRow:
    digest = Digest(int(parameter * 1e6), parameter, parameter, 32)
    return ReplicaRow(
        rank, "0.ddp0.0", (0, 1, 2), step, number, "Net", "train.py:9", (rate,), {"weight": (None, digest)}
    )


def _rows(step: int, *parameters: float, **more: Any) -> list[ReplicaRow]:
    return [_row(rank, step, parameter, **more) for rank, parameter in enumerate(parameters)]


def test_a_difference_has_to_last() -> None:
    equal, differ = _rows(2, 1.0, 1.0, 1.0), _rows(2, 1.0, 2.0, 1.0)
    assert drift_of(equal, differ) is None
    assert drift_of(differ, equal) is None
    drift = drift_of(_rows(1, 1.0, 2.0, 1.0), differ)
    assert drift is not None
    assert (drift.what, drift.name, drift.minority, drift.rows[0].step) == ("parameter", "weight", (1,), 1)
    (finding,) = drift_report_of(drift, Selection()).findings
    assert finding.message == (
        "parameter weight of Net differs between its replicas at step 1: rank 1 has other values than rank 0"
    )
    assert finding.severity.word == "error"


def test_what_rounding_explains_is_a_warning() -> None:
    drift = drift_of(_rows(1, 1.0, 1.00001, 1.0), _rows(2, 1.0, 1.00001, 1.0))
    assert drift is not None
    (finding,) = drift_report_of(drift, Selection()).findings
    assert finding.severity.word == "warning"


def test_rows_of_other_iterations_are_not_compared() -> None:
    """A rank that made another number of collectives is not at the same iteration."""
    first = [*_rows(1, 1.0, 1.0), _row(2, 1, 5.0, number=3)]
    second = [*_rows(2, 1.0, 1.0), _row(2, 2, 5.0, number=3)]
    assert drift_of(first, second) is None


def test_steps_at_other_iterations() -> None:
    """All ranks make three collectives in a step; a rank that is one step late is reported, less is an order of calls."""

    def rows(step: int, late: int, **more: Any) -> list[ReplicaRow]:
        numbers = (3 * step, 3 * step, 3 * step + late)
        return [_row(rank, step, 1.0, number=number)._replace(**more) for rank, number in enumerate(numbers)]

    drift = drift_of(rows(1, 3), rows(2, 6))
    assert drift is not None
    assert (drift.what, drift.minority) == ("step count", (2,))
    (finding,) = drift_report_of(drift, Selection()).findings
    assert (finding.code, finding.severity.word) == ("DC757", "warning")
    assert drift_of(rows(1, 2), rows(2, 2)) is None
    assert drift_of(rows(1, 0), rows(2, 3)) is None
    assert drift_of(rows(1, 3, paired=True), rows(2, 6, paired=True)) is None


def test_one_rank_reports_once() -> None:
    store, drifts = MemoryStore(), []  # type: ignore[var-annotated]
    for rank in (2, 1, 0):
        rows = deque(_row(rank, step, 1.0 + (rank == 1)) for step in (1, 2, 3))
        ReplicaExchange(rows, drifts.append, str).tick(store, rank, False)
    assert [drift.minority for drift in drifts] == [(1,)]
