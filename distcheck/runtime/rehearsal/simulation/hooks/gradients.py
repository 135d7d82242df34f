"""Log what happens to models that DDP wraps: at each optimizer step digests of gradients and parameters, which forwards
go through the wrapper and which bypass it, and what changes after the wrapping.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType
from typing import Any

from distcheck.runtime.coordination.digests import Digests
from distcheck.runtime.coordination.frames import innermost_own, is_own, shown_path
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.coordination.wrapped_models import members_of, state_of
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Parameters of one model that are compared.
_MOST_PARAMETERS = 64
#: Steps of one optimizer that are all written down; behind them only some are.
_FIRST_STEPS = 12
#: Lines of forwards around the wrapper that one step names.
_MOST_AROUND = 5
#: Forwards around a wrapper that are kept.
_MOST_EVENTS = 2_000


class _Model:
    """One model that DDP has wrapped."""

    def __init__(self, number: int, ddp: Any, place: tuple[str, str], ignored: frozenset[str]) -> None:
        self.number = number
        self.ddp = weakref.ref(ddp)
        self.place = place
        self.ignored = ignored
        self.members = members_of(ddp.module, ignored)
        #: forwards with gradients through the wrapper, and whether the last one of them was to reduce
        self.forwards = 0
        self.synced = False
        #: forwards that were to reduce, and how many there were at the last step of each optimizer
        self.reducing = 0
        self.reducing_before: dict[int, int] = {}
        #: a backward pass ran outside of no_sync() after a forward inside of it
        self.backward_outside = False
        #: forwards with gradients around it: call site, function, whether the module was in training mode
        self.around: list[tuple[str, str, bool]] = []
        #: how many of both there were at the last steps of any optimizer, the newest last
        self.stepped = [(0, 0)]

    def before_this(self) -> tuple[int, int]:
        """How many forwards there were when the last step before these ones was made, for an optimizer that is new."""
        now = (self.forwards, len(self.around))
        if self.stepped[-1] != now:
            self.stepped = [self.stepped[-1], now]
        return self.stepped[0]


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``gradients.wrap``, ``.step``, ``.last``, ``.switch`` and ``.move``."""
    attach_to("torch", event_log, "gradients", lambda torch: _GradientHook(event_log, torch).attach())


class _GradientHook:
    """All models of this process that DDP owns."""

    def __init__(self, event_log: EventLog, torch: Any) -> None:
        self.event_log = event_log
        self.torch = torch
        self.digests = Digests(torch)
        self.models: list[_Model] = []
        #: by id: modules below a wrapper, and parameters of one
        self.modules: dict[int, tuple[weakref.ref[Any], _Model]] = {}
        self.parameters: dict[int, tuple[weakref.ref[Any], _Model, str]] = {}
        #: forwards of wrappers that are under way, and the module that one around them began with
        self.inside = 0
        self.outermost: Any = None
        self.moving = False
        self.reported: set[tuple[Any, ...]] = set()
        self.optimizers: weakref.WeakKeyDictionary[Any, _StepCounter] = weakref.WeakKeyDictionary()

    def attach(self) -> None:
        torch = self.torch
        if not torch.distributed.is_available():
            return
        ddp = torch.nn.parallel.DistributedDataParallel
        wrap(ddp, "__init__", self._wrapped)
        wrap(ddp, "forward", self._forward)
        wrap(torch.nn.Module, "_apply", self._applied)
        wrap(torch.autograd, "backward", self._backward)
        self._forwards_around()
        self._switches()
        # torch.optim takes the name of this module back
        import_module("torch.optim.optimizer").register_optimizer_step_pre_hook(self._before_step)
        at_end = getattr(self.event_log, "at_end", None)
        if at_end is not None:
            at_end.append(self._at_end)

    # wrapping

    def _wrapped(self, real: Any, ddp: Any, *args: Any, **kwargs: Any) -> None:
        real(ddp, *args, **kwargs)
        with harmless(self.event_log, "gradients.wrap"):
            self._own(ddp, innermost_own(sys._getframe(1)), shared=kwargs.get("init_sync", True))

    def _own(self, ddp: Any, place: tuple[str, str], *, shared: bool) -> None:
        model = _Model(len(self.models), ddp, place, frozenset(getattr(ddp, "parameters_to_ignore", ())))
        self.models.append(model)
        for name, one in ddp.module.named_parameters():
            self.parameters[id(one)] = (weakref.ref(one), model, name)
        self._find_modules(model, ddp)
        trained = [name for name, member in model.members.items() if member.trained]
        self.event_log.note(
            "gradients.wrap",
            place=place,
            model=model.number,
            network=type(ddp.module).__name__,
            ranks=self.torch.distributed.get_process_group_ranks(ddp.process_group),
            parameters=len(model.members),
            trained=len(trained),
            shared=bool(shared),
        )

    def _find_modules(self, model: _Model, ddp: Any) -> None:
        for module in ddp.module.modules():
            self.modules[id(module)] = (weakref.ref(module), model)

    def _model_of(self, module: Any) -> _Model | None:
        found = self.modules.get(id(module))
        return found[1] if found is not None and found[0]() is module else None

    # forwards

    def _forward(self, real: Any, ddp: Any, *args: Any, **kwargs: Any) -> Any:
        model = next((one for one in self.models if one.ddp() is ddp), None)
        if model is not None and self.torch.is_grad_enabled():
            model.forwards += 1
            model.synced = _averages(ddp)
            model.reducing += model.synced
            model.backward_outside = False
        self.inside += 1
        try:
            return real(ddp, *args, **kwargs)
        finally:
            self.inside -= 1

    def _backward(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        for model in self.models:
            if not model.synced and model.forwards and _averages(model.ddp()):
                model.backward_outside = True
        return real(*args, **kwargs)

    def _forwards_around(self) -> None:
        module = self.torch.nn.modules.module
        module.register_module_forward_pre_hook(self._enters_module)
        try:
            module.register_module_forward_hook(self._exits_module, always_call=True)
        except TypeError:
            module.register_module_forward_hook(self._exits_module)

    def _enters_module(self, module: Any, *_: Any) -> None:
        if self.inside or not self.modules or not self.torch.is_grad_enabled():
            return
        outermost = self.outermost() if self.outermost is not None else None
        # a checkpointed part runs again during the backward pass
        if outermost is not None or self.torch._C._current_graph_task_id() != -1:
            return
        model = self._model_of(module)
        if model is None or model.ddp() is None:
            return
        self.outermost = weakref.ref(module)
        with harmless(self.event_log, "gradients.around"):
            if len(model.around) < _MOST_EVENTS:
                model.around.append((*self._outside(sys._getframe(1), model), bool(module.training)))

    def _exits_module(self, module: Any, *_: Any) -> None:
        if self.outermost is not None and self.outermost() is module:
            self.outermost = None

    def _outside(self, frame: FrameType | None, model: _Model) -> tuple[str, str]:
        """Return the line of the script that bypasses the wrapper: not one of the model's own methods."""
        innermost = innermost_own(frame)
        while frame is not None:
            if is_own(frame.f_code.co_filename):
                owner = frame.f_locals.get("self")
                if owner is None or self._model_of(owner) is not model:
                    return innermost_own(frame)
            frame = frame.f_back
        return innermost

    # what changes afterwards

    def _switches(self) -> None:
        kind = self.torch.nn.Parameter
        base = self.torch._C.TensorBase.requires_grad
        real = self.torch._C.TensorBase.requires_grad_

        def assign(parameter: Any, wanted: bool) -> None:
            self._switched(parameter, wanted, base.__get__(parameter))
            base.__set__(parameter, wanted)

        def requires_grad_(parameter: Any, requires_grad: bool = True) -> Any:
            self._switched(parameter, requires_grad, base.__get__(parameter))
            return real(parameter, requires_grad)

        kind.requires_grad = property(base.__get__, assign)
        kind.requires_grad_ = requires_grad_

    def _switched(self, parameter: Any, wanted: Any, before: bool) -> None:
        found = self.parameters.get(id(parameter))
        if found is None or found[0]() is not parameter or bool(wanted) is before:
            return
        with harmless(self.event_log, "gradients.switch"):
            place = innermost_own(sys._getframe(2))
            model, name = found[1], found[2]
            key = ("switch", model.number, place, bool(wanted))
            if key not in self.reported and model.ddp() is not None:
                self.reported.add(key)
                self.event_log.note(
                    "gradients.switch",
                    place=place,
                    model=model.number,
                    name=name,
                    wanted=bool(wanted),
                    forwards=model.forwards,
                )

    def _applied(self, real: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        if self.moving or not self.models:
            return real(module, *args, **kwargs)
        before = {}
        with harmless(self.event_log, "gradients.move"):
            before = {name: (one, _where(one)) for name, one in self._owned_in(module)}
        self.moving = True
        try:
            result = real(module, *args, **kwargs)
        finally:
            self.moving = False
        with harmless(self.event_log, "gradients.move"):
            for _, (one, was) in before.items():
                if _where(one) != was:
                    model, name = self.parameters[id(one)][1:]
                    self.event_log.note(
                        "gradients.move",
                        model=model.number,
                        name=name,
                        before=was,
                        after=_where(one),
                        forwards=model.forwards,
                    )
                    break
        return result

    def _owned_in(self, module: Any) -> Iterator[tuple[str, Any]]:
        for name, one in module.named_parameters():
            found = self.parameters.get(id(one))
            if found is not None and found[0]() is one and found[1].ddp() is not None and name not in found[1].ignored:
                yield name, one

    # steps

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if not self.models or self.torch._C._current_graph_task_id() != -1:
            return None
        position = next((place for place, one in enumerate(args) if place and callable(one)), None)
        closure = args[position] if position else kwargs.get("closure")
        if not callable(closure):
            self._observe(optimizer)
            return None
        # gradients come to be inside of it
        once = _Once(closure, lambda: self._observe(optimizer))
        if position:
            return (*args[:position], once, *args[position + 1 :]), kwargs
        return args, {**kwargs, "closure": once}

    def _observe(self, optimizer: Any) -> None:
        with harmless(self.event_log, "gradients.step"):
            steps = self.optimizers.get(optimizer)
            if steps is None:
                steps = self.optimizers[optimizer] = _StepCounter(len(self.optimizers))
            steps.count += 1
            mine = {id(one) for group in optimizer.param_groups for one in group["params"]}
            for model in self.models:
                ddp = model.ddp()
                if ddp is None or not any(id(one) in mine for one in ddp.module.parameters()):
                    continue
                before = model.before_this()
                forwards, around = steps.since.get(model.number, before)
                steps.since[model.number] = (model.forwards, len(model.around))
                reducing = model.reducing - model.reducing_before.get(steps.number, 0)
                model.reducing_before[steps.number] = model.reducing
                if steps.count > _FIRST_STEPS and steps.count & (steps.count - 1):
                    continue
                self._find_modules(model, ddp)
                self.event_log.note(
                    "gradients.step",
                    model=model.number,
                    optimizer=steps.number,
                    count=steps.count,
                    forwards=model.forwards,
                    since=model.forwards - forwards,
                    synced=model.synced,
                    reduced_early=bool(reducing) and not model.synced,
                    backward_outside=model.backward_outside,
                    hooks=len(getattr(ddp, "_comm_hooks", ())),
                    own_hook=_own_hook(ddp),
                    around=_first_of(model.around[around:]),
                    parameters=list(self._digested(model, ddp, mine)),
                )

    def _at_end(self) -> None:
        """The parameters once more: what the last step made of them."""
        with harmless(self.event_log, "gradients.last"):
            for model in self.models:
                ddp = model.ddp()
                if ddp is not None:
                    steps = sum(steps.count for steps in self.optimizers.values() if model.number in steps.since)
                    self.event_log.note(
                        "gradients.last",
                        place=("", ""),
                        model=model.number,
                        forwards=model.forwards,
                        steps=steps,
                        parameters=list(self._digested(model, ddp, None)),
                    )

    def _digested(self, model: _Model, ddp: Any, mine: set[int] | None) -> Iterator[list[Any]]:
        """``[name, state, gradient, parameter]`` of some parameters, and of all that are no longer what they were."""
        torch = self.torch
        named = [(name, one) for name, one in ddp.module.named_parameters() if name not in model.ignored]
        stride = -(-len(named) // _MOST_PARAMETERS)
        odd = 0
        for position, (name, one) in enumerate(named):
            state = state_of(model.members.get(name), one)
            odd += state != "owned"
            if (position % stride and state == "owned") or odd > _MOST_PARAMETERS:
                continue
            # parts of a parameter that ranks share out among them are meant to differ
            if hasattr(one, "device_mesh") or one.layout is not torch.strided or one.device.type == "meta":
                continue
            gradient = None
            if mine is not None and id(one) in mine and one.grad is not None and one.grad.layout is torch.strided:
                gradient = self.digests.of(one.grad)
            yield [name, state, gradient, self.digests.of(one)]


class _StepCounter:
    """What an optimizer has done."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        #: model → its forwards, through and around, at the step before
        self.since: dict[int, tuple[int, int]] = {}


class _Once:
    """A closure, and something to do when it has run for the first time."""

    def __init__(self, closure: Callable[..., Any], then: Callable[[], None]) -> None:
        self.closure = closure
        self.then: Callable[[], None] | None = then

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.closure(*args, **kwargs)
        if self.then is not None:
            then, self.then = self.then, None
            then()
        return result


def _averages(ddp: Any) -> bool:
    """Return whether a forward of DDP now would let its backward pass average gradients."""
    return bool(getattr(ddp, "require_backward_grad_sync", True))


def _own_hook(ddp: Any) -> str:
    """Return the first line of the script's own communication hook; "" if it has none."""
    for hook, _ in getattr(ddp, "_comm_hooks", ()):
        code = getattr(hook, "__code__", None)
        if code is not None and is_own(code.co_filename):
            return f"{shown_path(code.co_filename)}:{code.co_firstlineno}"
    return ""


def _where(parameter: Any) -> str:
    """``cuda:0 float32``."""
    return f"{parameter.device} {str(parameter.dtype).removeprefix('torch.')}"


def _first_of(around: list[tuple[str, str, bool]]) -> list[tuple[str, str]]:
    """Lines that go around the wrapper, those in training mode first."""
    places = dict.fromkeys((place, function) for place, function, training in around if training)
    places.update(dict.fromkeys((place, function) for place, function, _ in around))
    return list(places)[:_MOST_AROUND]
