"""What ranks do with the shards of ``fully_shard``, and with parameters next to them, is compared on real gloo ranks."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.cli.watch import drift_report_of
from distcheck.rules import Selection
from distcheck.runtime.coordination.drift import Drift, ReplicaExchange, ReplicaRow
from distcheck.runtime.coordination.fully_sharded import Shards
from distcheck.runtime.coordination.store_client import MemoryStore
from distcheck.testing import run_ranks

from .test_drift import observed

STEPS = 6


def found(body: Callable[[Any, int], None]) -> list[Drift]:
    """Return the drifts of a body on two ranks; each has to compare something."""
    store, drifts = MemoryStore(), []  # type: ignore[var-annotated]
    for rank, (rows, _) in enumerate(run_ranks(2, lambda: observed(body))):
        exchange = ReplicaExchange(deque(_row(values) for values in rows), drifts.append, str)
        assert any(row.shards.options for row in exchange._rows)
        exchange.tick(store, rank, True)
    return drifts


def _row(values: Any) -> ReplicaRow:
    row = ReplicaRow(*values)
    return row._replace(shards=Shards(*row.shards))


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in ("torch._dynamo", "torch.distributed.optim", "torch.distributed.fsdp"):
        importlib.import_module(name)


def _net(torch: Any, *, whole: bool = True) -> Any:
    """A model whose layers are in shards; without ``whole`` its head is in none."""
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 5), torch.nn.Linear(5, 3))
    fully_shard(net[0])
    fully_shard(net[2])
    return fully_shard(net) if whole else net


def _train(
    torch: Any, net: Any, rank: int, before: Any = lambda _: None, *, groups: Any = None, skips: Any = lambda _: False
) -> Any:
    optimizer = torch.optim.SGD(groups or net.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        optimizer.zero_grad()
        (net(torch.randn(8, 6, generator=data)) - 1).square().mean().backward()
        before(optimizer)
        if not skips(step):
            optimizer.step()


# faults


def head_outside(torch: Any, rank: int) -> None:
    _train(torch, _net(torch, whole=False), rank)


def _grouped(net: Any, is_large: Callable[[Any], bool]) -> Any:
    large = [one for one in net.parameters() if is_large(one)]
    small = [one for one in net.parameters() if not is_large(one)]
    return [{"params": large, "weight_decay": 0.1}, {"params": small}]


def decay_by_the_local_size(torch: Any, rank: int) -> None:
    net = _net(torch)
    _train(torch, net, rank, groups=_grouped(net, lambda one: one.to_local().numel() > 7))


def schedule_of_one_rank(torch: Any, rank: int) -> None:
    def decay(optimizer: Any) -> None:
        if rank == 0:
            optimizer.param_groups[0]["lr"] *= 0.9

    _train(torch, _net(torch), rank, decay)


def _average(net: Any, average: Any) -> None:
    for one, other in zip(average.parameters(), net.parameters(), strict=True):
        one.data.to_local().lerp_(other.data.to_local(), 0.5)


def average_on_one_rank(torch: Any, rank: int) -> None:
    net, average = _net(torch), _net(torch)
    _train(torch, net, rank, lambda _: rank == 0 and _average(net, average))


def _clip(torch: Any, net: Any, norm: Callable[[Any], Any]) -> None:
    total = norm(sum(one.grad.to_local().square().sum() for one in net.parameters())) ** 0.5
    for one in net.parameters():
        one.grad.to_local().mul_(0.01 / total)


def clipped_by_the_norm_of_own_shards(torch: Any, rank: int) -> None:
    net = _net(torch)
    _train(torch, net, rank, lambda _: _clip(torch, net, lambda total: total))


def step_skipped_on_one_rank(torch: Any, rank: int) -> None:
    _train(torch, _net(torch), rank, skips=lambda step: rank == 1 and step == 2)


FAULTS = [
    (head_outside, "DC763", "gradient", "fully_shard has divided other modules"),
    (decay_by_the_local_size, "DC764", "option", "option weight_decay of the optimizer differs"),
    (schedule_of_one_rank, "DC764", "option", "option lr of the optimizer differs"),
    (average_on_one_rank, "DC757", "changes", "rank 0 changes its shard of"),
    (clipped_by_the_norm_of_own_shards, "DC753", "scale of gradients", "by different factors"),
    (
        step_skipped_on_one_rank,
        "DC757",
        "step count",
        "rank 1 and the other ranks that hold shards of one model make step",
    ),
]


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "code", "what", "text"), FAULTS)
def test_bad(body: Callable[[Any, int], None], code: str, what: str, text: str) -> None:
    (drift,) = found(body)
    (finding,) = drift_report_of(drift, Selection()).findings
    assert (finding.code, drift.what, finding.severity.word) == (code, what, "warning")
    assert text in finding.message
    assert (finding.where.path or "").endswith("test_fully_sharded.py")


# correct twins


def plain(torch: Any, rank: int) -> None:
    net = _net(torch)
    _train(torch, net, rank, lambda _: torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01))


def head_averaged_by_hand(torch: Any, rank: int) -> None:
    import torch.distributed as dist

    net = _net(torch, whole=False)

    def average(_: Any) -> None:
        for one in net[3].parameters():
            dist.all_reduce(one.grad, op=dist.ReduceOp.AVG)

    _train(torch, net, rank, average)


def head_of_each_rank(torch: Any, rank: int) -> None:
    """It begins with other values on each rank, so it is no replica."""
    net = _net(torch, whole=False)
    torch.manual_seed(rank)
    net[3].reset_parameters()
    _train(torch, net, rank)


def experts_that_begin_alike(torch: Any, rank: int) -> None:
    """Ranks exchange samples: parameters next to the shards may be experts."""
    import torch.distributed as dist

    sent, got = [torch.zeros(2), torch.zeros(2)], [torch.zeros(2), torch.zeros(2)]
    dist.all_to_all(got, sent)
    _train(torch, _net(torch, whole=False), rank)


def excluded_by_the_script(torch: Any, rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    fully_shard(net, ignored_params=set(net[2].parameters()))
    _train(torch, net, rank)


def step_skipped_on_all_ranks(torch: Any, rank: int) -> None:
    _train(torch, _net(torch), rank, skips=lambda step: step == 2)


def each_rank_loses_one_step(torch: Any, rank: int) -> None:
    """At other iterations, next to each other: one compared step differs, and no later one."""
    _train(torch, _net(torch), rank, skips=lambda step: step == 2 + rank)


def decay_by_the_whole_size(torch: Any, rank: int) -> None:
    net = _net(torch)
    _train(torch, net, rank, groups=_grouped(net, lambda one: one.numel() > 7))


def average_on_all_ranks(torch: Any, rank: int) -> None:
    net, average = _net(torch), _net(torch)
    _train(torch, net, rank, lambda _: _average(net, average))


def clipped_by_the_norm_of_all(torch: Any, rank: int) -> None:
    import torch.distributed as dist

    def of_all(total: Any) -> Any:
        dist.all_reduce(total)
        return total

    net = _net(torch)
    _train(torch, net, rank, lambda _: _clip(torch, net, of_all))


def _mesh_of(torch: Any, group: Any, ranks: list[int]) -> Any:
    return torch.distributed.device_mesh.DeviceMesh.from_group(group, "cpu", mesh=ranks)


def another_model_on_one_rank(torch: Any, rank: int) -> None:
    """One rank has divided a model of its own before: calls have to be counted for each mesh."""
    from torch.distributed.fsdp import fully_shard

    alone = [torch.distributed.new_group([number]) for number in range(2)]
    if rank:
        fully_shard(torch.nn.Linear(5, 5), mesh=_mesh_of(torch, alone[rank], [rank]))
    mesh = _mesh_of(torch, torch.distributed.group.WORLD, [0, 1])
    net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
    for one in net:
        fully_shard(one, mesh=mesh)
    groups = [{"params": list(one.parameters()), "lr": 0.1 / (at + 1)} for at, one in enumerate(net)]
    _train(torch, net, rank, groups=groups)


def gradients_that_keep_their_direction(torch: Any, rank: int) -> None:
    """They shrink faster in the rows of one rank, after the first steps, whose gradients are kept."""
    from torch.distributed.fsdp import fully_shard

    net = fully_shard(torch.nn.Linear(1, 32, bias=False))
    net.weight.data.to_local().zero_()
    weights = torch.ones(32)
    weights[16:] = 0.5
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for _ in range(20):
        optimizer.zero_grad()
        (weights * (net(torch.ones(4, 1)) - 1).square()).mean().backward()
        optimizer.step()


def one_element_on_each_rank(torch: Any, rank: int) -> None:
    """A limit of each element is a factor there, and is right for shards."""
    from torch.distributed.fsdp import fully_shard

    net = fully_shard(torch.nn.Linear(6, 2))
    net.weight.requires_grad_(False)
    limited = lambda _: torch.nn.utils.clip_grad_value_([net.bias], 1e-3)  # noqa: E731
    _train(torch, net, rank, limited, groups=[net.bias])


def experts_that_all_gather(torch: Any, rank: int) -> None:
    """Each rank has an expert, which begins alike, and gets the samples of all ranks."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    class Gather(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(_: Any, part: Any) -> Any:
            parts = [torch.empty_like(part) for _ in range(2)]
            dist.all_gather(parts, part)
            return torch.cat(parts)

        @staticmethod
        def backward(_: Any, gradient: Any) -> Any:
            whole = gradient.contiguous()
            dist.all_reduce(whole)
            return whole.chunk(2)[rank]

    class Experts(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.expert = torch.nn.Linear(6, 5), torch.nn.Linear(5, 5)

        def forward(self, batch: Any) -> Any:
            samples = Gather.apply(self.first(batch))
            return self.expert(samples) * (torch.arange(len(samples)) % 2 == rank)[:, None]

    net = Experts()
    fully_shard(net.first)
    _train(torch, net, rank)


TWINS = [
    another_model_on_one_rank, gradients_that_keep_their_direction, one_element_on_each_rank, experts_that_all_gather,
    plain, head_averaged_by_hand, head_of_each_rank, experts_that_begin_alike, excluded_by_the_script,
    decay_by_the_whole_size, average_on_all_ranks, clipped_by_the_norm_of_all, step_skipped_on_all_ranks,
    each_rank_loses_one_step,
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", TWINS)
def test_good(body: Callable[[Any, int], None]) -> None:
    assert found(body) == []
