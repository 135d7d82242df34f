"""Logs which files this rank writes, reads and moves, which folders it makes, and what it downloads.

Python's audit events report what Python opens. What torch and safetensors write in C++ and Rust is observed at their
Python functions. Each row has the path as the script names it and the logical time (:mod:`.clock`).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import local
from types import FrameType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from distcheck.runtime.coordination.frames import innermost_own, is_own
from distcheck.runtime.coordination.patching import attach_to, stand_in, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.overlay import CODE, WHITEOUT, OverlaySettings, settings_of
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.protected_paths import CACHES, FileSystem, below, caches, ground

from .call_sites import asked_at, fetcher, folder_call, folder_options, is_called_by_own, is_caught, library_call
from .clock import LogicalClock

#: Files that were there before, of which reading is noted; a data set may have millions.
_MOST_OLD = 2_000
_MOST_KNOWN = 50_000
#: Functions whose compiled code opens files: module, function, position of the path, what they do, their shown name.
_WRITERS = (
    ("torch.serialization", "_open_zipfile_writer_file.__init__", 1, "write", "torch.save"),
    ("torch.jit", "save", 1, "write", "torch.jit.save"),
    ("safetensors.torch", "save_file", 1, "write", "save_file"),
    ("safetensors.torch", "load_file", 0, "read", "load_file"),
    ("safetensors.numpy", "save_file", 1, "write", "save_file"),
    ("safetensors.numpy", "load_file", 0, "read", "load_file"),
    ("gdown", "download", 0, "fetch", "gdown.download"),
)


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Listen, from here on and in every fork."""
    _Files(event_log, plan, settings_of(plan.private)).listen()


class _Files:
    def __init__(self, event_log: EventLog, plan: RehearsalPlan, settings: OverlaySettings) -> None:
        self.event_log = event_log
        self.settings = settings
        own = [plan.folder, *([] if plan.module else [os.path.dirname(os.path.join(plan.folder, plan.target))])]
        self.ground: FileSystem = settings.ground if settings.own else ground(os.environ, own, plan.private)
        self.clock = LogicalClock(event_log)
        self.begun = event_log.begun
        self._busy = local()
        self._folders: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._caches: tuple[str, ...] = ()
        self._known: set[tuple[Any, ...]] = set()
        self._old = 0
        self._libraries = tuple({os.path.join(prefix, "lib") + os.sep for prefix in (sys.prefix, sys.base_prefix)})
        self._events: dict[str, Callable[..., None]] = {
            "open": self._opened,
            "os.mkdir": self._made,
            "os.rename": self._renamed,
            "os.remove": self._removed,
            "shutil.rmtree": self._tree_removed,
            "os.listdir": self._listed,
            "os.scandir": self._listed,
            "urllib.Request": self._fetched,
        }

    def listen(self) -> None:
        self.clock.watch()
        self._watch_questions()
        events, busy = self._events, self._busy

        def audit(event: str, args: tuple[Any, ...]) -> None:
            see = events.get(event)
            if see is not None and not getattr(busy, "on", False):
                frame = sys._getframe(1)
                with self._own_work(event):
                    see(frame, *args)

        sys.addaudithook(audit)
        for module, function, position, kind, shown in _WRITERS:
            watch = functools.partial(self._watch_argument, function, position, kind, shown)
            attach_to(module, self.event_log, f"files ({module})", watch)

    @contextmanager
    def _own_work(self, kind: str) -> Iterator[None]:
        """Ignore what this module itself opens, and lose an event rather than fail."""
        self._busy.on = True
        try:
            yield
        except Exception:  # noqa: BLE001 - the script must not fail because of us
            self.event_log.count_lost(kind)
        finally:
            self._busy.on = False

    # paths

    def user_path(self, path: Any) -> str | None:
        """The absolute path of a file of the user's; None for all others."""
        if isinstance(path, int) or path is None:
            return None
        text = os.fsdecode(path)
        folder, name = os.path.split(os.path.abspath(text))
        real = self._folders.get(folder)
        if real is None:
            if len(self._folders) > _MOST_KNOWN:
                self._folders.clear()
            real = self._folders[folder] = os.path.realpath(folder)
        full = os.path.join(real, name)
        shadow = self.settings.shadow
        if shadow and full.startswith(shadow + os.sep):
            full = full[len(shadow) :]
        if (
            full.endswith((*CODE, WHITEOUT))
            or f"{os.sep}__pycache__{os.sep}" in full
            or f"{os.sep}.git{os.sep}" in full
        ):
            return None
        return full if self.ground.is_users(full) and not self._is_cached(full) else None

    def _is_cached(self, full: str) -> bool:
        """Return whether a variable names a cache there, perhaps set by the script: libraries guard what they share."""
        named = {name: value for name in CACHES if (value := os.environ.get(name))}
        if named != self._named:
            self._named = named
            self._caches = caches({name: os.path.abspath(value) for name, value in named.items()}, self.ground.own)
        return any(below(full, folder) for folder in self._caches)

    def _first_time(self, *key: Any) -> bool:
        if key in self._known or len(self._known) > _MOST_KNOWN:
            return False
        self._known.add(key)
        return True

    # what was done

    def _opened(self, frame: FrameType, path: Any, mode: Any, flags: int) -> None:
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            full = self.user_path(path)
            if full is not None:
                how = "append" if flags & os.O_APPEND else "create" if flags & os.O_EXCL else ""
                self._note_write(full, "open" if mode is not None else "os.open", how or self._kind(flags), frame)
        else:
            self._read(frame, path, "open")

    def _kind(self, flags: int) -> str:
        return "truncate" if flags & os.O_TRUNC else "update"

    def _note_write(self, full: str, how: str, mode: str, frame: FrameType | None) -> None:
        place, clock = innermost_own(frame), self.clock.now()
        if not self._first_time("write", full, place, tuple(clock.items())):
            return
        if self.settings.how == "mount" and not self.settings.partial and self.settings.redirects(full):
            self.event_log.note("overlay.unled", place=place, what=f"{full} was written for real: no overlay covers it")
        self.event_log.note(
            "files.write", place=place, path=full, how=how, mode=mode, clock=clock, locked=self.clock.holds_a_lock,
            waited=self.clock.has_waited, by=library_call(frame),
        )  # fmt: skip

    def _read(self, frame: FrameType | None, path: Any, how: str) -> None:
        if isinstance(path, str) and path.startswith(self._libraries):
            return
        full = self.user_path(path)
        if full is None:
            return
        try:
            status = os.stat(path)
            there, old = True, status.st_mtime < self.begun
        except OSError:
            there = old = False
        if old:
            self._old += 1
            if self._old > _MOST_OLD:
                return
        place, clock = innermost_own(frame), self.clock.now()
        if place[0] and self._first_time("read", full, place, tuple(clock.items())):
            self.event_log.note(
                "files.read", place=place, path=full, how=how, there=there, clock=clock,
                waited=self.clock.has_waited, locked=self.clock.holds_a_lock,
            )  # fmt: skip

    def _listed(self, frame: FrameType, path: Any = None) -> None:
        if str(frame.f_globals.get("__name__")).endswith(("_bootstrap_external", "_importlib_external")):
            return  # an import searches for a module
        self._read(frame, "." if path is None else path, "listdir")

    def _renamed(self, frame: FrameType, source: Any, target: Any, *_: Any) -> None:
        came, goes = self.user_path(source), self.user_path(target)
        if goes is not None:
            self.event_log.note(
                "files.moved", place=innermost_own(frame), path=goes, source=came or os.fsdecode(source),
                clock=self.clock.now(),
            )  # fmt: skip

    def _removed(self, frame: FrameType, path: Any, folder: int = -1, how: str = "os.remove") -> None:
        # a path relative to an open folder is a part of a tree that is removed
        full = self.user_path(path) if folder == -1 else None
        if full is not None:
            self.event_log.note(
                "files.removed", place=innermost_own(frame), path=full, clock=self.clock.now(), how=how,
                locked=self.clock.holds_a_lock,
            )  # fmt: skip

    def _tree_removed(self, frame: FrameType, path: Any, folder: int | None = None) -> None:
        self._removed(frame, path, -1 if folder is None else folder, "shutil.rmtree")

    def _watch_questions(self) -> None:
        """``os.path.exists`` and its like make no audit event."""
        for owner, names in ((os.path, ("exists", "isdir", "isfile")), (Path, ("exists", "is_dir", "is_file"))):
            for name in names:
                setattr(owner, name, self._asking(owner, getattr(owner, name)))

    def _asking(self, owner: Any, function: Callable[..., bool]) -> Any:
        def exists(path: Any, *args: Any, **kwargs: Any) -> bool:
            answer = function(path, *args, **kwargs)
            frame = sys._getframe(1)
            if is_own(frame.f_code.co_filename) and not getattr(self._busy, "on", False):
                self._queried(frame, path, answer)
            return answer

        return stand_in(exists, function, owner)

    def _queried(self, frame: FrameType, path: Any, answer: bool) -> None:
        with self._own_work("files.asked"):
            full = self.user_path(path)
            if full is None:
                return
            place, clock = innermost_own(frame), self.clock.now()
            if self._first_time("asked", full, place, answer, tuple(clock.items())):
                self.event_log.note("files.asked", place=place, path=full, there=bool(answer), clock=clock)

    def _made(self, frame: FrameType, path: Any, *_: Any) -> None:
        full = self.user_path(path)
        # Python makes the folder of compiled modules, and expects that another process was first
        if full is None or os.path.basename(full) == "__pycache__":
            return
        redirected = self.settings.shadow and os.fsdecode(path).startswith(self.settings.shadow + os.sep)
        if redirected and os.path.isdir(full):
            return  # a parent folder of a redirected path
        caller, may_be_there = folder_options(frame)
        self.event_log.note(
            "files.mkdir", place=innermost_own(frame), path=full, exist_ok=may_be_there, there=os.path.lexists(path),
            caught=not may_be_there and is_caught(caller), clock=self.clock.now(), how=folder_call(frame),
            asked_at=asked_at(frame),
        )  # fmt: skip

    def _fetched(self, frame: FrameType, url: Any, data: Any = None, *_: Any) -> None:
        if data is None:
            self._note_fetch(str(url), fetcher(frame), frame)

    def _note_fetch(self, url: str, by: str, frame: FrameType | None) -> None:
        parts = urlsplit(url)
        shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        self.event_log.note(
            "files.fetch", place=innermost_own(frame), url=shown, by=by, clock=self.clock.now(),
            own=is_called_by_own(frame), locked=self.clock.holds_a_lock,
        )  # fmt: skip

    # what Python does not open

    def _watch_argument(self, function: str, position: int, kind: str, shown: str, module: Any) -> None:
        def called(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            given = next((kwargs[key] for key in ("f", "filename", "url") if key in kwargs), None)
            if given is None and len(args) > position:
                given = args[position]
            self._seen(given, kind, shown, sys._getframe(1))
            return real(*args, **kwargs)

        wrap(module, function, called)

    def _seen(self, given: Any, kind: str, how: str, frame: FrameType) -> None:
        if not isinstance(given, (str, bytes, os.PathLike)):
            return
        with self._own_work(how):
            if kind == "fetch":
                self._note_fetch(os.fsdecode(given), how, frame)
            elif kind == "read":
                self._read(frame, given, how)
            elif (full := self.user_path(given)) is not None:
                self._note_write(full, how, "truncate", frame)
