"""The plan of a rehearsal and the events of each rank: plain values that every topic reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from distcheck.core.model import Where, rank_ranges
from distcheck.runtime.coordination.locations import split_place
from distcheck.runtime.coordination.logged_events import LoggedEvent

Item = TypeVar("Item")
#: names the private folder of the rehearsal to every process in it
VARIABLE = "DISTCHECK_REHEARSAL"


class RehearsalPlan(NamedTuple):
    """The job as it is simulated."""

    #: path of the script, or name of a module
    target: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    nnodes: int = 1
    nproc_per_node: int = 2
    gpus_per_node: int = 2
    #: ``torchrun``, ``slurm``, or ``script``: it starts its own ranks (``mp.spawn``), one process a node
    launcher: str = "torchrun"
    #: optimizer steps after which each rank ends; None: no limit
    steps: int | None = 3
    #: seconds after which all ranks end; None: no limit
    seconds: float | None = None
    #: batches that one pass over a loader gives at most; None: all
    epoch_steps: int | None = None
    #: seconds without progress, while ranks wait, before it is a hang
    hang_timeout_s: float = 5.0
    #: writes go where the script sends them
    in_place: bool = False
    real_gpus: bool = False
    #: connections to other machines are allowed
    network: bool = False
    #: the working directory of the ranks, absolute
    folder: str = ""
    #: of this rehearsal alone, absolute: event logs, outputs, the overlay
    private: str = ""
    #: GPUs that each task sees alone (Slurm's ``--gpus-per-task``); None: each rank sees all of its node
    gpus_per_task: int | None = None
    #: an argument with the local rank that the launcher puts before the script's own (``--local_rank``); "": none
    local_rank_argument: str = ""
    #: more steps than ``steps``, if they are fast: short epochs and scripts come to their end
    most_steps: int = 0
    #: the first step is compared with that of one rank, which gets these arguments in addition
    reference: bool = False
    reference_arguments: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        return self.nnodes * self.nproc_per_node

    def node_of(self, rank: int) -> int:
        """The simulated node of a rank."""
        return rank // self.nproc_per_node

    def node_name(self, rank: int) -> str:
        """What the node is called in findings: ``node 1``."""
        return f"node {self.node_of(rank)}"


def where(location: str, ranks: Iterable[int] = ()) -> Where:
    """Return the location of a finding: a line such as ``train.py:88``, and the ranks that it concerns."""
    path, line = split_place(location)
    return Where(path=path, line=line, ranks=rank_ranges(ranks) or None)


class End(NamedTuple):
    """How a rank's process ended."""

    rank: int
    pid: int = 0
    #: ``finished``: its script ended; ``steps``: after the requested steps; ``raised``; ``killed``: by a
    #: signal that is not ours; ``stopped``: by us, when time was up or another rank had ended it; ``exited``: without
    #: an exception (``os._exit``)
    how: str = "finished"
    #: exit status, or minus the signal's number
    status: int = 0
    steps: int = 0
    #: the exception's last line
    detail: str = ""
    place: str = ""
    function: str = ""


class Rehearsal(NamedTuple):
    """One rehearsal as a fact: all events of all ranks."""

    plan: RehearsalPlan
    ends: tuple[End, ...] = ()
    #: in the order of time
    rows: tuple[LoggedEvent, ...] = ()
    #: what could not be simulated or observed, and why
    missed: tuple[str, ...] = ()
    #: the same script as one rank
    reference: Rehearsal | None = None

    def of(self, kind: str) -> Iterator[LoggedEvent]:
        """Return the rows of one kind, or (with a dot at its end) of one topic."""
        if kind.endswith("."):
            return (row for row in self.rows if row.kind.startswith(kind))
        return (row for row in self.rows if row.kind == kind)

    def of_ranks(self, kind: str) -> Iterator[LoggedEvent]:
        """Return those of processes that are ranks."""
        return (row for row in self.of(kind) if row.rank is not None)


def module_file(name: str) -> str | None:
    """Return the file that ``python -m`` runs, relative to the working directory; None if it is not below that."""
    stem = name.replace(".", os.sep)
    return next((path for path in (f"{stem}.py", os.path.join(stem, "__main__.py")) if os.path.exists(path)), None)


_FILE = "plan.json"


def write_plan(plan: RehearsalPlan, begun: float) -> None:
    """Write the plan for every process of the rehearsal.

    :param begun: ``time.time()`` of the beginning
    """
    with open(os.path.join(plan.private, _FILE), "w", encoding="utf-8") as file:
        json.dump({"begun": begun, "plan": plan._asdict()}, file)


def read_plan(private: str) -> tuple[RehearsalPlan, float]:
    """The plan, and when the rehearsal began."""
    with open(os.path.join(private, _FILE), encoding="utf-8") as file:
        plain = json.load(file)
    plan = RehearsalPlan(**plain["plan"])
    arguments, of_reference = tuple(plan.arguments), tuple(plan.reference_arguments)
    return plan._replace(arguments=arguments, reference_arguments=of_reference), plain["begun"]
