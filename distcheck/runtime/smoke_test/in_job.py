"""The smoke test inside a job that already has a process group: the same phases, on its own group.

No other process supervises here. A thread does: at the deadline it reports the state of each rank, and aborts the group
that was made for the check, never the job's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from distcheck.checks.cluster.own_record import read_host_record
from distcheck.checks.cluster.records import Cluster, HostRecord, RankRecord, Roll, from_json, join_ranks, to_json
from distcheck.core.checker import make_selection
from distcheck.core.facts_file import from_plain
from distcheck.core.model import Report, to_plain
from distcheck.core.redaction import mask_all
from distcheck.core.world import World
from distcheck.launch.reader import make_launch
from distcheck.runtime.coordination.flight_recorder import last_entries
from distcheck.runtime.coordination.model import RankState
from distcheck.runtime.coordination.processes import usable_cores
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.root_cause import compose_failure
from distcheck.runtime.coordination.store_client import StoreLost, client_of_call

from .backend import choose
from .driver import PhaseResults, host_numbers
from .live_group import LiveGroup, Operations
from .model import Options, RankCorrectness, Step
from .phases import limit_s, live_phases
from .run import HostResult, Request, plain_look, report_of

#: Seconds in which the ranks publish their states, once one of them has missed its deadline.
_REPORT_WITHIN_S = 3.0
#: Seconds in which all ranks read the report of rank 0: they check for it every 0.1 s.
_READ_WITHIN_S = 5.0


def check(
    *,
    quick: bool = True,
    timeout_s: float = 60.0,
    min_busbw_gbytes_per_s: float | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    options: Options | None = None,
) -> Report:
    """Prove, and unless ``quick`` measure, the collectives of a job that already has a process group.

    All ranks must call it; all get the same report. Ranks, versions, GPUs and settings are compared first.

    :param timeout_s: seconds for each phase; a rank that hangs is named, and the group made for this check is aborted
    :param options: all other options of the command; ``quick``, ``timeout_s`` and the bound override them
    :raises RuntimeError: there is no process group
    :raises distcheck.rules.UnknownRule: a rule that does not exist
    """
    import torch.distributed as dist

    if not dist.is_initialized():
        raise RuntimeError(
            "distcheck.runtime.smoke_test.check() needs a process group: call it after "
            "torch.distributed.init_process_group(), or run 'torchrun ... -m distcheck.collective' instead"
        )
    selection = make_selection(select, (), ignore)
    merged = (Options() if options is None else options)._replace(
        quick=quick, timeout_s=timeout_s, min_busbw_gbytes_per_s=min_busbw_gbytes_per_s
    )
    return _InJobRun(dist, merged).report(selection)


class _MissedDeadline(Exception):  # noqa: N818 - an outcome of a phase
    """A deadline was missed."""


class _InJobRun:
    """One rank's part."""

    def __init__(self, dist: Any, options: Options) -> None:
        self.dist = dist
        self.rank: int = dist.get_rank()
        self.size: int = dist.get_world_size()
        backend = str(dist.get_backend())
        # a group may have a backend for each kind of device: "cpu:gloo,cuda:nccl"
        nccl = "nccl" in backend
        self.options = options._replace(backend="nccl" if nccl else "gloo", device="cuda" if nccl else "cpu")
        store = dist.distributed_c10d._get_default_store()
        self.client = client_of_call(store, "distcheck/inside", self.rank, clients=self.size, set_limit=False)
        self.group: Any = None
        self.phase = "compare"
        self.step = Step("compare")
        self.steps = 0
        self.begun = time.monotonic()
        self.main = threading.get_ident()
        self.failed: PhaseResults | None = None

    def report(self, selection: Any) -> Report:
        started = time.monotonic()
        rank_info, inspected = self._inspect()
        found = PhaseResults()
        try:
            found = self._run(inspected, found)
        except StoreLost as lost:
            found = self._failure(found, "lost", str(lost))
        except _MissedDeadline as missed:
            found = self.failed or self._failure(found, "timeout", str(missed))
        except Exception as error:  # noqa: BLE001 - whatever the backend raises is the finding
            found = self.failed or self._failure(found, "raised", f"{type(error).__name__}: {error}")
        finally:
            self._leave()
        ask = Request(options=self.options, selection=selection)
        text = self._report_of_rank_0() if self.rank != 0 and found.failure is None else None
        if text is not None:
            return _revive(text)
        made = report_of(found, inspected, ask, (rank_info,), time.monotonic() - started)
        if self.rank == 0:
            self._publish(made, wait=found.failure is None)
        return made

    def _report_of_rank_0(self) -> str | None:
        """Return the report that rank 0 makes for all; None if it does not come."""
        with contextlib.suppress(StoreLost):
            text = self._until("report", limit_s("stragglers", self.options, self.size, device=self.options.device))
            self.client.add("report/read", 1)
            return text
        return None

    def _publish(self, made: Report, *, wait: bool) -> None:
        """Send the report to all ranks. The store ends with this process, which may exit at once: let them read it."""
        with contextlib.suppress(StoreLost):
            self.client.set("report", json.dumps(mask_all(made.as_dict())))
            end = time.monotonic() + (_READ_WITHIN_S if wait else 0.0)
            while time.monotonic() < end and self.client.add("report/read", 0) < self.size - 1:
                time.sleep(0.01)

    def _inspect(self) -> tuple[RankInfo, HostResult]:
        world = World()
        launch = make_launch(world.environ, launched=True, host_name=world.host_name())
        local = launch.local_rank
        rank_info = RankInfo(self.rank, self.size, local, launch.local_world_size, launch.node_rank)
        own = RankRecord(self.rank, local, self.size, launch.local_world_size, launch.node_rank, os.getpid())
        return rank_info, HostResult(Report("env"), read_host_record(launch, world, ranks=(own,)))

    def _run(self, inspected: HostResult, found: PhaseResults) -> PhaseResults:
        self.client.set(f"record/{self.rank}", to_json(inspected.record))
        records = []
        end = time.monotonic() + self.options.timeout_s
        for rank in range(self.size):
            text = self._until(f"record/{rank}", max(0.0, end - time.monotonic()))
            if text is None:
                raise _MissedDeadline(f"rank {rank} did not call check() within {self.options.timeout_s:g} s")
            records.append(from_json(HostRecord, text))
        hosts = join_ranks(records)
        found = found._replace(
            roll=Roll(self.size, self.size),
            cluster=Cluster(hosts, self.options.backend, self.size),
            looks=((inspected.record.host, plain_look(inspected.report, whole=True)),),
            choice=choose(self.options),
        )
        live = self._make_group(host_numbers(hosts, self.size))
        for phase in live_phases(self.options, self.size):
            found = self._phase(phase, live, found)
        return found

    def _leave(self) -> None:
        """The group of the check goes, also where it failed: it holds memory of the GPU."""
        if self.group is None:
            return
        if self.failed is not None or self.options.backend == "nccl":
            self._abort()
        with contextlib.suppress(RuntimeError, ValueError, AssertionError):
            self.dist.destroy_process_group(self.group)
        self.group = None

    def _abort(self) -> None:
        """What waits in the group comes back with an error, and the job's own groups live on; not for gloo."""
        if self.failed is not None and self.options.backend == "nccl":
            with contextlib.suppress(RuntimeError, AttributeError):
                self.group.abort()

    def _make_group(self, hosts: tuple[int, ...]) -> LiveGroup:
        import torch

        device = (
            torch.device("cuda", torch.cuda.current_device()) if self.options.device == "cuda" else torch.device("cpu")
        )
        limit = max(
            limit_s(phase, self.options, self.size, device=device.type)
            for phase in live_phases(self.options, self.size)
        )
        # gloo's groups can't be aborted, and come back by their own limit; NCCL's would end the whole job
        self.group = self.dist.new_group(
            timeout=timedelta(seconds=limit + (60 if self.options.backend == "nccl" else 2)),
            backend=self.options.backend,
        )
        return LiveGroup(
            self.rank, self.size, self.options.backend, device, self.options, Operations(self.group), hosts,
            usable_cores(), self._announce,
        )  # fmt: skip

    def _announce(self, step: Step) -> None:
        self.step = step
        self.steps += 1

    def _phase(self, phase: str, live: LiveGroup, found: PhaseResults) -> PhaseResults:
        import torch

        self.phase = phase
        self.begun = time.monotonic()
        self._announce(Step(phase))
        limit = limit_s(phase, self.options, self.size, device=self.options.device)
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done, limit, found), daemon=True)
        watcher.start()
        try:
            if phase == "start":
                # not a barrier, which chooses a GPU by the rank until torch 2.7
                live.operations.all_reduce(torch.ones(1, device=live.device))
                live.synchronize()
            elif phase == "verify":
                from .correctness_checks import merge_rank_results, verify

                # a separate path: what is wrong with the group can't hide what it gave
                self.client.set(f"proof/{self.rank}", json.dumps(to_plain(verify(live))))
                if self.rank == 0:
                    texts = [self._until(f"proof/{rank}", limit) for rank in range(self.size)]
                    if None in texts:
                        raise _MissedDeadline(
                            f"rank {texts.index(None)} sent no results of its correctness check within {limit:g} s"
                        )
                    results = [from_plain(RankCorrectness, json.loads(text)) for text in texts if text is not None]
                    found = found._replace(proof=merge_rank_results(results, self.size))
            elif phase == "measure":
                from .bandwidth import measure

                found = found._replace(measured=measure(live))
            else:
                from .stragglers import find_late, find_pairs

                found = found._replace(lateness=find_late(live), pairs=find_pairs(live))
        finally:
            done.set()
            watcher.join()
        if self.failed is not None:  # it came to its end after all, too late
            raise _MissedDeadline(f"{phase} did not end within {limit:g} s")
        return found._replace(phases={**found.phases, phase: round(time.monotonic() - self.begun, 4)})

    def _until(self, key: str, seconds: float) -> str | None:
        """Return the value of a key; polls often at first, and rarely later."""
        end = time.monotonic() + seconds
        pause = 0.002
        while (text := self.client.get(key)) is None and time.monotonic() < end:
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        return text

    # the watcher's thread

    def _watch(self, done: threading.Event, limit: float, found: PhaseResults) -> None:
        if done.wait(limit):
            return
        self.failed = found  # until the failed rank is known, no result that comes back counts as a success
        self._abort()
        self.failed = self._failure(found, "timeout", f"{self.phase} did not end within {limit:g} s")

    def _failure(self, found: PhaseResults, kind: str, text: str) -> PhaseResults:
        """Return the states of all ranks, as far as they publish them within a few seconds."""
        states = {self.rank: self._state(kind, text)}
        with contextlib.suppress(StoreLost):
            self.client.set(f"state/{self.rank}", json.dumps(to_plain(states[self.rank])))
            end = time.monotonic() + _REPORT_WITHIN_S
            missing = set(range(self.size)) - {self.rank}
            while missing and time.monotonic() < end:
                for rank in sorted(missing):
                    state = self.client.get(f"state/{rank}")
                    if state is not None:
                        states[rank] = from_plain(RankState, json.loads(state))
                        missing.discard(rank)
                time.sleep(0.05)
        failure = compose_failure(
            states, self.size, self.phase, kind, text,
            limit_s=limit_s(self.phase, self.options, self.size, device=self.options.device),
            elapsed_s=time.monotonic() - self.begun,
        )  # fmt: skip
        left = tuple((phase, f"the check ended in {self.phase}") for phase in live_phases(self.options, self.size))
        return found._replace(
            failure=failure,
            left_out=tuple(item for item in left if item[0] not in found.phases and item[0] != self.phase),
        )

    def _state(self, kind: str, text: str) -> RankState:
        frame = sys._current_frames().get(self.main)
        stack = "" if frame is None else "".join(reversed(traceback.format_stack(frame)))[:3000]
        raised = kind == "raised"
        return RankState(
            self.rank, World().host_name(), os.getpid(), self.phase, self.step.text, self.steps,
            "raised" if raised else "running", text if raised else "", "" if raised else stack,
            tuple(last_entries()),
            round(time.monotonic() - self.begun, 3),
        )  # fmt: skip


def _revive(text: str) -> Report:
    from .rank_records import revived

    return revived(json.loads(text))
