"""Models that DDP wraps: what became of their parameters, and why DDP did not average the gradients of a step."""

from __future__ import annotations

import functools
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .digests import Digest

#: Why DDP averaged no gradient of a model, or not all of what a step uses.
AROUND, ENDS_IN_NO_SYNC, ALL_IN_NO_SYNC, HOOK = "around", "ends in no_sync", "all in no_sync", "hook"
#: Why no gradient is averaged of a parameter next to modules that ``fully_shard`` has divided.
NOT_SHARDED = "not sharded"


class Member(NamedTuple):
    """A parameter as it was when DDP took it."""

    #: a weak reference would keep torch from swapping its content
    identity: int
    trained: bool
    device: str
    dtype: str


def members_of(module: Any, ignored: frozenset[str]) -> dict[str, Member]:
    """Return the parameters that DDP takes now, by name."""
    return {
        name: Member(id(one), one.requires_grad, str(one.device), str(one.dtype))
        for name, one in module.named_parameters()
        if name not in ignored
    }


def state_of(member: Member | None, parameter: Any) -> str:
    """Return what became of a parameter since DDP took it: ``owned`` if nothing did."""
    if member is None:
        return "added"
    if member.identity != id(parameter):
        return "replaced"
    if not member.trained:
        return "unfrozen" if parameter.requires_grad else "frozen"
    if (member.device, member.dtype) != (str(parameter.device), str(parameter.dtype)):
        return "moved"
    return "owned"


def modes_of(module: Any) -> Iterator[tuple[str, Digest]]:
    """Yield a digest of which modules are in training mode, of dropout and of batch normalization."""
    nn = sys.modules["torch.nn"].modules
    for name, kind in (("dropout", nn.dropout._DropoutNd), ("batch normalization", nn.batchnorm._BatchNorm)):
        modes = [one.training for one in module.modules() if isinstance(one, kind)]
        if modes:
            number = sum(at for at, is_training in enumerate(modes, 1) if is_training)
            yield name, Digest(zlib.crc32(bytes(modes)), float(sum(modes)), float(number), 32)


class WrappedModel:
    """A model that DDP wraps.

    :param key: the same on all of its ranks
    :param of_cpp: collectives of C++ in its group until now
    """

    def __init__(self, ddp: Any, key: str, ranks: tuple[int, ...], of_cpp: int) -> None:
        self.ddp = weakref.ref(ddp)
        self.key = key
        self.ranks = ranks
        self.of_cpp = of_cpp
        self.network = type(ddp.module).__name__
        self.ignored = frozenset(getattr(ddp, "parameters_to_ignore", ()))
        self.members = members_of(ddp.module, self.ignored)
        #: times that the script entered no_sync()
        self.entered = 0

    def unreduced(self, ddp: Any, *, reduced: bool, entered: bool) -> str:
        """Return why DDP did not average the gradients of a step; "": it did, or nothing shows the reason.

        :param reduced: DDP, or another caller of C++, has called a collective in the group since the last step
        :param entered: the script has entered no_sync() since the last step
        """
        if getattr(ddp, "_comm_hooks", None):
            return HOOK
        local = entered or not ddp.require_backward_grad_sync
        if reduced:
            # the last forward pass decides. One of an evaluation looks like one in no_sync()
            return ENDS_IN_NO_SYNC if local and not ddp.require_forward_param_sync else ""
        if local:
            return ALL_IN_NO_SYNC
        elsewhere = getattr(ddp, "_use_python_reducer", False) or getattr(ddp, "_delay_all_reduce_all_params", False)
        return "" if elsewhere else AROUND

    def changed(self, named: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the names and states of parameters whose gradients DDP cannot average, because they came later."""
        for name, one in named.items():
            state = state_of(self.members.get(name), one)
            if state not in ("owned", "frozen"):
                yield name, state


def count_no_sync(kind: Any, models: list[WrappedModel], safely: Callable[[Callable[[], None]], None]) -> None:
    """Count each time that a script enters ``no_sync()`` of a model.

    :param kind: ``DistributedDataParallel``
    """
    real = kind.no_sync

    @functools.wraps(real)
    def no_sync(ddp: Any) -> Any:
        if not sys.modules["torch"].compiler.is_compiling():
            safely(lambda: _count(models, ddp))
        return real(ddp)

    kind.no_sync = no_sync


def _count(models: list[WrappedModel], ddp: Any) -> None:
    for model in models:
        if model.ddp() is ddp:
            model.entered += 1
