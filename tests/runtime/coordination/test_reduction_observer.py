"""How gradients are observed without any effect on the script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.torch


def run(do: Callable[[], None]) -> None:
    do()


def observed(*optimizers: Any) -> Any:
    """Return an observer that has seen the first step of some optimizers."""
    import torch

    from distcheck.runtime.coordination.reduction_observer import ReductionObserver

    observer = ReductionObserver(torch, run, lambda *_: None)
    for one in optimizers:
        assert step(observer, one) == []
    return observer


def step(observer: Any, optimizer: Any) -> list[Any]:
    return list(observer.before_step(optimizer, rank=0, place="train.py:9", scaled=False))


def test_a_function_that_gives_no_gradient_for_a_parameter() -> None:
    import torch

    class Doubled(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, one: Any, other: Any) -> Any:
            return one * 2

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return gradient * 2, None

    used, unused = (torch.nn.Parameter(torch.ones(30)) for _ in range(2))
    optimizer = torch.optim.SGD([used, unused], 0.1)
    observer = observed(optimizer)
    Doubled.apply(used, unused).sum().backward()
    assert [row.name for row in step(observer, optimizer)] == ["0 of parameter group 0"]


def test_the_content_of_parameters_can_be_swapped() -> None:
    import torch

    model = torch.nn.Linear(4, 4)
    observer = observed(torch.optim.SGD(model.parameters(), 0.1))
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.to(torch.float64)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
    assert model.weight.dtype == torch.float64
    assert not observer.done


def test_a_parameter_that_was_replaced_is_observed_no_more() -> None:
    import torch

    one = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([one], 0.1)
    observer = observed(optimizer)
    one.sum().backward()
    other = torch.nn.Parameter(torch.ones(3))
    other.grad = torch.ones(3)
    optimizer.param_groups[0]["params"][0] = other
    assert step(observer, optimizer) == []


def test_no_hook_is_left_when_one_optimizer_has_made_all_steps() -> None:
    import torch

    one, other = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer, slow = torch.optim.SGD([one], 0.1), torch.optim.SGD([other], 0.1)
    observer = observed(optimizer, slow)
    assert one._backward_hooks
    assert other._backward_hooks
    rows = 0
    for _ in range(20):
        (one * other).sum().backward()
        rows += len(step(observer, optimizer))
    assert rows == 11
    assert observer.done
    assert not one._backward_hooks
    assert not other._backward_hooks
    assert step(observer, slow) == []
    assert not other._backward_hooks


def test_the_hooks_of_the_script_keep_their_order_and_can_be_removed() -> None:
    import torch

    parameter, called = torch.nn.Parameter(torch.ones(4)), []
    first = parameter.register_hook(lambda gradient: called.append("first"))
    parameter.register_hook(lambda gradient: called.append("second"))
    optimizer = torch.optim.SGD([parameter], 0.1)
    observer = observed(optimizer)
    parameter.sum().backward()
    first.remove()
    parameter.sum().backward()
    observer.stop()
    parameter.sum().backward()
    assert called == ["first", "second", "second", "second"]
    assert len(parameter._backward_hooks) == 1


def test_what_backward_passes_add_and_whether_a_gradient_began_empty() -> None:
    import torch

    torch.manual_seed(0)
    net = torch.nn.Linear(9, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    observer = observed(optimizer)
    rows = []
    for number in range(3):
        for _ in range(2):
            net(torch.randn(5, 9)).square().mean().backward()
        rows.append(step(observer, optimizer)[0])
        if number != 1:
            optimizer.zero_grad()
    assert [row.nth for row in rows] == [2, 3, 4]
    # the gradients of the third step are still there in the fourth
    assert [row.fresh for row in rows] == [True, True, False]
    for row in rows[:2]:
        assert len(row.entries) == 2
        assert row.final == pytest.approx([sum(parts) for parts in zip(*row.entries, strict=True)], rel=1e-4, abs=1e-5)
