"""The programs before a launcher, read with the rows of ``_wrapper_table.py``: their end and their options.

Options are parsed like getopt, as these programs do. Tasks, nodes, GPUs and variables go to the draft. The launcher
after them is not read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ._draft import Draft
from ._shell import has_expansion
from ._wrapper_table import MPI, SLURM, Wrapper

_OPTIONS_VARIABLE = (
    r"(?i)\$(?:\w*(?:ARGS?|OPTS?|OPTIONS?|FLAGS?)\d*|\{\w*(?:ARGS?|OPTS?|OPTIONS?|FLAGS?)\d*\}|\{\w+\[[@*]\]\}|[@*])"
)
_MODULE_OPTIONS = frozenset({"-m", "--module"})


class WrapperWords(NamedTuple):
    """The words that belong to a wrapper."""

    #: its options with their values ("" for a flag), in order
    options: tuple[tuple[str, str], ...]
    #: the index of its command; past the end without one
    end: int
    #: a variable among its options may hold more of them
    open_ended: bool = False


def own_words(words: Sequence[str], wrapper: Wrapper) -> WrapperWords | None:
    """Return the wrapper's own words at the beginning of ``words`` (its name first), or None if it starts nothing."""
    start = _subcommand(words, wrapper)
    if start is None:
        return None
    options, position, open_ended = _options(words, start, wrapper)
    if wrapper.after_dashes:
        if "--" not in words[start:]:
            return None
        return WrapperWords(options, words.index("--", start) + 1)
    position += wrapper.operands
    return WrapperWords(options, position, open_ended)


def _subcommand(words: Sequence[str], wrapper: Wrapper) -> int | None:
    """Return the index of the options of the wrapper or its subcommand; None for another subcommand."""
    if not wrapper.subcommands:
        return 1
    position = _options(words, 1, wrapper)[1]
    for subcommand in wrapper.subcommands:
        parts = subcommand.split()
        if list(words[position : position + len(parts)]) == parts:
            return position + len(parts)
    return None


def _options(words: Sequence[str], start: int, wrapper: Wrapper) -> tuple[tuple[tuple[str, str], ...], int, bool]:
    found: list[tuple[str, str]] = []
    position = start
    open_ended = False
    while position < len(words):
        word = words[position]
        if word == "--":
            return tuple(found), position + 1, open_ended
        if holds_options(word) and position + 1 < len(words):
            open_ended = True
            position += 1
            continue
        if not word.startswith("-") or word == "-" or (wrapper.python and word in _MODULE_OPTIONS):
            break
        position += 1
        name, equals, value = word.partition("=")
        if word in wrapper.pairs and position < len(words):
            # Hydra accepts -genv NAME VALUE and -genv NAME=VALUE.
            if "env" in word and "=" in words[position]:
                found.append((word, words[position]))
                position += 1
            else:
                found.append((word, "=".join(words[position : position + 2])))
                position += 2
        elif equals and (word.startswith("--") or name in wrapper.valued):
            found.append((name, value))
        elif word.startswith("--") or not wrapper.clusters or len(word) == 2:
            if _takes_value(word, wrapper):
                found.append((word, words[position] if position < len(words) else ""))
                position += 1
            else:
                found.append((word, ""))
        else:
            position = _cluster(words, position, wrapper, found)
    return tuple(found), position, open_ended


def _cluster(words: Sequence[str], position: int, wrapper: Wrapper, found: list[tuple[str, str]]) -> int:
    """Read short options in one word (``-it``, ``-n4``), the last perhaps with a value; return the next index."""
    word = words[position - 1]
    if wrapper.flags is not None and word in wrapper.flags:
        found.append((word, ""))
        return position
    for index, letter in enumerate(word[1:], 1):
        option = "-" + letter
        if not letter.isalpha():
            # An optional value: srun -K0, nice -10.
            break
        if not _takes_value(option, wrapper):
            found.append((option, ""))
            continue
        glued = word[index + 1 :]
        if glued:
            found.append((option, glued.removeprefix("=")))
            return position
        found.append((option, words[position] if position < len(words) else ""))
        return position + 1
    return position


def _takes_value(option: str, wrapper: Wrapper) -> bool:
    return option in wrapper.valued if wrapper.flags is None else option not in wrapper.flags


def is_assignment(word: str) -> bool:
    """Return whether a shell reads the word as ``NAME=value``."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isascii() and name.isidentifier()


def holds_options(word: str) -> bool:
    """Return whether a word is a variable whose name suggests options."""
    return word.startswith("$") and re.fullmatch(_OPTIONS_VARIABLE, word) is not None


def note_assignments(program: str, options: Sequence[tuple[str, str]], draft: Draft) -> None:
    """Record the variables that a wrapper sets for its command."""
    for option, value in options:
        if program in ("docker", "podman", "nvidia-docker", "singularity", "apptainer"):
            pairs = value.split(",") if option == "--env" and program in ("singularity", "apptainer") else [value]
            pairs = pairs if option in ("-e", "--env") else []
        elif program in MPI and option in ("-x", "-genv", "--genv", "-env", "--env"):
            pairs = [value]
        elif program in ("srun", "sbatch", "salloc") and option == "--export":
            pairs = value.split(",")
            if "NONE" in pairs:
                draft.environ.clear()
        elif program == "systemd-run" and option in ("-E", "--setenv"):
            pairs = [value]
        elif program == "env" and option in ("-u", "--unset"):
            draft.environ.pop(value, None)
            draft.assignments.pop(value, None)
            continue
        elif program == "env" and option in ("-i", "--ignore-environment"):
            draft.environ.clear()
            continue
        else:
            continue
        for pair in pairs:
            name, _, text = pair.partition("=")
            if is_assignment(pair):
                draft.assign(name, text)


_SLURM_FIELDS = {
    "-n": "tasks",
    "--ntasks": "tasks",
    "--ntasks-per-node": "tasks_per_node",
    "-N": "nodes",
    "--nodes": "nodes",
    "--gpus-per-task": "gpus_per_task",
    "--gpus-per-node": "gpus_per_node",
    "-G": "gpus",
    "--gpus": "gpus",
    "--gres": "gpus_per_node",
    "-c": "cpus_per_task",
    "--cpus-per-task": "cpus_per_task",
}
_FLUX_FIELDS = {
    "-n": "tasks",
    "--ntasks": "tasks",
    "-N": "nodes",
    "--nodes": "nodes",
    "-g": "gpus_per_task",
    "--gpus-per-task": "gpus_per_task",
    "-c": "cpus_per_task",
    "--cores-per-task": "cpus_per_task",
    "--tasks-per-node": "tasks_per_node",
    "--gpus-per-node": "gpus_per_node",
}
_APRUN_FIELDS = {"-n": "tasks", "-N": "tasks_per_node", "-d": "cpus_per_task"}
_OTHER_FIELDS = {"ibrun": {"-n": "tasks", "-np": "tasks"}, "jsrun": {"-p": "tasks", "--np": "tasks"}}
_MPI_FIELDS = {
    **dict.fromkeys(("-np", "--np", "-n", "--n", "-c"), "tasks"),
    **dict.fromkeys(
        ("-N", "--N", "-npernode", "--npernode", "-ppn", "--ppn", "-perhost", "--perhost"), "tasks_per_node"
    ),
    **dict.fromkeys(("-d", "--depth"), "cpus_per_task"),
}


def note_tasks(program: str, own: WrapperWords, draft: Draft) -> None:
    """Record the tasks, nodes, GPUs and cores from the options of a scheduler or MPI."""
    if program in SLURM:
        fields = _SLURM_FIELDS
    elif program == "flux":
        fields = _FLUX_FIELDS
    elif program == "aprun":
        fields = _APRUN_FIELDS
    elif program in MPI:
        fields = _MPI_FIELDS
    else:
        fields = _OTHER_FIELDS.get(program, {})
    if own.open_ended:
        draft.leave_open(field for field in set(fields.values()) if field not in draft.fields)
    for option, value in own.options:
        field = fields.get(option)
        if field is not None:
            _count(draft, field, _gpus_of(option, value) if field.startswith("gpus") else value)
    if program in MPI:
        _mpi_places(own.options, draft)
    if program == "jsrun":
        _resource_sets(own.options, draft)


def _count(draft: Draft, field: str, value: str | None) -> None:
    """Record a count if the value is a plain number; a range of nodes (``2-4``) or a unit is uncertain."""
    if value is not None and has_expansion(value):
        draft.leave_open((field,))
    elif value is not None and re.fullmatch(r"[0-9]{1,9}", value):
        draft.set(field, int(value))


def _gpus_of(option: str, value: str) -> str | None:
    """Return the GPUs of ``--gpus=a100:4`` or ``--gres=gpu:a100:4(S:0-1),nvme:1`` as a text, or None."""
    if has_expansion(value):
        return value
    total = 0
    for part in re.sub(r"\([^)]*\)", "", value).split(","):
        name, *rest = part.split(":")
        count = (rest or [name])[-1]
        if option == "--gres" and name not in ("gpu", "gres/gpu"):
            continue
        # gpu and gpu:a100 mean one.
        total += int(count) if re.fullmatch(r"[0-9]{1,9}", count) else option == "--gres"
    return str(total) if total else None


def _mpi_places(options: Sequence[tuple[str, str]], draft: Draft) -> None:
    for option, value in options:
        if option in ("-map-by", "--map-by"):
            match = re.match(r"ppr:([0-9]{1,9}):node\b", value)
            if match:
                draft.set("tasks_per_node", int(match[1]))
        elif option in ("-pernode", "--pernode"):
            draft.set("tasks_per_node", 1)
        elif option in ("-H", "-host", "--host", "-hosts", "--hosts") and not has_expansion(value):
            _hosts(value, draft)


def _hosts(value: str, draft: Draft) -> None:
    """Record the nodes of ``a:4,b:4``, and the tasks per node if all slots are used and equal."""
    slots: dict[str, int] = {}
    for part in filter(None, value.split(",")):
        host, _, count = part.partition(":")
        slots[host] = slots.get(host, 0) + (int(count) if re.fullmatch(r"[0-9]{1,9}", count) else 1)
    tasks = draft.fields.get("tasks")
    if len(slots) == 1:
        draft.set("nodes", 1)
    elif slots and "tasks" not in draft.unknown and (tasks is None or tasks == sum(slots.values())):
        draft.set("nodes", len(slots))
        if len(set(slots.values())) == 1:
            draft.set("tasks_per_node", next(iter(slots.values())))
    elif slots and "tasks_per_node" in draft.fields:
        draft.set("nodes", len(slots))


def _resource_sets(options: Sequence[tuple[str, str]], draft: Draft) -> None:
    """Record the tasks of jsrun: resource sets times tasks of a set."""
    names = {
        "-n": "sets",
        "--nrs": "sets",
        "-a": "tasks",
        "--tasks_per_rs": "tasks",
        "-r": "per_host",
        "--rs_per_host": "per_host",
        "-g": "gpus",
        "--gpu_per_rs": "gpus",
    }
    counts = {
        names[option]: int(value) for option, value in options if option in names and re.fullmatch(r"[0-9]{1,9}", value)
    }
    if "sets" in counts and "tasks" in counts:
        draft.set("tasks", counts["sets"] * counts["tasks"])
    if "per_host" in counts and "tasks" in counts:
        draft.set("tasks_per_node", counts["per_host"] * counts["tasks"])
    if "gpus" in counts and counts.get("tasks") == 1:
        draft.set("gpus_per_task", counts["gpus"])
