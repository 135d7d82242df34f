# ruff: noqa: B905, F401, RUF005, RUF007, SIM105, UP024, UP031, UP035 - Python 2.7 reads this file as well
"""What runs first in ``distcheck.pyz``, on any Python from 2.7 on: one that is too old hears what to type.

A scheduler's prologue (docs/scheduler.md) fails open here as well: with a Python that is too old, or a file that was
not copied whole, its one line reports that, and its status is 0.
"""

import os
import subprocess
import sys

#: As ``python_requires`` in setup.cfg.
OLDEST = (3, 10)
#: Minor versions to search for if this Python is too old, newest first.
OTHERS = range(20, OLDEST[1] - 1, -1)
LONGEST_COMMAND = 200
#: Of the one line of a prologue, as distcheck.cli.prolog_guard has it.
LONGEST_LINE = 120

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn


def newer_python():
    # type: () -> str
    """The name of a Python in PATH that is new enough and runs (a name of pyenv's need not); empty without one."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    for minor in OTHERS:
        name = "python3.%d" % minor
        if not any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders):
            continue
        try:
            with open(os.devnull, "r+b") as nothing:
                if subprocess.call([name, "-c", ""], stdin=nothing, stdout=nothing, stderr=nothing) == 0:
                    return name
        except EnvironmentError:  # a folder, a program for another machine, no /dev/null
            continue
    return ""


def what_to_type():
    # type: () -> str
    """One line for a Python that is too old."""
    try:
        from shlex import quote
    except ImportError:  # Python 2.7
        from pipes import quote
    here = "distcheck needs Python %d.%d or newer, and this is Python %d.%d.%d" % (OLDEST + sys.version_info[:3])
    python = newer_python()
    words = [python or "python3.12"]
    words.extend(map(quote, sys.argv))
    command = " ".join(words)
    if len(command) > LONGEST_COMMAND or "\n" in command:
        command = " ".join(words[:2]) + " ..."
    if python:
        return "%s (%s); type: %s" % (here, sys.executable, command)
    return "%s (%s), and PATH has none: load or install one (module load python, conda, uv), then type: %s" % (
        here,
        sys.executable,
        command,
    )


def is_prologue(words, environ):
    # type: (Sequence[str], Mapping[str, str]) -> bool
    """Whether the command line is a scheduler's prologue, as ``distcheck.cli.prolog_guard.is_prolog`` does."""
    own = list(words[: words.index("--")] if "--" in words else words)
    if "env" not in own:
        return False
    values = [word.partition("=")[2] for word in own if word.startswith("--profile=")]
    values += [value for word, value in zip(own, own[1:]) if word == "--profile"]
    return any(value.lower().startswith("prol") for value in values or [environ.get("DISTCHECK_ENV_PROFILE", "")])


def give_up(why, for_people):
    # type: (str, Callable[[], str]) -> NoReturn
    """Print the reason and exit with 2, or with 0 in a prolog, whose other statuses drain the node."""
    prologue = is_prologue(sys.argv[1:], os.environ)
    if prologue:
        line = "distcheck prolog: NOT CHECKED: " + why
        line = "".join(char if " " <= char <= "~" else "?" for char in line)[:LONGEST_LINE]
    else:
        line = for_people().replace("\n", " ")
    try:
        os.write(2, (line if isinstance(line, bytes) else os.fsencode(line)) + b"\n")
    except EnvironmentError:  # standard error is closed; the status remains
        pass
    os._exit(0 if prologue else 2)


def damaged(error):
    # type: (Exception) -> NoReturn
    """The file was not copied whole, was changed meanwhile, or this Python lacks a module of its own (zlib)."""
    why = "this file is not whole for this Python: %s: %s" % (type(error).__name__, error)
    here = "%s, %s" % (sys.argv[0], sys.executable)
    give_up(why, lambda: "distcheck: %s (%s); copy or build it again, or take another Python" % (why, here))


def main():
    # type: () -> None
    """Run distcheck, or print why this Python can't."""
    if sys.version_info < OLDEST:
        here = sys.version_info[:3] + (sys.executable,)
        give_up("it needs Python %d.%d or newer; this is %d.%d.%d (%s)" % (OLDEST + here), what_to_type)
    try:
        # modules must be found after a change of the working folder
        sys.path[0] = os.path.abspath(sys.path[0])
        from distcheck.cli.fast_path import main as run
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no fault of the node
        damaged(error)
    try:
        run()
    except ImportError as error:
        damaged(error)


if __name__ == "__main__":
    main()
