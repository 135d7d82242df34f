"""Log what the models that a script trains take in their forward passes, right before the steps of its optimizers.

A model is the outermost module of a forward pass in training mode.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from distcheck.runtime.coordination.copy_observer import CopyObserver
from distcheck.runtime.coordination.digests import Digests
from distcheck.runtime.coordination.frames import innermost_own
from distcheck.runtime.coordination.patching import attach_to, harmless
from distcheck.runtime.rehearsal.simulation.event_log import EventLog

#: Steps of one model that are written down.
_MOST_STEPS = 24
#: Inputs of a forward pass that have as many elements are compared, and so many of one step.
_LEAST, _MOST_INPUTS = 8, 4


def install(event_log: EventLog, copies: CopyObserver) -> None:
    """Rows ``inputs.step``.

    :param copies: knows what the calls of this process got
    """
    attach_to("torch", event_log, "inputs", lambda torch: _InputHook(event_log, torch, copies).attach())


class _Model:
    """A module whose forward pass the script calls."""

    def __init__(self, number: int, module: Any, place: tuple[str, str]) -> None:
        self.number = number
        self.module = weakref.ref(module)
        self.place = place
        self.wrapped = hasattr(module, "require_backward_grad_sync") and hasattr(module, "module")
        self.name = type(module.module if self.wrapped else module).__name__
        self.rows = 0
        #: digests of what its forward passes took since the last step
        self.inputs: list[list[int]] = []

    def is_stepped(self, held: set[int]) -> bool:
        """Return whether it has some of the parameters."""
        module = self.module()
        return module is not None and any(id(one) in held for one in module.parameters())


class _InputHook:
    """All models of this process."""

    def __init__(self, event_log: EventLog, torch: Any, copies: CopyObserver) -> None:
        self.event_log = event_log
        self.torch = torch
        self.copies = copies
        self.digests = Digests(torch)
        self.models: list[_Model] = []
        self.outermost: Any = None

    def attach(self) -> None:
        module = self.torch.nn.modules.module
        module.register_module_forward_pre_hook(self._enters)
        module.register_module_forward_hook(self._exits, always_call=True)
        sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(self._before_step)

    def _enters(self, module: Any, args: tuple[Any, ...]) -> None:
        torch = self.torch
        outermost = self.outermost() if self.outermost is not None else None
        if outermost is not None or not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
            return
        if not module.training or torch.compiler.is_compiling():
            return
        self.outermost = weakref.ref(module)
        with harmless(self.event_log, "inputs.step"):
            model = next((one for one in self.models if one.module() is module), None)
            if model is None:
                model = _Model(len(self.models), module, innermost_own(sys._getframe(1)))
                self.models.append(model)
            given = next((one for one in args if isinstance(one, torch.Tensor) and one.numel() >= _LEAST), None)
            if given is not None and len(model.inputs) < _MOST_INPUTS and given.layout is torch.strided:
                varied = bool((given != given.reshape(-1)[0]).any())
                model.inputs.append([self.digests.of(given)[0], int(varied)])

    def _exits(self, module: Any, *_: Any) -> None:
        if self.outermost is not None and self.outermost() is module:
            self.outermost = None

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if self.torch._C._current_graph_task_id() != -1:
            return
        with harmless(self.event_log, "inputs.step"):
            held = {id(one) for group in optimizer.param_groups for one in group["params"]}
            for model in self.models:
                if model.rows < _MOST_STEPS and model.is_stepped(held):
                    model.rows += 1
                    inputs, model.inputs = model.inputs, []
                    self.event_log.note(
                        "inputs.step", model=model.number, network=model.name, wrapped=model.wrapped,
                        called_at=model.place[0], count=model.rows, inputs=inputs, calls=self.copies.kinds_of_calls(),
                    )  # fmt: skip
