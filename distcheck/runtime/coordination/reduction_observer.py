"""Observes how gradients become those that an optimizer uses: what backward passes add, what is reduced, and the end.

A tensor is kept as a few sums of its elements with signs that have no pattern. Such sums add and scale as the tensor
does, so the ranks' sums show by which factor the gradients were averaged. Only the first steps are observed.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .digests import Digests
from .frames import is_own, shown_path
from .model import CollectiveCall
from .reductions import GradientStep

#: Parameters of one optimizer that are observed, and steps of it.
_MOST_PARAMETERS, _MOST_STEPS = 6, 12
#: Entries of one gradient between two steps that are kept.
_MOST_ENTRIES = 64
#: Elements that a clamp has to limit.
_LEAST_LIMITED = 2
#: Quotient of elements that differ by more than rounding.
_APART = 1.01


class _Gradient:
    """What has happened to one gradient since the last step."""

    def __init__(self, optimizer: Any, index: int, position: int) -> None:
        self.name = f"{position} of parameter group {index}"
        # torch cannot swap the content of a tensor that a weak reference points to
        self._optimizer = weakref.ref(optimizer)
        self._index, self._position = index, position
        self._id = id(self._found())
        #: ``[what a backward pass added]``, or the line of an ``all_reduce`` that sums or averages
        self.entries: list[Any] = []
        #: it was empty when the first backward pass came
        self.fresh = True
        #: remove the hooks
        self.hook: Any = None
        self.first_hook: Any = None
        #: line of a hook of the script, and elements of the gradient that it gets
        self.hooked_at = ""
        self.given: Any = None

    def parameter(self) -> Any:
        """Return the parameter, or None if the optimizer no longer has it there."""
        found = self._found()
        return found if id(found) == self._id else None

    def _found(self) -> Any:
        optimizer = self._optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        found = groups[self._index]["params"] if self._index < len(groups) else []
        return found[self._position] if self._position < len(found) else None


class ReductionObserver:
    """Observes the first steps of all optimizers of this process.

    :param safely: runs a function, and keeps its error from the script
    :param clamped: gets a parameter whose gradient a hook of the script limits element by element, and the hook's line;
        None: that is not observed
    """

    def __init__(
        self,
        torch: Any,
        safely: Callable[[Callable[[], None]], None],
        clamped: Callable[[Any, str], None] | None = None,
    ) -> None:
        self._torch = torch
        self._clamped = clamped
        self._safely = safely
        self._digests = Digests(torch)
        self._gradients: weakref.WeakKeyDictionary[Any, list[_Gradient]] = weakref.WeakKeyDictionary()
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        #: an optimizer has made all steps that are observed
        self.done = False

    def forget(self) -> None:
        """Forget the parent's optimizers, in a fork."""
        self._remove_hooks()
        self._steps.clear()
        self._numbers.clear()

    def stop(self) -> None:
        """Observe no more steps of any optimizer."""
        self.done = True
        self._remove_hooks()

    def _remove_hooks(self) -> None:
        for one in self._all():
            one.hook.remove()
            if one.first_hook is not None:
                one.first_hook.remove()
        self._gradients.clear()

    def on_call(self, call: CollectiveCall, tensor: Any, ranks: int) -> None:
        """Note an ``all_reduce`` of a gradient among so many ranks."""
        if call.operation != "all_reduce" or call.reduce not in ("sum", "avg") or not hasattr(tensor, "data_ptr"):
            return
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
                one.entries.append([call.reduce, call.place, ranks])

    def _all(self) -> Iterator[_Gradient]:
        for gradients in self._gradients.values():
            yield from gradients

    def before_step(self, optimizer: Any, *, rank: int, place: str, scaled: bool) -> Iterator[GradientStep]:
        """Yield the gradients of a step that is about to use them.

        :param scaled: the script scales a loss
        """
        if self.done:
            return
        known = self._gradients.get(optimizer)
        if known is None:
            self._numbers[optimizer] = len(self._numbers)
            self._gradients[optimizer] = list(self._observed(optimizer))
            self._steps[optimizer] = 1
            return
        self._steps[optimizer] += 1
        nth = self._steps[optimizer]
        for one in known:
            parameter, entries, fresh = one.parameter(), one.entries, one.fresh
            one.entries, one.fresh = [], True
            if parameter is None or not entries or parameter.grad is None or parameter.grad.is_sparse:
                continue
            yield GradientStep(
                rank, self._numbers[optimizer], nth, one.name, place, tuple(map(tuple, entries)),
                tuple(self._digests.projections(parameter.grad)), fresh and len(entries) < _MOST_ENTRIES, scaled,
            )  # fmt: skip
        if nth >= _MOST_STEPS:
            self.stop()

    def _observed(self, optimizer: Any) -> Iterator[_Gradient]:
        named = [
            (index, position, one)
            for index, group in enumerate(optimizer.param_groups)
            for position, one in enumerate(group["params"])
            if one.requires_grad and one.is_leaf and one.is_floating_point() and one.layout is self._torch.strided
            and not hasattr(one, "device_mesh") and not getattr(one, "_is_flat_param", False)
        ]  # fmt: skip
        for index, position, parameter in named[:: -(-len(named) // _MOST_PARAMETERS) or 1]:
            one = _Gradient(optimizer, index, position)
            one.hooked_at = "" if self._clamped is None else _line_of_hook(parameter)
            one.hook = parameter.register_hook(functools.partial(self._see_backward, weakref.ref(one)))
            if one.hooked_at:
                one.first_hook = parameter.register_hook(functools.partial(self._see_given, weakref.ref(one)))
                _put_first(parameter._backward_hooks, one.first_hook.id)
            yield one

    def _see_given(self, reference: Any, gradient: Any) -> None:
        """Keep what hooks of the script are about to get."""

        def keep() -> None:
            one = reference()
            if one is not None and not gradient.is_sparse and not self._is_capturing():
                one.given = self._digests.some(gradient).clone()

        if gradient is not None and not self._torch.compiler.is_compiling():
            self._safely(keep)

    def _is_capturing(self) -> bool:
        torch = self._torch
        return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())

    def _find_clamp(self, one: _Gradient, parameter: Any, gradient: Any) -> None:
        """Report a gradient that a hook has limited to a range around zero, element by element."""
        given, one.given = one.given, None
        if given is None or self._clamped is None:
            return
        got = self._digests.some(gradient)
        if got.shape != given.shape or got.dtype != given.dtype or not bool(self._torch.isfinite(given).all()):
            return
        limit, sizes = got.abs().max(), given.abs()
        limited = int((sizes > limit).sum())
        sizes = sizes[sizes > 0]
        # a factor gives the same where all elements are equal
        if limited < _LEAST_LIMITED or not bool(sizes.max() > _APART * sizes.min()):
            return
        if bool((got == given.clamp(-limit, limit)).all()):
            self._clamped(parameter, one.hooked_at)

    def _see_backward(self, reference: Any, gradient: Any) -> None:
        # a backward pass of the script's own function may give no gradient
        if gradient is not None and not self._torch.compiler.is_compiling():
            self._safely(lambda: self._note(reference(), gradient))

    def _note(self, one: _Gradient | None, gradient: Any) -> None:
        parameter = None if one is None else one.parameter()
        if one is None or parameter is None or gradient.is_sparse or len(one.entries) >= _MOST_ENTRIES:
            return
        if self._is_capturing():
            return
        if one.hooked_at:
            self._find_clamp(one, parameter, gradient)
        if not one.entries and parameter.grad is not None:
            one.fresh = not bool(parameter.grad.detach().any())
        one.entries.append(self._digests.projections(gradient))


def _line_of_hook(parameter: Any) -> str:
    """Return the line of the first hook of the script's own on a parameter; "" if there is none."""
    for hook in (parameter._backward_hooks or {}).values():
        code = getattr(getattr(hook, "func", hook), "__code__", None)
        if code is not None and is_own(code.co_filename):
            return f"{shown_path(code.co_filename)}:{code.co_firstlineno}"
    return ""


def _put_first(hooks: dict[int, Any], key: int) -> None:
    """Move one of several hooks to the front. C++ calls them in the order of insertion, whatever move_to_end() does."""
    others = {number: hook for number, hook in hooks.items() if number != key}
    first = hooks[key]
    hooks.clear()
    hooks.update({key: first, **others})
