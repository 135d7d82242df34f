"""Batch normalisation over two ranks, by functions that torch has for GPUs only, against that of the whole batch."""

from __future__ import annotations

import pytest


@pytest.mark.torch
@pytest.mark.parametrize("weighted", [True, False])
def test_two_halves_are_normalised_as_the_whole(weighted: bool) -> None:
    import torch
    import torch.nn.functional as F  # noqa: N812 - its usual name

    from distcheck.runtime.rehearsal.fake_cuda import batch_norm

    torch.manual_seed(0)
    whole = torch.randn(5, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(3, dtype=torch.float64, requires_grad=True) if weighted else None for _ in range(2))
    kept = [torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
    expected_kept = [one.clone() for one in kept]
    expected = F.batch_norm(whole, *expected_kept, weight, bias, training=True, momentum=0.1, eps=1e-5)
    gradient = torch.randn_like(expected)
    expected.backward(gradient)

    with torch.no_grad():
        parts, gradients = whole.split([3, 2]), gradient.split([3, 2])
        stats = [batch_norm.batch_norm_stats(part, 1e-5) for part in parts]
        counts = torch.tensor([[12.0], [8.0]], dtype=torch.float64)
        mean, invstd = batch_norm.batch_norm_gather_stats_with_counts(
            whole, torch.stack([one for one, _ in stats]), torch.stack([one for _, one in stats]), *kept, 0.1, 1e-5,
            counts,
        )  # fmt: skip
        result = torch.cat([batch_norm.batch_norm_elemt(part, weight, bias, mean, invstd, 1e-5) for part in parts])
        reduced = [
            batch_norm.batch_norm_backward_reduce(up, part, mean, invstd, weight, True, True, True)
            for up, part in zip(gradients, parts, strict=True)
        ]
        total, moment, of_weight, of_bias = (sum(values) for values in zip(*reduced, strict=True))
        back = torch.cat([
            batch_norm.batch_norm_backward_elemt(up, part, mean, invstd, weight, total, moment, counts)
            for up, part in zip(gradients, parts, strict=True)
        ])  # fmt: skip
    pairs = [(result, expected), (back, whole.grad), *zip(kept, expected_kept, strict=True)]
    if weight is not None and bias is not None:
        pairs += [(of_weight, weight.grad), (of_bias, bias.grad)]
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs)
