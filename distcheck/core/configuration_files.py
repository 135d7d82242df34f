"""Where a configuration can be: the names of the files, and the folders to search.

It imports nothing of this package, so that the fast path of the command line can use it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

SITE_FILE = "/etc/distcheck.toml"
#: The files of a project, in order of precedence, and the section of each that holds our settings.
PROJECT_FILES = (("pyproject.toml", "tool.distcheck"), ("setup.cfg", "distcheck"), ("tox.ini", "distcheck"))
#: The most parent folders that are searched.
_MOST_FOLDERS = 64


def project_files(folder: str, exists: Callable[[str], bool] = os.path.exists) -> Iterator[str]:
    """Yield the paths where a project may configure distcheck, from this folder upwards to the root of its repository.

    :param exists: whether a path exists on the checked machine
    """
    for _ in range(_MOST_FOLDERS):
        for name, _section in PROJECT_FILES:
            yield os.path.join(folder, name)
        parent = os.path.dirname(folder)
        if parent == folder or exists(os.path.join(folder, ".git")):
            return
        folder = parent
