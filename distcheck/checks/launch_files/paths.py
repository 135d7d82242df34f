"""Which file of the project a launch line names: a script, a configuration, a hostfile.

Nothing is opened here. Nobody knows the folder that a script is started in: a name is resolved only where one file
alone can be meant.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from .model import LaunchSite

#: Folders above a launch file that a name may be told from: the roots of projects are not deeper.
_MAX_FOLDERS = 12
#: A folder that a script has asked itself for: the one that it stands in.
_IN_OWN_FOLDER = re.compile(
    r"(?i)(?:\$\{?(?:SCRIPT_?(?:DIR|PATH|HOME)|HERE|THIS_?DIR|CUR(?:RENT)?_?DIR|DIR)\}?"
    r"|\$\(\s*dirname\s[^()]*\)|`\s*dirname\s[^`]*`)/+(?P<rest>[^$`]+)"
)
_UNKNOWN = re.compile(r"[$`*?\[{]|^~")


def folders_of(site: LaunchSite) -> Iterator[str]:
    """The folders that names in a launch line may be told from, nearest first; ``""`` is the working directory.

    A script is started in its own folder or in one above it, and ``cd src`` counts from there.
    """
    inner = _plain(site.folder or "")
    if inner.startswith("/"):
        yield posixpath.normpath(inner)
        return
    for folder in _folders_above(_plain(site.span.path)):
        yield _joined(folder, inner) if inner else folder


def _folders_above(path: str) -> Iterator[str]:
    folder = posixpath.dirname(path)
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
    """The paths that a name in a launch line may stand for; none where a variable is part of it."""
    neighbour = _IN_OWN_FOLDER.fullmatch(name)
    if neighbour:
        return [_joined(posixpath.dirname(_plain(site.span.path)), neighbour["rest"])]
    name = _plain(name)
    if not name or _UNKNOWN.search(name):
        return []
    return list(dict.fromkeys(_joined(folder, name) for folder in folders_of(site)))


def the_one(site: LaunchSite, names: tuple[str, ...], is_there: Callable[[str], bool]) -> str | None:
    """The path of the only file that one of these names can stand for; None for none and for several.

    :param is_there: whether there is a file of this path
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
