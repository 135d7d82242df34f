"""What torch's flight recorder says of ranks that run: asked through its pipe, its dumps read as data.

A rank of NCCL whose launch set TORCH_NCCL_DEBUG_INFO_PIPE_FILE has a pipe; whatever is written there makes it dump its
last collectives, and go on. Names: torch 2.13, ``ProcessGroupNCCL.hpp`` (DumpPipe) and ``FlightRecorder.cpp``.
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
from distcheck.runtime.coordination.model import CollectiveCall

from .jobs import RankProcess

#: Its monitor looks at the pipe once a second (TORCH_NCCL_COORD_CHECK_MILSEC), then writes.
WAIT_S = 6.0
_POLL_S = 0.1
#: torch's buffer of 2,000 entries with stacks takes some megabytes.
_LONGEST_DUMP = 256 * 1024 * 1024


def ask(ranks: Sequence[RankProcess]) -> dict[int, str]:
    """Ask each rank that has a pipe for a dump; by rank, why it could not be asked ("" where it was)."""
    answers = {}
    for item in ranks:
        stem = item.process.variables.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
        if stem:
            answers[item.rank] = _write(_seen_by(item, f"{stem}{item.rank}.pipe"))
    return answers


def _write(path: str) -> str:
    try:
        # without a reader this fails at once, and a file that is no pipe must not be written
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        return f"its recorder's pipe {_told(path)} can't be opened: {error.strerror}"
    try:
        if not stat.S_ISFIFO(os.fstat(handle).st_mode):
            return f"{_told(path)} is no pipe"
        os.write(handle, b"1")
    except OSError as error:
        return f"its recorder's pipe {_told(path)} can't be written: {error.strerror}"
    finally:
        os.close(handle)
    return ""


def dumps(ranks: Sequence[RankProcess], asked: Mapping[int, str], since: float) -> dict[int, Dump]:
    """The dumps of ranks that wrote one: of those that were asked, one that was written after that, waited for.

    :param since: when they were asked, in seconds since 1970
    """
    found: dict[int, Dump] = {}
    waiting = {rank for rank, why in asked.items() if not why}
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
    """Where the recorder of a rank writes, as this process can open it."""
    variables = item.process.variables
    stem = variables.get("TORCH_FR_DUMP_TEMP_FILE") or variables.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    if not stem:
        cache = variables.get("XDG_CACHE_HOME") or f"{variables.get('HOME') or '/tmp'}/.cache"
        stem = f"{cache}/torch/comm_lib_trace_rank_"
    return _seen_by(item, f"{stem}{item.rank}")


def _seen_by(item: RankProcess, path: str) -> str:
    """A path as the rank's process sees it, which may be in a container and in another folder."""
    if not path.startswith("/"):
        path = f"{item.process.folder}/{path}"
    inside = f"/proc/{item.pid}/root{path}"
    return inside if os.path.lexists(inside) else path


def _told(path: str) -> str:
    return path.partition("/root")[2] if path.startswith("/proc/") else path


def _read(path: str, fresh: float) -> Dump | None:
    """A dump that was written since; None where there is none, or it is not whole yet."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime < fresh or status.st_size > _LONGEST_DUMP:
            return None
        with open(path, "rb") as file:
            dump = read_dump(file.read())
        return None if dump.problem else dump
    return None


def open_call(dump: Dump) -> CollectiveCall | None:
    """The first collective that this rank has entered and that has not ended: one that has started before one that only
    stands in the queue, and one of the default group before those of others."""
    pending = [entry for entry in dump.entries if entry.state != "completed" and entry.sequence is not None]
    if not pending:
        return None
    # of one group they end in order: what stands first is what all others wait behind
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
    """Group → number of the last collective that this rank has entered there."""
    found: dict[str, int] = {}
    for entry in dump.entries:
        if entry.sequence is not None:
            name = group_name(entry.group)
            found[name] = max(found.get(name, 0), entry.sequence)
    return found


def group_name(name: str) -> str:
    """The default group is called 0."""
    return "0" if "default_pg" in name or name == "0" else name


def _sizes(text: str) -> tuple[tuple[int, ...], ...]:
    try:
        sizes = ast.literal_eval(f"[{text}]")
    except (ValueError, SyntaxError):  # cut off
        return ()
    return tuple(tuple(size) for size in sizes if isinstance(size, list))
