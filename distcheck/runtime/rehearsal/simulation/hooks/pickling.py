"""What could not be pickled on its way to another process or to a file, and where in it the offender sits."""

from __future__ import annotations

import os
import pickle
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from distcheck.runtime.coordination.frames import innermost_own
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

from .call_sites import outer

#: Objects of one walk, and offenders of one refusal that are written down.
_MOST_OBJECTS = 200_000
_MOST_OFFENDERS = 5
_OF_TORCH = os.path.join("torch", "distributed", "")
#: Function → which argument is pickled, and its name.
_OBJECTS = {
    "save": (0, "obj"),
    "all_gather_object": (1, "obj"),
    "gather_object": (0, "obj"),
    "broadcast_object_list": (0, "object_list"),
    "scatter_object_list": (1, "scatter_object_input_list"),
    "send_object_list": (0, "object_list"),
}


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``pickling.refused``."""
    watch = _PicklingHook(event_log)
    attach_to("multiprocessing.process", event_log, "pickling", watch.attach_processes)
    attach_to("copy", event_log, "pickling", watch.attach_copies)
    attach_to("torch", event_log, "pickling", watch.attach_torch)


class _PicklingHook:
    """Inspects an object only after its pickling failed."""

    def __init__(self, event_log: EventLog) -> None:
        self.event_log = event_log
        #: process → the line that made it
        self.made: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()
        self.copying = False

    def attach_processes(self, module: Any) -> None:
        wrap(module.BaseProcess, "__init__", self._make)
        wrap(module.BaseProcess, "start", self._start)

    def attach_copies(self, module: Any) -> None:
        wrap(module, "deepcopy", self._deepcopy)

    def attach_torch(self, torch: Any) -> None:
        wrap((torch, torch.serialization), "save", self._send)
        if torch.distributed.is_available():
            for name in _OBJECTS.keys() - {"save"}:
                wrap((torch.distributed.distributed_c10d, torch.distributed), name, self._send)

    def _make(self, real: Any, process: Any, *args: Any, **kwargs: Any) -> None:
        real(process, *args, **kwargs)
        with harmless(self.event_log, "pickling.made"):
            self.made[process] = innermost_own(sys._getframe(1))

    def _start(self, real: Any, process: Any) -> Any:
        try:
            return real(process)
        except Exception as error:
            with harmless(self.event_log, "pickling.refused"):
                self._note("spawn", error, _given(process), self.made.get(process))
            raise

    def _deepcopy(self, real: Any, x: Any, memo: Any = None, *rest: Any) -> Any:
        if self.copying or memo is not None:
            return real(x, memo, *rest)
        self.copying = True
        try:
            return real(x, memo, *rest)
        except Exception as error:
            with harmless(self.event_log, "pickling.refused"):
                # torch.distributed copies objects of its own; the script can't change those
                caller = outer(sys._getframe(1))
                if caller is None or _OF_TORCH not in caller.f_code.co_filename:
                    self._note("deepcopy", error, [("obj", x)])
            raise
        finally:
            self.copying = False

    def _send(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except Exception as error:
            with harmless(self.event_log, "pickling.refused"):
                position, name = _OBJECTS[real.__name__]
                value = kwargs.get(name, args[position] if position < len(args) else None)
                if real.__name__ == "save":
                    self._note("torch.save", error, [(name, value)])
                else:
                    self._note("collective", error, [(name, value)], operation=real.__name__)
            raise

    def _note(
        self,
        mode: str,
        error: Exception,
        given: list[tuple[str, Any]],
        made: tuple[str, str] | None = None,
        operation: str = "",
    ) -> None:
        """Log only errors of pickling: a full disk or a lost peer has other causes."""
        if not _is_about_pickling(error):
            return
        offenders = [one for name, value in given for one in _offenders(name, value, mode)][:_MOST_OFFENDERS]
        if offenders:
            self.event_log.note(
                "pickling.refused",
                mode=mode,
                operation=operation,
                error=f"{type(error).__name__}: {error}".splitlines()[0],
                made=list(made or ()),
                offenders=offenders,
            )


def _is_about_pickling(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, pickle.PicklingError) or any(
        words in text for words in ("pickl", "Pickl", "local object", "only be shared", "being shared with a process")
    )


def _given(process: Any) -> list[tuple[str, Any]]:
    """What a fresh process gets, by the names under which the script knows it."""
    target, arguments = process._target, list(process._args)
    if getattr(target, "__module__", "") == "torch.multiprocessing.spawn" and len(arguments) > 2:
        # mp.spawn: its own function gets the script's, the index, and the script's arguments
        return [("the function", arguments[0]), *_numbered(arguments[2])]
    if getattr(target, "__module__", "").startswith("torch.utils.data"):
        names = target.__code__.co_varnames
        return [(name, value) for name, value in zip(names, arguments, strict=False) if not name.endswith("queue")]
    named = [(f"kwargs[{name!r}]", value) for name, value in process._kwargs.items()]
    return [("the function", target), *_numbered(arguments), *named]


def _numbered(arguments: Any) -> list[tuple[str, Any]]:
    return [(f"args[{position}]", value) for position, value in enumerate(arguments)]


def _offenders(name: str, value: Any, mode: str) -> Iterator[dict[str, Any]]:
    from distcheck.checks.pickles.api import find_unpicklable

    for found in find_unpicklable(value, mode=mode, name=name, limit=_MOST_OBJECTS).offenders[:_MOST_OFFENDERS]:
        yield {"path": found.place, "type": found.type, "why": found.why, "fix": found.fix, "kind": found.kind}
