"""Which tensors hold gradients."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch


def test_which_tensors_hold_gradients() -> None:
    import torch

    from distcheck.runtime.coordination.flat_gradients import holds_gradients

    torch.manual_seed(0)
    gradients = [torch.randn(5, 6), torch.randn(5), torch.randn(3), torch.zeros(2, 4)]
    flat = [one.reshape(-1) for one in gradients]

    def holds(*parts: torch.Tensor) -> bool:
        return holds_gradients(torch.cat(parts), gradients, 2)

    # one, all, in another order, with zeros after them, divided by the number of ranks, rounded
    assert holds(flat[0])
    assert holds(*flat)
    assert holds(flat[1], flat[3], flat[0])
    assert holds(flat[2], flat[1], torch.zeros(40))
    assert holds(*(one / 2 for one in flat))
    assert holds_gradients(torch.cat(flat).bfloat16(), gradients, 2)
    # the first elements are zeros, as those of an activation that is never positive
    dead = [torch.cat([torch.zeros(8), one]) for one in flat[:2]]
    assert holds_gradients(torch.cat([*dead, torch.zeros(9)]), dead, 2)
    assert not holds_gradients(torch.cat([torch.zeros(8), torch.randn(30)]), dead, 2)
    # other numbers, a part, one of them twice, zeros alone, something after them, another factor, integers
    assert not holds(torch.randn(30))
    assert not holds(flat[0][:20])
    assert not holds(flat[1], flat[1])
    assert not holds(torch.zeros(30))
    assert not holds(flat[1], torch.ones(5))
    assert not holds(*(one / 3 for one in flat))
    assert not holds_gradients(torch.arange(30), gradients, 2)
    assert not holds_gradients(flat[0], [], 2)


def test_gradients_that_have_no_elements_here() -> None:
    import torch

    from distcheck.runtime.coordination.flat_gradients import holds_gradients

    sparse = torch.sparse_coo_tensor([[0]], [1.0], (4,))
    given = torch.ones(4)
    assert not holds_gradients(given, [sparse, torch.ones(4, device="meta"), torch.ones(0)], 2)
    assert not holds_gradients(sparse, [given], 2)
    assert holds_gradients(given, [sparse, given], 2)


def test_what_is_not_read() -> None:
    import torch

    from distcheck.runtime.coordination.flat_gradients import holds_gradients

    given = torch.randn(30)
    # a rank that is not in the group; a gradient that is larger than the tensor
    assert not holds_gradients(given, [given], 0)
    assert not holds_gradients(given, [torch.randn(40)], 2)
    assert holds_gradients(given, [torch.randn(40), given], 2)
    # gradients in an order without a pattern need too many comparisons
    many = [torch.randn(20) for _ in range(300)]
    assert holds_gradients(torch.cat(many[::-1]), many, 2)
    assert not holds_gradients(torch.cat(many[::7] + many[1::7] + many[2::7] + many[3::7]), many, 2)


def test_a_large_gradient_is_sampled() -> None:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from distcheck.runtime.coordination.flat_gradients import holds_gradients

    largest = 0

    class Sizes(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in held:
                largest = max(largest, result.numel())
            return result

    gradients = [torch.randn(1000, 1000), torch.randn(1000)]
    flat = torch.cat([one.reshape(-1) for one in gradients])
    held = {one.untyped_storage().data_ptr() for one in (flat, *gradients)}
    with Sizes():
        assert holds_gradients(flat, gradients, 2)
    assert 0 < largest <= 64
