"""The positions of the ranks of a job, as plain values for ``watch``, ``rehearse``, ``stuck`` and the smoke test."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import NamedTuple

from distcheck.core.code_blocks import CodeBlock

#: Stands for the group of calls that make groups: all ranks of the job make them in one order.
SETUP = "setup"
#: Stands for the group of waits for keys of a store: any rank may set them.
STORE = "store"
#: The operation of a call that Python did not make, until the flight recorder was read.
UNSEEN = "a collective"
#: The most ranks of a job: a number from elsewhere must not fill memory.
MOST_RANKS = 1 << 20
#: States of a rank. ``computing``: in its own code, or unknown; ``waiting``: in a collective, or in a wait for one;
#: ``left``: its script or process has ended; ``raised``: an exception ended its script; ``stopped``: by a signal or a
#: debugger; ``silent``: it sends no heartbeat, for any reason.
STATES = ("computing", "waiting", "left", "raised", "stopped", "silent")


class Frame(NamedTuple):
    """One frame of a Python stack."""

    #: relative to the working directory if it lies below it
    path: str
    line: int
    function: str
    #: the user's own code: neither the standard library nor an installed package
    own: bool = False

    @property
    def place(self) -> str:
        """Return ``train.py:88``."""
        return f"{self.path}:{self.line}"

    @property
    def text(self) -> str:
        """Return ``validate() at eval.py:41``."""
        function = self.function if self.function.startswith("<") else f"{self.function}()"
        return f"{function} at {self.path}:{self.line}"


class CollectiveCall(NamedTuple):
    """A collective, or a send or receive, that a rank has entered."""

    #: from 1, as the group itself counts its collectives, made by Python or C++ (in ``setup``: as we count them). 0:
    #: unknown, a send or receive, or a wait for a key
    number: int
    #: as torch.distributed names it: ``all_reduce``
    operation: str
    #: name of the process group; "0" is the default group
    group: str = "0"
    #: of the tensors that ranks must agree on, in order; (): none, or unknown
    sizes: tuple[tuple[int, ...], ...] = ()
    #: ``float32``, one for each of ``sizes``
    dtypes: tuple[str, ...] = ()
    #: ``sum``, ``avg``, …; "": no reduction
    reduce: str = ""
    #: global rank: the root of a rooted collective, or the other side of a send or receive
    peer: int | None = None
    #: the innermost frame of the user's code: ``train.py:88``; "": unknown
    place: str = ""
    function: str = ""
    #: of a send or receive
    tag: int = 0
    #: from 1: which send or receive of this rank with this other side, direction and tag; 0: unknown
    nth: int = 0
    #: the keys for which a wait for a store waits
    key: str = ""

    @property
    def text(self) -> str:
        """Return ``all_reduce #412 (float32 [20], sum)``."""
        parts = [f"{dtype} {list(size)}".strip() for size, dtype in zip_longest(self.sizes, self.dtypes, fillvalue="")]
        if len(parts) > 3:
            parts[2:] = [f"… {len(self.sizes)} tensors"]
        if self.reduce and self.reduce != "sum":
            parts.append(self.reduce)
        if self.peer is not None:
            parts.append(f"rank {self.peer}")
        if self.tag:
            parts.append(f"tag {self.tag}")
        if self.key:
            parts.append(f"key {self.key!r}")
        setup = self.group.startswith(SETUP)
        number = f" #{self.number}" if self.number and not setup else ""
        group = f" of group {self.group}" if self.group not in ("0", "", STORE) and not setup else ""
        return f"{self.operation}{number}{group}" + (f" ({', '.join(parts)})" if parts else "")

    @property
    def text_with_place(self) -> str:
        """Return ``barrier #3 at train.py:88``, without a location if it is unknown."""
        return f"{self.text} at {self.place}" if self.place else self.text


#: The other side of a receive from any rank.
ANY_RANK = "*"


def pair_key(group: str, direction: str, peer: int | str, tag: int) -> str:
    """Return the key under which a rank counts its sends to, or receives from, another rank.

    :param direction: ``send`` or ``recv``
    """
    return f"{group} {direction} {peer} {tag}"


class RecordedCall(NamedTuple):
    """A call when it was entered."""

    call: CollectiveCall
    #: time.monotonic()
    at: float
    #: of all calls of its group up to here that ranks must agree on; 0: this call is not compared
    digest: int
    #: number of compared calls of its group, this one included
    ordinal: int = 0
    #: the sends and receives of a batch
    parts: tuple[CollectiveCall, ...] = ()


class Position(NamedTuple):
    """The position of one rank."""

    rank: int
    host: str = ""
    pid: int = 0
    #: one of :data:`STATES`
    state: str = "computing"
    #: its call (``waiting``), or the last one that it entered; None: none, or unknown
    call: CollectiveCall | None = None
    #: calls that have returned, of all groups; None: unknown
    done: int | None = None
    #: seconds in this state
    since_s: float = 0.0
    #: of the main thread, innermost first
    stack: tuple[Frame, ...] = ()
    #: exit status of its process, or minus the signal's number; None: it runs, or unknown
    status: int | None = None
    #: the exception's last line, the signal's name, why the state is unknown
    detail: str = ""
    #: group → number of the last collective that it entered, made by Python or C++
    entered: Mapping[str, int] = {}
    #: its last calls, newest first; (): unknown
    recent: tuple[CollectiveCall, ...] = ()
    #: call site → number of its calls there; UNSEEN → number of calls that C++ made by itself
    places: Mapping[str, int] = {}
    #: key of :func:`pair_key` → number of sends or receives that it posted; None: unknown
    posted: Mapping[str, int] | None = None
    #: seconds in which its process used no CPU time and moved no data
    idle_s: float = 0.0

    @property
    def own_frame(self) -> Frame | None:
        """Return the innermost frame of the user's code."""
        return next((frame for frame in self.stack if frame.own), None)

    @property
    def awaited_call(self) -> CollectiveCall | None:
        """Return the call in which it waits."""
        return self.call if self.state == "waiting" else None


class CallMismatch(NamedTuple):
    """Calls of one group with the same number that differ."""

    group: str
    number: int
    #: which ranks made which call, the largest side first; (): only known to differ
    calls: tuple[tuple[tuple[int, ...], CollectiveCall], ...]


class Positions(NamedTuple):
    """The positions of all ranks of a job at one time."""

    #: by rank; nothing is known of a rank that is not here
    ranks: tuple[Position, ...]
    world_size: int
    #: hang timeout in seconds; 0: the positions were read without one
    hang_timeout_s: float = 0.0
    #: name of a group → its global ranks; the default group may be absent
    groups: Mapping[str, tuple[int, ...]] = {}
    mismatches: tuple[CallMismatch, ...] = ()
    #: the waits ended with an error: a rank that has not arrived by now does not arrive
    over: bool = False
    #: name of a group → its timeout in seconds; a group may be absent
    timeouts: Mapping[str, float] = {}
    #: line → the loops and branches of its function around it, outermost first; (): not read
    around: Mapping[str, tuple[CodeBlock, ...]] = {}

    @property
    def by_rank(self) -> dict[int, Position]:
        return {position.rank: position for position in self.ranks}

    def ranks_of(self, group: str) -> tuple[int, ...]:
        """Return the global ranks of a group; all if unknown."""
        return tuple(self.groups.get(group, ())) or tuple(range(self.world_size))


class RankState(NamedTuple):
    """The state of a rank, read from outside."""

    rank: int
    host: str = ""
    pid: int = 0
    phase: str = ""
    #: text of the current step, and number of steps begun
    step: str = ""
    steps: int = 0
    #: ``running``, ``stopped`` (SIGSTOP), ``blocked`` (D in /proc), ``exited``, ``killed``, ``finished``, ``silent``,
    #: ``raised`` (an exception)
    state: str = "running"
    #: exit status, or the signal's name
    detail: str = ""
    #: Python stack, innermost last
    stack: str = ""
    #: the flight recorder's last entries, short texts
    recorder: tuple[str, ...] = ()
    seconds_in_step: float = 0.0


class Failure(NamedTuple):
    """The smoke test did not complete."""

    #: ``timeout``, ``died``, ``raised``, ``stopped``, ``lost`` (a rank or the store does not answer) or ``ended`` (by a
    #: signal from outside)
    kind: str
    phase: str
    #: the step of the ranks that wait
    step: str = ""
    #: ranks that did not arrive, or exited
    culprits: tuple[int, ...] = ()
    #: ranks that wait for them
    waiting: tuple[int, ...] = ()
    #: states of the failed ranks, and of one that waits; at most a handful
    states: tuple[RankState, ...] = ()
    #: the text of the exception, of the ranks that raised
    error: str = ""
    limit_s: float = 0.0
    elapsed_s: float = 0.0
