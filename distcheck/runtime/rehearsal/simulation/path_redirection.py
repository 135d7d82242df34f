"""Paths as the script means them, and where their files are: copy on write in Python, where nothing can be mounted.

What is changed below a path of the user's lies below the folder of the rehearsal, in a tree like that of ``/``; next to
what was removed stands a mark. Reading goes to the file itself until a rank has changed it. All ranks share the tree.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import local
from typing import Any

from .overlay import WHITEOUT, OverlaySettings

#: Links on the way to a file, as the kernel has it (path_resolution(7)).
_MOST_LINKS = 40
#: Python's own files and installed packages: opened by the thousand, and never written by a script.
_LIBRARIES = tuple({os.path.join(prefix, "lib", "python") for prefix in (sys.prefix, sys.base_prefix)})


class Redirection:
    """Paths as the script means them, and where their files are."""

    def __init__(self, settings: OverlaySettings) -> None:
        self.settings = settings
        self.shadow = settings.shadow
        self._busy = local()
        self._real: dict[str, Callable[..., Any]] = {}

    # paths

    def user_path(self, path: Any, *, follow: bool = True) -> str | None:
        """The absolute path of what would be led elsewhere; None for all others.

        :param follow: what a link leads to, and not the link
        """
        if isinstance(path, int) or path is None or getattr(self._busy, "on", False):
            return None
        try:
            full = os.path.abspath(os.fsdecode(path))
        except TypeError:
            return None
        if full.startswith(_LIBRARIES):
            return None
        if full.startswith(self.shadow + os.sep):
            full = full[len(self.shadow) :]
        for _ in range(_MOST_LINKS):
            led_to = self._past_a_link(full, follow)
            if led_to == full:
                break
            full = led_to
        return full if self.settings.redirects(full) else None

    def _past_a_link(self, full: str, follow: bool) -> str:
        """The path with its first link taken out, as links are now; the same where there is none."""
        parts = full.split(os.sep)[1:]
        prefix = ""
        for number, part in enumerate(parts, 1):
            above, prefix = prefix, f"{prefix}/{part}"
            if number == len(parts) and not follow:
                break
            try:
                target = os.fsdecode(self._real["readlink"](self.visible(prefix)))
            except OSError:
                continue
            return os.path.normpath(os.path.join(above or "/", target, *parts[number:]))
        return full

    def _has_whiteout(self, full: str) -> bool:
        prefix = ""
        for part in full.split(os.sep)[1:]:
            prefix = f"{prefix}/{part}"
            if self._there(self.shadow + prefix + WHITEOUT):
                return True
            if not self._there(self.shadow + prefix):
                return False  # and nothing in it is marked
        return False

    def _there(self, path: str) -> bool:
        try:
            self._real["lstat"](path)
        except OSError:
            return False
        return True

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._real["stat"](path).st_mode)
        except OSError:
            return False

    def visible(self, full: str) -> str:
        """Where the file is now: in the folder of the rehearsal, or where it always was."""
        shadow = self.shadow + full
        return shadow if self._there(shadow) or self._has_whiteout(full) else full

    def for_reading(self, path: Any, *, follow: bool = True) -> Any:
        """What to open in place of ``path``."""
        full = self.user_path(path, follow=follow)
        if full is None:
            return path
        found = self.visible(full)
        # past a link that is here only, the kernel does not find its way
        return path if found == full and os.path.abspath(os.fsdecode(path)) == full else found

    def for_writing(self, path: Any, *, keep: bool = True, follow: bool = True) -> Any:
        """What to open in place of ``path`` to change it; with ``keep``, with what it holds now.

        :raises PermissionError: as the file itself would
        """
        full = self.user_path(path, follow=follow)
        if full is None:
            return path
        shadow = self.shadow + full
        parent = os.path.dirname(full)
        if not self._is_folder(self.visible(parent)):
            return shadow  # it fails as it would
        self._permit(full, path)
        self._make_folder(parent)
        if keep and not self._there(shadow) and not self._has_whiteout(full) and self._there(full):
            self._copy(full, shadow)
        return shadow

    def _permit(self, full: str, path: Any) -> None:
        checked = full if self._there(full) else os.path.dirname(full)
        if self._there(checked) and not self._has_whiteout(full) and not self._real["access"](checked, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))

    def _make_folder(self, full: str) -> None:
        if full != "/" and not self._there(self.shadow + full):
            self._make_folder(os.path.dirname(full))
            with suppress(FileExistsError):
                self._real["mkdir"](self.shadow + full)

    def _copy(self, full: str, shadow: str) -> None:
        if self._is_folder(full) and not self._is_link(full):
            self._merge(full)
            return
        self._busy.on = True
        try:
            # under a name of its own first: another rank may read, or copy as well
            draft = f"{shadow}.{os.getpid()}{WHITEOUT}"
            shutil.copy2(full, draft, follow_symlinks=False)
            self._real["rename"](draft, shadow)
        finally:
            self._busy.on = False

    def _merge(self, full: str) -> None:
        """All of a folder, as the script sees it, into the folder of the rehearsal."""
        self._make_folder(full)
        for name in self.names(full):
            inner = f"{full}/{name}"
            found = self.visible(inner)
            if self._is_folder(found) and not self._is_link(found):
                self._merge(inner)
            elif found == inner:
                self._copy(inner, self.shadow + inner)

    def _is_link(self, path: str) -> bool:
        try:
            return stat.S_ISLNK(self._real["lstat"](path).st_mode)
        except OSError:
            return False

    def names(self, full: str) -> list[str]:
        """What is in a folder, as the script sees it."""
        shadow = self.shadow + full
        inside = self._real["listdir"](shadow) if self._is_folder(shadow) else []
        hidden = {name.removesuffix(WHITEOUT) for name in inside if name.endswith(WHITEOUT)}
        names = [name for name in inside if not name.endswith(WHITEOUT)]
        if not self._has_whiteout(full) and self._is_folder(full):
            names += [name for name in self._real["listdir"](full) if name not in hidden and name not in set(names)]
        return names

    def _add_whiteout(self, full: str) -> None:
        if self._there(full):
            self._make_folder(os.path.dirname(full))
            with suppress(OSError):
                os.close(self._real["open"](self.shadow + full + WHITEOUT, os.O_CREAT | os.O_WRONLY, 0o600))
