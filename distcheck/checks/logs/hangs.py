"""Collectives that hang: which ranks wait where, which did not join, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Fix, Rule, Severity, rank_names
from distcheck.rules.signatures import Kind

from .context import failed_elsewhere, hosts_of, is_loopback, is_of_launcher
from .launcher import keep_each_log
from .log_probe import LogFinding, SignatureRow, log_probe, register_rows, signature_probe
from .model import ENDED_BY_SIGTERM, MOST_RANKS, Event, LineAuthor, Timeline
from .one_rank_works import WORK_APART, busy_rank_zero, busy_text, work_text
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
    of_several_groups,
    place_of,
    rank_of,
    watchdog_waits,
)

#: Exit codes of ranks that were ended by others, or by their own watchdog.
_OF_OTHERS = (None, 0, -6, *ENDED_BY_SIGTERM)


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
MAKE_EQUAL = Fix(
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
    busy = busy_rank_zero(timeline, waits)
    if busy is not None:
        return HangVerdict(
            rules.DC726,
            f"{_wait_text(waits)}{limit}, and {busy_text(busy)}: {work_text(busy)}",
            WORK_APART,
            0,
        )
    dumped = _judge_dumps(timeline)
    if dumped is not None:
        return dumped
    numbers = {wait.sequence for wait in waits}
    if len(numbers) > 1 and not _all_called_all(waits):
        if not any(wait.group for wait in waits) and of_several_groups(timeline):
            message = f"{describe_waits(waits)}{limit}, in several groups, whose numbers and ranks can't be compared"
            return HangVerdict(rules.DC511, message, _connection_fix(timeline, first=False), -1, "timeout")
        return _different_numbers(timeline, waits, limit)
    if behind:
        return _left_behind(timeline, waits, behind, limit)
    if len(numbers) <= 1 and differ(waits):
        # gloo has no sequence numbers: another line of the code is another branch
        rule = rules.DC517 if numbers != {None} else rules.DC701
        fix = MAKE_EQUAL if rule is rules.DC517 else _OTHER_BRANCH
        return HangVerdict(
            rule, f"ranks call different collectives: {describe_waits(waits)}{limit}", fix, odd_one(waits)
        )
    return _same_for_all(timeline, waits, limit)


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
    if len(absent) == 1 and (timeline.world_size_known or len(waits) > 2 or _had_to_be_ended(timeline, absent[0])):
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


def _had_to_be_ended(timeline: Timeline, rank: int) -> bool:
    """Whether the launcher ended a rank by SIGTERM: it still ran when the time of the others was over."""
    return any(worker.rank == rank and worker.exitcode in ENDED_BY_SIGTERM for worker in timeline.workers)


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
    # what torchrun saw first is no end by torchrun itself
    stopped = {rank for rank, worker in rows.items() if worker.exitcode in ENDED_BY_SIGTERM and not worker.first}
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
        rule, fix = rules.DC517, MAKE_EQUAL
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
    busy = busy_rank_zero(timeline, waits) if peer == 0 else None
    if busy is not None:
        yield LogFinding(
            [*events, busy],
            f"{description}: it was still at work ({busy.text[:80].strip()})",
            WORK_APART,
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
