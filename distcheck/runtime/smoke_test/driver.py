"""The smoke test as its supervisors run it: the same phases in the same order on all ranks, and one report at the end.

Every supervisor watches its own workers and alerts the others when something is wrong. The supervisor of rank 0 is the
coordinator: it collects all results and reports them. Results travel in two steps: ranks → first rank of their host →
coordinator.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from distcheck.checks.cluster.connectivity import Doors, join_reach, open_doors, peers_of, try_hosts
from distcheck.checks.cluster.records import (
    Caller,
    ClockOffset,
    Cluster,
    HostRecord,
    Reach,
    RecordError,
    Roll,
    from_json,
    join_ranks,
    to_json,
)
from distcheck.core.facts_file import from_plain
from distcheck.core.model import to_plain
from distcheck.runtime.coordination.model import Failure, RankState
from distcheck.runtime.coordination.processes import kernel_state, parent_of
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.root_cause import compose_failure
from distcheck.runtime.coordination.store_client import ANSWERS_PER_S, StoreClient, StoreLost

from .backend import Choice, choose
from .model import Correctness, Lateness, Measurements, Options, Pairs, RankCorrectness
from .phases import limit_s, live_phases
from .rank_records import RankFile, write
from .supervisor import STOPPED_AFTER_S, Supervisor, WorkerEvent
from .worker import Orders

Value = TypeVar("Value")

#: Seconds after a failure within which the supervisors report where their ranks are. Then they wait for the verdict.
#: Together with the time to read stacks and to end workers they stay below the 5 s that an end may take.
REPORT_WITHIN_S = 2.0
VERDICT_WITHIN_S = 2.5
#: Seconds that a healthy run waits for the coordinator to judge and to print.
_JUDGED_WITHIN_S = 60.0
#: Seconds that the coordinator of a failed run stays for the others to hear: together with what went before, below 5 s.
_HEARD_WITHIN_S = 1.0
#: Results of ranks that raised that are read: one wrong result is enough.
_MOST_RANK_RESULTS = 64
_LONGEST_PAUSE_S = 0.1
_LOOK_EVERY_S = 0.5
#: Keys that one question to the store names.
_KEYS_AT_ONCE = 256
#: Present ranks whose hosts are read to find where a missing one belongs.
_MOST_CALLERS = 2048
#: Seconds without a heartbeat after which a supervisor counts as lost: on another host, to which a network leads, and
#: on this one; and seconds between two checks. A supervisor only watches, so even one with little CPU time sends a
#: heartbeat in that time.
LOST_AFTER_S = 15.0
HUNG_AFTER_S = 10.0
_SIGNS_EVERY_S = 2.0

#: Why a process that another one watched from outside has no exit status.
_EXITED = "the launcher prints its exit status"


class PhaseFailure(Exception):  # noqa: N818 - an outcome of a phase, sent to all supervisors
    """The phase can't end well. ``own`` if it was seen here first."""

    def __init__(self, kind: str, text: str = "", *, own: bool = True) -> None:
        super().__init__(text or kind)
        self.kind = kind
        self.text = text
        self.own = own


class OwnState(NamedTuple):
    """What this process knows before the rendezvous."""

    rank_infos: tuple[RankInfo, ...]
    #: this host with the ranks of ``rank_infos``
    record: HostRecord
    #: the findings and not-checked of the host checks, as plain JSON values
    inspected: Mapping[str, Any]
    #: how the launcher's agents found each other, as far as it is known
    rendezvous: str | None = None


class PhaseResults(NamedTuple):
    """All that the coordinator, or a supervisor that speaks alone, has in hand at the end."""

    roll: Roll | None = None
    cluster: Cluster | None = None
    reach: Reach | None = None
    #: records that could not be read: host or rank, and why
    unread: tuple[tuple[str, str], ...] = ()
    #: findings of each host's checks: host name → plain findings and not-checked
    looks: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    choice: Choice = Choice()
    #: names of the GPUs that torch gave to the ranks, one entry a rank
    gpu_names: tuple[str, ...] = ()
    #: phases that ended well, with their seconds
    phases: Mapping[str, float] = {}
    proof: Correctness | None = None
    measured: Measurements | None = None
    lateness: Lateness | None = None
    pairs: Pairs | None = None
    failure: Failure | None = None
    #: this process speaks for itself only: it can't reach the others
    alone: str | None = None
    #: phases that were to run and did not, and why
    left_out: tuple[tuple[str, str], ...] = ()


class PhaseDriver:
    """One process's part of the run.

    :param client: of the store that all supervisors share
    :param stops: judges what was compared so far; true stops the run before a group is made
    :param show: called with the state, for a line of progress: phase, step, seconds
    """

    def __init__(
        self,
        own: OwnState,
        client: StoreClient,
        supervisor: Supervisor,
        options: Options,
        *,
        store: tuple[str, int],
        cores: int,
        stops: Callable[[PhaseResults], bool],
        show: Callable[[str, str, float], None] | None = None,
        output_dir: str | None = None,
        signalled: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.own = own
        self.rank_infos = own.rank_infos
        self.client = client
        self.supervisor = supervisor
        self.options = options
        self.store = store
        self.cores = cores
        self.stops = stops
        self.show = show if any(rank_info.rank == 0 for rank_info in own.rank_infos) else None
        #: which run this is, so that records of an earlier one are not taken for its own
        self.run_id = ""
        self.failed = False
        self.floor: object = None
        self.late = False
        self.output_dir = output_dir
        #: why a record could not be written
        self.unwritten: str | None = None
        self.states: Mapping[int, RankState] = {}
        self.host = own.record.host
        self.world_size = own.rank_infos[0].world_size
        self.coordinator = any(rank_info.rank == 0 for rank_info in own.rank_infos)
        self.complete = len(own.rank_infos) == self.world_size
        # the store answers one request after another: with many supervisors each sends fewer requests, two at a time
        self.pause_s = max(_LONGEST_PAUSE_S, self.world_size / ANSWERS_PER_S)
        self.look_every_s = max(_LOOK_EVERY_S, 2 * self.world_size / ANSWERS_PER_S)
        self.signs_every_s = max(_SIGNS_EVERY_S, self.look_every_s)
        self.signalled = signalled
        self.done: dict[str, dict[int, WorkerEvent]] = {}
        self.phase = "membership"
        self.begun = time.monotonic()
        self.limit = 0.0
        self.last_look = 0.0
        self.last_signs = 0.0
        #: of each rank whose supervisor this one watches: its last sign of life, and when that came
        self.signs: dict[int, tuple[int, float]] = {}
        #: those of them that run on this host
        self.siblings: Siblings = Siblings()
        self.found = PhaseResults()
        self.hosts = 1

    # the whole

    def run(self) -> PhaseResults | None:
        """All phases; the coordinator's findings, those of a supervisor that must speak alone, or None."""
        try:
            return self._run()
        except PhaseFailure as failed:
            return self._fail(failed)
        except StoreLost as lost:
            return self._alone(lost)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others must not wait for this process
            return self._fail(PhaseFailure("error", f"{type(error).__name__}: {error}"))
        finally:
            self.supervisor.end()
            self._keep(ended=True)

    def _run(self) -> PhaseResults | None:
        self._enter("membership", self.options.timeout_s)
        roll = self._call_roll()
        self._leave()
        if roll.missing or roll.surplus or roll.world_size != self.world_size:
            return self._stop_after_roll(roll)
        self._enter("compare", limit_s("compare", self.options, self.world_size))
        decision = self._compare(roll)
        self._leave()
        if not decision["go"]:
            return self.found if self.coordinator else None
        self._watch(_long(decision["hosts"], self.world_size))
        for phase in live_phases(self.options, self.world_size):
            self._enter(phase, limit_s(phase, self.options, self.world_size, device=decision["device"]))
            if phase == "start":
                self.supervisor.go(self._orders(decision))
            else:
                self.supervisor.begin(phase)
            self._until(lambda phase=phase: len(self.done.get(phase, {})) == len(self.rank_infos) or None)  # type: ignore[misc]
            self._take(phase)
            self._leave()
        # a supervisor that is done sends no sign of life
        self.signs, self.siblings = {}, Siblings()
        self._enter("end", min(self.options.timeout_s, 30.0))
        self.supervisor.finish()
        self._until(lambda: all(worker.finished for worker in self.supervisor.workers.values()) or None)
        # no process exits before all have left the group: a launcher may end all at the first exit
        self._gather("ended", ["1"] * len(self.rank_infos))
        return self.found if self.coordinator else None

    def _enter(self, phase: str, seconds: float) -> None:
        self.phase = phase
        self.begun = time.monotonic()
        self.limit = seconds
        self._keep(ended=False)

    def _keep(self, *, ended: bool, report: Mapping[str, Any] | None = None) -> None:
        """Return each rank's record, for when no process can report."""
        if self.output_dir is None:
            return
        for rank_info, own in zip(self.rank_infos, self.own.record.ranks, strict=True):
            plain = RankState(rank_info.rank, self.host, own.pid, self.phase, state="finished" if ended else "running")
            state = self.states.get(rank_info.rank, plain)
            published = dict(report or {}) if rank_info is self.rank_infos[0] else {}
            try:
                write(
                    self.output_dir,
                    RankFile(
                        rank_info.rank, self.world_size, self.host, state, self.phase, ended, self.run_id, published
                    ),
                )
            except OSError as error:
                self.unwritten = f"{self.output_dir}: {error.strerror}"

    def _leave(self) -> None:
        self.found = self.found._replace(
            phases={**self.found.phases, self.phase: round(time.monotonic() - self.begun, 4)}
        )

    # waiting

    def _until(self, ready: Callable[[], Value | None], seconds: float | None = None) -> Value:
        """Wait for an event while the workers are watched; raises PhaseFailure at the phase's limit."""
        end = self.begun + self.limit if seconds is None else time.monotonic() + seconds
        pause = 0.002
        while True:
            value = ready()
            if value is not None:
                return value
            if time.monotonic() >= end:
                raise PhaseFailure("timeout", f"{self.phase} did not end within {self.limit:g} s")
            self._tick(min(pause, max(0.0, end - time.monotonic())))
            pause = min(pause * 1.5, self.pause_s)

    def _tick(self, seconds: float) -> None:
        """Poll the workers once."""
        signal_name = self.signalled()
        if signal_name is not None:
            raise PhaseFailure("ended", signal_name)
        for event in self.supervisor.events(seconds):
            if event.kind == "done":
                self.done.setdefault(event.phase, {})[event.rank] = event
            elif event.kind in ("died", "raised"):
                raise PhaseFailure(event.kind, event.text)
        now = time.monotonic()
        if now - self.last_look < self.look_every_s:
            return
        self.last_look = now
        if self.show is not None:
            first = next(iter(self.supervisor.workers.values()), None)
            standing = None if first is None else first.record.read()
            inside = standing is not None and standing.step.phase == self.phase
            self.show(self.phase, standing.step.text if inside and standing is not None else "", now - self.begun)
        if self.supervisor.stopped() or self.siblings.stopped(now):
            raise PhaseFailure("stopped")
        if self.complete:
            return
        if self.client.add("alarm", 0):
            raise PhaseFailure("alarm", own=False)
        for rank_info in self.rank_infos:
            self.client.add(f"sign/{rank_info.rank}", 1)
        if now - self.last_signs >= self.signs_every_s:
            self.last_signs = now
            self._look_for_signs(now)

    def _watch(self, hosts: tuple[int, ...]) -> None:
        """Choose the supervisors that this one watches, once their hosts are known."""
        if self.complete:
            return
        now = time.monotonic()
        watched = watched_ranks(self.rank_infos[0].rank, hosts)
        self.signs = {rank: (0, now) for rank in watched if rank not in {info.rank for info in self.rank_infos}}
        here = [rank for rank in self.signs if hosts[rank] == hosts[self.rank_infos[0].rank]]
        texts = [self.client.get(f"who/{rank}/1") for rank in here]
        callers: list[Caller] = [from_json(Caller, text) for text in texts if text is not None]
        self.siblings = Siblings({caller.rank: caller.pid for caller in callers})

    def _look_for_signs(self, now: float) -> None:
        """Raise PhaseFailure if a supervisor sends no heartbeats: it hangs, or its host or its network failed."""
        silent = []
        for rank, (last, since) in self.signs.items():
            sign = self.client.add(f"sign/{rank}", 0)
            if sign != last:
                self.signs[rank] = (sign, now)
            elif now - since > self._lost_after_s(rank):
                silent.append(rank)
        if silent:
            rank = silent[0]
            what = "the supervisor" if rank in self.siblings.pids else "the host"
            raise PhaseFailure("lost", f"no sign of life from {what} of rank {rank} for {self._lost_after_s(rank):g} s")

    def _lost_after_s(self, rank: int) -> float:
        """Seconds without a heartbeat after which the supervisor of a rank counts as lost."""
        return max(HUNG_AFTER_S if rank in self.siblings.pids else LOST_AFTER_S, 3 * self.look_every_s)

    # two levels: rank → first rank of its host → coordinator

    def _gather(self, name: str, parts: list[str]) -> list[str] | None:
        """The parts of all ranks for the coordinator; None for the others. Their order is that of the hosts."""
        if self.complete:
            return parts
        rank_info = self.rank_infos[0]
        if not rank_info.leads:
            self.client.set(f"{name}/{self._node}/{rank_info.local_rank}", json.dumps(parts))
        else:
            others = [
                number for number in range(rank_info.local_world_size or 1) if number != (rank_info.local_rank or 0)
            ]
            # those that this process watches itself have no message of their own
            for number in others[: max(0, (rank_info.local_world_size or 1) - len(self.rank_infos))]:
                key = f"{name}/{self._node}/{number}"
                parts = parts + json.loads(self._until(lambda key=key: self.client.get(key)))  # type: ignore[misc]
            index = self.client.add(f"{name}/hosts", 1)
            self.client.set(f"{name}/host/{index}", json.dumps(parts))
            self.client.add(f"{name}/parts", len(parts))
        if not self.coordinator:
            return None
        self._until(lambda: self.client.add(f"{name}/parts", 0) >= self.world_size or None)
        texts = [self.client.get(f"{name}/host/{number + 1}") for number in range(self.client.add(f"{name}/hosts", 0))]
        return [part for text in texts if text is not None for part in json.loads(text)]

    def _announce(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return what the coordinator publishes to all."""
        if self.coordinator:
            word = dict(make())
            self.client.set(name, json.dumps(word))
            return word
        return dict(json.loads(self._until(lambda: self.client.get(name))))

    @property
    def _node(self) -> str:
        """The same for all ranks of a host: cloned machines share names, containers of one host share its boot."""
        rank_info = self.rank_infos[0]
        return f"{self.own.record.boot_id or self.host}.{'' if rank_info.node_rank is None else rank_info.node_rank}"

    # the membership check

    def _call_roll(self) -> Roll:
        fresh = 0
        for caller in self._own_callers():
            number = self.client.add(f"here/{caller.rank}", 1)
            self.client.set(f"who/{caller.rank}/{number}", to_json(caller))
            if number == 1:
                fresh += 1
            else:
                self.coordinator = self.coordinator and caller.rank != 0
                self.late = True
                self.client.set(f"doubled/{self.client.add('doubled', 1)}", to_json(caller))
        self.client.add(f"count/{self.world_size}", fresh)
        if not self.coordinator:
            # the coordinator may use all of its time before it publishes who is missing
            text = self._until(lambda: self.client.get("roll"), self.options.timeout_s + VERDICT_WITHIN_S)
            word = json.loads(text)
            self.heard = (time.time() - word["now"], self.pause_s)
            self.run_id = word["run"]
            roll: Roll = from_json(Roll, word["roll"])
            # the membership check was complete when this process came with a number that is taken
            if self.late and not roll.surplus:
                return roll._replace(surplus=self._own_callers())
            self.late = False
            return roll
        begun = time.monotonic()
        while True:
            present = self.client.add(f"count/{self.world_size}", 0)
            doubled = 0 if self.complete else self.client.add("doubled", 0)
            waited = time.monotonic() - begun
            if present + doubled >= self.world_size or waited >= self.options.timeout_s:
                break
            self._tick(0.02)
        missing: tuple[int, ...] = ()
        if present < self.world_size:
            missing = tuple(self._without("who/{}/1"))
        surplus: list[Caller] = [
            from_json(Caller, self._until(lambda number=number: self.client.get(f"doubled/{number + 1}"), 2.0))  # type: ignore[misc]
            for number in range(doubled)
        ]
        roll = Roll(
            self.world_size, present, missing, (*surplus, *self._others(missing)), self._expected(missing),
            round(waited, 3), self.options.timeout_s,
        )  # fmt: skip
        self.run_id = os.urandom(6).hex()
        self.client.set("roll", json.dumps({"now": time.time(), "run": self.run_id, "roll": to_json(roll)}))
        self.heard = (0.0, 0.0)
        return roll

    def _own_callers(self) -> tuple[Caller, ...]:
        records = zip(self.rank_infos, self.own.record.ranks, strict=True)
        return tuple(Caller(info.rank, self.host, record.pid, info.world_size) for info, record in records)

    def _without(self, key: str) -> Iterator[int]:
        """Return the ranks whose key is not set. Many are requested at once, since few are missing."""
        for first in range(0, self.world_size, _KEYS_AT_ONCE):
            some = range(first, min(first + _KEYS_AT_ONCE, self.world_size))
            if not self.client.check([key.format(rank) for rank in some]):
                yield from (rank for rank in some if not self.client.check([key.format(rank)]))

    def _others(self, missing: tuple[int, ...]) -> list[Caller]:
        """Return the ranks that expect another world size: read only where a rank is missing."""
        found: list[Caller] = []
        if not missing:
            return found
        present = sorted(set(range(self.world_size)) - set(missing))
        # numbers beyond the world are those of processes that believe in a larger one
        for rank in [*present[:64], *range(self.world_size, self.world_size + 64)]:
            text = self.client.get(f"who/{rank}/1")
            if text is not None:
                caller: Caller = from_json(Caller, text)
                if caller.world_size != self.world_size:
                    found.append(caller)
        return found

    def _expected(self, missing: tuple[int, ...]) -> dict[int, str]:
        """The hosts on which the missing ranks should be, where the ranks that are here stand block by block."""
        per_node = self.rank_infos[0].local_world_size
        if not missing or not per_node or self.world_size % per_node:
            return {}
        gone = set(missing)
        here = [rank for rank in range(self.world_size) if rank not in gone][:_MOST_CALLERS]
        blocks: dict[int, set[str]] = {}
        for rank in here:
            text = self.client.get(f"who/{rank}/1")
            if text is not None:
                caller: Caller = from_json(Caller, text)
                blocks.setdefault(rank // per_node, set()).add(caller.host)
        hosts = [host for block in blocks.values() for host in block]
        if len(hosts) != len(blocks) or len(set(hosts)) != len(hosts):
            return {}  # not block by block: the host of a number is unknown
        nodes = self.world_size // per_node
        return {
            rank: next(iter(blocks.get(rank // per_node, ())), f"the {_ordinal(rank // per_node + 1)} of {nodes} nodes")
            for rank in missing[:_MOST_CALLERS]
        }

    def _stop_after_roll(self, roll: Roll) -> PhaseResults | None:
        self.found = self.found._replace(roll=roll, looks=((self.host, self.own.inspected),))
        if self.coordinator:
            return self.found
        if self.late:
            return self.found._replace(alone="its number was taken when it came")
        # a rank whose own number of ranks differs knows what the coordinator can't
        if roll.world_size != self.world_size:
            return self.found._replace(
                roll=roll._replace(surplus=(*roll.surplus, *self._own_callers())),
                alone=f"rank 0 counts {roll.world_size} ranks, this process {self.world_size}",
            )
        return None

    # the comparison

    def _compare(self, roll: Roll) -> Mapping[str, Any]:
        offset, error = self.heard
        own = self.own.record._replace(clock=None if self.complete else ClockOffset(round(offset, 3), round(error, 3)))
        part = json.dumps({"host": self.host, "record": to_json(own), "looked": dict(self.own.inspected)})
        # one part a rank, so that they can be counted; a host of several ranks in one process sends it once
        parts = self._gather("records", [part, *[""] * (len(self.rank_infos) - 1)])
        records: list[HostRecord] = []
        looks: list[tuple[str, Mapping[str, Any]]] = []
        unread: list[tuple[str, str]] = []
        for text in parts or ():
            item = json.loads(text or "null")
            if item is None:
                continue
            try:
                records.append(from_json(HostRecord, item["record"]))
                looks.append((records[-1].host, item["looked"]))
            except RecordError as error:
                unread.append((item["host"], str(error)))
        hosts = join_ranks(records)
        # where the first rank of a host is not known, each rank speaks for itself
        leaders = [
            rank
            for host in hosts
            for rank in host.ranks
            if rank.local_rank in (0, None) or rank.local_world_size is None
        ]
        self.signs = {rank.rank: (0, time.monotonic()) for rank in leaders if rank.rank != 0}
        reach = self._try_doors(len(leaders))
        if not self.coordinator:
            return dict(json.loads(self._until(lambda: self.client.get("decision"))))
        choice = choose(self.options, hosts)
        self.found = self.found._replace(
            roll=roll,
            cluster=Cluster(hosts, choice.backend, self.world_size, self.own.rendezvous),
            reach=reach,
            looks=tuple(looks),
            unread=tuple(unread),
            choice=choice,
        )
        go = not self.stops(self.found)
        word = {
            "go": go,
            "backend": choice.backend,
            "device": choice.device,
            "hosts": _short(host_numbers(hosts, self.world_size)),
        }
        self.client.set("decision", json.dumps(word))
        return word

    def _try_doors(self, hosts: int) -> Reach | None:
        """Every host opens doors, and tries those of the others; the coordinator learns how it went."""
        several = int(self._announce("hosts", lambda: {"count": hosts})["count"])
        if several < 2 or not self.rank_infos[0].leads:
            return None
        with open_doors(self.own.record) as doors:
            index = self.client.add("doors/hosts", 1) - 1
            self.client.set(f"doors/{index}", to_json(doors.card))
            self.client.add("doors/ready", 1)
            self._until(lambda: self.client.add("doors/ready", 0) >= several or None)
            others: list[Doors] = [
                from_json(Doors, self.client.get(f"doors/{number}") or "") for number in peers_of(index, several)
            ]
            self.client.set(f"reach/{index}", to_json(try_hosts(doors.card, others, hosts=several)))
            self.client.add("reach/ready", 1)
            # the doors stay open until everybody has tried them
            self._until(lambda: self.client.add("reach/ready", 0) >= several or None)
        if not self.coordinator:
            return None
        parts: list[Reach] = [from_json(Reach, self.client.get(f"reach/{number}") or "") for number in range(several)]
        return join_reach(parts)

    # the live phases

    def _orders(self, decision: Mapping[str, Any]) -> Iterable[Orders]:
        hosts = _long(decision["hosts"], self.world_size)
        longest = max(
            limit_s(phase, self.options, self.world_size, device=decision["device"])
            for phase in live_phases(self.options, self.world_size)
        )
        options = self.options._replace(backend=decision["backend"], device=decision["device"])
        for rank_info in self.rank_infos:
            leads = rank_info.leads and self.supervisor.log_file is not None
            yield Orders(
                rank_info.rank, self.world_size, rank_info.local_rank or 0,
                decision["backend"], decision["device"], options,
                self.store[0], self.store[1], f"distcheck/{rank_info.restarts}/group", hosts, self.cores,
                # the watchdog speaks before the backend's own does
                longest + 30.0, f"/proc/self/fd/{self.supervisor.log_file}" if leads else None,
            )  # fmt: skip

    def _take(self, phase: str) -> None:
        """Send what a phase found from all ranks to the coordinator, and wait until all have ended the phase."""
        own = [self.done[phase][rank_info.rank].found for rank_info in self.rank_infos]
        parts = self._gather(f"found/{phase}", [json.dumps(item) for item in own])
        if self.coordinator:
            values = [json.loads(text) for text in parts or ()]
            if phase == "verify":
                from .correctness_checks import merge_rank_results

                results: list[RankCorrectness] = [from_plain(RankCorrectness, item["proof"]) for item in values]
                self.found = self.found._replace(proof=merge_rank_results(results, self.world_size))
            if phase == "start":
                self.found = self.found._replace(
                    gpu_names=tuple(filter(None, (item["device_name"] for item in values)))
                )
            for item in values:
                if item.get("measured"):
                    self.found = self.found._replace(measured=from_plain(Measurements, item["measured"]))
                if item.get("pairs"):
                    self.found = self.found._replace(
                        lateness=from_plain(Lateness, item["lateness"]), pairs=from_plain(Pairs, item["pairs"])
                    )
        if not self.complete:
            self._announce(f"next/{phase}", dict)

    # the ends that are not good

    def _fail(self, failed: PhaseFailure) -> PhaseResults | None:
        """Notify the others, publish the state of the own ranks, and let the coordinator find the root cause."""
        self.failed = True
        elapsed = time.monotonic() - self.begun
        try:
            if failed.own:
                self.client.add("alarm", 1)
            if self.coordinator:
                self.client.set("coordinator-speaks", "1")
            states = {state.rank: state for state in self.supervisor.states(self.host)}
            self.states = dict(states)
            for rank, state in states.items():
                proof = self.supervisor.workers[rank].proof
                self.client.set(f"state/{rank}", json.dumps({"state": to_plain(state), "proof": proof}))
            self.client.add("told", len(states))
            self._speak_for_siblings()
            self.supervisor.end()
            if self.complete or self.coordinator:
                states.update(self._all_states(states, REPORT_WITHIN_S))
            elif not self._verdict_is_near():
                states.update(self._all_states(states, 0.0))
            else:
                return None
        except StoreLost as lost:
            return self._alone(lost)
        failure = compose_failure(
            states, self.world_size, self.phase, failed.kind, failed.text, limit_s=self.limit, elapsed_s=elapsed,
            # before the membership check the members are unknown: a missing heartbeat means nothing
            alone=self.phase == "membership",
        )  # fmt: skip
        return self._with_rest(failure)

    def _speak_for_siblings(self) -> None:
        """Publish the states of supervisors of this host that have exited or are stopped: they can't do it."""
        states = self.siblings.states(self.host, self.phase)
        for state in states:
            # one that ended by itself published its own state first
            if not self.client.check([f"state/{state.rank}"]):
                self.client.set(f"state/{state.rank}", json.dumps({"state": to_plain(state), "proof": None}))
                self.client.add("told", 1)

    def _verdict_is_near(self) -> bool:
        """Return whether a verdict is published: by the coordinator, or after a time by the first other supervisor."""
        end = time.monotonic() + REPORT_WITHIN_S + 0.5
        while time.monotonic() < end:
            if self.client.get("coordinator-speaks") is not None:
                return True
            time.sleep(0.05)
        return self.client.add("speaker", 1) > 1

    def _all_states(self, own: Mapping[int, RankState], seconds: float) -> dict[int, RankState]:
        """Return the states of the ranks of other supervisors, and what was verified before a rank raised."""
        end = time.monotonic() + seconds
        while not self.complete and self.client.add("told", 0) < self.world_size and time.monotonic() < end:
            time.sleep(0.02)
        silent = set() if self.complete else set(self._without("state/{}"))
        found = {}
        results: list[RankCorrectness] = []
        for rank in range(self.world_size):
            if rank in silent or (self.complete and rank not in own):
                continue
            published = json.loads(self.client.get(f"state/{rank}") or "null")
            if published is None:
                continue
            if published["proof"] is not None and len(results) < _MOST_RANK_RESULTS:
                results.append(from_plain(RankCorrectness, published["proof"]))
            if rank not in own:
                found[rank] = from_plain(RankState, published["state"])
        if results and self.found.proof is None:
            from .correctness_checks import merge_rank_results

            self.found = self.found._replace(proof=merge_rank_results(results, self.world_size))
        return found

    def _alone(self, lost: StoreLost) -> PhaseResults | None:
        """Report what this process knows after the store failed; one process a host."""
        self.failed = True
        elapsed = time.monotonic() - self.begun
        states = self.states or {state.rank: state for state in self.supervisor.states(self.host)}
        self.states = dict(states)
        self.floor = takes_the_floor(address_of(self.rank_infos[0]), leads=self.coordinator or self.rank_infos[0].leads)
        if self.floor is None:
            return None
        failure = compose_failure(
            states, self.world_size, self.phase, "lost", str(lost), limit_s=self.limit, elapsed_s=elapsed, alone=True
        )
        if failure.kind == "timeout":  # nothing is wrong here but the way to the others
            failure = failure._replace(kind="lost", culprits=(), error=str(lost))
        self.found = self.found._replace(alone=f"the others can't be reached: {lost}")
        return self._with_rest(failure)

    def _with_rest(self, failure: Failure) -> PhaseResults:
        planned = ("membership", "compare", *live_phases(self.options, self.world_size))
        left = tuple(
            (phase, f"the run ended in {self.phase}")
            for phase in planned
            if phase not in self.found.phases and phase != self.phase
        )
        looks = self.found.looks or ((self.host, self.own.inspected),)
        self.found = self.found._replace(failure=failure, left_out=left, looks=looks)
        return self.found

    # the verdict

    def keep(self, report: Mapping[str, Any]) -> None:
        """Leave the whole report in the record of this process's first rank."""
        self._keep(ended=True, report=report)

    def publish(self, status: int) -> None:
        """Send the exit status to all others; the process that serves the store stays until they have read it."""
        if self.complete or self.found.alone is not None:
            return
        try:
            self.client.set("verdict", str(status))
            end = time.monotonic() + (_HEARD_WITHIN_S if self.failed else VERDICT_WITHIN_S)
            processes = self.world_size - len(self.rank_infos)
            while self.client.add("heard", 0) < processes and time.monotonic() < end:
                time.sleep(0.02)
        except StoreLost:
            return

    def hear(self) -> tuple[int, str | None]:
        """Return the exit status that the coordinator publishes. Without one in time, it is 1, with a line to print."""
        begun = time.monotonic()
        name = f"rank {self.rank_infos[0].rank} on {self.host}"
        try:
            while True:
                text = self.client.wait("verdict", 0.25)
                if text is not None:
                    self.client.add("heard", len(self.rank_infos))
                    return int(text), None
                # the launcher ends the others once one has failed: then the coordinator has little time as well
                soon = self.failed or self.signalled() is not None
                if time.monotonic() - begun > (VERDICT_WITHIN_S if soon else _JUDGED_WITHIN_S):
                    return 1, f"{name}: the run ended in {self.phase}, and rank 0 gave no verdict"
        except StoreLost as lost:
            return 1, f"{name}: the run ended in {self.phase}, and rank 0 gave no verdict: {lost}"


class Siblings:
    """Supervisors that the same launcher started on this host, seen from outside: whether they run, by process ID.

    :param pids: by rank; of a rank in another PID namespace, or started by another process, nothing is known
    """

    def __init__(self, pids: Mapping[int, int] = {}) -> None:
        self.pids = {rank: pid for rank, pid in pids.items() if parent_of(pid) == os.getppid()}
        self._stopped_since: dict[int, float] = {}

    def stopped(self, now: float) -> bool:
        """Return whether one has been stopped (SIGSTOP) for a while."""
        for rank, pid in self.pids.items():
            if kernel_state(pid) in ("T", "t"):
                self._stopped_since.setdefault(rank, now)
            else:
                self._stopped_since.pop(rank, None)
        return any(now - since >= STOPPED_AFTER_S for since in self._stopped_since.values())

    def states(self, host: str, phase: str) -> tuple[RankState, ...]:
        """Return the states of those that have exited or are stopped."""
        found = []
        for rank, pid in self.pids.items():
            kernel = kernel_state(pid)
            if kernel in ("T", "t"):
                found.append(RankState(rank, host, pid, phase, state="stopped", detail="SIGSTOP"))
            elif kernel in ("", "Z", "X"):
                found.append(RankState(rank, host, pid, phase, state="exited", detail=_EXITED))
        return tuple(found)


def watched_ranks(rank: int, hosts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ranks whose supervisors the one of this rank watches: few for each, and each is watched.

    The first of a host watches the others there, and the second watches the first. Rank 0 watches the first of each
    host, and the first of the second host watches rank 0.

    :param hosts: the number of each rank's host, by rank
    """
    firsts: dict[int, int] = {}
    for other, host in enumerate(hosts):
        firsts.setdefault(host, other)
    here = [other for other, host in enumerate(hosts) if host == hosts[rank]]
    found = []
    if rank == here[0]:
        found.extend(here[1:])
    elif rank == here[1]:
        found.append(here[0])
    if rank == 0:
        found.extend(firsts.values())
    elif rank in list(firsts.values())[1:2]:
        found.append(0)
    return tuple(dict.fromkeys(other for other in found if other != rank))


def _ordinal(number: int) -> str:
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
    return words[number - 1] if number <= len(words) else f"number {number}"


def address_of(rank_info: RankInfo) -> str:
    """The same for all processes of one run on a host."""
    return f"{rank_info.master_addr}:{rank_info.master_port}:{rank_info.restarts}"


def takes_the_floor(run: str, *, leads: bool) -> object | None:
    """Return whether this process reports for its host when the store cannot decide: the first one does.

    It binds a Unix socket whose name is no file (unix(7), abstract sockets), which is freed with the process. Keep what
    is returned; None: another process reports. A name that another user holds counts for nothing: only the first rank
    reports then.

    :param run: what names the run
    :param leads: the first rank of its host, which goes first if it is there
    """
    if not sys.platform.startswith("linux"):
        return True if leads else None
    if not leads:
        time.sleep(0.3)
    name = b"\0distcheck-" + hashlib.sha256(run.encode()).digest()[:12]
    floor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        floor.bind(name)
        floor.listen(1024)
    except OSError:
        floor.close()
        return None if not leads or _holder(name) == os.getuid() else True
    return floor


def _holder(name: bytes) -> int | None:
    """Return the user whose process listens at a Unix socket (SO_PEERCRED, unix(7)); None if none does."""
    for _ in range(5):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller, contextlib.suppress(OSError):
            caller.setblocking(False)
            caller.connect(name)
            user: int = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
            return user
        time.sleep(0.02)  # bound, and about to listen
    return None


def host_numbers(hosts: Iterable[HostRecord], world_size: int) -> tuple[int, ...]:
    """Return the number of each rank's host, by rank."""
    numbers = [0] * world_size
    for number, host in enumerate(hosts):
        for rank in host.ranks:
            if 0 <= rank.rank < world_size:
                numbers[rank.rank] = number
    return tuple(numbers)


def _short(numbers: tuple[int, ...]) -> list[list[int]]:
    """Runs of equal numbers: a thousand hosts of eight ranks are a thousand pairs, not eight thousand numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def _long(runs: list[list[int]], world_size: int) -> tuple[int, ...]:
    numbers = tuple(number for number, count in runs for _ in range(count))
    return numbers if len(numbers) == world_size else (0,) * world_size
