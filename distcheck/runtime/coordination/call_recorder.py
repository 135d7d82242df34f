"""Records each collective of this rank before it begins, in a ring that the side thread reads.

torch's functions are wrapped in place: their identity, name and signature stay the same, so that code that imported
them, compares them (``P2POp``) or resolves them (``torch.compile``) sees the same function. The recorder sends nothing,
waits for nothing and raises nothing: if a call cannot be recorded, it still runs.

Collectives that C++ makes by itself (DDP's reducer) are not recorded here. The group's counter and the flight recorder
show them.
"""

from __future__ import annotations

import sys
import time
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import get_ident
from typing import Any, NamedTuple, Protocol

from .blocking_waits import BlockingWaits
from .call_signatures import KINDS, MAKING, OBJECTS, CallKind, agreed, reduction_of, tensors_of
from .frames import innermost_own
from .model import SETUP, STORE, CollectiveCall, RecordedCall
from .pair_counts import PairCounts, calls_of_batch, messages_of, tag_of
from .shared_table import OtherRank, SharedTable
from .wrap import put_around

#: Calls that are kept, some 0.5 MB: those of two ticks in a job with 500 calls a second.
_KEPT = 1024
#: The digest of every 64th call of a group is kept for longer, so that ranks that are far apart share some.
MILESTONE = 64
_MILESTONES = 8


class TimeInCalls(NamedTuple):
    """The cost of the calls of one call site."""

    calls: int = 0
    #: seconds from the call to its return
    total_s: float = 0.0
    #: of the longest
    longest_s: float = 0.0


_NONE_YET = TimeInCalls()


class CallObserver(Protocol):
    """What a :class:`CallRecorder` reports to, in the thread that makes the call. No method may raise."""

    def before(self, call: RecordedCall, waits: bool) -> None:
        """Handle a call before torch makes it; may end this process.

        :param waits: it returns when the collective has ended
        """

    def differs(self, call: RecordedCall, other: OtherRank) -> None:
        """Handle a call that differs from that of another rank of this host."""

    def joining(self, given: tuple[tuple[Any, ...], dict[str, Any]] | None) -> None:
        """Handle ``init_process_group``: its arguments before it begins, None after it has returned."""


class CallRecorder:
    """The calls of this rank."""

    def __init__(self) -> None:
        #: thread → the outermost call that it is in
        self.inside: dict[int, RecordedCall] = {}
        #: the last calls, in the order in which they were entered
        self.ring: deque[RecordedCall] = deque(maxlen=_KEPT)
        #: calls that returned or raised
        self.done = 0
        #: group → number of the last collective
        self.entered: dict[str, int] = {}
        #: group → its global ranks
        self.groups: dict[str, tuple[int, ...]] = {}
        #: call site, operation, group, whether it waits for its end → cost of its calls
        self.spent: dict[tuple[str, str, str, bool], TimeInCalls] = {}
        #: group → timeout in seconds; backend
        self.timeouts: dict[str, float] = {}
        self.backends: dict[str, str] = {}
        #: the last call or wait that began, if it raised
        self.raised: CollectiveCall | None = None
        #: called with a call or wait that ended, and its error; None: it succeeded. It may not raise
        self.on_end: Callable[[CollectiveCall, BaseException | None], None] | None = None
        #: why the last call was not recorded; "": all were
        self.error = ""
        #: the default group exists
        self.joined = False
        #: number of times it was destroyed
        self.left = 0
        #: collectives that C++ made by itself in default groups that were destroyed
        self.unseen_before = 0
        #: group → ``(index, digest)`` of every 64th call
        self.milestones: dict[str, deque[tuple[int, int]]] = {}
        #: group → index and digest of the last call
        self._digests: dict[str, tuple[int, int]] = {}
        self._signatures: dict[tuple[object, ...], int] = {}
        #: its sends and receives
        self.pairs = PairCounts()
        #: group → collectives that torch's own code made, and that are recorded (in a rehearsal)
        self.of_torch: dict[str, int] = {}
        #: group → what its counter was when the first send or receive began; by how much each adds to it; by how much
        #: all did: ranks make different numbers of them
        self._before_pairs: dict[str, int] = {}
        self._each_pair: dict[str, int] = {}
        self._of_pairs: dict[str, int] = {}
        self._module: Any = None
        #: where the ranks of this host compare their calls, if a launcher states their number
        self.shared_table: SharedTable | None = None
        self._compares = False
        #: the default group is one of the parent, in a fork
        self._inherited = False
        self._observer: CallObserver | None = None
        self._on_arguments: list[Callable[[RecordedCall, Mapping[str, Any], bool], None]] = []
        self._waits = BlockingWaits(self)

    def observe(self, observer: CallObserver | None, shared_table: SharedTable | None = None) -> None:
        """Report calls to an observer from now on.

        :param shared_table: where the ranks of this host compare their calls
        """
        self._observer, self.shared_table, self._compares = observer, shared_table, True

    def observe_arguments(self, observer: Callable[[RecordedCall, Mapping[str, Any], bool], None]) -> None:
        """Call a function before each call: the call, its arguments by name, whether it returns at its end.

        It may not raise.
        """
        self._on_arguments.append(observer)

    @property
    def pending(self) -> Mapping[int, CollectiveCall]:
        """Return the asynchronous calls whose handles the script has not waited for, by their IDs."""
        return self._waits.pending

    def keeps_handle(self, call: CollectiveCall) -> bool:
        """Return whether the script still holds the handle of an asynchronous call."""
        return self._waits.keeps_handle(call)

    def attach(self, module: Any) -> tuple[str, ...]:
        """Wrap the functions of ``torch.distributed.distributed_c10d``; return the names of the others."""
        self._module = module
        missed = []
        for name, kind in KINDS.items():
            function = getattr(module, name, None)
            if isinstance(function, types.FunctionType) and not put_around(function, self._around(name, kind)):
                missed.append(name)
        destroy = getattr(module, "destroy_process_group", None)
        if isinstance(destroy, types.FunctionType):
            put_around(destroy, self._leaving)
        self._waits.attach(module)
        return tuple(missed)

    def forget(self) -> None:
        """Forget the calls of the parent, in a fork."""
        self.ring.clear()
        tables: tuple[dict[Any, Any], ...] = (
            self.inside, self.entered, self.groups, self.spent, self.timeouts, self.backends, self.milestones,
            self._digests, self.of_torch, self.pairs.posted, self._before_pairs, self._each_pair, self._of_pairs,
        )  # fmt: skip
        for table in tables:
            table.clear()
        self._waits.pending.clear()
        self._inherited = self.joined or self._inherited
        self.done, self.joined, self.raised, self.pairs.incomplete = 0, False, None, False
        self.observe(None)

    def is_in_group_of_parent(self, call: CollectiveCall) -> bool:
        """Return whether this process was forked, and calls a collective in a group that it only inherited."""
        if not self._inherited or self.joined or call.group.startswith(SETUP):
            return False
        return len(self.groups.get(call.group, ())) > 1

    def _around(self, name: str, kind: CallKind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        inside, ring = self.inside, self.ring

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:
                thread = get_ident()
                if thread in inside:  # one of torch's functions calls another
                    return function(*args, **kwargs)
                observer = self._observer
                joining = observer.joining if observer is not None and name == "init_process_group" else None
                if joining is not None:
                    joining((args, kwargs))
                try:
                    given = dict(zip(kind.parameters, args, strict=False))
                    given.update(kwargs)
                    note = self._note(name, kind, given)
                except Exception as error:  # noqa: BLE001 - no error may reach the call
                    self.error = f"{name}: {type(error).__name__}: {error}"
                    return function(*args, **kwargs)
                self.raised = None
                inside[thread] = note
                ring.append(note)
                call = note.call
                # async_op follows all arguments that are read
                waits = not (kind.pair or kwargs.get("async_op") or args[len(kind.parameters) :][:1] == (True,))
                if observer is not None:
                    observer.before(note, waits)
                for see in self._on_arguments:
                    see(note, given, waits)
                del given  # of a temporary, only the caller holds a reference while the call lasts
                try:
                    returned = function(*args, **kwargs)
                    if not waits:
                        self._keep_handles(returned, note)
                    elif self.on_end is not None:
                        self.on_end(call, None)
                    return returned
                except BaseException as error:
                    self.raised = note.call
                    if self.on_end is not None:
                        self.on_end(call, error)
                    raise
                finally:
                    if call.group in self._before_pairs and kind.pair:
                        self._learn_from_pair(call.group, len(note.parts) or messages_of(name))
                    del inside[thread]
                    self.done += 1
                    key = (call.place, name, call.group, waits)
                    calls, total_s, longest_s = self.spent.get(key, _NONE_YET)
                    took_s = time.monotonic() - note.at
                    self.spent[key] = TimeInCalls(calls + 1, total_s + took_s, max(longest_s, took_s))
                    if name == "init_process_group":
                        self.joined = bool(self._module.is_initialized())
                    if joining is not None:
                        joining(None)

            return called

        return wrap

    def _keep_handles(self, returned: Any, note: RecordedCall) -> None:
        try:
            self._waits.returned(returned, note)
        except Exception as error:  # noqa: BLE001 - no error may reach the call
            self.error = f"the handle of {note.call.operation}: {type(error).__name__}: {error}"

    def _leaving(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Reset the numbers of groups when the default group is destroyed."""

        def called(*args: Any, **kwargs: Any) -> Any:
            number = self.count(self._module._get_default_group(), "0") if self.joined else 0
            try:
                return function(*args, **kwargs)
            finally:
                self.joined = bool(self._module.is_initialized())
                if not self.joined:
                    self.left += 1
                    self.unseen_before += self.made_by_cpp(number)
                    self.pairs.posted.clear()
                    self.of_torch.clear()
                    self._before_pairs.clear()
                    self._of_pairs.clear()
                    for table in (self.entered, self.groups, self._digests, self.milestones, self.timeouts):
                        kept = {SETUP: table[SETUP]} if SETUP in table else {}
                        table.clear()
                        table.update(kept)  # type: ignore[arg-type]

        return called

    def _note(self, name: str, kind: CallKind, given: Mapping[str, Any]) -> RecordedCall:
        place, function = innermost_own(sys._getframe(2))
        if name in MAKING:
            return self._compared(self._making(name, given)._replace(place=place, function=function))
        module = self._module
        batch = given.get("p2p_op_list")
        group = given.get("group") or (batch and batch[0].group) or module._get_default_group()
        if not hasattr(group, "group_name"):  # GroupMember.NON_GROUP_MEMBER: torch warns, and does nothing
            return RecordedCall(CollectiveCall(0, name, "", place=place, function=function), time.monotonic(), 0)
        title = group.group_name
        # a collective of C++ may have been the first of a group, without its backend
        if title not in self.groups or title not in self.backends:
            self.groups[title] = tuple(module.get_process_group_ranks(group))
            self.timeouts[title], self.backends[title] = _timeout_s(group), str(module.get_backend(group))
        sizes, dtypes = tensors_of(given.get(kind.agreed)) if kind.agreed else ((), ())
        if name == "broadcast_object_list":  # one collective for all sizes, and one for all bytes
            sizes, dtypes = ((len(given["object_list"]),),), (OBJECTS,)
        reduce = reduction_of(kind, given)
        peer = self._peer(kind, given, title)
        if kind.pair:
            call = CollectiveCall(0, name, title, sizes, dtypes, reduce, peer, place, function, tag_of(kind, given))
            # torch's default backend has NCCL in its name
            has_tags = "nccl" not in self.backends[title]
            self._expect_pair(group, title, len(batch) if batch else messages_of(name))
            if batch:
                parts = tuple(self.pairs.counted(part, has_tags) for part in calls_of_batch(batch, place, function))
                return RecordedCall(call, time.monotonic(), 0, parts=parts)
            return RecordedCall(self.pairs.counted(call, has_tags), time.monotonic(), 0)
        number = self.entered[title] = self.count(group, title) + 1
        return self._compared(CollectiveCall(number, name, title, sizes, dtypes, reduce, peer, place, function))

    def _compared(self, call: CollectiveCall) -> RecordedCall:
        """Return the record of a call, once it is compared with those of the ranks of this host."""
        digest, index = self._digest(call)
        note = RecordedCall(call, time.monotonic(), digest, index)
        if self.shared_table is not None and self._compares:
            other = self.shared_table.compare(call, index, digest, self.groups.get(call.group, ()), self.left)
            if other is not None:
                # one difference is enough: others follow from it. A digest covers all calls up to here: where these two
                # are equal, an earlier one differed, and the coordinator finds it
                self._compares = False
                if self._observer is not None and agreed(other.call) != agreed(call):
                    self._observer.differs(note, other)
        return note

    def made_by_torch(self, name: str, group: Any, tensors: Any, reduce: str = "", root: int | None = None) -> None:
        """Record a collective that torch's compiled code is about to begin; a rehearsal sees these.

        :param tensors: those that ranks must agree on; None where there are none
        :param root: rank in the group
        """
        if get_ident() in self.inside:
            return  # part of a recorded call
        place, function = innermost_own(sys._getframe(1))
        title = group.group_name
        if title not in self.groups:
            self.groups[title] = tuple(self._module.get_process_group_ranks(group))
        number = self.entered[title] = self.count(group, title) + 1
        self.of_torch[title] = self.of_torch.get(title, 0) + 1
        peer = None if root is None else self.groups[title][root]
        call = CollectiveCall(number, name, title, *tensors_of(tensors), reduce, peer, place, function)
        digest, index = self._digest(call)
        note = RecordedCall(call, time.monotonic(), digest, index)
        self.ring.append(note)
        self.done += 1
        key = (place, name, title, False)
        self.spent[key] = self.spent.get(key, _NONE_YET)._replace(calls=self.spent.get(key, _NONE_YET).calls + 1)
        if self._observer is not None:
            self._observer.before(note, False)

    def wait_for_keys(self, method: str, keys: Sequence[Any]) -> RecordedCall:
        """Return the record of a wait for keys of a store."""
        place, function = innermost_own(sys._getframe(2))
        names = ", ".join(key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key) for key in keys[:4])
        call = CollectiveCall(0, f"store.{method}", STORE, place=place, function=function, key=names)
        return RecordedCall(call, time.monotonic(), 0)

    def _making(self, name: str, given: Mapping[str, Any]) -> CollectiveCall:
        """Return a call that makes groups, with the ranks of the new group, which must be the same on all."""
        title = SETUP
        sizes: tuple[tuple[int, ...], ...] = ()
        if name == "new_group" and self.joined:
            everybody = range(self._module.get_world_size())
            ranks = tuple(sorted(everybody if given.get("ranks") is None else given["ranks"]))
            sizes = (ranks,)
            if given.get("use_local_synchronization"):  # only these ranks call it
                title = f"{SETUP} {','.join(map(str, ranks))}"
                self.groups[title] = ranks
        number = self.entered[title] = self.entered.get(title, 0) + 1
        return CollectiveCall(number, name, title, sizes)

    def _peer(self, kind: CallKind, given: Mapping[str, Any], title: str) -> int | None:
        if not kind.peer:
            return None
        inner = given.get(f"group_{kind.peer}")
        if isinstance(inner, int):
            return self.groups[title][inner]
        peer = given.get(kind.peer)
        # the default root is the first rank of the group
        return peer if isinstance(peer, int) else self.groups[title][0] if not kind.pair else None

    def count(self, group: Any, title: str) -> int:
        """Return the number of collectives that Python or C++ began in a group."""
        counter = _counter_of(group)
        if counter is None:  # this backend, or this version of torch, does not count
            return self.entered.get(title, 0)
        # gloo counts sends and receives, too (torch 2.13)
        return self._before_pairs.get(title, counter - self._of_pairs.get(title, 0))

    def _expect_pair(self, group: Any, title: str, number: int) -> None:
        """Note that sends or receives are about to begin."""
        each = self._each_pair.get(title)
        if each is not None:
            self._of_pairs[title] = self._of_pairs.get(title, 0) + number * each
        else:
            self._before_pairs.setdefault(title, self.count(group, title))

    def _learn_from_pair(self, title: str, number: int) -> None:
        """Find out whether the first send or receive of a group, which has ended, was counted."""
        group = next((group for group, name in self._module._world.pg_names.items() if name == title), None)
        before, counter = self._before_pairs.pop(title), _counter_of(group)
        added = 0 if counter is None else min(counter - before, number)
        self._each_pair[title], self._of_pairs[title] = int(added == number), added

    def compared(self, group: str) -> int:
        """Return the number of collectives of a group that Python called."""
        return self._digests.get(group, (0, 0))[0]

    def made_by_cpp(self, number: int) -> int:
        """Return how many of the first collectives of the default group C++ made by itself, at least."""
        # some calls of Python are more than one collective
        return max(0, number - 2 * self.compared("0"))

    def _digest(self, call: CollectiveCall) -> tuple[int, int]:
        key = agreed(call)
        crc = self._signatures.get(key)
        if crc is None:
            crc = self._signatures[key] = zlib.crc32(repr(key).encode())
        index, chain = self._digests.get(call.group, (0, 1))
        # the number is not included: collectives that C++ made in between are not compared
        chain = (chain * 1_000_003 ^ crc) & 0xFFFFFFFFFFFF
        index += 1
        self._digests[call.group] = (index, chain)
        if index % MILESTONE == 0:
            self.milestones.setdefault(call.group, deque(maxlen=_MILESTONES)).append((index, chain))
        return chain, index


def _counter_of(group: Any) -> int | None:
    """Return the counter of a group; None if it has none."""
    try:
        return int(group._get_sequence_number_for_group())
    except (RuntimeError, AttributeError):
        return None


def _timeout_s(group: Any) -> float:
    """Return the timeout of a group in seconds; 0: unknown."""
    try:
        for device in group._device_types:
            timeout = getattr(getattr(group._get_backend(device), "options", None), "_timeout", None)
            if timeout is not None:
                return float(timeout.total_seconds())
    except (AttributeError, RuntimeError):  # an older torch, or a backend that does not exist
        pass
    return 0.0


def rows(recorder: CallRecorder) -> Iterator[RecordedCall]:
    """Yield the ring, newest first; it may grow meanwhile."""
    while True:
        try:
            copied = list(recorder.ring)
        except RuntimeError:  # it changed while it was copied
            continue
        yield from reversed(copied)
        return
