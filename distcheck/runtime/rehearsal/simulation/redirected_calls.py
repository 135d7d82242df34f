"""What takes the place of ``open`` and of ``os``'s functions in a process whose files are led elsewhere."""

from __future__ import annotations

import builtins
import errno
import glob
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from distcheck.runtime.coordination.patching import stand_in

from .overlay import OverlaySettings
from .path_redirection import Redirection


class RedirectedCalls(Redirection):
    """Leads every call of this process."""

    def __init__(self, settings: OverlaySettings) -> None:
        super().__init__(settings)
        self._builtin_open = io.open

    def patch(self) -> None:
        """For this process, and what it forks."""
        for name in (
            "open", "stat", "lstat", "access", "readlink", "listdir", "scandir", "statvfs", "mkdir", "rmdir", "remove",
            "unlink", "rename", "replace", "symlink", "link", "chmod", "utime", "truncate", "chown", "chdir", "getcwd",
        ):  # fmt: skip
            self._real[name] = getattr(os, name)
        builtins.open = io.open = stand_in(lambda *args, **kwargs: self._opened(*args, **kwargs), io.open, io)
        for name in ("stat", "lstat", "access", "readlink", "statvfs"):
            self._put(name, self._reads(name))
        for name in ("chmod", "utime", "truncate", "chown"):
            self._put(name, self._changes(name))
        for name in ("open", "listdir", "scandir", "mkdir", "rmdir", "symlink", "link", "chdir", "getcwd"):
            self._put(name, getattr(self, f"_{name}"))
        for name in ("remove", "unlink"):
            self._put(name, self._remove)
        for name in ("rename", "replace"):
            self._put(name, self._rename)
        # else rmtree goes by descriptors of folders, which have no path
        shutil._use_fd_functions = False  # type: ignore[attr-defined]

    def _put(self, name: str, function: Callable[..., Any]) -> None:
        real = self._real[name]

        def called(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None or kwargs.get("src_dir_fd") is not None:
                return real(*args, **kwargs)
            try:
                return function(*args, **kwargs)
            except OSError as error:
                self._rename_in(error)
                raise

        stand_in(called, real, os)
        for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if real in known:
                known.add(called)
        setattr(os, name, called)
        # pathlib of Python 3.13 globs with functions that this class has kept since its import
        globber: Any = getattr(glob, "_StringGlobber", None)
        if hasattr(globber, name):
            setattr(globber, name, staticmethod(called))
        if sys.version_info < (3, 11):
            import pathlib

            accessor: Any = getattr(pathlib, "_NormalAccessor", None)
            if accessor is not None and hasattr(accessor, name):
                # it opens by io.open, and not by os.open
                setattr(accessor, name, staticmethod(self._opened if name == "open" else called))

    def _rename_in(self, error: OSError) -> None:
        """A message names the path that the script has."""
        for name in ("filename", "filename2"):
            path = getattr(error, name)
            if isinstance(path, str) and path.startswith(self.shadow + os.sep):
                setattr(error, name, path[len(self.shadow) :])

    def _reads(self, name: str) -> Callable[..., Any]:
        real = self._real[name]
        follows = name not in ("lstat", "readlink")

        def called(path: Any, *args: Any, **kwargs: Any) -> Any:
            follow = follows and kwargs.get("follow_symlinks", True)
            return real(self.for_reading(path, follow=follow), *args, **kwargs)

        return called

    def _changes(self, name: str) -> Callable[..., Any]:
        real = self._real[name]
        return lambda path, *args, **kwargs: real(self.for_writing(path), *args, **kwargs)

    def _opened(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        full = self.user_path(file)
        if full is None or not isinstance(mode, str):
            return self._builtin_open(file, mode, *args, **kwargs)
        try:
            if "x" in mode and self._there(self.visible(full)):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(file))
            writes = any(letter in mode for letter in "wax+")
            path = self.for_writing(file, keep="w" not in mode) if writes else self.for_reading(file)
            found = self._builtin_open(path, mode, *args, **kwargs)
        except OSError as error:
            self._rename_in(error)
            raise
        raw: Any = found
        for part in ("buffer", "raw"):
            raw = getattr(raw, part, raw)
        with suppress(AttributeError):
            raw.name = file
        return found

    def _open(self, path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> Any:
        full = self.user_path(path)
        if full is None:
            return self._real["open"](path, flags, mode, **kwargs)
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            return self._real["open"](self.for_reading(path), flags, mode, **kwargs)
        if flags & os.O_EXCL and flags & os.O_CREAT and self._there(self.visible(full)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
        return self._real["open"](self.for_writing(path, keep=not flags & os.O_TRUNC), flags, mode, **kwargs)

    def _listdir(self, path: Any = ".") -> Any:
        full = None if isinstance(path, bytes) else self.user_path(path)
        if full is None or not self._there(self.shadow + full):
            return self._real["listdir"](path if full is None else self.for_reading(path))
        return self.names(full)

    def _scandir(self, path: Any = ".") -> Any:
        full = None if isinstance(path, bytes) else self.user_path(path)
        if full is None or not self._there(self.shadow + full):
            return self._real["scandir"](path if full is None else self.for_reading(path))
        entries = {}
        for folder in (full, self.shadow + full):
            if self._is_folder(folder):
                with self._real["scandir"](folder) as found:
                    entries.update({entry.name: entry for entry in found})
        return _Entries(_Entry(os.fspath(path), entries[name]) for name in self.names(full) if name in entries)

    def _mkdir(self, path: Any, mode: int = 0o777, **kwargs: Any) -> None:
        full = self.user_path(path, follow=False)
        if full is not None and self._there(self.visible(full)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
        self._real["mkdir"](self.for_writing(path, keep=False, follow=False), mode, **kwargs)

    def _rmdir(self, path: Any, **kwargs: Any) -> None:
        full = self.user_path(path, follow=False)
        if full is None:
            self._real["rmdir"](path, **kwargs)
            return
        if not self._is_folder(self.visible(full)):
            self._real["rmdir"](self.visible(full))  # it fails as it would
        if self.names(full):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fspath(path))
        self._permit(full, path)
        self._add_whiteout(full)
        self._forget(full)

    def _forget(self, full: str) -> None:
        self._busy.on = True
        try:
            shutil.rmtree(self.shadow + full, ignore_errors=True)
        finally:
            self._busy.on = False

    def _remove(self, path: Any, **kwargs: Any) -> None:
        full = self.user_path(path, follow=False)
        if full is None:
            self._real["remove"](path, **kwargs)
            return
        found = self.visible(full)
        if found == full and self._there(full) and (self._is_link(full) or not self._is_folder(full)):
            self._permit(os.path.dirname(full), path)
        elif found == full or not self._there(found) or (self._is_folder(found) and not self._is_link(found)):
            self._real["remove"](self.shadow + full if not self._is_folder(found) else found)  # it fails as it would
            return
        else:
            self._real["remove"](found)
        self._add_whiteout(full)

    def _rename(self, source: Any, target: Any, **kwargs: Any) -> None:
        first, second = self.user_path(source, follow=False), self.user_path(target, follow=False)
        if first is None and second is None:
            try:
                self._real["replace"](source, target, **kwargs)
            except OSError as error:
                # a folder that was there before can't be renamed in an overlay of a user namespace
                if error.errno != errno.EXDEV or not self.settings.user or not os.path.isdir(source):
                    raise
                shutil.copytree(source, target, symlinks=True)
                shutil.rmtree(source)
            return
        came = self.for_writing(source, follow=False) if first is not None else source
        if first is not None and self._is_folder(came) and not self._is_link(came):
            self._merge(first)
        if second is not None:
            seen = self.visible(second)
            if self._is_folder(seen) and self._is_folder(came) and self.names(second):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fspath(source), None, os.fspath(target))
        goes = self.for_writing(target, keep=False, follow=False) if second is not None else target
        if second is not None and self._is_folder(came) and not self._is_link(came):
            self._add_whiteout(second)
            with suppress(OSError):
                self._forget(second)
        try:
            self._real["replace"](came, goes)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._busy.on = True
            try:
                shutil.move(os.fspath(came), os.fspath(goes))
            finally:
                self._busy.on = False
        if first is not None:
            self._add_whiteout(first)

    def _symlink(self, source: Any, target: Any, target_is_directory: bool = False, **kwargs: Any) -> None:
        full = self.user_path(target, follow=False)
        if full is not None and self._there(self.visible(full)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(source), None, os.fspath(target))
        # its target is what it names: :meth:`meant` follows it by itself
        self._real["symlink"](
            source, self.for_writing(target, keep=False, follow=False), target_is_directory, **kwargs
        )  # fmt: skip

    def _link(self, source: Any, target: Any, **kwargs: Any) -> None:
        if self.user_path(target) is None:
            self._real["link"](source, target, **kwargs)
            return
        shutil.copy2(self.for_reading(source), self.for_writing(target, keep=False))

    def _chdir(self, path: Any) -> None:
        full = self.user_path(path)
        # what a relative path leads to is mostly in the folder as it was
        stays = full is not None and self._is_folder(full) and not self._has_whiteout(full)
        self._real["chdir"](full if stays else self.for_reading(path))

    def _getcwd(self) -> str:
        path: str = self._real["getcwd"]()
        return path[len(self.shadow) :] if path.startswith(self.shadow + os.sep) else path


class _Entry:
    """An ``os.DirEntry`` that names the path which the script has requested."""

    def __init__(self, folder: str, entry: os.DirEntry[str]) -> None:
        self.name = entry.name
        self.path = os.path.join(folder, entry.name)
        self._entry = entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        if follow_symlinks and self._entry.is_symlink():
            return os.path.isdir(self.path)
        return self._entry.is_dir(follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        if follow_symlinks and self._entry.is_symlink():
            return os.path.isfile(self.path)
        return self._entry.is_file(follow_symlinks=follow_symlinks)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def __fspath__(self) -> str:
        return self.path


class _Entries:
    """What ``os.scandir`` gives: an iterator that can be closed."""

    def __init__(self, entries: Iterator[_Entry]) -> None:
        self._entries = entries

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[_Entry]:
        return self._entries

    def __next__(self) -> _Entry:
        return next(self._entries)

    def close(self) -> None:
        """Nothing is open."""
