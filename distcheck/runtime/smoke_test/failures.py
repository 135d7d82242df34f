"""Why the smoke test did not complete: which ranks did not arrive, exited or raised, and the fix.

All functions are pure: they judge a ``Failure``, which ``coordination/root_cause.py`` composes from the states of all
ranks. One failure makes one finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.checks.cluster.hostlist import place_hosts, place_ranks, shorten_hosts
from distcheck.checks.cluster.records import Cluster
from distcheck.core.model import Finding, Fix, Rule, Unavailable, Where
from distcheck.core.registry import probe
from distcheck.runtime.coordination.locations import few_rank_names
from distcheck.runtime.coordination.model import Failure, RankState
from distcheck.runtime.coordination.root_cause import reports_lost_peer

#: Ranges of ranks that are named before they are counted.
_RANGES = 4
#: Characters of an exception that a sentence takes, and that the evidence takes.
_IN_SENTENCE = 200
_IN_EVIDENCE = 2000
#: Phases in which all ranks announce the same steps; elsewhere each has partners of its own.
_SAME_STEPS = frozenset({"start", "verify", "measure"})
#: Lines of a stack that the evidence takes: the innermost calls.
_STACK_LINES = 12

#: What torch, gloo and NCCL print when ranks call different things (torch 2.13 as run; NCCL as in its sources).
_MISMATCH = re.compile(
    r"Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes|Mismatched collective detected"
    r"|message truncated ?:|collective mismatch error",
    re.IGNORECASE,
)
_FINGERPRINT = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\(.*?OpType=(\w+)(?:.*?TensorShape=\[([\d, ]*)\])?"
    r"(?:.*?TensorDtypes=(\w+))?"
)
#: A call in a traceback (innermost last), and in what ``supervisor.main_stack`` makes of faulthandler's text (first).
_TRACED = re.compile(r'File "([^"]+)", line (\d+),? in ([\w<>.]+)')
_STACKED = re.compile(r"^(\S+):(\d+) in ([\w<>.]+)$", re.MULTILINE)


class _KnownError(NamedTuple):
    """An error whose text suggests what to do."""

    pattern: str
    #: what it means, to be read after the text of the exception
    meaning: str
    fix: Fix


def _env(codes: str) -> str:
    return f"distcheck env --select {codes}"


#: Specific ones first: a class of NCCL's errors means least (facts E03, H13).
_KNOWN = (
    _KnownError(
        r"Duplicate GPU detected|Multiple Ranks are using the same GPU",
        "two ranks use one GPU",
        Fix(
            "give each rank a GPU of its own: cuda:LOCAL_RANK, as many ranks on a host as it has GPUs",
            where="launch-line",
        ),
    ),
    _KnownError(
        r"Mismatched NCCL version|NCCL version mismatch",
        "the hosts have different versions of NCCL",
        Fix("install the same torch on all hosts, in one environment that all share", where="each-task"),
    ),
    _KnownError(
        r"posix_fallocate|creating shared memory segment|failed to extend /dev/shm|No space left on device",
        "a file system is full, most often /dev/shm",
        Fix("see what has no room on the host that is named", command=_env("DC320,DC327"), where="host"),
    ),
    _KnownError(
        r"Too many open files|Errno 24",
        "the limit of open files is reached",
        Fix(
            "raise the soft limit in the job script, before the launch: ulimit -n 65536",
            where="job-script",
        ),
    ),
    _KnownError(
        r"ibv_(?:reg_mr|create_cq|create_qp|alloc_pd)\w* failed with error Cannot allocate memory",
        "the limit of locked memory is too low for RDMA",
        Fix("see the limit in the process that failed", command=_env("DC322"), where="host"),
    ),
    _KnownError(
        r"CUDA out of memory|out of memory",
        "the GPU has no memory left",
        Fix("see who uses the GPU, and end what is left over of your own runs", command="nvidia-smi", where="host"),
    ),
    _KnownError(
        r"uncorrectable ECC|fallen off the bus|unspecified launch failure|illegal memory access|NVLink error",
        "the GPU reports a fault",
        Fix(
            "exclude the host, and have an administrator check 'dmesg' for NVRM: Xid and run 'dcgmi diag -r 3'",
            by="admin",
            where="host",
        ),
    ),
    _KnownError(
        r"Invalid scalar type|FP8 reduction support begins|[Uu]nsupported data type|data type is not supported",
        "the backend, or this GPU, can't reduce this dtype",
        Fix("use a dtype that the backend knows, or cast before the collective and back after it", where="code"),
    ),
    _KnownError(
        r"Numpy is not available",
        "torch makes object collectives by way of NumPy, which it can't use here",
        Fix("install a NumPy that fits this torch on every host", where="each-task"),
    ),
    _KnownError(
        r"Unable to find address for|ifa != nullptr",
        "GLOO_SOCKET_IFNAME names an interface that this host does not have",
        Fix("name an interface that every host has, by its exact name", command=_env("DC407"), where="host"),
    ),
    _KnownError(
        r"EADDRINUSE|[Aa]ddress already in use",
        "a port is taken",
        Fix("see who holds it, and take another one for all ranks", command=_env("DC401"), where="host"),
    ),
    _KnownError(
        r"Distributed package doesn't have|only supported with GPUs, no GPUs found|Unknown (?:c10d )?backend type",
        "the installed torch lacks the backend",
        Fix("install a torch with this backend, or use --backend gloo", where="each-task"),
    ),
    _KnownError(
        r"insufficient driver|driver version is insufficient|no kernel image is available",
        "the driver or the GPU does not fit this torch",
        Fix("see which of them does not fit", command=_env("DC304,DC335"), where="host"),
    ),
    _KnownError(
        r"ncclInvalidUsage|invalid usage",
        "NCCL got an invalid request: two ranks on one GPU, or an interface that does not exist",
        Fix(
            "check GPUs and interfaces of the ranks: run once with NCCL_DEBUG=WARN in the launch line, and read "
            "the line above the error",
            where="launch-line",
        ),
    ),
    _KnownError(
        r"ncclSystemError|unhandled system error|ncclSystem",
        "a call to the operating system failed inside of NCCL: /dev/shm, a socket, locked memory",
        Fix(
            "see what the host lacks; one run with NCCL_DEBUG=WARN in the launch line names the call",
            command=_env("DC320,DC321,DC322,DC406"),
            where="host",
        ),
    ),
    _KnownError(
        r"ncclUnhandledCudaError|unhandled cuda error",
        "a call to CUDA failed inside of NCCL: the driver, another process on the GPU, or the GPU itself",
        Fix(
            "see what is wrong with driver and GPU; one run with NCCL_DEBUG=WARN in the launch line names the call",
            command=_env("DC304,DC305,DC307,DC309,DC331,DC333"),
            where="host",
        ),
    ),
    _KnownError(
        r"ncclInternalError|internal error",
        "a class of errors of NCCL that names no cause",
        Fix(
            "make one run with NCCL_DEBUG=WARN in the launch line: the line above the error names the cause",
            where="launch-line",
        ),
    ),
)  # fmt: skip

#: What the end of a process means.
_SIGNALS = {
    "SIGKILL": (
        "on Linux most often because the memory of the host, the container or the job was used up",
        Fix(
            "search for 'Out of memory' or 'oom-kill' in 'dmesg -T' and in the scheduler's records of the job, "
            "and check how much memory is free",
            command=_env("DC323"),
            where="host",
        ),
    ),
    "SIGSEGV": (
        "native code crashed: a library of another version, a plug-in, or the driver",
        Fix(
            "see which NCCL, CUDA and network plug-in are found there; PYTHONFAULTHANDLER=1 in the launch line prints "
            "the Python stack of the crash",
            command=_env("DC331,DC333,DC334"),
            where="host",
        ),
    ),
    "SIGBUS": (
        "shared memory had no room for what was written to it",
        Fix("see how much room /dev/shm has", command=_env("DC320"), where="host"),
    ),
    "SIGABRT": (
        "C++ code gave up: gloo does so when sizes or dtypes differ between ranks, and so does a process that ends "
        "with a living group",
        Fix(
            "read what stands on its standard error after 'terminate called'; for a script of your own, 'torchrun … "
            "-m distcheck.watch train.py' compares what the ranks call",
            where="launch-line",
        ),
    ),
    "SIGILL": (
        "a library was built for another processor",
        Fix("install builds of torch and its libraries that run on this host's processor", where="host"),
    ),
}
_FROM_OUTSIDE = (
    "it was ended: by a scheduler at its time limit or for another job, a launcher after another failure, a user",
    Fix(
        "check the scheduler's records of the job (time limit, preemption, a node that went down), and what the "
        "launcher printed before",
        where="host",
    ),
)


@probe(rules.DC511)
def every_rank_arrives(failure: Failure, cluster: Cluster | Unavailable) -> Iterator[Finding]:
    """Every rank came to every collective in time, and each of them ended."""
    if _rule_of(failure) is not rules.DC511:
        return
    case = _FailureText(failure, cluster)
    stopped = case.first("stopped")
    blocked = case.first("blocked")
    if failure.kind == "stopped" or stopped is not None:
        process = f"'kill -CONT {stopped.pid}'" if stopped is not None and stopped.pid else "'kill -CONT PID'"
        yield case.found(
            rules.DC511,
            f"{case.failed} {case.are} stopped (SIGSTOP) at {case.step_of(stopped)}{case.waiting()}",
            Fix(
                "see who stops processes there: Ctrl-Z in a terminal, a debugger, the scheduler ('scontrol suspend'), "
                f"a frozen container or cgroup; {process} there lets one go on as long as it is there",
                where="host",
            ),
        )
    elif blocked is not None:
        yield case.found(
            rules.DC511,
            f"{case.failed} {case.are} blocked in the kernel (state D) and did not come to {case.step}{case.limit}"
            f"{case.waiting()}",
            Fix(
                f"have an administrator read /proc/{blocked.pid or 'PID'}/stack and 'dmesg -T' there: a file system "
                "that does not answer (NFS, Lustre), a disk, or the GPU's driver (Xid)",
                by="admin",
                where="host",
            ),
        )
    elif failure.culprits:
        state = case.known[0] if case.known else None
        yield case.found(
            rules.DC511,
            f"{case.failed} did not come to {case.step}{case.limit}{_position_text(state, failure)}{case.waiting()}",
            _fix_late(state, failure),
        )
    else:
        yield case.found(
            rules.DC511, f"{case.step} did not end{case.limit}, though no rank is missing{case.waiting()}",
            _fix_stuck(failure, case),
        )  # fmt: skip


@probe(rules.DC512)
def no_collective_fails(failure: Failure, cluster: Cluster | Unavailable) -> Iterator[Finding]:
    """No rank died, and no collective raised."""
    if _rule_of(failure) is not rules.DC512:
        return
    case = _FailureText(failure, cluster)
    if failure.kind == "ended":
        name = _signal_in(failure.error) or failure.error or "a signal"
        meaning, fix = _FROM_OUTSIDE
        yield case.found(
            rules.DC512, f"the run was ended by {name} in the phase {failure.phase}, at {case.step}: {meaning}", fix
        )
    elif failure.kind == "raised" and not failure.culprits:
        yield case.found(
            rules.DC512,
            f"{case.step} failed because the ranks lost each other, and none of them died: {_line(failure.error)}",
            _fix_lost(case),
        )
    elif failure.kind == "raised":
        known = explain(failure.error)
        meaning = "" if known is None else f"; {known.meaning}"
        if known is not None:
            fix = known.fix
        elif reports_lost_peer(failure.error):
            meaning, fix = "; it lost another rank, of which nothing is known", _fix_lost(case)
        else:
            fix = Fix(
                "read the exception's stack in the evidence of the JSON report. If it comes from a collective, "
                "run again with TORCH_DISTRIBUTED_DEBUG=INFO in the launch line",
                where="launch-line",
            )
        yield case.found(
            rules.DC512,
            f"{case.step_of(case.first('raised'))} failed on {case.failed}: {_line(failure.error)}{meaning}",
            fix,
        )
    else:
        yield _death(case)


@probe(rules.DC517)
def ranks_call_the_same(failure: Failure, cluster: Cluster | Unavailable) -> Iterator[Finding]:
    """All ranks call the same collectives, with equal sizes and dtypes, in the same order."""
    if _rule_of(failure) is not rules.DC517:
        return
    case = _FailureText(failure, cluster)
    different = _different_steps(failure)
    if different:
        one, other = different
        shown = f"rank {one.rank}{_on(one)} is at {one.step}, rank {other.rank}{_on(other)} at {other.step}"
    else:
        shown = _fingerprints(failure.error) or _line(failure.error)
    yield case.found(
        rules.DC517,
        f"ranks call different collectives in the phase {failure.phase}: {shown}",
        Fix(
            "start the same distcheck with the same options on every rank; if that is so, something wraps the process "
            "group or its collectives on some ranks: run once without it. In your own code, make every rank call the "
            "same collectives in the same order with equal shapes and dtypes; 'torchrun … -m distcheck.watch train.py' "
            "names the first that differ",
            where="launch-line",
        ),
    )


@probe(rules.DC501)
def every_rank_is_heard_of(failure: Failure, cluster: Cluster | Unavailable) -> Iterator[Finding]:
    """Every rank that had come was heard of until the end."""
    if _rule_of(failure) is not rules.DC501:
        return
    case = _FailureText(failure, cluster)
    why = f": {_line(failure.error)}" if failure.error else ""
    if failure.culprits:
        yield case.found(
            rules.DC501,
            f"{case.failed} came, and gave no word any more in the phase {failure.phase}{why}",
            Fix(
                "check that the host is up and in the network, and its records in the system log and the "
                "scheduler for that time. Then exclude it from the next run: do the others work without it?",
                where="host",
            ),
        )
    elif failure.phase == "membership":
        yield case.found(
            rules.DC501,
            f"the others were not found in the phase membership{why}",
            Fix(
                "see that rank 0 was started, that all ranks have the same MASTER_ADDR and MASTER_PORT, and that the "
                "port is open between the hosts",
                command=_env("DC401,DC403,DC404,DC419"),
                where="host",
            ),
        )
    else:
        yield case.found(
            rules.DC501,
            f"{case.here} lost the way to the other ranks in the phase {failure.phase}{why}",
            Fix(
                "see what became of rank 0's host, through which the ranks talk, and of the network between it and "
                "this one at that time",
                where="host",
            ),
        )


def explain(error: str) -> _KnownError | None:
    """What is known about the text of an exception."""
    return next((known for known in _KNOWN if re.search(known.pattern, error)), None)


def _rule_of(failure: Failure) -> Rule:
    """Each failure belongs to one rule."""
    if _MISMATCH.search(failure.error) or _different_steps(failure):
        return rules.DC517
    if failure.kind in ("timeout", "stopped"):
        return rules.DC511
    return rules.DC501 if failure.kind == "lost" else rules.DC512


class _FailureText:
    """A failure in words: who, where, and for how long."""

    def __init__(self, failure: Failure, cluster: Cluster | Unavailable) -> None:
        self.failure = failure
        self.cluster = cluster
        named = set(failure.culprits)
        self.known = [state for state in failure.states if state.rank in named]
        host_of = {state.rank: state.host for state in failure.states if state.host}
        if not isinstance(cluster, Unavailable) and not named <= host_of.keys():
            host_of |= {rank.rank: host.host for host in cluster.hosts for rank in host.ranks if rank.rank in named}
        # hosts are named only where those of all of them are known
        self.hosts = sorted({host_of[rank] for rank in named}) if named <= host_of.keys() else []
        self.step = failure.step or f"the phase {failure.phase}"
        self.limit = f" within {round(failure.limit_s, 1):g} s" if failure.limit_s and failure.kind == "timeout" else ""
        self.are = "are" if len(named) > 1 else "is"
        on = f" on {shorten_hosts(self.hosts)}" if self.hosts else ""
        self.failed = f"{few_rank_names(failure.culprits) if failure.culprits else 'no rank'}{on}"
        here = sorted({state.host for state in failure.states if state.host})
        self.here = shorten_hosts(here) if here else "this host"

    def first(self, state: str) -> RankState | None:
        """Return the first failed rank that is in a state."""
        return next((item for item in self.known if item.state == state), None)

    def step_of(self, state: RankState | None) -> str:
        """Return the step of the failed rank, or else where the others wait."""
        return state.step if state is not None and state.step else self.step

    def waiting(self) -> str:
        """Return ``; 7 ranks wait``, or nothing if no rank waits."""
        count = len(self.failure.waiting)
        if not count:
            return ""
        return f"; {few_rank_names(self.failure.waiting)} wait{'s' * (count == 1)}"

    def found(self, rule: Rule, message: str, fix: Fix) -> Finding:
        """Return the finding, with its location and its evidence."""
        failure = self.failure
        one = len(failure.culprits) == 1
        return rule.found(
            message.rstrip(". "),
            where=Where(
                host=place_hosts(self.hosts) if self.hosts else None,
                rank=failure.culprits[0] if one else None,
                ranks=None if one else place_ranks(failure.culprits),
                phase=failure.phase,
            ),
            evidence={
                "kind": failure.kind,
                "step": failure.step,
                "culprits": len(failure.culprits),
                "waiting": len(failure.waiting),
                "error": failure.error[:_IN_EVIDENCE],
                "limit_s": failure.limit_s,
                "elapsed_s": failure.elapsed_s,
                "states": [_plain(state) for state in failure.states[:_RANGES]],
            },
            fix=fix,
        )


def _death(case: _FailureText) -> Finding:
    """A rank's process has ended."""
    state = case.known[0] if case.known else None
    detail = (state.detail if state is not None else "") or case.failure.error
    name = _signal_in(detail)
    status = re.search(r"status (\d+)", detail)
    if name is not None:
        how = f"{'were' if case.are == 'are' else 'was'} killed by {name}"
        meaning, fix = _SIGNALS.get(name, _FROM_OUTSIDE)
    elif status is not None:
        how = f"exited with status {status[1]}"
        meaning = "its process ended by itself"
        fix = Fix(
            "read what it wrote last on its standard error; something in its environment ends it (a sitecustomize, a "
            "wrapper around the ranks, a library)",
            where="host",
        )
    else:
        how = f"died ({_line(detail)})" if detail else "died"
        meaning, fix = _FROM_OUTSIDE
    return case.found(rules.DC512, f"{case.failed} {how} at {case.step_of(state)}: {meaning}{case.waiting()}", fix)


def _position_text(state: RankState | None, failure: Failure) -> str:
    """Where a rank is that did not come."""
    if state is None:
        return ""
    who = "it" if len(failure.culprits) == 1 else f"rank {state.rank}"
    frame = _frame(state.stack)
    since = f" for {state.seconds_in_step:.0f} s" if state.seconds_in_step >= 1 else ""
    if state.step and state.step != failure.step:
        return f": {who} has been at {state.step}{since}" + (f", in {frame}" if frame else "")
    return f": {who} has been in {frame}{since}" if frame else ""


def _fix_late(state: RankState | None, failure: Failure) -> Fix:
    """For a rank that runs, and does not come."""
    if state is not None and state.step != failure.step and _in_torch(state.stack):
        return Fix(
            "the others completed a collective in which it still waits: check the links from them to it. "
            "'distcheck collective --pairs' measures each link by itself",
            where="launch-line",
        )
    return Fix(
        "find the cause in the stack of the JSON report and with 'top' on that host. It may be a file system or a "
        "device that does not answer, or too little CPU time",
        where="host",
    )


def _fix_stuck(failure: Failure, case: _FailureText) -> Fix:
    """All have arrived, and nothing moves: the way between them."""
    cluster = case.cluster
    backend = None if isinstance(cluster, Unavailable) else cluster.backend
    several = not isinstance(cluster, Unavailable) and len(cluster.hosts) > 1
    if failure.phase in ("membership", "compare"):
        return Fix(
            "see that every host reaches rank 0's host on MASTER_PORT for the whole time",
            command=_env("DC403"),
            where="host",
        )
    if backend == "nccl" and not several:
        return Fix(
            "make one run with NCCL_P2P_DISABLE=1: if it ends, the way from GPU to GPU over PCIe is broken (IOMMU, "
            "ACS; DC336); take the variable out again. NCCL_DEBUG=INFO in the launch line of one run shows the ways",
            where="launch-line",
        )
    if backend == "nccl":
        return Fix(
            "make one run with NCCL_DEBUG=INFO in the launch line, and see which interface or RDMA device each host "
            "takes; 'distcheck collective --pairs' finds the pair of hosts that does not get through",
            where="launch-line",
        )
    return Fix(
        "see which interface each host takes and whether a firewall lets its connections through; "
        "'distcheck collective --pairs' finds the pair that does not get through",
        where="launch-line",
    )


def _fix_lost(case: _FailureText) -> Fix:
    several = isinstance(case.cluster, Unavailable) or len(case.cluster.hosts) > 1
    if not several:
        return Fix(
            "check the host's system log for that time: a firewall that was reloaded, or an interface that went "
            "down, cuts connections within one host",
            where="host",
        )
    return Fix(
        "check the network between the hosts at that time: an interface or a switch that went down, or a firewall "
        "that drops idle connections. Run 'distcheck collective --pairs' to test each link by itself",
        where="host",
    )


def _different_steps(failure: Failure) -> tuple[RankState, RankState] | None:
    """Two ranks that began equally many steps, and are in different collectives."""
    if failure.kind != "timeout" or failure.phase not in _SAME_STEPS:
        return None
    states = [item for item in failure.states if item.steps and item.step and item.step != item.phase]
    for state in states[1:]:
        first = states[0]
        if (state.phase, state.steps) == (first.phase, first.steps) and state.step != first.step:
            return first, state
    return None


def _fingerprints(error: str) -> str:
    """Return in few words what torch's DETAIL mode reports of two ranks."""
    found = _FINGERPRINT.findall(error)
    if len(found) < 2:
        return ""
    texts = [
        f"rank {rank} calls {operation}" + (f" of shape [{shape}]" if shape else "") + (f" {dtype}" if dtype else "")
        for rank, operation, shape, dtype in found[:2]
    ]
    return ", ".join(texts)


def _innermost(stack: str) -> tuple[str, str, str] | None:
    """The call in which a rank is: file, line, function."""
    traced = _TRACED.findall(stack)
    if traced:
        return (traced[-1][0], traced[-1][1], traced[-1][2])
    stacked = _STACKED.search(stack)
    return None if stacked is None else (stacked[1], stacked[2], stacked[3])


def _in_torch(stack: str) -> bool:
    """Whether a rank is in a call of torch: in a collective it waits as the others do."""
    call = _innermost(stack)
    return call is not None and "torch/" in call[0]


def _frame(stack: str) -> str:
    """Where a rank is outside of torch: ``data/load.py:12 (read)``; "" inside of it, or where it is not known."""
    call = _innermost(stack)
    if call is None or _in_torch(stack):
        return ""
    return f"{'/'.join(call[0].split('/')[-2:])}:{call[1]} ({call[2]})"


def _signal_in(text: str) -> str | None:
    found = re.search(r"\bSIG[A-Z]+\b", text)
    return found[0] if found else None


def _line(error: str) -> str:
    """An exception in one line: its first, and what NCCL calls its last error."""
    text = error.removeprefix("CollectiveFailed: ").strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no text")
    last = re.search(r"Last error:\s*(\S[^\n]*)", text)
    if last is not None and last[1] not in first:
        return f"{first[: _IN_SENTENCE // 2]} … {last[1][: _IN_SENTENCE // 2]}".rstrip(". ")
    return (first if len(first) <= _IN_SENTENCE else f"{first[:_IN_SENTENCE]}…").rstrip(". ")


def _plain(state: RankState) -> dict[str, Any]:
    lines = state.stack.strip().splitlines()
    stack = lines[-_STACK_LINES:] if _TRACED.search(state.stack) else lines[:_STACK_LINES]
    return {**state._asdict(), "stack": stack, "recorder": list(state.recorder)}


def _on(state: RankState) -> str:
    return f" on {state.host}" if state.host else ""
