"""Optimizers whose steps change nothing, and schedulers that step once for each rank. One rank finds both by itself.

What is checked costs nothing once a job is healthy: an optimizer is observed until its first step that changes a
parameter. A scheduler costs a few microseconds at each of its steps.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity
from distcheck.core.registry import probe
from distcheck.runtime.coordination.frames import innermost_own, is_own, shown_path
from distcheck.runtime.coordination.locations import where_of

#: Steps in a row whose gradients were cleared between the backward pass and the step.
_STEPS_CLEARED = 2
#: Steps without a gradient after which an optimizer is reported at the end, if it never had one.
_STEPS_IDLE = 3
#: Steps in a row with a learning rate of zero, after higher ones: in the middle of the job, and at its end. They have
#: to be a part of all steps, too.
_STEPS_UNRATED, _LAST_STEPS_UNRATED, _PART_UNRATED = 50, 8, 0.25
#: The first of them, which have to leave the parameters as they are.
_STEPS_COMPARED = 4
#: Parameters that are compared, and elements of each.
_PARAMETERS, _ELEMENTS = 4, 64
#: A relative update that no rounding of 32 bits hides.
_UPDATE = 1e-4


class Patience(NamedTuple):
    """After how many steps an optimizer or a scheduler is reported."""

    #: without a gradient. An optimizer may collect the gradients of some steps
    without_gradient: int = 10
    #: without a change; of optimizers that are torch's own
    without_change: int = 50
    without_change_of_torch: int = 50
    #: before each of which the scheduler made as many steps as there are ranks
    bursts: int = 5


#: In a job that runs anyway, and in a rehearsal of a few steps.
PATIENT, BRIEF = Patience(), Patience(without_gradient=3, without_change_of_torch=3, bursts=2)


class IdleOptimizer(NamedTuple):
    """An optimizer whose steps change no parameter of the model."""

    rank: int
    #: line of the step
    place: str
    #: class of the optimizer, and its steps until now
    optimizer: str
    steps: int
    #: parameters with gradients that no optimizer holds; 0: its own ones have gradients, and do not change
    elsewhere: int
    #: these are shards
    sharded: bool = False
    #: line that clears the gradients between the backward pass and the step; "": none does
    cleared_at: str = ""
    #: steps with a learning rate above zero before these ones, whose rate is zero; 0: theirs is not zero
    rated: int = 0


class ScheduleBurst(NamedTuple):
    """A scheduler that makes several steps at one line for each step of its optimizer."""

    rank: int
    place: str
    scheduler: str
    #: steps of the scheduler for one of the optimizer: the number of ranks
    steps: int
    #: line of the optimizer's step
    step_place: str


@probe(rules.DC752, rules.DC766)
def steps_change_parameters(idle: IdleOptimizer) -> Iterator[Finding]:
    """Report an optimizer that holds other tensors than the model, or whose steps change nothing."""
    if idle.cleared_at:
        why = f"its gradients are set to zero between the backward pass and the step at {idle.place}"
        fix = "call zero_grad() before the backward pass, or after the step"
    elif idle.rated:
        why = f"its learning rate was above zero for {idle.rated} steps, and is zero since"
        fix = (
            "make the schedule as long as the training, in steps of one rank: len(loader) is the share of a rank "
            "already where a sampler divides the data"
        )
    elif idle.elsewhere:
        elsewhere = f"{idle.elsewhere} parameters with gradients are in no optimizer"
        why = f"none of its parameters has had a gradient, and {elsewhere}"
        fix = "build the optimizer from the parameters of the trained model, after it was wrapped, sharded or copied"
    else:
        why = "its parameters have gradients, and each step leaves them as they are"
        fix = "check the learning rate, and what the step of this optimizer does"
    rule = rules.DC752 if idle.sharded else rules.DC766
    yield rule.found(
        f"{idle.steps} steps of {idle.optimizer} have changed no parameter: {why}",
        where=where_of(idle.cleared_at or idle.place, [idle.rank]),
        severity=Severity.WARNING,
        evidence={"optimizer": idle.optimizer, "steps": idle.steps, "parameters_elsewhere": idle.elsewhere},
        fix=Fix(fix, where="code"),
    )


@probe(rules.DC765)
def schedules_step_once(burst: ScheduleBurst) -> Iterator[Finding]:
    """Report a scheduler that steps as often as there are ranks."""
    yield rules.DC765.found(
        f"{burst.scheduler} steps {burst.steps} times here for each step of the optimizer at {burst.step_place}: "
        "once for each rank",
        where=where_of(burst.place, [burst.rank]),
        evidence={"scheduler": burst.scheduler, "steps": burst.steps, "optimizer_step_at": burst.step_place},
        fix=Fix(
            "call scheduler.step() once on each rank, and count the steps of one rank where the schedule has a length",
            where="code",
        ),
    )


class _Updates:
    """What is known of one optimizer."""

    def __init__(self) -> None:
        #: steps so far without any gradient; -1: one had a gradient
        self.without_gradient = 0
        #: steps that should have changed a parameter, and did not; -1: one did
        self.unchanged = 0
        #: the highest learning rate of a step so far
        self.highest = 0.0
        #: steps with a learning rate above zero, and those with none since the last of them; -1: reported, or another
        #: thing moves its parameters
        self.rated = self.unrated = 0
        #: elements of parameters before the step, and whether they have to change
        self.before: list[tuple[Any, Any, Any]] = []
        #: steps so far after gradients were cleared; -1: one had a gradient
        self.cleared = 0
        #: line that cleared gradients since the last step
        self.cleared_at = ""
        #: what it left, and the hook by which a backward pass that follows is seen: it may give zeros as well
        self.gradients: list[int] = []
        self.hook: Any = None

    def see_backward(self, _: Any) -> None:
        """A backward pass has given a gradient after one was cleared."""
        self.cleared_at = ""


class _Schedule:
    """The steps of one scheduler since the last step of its optimizer."""

    def __init__(self, kind: str) -> None:
        #: class of the scheduler
        self.kind = kind
        self.steps = 0
        self.bursts = 0
        #: line of the last step of its optimizer
        self.step_place = ""
        self.places: set[str] = set()
        #: a backward pass, or the step of another optimizer, came between two of them
        self.apart = False
        self.moment: tuple[int, int, int] = (0, 0, 0)
        #: a parameter that has had a gradient
        self.parameter: Any = None


class UpdateObserver:
    """Observes the optimizers and schedulers of this process.

    :param rank_and_sizes: returns the rank, and the sizes of the groups among which models are replicated
    """

    def __init__(self, rank_and_sizes: Callable[[], tuple[int, frozenset[int]]], patience: Patience = PATIENT) -> None:
        self._patience = patience
        self.found: deque[IdleOptimizer | ScheduleBurst] = deque(maxlen=8)
        self._rank_and_sizes = rank_and_sizes
        #: of all optimizers
        self._steps = 0
        self._updates: weakref.WeakKeyDictionary[Any, _Updates] = weakref.WeakKeyDictionary()
        self._schedules: weakref.WeakKeyDictionary[Any, _Schedule] = weakref.WeakKeyDictionary()
        #: of schedulers that were collected, too
        self._all_schedules: list[_Schedule] = []
        self._group: tuple[int, frozenset[int]] = (0, frozenset())
        #: optimizers without a gradient up to now
        self._idle: list[tuple[_Updates, IdleOptimizer]] = []
        #: the last step of an optimizer
        self._last: IdleOptimizer | None = None

    def forget(self) -> None:
        """Forget the parent's optimizers, in a fork."""
        self.found.clear()
        self._updates.clear()
        self._schedules.clear()
        self._all_schedules.clear()
        self._idle.clear()
        self._last = None

    def finish(self) -> None:
        """Report optimizers that never had a gradient, and count the last steps of schedulers: the script has ended.

        A learning rate that is zero up to the end is reported as well.
        """
        if self._last is not None:
            self._report_unrated(self._last, _LAST_STEPS_UNRATED)
            self._last = None
        for schedule in self._all_schedules:
            if schedule.step_place:
                self._end_of_burst(schedule, schedule.step_place)
        self._all_schedules.clear()
        while self._idle:
            updates, idle = self._idle.pop()
            if updates.without_gradient > 0:
                self.found.append(idle._replace(steps=updates.without_gradient))

    # optimizers

    def before_step(self, torch: Any, optimizer: Any, place: str) -> None:
        """Observe an optimizer right before it makes a step from gradients."""
        self._steps += 1
        updates = self._updates.get(optimizer)
        if updates is None:
            updates = self._updates[optimizer] = _Updates()
        if updates.without_gradient >= 0:
            self._expect_gradients(torch, optimizer, updates, place)
        self._expect_rate(optimizer, updates, place)
        updates.before = []
        if updates.cleared >= 0:
            self._expect_uncleared(optimizer, updates, place)
        if 0 < updates.unrated <= _STEPS_COMPARED:
            updates.before = self._unrated(torch, optimizer)
        elif updates.unchanged >= 0 and updates.without_gradient < 0:
            updates.before = self._before(torch, optimizer, updates)
        for scheduler, schedule in self._schedules.items():
            if getattr(scheduler, "optimizer", None) is optimizer:
                self._end_of_burst(schedule, place)

    def after_step(self, torch: Any, optimizer: Any, place: str) -> None:
        """Compare the parameters with those before the step."""
        updates = self._updates.get(optimizer)
        if updates is None or not updates.before:
            return
        before, updates.before = updates.before, []
        with torch.no_grad():
            if any(bool((_elements(one) != old).any()) for one, old, _ in before):
                updates.unchanged = -1
                if updates.unrated > 0:  # an optimizer may move parameters by more than its rate, as by noise
                    updates.unrated = -1
            elif any(bool(due.any()) for _, _, due in before):
                updates.unchanged += 1
        of_torch = type(optimizer).__module__.startswith("torch.optim.")
        if updates.unchanged == (self._patience.without_change_of_torch if of_torch else self._patience.without_change):
            self.found.append(self._idle_of(optimizer, place, updates.unchanged))
            updates.unchanged = -1

    def _expect_rate(self, optimizer: Any, updates: _Updates, place: str) -> None:
        """Count the steps since the learning rate is zero. Reading one that is a tensor may wait for the device."""
        rates = [group.get("lr") for group in optimizer.param_groups]
        if updates.unrated < 0 or not all(isinstance(rate, (int, float)) for rate in rates):
            return
        if any(rates) or updates.rated == 0:
            updates.rated += any(rates)
            updates.unrated, self._last = 0, None
            return
        updates.unrated += 1
        self._last = self._idle_of(optimizer, place, updates.unrated)._replace(rated=updates.rated)
        self._report_unrated(self._last, _STEPS_UNRATED)

    def _report_unrated(self, last: IdleOptimizer, least: int) -> None:
        """Report steps with a learning rate of zero, if no optimizer of this process has another one."""
        updates = list(self._updates.values())
        enough = last.steps >= max(least, _PART_UNRATED * (last.steps + last.rated))
        if enough and all(one.unrated > 0 for one in updates):
            self.found.append(last)
            for one in updates:
                one.unrated = -1

    def _expect_gradients(self, torch: Any, optimizer: Any, updates: _Updates, place: str) -> None:
        if any(one.grad is not None for one in _parameters(optimizer)):
            updates.without_gradient = -1
            return
        updates.without_gradient += 1
        patience = self._patience.without_gradient
        if updates.without_gradient not in (_STEPS_IDLE, patience):
            return
        elsewhere, sharded = self._without_optimizer(torch, optimizer)
        idle = self._idle_of(optimizer, place, updates.without_gradient, elsewhere, sharded)
        if updates.without_gradient == patience:
            updates.without_gradient = -1
            if elsewhere:
                self.found.append(idle)
        elif elsewhere:
            self._idle.append((updates, idle))

    def _expect_uncleared(self, optimizer: Any, updates: _Updates, place: str) -> None:
        cleared_at, updates.cleared_at = updates.cleared_at, ""
        if any(_is_nonzero(one.grad) for one in _parameters(optimizer)):
            updates.cleared = -1
            if updates.hook is not None:
                updates.hook.remove()
        elif cleared_at and updates.gradients == _ids(optimizer):
            updates.cleared += 1
            if updates.cleared == _STEPS_CLEARED:
                rank, _ = self._rank_and_sizes()
                steps, updates.cleared = updates.cleared, -1
                self.found.append(IdleOptimizer(rank, place, type(optimizer).__name__, steps, 0, cleared_at=cleared_at))

    def observe_clearing(self, torch: Any, kind: Any) -> None:
        """Observe ``zero_grad`` of optimizers, or of modules."""
        real = kind.zero_grad
        if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):  # torch 2.1
            return

        @functools.wraps(real)
        def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
            observed = [(one, updates) for one, updates in self._updates.items() if updates.cleared >= 0]
            # the gradients that a step has used are zero as well, or it is not observed any more
            cleared = [one for one in observed if _are_of_backward(torch, one[0])]
            for optimizer, updates in cleared:
                if updates.hook is None:
                    trained = next(one for one in _parameters(optimizer) if _is_nonzero(one.grad))
                    updates.hook = trained.register_post_accumulate_grad_hook(updates.see_backward)
            real(owner, *args, **kwargs)
            for optimizer, updates in cleared:
                updates.cleared_at = innermost_own(sys._getframe(1))[0]
                updates.gradients = _ids(optimizer)

        kind.zero_grad = zero_grad

    def _without_optimizer(self, torch: Any, optimizer: Any) -> tuple[int, bool]:
        """Return the number of parameters that look like those of an optimizer, have gradients, and are in none.

        The second value: they are shards.
        """
        wanted = [tuple(one.shape) for one in _parameters(optimizer) if one.requires_grad]
        held = {id(one) for other in self._updates for one in _parameters(other)}
        shapes: list[tuple[int, ...]] = []
        sharded = False
        for one in gc.get_objects():
            # isinstance() would call a proxy. A DTensor is a parameter by an attribute
            if torch.Tensor in type(one).__mro__ and one.is_leaf and id(one) not in held and one.grad is not None:
                flat = getattr(one, "_is_flat_param", False)
                sharded = sharded or flat or hasattr(one, "device_mesh")
                shapes.append(() if flat else tuple(one.shape))
        # a flat parameter of FSDP has no shape of the model
        if () not in shapes and 2 * sum(shape in shapes for shape in wanted) <= len(wanted):
            # a part of a model that the script does not train on purpose
            return 0, False
        return len(shapes) if wanted else 0, sharded

    def _before(self, torch: Any, optimizer: Any, updates: _Updates) -> list[tuple[Any, Any, Any]]:
        """Return what the step should change; nothing if its learning rate is zero, or the highest up to now."""
        rates = [group.get("lr") for group in optimizer.param_groups]
        if not all(isinstance(rate, (int, float)) and rate > 0 for rate in rates):
            return []
        highest, updates.highest = updates.highest, max(updates.highest, *rates)
        if updates.highest > highest:
            return []  # it is warming up: updates may still be too small for the number format
        rated = [(one, group["lr"]) for group in optimizer.param_groups for one in group["params"]]
        rated = [(one, rate) for one, rate in rated if _is_plain(torch, one) and one.grad is not None]
        rated = [(one, rate) for one, rate in rated if _is_plain(torch, one.grad) and one.grad.shape == one.shape]
        chosen = rated[:: -(-len(rated) // _PARAMETERS) or 1]
        with torch.no_grad():
            found = []
            for one, rate in chosen:
                old, gradient = _elements(one).clone(), _elements(one.grad)
                due = torch.isfinite(gradient) & (gradient != 0) & (gradient.abs() * rate >= _UPDATE * old.abs())
                found.append((one, old, due))
            return found

    def _unrated(self, torch: Any, optimizer: Any) -> list[tuple[Any, Any, Any]]:
        """Return what a step with a learning rate of zero should leave as it is."""
        plain = [one for one in _parameters(optimizer) if _is_plain(torch, one)]
        with torch.no_grad():
            return [
                (one, old, torch.zeros_like(old, dtype=torch.bool))
                for one in plain[:: -(-len(plain) // _PARAMETERS) or 1]
                for old in [_elements(one).clone()]
            ]

    def _idle_of(
        self, optimizer: Any, place: str, steps: int, elsewhere: int = 0, sharded: bool = False
    ) -> IdleOptimizer:
        rank, _ = self._rank_and_sizes()
        return IdleOptimizer(rank, place, type(optimizer).__name__, steps, elsewhere, sharded)

    # schedulers

    def attach_schedulers(self, module: Any) -> None:
        """Observe each step of a scheduler; its own function keeps the script's line in its warnings."""
        context_manager = getattr(module, "_enable_get_lr_call", None)
        if context_manager is None:
            return  # a later torch: its schedulers are not observed, and the script goes on
        real = context_manager.__enter__

        def enter(context: Any) -> Any:
            frame: FrameType | None = sys._getframe(1)
            path = sys._getframe(1).f_code.co_filename
            called = set()
            while frame is not None and frame.f_code.co_filename == path:
                called.add(frame.f_code.co_name)
                frame = frame.f_back
            # not the first step in its constructor, nor one by another scheduler or a library
            if frame is not None and called <= {"step", "_update_lr"} and is_own(frame.f_code.co_filename):
                scheduler = getattr(context, "o", None)
                if scheduler is not None and getattr(scheduler, "optimizer", None) is not None:
                    self._scheduled(scheduler, f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}")
            return real(context)

        context_manager.__enter__ = enter

    def _scheduled(self, scheduler: Any, place: str) -> None:
        schedule = self._schedules.get(scheduler)
        if schedule is None:
            schedule = self._schedules[scheduler] = _Schedule(type(scheduler).__name__)
            self._all_schedules.append(schedule)
        if schedule.parameter is None:
            parameters = _parameters(scheduler.optimizer)
            schedule.parameter = next((one for one in parameters if one.grad is not None), None)
        gradient = getattr(schedule.parameter, "grad", None)
        # a DTensor's own number stays as it is
        version = 0 if gradient is None else getattr(gradient, "_local_tensor", gradient)._version
        moment = (self._steps, id(gradient), version)
        schedule.apart = schedule.apart or (schedule.steps > 0 and moment != schedule.moment)
        schedule.moment = moment
        schedule.steps += 1
        schedule.places.add(place)

    def _end_of_burst(self, schedule: _Schedule, step_place: str) -> None:
        steps, places, apart = schedule.steps, schedule.places, schedule.apart
        schedule.step_place = step_place
        if not steps and not schedule.bursts:
            return
        schedule.steps, schedule.places, schedule.apart = 0, set(), False
        rank, sizes = self._rank_and_sizes()
        if not sizes:  # the group is destroyed
            rank, sizes = self._group
        self._group = rank, sizes
        alike = steps > 1 and steps in sizes and len(places) == 1 and not apart
        schedule.bursts = schedule.bursts + 1 if alike else 0
        if schedule.bursts == self._patience.bursts:
            self.found.append(ScheduleBurst(rank, places.pop(), schedule.kind, steps, step_place))


def _parameters(optimizer: Any) -> Iterator[Any]:
    return (one for group in optimizer.param_groups for one in group["params"])


def _are_of_backward(torch: Any, optimizer: Any) -> bool:
    """Return whether an optimizer has gradients, and no overflow for which the script may skip the step."""
    gradients = [one.grad for one in _parameters(optimizer) if _is_nonzero(one.grad)]
    return bool(gradients) and all(bool(torch.isfinite(_values(one)).all()) for one in gradients)


def _ids(optimizer: Any) -> list[int]:
    """Return which gradients an optimizer has. A clip changes them in place."""
    return [id(getattr(one.grad, "_local_tensor", one.grad)) for one in _parameters(optimizer)]


def _is_nonzero(gradient: Any) -> bool:
    return gradient is not None and bool(_values(gradient).any())


def _values(tensor: Any) -> Any:
    """Return the elements of a tensor that this rank holds; of a sparse one those that are stored."""
    local = getattr(tensor, "_local_tensor", tensor).detach()
    return local._values() if local.is_sparse else local


def _is_plain(torch: Any, tensor: Any) -> bool:
    """Return whether the elements of a tensor are numbers of 32 bits or more, in one piece on this rank."""
    if hasattr(tensor, "device_mesh") or tensor.layout is not torch.strided or tensor.is_meta:
        return False
    return bool(tensor.is_contiguous() and tensor.is_floating_point() and tensor.element_size() >= 4)


def _elements(tensor: Any) -> Any:
    """Return evenly spread elements of a tensor."""
    flat = tensor.detach().view(-1)
    return flat[:: -(-flat.numel() // _ELEMENTS) or 1]
