"""What the hooks share: wrapping of functions, and isolation of our own errors from the script."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .import_hook import when_imported
from .logged_events import EventSink


def wrap(owners: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function by ``around(real, *args, **kwargs)``, in one owner or in several that share it.

    :param owners: module or class, or a tuple of those; one that lacks the name is skipped
    :param name: may be dotted: ``Task.init``
    """
    path, _, name = name.rpartition(".")
    wrappers: dict[int, Any] = {}
    given = owners if isinstance(owners, tuple) else (owners,)
    holders = [getattr(owner, path) if path else owner for owner in given]
    for holder in holders:
        real = getattr(holder, name, None)
        if real is not None:
            # torch compares functions by identity (P2POp)
            setattr(holder, name, wrappers.setdefault(id(real), stand_in(_around(real, around), real, *holders)))


def _around(real: Any, around: Callable[..., Any]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return around(real, *args, **kwargs)

    return call


def stand_in(function: Any, real: Any, *owners: Any) -> Any:
    """Return ``function`` with the names of what it replaces in its owners: pickle and numba search for it by them."""
    functools.update_wrapper(function, real)
    modules = [owner.__name__ for owner in owners if isinstance(owner, ModuleType)]
    if modules:
        function.__qualname__ = function.__name__
        function.__module__ = function.__module__ if function.__module__ in modules else modules[0]
    return function


@contextmanager
def harmless(event_log: EventSink, kind: str) -> Iterator[None]:
    """Catch what fails in our own code: the event is lost, and the first error of each kind is logged."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the script must not fail because of us
        if kind not in event_log.lost:
            event_log.note("stage.hook_failed", hook=kind, why=f"{type(error).__name__}: {error}")
        event_log.count_lost(kind)


def attach_to(module: str, event_log: EventSink, kind: str, attach: Callable[[Any], object]) -> None:
    """Call ``attach`` with a module when the script has imported it; log the topic as lost if that fails."""

    def attach_or_say(imported: Any) -> None:
        try:
            attach(imported)
        except Exception as error:  # noqa: BLE001 - the import is the script's, and must not fail for it
            event_log.note("stage.hook_failed", place=("", ""), hook=kind, why=f"{type(error).__name__}: {error}")

    when_imported(module, attach_or_say)
