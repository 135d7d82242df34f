"""The environment probes as Python functions: a report, or an exception that stops a training job before it hangs.

If torchrun's agent serves a store, the hosts exchange their verdicts through it. So a failure on one host does not
leave the others waiting.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .checks.host.examine import examine
from .core.checker import make_selection
from .core.model import Report, Severity
from .core.redaction import mask_forms
from .core.world import World
from .launch.model import Launch
from .launch.reader import LaunchOptions, make_launch
from .reporters import Style, render

if TYPE_CHECKING:
    from .runtime.coordination.store_client import TorchStoreClient

#: Seconds within which all hosts receive a host's verdict.
SHARE_WITHIN_S = 30.0
_PREFIX = "distcheck/preflight"
#: The most verdicts of other hosts that a message names.
_MOST_VERDICTS = 8


class PreflightError(RuntimeError):
    """A finding is at or above the level. The text of the exception is the report; ``report`` holds it."""

    def __init__(self, text: str, report: Report | None = None) -> None:
        super().__init__(text)
        self.report = report


def check_environment(
    *,
    nproc_per_node: int | str | None = None,
    nnodes: int | str | None = None,
    node_rank: int | None = None,
    master_addr: str | None = None,
    master_port: int | None = None,
    rdzv_endpoint: str | None = None,
    rdzv_backend: str | None = None,
    backend: str | None = None,
    launched: bool = False,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    timeout_s: float | None = None,
    world: World | None = None,
) -> Report:
    """Return the report of ``distcheck env``, and print nothing.

    The first nine arguments are the options of the command, and describe the launch. Without any of them, the launch is
    that of this process.

    :param nproc_per_node: processes on this host, or ``gpu``, ``cpu``, ``auto``
    :param nnodes: hosts of the job, or ``MIN:MAX``
    :param node_rank: the number of this host, from 0
    :param master_addr: name or address of the host that serves the store (static rendezvous)
    :param master_port: its port
    :param rdzv_endpoint: ``HOST[:PORT]`` of the rendezvous of torchrun's agents
    :param rdzv_backend: the rendezvous backend: ``c10d``, ``static``, ``etcd-v2``, …
    :param backend: the backend of ``init_process_group``: ``nccl``, ``gloo``, …
    :param launched: this is a launched process, even if no variable shows it
    :param select: only these rules: codes, prefixes, names or ``ALL``; by default those that are on
    :param ignore: rules to switch off
    :param timeout_s: seconds for the whole check; what was not read by then is *not checked*; by default no limit
    :param world: access to another system than this process's own, for tests
    :raises ValueError: an argument is not valid
    :raises distcheck.rules.UnknownRule: a rule does not exist
    """
    world = World() if world is None else world
    launch = make_launch(
        world.environ,
        options=LaunchOptions(
            nproc_per_node=_text(nproc_per_node),
            nnodes=_text(nnodes),
            node_rank=node_rank,
            master_addr=master_addr,
            master_port=master_port,
            rdzv_endpoint=rdzv_endpoint,
            rdzv_backend=rdzv_backend,
            backend=backend,
        ),
        launched=launched,
        host_name=world.host_name(),
    )
    return examine(launch, world, selection=make_selection(select, (), ignore), budget_s=timeout_s)


def preflight(
    level: Severity | str = Severity.ERROR,
    *,
    backend: str | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    timeout_s: float = 10.0,
) -> Report:
    """Run the environment probes in this launched process, before ``init_process_group``.

    Each process with a finding raises, and local rank 0 prints the report. If the launcher's store is reachable,
    verdicts are shared within 30 s, and the processes of all hosts raise and name the host.

    :param level: the lowest severity that stops the job: a :class:`Severity` or its word
    :param backend: the backend of ``init_process_group``: ``nccl``, ``gloo``, …
    :param select: only these rules: codes, prefixes, names or ``ALL``; by default those that are on
    :param ignore: rules to switch off
    :param timeout_s: seconds for the check
    :returns: the report of this process, with no finding at or above the level
    :raises PreflightError: a finding is at or above the level, here or on another host
    :raises ValueError: the level is not valid
    :raises distcheck.rules.UnknownRule: a rule does not exist
    """
    threshold = Severity.parse(level) if isinstance(level, str) else level
    world = World()
    launch = make_launch(world.environ, options=LaunchOptions(backend=backend), launched=True)
    report = examine(launch, world, selection=make_selection(select, (), ignore), budget_s=timeout_s)
    bad = report.at_least(threshold)
    text = render(report, "full", Style())
    if bad and (launch.local_rank or 0) == 0:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - one process per host prints it, the others only raise
    verdicts = _VerdictStore.open(launch)
    verdict = mask_forms(f"{report.subject['host']}: {bad[0].code} {bad[0].message}") if bad else ""
    elsewhere = None if verdicts is None else verdicts.exchange(verdict)
    if bad:
        raise PreflightError(text if elsewhere is not None else text + _how_to_end(launch), report)
    if elsewhere:
        raise PreflightError("distcheck found an error on another host:\n  " + "\n  ".join(elsewhere), report)
    return report


def _how_to_end(launch: Launch) -> str:
    if (launch.world_size or 1) < 2:
        return ""
    return (
        "\nThe other processes of this job may wait for this one, because there is no launcher's store to inform them. "
        "fix: end all of them: Ctrl-C in torchrun, scancel JOB under Slurm, or delete the job.\n"
    )


class _VerdictStore:
    """The verdicts of all ranks: a few small keys in the store of torchrun's agent."""

    def __init__(self, client: TorchStoreClient, world_size: int, end: float) -> None:
        self._client = client
        self._world_size = world_size
        self._end = end

    @classmethod
    def open(cls, launch: Launch) -> _VerdictStore | None:
        """Return the agent's store; None without one, without other processes, or if it can't be reached."""
        if not launch.agent_store or launch.rank is None or (launch.world_size or 1) < 2:
            return None
        if launch.master_addr is None or launch.master_port is None:
            return None
        from .runtime.coordination.store_client import StoreLost, client_of_call, open_store

        end = time.monotonic() + SHARE_WITHIN_S
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        world_size = launch.world_size or 1
        try:
            store = open_store(launch.master_addr, launch.master_port, serve=False, timeout_s=SHARE_WITHIN_S)
            client = client_of_call(store, f"{_PREFIX}/{attempt}", launch.rank, clients=world_size)
        except (ImportError, StoreLost):  # there is no torch; or the report shows that the store can't be reached
            return None
        return cls(client, world_size, end)

    def exchange(self, verdict: str) -> list[str] | None:
        """Write this rank's verdict ("" is clean), wait for all ranks, and return the bad verdicts of the others; once.

        A rank with a bad verdict does not wait. The others return as soon as there is one. None if the store is lost.
        """
        from .runtime.coordination.store_client import StoreLost

        try:
            return self._exchange(verdict)
        except StoreLost:  # the server exited: the launcher is ending the job
            return None
        finally:
            self._client.close()

    def _exchange(self, verdict: str) -> list[str]:
        client = self._client
        if verdict:
            number = client.add("bad/slots")
            # the text is written before it is announced, so that no rank waits for it
            client.set(f"bad/{number}", verdict)
            client.add("bad")
            return []
        posted = client.add("clean")
        pause = 0.02
        while time.monotonic() < self._end:
            if client.add("bad", 0):
                slots = range(1, min(client.add("bad/slots", 0), _MOST_VERDICTS) + 1)
                return sorted({text for number in slots if (text := client.get(f"bad/{number}"))})
            if posted >= self._world_size:
                return []
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)  # frequent requests of a thousand ranks would overload the store
            posted = client.add("clean", 0)
        # a rank without a verdict by now is reported by the rendezvous, not by this check
        return []


def _text(value: int | str | None) -> str | None:
    return None if value is None else str(value)
