"""Steps that use gradients before their asynchronous reduction has ended are found on real gloo ranks, as forks."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from distcheck.cli.watch import step_report_of
from distcheck.rules import Selection
from distcheck.runtime.coordination.unwaited_handles import UnwaitedGradients
from distcheck.testing import run_ranks


def observed(body: Callable[[Any, Any], None]) -> list[UnwaitedGradients]:
    """Run one rank, and return what its steps used without waiting."""
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
    for _ in range(2):
        net.zero_grad()
        net(torch.ones(1, 3)).sum().backward()
        body(torch, net)
    dist.barrier()
    assert observer.error == ""
    return list(observer.unwaited)


@pytest.fixture(scope="module")
def warm() -> None:
    """Import what each rank would import by itself."""
    for name in ("torch._dynamo", "torch.distributed.optim", "torch.distributed.algorithms.join"):
        importlib.import_module(name)


def _reduce(net: Any) -> list[Any]:
    import torch.distributed as dist

    return [dist.all_reduce(one.grad, async_op=True) for one in net.parameters()]


def _step(torch: Any, net: Any) -> None:
    torch.optim.SGD(net.parameters(), lr=0.1).step()


def dropped(torch: Any, net: Any) -> None:
    _reduce(net)
    _step(torch, net)


def only_the_last(torch: Any, net: Any) -> None:
    _reduce(net)[-1].wait()
    _step(torch, net)


def waited_afterwards(torch: Any, net: Any) -> None:
    handles = _reduce(net)
    _step(torch, net)
    for handle in handles:
        handle.wait()


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("body", "gradients"), [(dropped, 2), (only_the_last, 1), (waited_afterwards, 2)])
def test_bad(body: Callable[[Any, Any], None], gradients: int) -> None:
    first, *_ = (UnwaitedGradients(*row) for row in run_ranks(2, lambda: observed(body))[0])
    (finding,) = step_report_of(first, Selection()).findings
    assert (finding.code, first.gradients, first.total, first.step) == ("DC713", gradients, 2, 1)
    assert (finding.where.path or "").endswith("test_unwaited_handles.py")


def waited(torch: Any, net: Any) -> None:
    for handle in _reduce(net):
        handle.wait()
    _step(torch, net)


def waited_by_futures(torch: Any, net: Any) -> None:
    torch.futures.wait_all([handle.get_future() for handle in _reduce(net)])
    _step(torch, net)


def waited_in_the_step(torch: Any, net: Any) -> None:
    handles = _reduce(net)

    class Waits(torch.optim.SGD):  # type: ignore[misc]
        def step(self, closure: Any = None) -> Any:
            for handle in handles:
                handle.wait()
            return super().step(closure)

    Waits(net.parameters(), lr=0.1).step()


def a_number_to_print(torch: Any, net: Any) -> None:
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1), async_op=True)
    _step(torch, net)


def blocking(torch: Any, net: Any) -> None:
    import torch.distributed as dist

    for one in net.parameters():
        dist.all_reduce(one.grad)
    _step(torch, net)


GOOD = [waited, waited_by_futures, waited_in_the_step, a_number_to_print, blocking]


@pytest.mark.torch
@pytest.mark.full
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("body", GOOD)
def test_good(body: Callable[[Any, Any], None]) -> None:
    assert run_ranks(2, lambda: observed(body)) == [[], []]
