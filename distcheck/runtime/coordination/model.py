"""Where the ranks of a job are, as plain values: watched from inside (``watch``), rehearsed, or found from outside
(``stuck``). No behaviour beyond texts, and no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import NamedTuple

#: Stands for the group of those calls that make groups: all ranks of the job make them in one order.
SETUP = "setup"
#: The operation of a call that Python did not make, until the flight recorder has been asked.
UNSEEN = "a collective"
#: States of a rank. ``computing``: in code of its own, or nowhere in particular; ``waiting``: inside of a collective or
#: of a wait for one; ``left``: its script has ended, or its process has; ``raised``: an exception ended its script;
#: ``stopped``: by a signal or a debugger; ``silent``: no word from it, whatever the reason.
STATES = ("computing", "waiting", "left", "raised", "stopped", "silent")


class Frame(NamedTuple):
    """One frame of a Python stack."""

    #: relative to the working directory where it lies below it
    path: str
    line: int
    function: str
    #: the user's own code: neither the standard library nor installed packages
    own: bool = False

    @property
    def place(self) -> str:
        """``train.py:88``."""
        return f"{self.path}:{self.line}"

    @property
    def text(self) -> str:
        """``validate() at eval.py:41``."""
        function = self.function if self.function.startswith("<") else f"{self.function}()"
        return f"{function} at {self.path}:{self.line}"


class CollectiveCall(NamedTuple):
    """A collective, or a send or receive, that a rank has entered."""

    #: from 1, as the group itself counts its collectives, whoever made them (in ``setup``: as we count them). 0: not
    #: known, or a send or receive
    number: int
    #: as torch.distributed names it: ``all_reduce``
    operation: str
    #: name of the process group; "0" is the default group
    group: str = "0"
    #: of the tensors that the ranks must agree on, in order; () where there is none, or it is not known
    sizes: tuple[tuple[int, ...], ...] = ()
    #: ``float32``, one for each of ``sizes``
    dtypes: tuple[str, ...] = ()
    #: ``sum``, ``avg``, …; "" where there is nothing to reduce
    reduce: str = ""
    #: global rank: the root of a rooted collective, or the other side of a send or receive
    peer: int | None = None
    #: the innermost frame of the user's code: ``train.py:88``; "" where it is not known
    place: str = ""
    function: str = ""

    @property
    def text(self) -> str:
        """``all_reduce #412 (float32 [20], sum)``."""
        parts = [f"{dtype} {list(size)}".strip() for size, dtype in zip_longest(self.sizes, self.dtypes, fillvalue="")]
        if len(parts) > 3:
            parts[2:] = [f"… {len(self.sizes)} tensors"]
        if self.reduce and self.reduce != "sum":
            parts.append(self.reduce)
        if self.peer is not None:
            parts.append(f"rank {self.peer}")
        setup = self.group.startswith(SETUP)
        number = f" #{self.number}" if self.number and not setup else ""
        group = f" of group {self.group}" if self.group not in ("0", "") and not setup else ""
        return f"{self.operation}{number}{group}" + (f" ({', '.join(parts)})" if parts else "")


class Position(NamedTuple):
    """Where one rank is."""

    rank: int
    host: str = ""
    pid: int = 0
    #: one of :data:`STATES`
    state: str = "computing"
    #: the call it is in (``waiting``), or the last one that it entered; None: none, or not known
    call: CollectiveCall | None = None
    #: calls that have returned, of all groups; None: not known
    done: int | None = None
    #: seconds that it has been there
    since_s: float = 0.0
    #: of the main thread, innermost first
    stack: tuple[Frame, ...] = ()
    #: exit status of its process, or minus the signal's number; None: it runs, or it is not known
    status: int | None = None
    #: the exception's last line, the signal's name, why nothing is known
    detail: str = ""
    #: group → number of the last collective that it has entered there, made by Python or not
    entered: Mapping[str, int] = {}
    #: its last calls, newest first; () where they are not known
    recent: tuple[CollectiveCall, ...] = ()
    #: place → how often it has made a call there; UNSEEN → how often C++ has made one by itself
    places: Mapping[str, int] = {}

    @property
    def own_frame(self) -> Frame | None:
        """The innermost frame of the user's code."""
        return next((frame for frame in self.stack if frame.own), None)


class CodeBlock(NamedTuple):
    """Lines of a script that are run together, or not."""

    #: ``loop``; ``branch``: an arm of an ``if``, a ``match``, an ``except``
    kind: str
    first: int
    last: int
    #: a branch whose test names a rank
    by_rank: bool = False

    def holds(self, line: int) -> bool:
        return self.first <= line <= self.last


class CallMismatch(NamedTuple):
    """Calls of one group with the same number that differ."""

    group: str
    number: int
    #: which ranks made which call; the most ranks first; () where it is only known that they differ
    calls: tuple[tuple[tuple[int, ...], CollectiveCall], ...]


class Positions(NamedTuple):
    """Where all ranks of a job are at one time."""

    #: by rank; a rank that is not here is not known of at all
    ranks: tuple[Position, ...]
    world_size: int
    #: seconds without any movement after which this was asked; 0 where it was asked at once
    hang_timeout_s: float = 0.0
    #: name of a group → its global ranks; the default group need not be here
    groups: Mapping[str, tuple[int, ...]] = {}
    mismatches: tuple[CallMismatch, ...] = ()
    #: the wait of those in ``waiting`` has ended with an error: whoever has not come by now does not come
    over: bool = False
    #: name of a group → seconds after which its own timeout ends a wait; a group need not be here
    timeouts: Mapping[str, float] = {}
    #: place → the loops and branches of its function around it, outermost first; () where nobody has looked
    around: Mapping[str, tuple[CodeBlock, ...]] = {}

    def ranks_of(self, group: str) -> tuple[int, ...]:
        """The global ranks of a group; all where it is not known."""
        return tuple(self.groups.get(group, ())) or tuple(range(self.world_size))


class RankState(NamedTuple):
    """Where a rank is, as seen from outside."""

    rank: int
    host: str = ""
    pid: int = 0
    phase: str = ""
    #: the step's text, and how many steps it has begun
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
    """The smoke test ended before its end."""

    #: ``timeout``, ``died``, ``raised``, ``stopped``, ``lost`` (no word from a rank or the store) or ``ended`` (by a
    #: signal from outside)
    kind: str
    phase: str
    #: the step of those who wait
    step: str = ""
    #: who did not arrive, or died
    culprits: tuple[int, ...] = ()
    #: who waits for them
    waiting: tuple[int, ...] = ()
    #: states of the culprits, and of one that waits; at most a handful
    states: tuple[RankState, ...] = ()
    #: the text of the exception, of the ranks that raised
    error: str = ""
    limit_s: float = 0.0
    elapsed_s: float = 0.0
