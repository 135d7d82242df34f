"""Several hosts, each with its own ``distcheck collective --nnodes``: the membership check, then torchrun's launch API.

torchrun's agents wait ten or fifteen minutes for a missing host before any code of ours runs (torch 2.13). So the hosts
check their membership on another port first, and the agents start only when all hosts are there.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.checks.cluster.membership_check import call_roll
from distcheck.checks.cluster.membership_protocol import MembershipAnswer, MembershipError
from distcheck.checks.cluster.records import Cluster, Roll
from distcheck.core.checker import Checker
from distcheck.core.model import (
    Fix,
    NotApplicable,
    NotChecked,
    Report,
    Severity,
    Where,
    merge_findings,
    merge_not_checked,
)
from distcheck.launch.endpoint import split_endpoint
from distcheck.launch.model import DEFAULT_PORT
from distcheck.runtime.coordination.store_client import first_line

from .run import Request

#: torchrun's own port for c10d (torch 2.13, ``elastic/rendezvous/c10d_rendezvous_backend.py``).
_C10D_PORT = 29400


#: Seconds that torchrun's agents have to part: healthy ones need a fraction of one.
_AGENTS_PART_WITHIN_S = 5.0
_FAILED_PART_WITHIN_S = 1.5
_NOT_REACHED = frozenset({"DC403", "DC404", "DC501"})


class HostPlan(NamedTuple):
    """Which host of which job this is."""

    nnodes: int
    nproc: int
    node_rank: int | None
    address: str
    port: int
    #: where the membership check takes place
    roll_port: int
    #: ``static`` (with node ranks) or ``c10d``
    rendezvous: str

    @classmethod
    def of(
        cls,
        *,
        nnodes: int,
        nproc: int,
        node_rank: int | None,
        master_addr: str | None,
        master_port: int | None,
        rdzv_endpoint: str | None,
        roll_port: int | None,
    ) -> HostPlan:
        """Return the rendezvous of the options; raises ValueError if it is not given."""
        if rdzv_endpoint is not None:
            host, port = split_endpoint(rdzv_endpoint)
            if not host:
                raise ValueError(f"--rdzv-endpoint {rdzv_endpoint!r} names no host; expected HOST or HOST:PORT")
            if port and not port.isdigit():
                raise ValueError(
                    f"--rdzv-endpoint {rdzv_endpoint!r} has no number for a port; expected HOST or HOST:PORT"
                )
            number = int(port) if port else _C10D_PORT
            return cls(nnodes, nproc, node_rank, host, number, roll_port or number + 1, "c10d")
        if master_addr is None:
            raise ValueError(
                f"--nnodes {nnodes} needs a rendezvous: give --master-addr FIRST_HOST and --node-rank, or "
                "--rdzv-endpoint FIRST_HOST"
            )
        if node_rank is None:
            raise ValueError("--master-addr needs --node-rank, from 0 on the first host; or use --rdzv-endpoint")
        if node_rank >= nnodes:
            raise ValueError(f"--node-rank {node_rank} is not below --nnodes {nnodes}; node ranks count from 0")
        number = master_port or DEFAULT_PORT
        return cls(nnodes, nproc, node_rank, master_addr, number, roll_port or number + 1, "static")


def call(
    plan: HostPlan,
    *,
    name: str,
    inspected: Report,
    timeout_s: float,
    job: str = "",
    token: str = "",
    progress: Callable[[int, int, str], None] | None = None,
) -> MembershipAnswer:
    """Check the membership of all hosts, and send the codes of what is wrong here; raises MembershipError.

    :param job: the scheduler's number of the job: hosts of another one are refused
    :param token: what only the hosts of this run know; "" without one
    """
    codes = sorted({finding.code for finding in inspected.at_least(Severity.ERROR)})
    return call_roll(
        host_count=plan.nnodes,
        node_rank=plan.node_rank,
        address=plan.address,
        port=plan.roll_port,
        timeout_s=timeout_s,
        name=name,
        payload=json.dumps({"errors": codes}),
        nproc=plan.nproc,
        key=f"{plan.rendezvous}:{plan.port}:{job}" + (f":{token}" if token else ""),
        progress=progress,
    )


def troubled(answer: MembershipAnswer) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the hosts whose own checks found errors, with the codes."""
    found = []
    for caller in answer.callers:
        try:
            codes = json.loads(caller.payload or "{}").get("errors", [])
        except (ValueError, AttributeError, RecursionError):
            continue
        if codes and isinstance(codes, list):
            found.append((caller.host, tuple(str(code)[:16] for code in codes[:16])))
    return tuple(found)


def unanswered(plan: HostPlan, name: str, error: MembershipError) -> MembershipAnswer:
    """Return the answer of a host that should run the membership check and cannot listen."""
    return MembershipAnswer(None, problems=(error.problem,), host=name, node_rank=plan.node_rank)


def report_of_hosts(answer: MembershipAnswer, inspected: Report, plan: HostPlan, ask: Request) -> Report | None:
    """Why the ranks are not started; None where they are to be."""
    failing = troubled(answer)
    if answer.complete and (ask.go_on or not failing):
        return None
    modules = ("distcheck.checks.cluster.membership", "distcheck.checks.cluster.identity")
    checker = Checker(ask.selection, modules=modules, plug_ins=False)
    roll = NotApplicable("the membership could not be checked from here") if answer.roll is None else answer.roll
    facts: dict[type, object] = {
        MembershipAnswer: answer,
        Roll: roll,
        Cluster: NotApplicable("no rank was started"),
    }
    report = checker.plan(*facts, command="collective", closed=True).run(facts=facts)
    elsewhere = [(host, codes) for host, codes in failing if host != answer.host]
    unsaid = [NotChecked("the ranks", "none was started, since not all hosts are here")]
    if answer.complete:
        named = "; ".join(f"{host}: {', '.join(codes)}" for host, codes in elsewhere[:8])
        more = f" and {len(elsewhere) - 8} more hosts" if len(elsewhere) > 8 else ""
        where = f"other hosts found errors, which they print themselves: {named}{more}" if elsewhere else "errors here"
        unsaid = [NotChecked("the ranks", f"none was started: {where}; --continue starts them all the same")]
    # the host that ran the check reports better why the first host could not be reached
    not_reached = any(finding.code in _NOT_REACHED for finding in report.findings)
    own = [finding for finding in inspected.findings if not not_reached or finding.code not in _NOT_REACHED]
    present = 0 if answer.roll is None else answer.roll.present
    subject = dict(inspected.subject)
    subject["line"] = [f"{present} of {plan.nnodes} hosts", *subject.get("line", ())]
    return report._replace(
        stage="planned",
        subject=subject,
        findings=merge_findings((*report.findings, *own)),
        not_checked=merge_not_checked((*report.not_checked, *inspected.not_checked, *unsaid)),
        probes=(*inspected.probes, *report.probes),
        elapsed_s=inspected.elapsed_s + (0.0 if answer.roll is None else answer.roll.waited_s),
        checked=report.checked | inspected.checked,
        facts=inspected.facts,
    )


def start(plan: HostPlan, entry: Callable[..., int], arguments: tuple[Any, ...], timeout_s: float) -> int:
    """Let torchrun's agent start the ranks of this host, forked from this process; the worst of their statuses.

    :param entry: what each rank runs; its status is its value, so that torchrun's 1 for everything does not hide it
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    import logging

    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # what torchrun prints about its own exits is in the report
    logging.disable(logging.CRITICAL)
    static = plan.rendezvous == "static"
    configs: dict[str, Any] = {"rank": plan.node_rank, "timeout": int(timeout_s)} if static else {}
    if not static:
        configs = {"join_timeout": int(timeout_s), "last_call_timeout": 1, "read_timeout": int(timeout_s)}
    # to bind ranks to NUMA nodes by itself, torch 2.13 starts CUDA here, and no fork of this process could use it then
    unbound: dict[str, Any] = {"numa_options": object()} if hasattr(LaunchConfig, "numa_options") else {}
    config = LaunchConfig(
        **unbound,
        min_nodes=plan.nnodes,
        max_nodes=plan.nnodes,
        nproc_per_node=plan.nproc,
        run_id="distcheck",
        rdzv_backend=plan.rendezvous,
        rdzv_endpoint=f"[{plan.address}]:{plan.port}" if ":" in plan.address else f"{plan.address}:{plan.port}",
        rdzv_configs=configs,
        max_restarts=0,
        monitor_interval=0.05,
        start_method="fork" if hasattr(os, "fork") else "spawn",
        # the ranks write to this terminal: no folder for their logs is made
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
    )
    if unbound:
        config.numa_options = None
    receiver, sender = os.pipe() if config.start_method == "fork" else (None, None)
    returned = threading.Event()
    if receiver is not None:
        ended = partial(_end_without_the_others, receiver, plan.nproc, returned)
        threading.Thread(target=ended, daemon=True).start()
    try:
        statuses: dict[int, int] = elastic_launch(config, _entry)(sender, entry, *arguments)
    except ChildFailedError as error:
        ends = ", ".join(f"rank {rank}: exit status {failure.exitcode}" for rank, failure in error.failures.items())
        raise StartError(f"ranks of this host ended without a verdict ({ends})") from None
    except SignalException as ended:
        return 128 + int(ended.sigval)
    except (RendezvousError, DistError) as error:
        raise StartError(first_line(error)) from None
    finally:
        returned.set()
    return max(statuses.values(), default=1)


def _entry(sender: int | None, entry: Callable[..., int], *arguments: Any) -> int:
    """Run a rank: its status goes to the agent, and also to this host's own process."""
    # the agent's store was inherited, but not its thread, for which a destructor would wait
    gc.freeze()
    status = entry(*arguments)
    if sender is not None:
        os.write(sender, bytes([min(status, 255)]))
    return status


def _end_without_the_others(receiver: int, count: int, returned: threading.Event) -> None:
    """End this process once its ranks have, where the agent still waits for those of a host that can't be reached.

    torch 2.13's agents wait for each other for 300 s at their end, and no option changes that.
    """
    statuses = b""
    while len(statuses) < count:
        part = os.read(receiver, count)
        if not part:
            return
        statuses += part
    if returned.wait(_AGENTS_PART_WITHIN_S if max(statuses) == 0 else _FAILED_PART_WITHIN_S):
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(max(statuses))


class StartError(Exception):
    """torchrun's agents failed at their rendezvous although the hosts did not, or their ranks ended early."""


def report_of_start(plan: HostPlan, inspected: Report, error: StartError) -> Report:
    """The report of a host whose ranks did not come to a verdict."""
    finding = rules.DC501.found(
        f"all {plan.nnodes} hosts joined, but then: {error}",
        where=Where(host=str(inspected.subject.get("host") or "") or None, phase="start"),
        evidence={"nnodes": plan.nnodes, "nproc": plan.nproc, "rendezvous": plan.rendezvous, "port": plan.port},
        fix=Fix(
            f"see that port {plan.port} of {plan.address} is free and open to all hosts, and what the others print",
            where="host",
        ),
    )
    return inspected._replace(
        command="collective",
        findings=merge_findings((finding, *inspected.findings)),
        not_checked=merge_not_checked((*inspected.not_checked, NotChecked("the ranks", "they came to no verdict"))),
    )
