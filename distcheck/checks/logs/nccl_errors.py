"""Errors that NCCL returned, by their classes, where nothing names a cause."""

from __future__ import annotations

import re
from collections.abc import Sequence

from distcheck import rules
from distcheck.core.model import Fix, rank_names
from distcheck.rules.signatures import Kind

from .context import same_writer
from .log_probe import LogFinding, signature_probe
from .model import Event, Timeline

_LAST_ERROR = re.compile(r"Last error:\s*(?P<text>[^\n]{1,200})")


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
