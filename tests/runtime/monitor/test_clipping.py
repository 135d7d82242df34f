"""Gradients that are clipped before they are reduced are found on real gloo ranks, as forks."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.cli.watch import step_report_of
from distcheck.rules import Selection
from distcheck.runtime.coordination.clipping import ClippedGradients
from distcheck.testing import run_ranks


def observed(body: Callable[[Any, Any], None], steps: int = 3) -> list[ClippedGradients]:
    """Run one rank, and return what it found."""
    import torch
    import torch.distributed as dist

    from distcheck.runtime.coordination.call_recorder import CallRecorder
    from distcheck.runtime.coordination.training import TrainingObserver

    recorder = CallRecorder()
    recorder.attach(dist.distributed_c10d)
    observer = TrainingObserver(recorder, 100, digests=False)
    observer.install()
    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        (100 * net(torch.ones(1, 3)).sum()).backward()
        body(torch, net)
        optimizer.step()
    dist.barrier()
    assert observer.error == ""
    return [one for one in observer.found() if isinstance(one, ClippedGradients)]


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in ("torch._dynamo", "torch.distributed.optim", "torch.distributed.algorithms.join"):
        importlib.import_module(name)


def _clip(torch: Any, net: Any, limit: float = 1.0) -> None:
    torch.nn.utils.clip_grad_norm_(net.parameters(), limit)


def _reduce(torch: Any, net: Any, group: Any = None) -> None:
    for one in net.parameters():
        torch.distributed.all_reduce(one.grad, group=group)


def before(torch: Any, net: Any) -> None:
    _clip(torch, net)
    _reduce(torch, net)


def before_by_name(torch: Any, net: Any) -> None:
    torch.nn.utils.clip_grad.clip_grad_norm_(max_norm=1.0, parameters=list(net.parameters()))
    _reduce(torch, net)


def after(torch: Any, net: Any) -> None:
    _reduce(torch, net)
    _clip(torch, net)


def only_the_norm(torch: Any, net: Any) -> None:
    _clip(torch, net, float("inf"))
    _reduce(torch, net)


def below_the_limit(torch: Any, net: Any) -> None:
    _clip(torch, net, 1e9)
    _reduce(torch, net)


def alone(torch: Any, net: Any) -> None:
    """A group of one rank, and another tensor."""
    dist = torch.distributed
    own = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    _clip(torch, net)
    _reduce(torch, net, own)
    dist.all_reduce(net.weight.grad.norm())


def _begin(torch: Any, net: Any) -> list[Any]:
    return [torch.distributed.all_reduce(one.grad, async_op=True) for one in net.parameters()]


def while_it_is_reduced(torch: Any, net: Any) -> None:
    handles = _begin(torch, net)
    _clip(torch, net)
    for one in handles:
        one.wait()


def after_the_handles(torch: Any, net: Any) -> None:
    for one in _begin(torch, net):
        one.wait()
    _clip(torch, net)


def below_the_limit_while_it_is_reduced(torch: Any, net: Any) -> None:
    handles = _begin(torch, net)
    _clip(torch, net, 1e9)
    for one in handles:
        one.wait()


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_bad_while_gradients_are_reduced() -> None:
    for rank, rows in enumerate(run_ranks(2, lambda: observed(while_it_is_reduced))):
        (finding,) = step_report_of(ClippedGradients(*rows[0]), Selection()).findings
        assert (len(rows), finding.code, finding.severity.word, finding.where.rank) == (1, "DC758", "warning", rank)
        assert "nothing waited for its handle" in finding.message


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", [after_the_handles, below_the_limit_while_it_is_reduced])
def test_good_while_gradients_are_reduced(body: Callable[[Any, Any], None]) -> None:
    assert run_ranks(2, lambda: observed(body)) == [[], []]


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", [before, before_by_name])
def test_bad(body: Callable[[Any, Any], None]) -> None:
    (row,) = run_ranks(2, lambda: observed(body))[0]
    report = step_report_of(ClippedGradients(*row), Selection())
    (finding,) = report.findings
    assert finding.code == "DC758"
    # checks of what a rank did not find are not missing
    assert report.not_checked == ()
    assert (finding.where.path or "").endswith("test_clipping.py")
    assert "before they are reduced at " in finding.message


def _of_fsdp(torch: Any, *, clip: Callable[[Any], Any], **more: Any) -> None:
    """One step of a model in FSDP1 that has norms far above the limit."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(torch.nn.Linear(6, 4), device_id=torch.device("cpu"), **more)
    (100 * model(torch.ones(2, 6))).sum().backward()
    clip(model)


def shards(torch: Any, _: Any) -> None:
    _of_fsdp(torch, clip=lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))


def shards_by_name(torch: Any, _: Any) -> None:
    _of_fsdp(torch, clip=lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0), use_orig_params=True)


def shards_below_the_limit(torch: Any, _: Any) -> None:
    _of_fsdp(torch, clip=lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))


def norm_of_all_shards(torch: Any, _: Any) -> None:
    _of_fsdp(torch, clip=lambda model: model.clip_grad_norm_(1.0))


def whole_gradients(torch: Any, _: Any) -> None:
    from torch.distributed.fsdp import ShardingStrategy

    _of_fsdp(
        torch, clip=lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0),
        sharding_strategy=ShardingStrategy.NO_SHARD,
    )  # fmt: skip


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", [shards, shards_by_name])
def test_bad_dc753(body: Callable[[Any, Any], None]) -> None:
    for rank, rows in enumerate(run_ranks(2, lambda: observed(body, 1))):
        (finding,) = step_report_of(ClippedGradients(*rows[0]), Selection()).findings
        assert (finding.code, finding.where.rank) == ("DC753", rank)
        assert (finding.where.path or "").endswith("test_clipping.py")


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", [shards_below_the_limit, norm_of_all_shards, whole_gradients])
def test_good_dc753(body: Callable[[Any, Any], None]) -> None:
    assert run_ranks(2, lambda: observed(body, 1)) == [[], []]


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", [after, only_the_norm, below_the_limit, alone])
def test_good(body: Callable[[Any, Any], None]) -> None:
    assert run_ranks(2, lambda: observed(body)) == [[], []]


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_only_the_first_steps_are_observed() -> None:
    late = iter(range(99))

    def body(torch: Any, net: Any) -> None:
        (before if next(late) > 8 else after)(torch, net)

    assert run_ranks(2, lambda: observed(body, 12)) == [[], []]


def in_ddp(
    hook: Callable[[Any, Any], Any], *, wrapped: bool = True, alone: bool = False, equal: bool = False
) -> list[ClippedGradients]:
    """Return what one rank finds of a model with a hook on its gradients, in DDP or not.

    :param alone: DDP averages over this rank only
    :param equal: all elements of a gradient are equal
    """
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
    net = torch.nn.Linear(3, 2)
    net.weight.register_hook(lambda gradient: hook(torch, gradient))
    groups = [dist.new_group([number]) for number in range(dist.get_world_size())] if alone else []
    group = groups[dist.get_rank()] if alone else None
    model = torch.nn.parallel.DistributedDataParallel(net, process_group=group) if wrapped else net
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    for step in range(4):
        optimizer.zero_grad()
        given = torch.arange(6.0).view(2, 3) + dist.get_rank() + step
        (model(torch.ones(2, 3)).sum() if equal else (100 * model(given)).square().mean()).backward()
        optimizer.step()
    dist.barrier()
    assert (observer.error, observer.reduction_error) == ("", "")
    return [one for one in observer.found() if isinstance(one, ClippedGradients)]


def clamped(torch: Any, gradient: Any) -> Any:
    return gradient.clamp(-1.0, 1.0)


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_bad_a_hook_limits_what_ddp_averages_dc758() -> None:
    for found in run_ranks(2, lambda: in_ddp(clamped)):
        (finding,) = step_report_of(ClippedGradients(*found[0]), Selection()).findings
        assert (len(found), finding.code, finding.severity.word) == (1, "DC758", "warning")
        assert (finding.where.path or "").endswith("test_clipping.py")


def masked(torch: Any, gradient: Any) -> Any:
    return gradient * torch.tensor([1.0, 0.0, 1.0])


def scaled(torch: Any, gradient: Any) -> Any:
    return 0.1 * gradient


def clamped_above_all(torch: Any, gradient: Any) -> Any:
    return gradient.clamp(-1e9, 1e9)


def without_nan(torch: Any, gradient: Any) -> Any:
    return gradient.nan_to_num(0.0)


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("hook", [masked, scaled, clamped_above_all, without_nan])
def test_good_hooks_that_commute_with_the_average_dc758(hook: Callable[[Any, Any], Any]) -> None:
    assert run_ranks(2, lambda: in_ddp(hook)) == [[], []]


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("where", [{"wrapped": False}, {"alone": True}])
def test_good_a_hook_on_a_model_that_nothing_averages_dc758(where: dict[str, bool]) -> None:
    assert run_ranks(2, lambda: in_ddp(clamped, **where)) == [[], []]


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_good_a_factor_of_equal_elements_is_no_limit_dc758() -> None:
    assert run_ranks(2, lambda: in_ddp(scaled, equal=True)) == [[], []]
