"""Judge files that several ranks write, read too early, create or download, from the rows of all ranks.

Two events are concurrent if nothing between them made the ranks wait for each other. Wall-clock time is not used: the
next run has another order.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, grouped, rank_names, rank_ranges
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination.logged_events import LoggedEvent

from .plan import End, Rehearsal, RehearsalPlan, where
from .protected_paths import below

Clock = Mapping[str, int]

#: Scripts resume from these files.
_CHECKPOINTS = (".pt", ".pth", ".ckpt", ".safetensors")
_PATH = attrgetter("path")
_SAVING = ("torch.save", "torch.jit.save", "save_file")
#: In the name of a function whose purpose is a file.
_NAMES_WRITING = re.compile(r"save|write|dump|export|copy|move|mkdir|touch|plot|\.to_", re.IGNORECASE)


class FileAccess(NamedTuple):
    """One thing that a rank did to a file, a folder or an address."""

    rank: int
    path: str
    #: ``train.py:14``; "" where no line of the user's is known
    place: str
    clock: Clock
    #: the call: ``torch.save``, ``open``, ``os.makedirs``
    how: str = ""
    #: of a write: ``truncate``, ``append``, ``create``, ``update``
    mode: str = ""
    #: the path existed already
    there: bool = True
    #: the script has slept since the last collective: it may have waited for the file
    waited: bool = False
    #: under a lock on a file
    locked: bool = False
    #: of a folder: an existing one is allowed or handled
    forgiven: bool = False
    #: of a download: by the script's own code
    own: bool = False
    #: of a folder: the line of an ``if`` before it that checks whether it exists
    asked_at: str = ""


class Files(NamedTuple):
    """What all ranks did to files, each in the order of time."""

    plan: RehearsalPlan
    writes: tuple[FileAccess, ...] = ()
    reads: tuple[FileAccess, ...] = ()
    folders: tuple[FileAccess, ...] = ()
    fetches: tuple[FileAccess, ...] = ()
    #: checks whether a path exists
    questions: tuple[FileAccess, ...] = ()
    removals: tuple[FileAccess, ...] = ()
    ends: tuple[End, ...] = ()

    def shown(self, path: str) -> str:
        """As the script would name it."""
        folder = self.plan.folder
        return os.path.relpath(path, folder) if folder and below(path, folder) and path != folder else path

    def one_per_node(self, ranks: Iterable[int]) -> bool:
        """Whether these are several ranks, and each of another node."""
        found = list(ranks)
        return len(found) > 1 and len({self.plan.node_of(rank) for rank in found}) == len(found)


@fact(of_this_host=False)
def read_files(rehearsal: Rehearsal) -> Files:
    """Return what the ranks logged."""
    kinds = ("write", "moved", "read", "mkdir", "fetch", "asked", "removed")
    acts = {kind: [_access(row) for row in rehearsal.of_ranks(f"files.{kind}")] for kind in kinds}
    if not any(acts.values()):
        raise NotApplicable("no rank has written, read or fetched a file of the user's")
    return Files(
        rehearsal.plan, tuple(acts["write"] + acts["moved"]), tuple(acts["read"]), tuple(acts["mkdir"]),
        tuple(acts["fetch"]), tuple(acts["asked"]),
        tuple(acts["removed"]), rehearsal.ends,
    )  # fmt: skip


def _access(row: LoggedEvent) -> FileAccess:
    data = row.data
    return row.fill(
        FileAccess,
        path=data.get("path") or data.get("url") or "",
        clock=data.get("clock") or {},
        how=data.get("by") or data.get("how") or "",
        mode="moved" if row.kind == "files.moved" else data.get("mode", ""),
        forgiven=bool(data.get("exist_ok") or data.get("caught")),
    )


def comes_before(first: Clock, second: Clock) -> bool:
    """Whether something between two times made the rank of the second wait for that of the first.

    One count that differs decides the order. Each kind of count sees what another misses. An unknown order is no race.
    """
    if first.get("life", 0) != second.get("life", 0):
        return first.get("life", 0) < second.get("life", 0)
    return any(first[name] < second[name] for name in first.keys() & second.keys() if name != "life")


def at_once(one: FileAccess, other: FileAccess) -> bool:
    """Whether nothing orders what two ranks did."""
    return (
        one.rank != other.rank
        and not comes_before(one.clock, other.clock)
        and not comes_before(other.clock, one.clock)
    )  # fmt: skip


def _racing(acts: Sequence[FileAccess]) -> list[FileAccess]:
    """Those of several ranks that nothing orders."""
    return [act for act in acts if any(at_once(act, other) for other in acts)]


def _ranks(acts: Iterable[FileAccess]) -> list[int]:
    return sorted({act.rank for act in acts})


def _commonest(acts: Iterable[FileAccess]) -> str:
    return Counter(act.place for act in acts).most_common(1)[0][0]


def _failed(files: Files, ranks: Iterable[int], place: str, *names: str) -> tuple[int, ...]:
    """Return the ranks among these whose script ended at this location with one of these exceptions."""
    members = set(ranks)
    return tuple(
        end.rank
        for end in files.ends
        if end.rank in members and end.how == "raised" and end.place == place and end.detail.startswith(names)
    )


# one file, several writers


def _written_together(files: Files) -> dict[str, list[FileAccess]]:
    """Path → the writes by several ranks that nothing orders; appending, creating (``x``) and locks are meant so."""
    found = {}
    for path, acts in grouped(files.writes, _PATH).items():
        truncating = [act for act in acts if act.mode == "truncate" and not act.locked and not path.endswith(".lock")]
        racing = _racing(truncating)
        if racing:
            found[path] = racing
    return found


@probe(rules.DC720)
def one_rank_writes_a_file(files: Files) -> Iterator[Finding]:
    """No file is written by several ranks at once."""
    fetched = {(act.rank, act.place) for act in files.fetches if act.place}
    by_place: dict[str, list[tuple[str, list[FileAccess]]]] = {}
    for path, acts in _written_together(files).items():
        if not all((act.rank, act.place) in fetched for act in acts):  # that is a download
            by_place.setdefault(_commonest(acts), []).append((path, acts))
    for place, written in by_place.items():
        yield _several_writers(files, place, written)


def _several_writers(files: Files, place: str, written: Sequence[tuple[str, list[FileAccess]]]) -> Finding:
    path, acts = written[0]
    ranks = _ranks(act for _, some in written for act in some)
    how = next((act.how for act in acts if act.how not in ("", "open", "os.open")), "open")
    checkpoint = how in _SAVING or path.endswith(_CHECKPOINTS)
    shown = f'"{files.shown(path)}"' + (f" and {len(written) - 1} more files" if len(written) > 1 else "")
    here = f"{'here' if place else 'from a thread'} ({how})"
    evidence = {"paths": [files.shown(each) for each, _ in written[:20]], "ranks": rank_ranges(ranks), "call": how}
    if files.one_per_node(ranks):
        return rules.DC720.found(
            f"{rank_names(ranks)}, one on each node, write {shown} {here}: correct if each node has its own disk, "
            "a race if they share it",
            where=where(place, ranks),
            fix=Fix(
                "on a shared file system compare the global rank (`dist.get_rank() == 0`), not the local one",
                where="code",
            ),
            severity=Severity.INFO,
            evidence=evidence,
        )
    read = any(act.path == path and act.rank not in ranks[:1] for act in files.reads)
    behind = ", and dist.barrier() after it, because other ranks read the file" if read else ""
    collective = "; keep collectives (an FSDP state_dict()) outside the `if`" if how in _SAVING else ""
    return rules.DC720.found(
        f"{rank_names(ranks)} write {shown} {here}, and nothing makes one wait for another",
        where=where(place, ranks),
        fix=Fix(_one_writer(how, behind, collective), where="code"),
        severity=Severity.ERROR if checkpoint else Severity.WARNING,
        evidence=evidence,
    )


def _one_writer(how: str, behind: str, collective: str) -> str:
    """Return how one rank alone writes. What a call does next to writing, such as running the script, stays."""
    if how not in ("open", "os.open", *_SAVING) and not _NAMES_WRITING.search(how):
        return (
            f"put the rank into the path, or configure {how}() so that one rank writes{behind}. An `if` around the "
            "call keeps the other ranks from all else that it does"
        )
    lines = "the lines that open and write it" if how in ("open", "os.open") else f"{how}()"
    guard = f"let one rank write: `if dist.get_rank() == 0:` around {lines}{behind}"
    return f"{guard}; or put the rank into the path{collective}"


@probe(rules.DC720)
def one_rank_creates_and_removes_a_file(files: Files) -> Iterator[Finding]:
    """Report files that several ranks create exclusively, or remove, if that failed on a rank: the other was first."""
    creating = [act for act in files.writes if act.mode == "create"]
    for acts, verb, error in (
        (creating, "create", "FileExistsError"),
        (files.removals, "remove", "FileNotFoundError"),
    ):
        reported: set[str] = set()
        for path, same in grouped(acts, _PATH).items():
            racing = _racing(same)
            place = _commonest(racing) if racing else ""
            failed = _failed(files, _ranks(racing), place, error)
            if failed and place and place not in reported:
                reported.add(place)
                ranks = _ranks(racing)
                yield rules.DC720.found(
                    f'{rank_names(ranks)} {verb} "{files.shown(path)}" here, and only the first one can: '
                    f"{rank_names(sorted(failed))} failed with {error}",
                    where=where(place, ranks),
                    fix=Fix(f"let one rank {verb} it: `if dist.get_rank() == 0:` around this line", where="code"),
                    severity=Severity.ERROR,
                    evidence={"path": files.shown(path), "failed": sorted(failed)},
                )


@probe(rules.DC722)
def files_are_removed_after_all_have_read_them(files: Files) -> Iterator[Finding]:
    """Report a removal that nothing orders after the reads of another rank, if that rank did not find its file."""
    existed = {act.path for act in (*files.writes, *files.reads) if act.there}
    for removal in files.removals:
        for act in files.reads:
            if act.there or act.path not in existed or not below(act.path, removal.path) or not at_once(removal, act):
                continue
            if _failed(files, [act.rank], act.place, "FileNotFoundError"):
                yield rules.DC722.found(
                    f'rank {removal.rank} removes "{files.shown(removal.path)}" here ({removal.how}), and nothing '
                    f'makes it wait for rank {act.rank}, which failed to read "{files.shown(act.path)}" at {act.place}',
                    where=where(removal.place, [removal.rank]),
                    fix=Fix("dist.barrier() on all ranks between the last read and this line", where="code"),
                    severity=Severity.ERROR,
                    evidence={"path": files.shown(act.path), "read_at": act.place, "failed": [act.rank]},
                )
                return


# read too early


@probe(rules.DC724)
def readers_wait_for_the_writer(files: Files) -> Iterator[Finding]:
    """What one rank writes, or a folder that it makes, is used by another only after something made that one wait."""
    early_reads: dict[str, tuple[FileAccess, list[FileAccess]]] = {}
    together = _written_together(files)
    written = grouped(files.writes, _PATH)
    found_there = {(act.rank, act.path) for act in files.questions if act.there}
    for act in files.reads:
        if act.path in together or act.waited or act.locked:
            continue
        writers = written.get(act.path, [])
        if any(one.rank == act.rank for one in writers):
            continue
        if (act.rank, act.path) in found_there and all(one.mode == "moved" for one in writers):
            continue  # a file that was moved to its path is complete
        early = next((one for one in writers if at_once(one, act)), None)
        if early is not None:
            early_reads.setdefault(act.place, (early, []))[1].append(act)
    for place, (writer, readers) in early_reads.items():
        yield _too_early(files, place, writer, readers, "")
    yield from _folders_used_too_early(files, set(early_reads))


def _folders_used_too_early(files: Files, reported: set[str]) -> Iterator[Finding]:
    made = {
        path: new
        for path, acts in grouped(files.folders, _PATH).items()
        if (new := [act for act in acts if not act.there])
    }  # fmt: skip
    makers = {path: {act.rank for act in files.folders if _makes(act, path)} for path in made}
    found_there = {(act.rank, act.path) for act in files.questions if act.there}
    found: dict[str, tuple[FileAccess, list[FileAccess]]] = {}
    # a file that no rank writes is missing with its folder as well: a checkpoint to resume from
    written = {act.path for act in files.writes} | made.keys()
    reads = (act for act in files.reads if act.there or act.path in written)
    for act in (*reads, *files.writes):
        if act.waited or act.locked or act.place in reported:
            continue
        for path, makes in made.items():
            if act.rank in makers[path] or not below(act.path, path) or (act.rank, path) in found_there:
                continue
            early = next((one for one in makes if at_once(one, act)), None)
            if early is not None:
                found.setdefault(act.place, (early, []))[1].append(act)
    for place, (maker, users) in found.items():
        yield _too_early(files, place, maker, users, "folder")


def _makes(act: FileAccess, folder: str) -> bool:
    """Return whether a call makes a folder: makedirs and Path.mkdir(parents=True) make its parents too."""
    return act.path == folder or (act.how != "os.mkdir" and below(act.path, folder))


def _too_early(files: Files, place: str, writer: FileAccess, readers: Sequence[FileAccess], what: str) -> Finding:
    ranks = _ranks(readers)
    shown = files.shown(writer.path)
    at = f" at {writer.place}" if writer.place else ""
    failed = _failed(files, ranks, place, "FileNotFoundError", "EOFError", "RuntimeError", "OSError")
    missing = [act.rank for act in readers if not act.there]
    seen = ""
    if failed:
        seen = f"; {rank_names(sorted(failed))} failed"
    elif missing:
        seen = f"; {rank_names(sorted(set(missing)))} did not find it"
    if what:
        verb = "uses" if len(ranks) == 1 else "use"
        message = f'{rank_names(ranks)} {verb} the folder "{shown}" here, which rank {writer.rank} makes{at}'
        fix = (
            f"make the folder on every rank: `os.makedirs(…, exist_ok=True)` outside the branch{at}; "
            "or dist.barrier() on all ranks between the two"
        )
    else:
        verb = "reads" if len(ranks) == 1 else "read"
        message = f'{rank_names(ranks)} {verb} "{shown}" here, which rank {writer.rank} writes{at}'
        fix = f"dist.barrier() on all ranks between the write{at} and this line"
    return rules.DC724.found(
        f"{message}, and nothing makes {'it' if len(ranks) == 1 else 'them'} wait for that{seen}",
        where=where(place, ranks),
        fix=Fix(fix, where="code"),
        severity=Severity.ERROR if failed else Severity.WARNING,
        evidence={"path": shown, "writer": writer.rank, "written_at": writer.place, "not_there": sorted(set(missing))},
    )


# folders


@probe(rules.DC722)
def folders_may_be_there(files: Files) -> Iterator[Finding]:
    """A folder that several ranks make may be there already."""
    reported: set[str] = set()
    for path, acts in grouped((act for act in files.folders if not act.forgiven), _PATH).items():
        place = _commonest(acts)
        if all(act.there for act in acts) or place in reported:
            continue  # it was there before the job: no race
        failed = _failed(files, _ranks(acts), place, "FileExistsError")
        # a rank that found the folder in its check came later
        queries = [one for one in files.questions if one.path == path and one.place in {act.asked_at for act in acts}]
        racing = _racing([*acts, *queries])
        if racing or failed:
            reported.add(place)
            yield _race(files, path, acts, _ranks(racing or acts), failed, place)


def _race(
    files: Files, path: str, acts: Sequence[FileAccess], ranks: Sequence[int], failed: Sequence[int], place: str
) -> Finding:
    how = acts[0].how
    apart = files.one_per_node(ranks) and not failed
    useless = " another rank can create it between a check and the call;" if acts[0].asked_at else ""
    seen = f"; {rank_names(sorted(failed))} failed with FileExistsError" if failed else ""
    if how == "Path.mkdir":
        fix = "Path.mkdir(…, exist_ok=True)"
    else:
        fix = "os.makedirs(…, exist_ok=True)" + (", because os.mkdir has no exist_ok" if how == "os.mkdir" else "")
    return rules.DC722.found(
        f'{rank_names(ranks)} make the folder "{files.shown(path)}" here ({how}), which fails if another rank was first'
        f"{seen}{', if the nodes share the disk' if apart else ''}",
        where=where(place, ranks),
        fix=Fix(f"{fix}{';' + useless.rstrip(';') if useless else ''}", where="code"),
        severity=Severity.INFO if apart else Severity.ERROR if failed else Severity.WARNING,
        evidence={"path": files.shown(path), "failed": sorted(failed), "asked_at": acts[0].asked_at},
    )


# downloads


@probe(rules.DC725)
def one_rank_fetches(files: Files) -> Iterator[Finding]:
    """The same is not fetched by all ranks of a host."""
    reported: set[str] = set()
    for url, acts in grouped((act for act in files.fetches if not act.locked), _PATH).items():
        racing = [act for act in _racing(acts) if act.how or act.own]
        ranks = _ranks(racing)
        if len(ranks) < 2 or files.one_per_node(ranks):
            continue
        place = _commonest(racing)
        into = _fetched_into(files, racing)
        if place in reported or into is None or (not into and not racing[0].how):
            continue
        reported.add(place)
        how = racing[0].how or "urlopen"
        yield rules.DC725.found(
            f"{rank_names(ranks)} each fetch {url} here ({how})" + (f', into "{files.shown(into)}"' if into else ""),
            where=where(place, ranks),
            fix=Fix(
                "let one rank of each host fetch it (`if local_rank == 0:`), then dist.barrier() on all ranks, "
                "then use what is there on the others; or fetch it before the job starts",
                where="code",
            ),
            evidence={"url": url, "path": files.shown(into) if into else ""},
        )


def _fetched_into(files: Files, acts: Sequence[FileAccess]) -> str | None:
    """The path that the same lines of several ranks write; "" where none is known, None where each has its own."""
    places = {(act.rank, act.place) for act in acts}
    by_path: dict[str, set[int]] = {}
    for act in files.writes:
        if (act.rank, act.place) in places and act.mode in ("truncate", "create", "update"):
            by_path.setdefault(act.path, set()).add(act.rank)
    if not by_path:
        return ""
    return next((path for path, ranks in by_path.items() if len(ranks) > 1), None)
