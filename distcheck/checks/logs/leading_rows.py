"""Rows that lead the reading itself: where a traceback begins, and lines that only look like an error."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

#: Names of rows that lead the reading itself.
TRACEBACK = "traceback"
FRAME = "traceback-frame"
ERROR_LINE = "error-line"
EXCEPTION = "exception"
REPORTS = ("elastic-report", "worker-ended", "workers-ended")
RESTART = "restart"

#: Where a traceback begins, or a line that belongs to the next one stands.
STARTERS = (
    Signature(TRACEBACK, Kind.RECORD, r"Traceback \(most recent call last\)", ("Traceback (most recent call last):",)),
    Signature(
        TRACEBACK,
        Kind.RECORD,
        r"-- Process \d+ terminated with the following error",
        ("-- Process 1 terminated with the following error:",),
    ),
    Signature(
        FRAME,
        Kind.RECORD,
        r'File "[^"]{1,300}", line \d{1,7}, in \S',
        ('  File "/workspace/train.py", line 33, in main',),
    ),
)
#: Lines that only look like an error: what a person would search for. Healthy logs have some of them as well.
ERROR_LINES = tuple(
    Signature(ERROR_LINE, Kind.FAILURE, pattern, (example,))
    for pattern, example in (
        (r"\wError: ", "ValueError: no such layer"),
        (r"\wException: ", "data.ShardException: shard 3 is empty"),
        (r"\b[Ee]rror: ", "train.py: error: argument --lr: invalid float value"),
        (r"\b(?:ERROR|CRITICAL):(?: |[\w.]{1,100}:)", "ERROR: shard 3 is empty"),
        (r"[ \[|]ERROR[ \]|:]", "2026-03-01 10:00:00 ERROR loader: shard 3 is empty"),
        (r"[ \[|]CRITICAL[ \]|:]", "[CRITICAL] no data"),
        (r"\bFATAL\b", "FATAL: no data"),
        (r"\b[Ff]atal error", "Fatal error in MPI_Init"),
        (r"\bfatal: ", "fatal: not a git repository"),
        (r"Fatal Python error", "Fatal Python error: Segmentation fault"),
        (r"Segmentation fault", "Segmentation fault (core dumped)"),
        (r"terminate called", "terminate called after throwing an instance of 'std::bad_alloc'"),
        (r"\bAborted\b", "Aborted (core dumped)"),
        (r"core dumped", "Floating point exception (core dumped)"),
        (r"\bKilled\b", "run.sh: line 3:  4711 Killed                  python train.py"),
        (r"[Bb]us error", "Bus error (core dumped)"),
        (r"Illegal instruction", "Illegal instruction"),
        (r"command not found", "run.sh: line 3: torchrun: command not found"),
        (r"No such file or directory", "python: can't open file 'train.py': [Errno 2] No such file or directory"),
        (r"Permission denied", "bash: ./run.sh: Permission denied"),
        (r"Assertion .{1,300} failed", "a.cpp:3: int main(): Assertion `n > 0' failed."),
        (r"\bpanic: ", "panic: runtime error: index out of range"),
    )
)
