"""Which tensors hold gradients."""

from __future__ import annotations

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
