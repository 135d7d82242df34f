"""What SyncBatchNorm computes on GPUs alone, computed on the CPU: torch has these five functions for CUDA only."""

from __future__ import annotations

from typing import Any

import torch

_kept: list[Any] = []


def install() -> None:
    """Give torch's CPU the functions that it lacks; those that it has stay."""
    library = torch.library.Library("aten", "IMPL", "CPU")
    for function in (
        batch_norm_stats,
        batch_norm_gather_stats_with_counts,
        batch_norm_elemt,
        batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):
        name = f"aten::{function.__name__}"
        if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU"):
            library.impl(function.__name__, function)
    _kept.append(library)


def _over(value: Any) -> list[int]:
    """All dimensions but that of the channels."""
    return [number for number in range(value.dim()) if number != 1]


def _wide(value: Any, like: Any) -> Any:
    return value.view([-1 if number == 1 else 1 for number in range(like.dim())])


def _exact(value: Any) -> Any:
    """Sums of half precision are made in single precision, as on a GPU."""
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def batch_norm_stats(input: Any, eps: float) -> tuple[Any, Any]:
    """Mean and reciprocal deviation of each channel."""
    value = _exact(input)
    variance, mean = torch.var_mean(value, _over(value), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    input: Any, mean: Any, invstd: Any, running_mean: Any, running_var: Any, momentum: float, eps: float, counts: Any
) -> tuple[Any, Any]:
    """Those of all ranks together; what is kept of them moves on."""
    counts = counts.view(-1, 1).to(mean.dtype)
    total = counts.sum()
    middle = (counts * mean).sum(0) / total
    variance = (counts * (invstd.pow(-2) - eps + (mean - middle).pow(2))).sum(0) / total
    if running_mean is not None:
        running_mean.lerp_(middle.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((variance * total / (total - 1)).to(running_var.dtype), momentum)
    return middle, (variance + eps).rsqrt()


def batch_norm_elemt(input: Any, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> Any:
    """The normalised input."""
    value = _exact(input)
    result = (value - _wide(mean, value)) * _wide(invstd, value)
    if weight is not None:
        result = result * _wide(weight, value)
    if bias is not None:
        result = result + _wide(bias, value)
    return result.to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: Any, input: Any, mean: Any, invstd: Any, weight: Any, input_g: bool, weight_g: bool, bias_g: bool
) -> tuple[Any, Any, Any, Any]:
    """What the gradient needs of all elements of a channel."""
    gradient, value = _exact(grad_out), _exact(input)
    total = gradient.sum(_over(value))
    moment = (gradient * (value - _wide(mean, value))).sum(_over(value))
    kind = weight.dtype if weight is not None else total.dtype
    return total, moment, (moment * invstd).to(kind), total.to(kind).clone()


def batch_norm_backward_elemt(
    grad_out: Any, input: Any, mean: Any, invstd: Any, weight: Any, sum_dy: Any, sum_dy_xmu: Any, count: Any
) -> Any:
    """The gradient of the input."""
    gradient, value = _exact(grad_out), _exact(input)
    total = count.sum()
    result = gradient - _wide(sum_dy / total, value)
    result = result - (value - _wide(mean, value)) * _wide(invstd.pow(2) * sum_dy_xmu / total, value)
    result = result * _wide(invstd if weight is None else invstd * weight, value)
    return result.to(input.dtype)
