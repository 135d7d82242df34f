"""The short ways: ``distcheck pickle FILE…`` with nothing but paths, and a scheduler's prologue.

The first is the same run without the parser of options; the second must not fail where that parser can't be imported.

Reading a small checkpoint takes less time than importing click, and scripts call this a thousand times.
Whatever is not plain (an option, a variable, a configuration file, a path that is not there) goes the long way, so that
there is one parser and one place that says what was wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

#: Files that may hold settings of ours, as :mod:`.configuration` reads them.
_PROJECT_FILES = ("pyproject.toml", "setup.cfg", "tox.ini")
_SITE_FILE = "/etc/distcheck.toml"
#: Folders that are looked at upwards, as :mod:`.configuration` does.
_MOST_FOLDERS = 64


def main() -> None:
    """The console script."""
    _prologue_first(sys.argv[1:], os.environ)
    run = shortcut(sys.argv[1:], os.environ)
    if run is None:
        from .main import main as long_way

        long_way()
        return
    from .exit_status import end_with, leave

    end_with(run, leave)


def _prologue_first(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Hand a scheduler's prologue to its own door, which ends the process, before anything can fail to import."""
    named = "DISTCHECK_ENV_PROFILE" in environ or any(word.startswith("--profile") for word in words)
    if "env" not in words or not named:
        return
    try:
        from . import prolog_guard

        asked = prolog_guard.asked_for(words, environ)
    except Exception as error:  # noqa: BLE001 - not even this module: the node is not to blame
        line = f"distcheck prolog: NOT CHECKED: the installation is broken: {error}"
        try:
            os.write(2, line.encode("ascii", "backslashreplace")[:120] + b"\n")
        finally:
            os._exit(0)
    if asked:
        prolog_guard.main(words)


def shortcut(words: Sequence[str], environ: Mapping[str, str]) -> Callable[[], int] | None:
    """What to run where a command line is plain; None where it needs the parser."""
    if len(words) < 2 or words[0] != "pickle" or any(word.startswith("-") or not word for word in words[1:]):
        return None
    if any(name.startswith(("DISTCHECK_PICKLE", "_DISTCHECK")) for name in environ):
        return None
    if any(not os.path.lexists(path) for path in words[1:]) or _is_configured():
        return None
    return lambda: _scan(tuple(words[1:]))


def _scan(paths: tuple[str, ...]) -> int:
    from distcheck.checks.pickles.api import policy_of
    from distcheck.rules import Selection

    from .output import cores
    from .pickle_scan import DEFAULTS, ScanOptions, run

    return run(ScanOptions(paths, DEFAULTS, Selection(), policy_of(), jobs=cores()))


def _is_configured() -> bool:
    """Whether a file that may be meant for us says anything about us."""
    if os.path.exists(_SITE_FILE):
        return True
    try:
        folder = os.getcwd()
    except OSError:
        return True
    for _ in range(_MOST_FOLDERS):
        for name in _PROJECT_FILES:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    if b"distcheck" in file.read():
                        return True
            except FileNotFoundError:
                continue
            except OSError:
                return True
        parent = os.path.dirname(folder)
        if parent == folder or os.path.exists(os.path.join(folder, ".git")):
            break
        folder = parent
    return False
