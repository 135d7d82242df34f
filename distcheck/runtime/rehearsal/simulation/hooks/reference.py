"""Log the first step of each optimizer with its samples, for the comparison with the same step of one rank.

A tensor is written as a few sums of its elements with signs, which add and scale as the tensor does. So the mean over
the ranks can be compared with what one rank has. Only with ``--reference``.
"""

from __future__ import annotations

import ctypes
import random
import sys
import weakref
import zlib
from collections.abc import Iterator
from typing import Any

from distcheck.runtime.coordination.copy_observer import roots_of_models
from distcheck.runtime.coordination.digests import Digests
from distcheck.runtime.coordination.patching import attach_to, harmless
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Parameters of one optimizer that are compared, and samples of its first step.
_MOST_PARAMETERS, _MOST_SAMPLES = 256, 8192
#: Bytes of one sample that are read.
_MOST_BYTES = 1 << 16
_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``reference.first`` and ``reference.second``, one of each for an optimizer."""
    if plan.reference:
        attach_to("torch", event_log, "reference", lambda torch: _ReferenceHook(event_log, torch).attach())


class _ReferenceHook:
    """The first two steps of all optimizers of this process."""

    def __init__(self, event_log: EventLog, torch: Any) -> None:
        self.event_log = event_log
        self.torch = torch
        self.digests = Digests(torch)
        #: steps that were written, and the number of each optimizer
        self.steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.outermost: Any = None
        #: digests of what forward passes took until the first step; None: of too many samples, or of none that is read
        self.samples: list[str] | None = []
        #: of a forward pass
        self.most = 0
        #: random numbers were drawn in a forward pass or after it
        self.random = False
        self.entered = self.left = 0
        #: names of normalization layers that use the samples of one rank
        self.normalized: set[str] = set()
        self.half = False

    def attach(self) -> None:
        module = self.torch.nn.modules.module
        module.register_module_forward_pre_hook(self._enters)
        module.register_module_forward_hook(self._exits, always_call=True)
        sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(self._before_step)
        self.event_log.at_end.append(self._at_end)

    # forward passes

    def _enters(self, module: Any, args: tuple[Any, ...]) -> None:
        torch = self.torch
        if not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1 or torch.compiler.is_compiling():
            return
        if module.training and "BatchNorm" in type(module).__name__ and "Sync" not in type(module).__name__:
            self.normalized.add(type(module).__name__)
        if self.outermost is not None and self.outermost() is not None:
            return
        self.outermost = weakref.ref(module)
        with harmless(self.event_log, "reference.first"):
            self.entered = _random_state(torch)
            if not self.steps:
                self._take(args)

    def _take(self, args: tuple[Any, ...]) -> None:
        found = [one for one in _tensors(args) if one.dim() and not hasattr(one, "device_mesh")]
        count = min((len(one) for one in found), default=0)
        if self.samples is None or not count or len(self.samples) + count > _MOST_SAMPLES:
            self.samples = None
            return
        self.most = max(self.most, count)
        rows = [self._rows(one) for one in found if len(one) == count]
        self.samples += [":".join(parts) for parts in zip(*rows, strict=True)]

    def _rows(self, tensor: Any) -> list[str]:
        """Return a digest of each row of a tensor."""
        from torch.utils._python_dispatch import _disable_current_modes

        with self.torch.no_grad(), _disable_current_modes():
            rows = tensor.detach().cpu().contiguous()
            size = rows[0].numel() * rows.element_size()
            start = rows.data_ptr()
            return [
                f"{zlib.crc32(ctypes.string_at(start + number * size, min(size, _MOST_BYTES))):08x}"
                for number in range(len(rows))
            ]

    def _exits(self, module: Any, *_: Any) -> None:
        if self.outermost is not None and self.outermost() is module:
            self.outermost = None
            with harmless(self.event_log, "reference.first"):
                self.left = _random_state(self.torch)
                self.random = self.random or self.left != self.entered
                self.half = self.half or self.torch.is_autocast_enabled() or self.torch.is_autocast_enabled("cpu")

    # steps

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.torch._C._current_graph_task_id() != -1:
            return
        with harmless(self.event_log, "reference.first"):
            done = self.steps.get(optimizer, 0)
            if done > 1:
                return
            closure = kwargs.get("closure") or next((one for one in args[1:] if callable(one)), None)
            if not done:
                self.numbers[optimizer] = len(self.numbers)
                self.random = self.random or (self.left != 0 and self.left != _random_state(self.torch))
            self.steps[optimizer] = done + 1
            self._note(optimizer, ("first", "second")[done], closure=closure is not None)

    def _at_end(self) -> None:
        for optimizer, done in list(self.steps.items()):
            if done == 1:
                self._note(optimizer, "second", closure=False)

    def _note(self, optimizer: Any, which: str, *, closure: bool) -> None:
        named = list(_named(self.torch, optimizer))
        plain = [(name, one) for name, one in named if self._is_plain(one)]
        chosen = plain[:: -(-len(plain) // _MOST_PARAMETERS) or 1]
        if which == "second":
            self.event_log.note(
                "reference.second",
                number=self.numbers[optimizer],
                parameters={name: self.digests.projections(one) for name, one in chosen},
                rates=_rates(optimizer),
            )
            return
        self.event_log.note(
            "reference.first",
            number=self.numbers[optimizer],
            samples=self.samples,
            most=self.most,
            random=self.random,
            closure=closure,
            half=self.half or any(one.element_size() < 4 for _, one in chosen),
            sharded=len(plain) < len(named),
            accelerated="accelerate.scheduler" in sys.modules,
            normalized=sorted(self.normalized),
            gradients={name: self.digests.projections(one.grad) for name, one in chosen if one.grad is not None},
            parameters={name: self.digests.projections(one) for name, one in chosen},
            rates=_rates(optimizer),
        )

    def _is_plain(self, parameter: Any) -> bool:
        gradient = parameter.grad
        if hasattr(parameter, "device_mesh") or getattr(parameter, "_is_flat_param", False) or parameter.is_complex():
            return False
        return parameter.layout is self.torch.strided and (
            gradient is None or (gradient.layout is self.torch.strided and gradient.shape == parameter.shape)
        )


def _tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors among the arguments of a forward pass, and in lists and dictionaries of these."""
    if isinstance(value, sys.modules["torch"].Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _tensors(one)


def _named(torch: Any, optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of an optimizer with names that do not depend on wrappers, those with unique ones."""
    held = {id(one): one for group in optimizer.param_groups for one in group["params"] if one.numel()}
    names: dict[str, list[Any]] = {}
    for root in roots_of_models():
        inner = root
        while type(inner).__name__ in ("DistributedDataParallel", "OptimizedModule"):
            inner = next(iter(inner.children()))
        for name, one in root.named_parameters():
            if id(one) in held:
                held.pop(id(one))
                for wrapper in _WRAPPERS:
                    name = name.replace(wrapper, "")
                names.setdefault(f"{name} of {type(inner).__name__}", []).append(one)
    for index, group in enumerate(optimizer.param_groups):
        for position, one in enumerate(group["params"]):
            if id(one) in held:
                names[f"{position} of parameter group {index}"] = [one]
    return ((name, ones[0]) for name, ones in names.items() if len(ones) == 1)


def _random_state(torch: Any) -> int:
    """Return a digest of the generators of torch, Python and numpy; it draws nothing."""
    parts = [bytes(torch.get_rng_state().numpy()), repr(random.getstate()).encode()]
    if torch.cuda.is_available():
        parts += [bytes(one.numpy()) for one in torch.cuda.get_rng_state_all()]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and hasattr(numpy, "get_state"):
        state = numpy.get_state()
        parts += [state[1].tobytes(), repr(state[2:]).encode()]
    total = 0
    for part in parts:
        total = zlib.crc32(part, total)
    return total


def _rates(optimizer: Any) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
