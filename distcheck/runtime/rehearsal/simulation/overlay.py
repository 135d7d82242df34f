"""Nothing of the user's is changed by a rehearsal: what the ranks write goes into an overlay, and nothing is sent.

Two ways. Where this machine allows namespaces (:mod:`.namespace_process`), the ranks live in one in which every folder
of the user's is an overlay, and in one that has no other machine: this holds for any language and any program. Where it
does not, the ranks' own Python is redirected (:mod:`.path_redirection`) and refused (``hooks/network.py``), and what is
no Python is *not checked*.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.runtime.coordination.logged_events import LoggedEvent

from . import protected_paths
from .namespace_process import NamespaceProcess
from .own_folders import MEMORY, OwnFolder, remove
from .plan import RehearsalPlan

_FILE = "overlay.json"
#: Lines about single files that are printed, before the rest is counted.
_MOST_NOTES = 5


class OverlaySettings(NamedTuple):
    """How the files of a rehearsal are kept apart: written by the parent, read by every rank."""

    #: ``mount``, ``python`` or ``none``
    how: str = "none"
    #: process that keeps the namespaces
    pid: int = 0
    #: those that each rank enters: ``user``, ``mnt``, ``net``
    namespaces: tuple[str, ...] = ()
    #: ports on which processes outside of the network namespace listen
    listening: tuple[int, ...] = ()
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
    def user(self) -> bool:
        """Whether the ranks have a user namespace."""
        return "user" in self.namespaces

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


def _refused(names: Sequence[str], unrouted: int) -> list[str]:
    """What the network namespace refused: Python's attempts do not get there.

    :param names: of other machines, that were requested from the name server
    :param unrouted: how often something was sent to an address of another machine
    """
    parts = [f"to resolve {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"] if names else []
    if unrouted:
        parts.append(f"to reach other machines{f' ({unrouted} times)' if unrouted > 1 else ''}")
    if not parts:
        return []
    return [
        f"compiled code, or a program that the script started, tried {' and '.join(parts)}, and was refused "
        "(--network allows it)"
    ]


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
    """In a rank, before it has a second thread: enter the namespaces where it does no harm.

    :raises OSError: they can't be entered; the script must not run then
    """
    settings = settings_of(plan.private)
    if settings.namespaces:
        from .namespaces import enter

        enter(settings.pid, settings.namespaces)
        # a namespace of mounts begins in its root folder
        os.chdir(plan.folder)


class Overlay:
    """The parent's hand on the overlay: made by :func:`begin`."""

    def __init__(self, plan: RehearsalPlan, settings: OverlaySettings) -> None:
        self.plan = plan
        self.settings = settings
        self._keeper: NamespaceProcess | None = None
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
        listed = self._keeper.ask("list") if self._keeper is not None else None
        if listed is not None:
            self.notes += _refused(listed["names"], listed["unrouted"])
        if self.settings.how == "none":
            return LeftFile("none", notes=tuple(self.notes))
        written: list[str] = []
        removed: list[str] = []
        more = 0
        if listed is not None:
            written, removed, more = listed["written"], listed["removed"], listed["more"]
        elif self._keeper is not None:
            self.notes.append("the overlay's files could not be listed: the process that kept it has ended")
        redirected, away = _redirected(self.settings.shadow)
        notes = [*self.notes, *_unexplained(written, _opened(rows)), *_not_redirected(rows)]
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
    """Before the ranks start: make the overlay and close the network, by namespaces where they are allowed.

    Never raises for want of a right: what can't be covered is in :attr:`Overlay.notes`.
    """
    overlay = Overlay(plan, OverlaySettings("none"))
    request: dict[str, Any] = {"network": not plan.network}
    if not plan.in_place:
        request |= _request(overlay, environ)
    if sys.platform.startswith("linux") and (not plan.in_place or not plan.network):
        _separate(overlay, request, python)
    elif not plan.in_place:
        overlay.notes.append("files that are not written by Python itself are not redirected on this system")
    if not plan.network and "net" not in overlay.settings.namespaces and not sys.platform.startswith("linux"):
        overlay.notes.append(f"{_NETWORK_OF_PYTHON} on this system")
    with open(os.path.join(plan.private, _FILE), "w", encoding="utf-8") as file:
        json.dump(overlay.settings._asdict(), file)
    return overlay


_NETWORK_OF_PYTHON = "connections of compiled code and of programs that the script starts are not refused"


def _request(overlay: Overlay, environ: Mapping[str, str]) -> dict[str, Any]:
    """The overlays that the namespace is to have."""
    plan = overlay.plan
    script = os.path.join(plan.folder, plan.target)
    own = [plan.folder, *([os.path.dirname(os.path.realpath(script))] if not plan.module else [])]
    ground = protected_paths.ground(environ, own, plan.private)
    shadow = os.path.join(overlay.kept, "led")
    os.makedirs(shadow)
    overlay.settings = OverlaySettings(
        "python", partial=True, shadow=os.path.realpath(shadow), own=ground.own, apart=ground.apart, free=ground.free
    )  # fmt: skip
    if not sys.platform.startswith("linux"):
        return {}
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
    return {
        "stores": [os.path.realpath(store) for store in stores],
        "everything": everything._asdict(),
        "only_own": protected_paths.only_own(mounts, environ.get("HOME", ""), ground)._asdict(),
    }


def _separate(overlay: Overlay, request: Mapping[str, Any], python: str) -> None:
    """Let a process make the namespaces, and note what it could not."""
    answer: Any = None
    reason = "the process that makes namespaces has ended"
    try:
        overlay._keeper = NamespaceProcess(python)
        answer = overlay._keeper.ask(json.dumps(request))
    except OSError as error:
        reason = str(error)
    answer = answer or {"kinds": [], "why": {"mnt": reason, "net": reason}, "covered": [], "failed": [], "pid": 0}
    if request["network"] and "net" not in answer["kinds"]:
        overlay.notes.append(f"{_NETWORK_OF_PYTHON}: no network namespace ({answer['why'].get('net', '')})")
    kinds = [kind for kind in answer["kinds"] if kind != "mnt" or answer["covered"]]
    overlay.settings = overlay.settings._replace(
        pid=answer["pid"], namespaces=tuple(kinds), listening=tuple(answer.get("listening", ()))
    )
    if "stores" not in request:
        return
    if "mnt" not in kinds:
        why = answer["why"].get("mnt") or _reasons(answer)
        overlay.notes.append(f"files that are written by other than Python code are not redirected: no overlay ({why})")
        return
    user = "user" in kinds
    left_out = request["only_own" if user else "everything"]["left_out"]
    holes = [*(path for path, _ in answer["failed"]), *left_out]
    if left_out:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        overlay.notes.append(
            f"{left_out[0]}{more}: too many mounts for overlays; only what Python writes is redirected"
        )
    overlay.settings = overlay.settings._replace(
        how="mount", covered=tuple(answer["covered"]), holes=tuple(holes), partial=user or bool(holes)
    )
    for path, why in answer["failed"]:
        overlay.notes.append(f"{path} has no overlay ({why}): only what Python writes there is redirected")


def _reasons(answer: Mapping[str, Any]) -> str:
    return "; ".join(f"{path}: {why}" for path, why in answer.get("failed", ())) or "not allowed"


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


def _opened(rows: Iterable[LoggedEvent]) -> set[str]:
    """Return the files that the ranks' Python has opened for writing, by the names that moves of folders gave them."""
    found: set[str] = set()
    for row in rows:
        path = str(row.data.get("path"))
        if row.kind == "files.moved":
            source = str(row.data.get("source"))
            found |= {path + file[len(source) :] for file in found if protected_paths.below(file, source)}
        if row.kind in ("files.write", "files.moved"):
            found.add(path)
    return found


def _unexplained(written: Iterable[str], known: set[str]) -> list[str]:
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
