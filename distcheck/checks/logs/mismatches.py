"""Collectives and models that are not the same on all ranks, as a backend or DDP reports it."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Fix

from .context import hosts_of
from .hangs import MAKE_EQUAL
from .log_probe import LogFinding, log_probe
from .model import Timeline
from .pickling import LIST_OF_ALL
from .waiting_ranks import WaitingRank, lost_in_collectives, odd_one, place_of, rank_of


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
        MAKE_EQUAL,
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
            MAKE_EQUAL,
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
