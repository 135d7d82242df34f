"""Optimizers that change nothing, and schedulers that step once for each rank, on real gloo ranks, as forks."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.cli.watch import step_report_of
from distcheck.rules import Selection
from distcheck.testing import run_ranks

STEPS = 60


def observed(body: Callable[[Any, int], None], *, final: bool = False) -> list[Any]:
    """Run one rank, and return what it found at its optimizer steps."""
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
    torch.manual_seed(0)
    body(torch, dist.get_rank())
    dist.barrier()
    assert observer.error == ""
    return [(*one, type(one).__name__) for one in observer.found(final=final)]


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in ("torch._dynamo", "torch.distributed.optim", "torch.optim.lr_scheduler", "torch.distributed.fsdp"):
        importlib.import_module(name)


def _net(torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))


def _ddp(torch: Any, net: Any = None) -> Any:
    return torch.nn.parallel.DistributedDataParallel(net or _net(torch))


def _backward(torch: Any, model: Any) -> None:
    (model(torch.randn(8, 6)) - 1).square().mean().backward()


def _train(torch: Any, model: Any, optimizer: Any, after: Callable[[int], Any] = lambda _: None) -> None:
    for step in range(STEPS):
        model.zero_grad()
        _backward(torch, model)
        optimizer.step()
        after(step)


# faults


def optimizer_of_the_original(torch: Any, rank: int) -> None:
    net = _net(torch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    _train(torch, _ddp(torch, copy.deepcopy(net)), optimizer)


def cleared_before_the_step(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(STEPS):
        _backward(torch, ddp)
        ddp.zero_grad()
        optimizer.step()


def zeroed_before_the_step(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(STEPS):
        _backward(torch, ddp)
        optimizer.zero_grad(set_to_none=False)
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()


def optimizer_before_sharding(torch: Any, rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    net = _net(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    fully_shard(net)
    _train(torch, net, optimizer)


def optimizer_before_flattening(torch: Any, rank: int) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    net = _net(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    _train(torch, FullyShardedDataParallel(net, device_id=torch.device("cpu")), optimizer)


def step_that_does_nothing(torch: Any, rank: int) -> None:
    class Lost(torch.optim.SGD):  # type: ignore[misc, name-defined]
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for one in group["params"]:
                    one.data.clone().add_(one.grad, alpha=-group["lr"])

    ddp = _ddp(torch)
    _train(torch, ddp, Lost(ddp.parameters(), lr=0.1))


def schedule_for_each_rank(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)

    def after(_: int) -> None:
        for _ in range(2):
            scheduler.step()

    _train(torch, ddp, optimizer, after)


def _scheduled(torch: Any, factor: Callable[[int], float], *, others: bool = False) -> None:
    """Train under a schedule; with ``others`` a second optimizer has a rate of its own."""
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD([ddp.module[0].weight] if others else ddp.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    second = torch.optim.SGD([ddp.module[2].weight], lr=0.1) if others else None

    def after(_: int) -> None:
        scheduler.step()
        if second is not None:
            second.step()

    _train(torch, ddp, optimizer, after)


def schedule_of_half_the_length(torch: Any, rank: int) -> None:
    _scheduled(torch, lambda step: max(0.0, 1 - 2 * step / STEPS))


def schedule_that_ends_after_ten_steps(torch: Any, rank: int) -> None:
    _scheduled(torch, lambda step: max(0.0, 1 - step / 10))


FAULTS = [
    (optimizer_of_the_original, "DC766", 10), (cleared_before_the_step, "DC766", 2),
    (zeroed_before_the_step, "DC766", 2), (optimizer_before_sharding, "DC752", 10),
    (optimizer_before_flattening, "DC752", 10), (step_that_does_nothing, "DC766", 50), (schedule_for_each_rank, "DC765", 2),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "code", "steps"), FAULTS)
def test_bad(body: Callable[[Any, int], None], code: str, steps: int) -> None:
    from distcheck.runtime.coordination.updates import IdleOptimizer, ScheduleBurst

    kinds = {"IdleOptimizer": IdleOptimizer, "ScheduleBurst": ScheduleBurst}
    for row in run_ranks(2, lambda: observed(body)):
        ((*fields, kind),) = row
        found = kinds[kind](*fields)
        (finding,) = step_report_of(found, Selection()).findings
        assert (finding.code, found.steps) == (code, steps)
        assert (finding.where.path or "").endswith("test_updates.py")


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_the_last_steps_of_a_scheduler_count_at_the_end() -> None:
    """The scheduler and the group may be gone by then."""

    def steps(number: int) -> Callable[[Any, int], None]:
        def body(torch: Any, rank: int) -> None:
            ddp = _ddp(torch)
            optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            for _ in range(number):
                _backward(torch, ddp)
                optimizer.step()
                for _ in range(2):
                    scheduler.step()

        return body

    (found,) = run_ranks(2, lambda: observed(steps(5), final=True))[0]
    assert found[-1] == "ScheduleBurst"
    assert run_ranks(2, lambda: observed(steps(4), final=True))[0] == []


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("body", "final", "steps"),
    [(schedule_of_half_the_length, True, STEPS // 2), (schedule_that_ends_after_ten_steps, False, 50)],
)
def test_a_learning_rate_that_stays_zero_is_reported(body: Any, final: bool, steps: int) -> None:
    from distcheck.runtime.coordination.updates import IdleOptimizer

    for row in run_ranks(2, lambda: observed(body, final=final)):
        ((*fields, _),) = row
        found = IdleOptimizer(*fields)
        (finding,) = step_report_of(found, Selection()).findings
        assert (finding.code, found.steps, found.rated) == ("DC766", steps, STEPS - steps)
        assert f"above zero for {STEPS - steps} steps, and is zero since" in finding.message


def decays_to_zero_at_the_end(torch: Any, rank: int) -> None:
    _scheduled(torch, lambda step: max(0.0, 1 - step / (STEPS - 8)))


def pauses(torch: Any, rank: int) -> None:
    _scheduled(torch, lambda step: float(not 10 <= step < 50))


def schedule_of_one_of_two(torch: Any, rank: int) -> None:
    _scheduled(torch, lambda step: max(0.0, 1 - 2 * step / STEPS), others=True)


def noise_without_a_rate(torch: Any, rank: int) -> None:
    """The rate is of the gradients alone."""
    ddp = _ddp(torch)

    class Langevin(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
        def step(self) -> None:
            for group in self.param_groups:
                for one in group["params"]:
                    one.data.add_(one.grad, alpha=-group["lr"]).add_(torch.randn(one.shape), alpha=0.01)

    optimizer = Langevin(ddp.parameters(), {"lr": 0.1})
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - 2 * step / STEPS))
    _train(torch, ddp, optimizer, lambda _: scheduler.step())


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", [decays_to_zero_at_the_end, pauses, schedule_of_one_of_two, noise_without_a_rate])
def test_a_learning_rate_that_is_zero_for_a_while_is_not_reported(body: Callable[[Any, int], None]) -> None:
    assert run_ranks(2, lambda: observed(body, final=True)) == [[], []]


@pytest.mark.torch
@pytest.mark.usefixtures("warm")
def test_an_optimizer_that_never_had_a_gradient_is_reported_at_the_end() -> None:
    def steps(number: int) -> Callable[[Any, int], None]:
        def body(torch: Any, rank: int) -> None:
            net = _net(torch)
            model = copy.deepcopy(net)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            for step in range(number):
                _backward(torch, model)
                if step == 4:
                    _backward(torch, net)
                optimizer.step()

        return body

    (found,) = run_ranks(1, lambda: observed(steps(4), final=True))
    assert [(one[3], one[-1]) for one in found] == [(4, "IdleOptimizer")]
    # the script goes on; too few steps; a gradient came later
    for body, final in ((steps(4), False), (steps(2), True), (steps(6), True)):
        assert run_ranks(1, lambda body=body, final=final: observed(body, final=final)) == [[]]


# correct twins


def plain(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    _train(torch, ddp, torch.optim.AdamW(ddp.parameters(), lr=0.01))


def sharded(torch: Any, rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    net = _net(torch)
    fully_shard(net)
    _train(torch, net, torch.optim.SGD(net.parameters(), lr=0.01))


def warm_up_from_zero(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 1e12)
    _train(torch, ddp, optimizer, lambda _: scheduler.step())


def first_epoch_at_zero(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    _train(torch, ddp, torch.optim.SGD(ddp.parameters(), lr=0.0))


def tiny_gradients(torch: Any, rank: int) -> None:
    """Saturated: the updates are lost to rounding."""
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    for _ in range(STEPS):
        ddp.zero_grad()
        (1e-9 * ddp(torch.randn(8, 6)).mean()).backward()
        optimizer.step()


def frozen(torch: Any, rank: int) -> None:
    """An optimizer of a frozen part, and a part that is trained."""
    ddp, frozen = _ddp(torch), _net(torch).requires_grad_(False)
    idle = torch.optim.SGD(frozen.parameters(), lr=0.1)
    _train(torch, ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), lambda _: idle.step())


def overflow_at_first(torch: Any, rank: int) -> None:
    """Steps whose gradients overflowed are made without gradients."""
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        (ddp(torch.randn(8, 6)) * (float("inf") if step < 5 else 1)).square().mean().backward()
        if step < 5:
            optimizer.zero_grad()
        optimizer.step()


def critic_waits(torch: Any, rank: int) -> None:
    """The loss of the second model counts nothing at first, so that its gradients are zero."""
    ddp, critic = _ddp(torch), _ddp(torch)
    other = torch.optim.SGD(critic.parameters(), lr=0.1)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        (ddp(torch.randn(8, 6)) - critic(torch.randn(8, 6))).square().mean().backward()
        optimizer.step()
        other.zero_grad()
        (critic(torch.randn(8, 6)).mean() * (step > 40)).backward()
        other.step()


def trained_later(torch: Any, rank: int) -> None:
    """The optimizer of the second part steps from the first step on; its loss comes later."""
    ddp, later = _ddp(torch), _net(torch)
    other = torch.optim.SGD(later.parameters(), lr=0.1)
    _train(torch, ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), lambda _: other.step())


def only_the_head(torch: Any, rank: int) -> None:
    """The backbone has gradients, and no optimizer on purpose; an unused optimizer steps as well."""
    ddp, unused = _ddp(torch), torch.nn.Linear(3, 3)
    idle = torch.optim.SGD(unused.parameters(), lr=0.1)
    _train(torch, ddp, torch.optim.SGD(ddp.module[2].parameters(), lr=0.1), lambda _: idle.step())


def accumulation(torch: Any, rank: int) -> None:
    """The scheduler steps with each backward pass, two for each step of the optimizer, on two ranks."""
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
    for step in range(2 * STEPS):
        _backward(torch, ddp)
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()


def two_optimizers(torch: Any, rank: int) -> None:
    """A generator that steps at every second batch; both schedules step at each batch."""
    one, two = _ddp(torch), _ddp(torch)
    first, second = (torch.optim.Adam(net.parameters(), lr=0.01) for net in (one, two))
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 1000) for each in (first, second)]
    for step in range(STEPS):
        for net, optimizer in ((one, first),) if step % 2 else ((one, first), (two, second)):
            optimizer.zero_grad()
            _backward(torch, net)
            optimizer.step()
        for scheduler in schedulers:
            scheduler.step()


def average_and_evaluation(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    average = torch.optim.swa_utils.AveragedModel(ddp.module)

    def after(step: int) -> None:
        average.update_parameters(ddp.module)
        if step % 10 == 9:
            with torch.no_grad():
                average(torch.randn(8, 6))

    _train(torch, ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), after)


def closure(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    optimizer = torch.optim.LBFGS(ddp.parameters(), max_iter=2)

    def once() -> Any:
        optimizer.zero_grad()
        loss = ddp(torch.randn(8, 6)).square().mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(once)


def by_epoch_and_resumed(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(2):  # catches up with the epochs of the checkpoint
        scheduler.step()
    for _ in range(6):
        for _ in range(3):
            optimizer.zero_grad()
            _backward(torch, ddp)
            optimizer.step()
        scheduler.step()
    optimizer.load_state_dict(optimizer.state_dict())
    _train(torch, ddp, optimizer)


def chained(torch: Any, rank: int) -> None:
    ddp = _ddp(torch)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    schedules = torch.optim.lr_scheduler
    parts = [schedules.LinearLR(optimizer, total_iters=5), schedules.ExponentialLR(optimizer, 0.99)]
    chain = schedules.ChainedScheduler(parts)
    _train(torch, ddp, optimizer, lambda _: chain.step())


def restored(torch: Any, rank: int) -> None:
    """Adapted to each batch, and restored: the step itself changes the parameters."""
    ddp = _ddp(torch)
    begin = copy.deepcopy(ddp.state_dict())
    _train(torch, ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), lambda _: ddp.load_state_dict(begin))


TWINS = [
    plain, sharded, warm_up_from_zero, first_epoch_at_zero, tiny_gradients, frozen, trained_later, only_the_head,
    overflow_at_first, critic_waits,
    accumulation, two_optimizers, average_and_evaluation, closure, by_epoch_and_resumed, chained, restored,
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", TWINS)
def test_good(body: Callable[[Any, int], None]) -> None:
    assert run_ranks(2, lambda: observed(body)) == [[], []]
