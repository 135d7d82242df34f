"""Log how gradients become those that an optimizer uses: what backward passes add, what is reduced, and the end.

A tensor is written as a few sums of its elements with signs that have no pattern. Such sums add and scale as the tensor
does, so the ranks' sums show by which factor the gradients were averaged.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.runtime.coordination.digests import Digests
from distcheck.runtime.coordination.model import RecordedCall
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Parameters of one optimizer that are observed, and steps of it that are written.
_MOST_PARAMETERS, _MOST_STEPS = 6, 12
#: Entries of one gradient between two steps that are kept.
_MOST_ENTRIES = 64


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``reductions.step``, one for each gradient."""
    attach_to("torch", event_log, "reductions", lambda torch: _ReductionHook(event_log, torch).attach())


class _Gradient:
    """What has happened to one gradient since the last step."""

    def __init__(self, name: str, parameter: Any) -> None:
        self.name = name
        self.parameter = weakref.ref(parameter)
        #: ``[what a backward pass added]``, or the line of an ``all_reduce`` that sums or averages
        self.entries: list[Any] = []
        #: it was empty when the first backward pass came
        self.fresh = True


class _ReductionHook:
    """All optimizers of this process."""

    def __init__(self, event_log: EventLog, torch: Any) -> None:
        self.event_log = event_log
        self.torch = torch
        self.digests = Digests(torch)
        self.gradients: weakref.WeakKeyDictionary[Any, list[_Gradient]] = weakref.WeakKeyDictionary()
        self.steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        #: the script scales a loss
        self.scaled = False

    def attach(self) -> None:
        sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(self._before_step)
        self.event_log.calls.observe_arguments(self._on_call)
        attach_to(
            "torch.amp.grad_scaler", self.event_log, "reductions",
            lambda module: wrap(module, "GradScaler.scale", self._scales),
        )  # fmt: skip

    def _scales(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        self.scaled = True
        return real(*args, **kwargs)

    def _on_call(self, recorded: RecordedCall, given: Mapping[str, Any], _: bool) -> None:
        call = recorded.call
        if call.operation != "all_reduce" or call.reduce not in ("sum", "avg"):
            return
        with harmless(self.event_log, "reductions.step"):
            tensor: Any = given.get("tensor")
            for one in self._all():
                parameter = one.parameter()
                gradient = None if parameter is None else parameter.grad
                if (
                    gradient is None
                    or gradient.is_sparse
                    or len(one.entries) >= _MOST_ENTRIES
                    or gradient.numel() != tensor.numel()
                ):
                    continue
                if gradient.data_ptr() == tensor.data_ptr():
                    one.entries.append([call.reduce, call.place, len(self.event_log.calls.groups[call.group])])

    def _all(self) -> Iterator[_Gradient]:
        for gradients in self.gradients.values():
            yield from gradients

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if self.torch._C._current_graph_task_id() != -1:
            return
        with harmless(self.event_log, "reductions.step"):
            known = self.gradients.get(optimizer)
            if known is None:
                self.numbers[optimizer] = len(self.numbers)
                self.gradients[optimizer] = list(self._observed(optimizer))
                self.steps[optimizer] = 1
                return
            self.steps[optimizer] += 1
            for one in known:
                parameter, entries, fresh = one.parameter(), one.entries, one.fresh
                one.entries, one.fresh = [], True
                if self.steps[optimizer] > _MOST_STEPS or parameter is None or not entries:
                    continue
                if parameter.grad is None or parameter.grad.is_sparse:
                    continue
                self.event_log.note(
                    "reductions.step",
                    optimizer=self.numbers[optimizer],
                    count=self.steps[optimizer],
                    name=one.name,
                    entries=entries,
                    final=self.digests.projections(parameter.grad),
                    fresh=fresh and len(entries) < _MOST_ENTRIES,
                    scaled=self.scaled,
                )

    def _observed(self, optimizer: Any) -> Iterator[_Gradient]:
        named = [
            (f"{position} of parameter group {index}", one)
            for index, group in enumerate(optimizer.param_groups)
            for position, one in enumerate(group["params"])
            if one.requires_grad and one.is_leaf and one.is_floating_point() and one.layout is self.torch.strided
            and not hasattr(one, "device_mesh") and not getattr(one, "_is_flat_param", False)
        ]  # fmt: skip
        for name, parameter in named[:: -(-len(named) // _MOST_PARAMETERS) or 1]:
            one = _Gradient(name, parameter)
            parameter.register_hook(functools.partial(self._see_backward, weakref.ref(one)))
            yield one

    def _see_backward(self, reference: Any, gradient: Any) -> None:
        one = reference()
        parameter = None if one is None else one.parameter()
        if parameter is None or gradient.is_sparse or len(one.entries) >= _MOST_ENTRIES:
            return
        with harmless(self.event_log, "reductions.step"):
            if not one.entries and parameter.grad is not None:
                one.fresh = not bool(parameter.grad.detach().any())
            one.entries.append(self.digests.projections(gradient))
