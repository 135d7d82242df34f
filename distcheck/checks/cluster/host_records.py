"""One report a host inside a launch: the local ranks hand what they saw to local rank 0, through a private folder.

Local rank 0 makes the folder and removes it; the others never make one, so that a rank that comes late leaves
nothing behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distcheck.core.files import private_folder, remove_files
from distcheck.core.model import NotChecked, Report, to_plain

from .local_position import LocalPosition

if TYPE_CHECKING:
    from .records import RankRecord

#: Seconds that local rank 0 waits for the records of the others, and they for its folder.
WAIT_FOR_RANKS_S = 3.0
_POLL_S = 0.02
#: All files of a folder: records and their drafts.
_FILES = re.compile(r"\d+\.(?:json|draft)")
#: A folder of ours that is older was left by a run that was killed.
_STALE_S = 3600.0


def _folder(place: LocalPosition) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir()) / f"distcheck-{user}-{_digest(place.key)}"


def _digest(key: str) -> str:
    """A key as part of a file name."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:24]


def send(place: LocalPosition, report: Report, rank: RankRecord | None = None) -> bool:
    """Hand a report to local rank 0; False where its folder did not appear in time.

    :param rank: the record of this rank, where hosts are to be compared
    """
    try:
        folder = _folder(place)
    except OSError:  # there is no temporary folder at all
        return False
    end = time.monotonic() + WAIT_FOR_RANKS_S
    while not is_private(folder):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    record = folder / f"{place.local_rank}.json"
    draft = record.with_suffix(".draft")
    try:
        draft.write_text(json.dumps({**report.as_record(), "rank": to_plain(rank)}), encoding="utf-8")
        draft.replace(record)
    except OSError:  # the folder was removed, or the disk is full: local rank 0 reports that this rank is missing
        return False
    return True


@contextlib.contextmanager
def collecting(place: LocalPosition) -> Iterator[str | None]:
    """Create the folder for as long as local rank 0 checks its host, and always remove it afterwards.

    Yields why there is none, where it can't be made: then the others can hand in nothing.
    """
    reason = None
    try:
        folder = _folder(place)
        _sweep(folder.parent)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        reason = None if is_private(folder) else f"{folder} exists and belongs to another user"
    except OSError as error:
        reason = f"no folder can be made for their records: {error.strerror}"
    try:
        yield reason
    finally:
        if reason is None:
            _remove(folder)


def receive(
    place: LocalPosition, reason: str | None = None, ranks: list[RankRecord] | None = None
) -> tuple[Report, ...]:
    """The reports of the other local ranks; one that did not come in time is a report of *not checked*.

    :param reason: why no record can come
    :param ranks: their records are added here
    """
    if reason is not None:
        return tuple(_absent(rank, reason) for rank in range(place.local_size) if rank != place.local_rank)
    folder = _folder(place)
    waiting = {rank for rank in range(place.local_size) if rank != place.local_rank}
    reports = []
    end = time.monotonic() + WAIT_FOR_RANKS_S
    while waiting:
        for rank in sorted(waiting):
            record = folder / f"{rank}.json"
            if record.exists():
                waiting.discard(rank)
                try:
                    plain = json.loads(record.read_text(encoding="utf-8"))
                    reports.append(Report.from_record(plain))
                    if ranks is not None and plain.get("rank") is not None:
                        ranks.append(_rank(plain["rank"]))
                except (ValueError, KeyError, TypeError) as error:
                    reports.append(_absent(rank, f"its record is damaged: {error}"))
        if not waiting or time.monotonic() > end:
            break
        time.sleep(_POLL_S)
    reports.extend(_absent(rank, f"its record did not come within {WAIT_FOR_RANKS_S:g} s") for rank in sorted(waiting))
    return tuple(reports)


def _rank(plain: Any) -> RankRecord:
    from distcheck.core.facts_file import from_plain

    from .records import RankRecord

    found: RankRecord = from_plain(RankRecord, plain)
    return found


def _absent(rank: int, why: str) -> Report:
    return Report("env", not_checked=(NotChecked(f"local rank {rank}", why),))


def is_private(folder: Path) -> bool:
    """Return whether a folder is this user's alone, and no link to another user's folder."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    owned = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    return folder.is_dir() and not folder.is_symlink() and owned


def _sweep(parent: Path) -> None:
    """Remove what killed runs of this user left."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    for old in parent.glob(f"distcheck-{user}-*"):
        with contextlib.suppress(OSError):
            if time.time() - old.lstat().st_mtime > _STALE_S:
                _remove(old)


def _remove(folder: Path) -> None:
    """Remove a folder with our files alone: a neighbor may have given another folder of this user its name."""
    with contextlib.suppress(OSError), private_folder(str(folder)) as number:
        if all(map(_FILES.fullmatch, os.listdir(folder if number is None else number))):
            remove_files(str(folder), number, _FILES)
