"""Log each model that the script trains right before the steps of its optimizers: parameters, gradients and inputs.

A model is the outermost module of a forward pass in training mode. Which collectives the script makes between the steps
shows whether the ranks train one model from parts of the data, or something else.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.runtime.coordination.call_signatures import KINDS
from distcheck.runtime.coordination.copy_observer import (
    FEW,
    MOST_COMPARED,
    address_of,
    hooked_elsewhere,
    is_of_fsdp,
    roots_of_models,
)
from distcheck.runtime.coordination.digests import Digests
from distcheck.runtime.coordination.flat_gradients import holds_gradients
from distcheck.runtime.coordination.frames import innermost_own
from distcheck.runtime.coordination.model import CollectiveCall, RecordedCall
from distcheck.runtime.coordination.patching import attach_to, harmless
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Parameters of one model that are compared, and steps that are written down.
_MOST_PARAMETERS, _MOST_STEPS = 64, 24
#: Inputs of a forward pass that have as many elements are compared, and so many of one step.
_LEAST, _MOST_INPUTS = 8, 4


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``models.step`` and ``models.last``."""
    attach_to("torch", event_log, "models", lambda torch: _ModelHook(event_log, torch).attach())


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
        #: name → calls that got this parameter; "": the whole model at once
        self.exchanges: Counter[str] = Counter()
        #: names of parameters that are no constants
        self.known: dict[str, bool] = {}
        #: hooks that call a collective are on another model
        self.hooked_elsewhere = False

    def network(self) -> Any:
        module = self.module()
        return module.module if module is not None and self.wrapped else module


class _ModelHook:
    """All models of this process."""

    def __init__(self, event_log: EventLog, torch: Any) -> None:
        self.event_log = event_log
        self.torch = torch
        self.digests = Digests(torch)
        self.models: list[_Model] = []
        self.outermost: Any = None
        #: kind of call → how many this process made: ``few``, ``model`` or ``other``
        self.calls: Counter[str] = Counter()
        #: addresses of parameters, with their names, and of gradients, with ""; and whether some may have changed since
        self.addresses: dict[int, tuple[_Model, str]] = {}
        self.stale = True
        #: line and elements of calls → those that were compared with gradients, and those that hold some
        self.compared: Counter[tuple[str, int]] = Counter()
        self.of_gradients: set[tuple[str, int]] = set()

    def attach(self) -> None:
        module = self.torch.nn.modules.module
        module.register_module_forward_pre_hook(self._enters)
        module.register_module_forward_hook(self._exits, always_call=True)
        sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(self._before_step)
        self.event_log.calls.observe_arguments(self._on_call)
        self.event_log.at_end.append(self._at_end)

    # forward passes

    def _enters(self, module: Any, args: tuple[Any, ...]) -> None:
        torch = self.torch
        outermost = self.outermost() if self.outermost is not None else None
        if outermost is not None or not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
            return
        if not module.training or torch.compiler.is_compiling():
            return
        self.outermost = weakref.ref(module)
        with harmless(self.event_log, "models.step"):
            model = next((one for one in self.models if one.module() is module), None)
            if model is None:
                model = _Model(len(self.models), module, innermost_own(sys._getframe(1)))
                self.models.append(model)
            self.stale = True
            given = next((one for one in args if isinstance(one, torch.Tensor) and one.numel() >= _LEAST), None)
            if given is not None and len(model.inputs) < _MOST_INPUTS and given.layout is torch.strided:
                varied = bool((given != given.reshape(-1)[0]).any())
                model.inputs.append([self.digests.of(given)[0], int(varied)])

    def _exits(self, module: Any, *_: Any) -> None:
        if self.outermost is not None and self.outermost() is module:
            self.outermost = None

    # collectives of the script

    def _on_call(self, recorded: RecordedCall, given: Mapping[str, Any], _: bool) -> None:
        with harmless(self.event_log, "models.calls"):
            kind = KINDS[recorded.call.operation]
            tensors = [one for value in given.values() for one in (value if isinstance(value, list) else [value])]
            tensors = [one for one in tensors if isinstance(one, self.torch.Tensor)]
            if kind.pair or "all_to_all" in recorded.call.operation:
                self.calls["other"] += 1
            elif is_of_fsdp(sys._getframe(1)):
                self.calls["model"] += 1
            elif sum(one.numel() for one in tensors) <= FEW:
                self.calls["few"] += 1
            else:
                is_of_model = all(map(self._is_of_model, tensors)) or self._holds_gradients(recorded.call, tensors)
                self.calls["model" if is_of_model else "other"] += 1

    def _holds_gradients(self, call: CollectiveCall, tensors: list[Any]) -> bool:
        """Return whether the tensors of a call are copies of gradients, here or earlier at this line."""
        site = (call.place, sum(one.numel() for one in tensors))
        if call.operation != "all_reduce" or self.compared[site] >= MOST_COMPARED or site in self.of_gradients:
            return site in self.of_gradients
        self.compared[site] += 1
        gradients = [one.grad for model in self.models for one in _parameters_of(model.network())]
        gradients = [one for one in gradients if one is not None]
        ranks = len(self.event_log.calls.groups.get(call.group, ()))
        if all(holds_gradients(one, gradients, ranks) for one in tensors):
            self.of_gradients.add(site)
        return site in self.of_gradients

    def _is_of_model(self, tensor: Any) -> bool:
        """Return whether a tensor is a parameter or a gradient, or as large as all of a model."""
        address = address_of(tensor)
        if address not in self.addresses and self.stale:
            self.stale = False
            self.addresses = {
                address_of(one): (model, name if one is parameter else "")
                for model in self.models
                for name, parameter in _named(model.network())
                for one in (parameter, parameter.grad)
                if one is not None and not hasattr(one, "device_mesh")
            }
        found = self.addresses.get(address)
        if found is not None:
            model, name = found
            if name:
                model.exchanges[name] += 1
            return True
        for model in self.models:
            sizes = [one.numel() for one in _parameters_of(model.network())]
            if sizes and sum(sizes) == tensor.numel():
                model.exchanges[""] += 1
                return True
        return False

    # steps

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if self.torch._C._current_graph_task_id() != -1:
            return
        with harmless(self.event_log, "models.step"):
            held = {id(one) for group in optimizer.param_groups for one in group["params"]}
            for model in self.models:
                if model.rows < _MOST_STEPS and any(id(one) in held for one in _parameters_of(model.network())):
                    self._note(model)
            self.stale = True

    def _note(self, model: _Model) -> None:
        if not model.rows:
            held = {id(one) for one in _parameters_of(model.network())}
            model.hooked_elsewhere = hooked_elsewhere(held, list(roots_of_models()))
        model.rows += 1
        inputs, model.inputs = model.inputs, []
        self.event_log.note(
            "models.step",
            model=model.number,
            network=model.name,
            wrapped=model.wrapped,
            called_at=model.place[0],
            count=model.rows,
            inputs=inputs,
            exchanges=dict(model.exchanges),
            hooked_elsewhere=model.hooked_elsewhere,
            calls=dict(self.calls),
            parameters=list(self._digested(model)),
        )

    def _digested(self, model: _Model) -> Iterator[list[Any]]:
        """``[name, varied, gradient, parameter]`` of some parameters, or of the local parts of shards."""
        named = list(model.network().named_parameters())
        stride = -(-len(named) // _MOST_PARAMETERS) or 1
        for name, parameter in named[::stride]:
            one = getattr(parameter, "_local_tensor", parameter)
            gradient = getattr(parameter.grad, "_local_tensor", parameter.grad)
            if one.layout is not self.torch.strided or one.device.type == "meta" or not one.numel():
                continue
            if name not in model.known:
                model.known[name] = bool((one != one.detach().reshape(-1)[0]).any())
            yield [
                name,
                model.known[name],
                None if gradient is None or gradient.layout is not self.torch.strided else self.digests.of(gradient),
                self.digests.of(one),
            ]

    def _at_end(self) -> None:
        for model in self.models:
            if model.rows:
                self.event_log.note("models.last", place=("", ""), model=model.number, exchanges=dict(model.exchanges))


def _named(network: Any) -> Iterator[tuple[str, Any]]:
    return iter(()) if network is None else network.named_parameters()


def _parameters_of(network: Any) -> Iterator[Any]:
    return iter(()) if network is None else network.parameters()
