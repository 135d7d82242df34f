"""Files from which launchers take options and variables that no user types: Accelerate's default, DeepSpeed's list.

They are named, and not judged: what they hold is the matter of those who read them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Unavailable, Where
from distcheck.core.redaction import names_a_credential
from distcheck.core.registry import fact, probe
from distcheck.core.world import World
from distcheck.launch.model import Launch

#: Where ``accelerate config`` writes, below the cache folder of Hugging Face (accelerate ``commands/config``).
ACCELERATE_FILES = ("accelerate/default_config.yaml", "accelerate/default_config.yml", "accelerate/default_config.json")
#: Variables that DeepSpeed's launcher exports on every node, one NAME=VALUE a line (deepspeed ``launcher/runner.py``).
DEEPSPEED_FILE = ".deepspeed_env"
LAUNCHERS = frozenset({"accelerate", "deepspeed"})
#: Most names that a message lists.
_MOST_NAMES = 6


class LauncherFile(NamedTuple):
    """A file that a launcher reads on its own."""

    path: str
    #: ``accelerate`` or ``deepspeed``
    launcher: str
    #: names of the variables that it sets; empty where it holds options
    variables: tuple[str, ...] = ()


class LauncherFiles(NamedTuple):
    """The files that the planned launcher will read, the winning one first."""

    files: tuple[LauncherFile, ...] = ()


@fact(of_launch=True)
def read_launcher_files(world: World, launch: Launch) -> LauncherFiles:
    """Accelerate's default configuration, or DeepSpeed's list of variables in the working folder and at home."""
    if launch.command is None or launch.launcher not in LAUNCHERS:
        raise NotApplicable("the launch is none of Accelerate's or DeepSpeed's")
    if launch.launcher == "accelerate":
        return LauncherFiles(() if launch.command.config_file else tuple(_accelerate(world)))
    return LauncherFiles(tuple(_deepspeed(world)))


@probe(rules.DC116)
def launchers_read_no_hidden_file(launch: Launch, files: LauncherFiles | Unavailable) -> Iterator[Finding]:
    """Which file gives a launcher settings that the command does not show."""
    if launch.launcher not in LAUNCHERS:
        return
    if isinstance(files, Unavailable):
        raise files
    for file in files.files[:1]:
        names = list(file.variables[:_MOST_NAMES])
        more = len(file.variables) - len(names)
        held = f"sets {', '.join(names)}{f' and {more} more' if more > 0 else ''} on every node" if names else ""
        yield rules.DC116.found(
            f"{file.launcher} reads {file.path}, which {held or 'gives every option that the command omits'}",
            severity=Severity.INFO,
            where=Where(path=file.path),
            evidence={"launcher": file.launcher, "variables": list(file.variables)},
            fix=Fix(
                "nothing, where that is meant; name a file of this project with --config_file where it is not"
                if file.launcher == "accelerate"
                else "nothing, where that is meant; a file of that name in the working folder wins over it",
                where="launch-line",
            ),
        )


def _accelerate(world: World) -> Iterator[LauncherFile]:
    cache = world.environ.get("HF_HOME") or (world.home and os.path.join(world.home, ".cache", "huggingface"))
    for name in ACCELERATE_FILES if cache else ():
        path = os.path.join(str(cache), name)
        if world.exists(path):
            yield LauncherFile(path, "accelerate")


def _deepspeed(world: World) -> Iterator[LauncherFile]:
    try:
        folders = [world.working_folder]
    except OSError:
        folders = []
    for folder in (*folders, world.home):
        path = os.path.join(folder or "", DEEPSPEED_FILE)
        try:
            text = world.read_text(path) if folder else ""
        except OSError:
            continue
        names = [line.partition("=")[0].strip() for line in text.splitlines() if "=" in line and line.strip()[0] != "#"]
        if names:
            yield LauncherFile(path, "deepspeed", tuple(name for name in names if not names_a_credential(name)))
