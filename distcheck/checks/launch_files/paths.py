"""Which file of the project a launch line names: a script, a configuration, a hostfile.

Nothing is opened here. The folder in which a script starts is unknown, so a name is resolved only if exactly one file
matches.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from distcheck.core.patterns import lazy

from .model import LaunchSite

#: Limit of parent folders; roots of projects are not deeper.
_MAX_FOLDERS = 12
#: A script's own folder, as a script determines it.
IN_OWN_FOLDER = lazy(
    r"(?i)(?:\$\{?(?:SCRIPT_?(?:DIR|PATH|HOME)|HERE|THIS_?DIR|CUR(?:RENT)?_?DIR|DIR)\}?"
    r"|\$\(\s*dirname\s[^()]*\)|`\s*dirname\s[^`]*`)/+(?P<rest>[^$`]+)"
)
_UNKNOWN = lazy(r"[$`*?\[{]|^~")


def folders_of(site: LaunchSite) -> Iterator[str]:
    """Yield the folders that names in a launch line may be relative to, nearest first; ``""`` is the working directory.

    A script starts in its own folder or a parent, and ``cd src`` is relative to that.
    """
    inner = _plain(site.folder or "")
    if inner.startswith("/"):
        yield posixpath.normpath(inner)
        return
    for folder in folders_above(site.span.path):
        yield _joined(folder, inner) if inner else folder


def folders_above(path: str) -> Iterator[str]:
    """Yield the folder of a file and those above it, up to the working directory ``""``."""
    folder = posixpath.dirname(_plain(path))
    for _ in range(_MAX_FOLDERS):
        yield folder
        if folder in ("", "/"):
            return
        if folder.endswith(".."):
            break
        folder = posixpath.dirname(folder)
    if not folder.startswith("/"):
        yield ""


def candidates(site: LaunchSite, name: str) -> list[str]:
    """Return the paths that a name in a launch line may mean; none if it contains a variable."""
    neighbour = IN_OWN_FOLDER.fullmatch(name)
    if neighbour:
        return [_joined(posixpath.dirname(_plain(site.span.path)), neighbour["rest"])]
    name = _plain(name)
    if not name or _UNKNOWN.search(name):
        return []
    return list(dict.fromkeys(_joined(folder, name) for folder in folders_of(site)))


def the_one(site: LaunchSite, names: tuple[str, ...], is_there: Callable[[str], bool]) -> str | None:
    """Return the path of the only file that these names can mean, or None.

    :param is_there: whether a path is a file
    """
    found = {path for name in names for path in candidates(site, name) if is_there(path)}
    return found.pop() if len(found) == 1 else None


def _joined(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))


def _plain(path: str) -> str:
    return path.replace("\\", "/")


def normalized(path: str) -> str:
    """Return a path with slashes, without ``.`` and ``..`` where possible."""
    return posixpath.normpath(_plain(path))
