"""Follows processes that the script starts by ``multiprocessing``, ``mp.spawn`` included.

With ``spawn``, ``fork`` and ``forkserver``, a child calls one *entry point*, ``"module:function"``, before any code of
the script runs in it. The entry point gets a text and must be cheap: workers of a data loader call it too. It returns a
function that is called once with how the child ended.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .import_hook import when_imported
from .run_script import ScriptExit, how_it_ended, without_ours

#: What an entry point returns.
OnExit = Callable[[ScriptExit], None]

_entry_point = ("", "")
#: process ID, and what its entry point returned
_passed: tuple[int, OnExit] = (0, lambda _: None)


def follow(entry_point: str, given: str = "") -> None:
    """Let all children of this process, and their children, call an entry point.

    :param entry_point: ``"module:function"``; called as ``function(given)``
    """
    global _entry_point
    known, _entry_point = _entry_point != ("", ""), (entry_point, given)
    if not known:
        when_imported("multiprocessing.process", _around_children)
        when_imported("multiprocessing.util", _around_starts)


def begin(entry_point: str, given: str) -> None:
    """Call the entry point in a fresh Python that ``multiprocessing`` has started, before it imports the script."""
    follow(entry_point, given)
    _pass()


def serve(entry_point: str, given: str) -> None:
    """In a fork server: let its forks call the entry point before they read the script."""
    follow(entry_point, given)

    def around(module: Any) -> None:
        real = module._main

        def main(*args: Any, **kwargs: Any) -> Any:
            _pass()
            return real(*args, **kwargs)

        module._main = main

    when_imported("multiprocessing.spawn", around)


def rank_info_in(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[int, int] | None:
    """Return rank and world size from the arguments of ``init_process_group``, or from where torch reads them.

    None: only torch itself can determine them.
    """
    from urllib.parse import parse_qs, urlsplit

    given = dict(zip(("backend", "init_method", "timeout", "world_size", "rank"), args, strict=False)) | dict(kwargs)
    method = given.get("init_method")
    query = parse_qs(urlsplit(method).query) if isinstance(method, str) else {}
    found = []
    for name in ("rank", "world_size"):
        value = given.get(name, -1)
        if not isinstance(value, int) or value < 0:
            text = query[name][0] if name in query else environ.get(name.upper(), "")
            value = int(text) if text.isdigit() else -1
        found.append(value)
    rank, world_size = found
    return (rank, world_size) if 0 <= rank < world_size else None


def _pass() -> OnExit:
    """Through the entry_point, once in a process."""
    global _passed
    if _passed[0] != os.getpid():
        _passed = (os.getpid(), lambda _: None)
        name, given = _entry_point
        module, _, function = name.partition(":")
        try:
            _passed = (os.getpid(), getattr(import_module(module), function)(given))
        except Exception as error:  # noqa: BLE001 - the script's child must not suffer
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stderr.write(f"distcheck: process {os.getpid()} is not observed: {type(error).__name__}: {error}\n")
    return _passed[1]


def _around_starts(module: Any) -> None:
    """The command lines of fresh Pythons: those of ``spawn``, and the server's."""
    real = module.spawnv_passfds

    def spawnv_passfds(path: Any, words: Any, passed: Any) -> Any:
        return real(path, _with_entry_point(words), passed)

    module.spawnv_passfds = spawnv_passfds


def _with_entry_point(words: Any) -> Any:
    words = list(words)
    if "-c" in words[:-1]:
        place = words.index("-c") + 1
        code = words[place]
        first = "begin" if "multiprocessing.spawn" in code else "serve" if "multiprocessing.forkserver" in code else ""
        if first:
            words[place] = f"from {__name__} import {first}; {first}{_entry_point!r}; {code}"
    return words


def _around_children(module: Any) -> None:
    real = module.BaseProcess._bootstrap

    def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        on_exit = _once(_pass())
        self.run = _seen(self.run, on_exit)
        target = getattr(self, "_target", None)
        # torch.multiprocessing.spawn catches what its function raises, and reports it to its parent
        if getattr(target, "__name__", "") == "_wrap" and target.__module__ == "torch.multiprocessing.spawn":
            self._args = (_seen(self._args[0], on_exit), *self._args[1:])
        return real(self, *args, **kwargs)

    module.BaseProcess._bootstrap = _bootstrap


def _once(on_exit: OnExit) -> OnExit:
    calls = iter((on_exit,))

    def once(ended: ScriptExit) -> None:
        for call in calls:
            with contextlib.suppress(Exception):
                call(ended)

    return once


def _seen(function: Callable[..., Any], on_exit: OnExit) -> Callable[..., Any]:
    def seen(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            without_ours(error)
            on_exit(how_it_ended(error))
            raise
        on_exit(how_it_ended(None))
        return result

    return seen
