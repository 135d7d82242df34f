"""Nothing of the user's is changed by a rehearsal: what the ranks write goes into an overlay, and away with it.

Two ways. Where this machine lets us mount (:mod:`.mounting`), the ranks live in a mount namespace in which every
folder of the user's is an overlay: whatever language writes, by whatever path, all ranks see it, and no process outside
does. Where it does not, the ranks' own Python is redirected (:mod:`.leading`), and what is no Python is *not
checked*.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.resources import PACKAGE
from distcheck.runtime.coordination.logged_events import LoggedEvent

from . import protected_paths
from .own_folders import MEMORY, OwnFolder, remove
from .plan import RehearsalPlan

_FILE = "overlay.json"
#: Seconds for a small Python to start and mount, on a machine that is busy.
_PATIENCE_S = 60.0
#: Lines about single files that are printed, before the rest is counted.
_MOST_NOTES = 5


class OverlaySettings(NamedTuple):
    """How the files of a rehearsal are kept apart: written by the parent, read by every rank."""

    #: ``mount``, ``python`` or ``none``
    how: str = "none"
    #: process that keeps the namespaces
    pid: int = 0
    #: it has a user namespace, too
    user: bool = False
    #: there are folders of the user's without a mounted overlay
    partial: bool = False
    #: folders with a mounted overlay
    covered: tuple[str, ...] = ()
    #: in these, folders and files without one
    holes: tuple[str, ...] = ()
    #: where Python puts the files of all other folders
    shadow: str = ""
    #: what is the user's, as in :class:`.places.Ground`
    own: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    free: tuple[str, ...] = ()

    @property
    def ground(self) -> protected_paths.FileSystem:
        return protected_paths.FileSystem(self.own, self.apart, self.free)

    def redirects(self, path: str) -> bool:
        """Whether Python leads what is written to this absolute path elsewhere."""
        if self.how == "none":
            return False
        if any(protected_paths.below(path, folder) for folder in self.covered):
            return any(protected_paths.below(path, hole) for hole in self.holes) and self.ground.is_users(path)
        return self.ground.is_users(path)


class LeftFile(NamedTuple):
    """What the ranks would have left behind."""

    #: ``mount``, ``python`` or ``none``: they have
    how: str
    #: relative to the working directory where they lie below it
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    #: files beyond those that are listed
    more: int = 0
    #: what was not covered, or not seen
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For the end of the report: what would have changed."""
        if self.how == "none" or not (self.written or self.removed):
            return ""
        parts = []
        if self.written:
            parts.append(f"would have written {_some(self.written, self.more)}")
        if self.removed:
            parts.append(f"{'would have ' if not parts else ''}removed {_some(self.removed, 0)}")
        return f"{' and '.join(parts)}; nothing of it was kept"


def _some(paths: tuple[str, ...], more: int) -> str:
    count = len(paths) + more
    shown = ", ".join(paths[:3])
    return f"{count} file{'s' if count != 1 else ''} ({shown}{', …' if count > 3 else ''})"


def settings_of(private: str) -> OverlaySettings:
    """What the parent has written down; *none* where it has nothing."""
    try:
        with open(os.path.join(private, _FILE), encoding="utf-8") as file:
            plain = json.load(file)
    except FileNotFoundError:
        return OverlaySettings()
    lists: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
    return OverlaySettings(**lists)


def join(plan: RehearsalPlan) -> None:
    """In a rank, before it has a second thread: enter the namespace where its writes do no harm.

    :raises OSError: the overlay can't be entered; the script must not run then
    """
    settings = settings_of(plan.private)
    if settings.how == "mount":
        from .mount_namespace import enter

        enter(settings.pid, user=settings.user)
        # the namespace begins in its root folder
        os.chdir(plan.folder)


class Overlay:
    """The parent's hand on the overlay: made by :func:`begin`."""

    def __init__(self, plan: RehearsalPlan, settings: OverlaySettings) -> None:
        self.plan = plan
        self.settings = settings
        self._keeper: _MountProcess | None = None
        #: holds the changed files of folders that hold the folder of temporary files
        self._in_memory: OwnFolder | None = None
        #: what could not be covered, and why
        self.notes: list[str] = []

    @property
    def kept(self) -> str:
        """The folder in which changed files lie."""
        return os.path.join(self.plan.private, "overlay")

    def end(self, rows: Sequence[LoggedEvent] = ()) -> LeftFile:
        """Return what the ranks have changed, once the last one has ended. Call it once.

        :param rows: what the ranks wrote down; files that no row explains were written by something else than Python
        """
        if self.settings.how == "none":
            return LeftFile("none")
        written: list[str] = []
        removed: list[str] = []
        more = 0
        listed = self._keeper.ask("list") if self._keeper is not None else None
        if listed is not None:
            written, removed, more = listed["written"], listed["removed"], listed["more"]
        elif self._keeper is not None:
            self.notes.append("the overlay's files could not be listed: the process that kept it has ended")
        redirected, away = _redirected(self.settings.shadow)
        known = {row.data.get("path") for row in rows if row.kind in ("files.write", "files.moved")}
        notes = [*self.notes, *_unexplained(written, known), *_not_redirected(rows)]
        shown = [
            tuple(_shown(path, self.plan.folder) for path in paths) for paths in (written + redirected, removed + away)
        ]
        return LeftFile(self.settings.how, shown[0], shown[1], more, tuple(notes))

    def remove(self) -> None:
        """Let go of all of it."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        remove(self.kept)
        if self._in_memory is not None:
            self._in_memory.remove()
            self._in_memory = None


def begin(plan: RehearsalPlan, environ: Mapping[str, str] = os.environ, python: str = sys.executable) -> Overlay:
    """Before the ranks start: make the overlay, by mounting where that is allowed.

    Never raises for want of a right: what can't be covered is in :attr:`Overlay.notes`.
    """
    if plan.in_place:
        return Overlay(plan, OverlaySettings("none"))
    script = os.path.join(plan.folder, plan.target)
    own = [plan.folder, *([os.path.dirname(os.path.realpath(script))] if not plan.module else [])]
    ground = protected_paths.ground(environ, own, plan.private)
    shadow = os.path.join(plan.private, "overlay", "led")
    os.makedirs(shadow)
    settings = OverlaySettings(
        "python", partial=True, shadow=os.path.realpath(shadow), own=ground.own, apart=ground.apart, free=ground.free
    )  # fmt: skip
    overlay = Overlay(plan, settings)
    if sys.platform.startswith("linux"):
        _mount(overlay, ground, environ, python)
    else:
        overlay.notes.append("files that are not written by Python itself are not redirected on this system")
    with open(os.path.join(plan.private, _FILE), "w", encoding="utf-8") as file:
        json.dump(overlay.settings._asdict(), file)
    return overlay


def _mount(overlay: Overlay, ground: protected_paths.FileSystem, environ: Mapping[str, str], python: str) -> None:
    with open("/proc/self/mountinfo", encoding="latin-1") as file:
        mounts = protected_paths.read_mounts(file.read())
    at_root = [entry.name for entry in os.scandir("/") if entry.is_dir(follow_symlinks=False)]
    everything = protected_paths.everything(mounts, at_root, ground)
    stores = [os.path.join(overlay.kept, "mounted")]
    os.makedirs(stores[0])
    # the changed files of a folder can't lie in it: of one that holds the folder of temporary files, and so ours
    inside = any(protected_paths.below(os.path.realpath(stores[0]), path) for path in everything.covered)
    if inside and os.access(MEMORY, os.W_OK):
        overlay._in_memory = OwnFolder(MEMORY)
        stores.append(overlay._in_memory.path)
    request: dict[str, Any] = {
        "stores": [os.path.realpath(store) for store in stores],
        "everything": everything._asdict(),
        "only_own": protected_paths.only_own(mounts, environ.get("HOME", ""), ground)._asdict(),
    }
    answer: Any = None
    try:
        overlay._keeper = _MountProcess(python)
        answer = overlay._keeper.ask(json.dumps(request))
    except OSError as error:
        overlay.notes.append(f"no overlay could be mounted: {error}")
    if answer is None or answer["how"] != "mount":
        why = "the process that mounts has ended" if answer is None else answer.get("why") or _reasons(answer)
        overlay.notes.append(f"files that are written by other than Python code are not redirected: no overlay ({why})")
        return
    holes = [path for path, _ in answer["failed"]]
    left_out = request["only_own" if answer["user"] else "everything"]["left_out"]
    holes += left_out
    if left_out:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        overlay.notes.append(
            f"{left_out[0]}{more}: too many mounts for overlays; only what Python writes is redirected"
        )
    overlay.settings = overlay.settings._replace(
        how="mount", pid=answer["pid"], user=answer["user"], covered=tuple(answer["covered"]), holes=tuple(holes),
        partial=answer["user"] or bool(holes),
    )  # fmt: skip
    for path, why in answer["failed"]:
        overlay.notes.append(f"{path} has no overlay ({why}): only what Python writes there is redirected")


def _reasons(answer: Mapping[str, Any]) -> str:
    return "; ".join(f"{path}: {why}" for path, why in answer.get("failed", ())) or "not allowed"


class _MountProcess:
    """The process that mounts, and keeps what it has mounted."""

    def __init__(self, python: str) -> None:
        import subprocess

        # the folder, or the archive, that this package is imported from
        root = os.path.dirname(PACKAGE)
        code = f"import sys; sys.path.insert(0, {root!r}); from {__package__}.mount_namespace import main; main()"
        # a pair of sockets in place of pipes: one file for both ways, whose end both sides notice
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [python, "-I", "-S", "-c", code], stdin=there.fileno(), stdout=there.fileno(),
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        here.settimeout(_PATIENCE_S)
        self._socket = here
        self._file = here.makefile("rwb")

    def ask(self, question: str) -> Any:
        """The answer to a line; None where none comes."""
        try:
            self._file.write(question.encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
        except OSError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        """End it; what it has mounted is unmounted with the last rank."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._socket.close()
        with contextlib.suppress(Exception):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


#: Files of these names no other rank waits for. A .pth is a checkpoint.
CODE = (".py", ".pyc", ".so", ".pyi", ".pyd")
#: Marks a file that Python was redirected from and that was removed.
WHITEOUT = ".distcheck-gone"


def _redirected(shadow: str) -> tuple[list[str], list[str]]:
    """What Python was redirected from: the tree below ``shadow`` is that of ``/``."""
    written: list[str] = []
    removed: list[str] = []
    for folder, names, files in os.walk(shadow):
        names[:] = sorted(name for name in names if name != "__pycache__")
        inner = "/" + os.path.relpath(folder, shadow)
        for name in sorted(files):
            path = os.path.normpath(os.path.join(inner, name))
            if not name.endswith(WHITEOUT):
                written.append(path)
            elif os.path.lexists(path.removesuffix(WHITEOUT)) and not os.path.lexists(
                os.path.join(folder, name.removesuffix(WHITEOUT))
            ):
                removed.append(path.removesuffix(WHITEOUT))
    return written, removed


def _unexplained(written: Iterable[str], known: set[Any]) -> list[str]:
    """Return files that the ranks' Python did not open: the rank is unknown, so that no rule judges them."""
    found = [path for path in written if path not in known and not path.endswith(CODE)]
    notes = [
        f"{path}: written by other than Python code (C++, a program that was started), by which ranks is not known"
        for path in found[:_MOST_NOTES]
    ]
    if len(found) > _MOST_NOTES:
        notes.append(f"{len(found) - _MOST_NOTES} more files were written by other than Python code")
    return notes


def _not_redirected(rows: Iterable[LoggedEvent]) -> list[str]:
    """Return what the ranks' Python could not redirect, each item once for a line."""
    found: dict[tuple[str, str], None] = {}
    for row in rows:
        if row.kind == "overlay.unled":
            found[(row.place, str(row.data.get("what", "")))] = None
    return [f"{place}: {what}" if place else what for place, what in found]


def _shown(path: str, folder: str) -> str:
    return os.path.relpath(path, folder) if protected_paths.below(path, folder) else path
