"""Who started this process: its ancestors, its terminal, its interpreter's surroundings.

Only what /proc shows of this process and of those above it; whether that is good or bad for a launch is judged by the
packages that need it. Of a command line only the words are kept that name the program, and those are masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck.core.model import Unavailable
from distcheck.core.redaction import mask_arguments
from distcheck.core.registry import fact
from distcheck.core.world import World

#: No chain of launchers, shells and containers comes near it; it only bounds the reading.
DEEPEST = 64
#: Bytes of a command line that are read: the program and its script stand at its beginning.
LONGEST_COMMAND = 4096
#: /proc counts a process's start in these (proc(5); USER_HZ is 100 on every platform that torch runs on).
TICKS_PER_S = 100
#: SIGHUP is signal 1, the lowest bit of the masks in /proc/PID/status (proc(5), signal(7)).
_HANGUP = 1

#: Programs that start ranks or tasks, by the name of their process, their program, their script or their module.
_LAUNCHERS = {
    "torchrun": "torchrun", "torch.distributed.run": "torchrun", "pt_elastic": "torchrun",
    # above a rank it can only be "distcheck collective --nnodes", which runs torchrun's agent
    "distcheck": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate": "accelerate", "accelerate-launch": "accelerate", "accelerate.commands.launch": "accelerate",
    "deepspeed": "deepspeed", "deepspeed.launcher.runner": "deepspeed", "deepspeed.launcher.launch": "deepspeed",
    "srun": "srun", "slurmstepd": "slurmstepd",
    **dict.fromkeys(("mpirun", "orterun", "prterun", "orted", "prted"), "mpirun"),
    **dict.fromkeys(("mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "mpirun_rsh", "mpispawn"), "mpiexec"),
    "jsrun": "jsrun", "raylet": "ray", "horovodrun": "horovod",
}  # fmt: skip
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
#: Programs that keep a session alive when its terminal closes, or that need none.
_KEEPERS = frozenset(
    {"tmux", "screen", "zellij", "dtach", "abduco", "mosh-server", "systemd-run", "slurmstepd", "pbs_mom", "sbatchd"}
)
_PYTHONS = ("python", "pypy")
#: Where a session begins: processes above it do not belong to the user's command.
_SESSION_STARTS = frozenset({"sshd", "sshd-session", "login", "systemd", "init", "su", "sudo"})
#: Notebooks and editors: parts of a command line in lower case, and names of programs.
_SURROUNDINGS: tuple[tuple[str, tuple[str, ...], frozenset[str]], ...] = (
    ("jupyter", ("ipykernel", "colab_kernel_launcher"), frozenset({"jupyter", "jupyter-lab", "jupyter-notebook"})),
    ("ipython", (), frozenset({"ipython", "ipython3", "IPython"})),
    ("vscode", (".vscode-server", ".cursor-server", "debugpy"), frozenset({"code", "code-insiders"})),
    # not the bare name: projects stand in ~/PycharmProjects
    ("pycharm", ("pydevd", "/pycharm/bin/", "/plugins/python/helpers", "/plugins/python-ce/helpers"), frozenset()),
)


class Ancestor(NamedTuple):
    """A process above this one."""

    pid: int
    #: short name, as the kernel knows it
    name: str
    #: its program and, where there is one, the script or module that it runs, with credentials masked
    arguments: tuple[str, ...] = ()
    #: SIGHUP is ignored (nohup)
    ignores_hangup: bool | None = None


class Ancestry(NamedTuple):
    """This process and where it comes from; nearest ancestor first."""

    ancestors: tuple[Ancestor, ...] = ()
    #: it has a controlling terminal
    terminal: bool | None = None
    #: SIGHUP is ignored (nohup)
    ignores_hangup: bool | None = None
    #: ``torchrun``, ``srun``, ``mpirun``, ``slurmstepd`` …: the launchers among the ancestors, nearest first
    launchers: tuple[str, ...] = ()
    #: ``tmux``, ``screen``, ``slurmstepd`` …: who keeps the session alive without its terminal
    keepers: tuple[str, ...] = ()
    #: ``jupyter``, ``ipython``, ``vscode``, ``pycharm``; None elsewhere
    surroundings: str | None = None
    #: all ancestors could be read; false if the chain ends at a hidden or exited one
    complete: bool = True
    #: this process or one that started it was put under nohup since the user logged in
    under_nohup: bool = False
    #: this process or one that started it since then has a terminal; torchrun's ranks themselves have none
    from_terminal: bool = False

    @property
    def under_torchrun(self) -> bool:
        """torchrun, or a launcher that runs its agent, is among the ancestors."""
        return any(name in self.launchers for name in ("torchrun", "torch.distributed.launch", "accelerate"))


@fact()
def read_ancestry(world: World) -> Ancestry:
    """From /proc/PID/stat, status, cmdline and where standard output goes."""
    if world.platform != "linux":
        raise Unavailable(f"{world.platform} has no /proc: who started this process is not known")
    own = _stat(world, world.pid)
    if own is None:
        raise Unavailable(f"/proc/{world.pid} can't be read: who started this process is not known")
    _, parent, terminal = own
    ancestors: list[Ancestor] = []
    nohup = [_ignores_hangup(world, world.pid) is True or _writes_nohup_out(world, world.pid)]
    terminals = [terminal]
    same_session = True
    while parent > 0 and len(ancestors) < DEEPEST and all(parent != ancestor.pid for ancestor in ancestors):
        found = _stat(world, parent)
        if found is None:
            break
        pid, (name, parent, has_terminal) = parent, found
        ancestor = Ancestor(pid, name, _arguments(world, pid), _ignores_hangup(world, pid))
        ancestors.append(ancestor)
        same_session = same_session and name.split(":")[0] not in _SESSION_STARTS and not _keeper(ancestor)
        if same_session:
            nohup.append(ancestor.ignores_hangup is True or _writes_nohup_out(world, pid))
            terminals.append(has_terminal)
    this = Ancestor(world.pid, own[0], _arguments(world, world.pid))
    return Ancestry(
        tuple(ancestors),
        terminal=terminal,
        ignores_hangup=_ignores_hangup(world, world.pid),
        launchers=_each_once(launcher_of(ancestor) for ancestor in ancestors),
        keepers=_each_once(_keeper(ancestor) for ancestor in ancestors),
        surroundings=next(filter(None, map(_surroundings, (this, *ancestors))), None),
        complete=parent == 0,
        under_nohup=any(nohup),
        from_terminal=any(terminals),
    )


def read_process(world: World, pid: int) -> Ancestor:
    """Return any process by its number: its name and the words that identify its program. A hidden one has neither."""
    found = _stat(world, pid)
    return Ancestor(pid, "" if found is None else found[0], _arguments(world, pid))


def read_users(world: World) -> dict[int, str]:
    """Return names by number from /etc/passwd. A directory service is not queried: it may hang."""
    parts = [line.split(":") for line in world.text_or_empty("/etc/passwd").splitlines()]
    return {int(part[2]): part[0] for part in parts if len(part) > 2 and part[2].isdecimal()}


def read_start(world: World, pid: int) -> float | None:
    """Return when a process was started, in seconds since 1970: boot time and field 22 of its stat (proc(5))."""
    boot = re.search(r"^btime (\d+)", world.text_or_empty("/proc/stat"), re.MULTILINE)
    ticks = world.text_or_empty(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(boot[1]) + int(ticks[19]) / TICKS_PER_S if boot and len(ticks) > 19 else None


def shown_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command line without credentials, and with "..." for a program text after ``-c``."""
    words = list(arguments)
    if words and (_base(words[0]).startswith(_PYTHONS) or _base(words[0]) in _SHELLS) and "-c" in words[:-1]:
        words[words.index("-c") + 1] = "..."
    return mask_arguments(words)


def _stat(world: World, pid: int) -> tuple[str, int, bool] | None:
    """Return name, parent and whether there is a controlling terminal; None for a hidden or exited process."""
    text = world.text_or_empty(f"/proc/{pid}/stat")
    # the name stands in brackets, and may hold blanks and brackets itself
    name, closed, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    if not closed or len(fields) < 5 or not fields[1].isdigit():
        return None
    return name, int(fields[1]), fields[4] != "0"


def _arguments(world: World, pid: int) -> tuple[str, ...]:
    """Return the words that identify the program; none for a process of the kernel, or one that exited."""
    raw = world.text_or_empty(f"/proc/{pid}/cmdline", LONGEST_COMMAND)
    words = raw.rstrip("\0").split("\0") if raw else []
    end = 1
    if words and _base(words[0]).startswith(_PYTHONS):
        while end < len(words) and words[end].startswith("-") and words[end] not in ("-m", "-c"):
            end += 1 + (words[end] in ("-X", "-W"))
        end += words[end : end + 1] == ["-m"]
    # what follows -c is a program text, and what follows an option of another program may be anything
    shown = words[: end + (end < len(words) and not words[end].startswith("-"))]
    return mask_arguments(shown)


def _ignores_hangup(world: World, pid: int) -> bool | None:
    """Whether SIGHUP is ignored, None where that can't be read."""
    for line in world.text_or_empty(f"/proc/{pid}/status").splitlines():
        if line.startswith("SigIgn:"):
            try:
                return bool(int(line.partition(":")[2], 16) & _HANGUP)
            except ValueError:
                return None
    return None


def _writes_nohup_out(world: World, pid: int) -> bool:
    """Standard output goes where nohup puts it. Other users' processes do not show that."""
    return world.link_or_empty(f"/proc/{pid}/fd/1").endswith("/nohup.out")


def _programs(ancestor: Ancestor) -> Iterator[str]:
    """Return the names of a process: its own, its program's, and its script's or module's under Python."""
    # slurmstepd and sshd write what they do behind a colon
    yield ancestor.name.split(":")[0]
    if not ancestor.arguments:
        return
    program = _base(ancestor.arguments[0].split(":")[0])
    yield program
    if program.startswith(_PYTHONS) and len(ancestor.arguments) > 1:
        # a module's name has no slash, and stays as it is
        yield _base(ancestor.arguments[-1])


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def launcher_of(ancestor: Ancestor) -> str | None:
    """``torchrun``, ``srun`` … for a process that starts ranks or tasks; None for any other."""
    return next((_LAUNCHERS[name] for name in _programs(ancestor) if name in _LAUNCHERS), None)


def _keeper(ancestor: Ancestor) -> str | None:
    return next((name for name in _programs(ancestor) if name in _KEEPERS), None)


def _surroundings(process: Ancestor) -> str | None:
    """The notebook or editor that a process belongs to, by its command line."""
    line = " ".join(process.arguments).lower()
    programs = frozenset(_programs(process))
    for surroundings, parts, names in _SURROUNDINGS:
        if any(part in line for part in parts) or programs & names:
            return surroundings
    return None


def _each_once(names: Iterator[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
