"""The entry point of ``distcheck`` and ``python -m distcheck``: it decides which code runs a command line.

1. ``env --profile prolog`` goes to :mod:`.prolog_guard`, which must not fail where a library is missing.
2. ``pickle FILE…`` with nothing but paths is run without click. Reading a small checkpoint takes less time than
   importing click, and scripts call this a thousand times.
3. ``explain TEXT…`` without options is run without click as well: it reads an error message in the time of two imports.
4. All other command lines go to :mod:`.main`. Options, variables, configuration files and absent paths are there,
   so that there is one parser, and usage errors come from one module.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence


def main() -> None:
    """Run the command line and end the process."""
    words = sys.argv[1:]
    if words[:1] == ["lint"]:
        # the process is short-lived and its large tables hold no cycles: a search for cycles takes 5 % of the time
        gc.disable()
    _run_prolog(words, os.environ)
    run = fast_pickle(words, os.environ) or fast_explain(words, os.environ)
    if run is None:
        from .main import main as run_with_click

        run_with_click()
        return
    from .exit_status import end_with, leave

    end_with(run, leave)


def _run_prolog(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run the check of a scheduler's prolog, which ends the process; return for any other command line."""
    has_profile = "DISTCHECK_ENV_PROFILE" in environ or any(word.startswith("--profile") for word in words)
    if "env" not in words or not has_profile:
        return
    try:
        from . import prolog_guard

        is_prolog = prolog_guard.is_prolog(words, environ)
    except Exception as error:  # noqa: BLE001 - a broken installation must not drain the node
        line = f"distcheck prolog: NOT CHECKED: the installation is broken: {error}"
        try:
            os.write(2, line.encode("ascii", "backslashreplace")[:120] + b"\n")
        finally:
            os._exit(0)
    if is_prolog:
        prolog_guard.main(words)


def fast_pickle(words: Sequence[str], environ: Mapping[str, str]) -> Callable[[], int] | None:
    """Return the function that runs ``pickle FILE…``, or None if the command line needs click."""
    if len(words) < 2 or words[0] != "pickle" or any(word.startswith("-") or not word for word in words[1:]):
        return None
    if any(name.startswith(("DISTCHECK_PICKLE", "_DISTCHECK")) for name in environ):
        return None
    if any(not os.path.lexists(path) for path in words[1:]) or _is_configured():
        return None
    return lambda: _scan(tuple(words[1:]))


def fast_explain(words: Sequence[str], environ: Mapping[str, str]) -> Callable[[], int] | None:
    """Return the function that runs ``explain TEXT…``, or None if the command line needs click."""
    if len(words) < 2 or words[0] != "explain" or any(word.startswith("-") for word in words[1:]):
        return None
    if any(name.startswith(("DISTCHECK_EXPLAIN", "_DISTCHECK")) for name in environ):
        return None
    return lambda: _explain(words[1:])


def _explain(texts: Sequence[str]) -> int:
    from distcheck.rules import UnknownRule

    from . import output
    from .explain_text import UnknownText, answered

    try:
        output.to_stdout(answered(texts))
    except UnknownRule:
        # a usage error, as click writes it
        from .main import main as run_with_click

        run_with_click()
    except UnknownText as error:
        output.say(f"Error: {error}")
        return output.MISUSED
    return output.CLEAN


def _scan(paths: tuple[str, ...]) -> int:
    from distcheck.checks.pickles.api import policy_of
    from distcheck.rules import Selection

    from .output import cores
    from .pickle_scan import DEFAULTS, ScanOptions, run

    return run(ScanOptions(paths, DEFAULTS, Selection(), policy_of(), jobs=cores()))


def _is_configured() -> bool:
    """Return whether a configuration file may hold settings for distcheck."""
    from distcheck.core.configuration_files import SITE_FILE, project_files

    if os.path.exists(SITE_FILE):
        return True
    try:
        for path in project_files(os.getcwd()):
            if not os.path.exists(path):
                continue
            # a pipe would block
            if not os.path.isfile(path):
                return True
            with open(path, "rb") as file:
                if b"distcheck" in file.read():
                    return True
    except OSError:
        return True
    return False
