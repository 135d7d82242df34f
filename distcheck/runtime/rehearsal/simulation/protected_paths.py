"""Which folders of this machine a rehearsal must not change, and which it may: pure, from paths and the mount table.

Everything that the user owns is covered by an overlay. Left as they are: the folder for temporary files, caches (what
is fetched once is not fetched again for every rehearsal), devices, and what the system keeps for itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

#: Variables that name a cache; what is in it is made again when it is missing.
CACHES = (
    "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_ASSETS_CACHE", "HF_XET_CACHE",
    "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_HOME", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "PIP_CACHE_DIR",
    "PYTHONPYCACHEPREFIX", "WANDB_CACHE_DIR", "VLLM_CACHE_ROOT", "UV_CACHE_DIR",
)  # fmt: skip
#: The same below the home folder, where no variable names another one.
_CACHES_AT_HOME = (".cache", ".config/matplotlib", ".nv", ".triton", ".keras", ".torch", "nltk_data")
#: Of the system: no training script keeps its files there, and a job could not live without them.
_OF_THE_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "nix", "proc", "run", "sbin",
     "snap", "sys", "tmp", "usr", "var"}
)  # fmt: skip
_NEVER = ("/proc", "/sys", "/dev", "/run", "/var/run")
#: File systems that hold no files of a user's (Linux 6.12, fs/), or none that can be written.
_PSEUDO = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
     "fuse.gvfsd-fuse", "fuse.lxcfs", "fusectl", "hugetlbfs", "iso9660", "mqueue", "nsfs", "proc", "pstore",
     "ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tracefs"}
)  # fmt: skip
#: Mounts that are covered at most; a site with more of them has its own ideas about mounts.
_MOST = 40


class Mount(NamedTuple):
    """One line of the mount table."""

    point: str
    filesystem: str
    writable: bool = True


class ProtectedPaths(NamedTuple):
    """What is covered, and what shows through: absolute paths, an outer one before what lies in it."""

    covered: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    #: those of ``through`` that are the user's all the same: there were too many
    left_out: tuple[str, ...] = ()


def below(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def caches(environ: Mapping[str, str], own: Iterable[str] = ()) -> tuple[str, ...]:
    """Folders of caches, as far as their path is known, whether they exist or not.

    :param own: folders that are none, whatever a variable names: the working directory
    """
    home = environ.get("HOME", "")
    named = [environ[name] for name in CACHES if environ.get(name)]
    if home:
        named += [os.path.join(home, name) for name in _CACHES_AT_HOME]
    paths = [os.path.realpath(path) for path in named if os.path.isabs(path)]
    return _outermost(path for path in paths if not any(below(folder, path) for folder in own))


def temporary(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders for temporary files."""
    named = [environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)]
    return _outermost(os.path.realpath(path) for path in (*named, "/tmp", "/var/tmp") if os.path.isabs(path))


class FileSystem(NamedTuple):
    """Which files of this machine are the user's, and which are not: checked for every file that a script opens."""

    #: the working directory, the script's folder
    own: tuple[str, ...]
    #: caches, and the private folder of the rehearsal: never covered, wherever they lie
    apart: tuple[str, ...]
    #: temporary files and devices: not covered unless they lie in ``own``
    free: tuple[str, ...]

    def is_users(self, path: str) -> bool:
        """Whether a change of this absolute path would be felt when the rehearsal is over."""
        if any(below(path, folder) for folder in self.apart):
            return False
        return any(below(path, folder) for folder in self.own) or not any(below(path, folder) for folder in self.free)


def ground(environ: Mapping[str, str], own: Sequence[str], private: str) -> FileSystem:
    """What a rehearsal must not change.

    :param own: the working directory, the script's folder
    :param private: the folder of the rehearsal itself
    """
    here = _outermost(os.path.realpath(path) for path in own if path)
    return FileSystem(here, (os.path.realpath(private), *caches(environ, here)), (*temporary(environ), *_NEVER))


def read_mounts(text: str) -> tuple[Mount, ...]:
    """``/proc/self/mountinfo`` (Linux, proc_pid_mountinfo(5)); of several on one point the last, which is on top."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        fields = line.split(" ")
        if "-" not in fields[6:]:
            continue
        dash = fields.index("-", 6)
        point = fields[4].encode("latin-1", "replace").decode("unicode_escape", "replace")
        options = {*fields[5].split(","), *fields[-1].split(",")}
        found.pop(point, None)
        found[point] = Mount(point, fields[dash + 1], "ro" not in options)
    return tuple(found.values())


def everything(mounts: Iterable[Mount], at_root: Iterable[str], ground: FileSystem) -> ProtectedPaths:
    """All that can be covered by who may mount: every folder and file system of the user's.

    :param at_root: names of the folders in ``/``
    """
    table = {mount.point: mount for mount in mounts}
    root = table.get("/")
    wanted = list(ground.own)
    if root is not None and root.writable and root.filesystem not in _PSEUDO:
        wanted += [f"/{name}" for name in at_root if name not in _OF_THE_SYSTEM and f"/{name}" not in table]
    wanted += [mount.point for mount in table.values() if mount.point != "/" and _is_covered(mount, ground)]
    return _places(wanted, table, ground)


def only_own(mounts: Iterable[Mount], home: str, ground: FileSystem) -> ProtectedPaths:
    """What is covered where mounting is allowed in a user namespace only: there, files of the user's other groups can't
    be written, so that nothing is covered of which this has not been tried."""
    table = {mount.point: mount for mount in mounts}
    wanted = list(_outermost((*ground.own, os.path.realpath(home)) if home else ground.own))
    wanted += [
        mount.point
        for mount in table.values()
        if any(below(mount.point, path) for path in wanted) and _is_covered(mount, ground)
    ]
    return _places(wanted, table, ground)


def _places(wanted: Sequence[str], table: Mapping[str, Mount], ground: FileSystem) -> ProtectedPaths:
    covered: list[str] = []
    for path in sorted(set(wanted), key=lambda path: (path.count("/"), path)):
        # what lies in a covered folder is covered with it, unless it is a file system of its own
        if path in table or not any(below(path, outer) for outer in covered):
            covered.append(path)
    kept = [path for path in covered if any(below(own, path) for own in ground.own)]
    kept += [path for path in covered if path not in kept][: _MOST - len(kept)]
    covered = [path for path in covered if path in kept]
    through = _through(covered, table.values(), ground)
    left_out = [path for path in through if path in table and _is_covered(table[path], ground)]
    return ProtectedPaths(tuple(covered), through, tuple(left_out))


def _is_covered(mount: Mount, ground: FileSystem) -> bool:
    if not mount.writable or mount.filesystem in _PSEUDO:
        return False
    mine = any(below(mount.point, own) for own in ground.own)
    return (mine or mount.point.split("/")[1] not in _OF_THE_SYSTEM) and ground.is_users(mount.point)


def _through(covered: Sequence[str], mounts: Iterable[Mount], ground: FileSystem) -> tuple[str, ...]:
    """Folders in covered ones that keep their contents from outside."""
    paths = {mount.point for mount in mounts if mount.point not in covered}
    paths |= {*ground.apart, *(path for path in ground.free if not any(below(own, path) for own in ground.own))}
    inner = {path for path in paths if any(path != outer and below(path, outer) for outer in covered)}
    return tuple(sorted(inner, key=lambda path: (path.count("/"), path)))


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    found: list[str] = []
    for path in sorted(set(paths), key=lambda path: (len(path), path)):
        if path != "/" and not any(below(path, outer) for outer in found):
            found.append(path)
    return tuple(found)
