"""How a job ended: by a hang-up, by its scheduler, by a lost peer, or after a restart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix, rank_names, rank_ranges
from distcheck.rules import shared_fixes
from distcheck.rules.signatures import Kind

from .context import is_of_launcher
from .launcher import keep_each_log
from .log_probe import LogFinding, log_probe, signature_probe
from .model import ENDED_BY_SIGTERM, Event, Timeline
from .ranking import may_only_follow

#: Names and addresses that lead back to the writer itself.
_OWN = re.compile(r"(?:127\.|localhost|::1|0\.0\.0\.0|\[?::ffff:127\.)")
#: How torch's store reports a time limit, up to torch 2.3 and later.
_TIMED_OUT = re.compile(r"Socket Timeout|wait timeout")
#: So many peers or ranks are named.
_MOST_NAMED = 4


@signature_probe(rules.DC117, "hangup")
def launcher_outlives_its_terminal(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """No launcher was ended by the hang-up of its terminal (signal 1); signal 15 and 2 are others' orders."""
    if _failed_before(timeline, events[0]):
        return None
    return LogFinding(
        events,
        "the launcher got SIGHUP when its terminal closed, and ended all ranks. torchrun installs its own "
        "handler, so nohup does not protect it",
        Fix(
            "start it in tmux or screen, or as a job of the scheduler. Or put setsid before the launch command, and "
            "its output into a file",
            where="launch-line",
        ),
        rank=-1,
    )


@log_probe(rules.DC125)
def scheduler_lets_it_run(timeline: Timeline) -> Iterator[LogFinding]:
    """No scheduler ended the job: its time was over, its resources went to others, or its node was emptied.

    SIGTERM to a launcher without an earlier failure is only a hint: its sender is not in the log. Ctrl-C and scancel
    are intended.
    """
    events = timeline.of("time-limit", "preempted")
    if events:
        first = events[0]
        host = f" on {first.values['host']}" if first.values.get("host") else ""
        job = f" job {first.values['job']}" if first.values.get("job") else " the job"
        limit = first.signature == "time-limit"
        resource = f": its node was low on {first.values['resource']}" if first.values.get("resource") else ""
        yield LogFinding(
            events,
            f"the scheduler ended{job}{host}: its time limit was over"
            if limit
            else f"the scheduler took the place of{job}{host}: preemption or eviction{resource}",
            shared_fixes.MORE_TIME
            if limit
            else Fix(
                "let the script save a checkpoint on SIGTERM and resume from it (#SBATCH --requeue, "
                "--signal=TERM@120). Request only what the job uses, or a queue without preemption",
                where="job-script",
            ),
            rank=-1,
        )
        return
    stopped = timeline.of("told-to-stop")
    if not stopped or timeline.went_on or _failed_before(timeline, stopped[0]) or timeline.has("interrupted", "hangup"):
        return
    if timeline.has("step-cancelled") or any(event.kind in (Kind.TIMEOUT, Kind.LOST) for event in timeline.events):
        return
    yield LogFinding(
        stopped,
        "the launcher got SIGTERM from outside before any failure: a time limit, a preemption, an eviction, or a kill",
        Fix(
            "read the reason from the scheduler ('sacct -j JOB --format=State,Elapsed,Timelimit,ExitCode', 'kubectl "
            "describe pod'). Then set a longer limit, and save a checkpoint on SIGTERM (#SBATCH --signal=TERM@120)",
            where="job-script",
        ),
        rank=-1,
        notice=True,
    )


def _failed_before(timeline: Timeline, event: Event) -> bool:
    """Whether anything failed in earlier lines: then the signal is a consequence."""
    for other in timeline.events:
        if other is event:
            return False
        if _is_own(other) and other.signature != event.signature:
            return True
    return False


@log_probe(rules.DC118)
def first_attempt_is_seen(timeline: Timeline) -> Iterator[LogFinding]:
    """The job was not restarted: else its end shows the last attempt, and the first error stands further up."""
    events = timeline.of("restart") or tuple(
        event for event in timeline.events if event.attempt > 0 and event.kind <= Kind.TABLE
    )
    if timeline.attempts < 2 or not events:
        return
    times = timeline.attempts - 1
    yield LogFinding(
        events[:20],
        f"the ranks were restarted {times} time{'s' * (times != 1)}: what the log ends with is of the last attempt",
        shared_fixes.NO_RESTARTS,
        rank=-1,
        notice=True,
    )


@log_probe(rules.DC518)
def the_cause_is_in_the_log(timeline: Timeline) -> Iterator[LogFinding]:
    """The text holds only consequences. The fix names the log to fetch.

    Consequences are lost peers, signals and launchers' tables. A rank that failed by itself is reported instead.
    """
    if timeline.went_on or _left_early(timeline):
        return
    followers = may_only_follow(timeline)
    if any(_is_own(event) and (event.source, event.line) not in followers for event in timeline.events):
        return
    lost = [event for event in timeline.events if event.kind is Kind.LOST]
    ended = [event for event in timeline.events if event.kind in (Kind.SIGNAL, Kind.TABLE)]
    waited = any(event.kind is Kind.TIMEOUT for event in timeline.events)
    if (not lost and (not ended or waited)) or any(worker.exitcode == -9 for worker in timeline.workers):
        return
    dead = [
        worker
        for worker in timeline.workers
        if (worker.first if worker.exitcode is None else worker.exitcode not in (0, *ENDED_BY_SIGTERM))
    ]
    where = _where_to_look(timeline, lost)
    events = lost or ended
    name, options = keep_each_log(timeline)
    what = "lost a peer that died first" if lost else "were ended by their launcher"
    who = sorted({event.who.rank for event in events if event.who.rank is not None})
    text = f"ranks {rank_ranges(who)}" if len(who) > 1 else f"rank {who[0]}" if who else "ranks"
    yield LogFinding(
        events[:50],
        f"{text} {what}, and why is not in this text{where}",
        Fix(
            f"{_fetch(lost, [worker.rank for worker in dead if worker.rank is not None])}; {name} {options} keeps "
            f"each rank's text{_RECORDED if name == 'torchrun' and not _has_traceback(timeline) else ''}",
            command=options,
            where="launch-line",
        ),
        rank=-1,
        evidence={"peers": _peers(lost), "silent_ranks": list(timeline.silent_ranks[:64])},
        notice=True,
    )


@log_probe(rules.DC518)
def agents_leave_together(timeline: Timeline) -> Iterator[LogFinding]:
    """torchrun's exit barrier failed, at which it waits for the other nodes after all ranks of its own ended well."""
    events, late = timeline.of("exit-barrier"), _left_early(timeline)
    if not events or not (late or timeline.went_on):
        return
    seconds = next((event.values["seconds"] for event in events if event.values.get("seconds")), None)
    after = "" if seconds is None else f" {float(seconds):.0f} s later"
    ended = (
        ". See in their logs whether they end"
        if timeline.went_on
        else ". It left, and its rendezvous store with it: the other nodes ended their ranks"
    )
    yield LogFinding(
        events,
        "all ranks of one node ended with status 0. Then torchrun's exit barrier failed: "
        + (
            f"ranks of another node still ran{after}{ended}"
            if late
            else "the rendezvous store was missing, since the torchrun of its node left first. That is harmless if the "
            "ranks of that node ended well"
        ),
        Fix(
            "let all ranks end together: call torch.distributed.barrier() after the last work of any rank. A rank that "
            "still runs may also hang: read the logs of the other nodes",
            where="code",
        )
        if late
        else Fix(
            "nothing, if the ranks of the store's node ended well: torchrun ignores this exception. Else read the log "
            "of that node",
            where="host",
        ),
        rank=-1,
        notice=True,
    )


def _left_early(timeline: Timeline) -> bool:
    """Whether torchrun left at the time limit of its exit barrier, and nothing is known that failed before."""
    late = [event for event in timeline.of("exit-barrier") if _TIMED_OUT.search(event.text)]
    others = {event.source for event in timeline.of("rendezvous-left")} - {event.source for event in late}
    return bool(late) and (timeline.went_on or bool(others))


#: How torchrun shows the traceback of a rank in its table.
_RECORDED = ", and torch.distributed.elastic.multiprocessing.errors.record around main() its traceback"


def _has_traceback(timeline: Timeline) -> bool:
    """Whether a process printed its traceback: then all that raise do."""
    return any(event.traceback is not None and not is_of_launcher(event) for event in timeline.events)


def _is_own(event: Event) -> bool:
    """Whether an event shows a failure of its own process, not of a worker or of a lost peer."""
    return event.kind in (Kind.CAUSE, Kind.FAILURE) and event.signature != "error-line" and not is_of_launcher(event)


def _peers(lost: Sequence[Event]) -> list[str]:
    """The addresses of peers that were lost, the most often named first."""
    counts: dict[str, int] = {}
    for event in lost:
        host, port = event.values.get("host"), event.values.get("port")
        if host and not _OWN.match(host):
            name = f"{host}:{port}" if port else host
            counts[name] = counts.get(name, 0) + 1 + event.repeated
    return sorted(counts, key=lambda name: -counts[name])[:_MOST_NAMED]


def _where_to_look(timeline: Timeline, lost: Sequence[Event]) -> str:
    """``: rank 0, or 10.0.0.5:40112, was lost; ranks 4-7 are not in this text``."""
    named = _lost_ranks(lost)
    parts = [*([rank_names(named)] if named else []), *_peers(lost)][:_MOST_NAMED]
    one = len(parts) == 1 and len(named) < 2
    text = f": {' and '.join(parts)} {'was' if one else 'were'} lost" if parts else ""
    silent = timeline.silent_ranks if timeline.world_size_known else ()
    if silent:
        text += f"{';' if text else ':'} rank{'s' * (len(silent) != 1)} {rank_ranges(silent)} wrote nothing here"
    return text


def _lost_ranks(lost: Sequence[Event]) -> list[int]:
    return sorted({int(event.values["peer"]) for event in lost if event.values.get("peer")})


def _fetch(lost: Sequence[Event], dead: Sequence[int]) -> str:
    """Return whose log to read: the lost peers, never the ranks that only report the loss."""
    named, peers = _lost_ranks(lost), _peers(lost)
    writers = {event.who.rank for event in lost}
    # a rank that lost another one is no longer the first
    gone = [rank for rank in named if rank not in writers] or ([] if peers else named)
    dead = [rank for rank in dead if rank not in writers]
    if gone or peers:
        parts = [*([rank_names(gone)] if gone else []), *(f"the process at {peer}" for peer in peers)]
        return f"read the log of {' and of '.join(parts[:_MOST_NAMED])}, on its own host"
    if dead:
        return f"read the log of {rank_names(dead)}, which the launcher reports as failed"
    return "read the log of the rank that ended first, on its own host"
