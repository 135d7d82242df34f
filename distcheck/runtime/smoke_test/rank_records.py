"""The record that each rank writes to a folder, for a collective that never returns.

One file a rank, written whole or not at all. Merging them shows the state of each rank, and the ranks without a record.
This still works when no process could report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from distcheck.core.checker import Checker
from distcheck.core.facts_file import checked_report, from_plain
from distcheck.core.files import foreign_files, read_record, write_whole
from distcheck.core.model import (
    Finding,
    NotApplicable,
    NotChecked,
    Report,
    merge_findings,
    merge_not_checked,
    rank_names,
    to_plain,
)
from distcheck.core.redaction import mask_all
from distcheck.rules import Selection
from distcheck.runtime.coordination.model import MOST_RANKS, Failure, RankState
from distcheck.runtime.coordination.root_cause import compose_failure

from .bandwidth_checks import sentence
from .model import MEASUREMENTS_VERSION, SmokeTest

KIND = "distcheck rank record"
_VERSION = 1


class RecordsError(ValueError):
    """The folder cannot be judged; the message gives the reason."""


class RankFile(NamedTuple):
    """What stands in one file."""

    rank: int
    world_size: int
    host: str
    #: where it was when this was written
    state: RankState
    #: the phase of its supervisor
    phase: str = ""
    #: its supervisor came to its own end; else it was cut off after this was written
    ended: bool = False
    #: which run it belongs to; "" before the membership check
    run: str = ""
    #: the whole report, of the rank that spoke
    report: Mapping[str, Any] = {}


def write(folder: str, record: RankFile) -> None:
    """Write a rank's record whole or not at all; raises OSError."""
    path = Path(folder) / f"rank-{record.rank:05d}.json"
    plain = mask_all(to_plain(record))
    text = json.dumps({"kind": KIND, "version": _VERSION, "record": plain}, ensure_ascii=True)
    # a link of this name is none of ours: a checkout or a neighbor brought it
    write_whole(str(path), f"{text}\n".encode(), follow=False)


def read_folder(folder: str) -> tuple[tuple[RankFile, ...], tuple[tuple[str, str], ...]]:
    """The records of a folder, and the files that can't be read with why; raises RecordsError."""
    try:
        paths = sorted(Path(folder).glob("rank-*.json"))
    except OSError as error:
        raise RecordsError(f"the folder can't be read: {error.strerror}") from None
    if not Path(folder).is_dir():
        raise RecordsError("it is no folder; name the folder that --output-dir wrote")
    if not paths:
        raise RecordsError("no rank-*.json is in it; name the folder that --output-dir wrote")
    found: list[tuple[float, str, RankFile]] = []
    damaged = []
    foreign = foreign_files(folder, map(str, paths))
    for path in paths:
        if str(path) in foreign:
            damaged.append((path.name, "it belongs to another user, and all users may write to the folder"))
            continue
        try:
            plain = json.loads(read_record(str(path)))
            if plain.get("kind") != KIND or plain.get("version") != _VERSION:
                raise ValueError(f"it is no record of version {_VERSION}")
            record: RankFile = from_plain(RankFile, plain["record"])
            if not 0 <= record.rank < record.world_size <= MOST_RANKS:
                raise ValueError(f"rank {record.rank} of {record.world_size} ranks")
            found.append((path.stat().st_mtime, path.name, record))
        except OSError as error:
            damaged.append((path.name, error.strerror or "it can't be read"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            damaged.append((path.name, f"it is damaged: {error}"))
    # a folder may be used again: what an earlier run left is not this one's
    run = max(((when, record.run) for when, _, record in found if record.run), default=(0.0, ""))[1]
    records = {record.rank: record for _, _, record in found if record.run in (run, "")}
    damaged += [(name, "it is of another run") for _, name, record in found if record.run not in (run, "")]
    if not records:
        raise RecordsError(f"none of its {len(paths)} records can be read; the first: {damaged[0][1]}")
    return tuple(records[rank] for rank in sorted(records)), tuple(damaged)


def merged_report(folder: str, selection: Selection) -> Report:
    """Return one report out of the records: the speaker's own, or that of the failed rank; raises RecordsError."""
    records, damaged = read_folder(folder)
    world_size = max(record.world_size for record in records)
    unread = tuple(NotChecked(name, why) for name, why in damaged)
    spoken = next((record for record in records if record.report), None)
    complete = len(records) == world_size and all(record.ended for record in records)
    present = {record.rank for record in records}
    absent = [rank for rank in range(world_size) if rank not in present]
    if absent:
        unread = (*unread, NotChecked("the records", f"{rank_names(absent)} left none"))
    # all ranks agreed on the speaker's report: a missing record changes nothing
    if spoken is not None and spoken.ended:
        return revived(spoken.report, unread)._replace(out_of_time=not complete)
    if spoken is None and complete:
        unread = (
            *unread,
            NotChecked("what the run found", "no record holds the report: rank 0 was ended before it spoke"),
        )
    # a rank that was cut off gave no word, as one that left no record at all
    states = {record.rank: record.state for record in records if record.ended}
    failure: Failure | NotApplicable = NotApplicable("every rank ended well")
    if not complete or any(state.state != "finished" for state in states.values()):
        failure = compose_failure(states, world_size, _latest_phase(records), "timeout", "")
    plan = Checker(selection, modules=("distcheck.runtime.smoke_test.failures",), plug_ins=False).plan(
        Failure, command="collective", closed=True
    )
    report = plan.run(facts={Failure: failure})
    hosts = tuple(dict.fromkeys(record.host for record in records))
    smoke = SmokeTest(
        MEASUREMENTS_VERSION, world_size, hosts, failure=failure if isinstance(failure, Failure) else None
    )
    if smoke.failure is not None:
        smoke = smoke._replace(sentence=f"{sentence(smoke)}; the records name no backend and no device")
    else:
        smoke = smoke._replace(sentence="no record holds the report; the records name no backend and no device")
    old = revived(spoken.report, unread) if spoken is not None else None
    findings = (*report.findings, *(old.findings if old is not None else ()))
    return report._replace(
        stage="rank",
        subject={"host": None, "line": [f"{len(records)} of {world_size} records", f"{len(hosts)} hosts"]},
        findings=merge_findings(findings),
        not_checked=merge_not_checked((*report.not_checked, *unread)),
        out_of_time=spoken is None and complete,
        measurements=to_plain(smoke),
    )


def _latest_phase(records: tuple[RankFile, ...]) -> str:
    furthest = max(records, key=lambda record: record.state.steps)
    return furthest.phase or furthest.state.phase


def revived(plain: Mapping[str, Any], unread: tuple[NotChecked, ...] = ()) -> Report:
    """A report out of its JSON; raises RecordsError."""
    try:
        measurements = plain.get("measurements") or {}
        if measurements:
            from_plain(SmokeTest, measurements)
        report = Report(
            plain["command"],
            stage=plain["stage"],
            subject=plain["subject"],
            findings=tuple(Finding.from_dict(item) for item in plain["findings"]),
            not_checked=(*(NotChecked(**item) for item in plain["not_checked"]), *unread),
            elapsed_s=plain["summary"]["elapsed_s"],
            measurements=measurements,
        )
        return checked_report(report)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RecordsError(f"the report in it is damaged: {error}") from None
