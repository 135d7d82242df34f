"""What a few words mean that people type instead of a line of a log: ``nccl timeout``, ``exit code -9``.

Such words are no evidence. An entry applies to exactly its words. It states what to search for, and which rules such a
failure can have.
"""

from __future__ import annotations

from typing import NamedTuple

from distcheck.core.patterns import lazy


class Shorthand(NamedTuple):
    """What some words mean."""

    #: rules that such a failure can have, the most frequent first
    codes: tuple[str, ...]
    #: what it mostly is and what to search for, as sentences
    search_for: str


_WORD = lazy(r"-?[\w]+")
#: Longest text of a few words, in characters and words.
_LONGEST, _MOST_WORDS = 60, 6
#: Words that change nothing.
_FILLERS = frozenset(
    """
    a an and at by ddp distributed during error errors exception failed failure fails fsdp got i in is issue
    job my of on or problem process python pytorch rank ranks run the to torch torchrun training when while
    with
    """.split()  # noqa: SIM905 - reads better than fifty quoted words
)
_SAME = {
    "timed": "timeout", "times": "timeout", "time": "timeout", "timeouts": "timeout", "rdzv": "rendezvous",
    "gpu": "cuda", "exitcode": "exit", "return": "exit", "status": "exit", "exited": "exit", "exits": "exit",
    "hanging": "hang", "hangs": "hang", "hung": "hang", "stuck": "hang", "deadlock": "hang", "freeze": "hang",
    "frozen": "hang",
    "segmentation": "segfault", "sigsegv": "segfault", "allreduce": "collective", "all_reduce": "collective",
    "barrier": "collective", "allgather": "collective", "killed": "sigkill",
}  # fmt: skip

_TIMEOUT = Shorthand(
    ("DC511", "DC501", "DC518"),
    "Ranks wait for one that does not come. Search for the first error of any rank before the time-out, and "
    "for a rank that ended or is slower.",
)
_HANG = Shorthand(
    ("DC511", "DC501", "DC517"),
    "Ranks wait for one that does not come. 'distcheck stuck' shows where each rank of a running job waits. "
    "After the time-out, search for the first error of any rank.",
)
_REFUSED = Shorthand(
    ("DC403", "DC401"),
    "Nothing listens at that address and port. Search for the address in the line. If it is MASTER_ADDR, rank "
    "0 has not started, has ended, or uses another port.",
)
_CUDA_MEMORY = Shorthand(
    ("DC303", "DC305"),
    "Mostly the model, its activations or the batch do not fit, which no rule describes. Search for two ranks "
    "on one GPU, and for processes of an earlier run (nvidia-smi).",
)
_MEMORY = Shorthand(
    ("DC323", "DC303", "DC305"),
    "Search for 'CUDA out of memory', which is the memory of a GPU. Exit code -9 and oom_kill are about the "
    "memory of the host.",
)
_RENDEZVOUS = Shorthand(
    ("DC501", "DC403", "DC804"),
    "Fewer nodes joined than the launcher waits for. Search for a node whose launcher did not start, counts "
    "other nodes, or does not reach the endpoint.",
)
_KILLED = Shorthand(
    ("DC323", "DC125"),
    "Signal 9 (SIGKILL) ended the process: mostly the kernel that had no memory left. Search for oom_kill in "
    "'dmesg', and for messages of the scheduler.",
)
_BUS_ERROR = Shorthand(
    ("DC320",),
    "Signal 7 (SIGBUS) ended the process: mostly /dev/shm is full. Search for its size: 'df -h /dev/shm'.",
)
_SEGFAULT = Shorthand(
    (),
    "Signal 11 (SIGSEGV) ended the process in native code, which no rule describes. Start again with "
    "PYTHONFAULTHANDLER=1, and search for the stack.",
)
_ABORTED = Shorthand(
    ("DC511",),
    "Signal 6 (SIGABRT) ended the process. Search for the error above it: a watchdog's time-out, or a CUDA error.",
)
_ENDED = Shorthand(
    ("DC518", "DC125"),
    "Signal 15 (SIGTERM) ended the process. Its launcher or a scheduler sent it. Search for the rank that "
    "failed before.",
)
_PORT = Shorthand(
    ("DC401", "DC402"),
    "Another process uses the port. Search for the port in the line.",
)
_NAN = Shorthand(
    (),
    "No rule describes the numbers of a training. Search for the first step and the rank with NaN.",
)

_TEXTS = {
    _TIMEOUT: "nccl timeout, watchdog timeout, collective timeout, nccl watchdog timeout, "
    "nccl collective timeout, nccl watchdog, watchdog, nccl timeout out",
    _HANG: "hang, nccl hang, collective hang, nccl collective hang",
    _REFUSED: "connection refused, refused, connection refused errno 111, errno 111",
    _CUDA_MEMORY: "cuda oom, cuda out memory, cuda memory",
    _MEMORY: "oom, out memory, oom memory",
    _RENDEZVOUS: "rendezvous, rendezvous timeout, rendezvous timeout out, rendezvous hang",
    _KILLED: "sigkill, oom sigkill, signal 9, -9, code -9, exit -9, exit code -9, exit 137, exit code 137",
    _BUS_ERROR: "bus, sigbus, signal 7, code -7, exit -7, exit code -7, exit 135, exit code 135",
    _SEGFAULT: "segfault, segfault fault, signal 11, code -11, exit -11, exit code -11, exit 139, exit code 139",
    _ABORTED: "sigabrt, aborted, signal 6, code -6, exit -6, exit code -6, exit 134, exit code 134",
    _ENDED: "sigterm, signal 15, code -15, exit -15, exit code -15, exit 143, exit code 143",
    _PORT: "port use, port already use, address use, eaddrinuse, errno 98",
    _NAN: "nan, nan loss",
}
_ENTRIES = {frozenset(words.split()): entry for entry, texts in _TEXTS.items() for words in texts.split(", ")}


def shorthand(text: str) -> Shorthand | None:
    """Return what a text of a few words means, or None if no entry has exactly these words."""
    if len(text) > _LONGEST:
        return None
    words = [word.lower() for word in _WORD.findall(text)]
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    return _ENTRIES.get(frozenset(_SAME.get(word, word) for word in words if word not in _FILLERS))
