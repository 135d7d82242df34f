"""Which rank wrote a line whose prefix shows a local rank, a process id or a scheduler's task.

What one line shows of a process (``[default3]:[rank11]:``, a row of torchrun's table, NCCL's ``comm 0x… rank 3``) holds
for all its lines. Where the text leaves several answers it gives none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from distcheck.rules.signatures import Kind

from .model import Event, LineAuthor, LogSource, RankStream, WorkerFailure

_COMM = re.compile(r"\bcomm 0x[0-9a-f]+ rank (\d{1,6}) n[rR]anks (\d{1,6})\b")
_LAUNCHED = ("torch.distributed.elastic", "torch/distributed/elastic", "torchrun", "worker group", "ChildFailedError")
_ADDRESS = re.compile(r"[\d.]+$|.*:")
#: A pod of a PyTorchJob of Kubeflow: its operator gives rank 0 to the master, and the next to the workers.
_POD = re.compile(r"(?P<job>.+)-(?P<role>master|worker)-(?P<index>\d{1,5})$")
#: GPUs of a usual large host: a job of more ranks than these, or than local ranks were seen, has several hosts.
USUAL_HOST = 8

_Scope = tuple[str, object]


#: Lines in which a process prints its own rank: torch, Lightning, and scripts after ``init_process_group``.
_STATEMENT = re.compile(r"store_based_barrier_key|GLOBAL_RANK: |\bdistributed init \(rank ")


def short(host: str) -> str:
    """A host's name without its domain: NCCL writes the short one, torchrun's table the long one."""
    return host if _ADDRESS.match(host) else host.partition(".")[0].lower()


def filled(who: LineAuthor, other: LineAuthor) -> LineAuthor:
    """Return the fields of the first, filled from the second."""
    if other == _UNKNOWN or who == other:
        return who
    return LineAuthor(
        who.rank if who.rank is not None else other.rank,
        who.local_rank if who.local_rank is not None else other.local_rank,
        who.host if who.host is not None else other.host,
        who.pid if who.pid is not None else other.pid,
        who.task if who.task is not None else other.task,
    )


_UNKNOWN = LineAuthor()


class Identities:
    """Learns from everything that is known, then answers.

    :param world_size: ranks of the job, where the log has it
    """

    def __init__(
        self,
        sources: Sequence[LogSource],
        events: Sequence[Event],
        rank_streams: Sequence[RankStream],
        workers: Sequence[WorkerFailure],
        world_size: int | None,
    ) -> None:
        self._sources = sources
        self.world_size = world_size
        self._rank_of_pid: dict[tuple[str | None, int], int | None] = {}
        #: global rank of local rank 0, by host, by task, by file; None: the text contradicts itself
        self._first_rank: dict[_Scope, int | None] = {}
        self._hosts: set[str] = set()
        self._ranks_of_host: dict[str, set[int]] = {}
        self._tasks: set[int] = set()
        self._locals: set[int] = set()
        self._ranks: set[int] = set()
        self._pids: set[tuple[str | None, int]] = set()
        self._task_is_node = False
        self._known: dict[tuple[LineAuthor, int], LineAuthor] = {}
        for who, source in {
            *((event.who, event.source) for event in events),
            *((voice.who, voice.source) for voice in rank_streams),
        }:
            self._learn(filled(who, sources[source].who), source)
        for worker in workers:
            self._learn(LineAuthor(worker.rank, worker.local_rank, worker.host, worker.pid), worker.source, is_row=True)
        self._learn_from_nccl(events)
        self._learn_from_statements(events)
        self._learn_from_only_one()
        self._task_is_node = self._task_is_node or (bool(self._tasks) and any(map(_is_of_torchrun, events)))
        self._one_host = self._is_one_host()
        #: jobs whose pods are one rank each
        self._jobs = self._jobs_of_pods(events)

    def of(self, who: LineAuthor, source: int) -> LineAuthor:
        """Return the same process with its global rank, if known."""
        key = (who, source)
        known = self._known.get(key)
        if known is None:
            full = filled(who, self._sources[source].who)
            rank = full.rank if full.rank is not None else self._rank(full, source)
            known = self._known[key] = full if rank == full.rank else full._replace(rank=rank)
        return known

    def rank_of_process(self, host: str | None, pid: int) -> int | None:
        """Return the rank of a process that a line names, whichever file it stands in."""
        found = self._rank_of_pid.get((None if host is None else short(host), pid))
        return self._rank_of_pid.get((None, pid)) if found is None else found

    def _learn(self, who: LineAuthor, source: int, is_row: bool = False) -> None:
        if who.host is not None:
            self._hosts.add(short(who.host))
        if who.task is not None:
            self._tasks.add(who.task)
            if who.local_rank is not None or (who.rank is not None and who.rank != who.task):
                self._task_is_node = True
        if who.local_rank is not None:
            self._locals.add(who.local_rank)
        if who.pid is not None:
            self._pids.add((who.host, who.pid))
        if who.rank is None:
            return
        self._ranks.add(who.rank)
        if who.host is not None:
            self._ranks_of_host.setdefault(short(who.host), set()).add(who.rank)
        if who.pid is not None:
            self._note_pid(who.host, who.pid, who.rank)
        if who.local_rank is not None and who.rank >= who.local_rank:
            for scope in _scopes(who, None if is_row else source):
                first = who.rank - who.local_rank
                if self._first_rank.setdefault(scope, first) != first:
                    self._first_rank[scope] = None

    def _note_pid(self, host: str | None, pid: int, rank: int) -> None:
        for name in {None, short(host) if host is not None else None}:
            if self._rank_of_pid.setdefault((name, pid), rank) != rank:
                self._rank_of_pid[name, pid] = None

    def _learn_from_nccl(self, events: Iterable[Event]) -> None:
        """Only a communicator of all ranks shows global ranks. A subgroup counts its own."""
        found: dict[int, list[tuple[str | None, int, int]]] = {}
        for event in events:
            if event.kind is Kind.RECORD and event.who.pid is not None and "comm 0x" in event.text:
                match = _COMM.search(event.text)
                if match:
                    found.setdefault(int(match[2]), []).append((event.who.host, event.who.pid, int(match[1])))
        if found and (self.world_size is None or max(found) >= self.world_size):
            for host, pid, rank in found[max(found)]:
                self._note_pid(host, pid, rank)

    def _learn_from_statements(self, events: Iterable[Event]) -> None:
        """A process that prints its rank among all: each such process only one, and each rank only one process."""
        stated = {
            (event.who.host, event.who.pid, rank)
            for event in events
            if _STATEMENT.search(event.text)
            and event.who.pid is not None
            and event.who.rank is None
            and (rank := event.number("rank")) is not None
        }
        processes = Counter((host, pid) for host, pid, _ in stated)
        ranks = Counter(rank for _, _, rank in stated)
        for host, pid, rank in stated:
            if pid is not None and processes[host, pid] == ranks[rank] == 1:
                self._note_pid(host, pid, rank)

    def _jobs_of_pods(self, events: Iterable[Event]) -> frozenset[str]:
        """The PyTorchJobs with a master, unless a pod has several ranks or its own number is none."""
        if self._locals or any(word in event.text for event in events for word in _LAUNCHED):
            return frozenset()
        named = {event.values.get("job") or "" for event in events if event.signature == "master-pod"}
        pods = [match for host in self._hosts if (match := _POD.match(host)) is not None]
        named |= {pod["job"] for pod in pods if pod["role"] == "master" and pod["index"] == "0"}
        others = {pod["job"] for pod in pods if self._ranks_of_host.get(pod[0], {_number_of(pod)}) != {_number_of(pod)}}
        return frozenset(named - others)

    def _learn_from_only_one(self) -> None:
        """A text of one process, which some lines name by its rank and others by its process id."""
        if len(self._ranks) == len(self._pids) == 1:
            host, pid = next(iter(self._pids))
            self._note_pid(host, pid, next(iter(self._ranks)))

    def _is_one_host(self) -> bool:
        if len(self._hosts) > 1 or len(self._tasks) > 1 or not self._locals:
            return False
        roots = {
            re.split(r"[\\/]attempt_\d+[\\/]", source.path)[0]
            for source in self._sources
            if source.who.local_rank is not None
        }
        firsts = {first for first in self._first_rank.values() if first is not None}
        if len(roots) > 1 or firsts - {0}:
            return False
        size = self.world_size
        return size is None or size <= max(max(self._locals) + 1, USUAL_HOST)

    def _rank(self, who: LineAuthor, source: int) -> int | None:
        if who.pid is not None:
            host = short(who.host) if who.host is not None else None
            rank = self._rank_of_pid.get((host, who.pid))
            if rank is None and len(self._hosts) <= 1:
                rank = self._rank_of_pid.get((None, who.pid))
            if rank is not None:
                return rank
        if who.local_rank is not None:
            for scope in _scopes(who, source):
                first = self._first_rank.get(scope)
                if first is not None:
                    return first + who.local_rank
            return who.local_rank if self._one_host else None
        if who.task is not None and not self._task_is_node:
            return who.task
        pod = _POD.match(short(who.host)) if who.host is not None and self._jobs else None
        return _number_of(pod) if pod is not None and pod["job"] in self._jobs else None


def _number_of(pod: re.Match[str]) -> int:
    """The rank that Kubeflow's operator gives to a pod of a job with a master."""
    return int(pod["index"]) + (pod["role"] == "worker")


def _scopes(who: LineAuthor, source: int | None) -> Iterable[_Scope]:
    """Where one offset between local and global ranks holds, the surest first."""
    if who.host is not None:
        yield "host", short(who.host)
    if who.task is not None:
        yield "task", who.task
    if who.host is None and who.task is None and source is not None:
        yield "source", source


def _is_of_torchrun(event: Event) -> bool:
    return event.kind is Kind.TABLE or any(word in event.text for word in _LAUNCHED)
