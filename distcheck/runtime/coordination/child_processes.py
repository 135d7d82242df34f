"""Processes that the script starts by ``multiprocessing`` (``mp.spawn`` too): each begins with what its parent has.

Whether by ``spawn``, ``fork`` or ``forkserver``, a child goes through one *door*, ``"module:function"``, before
anything of the script runs in it. The door gets a text, must be cheap (workers of a loader pass it as well), and
returns what is to be called once with how the child's work ended.
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

#: What a door returns.
Told = Callable[[ScriptExit], None]

_door = ("", "")
#: process and what its door returned
_passed: tuple[int, Told] = (0, lambda _: None)


def follow(door: str, given: str = "") -> None:
    """From now on all children of this process, and their children, go through a door.

    :param door: ``"module:function"``; called as ``function(given)``
    """
    global _door
    known, _door = _door != ("", ""), (door, given)
    if not known:
        when_imported("multiprocessing.process", _around_children)
        when_imported("multiprocessing.util", _around_starts)


def begin(door: str, given: str) -> None:
    """In a fresh Python that ``multiprocessing`` has started, before it imports the script."""
    follow(door, given)
    _pass()


def serve(door: str, given: str) -> None:
    """In a fork server: what it forks passes the door before it looks at the script."""
    follow(door, given)

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
    """Rank and world size out of the arguments of ``init_process_group``, or from where torch takes them; None where
    only torch itself can tell.
    """
    from urllib.parse import parse_qs, urlsplit

    given = dict(zip(("backend", "init_method", "timeout", "world_size", "rank"), args, strict=False)) | dict(kwargs)
    method = given.get("init_method")
    asked = parse_qs(urlsplit(method).query) if isinstance(method, str) else {}
    found = []
    for name in ("rank", "world_size"):
        value = given.get(name, -1)
        if not isinstance(value, int) or value < 0:
            text = asked[name][0] if name in asked else environ.get(name.upper(), "")
            value = int(text) if text.isdigit() else -1
        found.append(value)
    rank, world_size = found
    return (rank, world_size) if 0 <= rank < world_size else None


def _pass() -> Told:
    """Through the door, once in a process."""
    global _passed
    if _passed[0] != os.getpid():
        _passed = (os.getpid(), lambda _: None)
        name, given = _door
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
        return real(path, _with_door(words), passed)

    module.spawnv_passfds = spawnv_passfds


def _with_door(words: Any) -> Any:
    words = list(words)
    if "-c" in words[:-1]:
        place = words.index("-c") + 1
        code = words[place]
        first = "begin" if "multiprocessing.spawn" in code else "serve" if "multiprocessing.forkserver" in code else ""
        if first:
            words[place] = f"from {__name__} import {first}; {first}{_door!r}; {code}"
    return words


def _around_children(module: Any) -> None:
    real = module.BaseProcess._bootstrap

    def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        told = _once(_pass())
        self.run = _seen(self.run, told)
        target = getattr(self, "_target", None)
        # torch.multiprocessing.spawn catches what its function raises, and tells its parent
        if getattr(target, "__name__", "") == "_wrap" and target.__module__ == "torch.multiprocessing.spawn":
            self._args = (_seen(self._args[0], told), *self._args[1:])
        return real(self, *args, **kwargs)

    module.BaseProcess._bootstrap = _bootstrap


def _once(told: Told) -> Told:
    calls = iter((told,))

    def once(ended: ScriptExit) -> None:
        for call in calls:
            with contextlib.suppress(Exception):
                call(ended)

    return once


def _seen(function: Callable[..., Any], told: Told) -> Callable[..., Any]:
    def seen(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            without_ours(error)
            told(how_it_ended(error))
            raise
        told(how_it_ended(None))
        return result

    return seen
