"""Gradients that a rank clips by its own norm, and that are reduced after that (DC758). One rank finds it by itself.

Only the first steps are observed: to see whether a norm was above the limit, the CPU waits for the device.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.registry import probe

from .copy_observer import address_of
from .frames import innermost_own
from .locations import where_of
from .patching import wrap


class ClippedGradients(NamedTuple):
    """A line that clips gradients by the norm of one rank, and the line that reduces them later."""

    rank: int
    place: str
    #: "": they are shards of FSDP1, which has reduced them
    reduced_at: str
    #: the reduction had begun, and nothing had waited for its handle
    begun: bool = False
    #: a hook limits each element before DDP averages it
    in_hook: bool = False


@probe(rules.DC753, rules.DC758)
def gradients_are_clipped_after_the_reduction(clipped: ClippedGradients) -> Iterator[Finding]:
    """Report gradients that are clipped before they are reduced, or by the norm of one shard."""
    if not clipped.reduced_at:
        yield rules.DC753.found(
            "clip_grad_norm_ computes the norm of this rank's shard alone, and clips by it. Other shards have another "
            "norm, so each rank scales its gradients by another factor",
            where=where_of(clipped.place, [clipped.rank]),
            severity=Severity.WARNING,
            fix=Fix("call model.clip_grad_norm_(max_norm) of the outermost FSDP module, on all ranks", where="code"),
        )
        return
    if clipped.in_hook:
        yield rules.DC758.found(
            "this hook limits each element of a gradient on each rank before DDP averages it. So a rank with large "
            "gradients counts less in the mean, and the result depends on the number of ranks",
            where=where_of(clipped.place, [clipped.rank]),
            severity=Severity.WARNING,
            fix=Fix(
                "limit the averaged gradients: torch.nn.utils.clip_grad_value_() between backward() and step()",
                where="code",
            ),
        )
        return
    if clipped.begun:
        yield rules.DC758.found(
            f"gradients are clipped here while their asynchronous all_reduce at {clipped.reduced_at} may still change "
            "them: nothing waited for its handle. Each rank may compute another norm, and clips by it",
            where=where_of(clipped.place, [clipped.rank]),
            evidence={"reduced_at": clipped.reduced_at},
            severity=Severity.WARNING,
            fix=Fix("call wait() of the handles of all gradients before clip_grad_norm_", where="code"),
        )
        return
    yield rules.DC758.found(
        f"each rank clips its gradients here by its own norm, before they are reduced at {clipped.reduced_at}. "
        "So each counts by another factor in the mean",
        where=where_of(clipped.place, [clipped.rank]),
        evidence={"reduced_at": clipped.reduced_at},
        fix=Fix("clip after the last all_reduce of the gradients", where="code"),
    )


class ClipObserver:
    """Observes the first steps of this process.

    :param most: steps of all optimizers that are observed
    :param pending_at: returns the line of the ``all_reduce`` of a gradient that was not waited for; "": there is none
    """

    def __init__(self, most: int, pending_at: Callable[[Any], str]) -> None:
        self._pending_at = pending_at
        self.found: deque[ClippedGradients] = deque(maxlen=8)
        self._left = most
        #: address of a gradient that was clipped since the last step → its elements, and the line
        self._clipped: dict[int, tuple[int, str]] = {}
        self._reported: set[tuple[str, str]] = set()
        #: line of a hook → steps in which it limited gradients
        self._clamped_at: dict[str, set[int]] = {}

    def attach(self, module: Any) -> None:
        """Observe ``torch.nn.utils``."""
        wrap((module, module.clip_grad), "clip_grad_norm_", self._clip)

    def forget(self) -> None:
        """Forget the parent's gradients, in a fork."""
        self.found.clear()
        self._clipped.clear()

    def before_step(self) -> None:
        """An optimizer is about to use the gradients."""
        self._left -= 1
        self._clipped.clear()

    def reduced(self, rank: int, tensor: Any, place: str) -> None:
        """The script reduces a tensor over several ranks."""
        if not self._clipped:
            return
        numel, clipped_at = self._clipped.get(address_of(tensor), (0, ""))
        if numel == tensor.numel() and (clipped_at, place) not in self._reported:
            self._reported.add((clipped_at, place))
            self.found.append(ClippedGradients(rank, clipped_at, place))

    def clamped(self, rank: int, place: str) -> None:
        """A hook of the script limits gradients that DDP averages after that. It counts at its second step."""
        if self._left > 0:
            self._clamped_at.setdefault(place, set()).add(self._left)
            if len(self._clamped_at[place]) > 1 and (place, "DDP") not in self._reported:
                self._reported.add((place, "DDP"))
                self.found.append(ClippedGradients(rank, place, "DDP", in_hook=True))

    def _clip(self, real: Any, parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
        torch = sys.modules["torch"]
        if self._left <= 0 or torch.compiler.is_compiling():
            return real(parameters, max_norm, *args, **kwargs)
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        total = real(listed, max_norm, *args, **kwargs)
        # a mesh computes the norm of all its ranks; with a high limit only the norm is wanted
        if not hasattr(total, "device_mesh") and float(total) > float(max_norm):
            place = innermost_own(sys._getframe(2))[0]
            if any(map(_is_of_fsdp, listed)) and (place, "") not in self._reported and _divides_parameters():
                self._reported.add((place, ""))
                self.found.append(ClippedGradients(torch.distributed.get_rank(), place, ""))
            gradients = [one.grad for one in listed if one.grad is not None and not hasattr(one.grad, "device_mesh")]
            begun_at = next(filter(None, map(self._pending_at, gradients)), "")
            if begun_at and (place, begun_at) not in self._reported:
                self._reported.add((place, begun_at))
                self.found.append(ClippedGradients(torch.distributed.get_rank(), place, begun_at, begun=True))
            self._clipped.update({address_of(one): (one.numel(), place) for one in gradients})
        return total


def _is_of_fsdp(parameter: Any) -> bool:
    """Return whether a parameter is one that FSDP1 has flattened, or holds several that it has."""
    return bool(getattr(parameter, "_fsdp_flattened", False) or getattr(parameter, "_is_flat_param", False))


def _divides_parameters() -> bool:
    """Return whether FSDP1 gives each of several ranks a shard, and not whole parameters."""
    module = sys.modules.get("torch.distributed.fsdp._flat_param")
    handles = [] if module is None else [one for one in gc.get_objects() if type(one) is module.FlatParamHandle]
    return bool(handles) and all(one.uses_sharded_strategy and one.world_size > 1 for one in handles)
