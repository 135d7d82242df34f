"""The flight recorders of running ranks: requested through their pipes, and their dumps read as data.

An NCCL rank whose launch set TORCH_NCCL_DEBUG_INFO_PIPE_FILE has a pipe; a byte written there makes it dump its last
collectives and continue. Names: torch 2.13, ``ProcessGroupNCCL.hpp`` (DumpPipe) and ``FlightRecorder.cpp``.
"""

from __future__ import annotations

import ast
import contextlib
import os
import stat
import time
from collections.abc import Mapping, Sequence

from distcheck.checks.logs.flight_recorder import read_dump
from distcheck.checks.logs.model import Dump
from distcheck.core.files import read_ordinary
from distcheck.runtime.coordination.model import CollectiveCall

from .jobs import RankProcess

#: The monitor of torch polls the pipe once a second (TORCH_NCCL_COORD_CHECK_MILSEC), then writes.
WAIT_S = 6.0
_POLL_S = 0.1
#: torch's buffer of 2,000 entries with stacks takes some megabytes.
_LONGEST_DUMP = 256 * 1024 * 1024


def request_dumps(ranks: Sequence[RankProcess]) -> dict[int, str]:
    """Request a dump from each rank that has a pipe; return for each rank why that failed ("": it did not)."""
    answers = {}
    for item in ranks:
        stem = item.process.variables.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
        if stem:
            answers[item.rank] = _write(_seen_by(item, f"{stem}{item.rank}.pipe"), _owner(item.pid))
    return answers


def _owner(pid: int) -> int | None:
    """Return the user of a process; None if it exited."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _write(path: str, owner: int | None) -> str:
    """Write to the pipe of a process. The path is the choice of its user, and root can open everything.

    :param owner: the user of the process
    """
    try:
        # even to open a device can do harm (watchdog(4))
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            return f"{_shown(path)} is no pipe"
        # without a reader this fails at once
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        return f"its recorder's pipe {_shown(path)} can't be opened: {error.strerror}"
    try:
        found = os.fstat(handle)
        if not stat.S_ISFIFO(found.st_mode):
            return f"{_shown(path)} is no pipe"
        if found.st_uid not in (owner, os.geteuid()):
            return f"{_shown(path)} is the pipe of another user"
        os.write(handle, b"1")
    except OSError as error:
        return f"its recorder's pipe {_shown(path)} can't be written: {error.strerror}"
    finally:
        os.close(handle)
    return ""


def dumps(ranks: Sequence[RankProcess], requested: Mapping[int, str], since: float) -> dict[int, Dump]:
    """Return the dumps of ranks that wrote one; a requested dump is waited for.

    :param since: time of the request, in seconds since 1970
    """
    found: dict[int, Dump] = {}
    waiting = {rank for rank, why in requested.items() if not why}
    end = time.monotonic() + (WAIT_S if waiting else 0.0)
    while True:
        for item in ranks:
            # the clock of a file system may be a little behind
            fresh = since - 2.0 if item.rank in waiting else time.time() - item.process.age_s
            dump = None if item.rank in found else _read(dump_path(item), fresh)
            if dump is not None:
                found[item.rank] = dump
        if waiting <= found.keys() or time.monotonic() > end:
            return found
        time.sleep(_POLL_S)


def dump_path(item: RankProcess) -> str:
    """Return the path to which the recorder of a rank writes, as this process can open it."""
    variables = item.process.variables
    stem = variables.get("TORCH_FR_DUMP_TEMP_FILE") or variables.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    if not stem:
        cache = variables.get("XDG_CACHE_HOME") or f"{variables.get('HOME') or '/tmp'}/.cache"
        stem = f"{cache}/torch/comm_lib_trace_rank_"
    return _seen_by(item, f"{stem}{item.rank}")


def _seen_by(item: RankProcess, path: str) -> str:
    """Return a path as the rank's process sees it, which may be in a container and in another folder."""
    if not path.startswith("/"):
        path = f"{item.process.folder}/{path}"
    inside = f"/proc/{item.pid}/root{path}"
    return inside if os.path.lexists(inside) else path


def _shown(path: str) -> str:
    return path.partition("/root")[2] if path.startswith("/proc/") else path


def _read(path: str, fresh: float) -> Dump | None:
    """Return a dump that was written since; None if there is none, or it is incomplete."""
    with contextlib.suppress(OSError):
        # not a device, and not the pipe that replaces a file in the next moment
        if not stat.S_ISREG(os.stat(path).st_mode) or os.stat(path).st_mtime < fresh:
            return None
        dump = read_dump(read_ordinary(path, _LONGEST_DUMP))
        return None if dump.problem else dump
    return None


def open_call(dump: Dump) -> CollectiveCall | None:
    """The first collective that this rank has entered and that has not ended: one that has started before one that only
    stands in the queue, and one of the default group before those of others."""
    pending = [entry for entry in dump.entries if entry.state != "completed" and entry.sequence is not None]
    if not pending:
        return None
    # collectives of one group end in order: all others wait for the first
    entry = min(pending, key=lambda item: (item.state != "started", group_name(item.group) != "0", item.sequence or 0))
    sizes = _sizes(entry.sizes)
    dtypes = tuple(entry.dtypes.split(", ")) if entry.dtypes else ()
    place, _, function = entry.place.partition(" in ")
    return CollectiveCall(
        entry.sequence or 0,
        entry.operation,
        group_name(entry.group),
        sizes,
        dtypes * len(sizes) if len(dtypes) == 1 else dtypes[: len(sizes)],
        place=place,
        function=function,
    )


def entered(dump: Dump) -> dict[str, int]:
    """Return the number of the last collective that this rank entered in each group."""
    found: dict[str, int] = {}
    for entry in dump.entries:
        if entry.sequence is not None:
            name = group_name(entry.group)
            found[name] = max(found.get(name, 0), entry.sequence)
    return found


def group_name(name: str) -> str:
    """Return the name of a group; the default group is 0."""
    return "0" if "default_pg" in name or name == "0" else name


def _sizes(text: str) -> tuple[tuple[int, ...], ...]:
    try:
        sizes = ast.literal_eval(f"[{text}]")
    except (ValueError, SyntaxError):  # truncated
        return ()
    return tuple(tuple(size) for size in sizes if isinstance(size, list))
