"""The variables that apply, and who set them: the environment, the launcher, a command, NCCL's configuration files.

The values are texts. ``values.py`` knows how a library parses them, and the probes report problems.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from distcheck.core.configuration import Configuration
from distcheck.core.model import Unavailable
from distcheck.core.redaction import mask
from distcheck.core.registry import fact
from distcheck.core.variable_table import VariableTable
from distcheck.core.world import World

from .model import Launch
from .values import unknown_log_names

#: NCCL's settings of the machine, and below the home directory those of a user (NVIDIA/nccl 2.30.7, src/misc/param.cc).
SITE_FILE = "/etc/nccl.conf"
USER_FILE = ".nccl.conf"
#: Longest name and value that NCCL keeps of a line, in bytes (the same file).
_MAX_PART_LENGTH = 1023

ENVIRONMENT = "environment"
LAUNCHER = "launcher"
COMMAND = "command"

#: Variables that torchrun sets for each worker (torch 2.13.0,
#: torch/distributed/elastic/agent/server/local_elastic_agent.py).
_SET_BY_TORCHRUN = frozenset(
    {
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "ROLE_NAME",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "TORCHELASTIC_ERROR_FILE",
        "TORCHELASTIC_MAX_RESTARTS",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_SIGNALS_TO_HANDLE",
        "TORCHELASTIC_USE_AGENT_STORE",
        "WORLD_SIZE",
    }
)


class Setting(NamedTuple):
    """One variable that applies."""

    name: str
    value: str
    #: ``environment``, ``launcher`` (torchrun set it for its worker), ``command`` (an assignment on the planned command
    #: line), or a file with its line: ``/etc/nccl.conf:3``, ``~/.nccl.conf:1``
    origin: str = ENVIRONMENT

    @property
    def by_user(self) -> bool:
        """Return whether this environment or the command line sets it, not a launcher or a file."""
        return self.origin in (ENVIRONMENT, COMMAND)

    @property
    def by_site(self) -> bool:
        """Return whether the machine's configuration file sets it."""
        return self.origin.startswith(SITE_FILE + ":")


class Settings(NamedTuple):
    """All variables that concern training, sorted by name."""

    items: tuple[Setting, ...] = ()
    #: why the file that NCCL_CONF_FILE names was not read; NCCL then reads no file of the user and prints nothing
    unread: str | None = None
    #: names in TORCH_LOGS that are not registered, but importable modules
    importable: frozenset[str] = frozenset()
    #: names from the configuration: they are no typing errors
    known: frozenset[str] = frozenset()
    #: the job reads the configuration files of this host
    files_apply: bool = True

    def of(self, name: str) -> Setting | None:
        """Return the variable with its origin, even if it is empty; None if it is not set."""
        return next((item for item in self.items if item.name == name), None)

    def get(self, name: str) -> str | None:
        """Return the text of a variable, or None if it is not set. For NCCL an empty variable is not set."""
        found = self.of(name)
        if found is None or (not found.value and name.startswith("NCCL_")):
            return None
        return found.value

    def with_command(self, assignments: Mapping[str, str]) -> Settings:
        """Return these settings with the assignments of another command."""
        kept = {item.name: item for item in self.items if item.origin != COMMAND}
        for name, value in assignments.items():
            kept[name] = Setting(name, mask(value, name=name), COMMAND)
        return self._replace(items=tuple(sorted(kept.values())))

    def origin(self, name: str) -> str | None:
        """Return who set it, or None if it is not set."""
        found = self.of(name)
        return None if found is None else found.origin


def parse_nccl_conf(text: str) -> list[tuple[int, str, str]]:
    """Return the lines of a configuration file as NCCL reads them: line number from 1, name, value.

    Nothing is trimmed: a blank around the ``=`` belongs to the name or the value. Only a # in the first column makes
    a comment. The first value of each name counts.
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.split("\0")[0]
        name, equals, value = line.partition("=")
        if line.startswith("#") or not equals or not name:
            continue
        found.append((number, _cut(name), _cut(value)))
    return found


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:_MAX_PART_LENGTH].decode("utf-8", "replace")


@fact(of_this_host=False)
def read_settings(world: World, launch: Launch, configuration: Configuration | Unavailable) -> Settings:
    """Read the environment, the planned command's assignments, and NCCL's files, in order of precedence."""
    found: dict[str, Setting] = {}
    command = {} if launch.command is None else launch.command.assignments
    for name, value in command.items():
        found[name] = Setting(name, mask(value, name=name), COMMAND)
    for name, value in world.environ.items():
        found.setdefault(name, Setting(name, value, _origin(name, world.environ)))
    unread = None
    if launch.on_this_host:
        files, unread = _files(world, found.get("NCCL_CONF_FILE"))
        table = VariableTable()
        for shown, text in files:
            for line, name, value in parse_nccl_conf(text):
                # a line such as "export NCCL_DEBUG=INFO" sets a variable with that whole name
                if table.bears_on_training(name.split()[-1] if name.strip() else name):
                    found.setdefault(name, Setting(name, mask(value, name=name), f"{shown}:{line}"))
    return Settings(
        tuple(sorted(found.values())),
        unread=unread,
        known=frozenset()
        if isinstance(configuration, Unavailable)
        else frozenset(configuration.values("known-variables")),
        importable=frozenset(_importable(world, launch, found.get("TORCH_LOGS"))),
        files_apply=launch.on_this_host,
    )


def _origin(name: str, environ: Mapping[str, str]) -> str:
    """Return who set a variable of this environment: torchrun's workers have some that no user set."""
    if "TORCHELASTIC_RUN_ID" not in environ:
        return ENVIRONMENT
    if name in _SET_BY_TORCHRUN:
        return LAUNCHER
    # torchrun sets these two only if the user does not; a user's own 1 has the same meaning
    if name == "TORCH_NCCL_ASYNC_ERROR_HANDLING" and environ[name] == "1":
        return LAUNCHER
    if name == "OMP_NUM_THREADS" and environ[name] == "1" and environ.get("LOCAL_WORLD_SIZE") != "1":
        return LAUNCHER
    return ENVIRONMENT


def _files(world: World, named: Setting | None) -> tuple[list[tuple[str, str]], str | None]:
    """Return NCCL's files by precedence, each with its name and text, and why the named one was not read.

    NCCL skips a file that this user can't read.
    """
    user: tuple[str, str] | None = None
    if named is not None and named.value:
        user = (named.value, named.value)
    elif world.home:
        user = (f"~/{USER_FILE}", f"{world.home.rstrip('/')}/{USER_FILE}")
    unread = None
    found = []
    for shown, path in ((user,) if user else ()) + ((SITE_FILE, SITE_FILE),):
        try:
            found.append((shown, world.read_text(path)))
        except OSError as error:
            if named is not None and path == named.value:
                unread = error.strerror or str(error)
        except ValueError as error:  # a NUL in a name that a command line brought
            unread = str(error)
    return found, unread


def _importable(world: World, launch: Launch, logs: Setting | None) -> Iterator[str]:
    """Yield the unknown names in TORCH_LOGS that are modules on Python's path. Nothing is imported."""
    names = () if logs is None else unknown_log_names(logs.value)
    if not names:
        return
    try:
        here = world.working_folder
    except OSError:  # it was removed
        here = "."
    folders = [*world.python_path, here]
    if launch.script is not None and not launch.script.startswith("-"):
        folders.append(launch.script.rpartition("/")[0] or here)
    entries: set[str] = set(sys.builtin_module_names) | set(sys.stdlib_module_names)
    for folder in folders:
        try:
            entries.update(entry.split(".")[0] for entry in world.list_folder(folder) if not entry.endswith("-info"))
        except OSError:
            continue
    yield from (name for name in names if name in entries)
