"""Make a plan from the command line: options, then a script or a whole launch line.

Only names of files are read. :mod:`distcheck.launch.command` parses the line. Options override it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import NamedTuple

from distcheck.launch.command import nproc_on, parse_command
from distcheck.launch.model import NODE_LAUNCHERS, LaunchCommand

from .plan import RehearsalPlan, module_file

#: Default nodes and ranks of each: the fewest at which a global rank differs from a local rank.
NODES, RANKS = 2, 2
#: Most ranks of one rehearsal: each is a process with torch in it.
MOST_RANKS = 256
#: Optimizer steps by default, and those that are made in addition if they are fast.
STEPS, MOST_STEPS = 3, 64


class RehearseOptions(NamedTuple):
    """The options of ``distcheck rehearse`` that describe the job; None where not given."""

    nnodes: int | None = None
    nproc_per_node: int | None = None
    gpus_per_node: int | None = None
    launcher: str | None = None
    module: bool = False
    #: 0: to the script's end; None: three, and more if they are fast
    steps: int | None = None
    seconds: float | None = None
    epoch_steps: int | None = None
    hang_timeout_s: float = 5.0
    in_place: bool = False
    real_gpus: bool = False
    network: bool = False
    reference: bool = False
    reference_args: str = ""


class ParsedCommand(NamedTuple):
    """The job to rehearse."""

    plan: RehearsalPlan
    #: variables that the line sets for its processes
    assignments: Mapping[str, str] = {}
    #: parts of the line that the rehearsal ignores: what, and why
    left_out: tuple[tuple[str, str], ...] = ()


class CannotRehearse(ValueError):  # noqa: N818 - a usage error
    """The command line can't be rehearsed; the message states why and what to type."""


def read(
    words: Sequence[str],
    options: RehearseOptions,
    *,
    folder: str,
    environ: Mapping[str, str] = {},
    starts_ranks: Callable[[str], bool] = lambda _: False,
) -> ParsedCommand:
    """The plan.

    :param words: a script and its arguments, or a launch line
    :param folder: the working directory, absolute
    :param starts_ranks: whether a script starts its own ranks
    :raises CannotRehearse: there is nothing that could be run
    """
    command = _direct(words, options.module) or parse_command(words, environ)
    target = _target(command, words)
    left_out = []
    if command.no_python:
        raise CannotRehearse(f"{target} is no Python script (--no-python); a rehearsal runs Python scripts only")
    if command.module:
        _insist_on_a_module(target, folder)
    else:
        _insist_on_a_script(target, folder)
    launcher = options.launcher or _launcher(command, target, starts_ranks)
    unknown = command.unknown & {"nproc", "processes", "tasks", "tasks_per_node", "nnodes_min", "nodes"}
    if unknown and (options.nnodes is None or options.nproc_per_node is None):
        left_out.append(("numbers of the launch line", "only the shell knows them; set --nnodes and --nproc-per-node"))
    if command.launcher in NODE_LAUNCHERS and "nproc" not in command.unknown and not _is_a_count(command.nproc):
        raise CannotRehearse(f"the launch line starts {command.nproc!r} processes a node; expected 1 or more, or gpu")
    nproc = options.nproc_per_node or _ranks(command, options) or RANKS
    nnodes = options.nnodes or _nodes(command, launcher)
    if nnodes * nproc > MOST_RANKS:
        raise CannotRehearse(
            f"{nnodes} nodes with {nproc} ranks each are {nnodes * nproc} processes with torch in them, more than "
            f"{MOST_RANKS}; --nnodes {NODES} --nproc-per-node {RANKS} shows most errors"
        )
    if command.launcher in ("accelerate", "deepspeed"):
        left_out.append((f"options of {command.launcher}", "ranks get the variables of torchrun, not its own"))
    gpus = options.gpus_per_node
    plan = RehearsalPlan(
        target, tuple(command.script_args), command.module, nnodes, nproc,
        _gpus(command, nproc) if gpus is None else gpus,
        launcher, STEPS if options.steps is None else options.steps or None, options.seconds, options.epoch_steps,
        options.hang_timeout_s, options.in_place, options.real_gpus, options.network, folder,
        most_steps=MOST_STEPS if options.steps is None else 0,
        gpus_per_task=command.gpus_per_task if launcher == "slurm" else None,
        local_rank_argument=command.local_rank_argument or "",
        reference=options.reference,
        reference_arguments=_reference_arguments(options, nnodes * nproc),
    )  # fmt: skip
    return ParsedCommand(plan, dict(command.assignments), tuple(left_out))


def _reference_arguments(options: RehearseOptions, ranks: int) -> tuple[str, ...]:
    if options.reference_args and not options.reference:
        raise CannotRehearse("--reference-args is for --reference; add that option")
    if options.reference and ranks < 2:
        raise CannotRehearse("--reference compares several ranks with one; set --nproc-per-node to 2 or more")
    try:
        return tuple(shlex.split(options.reference_args))
    except ValueError as error:
        raise CannotRehearse(f"--reference-args {options.reference_args!r}: {error}") from None


def _direct(words: Sequence[str], module: bool) -> LaunchCommand | None:
    """A script, or a module, without a launcher; None where a program is called."""
    if module:
        return LaunchCommand("other", script=words[0], module=True, script_args=tuple(words[1:]))
    if words[0] == "-m" and len(words) > 1:
        return LaunchCommand("other", script=words[1], module=True, script_args=tuple(words[2:]))
    if words[0].endswith((".py", ".pyc", ".pyz")) or os.path.exists(words[0]):
        return LaunchCommand("other", script=words[0], script_args=tuple(words[1:]))
    return None


def _target(command: LaunchCommand, words: Sequence[str]) -> str:
    if command.script is not None:
        return command.script
    if command.launcher == "other":
        raise CannotRehearse(
            f"{words[0]!r} is neither an existing script nor a launch line; expected train.py, or torchrun … train.py"
        )
    raise CannotRehearse(f"the launch line has no script: {' '.join(words)!r}; expected torchrun … train.py")


def _insist_on_a_script(target: str, folder: str) -> None:
    path = os.path.join(folder, target)
    if target.endswith((".sh", ".bash", ".slurm", ".sbatch")):
        raise CannotRehearse(f"{target} is a shell script; pass the launch line that it contains")
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise CannotRehearse(f"{target} is a folder without a __main__.py; name the script in it")
    if not os.path.exists(path):
        raise CannotRehearse(f"{target}: no such file in {folder}; name the script as after python")
    if not os.access(path, os.R_OK):
        raise CannotRehearse(f"{target} can't be read by this user")


def _insist_on_a_module(name: str, folder: str) -> None:
    """Search for it as ``python -m`` does, and import nothing."""
    if name.endswith(".py") and os.path.exists(os.path.join(folder, name)):
        raise CannotRehearse(f"{name} is a file, but -m needs the name of a module; drop -m or .py")
    top, *inner = name.split(".")
    try:
        spec = PathFinder.find_spec(top, [folder]) or find_spec(top)
    except (ImportError, ValueError):
        spec = None
    for number, _ in enumerate(inner, 2):
        if spec is not None:
            among = spec.submodule_search_locations
            spec = PathFinder.find_spec(".".join(name.split(".")[:number]), among) if among is not None else None
    if spec is None:
        raise CannotRehearse(f"{name}: no module of this name is installed or in {folder}; name it as after python -m")


def _launcher(command: LaunchCommand, target: str, starts_ranks: Callable[[str], bool]) -> str:
    if command.launcher in NODE_LAUNCHERS:
        return "torchrun"
    if "srun" in command.wrappers:
        return "slurm"
    path = module_file(target) if command.module else target
    return "script" if path is not None and starts_ranks(path) else "torchrun"


def _is_a_count(word: str | None) -> bool:
    return word in (None, "gpu", "auto", "cpu", "xpu") or (str(word).isdigit() and int(str(word)) > 0)


def _ranks(command: LaunchCommand, options: RehearseOptions) -> int | None:
    """Return the ranks of a node from the line; None if it has no number."""
    if command.launcher == "other" or (command.launcher == "python" and "srun" not in command.wrappers):
        # a script that starts its own ranks has one for each GPU
        return options.gpus_per_node or None
    return nproc_on(command, gpus=options.gpus_per_node or RANKS, cpus=RANKS)


def _nodes(command: LaunchCommand, launcher: str) -> int:
    """Return the nodes from the line. A script that starts its own ranks runs on one node by default."""
    if command.launcher in NODE_LAUNCHERS:
        return command.nnodes_min or command.nodes or 1
    if "srun" in command.wrappers:
        return command.nodes or 1
    return 1 if launcher == "script" else NODES


def _gpus(command: LaunchCommand, nproc: int) -> int:
    """GPUs of a node: at least one a rank, and those that the line names."""
    if command.gpus_per_node:
        return command.gpus_per_node
    named = [int(part) for part in command.assignments.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.isdigit()]
    return max([nproc * (command.gpus_per_task or 1), *(number + 1 for number in named)])
