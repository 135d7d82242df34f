"""Collectives that hang or don't match: which ranks wait where, which did not join, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Fix, Rule, Severity, rank_names
from distcheck.rules import shared_fixes
from distcheck.rules.signatures import Kind

from .clock import of_bar
from .context import (
    came_through,
    each_line_once,
    failed_elsewhere,
    hosts_of,
    is_loopback,
    is_of_launcher,
    same_writer,
)
from .launcher import keep_each_log
from .log_probe import LogFinding, SignatureRow, log_probe, register_rows, signature_probe
from .model import ENDED_BY_SIGTERM, MOST_RANKS, Event, LineAuthor, Timeline
from .pickling import LIST_OF_ALL
from .waiting_ranks import (
    BACKWARD,
    LastCollective,
    WaitingRank,
    called_in,
    describe_waits,
    differ,
    dump_histories,
    dump_waits,
    first_difference,
    gloo_waits,
    lost_in_collectives,
    odd_one,
    place_of,
    rank_of,
    watchdog_waits,
)

#: Numbers of collectives up to which it may be the barrier before the training begins.
_EARLY = 10
_LONELY = ("BARRIER", "BROADCAST", "ALLREDUCE", "_ALLGATHER_BASE", "ALLGATHER")
#: Exit codes of ranks that were ended by others, or by their own watchdog.
_OF_OTHERS = (None, 0, -6, *ENDED_BY_SIGTERM)
_LAST_ERROR = re.compile(r"Last error:\s*(?P<text>[^\n]{1,200})")
#: The waits at the store that are long enough for work, in milliseconds; and how near to their end it must stand.
_LONG_MS = 60_000
_RIGHT_BEFORE = 5
_KEY = re.compile(r"torchelastic|terminal_state|exit.?barrier|/agent/")


class HangVerdict(NamedTuple):
    """The conclusion from the waits of all ranks."""

    rule: Rule
    message: str
    fix: Fix
    #: the failed rank; -1: none, or unknown
    rank: int
    role: str = "cause"


_OTHER_BRANCH = Fix(
    "find the collective that only some ranks reach, and call it on all ranks. Common causes: 'if rank == 0', an "
    "early return, an except, a loop of another length. Run 'distcheck lint' to find most of "
    "them. In the next run '-m distcheck.watch' before the script in torchrun's command names the lines",
    command="distcheck lint --select DC701,DC702,DC703,DC707 .",
    where="code",
)
_LEAVE_TOGETHER = Fix(
    "find where that rank ends earlier: an early return, an exit, a shorter loop. Let all ranks leave together, or "
    "move the collective above it. 'distcheck lint' finds most of them; in the next run '-m distcheck.watch' before "
    "the script in torchrun's command names the lines",
    command="distcheck lint --select DC519,DC701,DC702,DC703,DC707 .",
    where="code",
)
_MAKE_EQUAL = Fix(
    "make every rank call the same collectives in the same order with equal shapes and dtypes: pad, or gather the "
    "sizes first; '-m distcheck.watch' before the script in torchrun's command names the first that differ",
    where="code",
)
_EVEN_INPUTS = Fix(
    "give all ranks the same number of batches: DistributedSampler with drop_last=True, or agree on the number of "
    "steps (all_reduce of the length with ReduceOp.MIN), or 'with Join([ddp]):' around the loop",
    command="distcheck lint --select DC519 .",
    where="code",
)
_RANK_ZERO = Fix(
    "do that work before the job, in a script of its own; or give the group the time that it needs: "
    "init_process_group(…, timeout=timedelta(hours=2))",
    where="code",
)
_STACK = Fix(
    "inspect that rank while it hangs: 'py-spy dump --pid PID' on its host, 'dmesg -T' for its GPU. Search its "
    "code for work longer than the timeout, a collective that it does not call (DC701), and fewer batches "
    "than the others have (DC519)",
    where="host",
)


@log_probe(rules.DC511, rules.DC517, rules.DC519, rules.DC701, rules.DC726)
def collectives_end(timeline: Timeline) -> Iterator[LogFinding]:
    """No rank waited in a collective until its time was over.

    All ranks in the same one: the way between them, or the only rank that is not there. Different ones: another branch,
    another size, or fewer batches. A rank that failed before is the reason for it all.
    """
    waits, behind, events = _who_waits(timeline)
    if not events:
        return
    verdict = _consequence(timeline, waits, events) or _judge(timeline, waits, behind)
    yield LogFinding(
        events,
        verdict.message,
        verdict.fix,
        role=verdict.role,
        rank=verdict.rank,
        evidence={"waiting": [wait.rank for wait in waits][:64], "behind": [item.rank for item in behind][:64]},
        rule=verdict.rule,
    )


def _who_waits(timeline: Timeline) -> tuple[list[WaitingRank], list[LastCollective], list[Event]]:
    """Return the waits, the last collectives of ranks behind them, and the lines that show both."""
    waits, behind = watchdog_waits(timeline)
    if not waits and timeline.has("monitored-barrier"):
        return [], [], []
    if not waits:
        waits = gloo_waits(timeline)
    if not waits:
        unnumbered = timeline.of("watchdog-timeout", "gloo-timeout", "watchdog-place") or _dumps_of_others(timeline)
        return [], [], list(unnumbered[:20])
    front = max((wait.sequence or 0 for wait in waits), default=0)
    behind = [item for item in behind if item.enqueued < front]
    known = [*(wait.event for wait in waits), *(standing.event for standing in behind)]
    events = [event for event in known if event is not None]
    return waits, behind, events


def _dumps_of_others(timeline: Timeline) -> list[Event]:
    """Return the lines of ranks that another rank informed of a collective that did not end."""
    return [event for event in timeline.of("watchdog-dump") if event.values.get("from")]


def _consequence(timeline: Timeline, waits: Sequence[WaitingRank], events: Sequence[Event]) -> HangVerdict | None:
    """Return the verdict if a rank that does not wait failed before, or None."""
    waiting = {wait.rank for wait in waits}
    family = {event.signature for event in timeline.events if event.kind >= Kind.TIMEOUT}
    earlier = failed_elsewhere(timeline, events, family | {"interrupted", "desync-behind"})
    rank = None if earlier is None else rank_of(earlier)
    if earlier is None or rank in waiting:
        dead = [
            worker.rank
            for worker in timeline.workers
            if worker.rank is not None
            and worker.rank not in waiting
            and worker.exitcode not in _OF_OTHERS
            and (worker.first or (worker.exitcode or 0) < 0)
        ]
        if not dead:
            return None
        rank = dead[0]
    who = f"rank {rank}" if rank is not None else "another process"
    return HangVerdict(
        rules.DC511,
        f"{_wait_text(waits)} because {who} failed before",
        Fix(f"fix the failure of {who}; the wait of the other ranks is a consequence", where="code"),
        -1 if rank is None else rank,
        "timeout",
    )


def _wait_text(waits: Sequence[WaitingRank]) -> str:
    return describe_waits(waits) if waits else "ranks wait in a collective"


def _judge(timeline: Timeline, waits: Sequence[WaitingRank], behind: Sequence[LastCollective]) -> HangVerdict:
    limit = next((f" until the time-out of {wait.timeout_s:g} s" for wait in waits if wait.timeout_s), "")
    busy = _busy_rank_zero(timeline, waits)
    if busy is not None:
        return HangVerdict(
            rules.DC726,
            f"{_wait_text(waits)}{limit}, and {_busy_text(busy)}: {_work_text(busy)}",
            _RANK_ZERO,
            0,
        )
    dumped = _judge_dumps(timeline)
    if dumped is not None:
        return dumped
    numbers = {wait.sequence for wait in waits}
    if len(numbers) > 1 and not _all_called_all(waits):
        return _different_numbers(timeline, waits, limit)
    if behind:
        return _left_behind(timeline, waits, behind, limit)
    if len(numbers) <= 1 and differ(waits):
        # gloo has no sequence numbers: another line of the code is another branch
        rule = rules.DC517 if numbers != {None} else rules.DC701
        fix = _MAKE_EQUAL if rule is rules.DC517 else _OTHER_BRANCH
        return HangVerdict(
            rule, f"ranks call different collectives: {describe_waits(waits)}{limit}", fix, odd_one(waits)
        )
    return _same_for_all(timeline, waits, limit)


def _busy_rank_zero(timeline: Timeline, waits: Sequence[WaitingRank]) -> Event | None:
    """Return rank 0's last line about work of its own while the others wait for it in a small collective, or None."""
    waiting = {wait.rank for wait in waits}
    if 0 in waiting or not waits:
        return None
    small = all(
        wait.operation == "BARRIER"
        or wait.sizes == "1 element"
        or ((wait.sequence or _EARLY + 1) <= _EARLY and wait.operation in _LONELY)
        or wait.sequence is None
        for wait in waits
    )
    if not small:
        return None
    works = [
        event
        for event in timeline.of("one-rank-works")
        if event.who.rank == 0 or (event.who.rank is None and event.who.local_rank in (None, 0))
    ]
    works = [event for event in works if _lasts_as_long(timeline, event, waits)]
    return max(works, key=lambda event: event.line) if works else None


#: The part of a time limit for which work must have lasted, and by how much a bar of other work may exceed it.
_MOST_OF_IT = 0.5
_BARELY_LONGER = 1.2


def _lasts_as_long(timeline: Timeline, work: Event, waits: Sequence[WaitingRank]) -> bool:
    """Whether work is unfinished and has lasted most of the wait, by its progress bar.

    Work without a bar counts if its process printed nothing more before the waits ended. After many collectives, a bar
    of more time than the wait is that of the training.
    """
    bar = of_bar(work.text)
    limit = max((wait.timeout_s or 0 for wait in waits), default=0)
    if bar is None:
        own = [voice for voice in timeline.rank_streams if voice.who == work.who and voice.source == work.source]
        first = min((wait.event.line for wait in waits if wait.event and wait.event.source == work.source), default=0)
        return not _is_glued(work) and not any(work.until < voice.last_line < first for voice in own)
    done, elapsed = bar
    early = all((wait.sequence or 0) <= _EARLY for wait in waits)
    return done != 100 and elapsed >= limit * _MOST_OF_IT and (early or elapsed <= limit * _BARELY_LONGER)


def _busy_text(work: Event) -> str:
    return f"{'another process' if work.who.rank is None else 'rank 0'} was still at work"


def _all_called_all(waits: Sequence[WaitingRank]) -> bool:
    """Whether every rank called every collective that any rank waits in. Then the branch is the same."""
    last = max(wait.sequence or 0 for wait in waits)
    return all(wait.enqueued is not None and wait.enqueued >= last for wait in waits)


def _different_numbers(timeline: Timeline, waits: Sequence[WaitingRank], limit: str) -> HangVerdict:
    by_number = sorted(waits, key=lambda wait: wait.sequence or 0)
    failed_rank = odd_one(waits)
    if failed_rank < 0:
        lowest = [wait.rank for wait in waits if wait.sequence == by_number[0].sequence]
        failed_rank = lowest[0] if len(lowest) == 1 else -1
    if len({(wait.operation, wait.sizes) for wait in waits}) == 1:
        return HangVerdict(
            rules.DC519,
            f"ranks are at different steps of the same loop: {describe_waits(by_number)}{limit}",
            _EVEN_INPUTS,
            failed_rank,
        )
    return HangVerdict(
        rules.DC701,
        f"ranks are at different lines of the program: {describe_waits(by_number)}{limit}",
        _OTHER_BRANCH,
        failed_rank,
    )


def _left_behind(
    timeline: Timeline, waits: Sequence[WaitingRank], behind: Sequence[LastCollective], limit: str
) -> HangVerdict:
    late = [item.rank for item in behind]
    last = sorted({item.enqueued for item in behind})
    at = f"#{last[0]}" if len(last) == 1 else f"#{last[0]} to #{last[-1]}"
    message = (
        f"{describe_waits(waits)}{limit}, and {rank_names(late)} never called it: the last that "
        f"{'it' if len(late) == 1 else 'they'} called is {at}"
    )
    waiting = [wait.rank for wait in waits]
    failed_rank = late[0] if len(late) == 1 else waiting[0] if len(waiting) == 1 else -1
    if _is_further(timeline, late, waiting):
        return HangVerdict(rules.DC519, message, _EVEN_INPUTS, failed_rank)
    return HangVerdict(rules.DC701, message, _OTHER_BRANCH, failed_rank)


def _is_further(timeline: Timeline, late: Sequence[int], waiting: Sequence[int]) -> bool:
    """Whether the ranks that call nothing more have ended more epochs than those that wait."""
    ended = [event.who.rank for event in timeline.of("epoch-ended")]
    return any(ended.count(rank) > max(map(ended.count, waiting), default=0) for rank in late)


def _same_for_all(timeline: Timeline, waits: Sequence[WaitingRank], limit: str) -> HangVerdict:
    """Return the verdict if all known ranks wait in one collective: a rank is missing, or the connection failed."""
    absent = _absent(timeline, waits)
    description = f"{_wait_text(waits)}{limit}"
    dumps = _dumps_of_others(timeline)
    if not waits and dumps:
        seen_by = sorted({int(event.values["from"]) for event in dumps})
        return HangVerdict(
            rules.DC511,
            f"{rank_names(seen_by)} saw first that a collective did not end, and had the other ranks write what "
            "they know; who did not come to it is not in this text",
            _fetch(timeline, seen_by),
            -1,
            "timeout",
        )
    first = any(wait.sequence == 1 for wait in waits)
    if absent and _is_further(timeline, absent, [wait.rank for wait in waits]):
        message = f"{description}, and {rank_names(absent)} had no batches left for it"
        return HangVerdict(rules.DC519, message, _EVEN_INPUTS, absent[0] if len(absent) == 1 else -1)
    if len(absent) == 1 and (timeline.world_size_known or len(waits) > 2):
        return HangVerdict(
            rules.DC511,
            f"{description}, and only rank {absent[0]} does not: it never came",
            _STACK,
            absent[0],
            "timeout",
        )
    if absent and waits:
        unheard_of = set(timeline.silent_ranks)
        silent = [rank for rank in absent if rank in unheard_of]
        unheard = f"; nothing of {rank_names(silent)} is in this text" if silent else ""
        return HangVerdict(
            rules.DC511,
            f"{description}; {rank_names(absent)} logged no such wait{unheard}",
            _connection_fix(timeline, first) if first else _fetch(timeline, absent),
            -1,
            "timeout",
        )
    never = ", the first collective: it never worked between them" if first else _none_missing_text(timeline, waits)
    return HangVerdict(rules.DC511, f"{description}{never}", _connection_fix(timeline, first), -1, "timeout")


def _none_missing_text(timeline: Timeline, waits: Sequence[WaitingRank]) -> str:
    """Return the clause about missing ranks if all known ranks wait. Only a known world size excludes them."""
    if not waits or _is_of_a_part(waits):
        return ""
    if timeline.world_size_known:
        return ", and no rank is missing"
    return "; how many ranks the job has is not in this text, so that others may be missing"


def _absent(timeline: Timeline, waits: Sequence[WaitingRank]) -> list[int]:
    """The ranks of the job that do not wait: all up to its size, or up to the highest number that is seen."""
    if timeline.world_size is None or _is_of_a_part(waits):
        return []
    return sorted(set(range(timeline.world_size)) - {wait.rank for wait in waits})


def _is_of_a_part(waits: Sequence[WaitingRank]) -> bool:
    """Whether they wait in a group that need not hold all ranks."""
    return any(
        wait.group and "default_pg" not in wait.group and wait.group not in ("0", "ID 0 PG GUID 0") for wait in waits
    )


def _fetch(timeline: Timeline, ranks: Sequence[int]) -> Fix:
    name, options = keep_each_log(timeline)
    return Fix(
        f"get the text of {rank_names(ranks)} as well ({name} {options} keeps each rank's); see "
        "whether they are alive and where, with 'py-spy dump --pid PID' on their hosts",
        command=options,
        where="launch-line",
    )


_GLOO_CONNECTION = Fix(
    "see where each rank is while it hangs ('py-spy dump --pid PID' on its host): gloo works on the CPU, over TCP. "
    "Between hosts it may be a wrong interface (DC407: GLOO_SOCKET_IFNAME) or blocked ports (DC412)",
    where="host",
)


def _connection_fix(timeline: Timeline, first: bool) -> Fix:
    """Return the fix if all ranks joined the collective: check the connection between them."""
    if timeline.has("gloo-timeout") and not timeline.has("watchdog-timeout", "watchdog-place", "watchdog-end"):
        return _GLOO_CONNECTION
    hosts = len(hosts_of(timeline))
    one = (
        "on one host: the GPUs may not reach each other's memory because of the IOMMU or PCIe access control (DC336); "
        "one run with NCCL_P2P_DISABLE=1 shows whether it is that"
    )
    several = (
        "between hosts: a wrong interface (DC406: NCCL_SOCKET_IFNAME), blocked ports (DC412), or RDMA (DC415); "
        f"{'' if timeline.has('nccl-info') else 'one run with NCCL_DEBUG=INFO shows what NCCL takes, and '}"
        "'distcheck collective --pairs' names the pair that does not get through"
    )
    text = one if hosts == 1 else several if hosts > 1 else f"{one}; {several}"
    if not first:
        text = f"it had worked before: see 'dmesg -T' for Xid lines and link errors at that time; {text}"
    return Fix(text, command="distcheck collective --timeout 60 --pairs", where="host")


@log_probe(rules.DC519, rules.DC701, rules.DC702)
def ranks_end_together(timeline: Timeline) -> Iterator[LogFinding]:
    """No rank exits with status 0 while others are in a collective.

    torchrun's table lists every worker that failed or was ended by it. A rank that it omits has ended by itself. Left
    alone: a rank that may be on another host, whose table is not in this text.
    """
    lost = lost_in_collectives(timeline)
    writers = {event.who.rank for event in lost}
    rows = {worker.rank: worker for worker in timeline.workers if worker.rank is not None and worker.line}
    if not lost or None in writers or not timeline.has("elastic-report") or timeline.went_on:
        return
    aborted = {event.who.rank for event in timeline.of("ended-with-threads") if event.who.rank is not None}
    failed = [event for event in timeline.events if event.kind is Kind.CAUSE or event.kind is Kind.FAILURE]
    if any(
        not is_of_launcher(event)
        and event.signature != "ended-with-threads"
        and (event.signature != "error-line" or event.who.rank not in writers)
        for event in failed
    ):
        return
    stopped = {rank for rank, worker in rows.items() if worker.exitcode in ENDED_BY_SIGTERM}
    if not rows.keys() - aborted - stopped <= writers or any(
        worker.local_rank != rank for rank, worker in rows.items()
    ):
        return
    size = timeline.world_size if timeline.world_size_known else None
    on_this_host = all(is_loopback(event.values.get("host") or "") for event in lost)
    ended = set(range(size if size and on_this_host else max(rows) + 1)) - rows.keys() | aborted
    if not ended and not on_this_host:
        return
    who = rank_names(sorted(ended)) if ended else "another rank"
    calls = [WaitingRank(event.who.rank or 0, event, called_in(event), place=place_of(event)) for event in lost]
    rule, fix = _rule_of_end(timeline, calls)
    yield LogFinding(
        lost,
        f"{who} ended without an error, and {describe_waits(calls, ('was', 'were'))}",
        fix,
        rank=min(ended) if len(ended) == 1 else -1,
        rule=rule,
    )


def _rule_of_end(timeline: Timeline, waits: Sequence[WaitingRank]) -> tuple[Rule, Fix]:
    """Return the rule for ranks that wait for one that ended, as `watch` selects it."""
    if all(wait.operation == BACKWARD for wait in waits):
        return rules.DC519, _EVEN_INPUTS
    frames = [frame for wait in waits if wait.event and wait.event.traceback for frame in wait.event.traceback.frames]
    blocks = [block for frame in frames for block in timeline.around.get(frame, ())]
    if any(block.kind == "branch" and block.by_rank for block in blocks):
        return rules.DC701, _OTHER_BRANCH
    return rules.DC702, _LEAVE_TOGETHER


# flight recorders


def _judge_dumps(timeline: Timeline) -> HangVerdict | None:
    """The same from dumps, which know every call and its line."""
    histories = dump_histories(timeline)
    different = first_difference(histories)
    if different:
        rule, fix = rules.DC517, _MAKE_EQUAL
        if len({wait.place for wait in different}) > 1 and len({wait.operation for wait in different}) > 1:
            rule, fix = rules.DC701, _OTHER_BRANCH
        return HangVerdict(
            rule,
            f"ranks call different collectives: {describe_waits(different)} (flight recorder)",
            fix,
            odd_one(different),
        )
    waits, behind = dump_waits(timeline)
    if not behind:
        return None
    lasts = [histories[item.rank][item.enqueued] for item in behind]
    late = [wait.rank for wait in lasts]
    latest = ", ".join(f"rank {wait.rank} came last to {wait.description}" for wait in lasts[:3])
    message = f"{describe_waits(waits)}; {latest}"
    failed_rank = late[0] if len(late) == 1 else waits[0].rank if len(waits) == 1 else -1
    place = waits[0].place
    looped = bool(place) and any(wait.place == place for rank in late for wait in histories[rank].values())
    rule, fix = (rules.DC519, _EVEN_INPUTS) if looped else (rules.DC701, _OTHER_BRANCH)
    return HangVerdict(rule, f"{message} (flight recorder)", fix, failed_rank)


@log_probe(rules.DC511, rules.DC517, rules.DC519, rules.DC701)
def recorders_agree(timeline: Timeline) -> Iterator[LogFinding]:
    """Flight recorders without a log: ranks called different collectives, or one is behind."""
    if not timeline.dumps or _who_waits(timeline)[2]:
        return
    verdict = _judge_dumps(timeline)
    if verdict is None:
        return
    path = timeline.sources[timeline.dumps[0].source].path
    event = Event("flight-recorder", Kind.TIMEOUT, LineAuthor(), timeline.dumps[0].source, 1, None, path)
    yield LogFinding(
        [event],
        verdict.message,
        verdict.fix,
        severity=Severity.ERROR,
        role="cause",
        rank=verdict.rank,
        rule=verdict.rule,
    )


# barriers and monitors that name whom they miss


@log_probe(rules.DC511)
def barriers_are_passed(timeline: Timeline) -> Iterator[LogFinding]:
    """No monitored barrier missed a rank (gloo; torch also makes one before each collective under DETAIL)."""
    events = timeline.of("monitored-barrier")
    missing = sorted({int(number) for event in events for number in re.findall(r"\d+", event.values["missing"])})
    if not missing:
        return
    milliseconds = events[0].number("timeout_ms")
    within = f" within {milliseconds / 1000:g} s" if milliseconds else ""
    failed = _failed_before(timeline, missing)
    yield LogFinding(
        events,
        f"{rank_names(missing)} did not come to the barrier{within}; rank {events[0].values['rank']} waited"
        + (f"; rank {failed} had failed before" if failed is not None else ""),
        _STACK,
        rank=missing[0] if len(missing) == 1 else -1,
        role="cause" if _merely_waited(timeline, events) else "timeout",
    )


def _merely_waited(timeline: Timeline, events: Sequence[Event]) -> bool:
    """Return whether no rank is known to have died: those that waited lost no peer, and lost peers are among them."""
    writers = {event.who for event in events}
    return not any(
        (event.kind is Kind.LOST and event.who in writers)
        or (event.kind in (Kind.CAUSE, Kind.FAILURE) and event.signature != "error-line" and not is_of_launcher(event))
        for event in timeline.events
    )


def _failed_before(timeline: Timeline, ranks: Sequence[int]) -> int | None:
    for event in timeline.events:
        if event.kind in (Kind.CAUSE, Kind.FAILURE) and event.signature != "error-line" and event.who.rank in ranks:
            return event.who.rank
    return None


@signature_probe(rules.DC511, "heartbeat-timeout")
def monitors_see_progress(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """Report a process that a monitor of NCCL's watchdog ended while it hung, unless time-outs show the same."""
    if timeline.has("watchdog-timeout"):
        return None
    ranks = sorted({rank for event in events if (rank := rank_of(event)) is not None})
    seconds = next((event.values["seconds"] for event in events if event.values.get("seconds")), "")
    return LogFinding(
        events,
        f"{rank_names(ranks) if ranks else 'a rank'} stood still{f' for {seconds} s' if seconds else ''}: not even "
        "NCCL's watchdog went on",
        Fix(
            "something holds the interpreter's lock or the CUDA driver: 'py-spy dump --native --pid PID' while it "
            "hangs, 'dmesg -T' for Xid lines (DC309); TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC only if it is really slow",
            where="host",
        ),
        role="timeout",
    )


@signature_probe(rules.DC511, "hccl-timeout")
def npus_wait_for_no_rank(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """Report ranks on NPUs that waited for another rank until HCCL's time limit."""
    peers = sorted({number for event in events if (number := event.number("peer")) is not None and number < MOST_RANKS})
    of_whom = f" for {rank_names(peers)}" if peers else ""
    connecting = any(event.values.get("connecting") for event in events)
    operation = next((event.values["operation"] for event in events if event.values.get("operation")), "")
    variable = "HCCL_CONNECT_TIMEOUT" if connecting else "HCCL_EXEC_TIMEOUT"
    what = "to connect" if connecting else f"in {operation}" if operation else "in a collective"
    return LogFinding(
        events,
        f"a rank on an NPU waited {what}{of_whom} until HCCL's time limit was over",
        Fix(
            "read the log of the ranks that report no such wait: one of them failed before, is slower than the limit, "
            f"or calls another collective. If all of them only need more time: export {variable} in seconds, for every "
            "rank",
            where="host",
        ),
        role="timeout",
        rank=-1,
    )


@log_probe(rules.DC511, rules.DC726)
def communicators_are_set_up(timeline: Timeline) -> Iterator[LogFinding]:
    """The rank that gives out NCCL's unique id comes to the first collective in time."""
    events = [event for event in timeline.of("unique-id-timeout") if event.values.get("peer")]
    if not events or timeline.has("watchdog-timeout"):
        return
    peer = int(events[0].values["peer"])
    waiting = sorted({int(event.values["rank"]) for event in events})
    waits = [WaitingRank(rank, None, "BARRIER", 1) for rank in waiting]
    description = f"{rank_names(waiting)} waited in the first collective for rank {peer}, which did not come"
    busy = _busy_rank_zero(timeline, waits) if peer == 0 else None
    if busy is not None:
        yield LogFinding(
            [*events, busy],
            f"{description}: it was still at work ({busy.text[:80].strip()})",
            _RANK_ZERO,
            rank=0,
            rule=rules.DC726,
        )
        return
    yield LogFinding(events, description, _STACK, role="timeout", rank=peer)


@signature_probe(rules.DC701, "desync-behind")
def no_rank_is_behind(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """torch's own desync report (TORCH_NCCL_DESYNC_DEBUG) names ranks that are behind."""
    late = sorted({int(number) for event in events for number in re.findall(r"\d+", event.values["ranks"])})
    number = events[0].values["sequence"]
    return LogFinding(
        events,
        f"{rank_names(late)} never came to collective #{number}, for which the others wait",
        _OTHER_BRANCH,
        rank=late[0] if len(late) == 1 else -1,
    )


# mismatches that a backend reports


@log_probe(rules.DC517)
def collectives_match(timeline: Timeline) -> Iterator[LogFinding]:
    """No backend saw ranks that call different collectives, or the same with other sizes."""
    events = timeline.of("collective-mismatch", "gloo-size-mismatch", "nccl-mismatch")
    if not events:
        yield from _lists_out_of_step(timeline)
        return
    prints = _fingerprints(timeline)
    first = events[0]
    place = next((place for event in (*events, *lost_in_collectives(timeline)) if (place := place_of(event))), "")
    failed_rank = -1
    if len(prints) > 1:
        description = ", ".join(f"rank {rank} runs {what}" for rank, what in sorted(prints.items())[:4])
        failed_rank = odd_one(WaitingRank(rank, None, what) for rank, what in prints.items())
    elif first.values.get("sent"):
        description = f"{first.values['sent']} bytes came where {first.values['expected']} were expected"
    else:
        description = first.text[:160].strip().rstrip(".")
    yield LogFinding(
        events,
        f"ranks call different collectives{f' at {place}' if place else ''}: {description}",
        _MAKE_EQUAL,
        rank=failed_rank,
        evidence={"place": place or None},
    )


def _lists_out_of_step(timeline: Timeline) -> Iterator[LogFinding]:
    """What a list of objects from all ranks brought is no pickle: some ranks were in another collective."""
    events = [
        *timeline.of("list-out-of-step"),
        *(
            event
            for event in timeline.of("exception")
            if "UnpicklingError" in event.text
            and event.traceback is not None
            and any(frame.function == LIST_OF_ALL for frame in event.traceback.frames)
        ),
    ]
    if events:
        yield LogFinding(
            events,
            "all_gather_list could not read what the other ranks brought: some were in another collective, or had "
            "no batches left",
            _MAKE_EQUAL,
            rank=-1,
        )


def _fingerprints(timeline: Timeline) -> dict[int, str]:
    prints: dict[int, str] = {}
    for event in timeline.of("collective-mismatch", "collective-mismatch-with"):
        if event.values.get("rank"):
            shape = f" {event.values['shape']}" if event.values.get("shape") else ""
            prints.setdefault(int(event.values["rank"]), f"{event.values.get('operation')}{shape}")
    return prints


_ONE_MODEL = Fix(
    "build and freeze the same layers on all ranks: nothing about the model may depend on the rank or its data. Before "
    "DDP(...) print the number of trained parameters on each rank",
    where="code",
)


@log_probe(rules.DC709, rules.DC507)
def models_are_alike(timeline: Timeline) -> Iterator[LogFinding]:
    """DDP found the same model on all ranks. Between hosts the code may differ; on one it is the same."""
    events = timeline.of("ddp-model-differs", "ddp-param-differs")
    if not events:
        return
    first = events[0].values
    if events[0].signature == "ddp-model-differs":
        description = f"rank {first['rank']} has {first['own']} parameters, rank {first['other']} {first['others']}"
        description = f"{description} or others" if first["others"].startswith("-") else description
    else:
        rank = rank_of(events[0])
        who = f"rank {rank}" if rank is not None else "a rank"
        description = (
            f"{first['what']} of parameter {first['index']} are {first['own']} on {who}, and others on rank "
            f"{first['other']}"
        )
    several_hosts = len(hosts_of(timeline)) > 1
    yield LogFinding(
        events,
        f"ranks build different models: {description}",
        Fix(
            "bring all hosts to one commit and one configuration, and build the model without anything that depends on "
            "the rank, the host or its data; 'git rev-parse HEAD' on each host shows the commits",
            where="host",
        )
        if several_hosts
        else _ONE_MODEL,
        rank=-1,
        rule=rules.DC507 if several_hosts else None,
    )


# ranks that did not join the rendezvous


_COME = Fix(
    "see whether that rank's process was started and what it printed last; the same --nnodes and --nproc-per-node on "
    "every node, and a --node-rank of its own for each",
    where="launch-line",
)


@log_probe(rules.DC501)
def every_rank_meets(timeline: Timeline) -> Iterator[LogFinding]:
    """All ranks came to the store or the rendezvous in time: else it names the one, or counts them.

    A key of gloo ends in the rank that never came; a count of clients is of nodes where torchrun's agents wait.
    """
    keys = [
        event
        for event in timeline.of("store-key-missing")
        if event.values.get("missing") or not _KEY.search(event.values.get("key") or "")
    ]
    counts = [event for event in _counts(timeline) if not _is_too_many(event)]
    if not counts and any(map(_is_too_many, _counts(timeline))):
        return
    # the store's server waits for others itself, so that what it would have set is not what is missing
    came = {0 if event.signature == "clients-missing" else rank_of(event) for event in counts}
    named = sorted({int(event.values["missing"]) for event in keys if event.values.get("missing")} - came)
    ended = timeline.of("rendezvous-timeout")
    events = [*(event for event in keys if event.values.get("missing")), *counts, *ended, *keys]
    if _kept_waiting(timeline) is not None:
        return
    if not events or (not named and not counts and not ended and timeline.has("watchdog-timeout", "unique-id-timeout")):
        return
    events = each_line_once(events)
    missing = named or _uncounted(timeline, counts)
    message = _missing_text(timeline, missing, counts, ended, keys)
    earlier = failed_elsewhere(
        timeline, events, {event.signature for event in timeline.events if event.kind >= Kind.TIMEOUT}
    )
    yield LogFinding(
        events,
        message,
        _COME,
        role="cause" if earlier is None else "timeout",
        rank=missing[0] if len(missing) == 1 else -1,
    )


def _counts(timeline: Timeline) -> tuple[Event, ...]:
    return timeline.of("clients-missing", "store-barrier-timeout")


def _is_too_many(event: Event) -> bool:
    """Whether more processes came than were expected."""
    return (event.number("joined") or 0) > (event.number("expected") or 0)


def _uncounted(timeline: Timeline, counts: Sequence[Event]) -> list[int]:
    """Return the ranks without any line, if a count shows that as many are missing."""
    for event in counts:
        joined, expected = event.number("joined"), event.number("expected")
        if joined is not None and expected is not None:
            silent = sorted(set(range(expected)) - set(timeline.ranks))
            if len(silent) == expected - joined and timeline.ranks:
                return silent
    return []


def _missing_text(
    timeline: Timeline, missing: Sequence[int], counts: Sequence[Event], ended: Sequence[Event], keys: Sequence[Event]
) -> str:
    if missing:
        count = next((f" ({event.values['joined']} of {event.values['expected']} came)" for event in counts), "")
        return f"{rank_names(missing)} never joined the rendezvous of all ranks{count}"
    if counts:
        first = counts[0].values
        return f"only {first['joined']} of {first['expected']} joined the rendezvous of all ranks (or nodes) in time"
    if ended and any(event.values.get("error") == "RendezvousClosedError" for event in ended):
        return "a node came to a rendezvous that was closed: the job had ended, or had begun without it"
    if ended:
        return "not all nodes came to the rendezvous in time"
    key = next((event.values["key"] for event in keys if event.values.get("key")), "")
    return f"a key of the store was never set by the rank that should have ({key})"


@log_probe(rules.DC726)
def no_rank_is_kept_waiting_at_the_store(timeline: Timeline) -> Iterator[LogFinding]:
    """No rank's wait at the store ran out while another process, by its last words, was still at work.

    Only where that work was not done, and comes right before: an older progress bar means nothing.
    """
    kept = _kept_waiting(timeline)
    if kept is None:
        return
    waits, work = kept
    minutes = (waits[0].number("timeout_ms") or 0) / 60_000
    yield LogFinding(
        [*waits, work],
        f"{rank_names(rank for event in waits if (rank := rank_of(event)) is not None)} waited at the store until "
        f"{minutes:g} minutes were over, and another process was still at work: {_work_text(work)}",
        _RANK_ZERO,
        rank=0,
    )


def _kept_waiting(timeline: Timeline) -> tuple[list[Event], Event] | None:
    """The ends of long waits at the store, and the unfinished work of a process that does not wait."""
    waits = [
        event
        for event in timeline.of("store-wait-ended", "store-key-missing")
        if (event.number("timeout_ms") or 0) >= _LONG_MS and rank_of(event) not in (None, 0)
    ]
    if not waits or timeline.went_on or timeline.has("clients-missing", "watchdog-timeout", "gloo-timeout"):
        return None
    family = {event.signature for event in timeline.events if event.kind >= Kind.TIMEOUT}
    if failed_elsewhere(timeline, waits, family) is not None:
        return None
    works = [
        event
        for event in timeline.of("one-rank-works")
        if event.source == waits[0].source
        and 0 <= waits[0].line - event.line <= _RIGHT_BEFORE
        and event.who.rank in (None, 0)
        and _is_under_way(event, (waits[0].number("timeout_ms") or 0) / 1000)
    ]
    return (waits, works[-1]) if works else None


def _work_text(event: Event) -> str:
    return event.text[:120].strip()


def _is_glued(event: Event) -> bool:
    """Whether a progress bar, which ends no line, stands before the line of another process."""
    return (event.values.get("work") or event.text) not in event.text


def _is_under_way(event: Event, limit_s: float) -> bool:
    """Whether a progress bar is not at its end, and has been drawn for most of a time."""
    bar = of_bar(event.text)
    return bar is not None and bar[0] not in (None, 100) and bar[1] >= limit_s * _MOST_OF_IT


@log_probe(rules.DC501, rules.DC502)
def no_rank_waits_at_the_store(timeline: Timeline) -> Iterator[LogFinding]:
    """A log does not end with ranks that still wait in the store's barrier for others."""
    events = timeline.of("store-barrier-waiting")
    if any(event.kind < Kind.SIGNAL for event in timeline.events) or timeline.went_on:
        return
    at_end = [event for event in events if event.line >= timeline.sources[event.source].lines - 2]
    if not at_end:
        return
    joined, expected = at_end[-1].values.get("joined"), at_end[-1].values.get("expected")
    if _is_too_many(at_end[-1]):
        yield _crowd(at_end[-1:])
        return
    yield LogFinding(
        at_end,
        f"ranks still wait at the end of this log: {joined} of {expected} have come",
        _COME,
        rank=-1,
    )


@log_probe(rules.DC502)
def every_rank_is_there_once(timeline: Timeline) -> Iterator[LogFinding]:
    """Report a rank that NCCL got twice, or one beyond the size of its communicator, or two servers of one store."""
    events = timeline.of("rank-doubled")
    if not events:
        yield from _more_than_expected(timeline)
        return
    doubled = sorted({int(event.values["doubled"]) for event in events})
    size = events[0].values["world_size"]
    yield LogFinding(
        events,
        f"{rank_names(doubled)} of {size} came twice"
        if any(number < int(size) for number in doubled)
        else f"{rank_names(doubled)} came to a job of {size} ranks",
        shared_fixes.ONE_NODE_RANK_EACH,
        rank=doubled[0] if len(doubled) == 1 else -1,
    )


def _more_than_expected(timeline: Timeline) -> Iterator[LogFinding]:
    """More processes came than the group has, or two of them serve the store."""
    if crowds := [event for event in _counts(timeline) if _is_too_many(event)]:
        yield _crowd(crowds)
    elif servers := two_servers(timeline):
        yield LogFinding(
            servers,
            "two processes took themselves for rank 0: one serves the store and waits for the others, and the "
            "other could not listen on its port",
            shared_fixes.ONE_NODE_RANK_EACH,
            rank=0,
        )


def _crowd(events: Sequence[Event]) -> LogFinding:
    first = events[0].values
    return LogFinding(
        events,
        f"{first['joined']} processes joined a group of {first['expected']}: ranks were started twice, or two jobs "
        "use one store",
        shared_fixes.ONE_NODE_RANK_EACH,
        rank=-1,
        rule=rules.DC502,
    )


def two_servers(timeline: Timeline) -> list[Event]:
    """A rank whose store could not listen, and another of the same start whose store waits for clients.

    Only rank 0 serves; on one host and port, the one that waits is who holds the port.
    """
    if len(hosts_of(timeline)) > 1:
        return []
    for waiting in timeline.of("clients-missing"):
        for bind in timeline.of("port-taken", "listen-failed"):
            if (
                bind.attempt == waiting.attempt
                and came_through(bind, "_create_c10d_store(")
                and same_writer(bind.who, waiting.who) is False
            ):
                return [bind, waiting]
    return []


# NCCL's classes


_READ_NCCL = Fix(
    "one run with NCCL_DEBUG=WARN, and read the first 'NCCL WARN' line above the error: it names what this class "
    "does not",
    where="launch-line",
)
_CHECK_HOST = Fix(
    "that warning names the call that failed. Check on that host what it needs: memory of the GPU (nvidia-smi), "
    "/dev/shm (df -h /dev/shm), locked memory (ulimit -l), the network",
    where="host",
)
_CAST = Fix(
    "cast to a dtype that the backend takes (float32; bfloat16 on NCCL) before the call, or gather its bytes",
    where="code",
)
_CLASSES = {
    "UnhandledCudaError": (
        "ncclUnhandledCudaError",
        "a call to CUDA failed: the driver, another process on the GPU, or the GPU itself",
    ),
    "SystemError": (
        "ncclSystemError",
        "a call to the operating system failed: /dev/shm, sockets, locked memory",
    ),
    "InternalError": ("ncclInternalError", "NCCL contradicts itself, often because it finds no network"),
    "InvalidUsage": ("ncclInvalidUsage", "two ranks on one GPU, or an interface that is not there"),
    "InvalidArgument": ("ncclInvalidArgument", "a dtype, a size or a rank that NCCL does not take"),
}
_WORDS = {
    "unhandled cuda error": "UnhandledCudaError",
    "unhandled system error": "SystemError",
    "internal error": "InternalError",
    "invalid usage": "InvalidUsage",
    "invalid argument": "InvalidArgument",
}


@signature_probe(rules.DC512, "nccl-error", "invalid-scalar-type")
def no_collective_failed(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """NCCL returned no error. These are classes, not causes: whatever names one comes before."""
    first = events[0]
    name = first.values.get("class") or _WORDS.get(first.values.get("words") or "", "")
    last = next(
        (
            match["text"].strip()
            for event in timeline.events
            if event.traceback is not None
            and same_writer(event.who, first.who) is not False
            and (match := _LAST_ERROR.search(event.traceback.message))
        ),
        "",
    )
    warned = _nccl_warning(timeline, first)
    spelt, meaning = _CLASSES.get(name, ("", ""))
    who = rank_names(rank for event in events if (rank := event.who.rank) is not None)
    on = f" on {who}" if any(event.who.rank is not None for event in events) else ""
    why = last or _words_of(warned) or meaning
    description = f"NCCL failed{on} with {spelt}: {why}" if spelt else f"{first.text[:120].strip()}{on}"
    fix = _CAST if not spelt else _READ_NCCL if warned is None else _CHECK_HOST
    return LogFinding([*events, *([] if warned is None else [warned])], description.rstrip(". "), fix, role="failure")


def _nccl_warning(timeline: Timeline, failure: Event) -> Event | None:
    """NCCL's own first warning of a process that no other signature knows as harmless."""
    known = {
        (event.source, event.line)
        for event in timeline.events
        if event.kind in (Kind.NOTICE, Kind.RECORD) and event.signature != "nccl-warn"
    }
    return next(
        (
            event
            for event in timeline.of("nccl-warn")
            if (event.source, event.line) not in known
            and event.attempt == failure.attempt
            and same_writer(event.who, failure.who) is not False
        ),
        None,
    )


def _words_of(warning: Event | None) -> str:
    return "" if warning is None else warning.values["said"].strip()


ROWS = register_rows(
    __name__,
    # torch's Join saw a rank that ran out of inputs before the others.
    SignatureRow(
        "inputs_are_even",
        rules.DC519,
        "uneven-inputs",
        "a rank has fewer batches than the others, and Join stopped all of them",
        _EVEN_INPUTS,
        rank=-1,
    ),
)
