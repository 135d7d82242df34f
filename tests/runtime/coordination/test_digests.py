"""Digests of several tensors at once: few elements move to the CPU, and others at each turn."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_few_elements_are_copied_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from distcheck.runtime.coordination.digests import Digests

    copied = []
    real = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: copied.append(tensor.numel()) or real(tensor))  # type: ignore[func-returns-value]
    tensors = [torch.ones(1000, 300), torch.ones(5), torch.ones(200_000), torch.ones(3, dtype=torch.bfloat16)]
    found = Digests(torch).of_several(tensors, 0)
    assert len(found) == len(tensors)
    assert len(copied) == 2  # one for each dtype
    assert sum(copied) <= 2 * 4096 + 5 + 3


def test_all_elements_have_their_turn() -> None:
    import torch

    from distcheck.runtime.coordination.digests import Digests

    digests, plain, other = Digests(torch), torch.ones(20_000), torch.ones(20_000)
    other[12_347] = 2.0
    differ = [digests.of_several([plain], turn) != digests.of_several([other], turn) for turn in range(5)]
    assert sum(differ) == 1


def test_they_are_those_of_single_tensors() -> None:
    import torch

    from distcheck.runtime.coordination.digests import Digest, Digests

    digests = Digests(torch)
    tensors = [torch.randn(7, 3), torch.zeros(0), torch.randn(4).to(torch.complex64), torch.tensor(5)]
    assert digests.of_several(tensors, 3) == [Digest(*digests.of(tensor)) for tensor in tensors]
