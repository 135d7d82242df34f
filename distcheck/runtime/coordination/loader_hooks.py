"""Watches the loaders of a rank: what is put around torch's own classes, so that :mod:`.loader_watcher` sees each pass.

Nothing is sampled, read or changed. With ``epoch_steps`` a pass ends early, as if there were less data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from .loader_watcher import TOPIC, RecordLimits, Watcher
from .logged_events import EventSink
from .patching import attach_to, wrap

_watcher: Watcher | None = None


def install(event_log: EventSink, limits: RecordLimits) -> Watcher:
    """Watch this process; where it is watched already (a fork), for another event_log from now on."""
    global _watcher
    first = _watcher is None
    _watcher = Watcher(event_log, limits)
    if first:
        for module, attach in (
            ("torch.utils.data.dataset", _attach_subsets),
            ("torch.utils.data.distributed", _attach_samplers),
            ("torch.utils.data.dataloader", _attach_loaders),
            ("torch.autograd", _attach_backward),
            ("sklearn.model_selection._split", _attach_sklearn),
        ):
            attach_to(module, event_log, TOPIC, attach)
    _watcher.parallel.install(first=first)
    event_log.at_end.append(_watcher.ending)
    return _watcher


def divides_models() -> bool:
    """Return whether ranks hold parts of a model, or may do so, as the watcher of this process knows it."""
    return _watcher is not None and _watcher.parallel.divides_models()


def _current() -> Watcher:
    assert _watcher is not None  # noqa: S101 - only patched functions call this, after install()
    return _watcher


# what is patched


def _after(owner: Any, name: str, then: Callable[..., object]) -> None:
    """Call ``then(caller, object, …)`` behind a method, in particular a constructor."""

    def around(real: Callable[..., Any], one: Any, *args: Any, **kwargs: Any) -> Any:
        result = real(one, *args, **kwargs)
        # behind this function and the one that wrap() has put there
        _current().quietly(then, sys._getframe(2), one, *args)
        return result

    wrap(owner, name, around)


def _attach_subsets(module: Any) -> None:
    _after(module.Subset, "__init__", lambda caller, subset, *_: _current().subset_made(subset, caller))


def _attach_samplers(module: Any) -> None:
    _after(module.DistributedSampler, "__init__", lambda caller, one, *_: _current().sampler_made(one, caller))


def _attach_loaders(module: Any) -> None:
    loader_type, iterator_type = module.DataLoader, module._BaseDataLoaderIter
    _after(loader_type, "__init__", lambda caller, loader, *_: _current().loader_made(loader, caller))
    if _current().limits.epoch_steps is not None:
        wrap(loader_type, "__len__", _shortened)
    _after(iterator_type, "__init__", lambda caller, one, *given: _current().pass_begins(one, given[0], caller))
    _after(iterator_type, "_reset", _reset)
    wrap(iterator_type, "_next_index", _next_index)
    wrap(iterator_type, "__next__", _next_batch)


def _reset(caller: FrameType, iterator: Any, loader: Any, first_iter: bool = False) -> None:
    # the first time it is a part of the constructor
    if not first_iter and caller.f_code.co_name != "__init__":
        _current().pass_begins(iterator, loader, caller)


def _next_index(real: Callable[..., Any], iterator: Any) -> Any:
    one = getattr(iterator, "_distcheck_pass", None)
    watcher = _current()
    if one is None:
        return real(iterator)
    if watcher.is_cut(one):
        raise StopIteration
    indices = real(iterator)
    watcher.quietly(watcher.drawn, one, indices)
    return indices


def _next_batch(real: Callable[..., Any], iterator: Any) -> Any:
    watcher = _current()
    one = getattr(iterator, "_distcheck_pass", None)
    if one is None:
        watcher.unobserved_batch()
        return real(iterator)
    try:
        batch = real(iterator)
    except StopIteration:
        watcher.quietly(watcher.pass_ended, one)
        raise
    watcher.quietly(watcher.batch_given, iterator, one, batch)
    return batch


def _shortened(real: Callable[..., int], loader: Any) -> int:
    most = _current().limits.epoch_steps
    return real(loader) if most is None else min(real(loader), most)


def _attach_backward(module: Any) -> None:
    wrap(module, "_engine_run_backward", _running_backward)


def _running_backward(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    watcher = _current()
    if not watcher.has_batches or not kwargs.get("accumulate_grad"):  # torch.autograd.grad()
        return real(*args, **kwargs)
    if sys.modules["torch"]._C._current_graph_task_id() != -1:  # that of a checkpointed part, inside of another
        return real(*args, **kwargs)
    before = watcher.quietly(watcher.parallel.before_backward)
    result = real(*args, **kwargs)
    watcher.quietly(watcher.backward, before)
    return result


def _attach_sklearn(module: Any) -> None:
    wrap(module, "train_test_split", _splitting)


def _splitting(real: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    result = real(*arrays, **options)
    _current().quietly(_current().was_split, arrays, options, result, sys._getframe(2))
    return result
