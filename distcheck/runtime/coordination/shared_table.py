"""Compares the calls of the ranks of one host in shared memory, before each call begins.

gloo ends a process if sizes differ, and its launcher ends the others: no process stays to report it. So the first rank
that reaches a call writes its digest here, and a rank with another digest knows before it calls torch. No rank waits or
locks. If several ranks write at the same instant, each finds nothing and overwrites the other. So each writes its call
to its own slot first, and checks the own slots of the others after it wrote the common one: the later rank sees the
earlier one. A checksum in each slot separates a half-written call from one that differs.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import stat
import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .model import CollectiveCall

#: One slot: group, index, digest, time (monotonic, of this boot), rank, length of the text, checksum of these and of
#: the text; then the call as JSON.
_HEAD = struct.Struct("=IIQdIII")
#: The first three: they identify a call.
_KEY = struct.Struct("=IIQ")
_SLOT = 512
_SLOTS = 512
#: The head of the table: the number of ranks that opened it, and until when all of them send details. The own slots of
#: this host's ranks follow, then the common slots.
_COUNT, _DEADLINE = struct.Struct("=I"), struct.Struct("=d")
_DEADLINE_AT = 8
_OWN_SLOTS = _SLOT
#: Seconds to open the table: without it, watch continues.
_LOCK_WITHIN_S = 0.5
_FOLDERS = ("/dev/shm", "/tmp")


class OtherRank(NamedTuple):
    """The call of another rank at the number of this call."""

    rank: int
    call: CollectiveCall


class SharedTable:
    """The table of a host, as one rank has it open.

    :param index: index of this rank on the host
    :param ranks: number of ranks on the host
    """

    def __init__(self, memory: mmap.mmap, rank: int, *, begun: float, index: int = 0, ranks: int = 1) -> None:
        self._memory = memory
        self._rank = rank
        self._slots = _OWN_SLOTS + ranks * _SLOT
        self._own = _OWN_SLOTS + index * _SLOT
        self._others = [slot for slot in range(_OWN_SLOTS, self._slots, _SLOT) if slot != self._own]
        #: older slots were written by an earlier attempt
        self._begun = begun
        self._groups: dict[tuple[str, int], int] = {}
        self._texts: dict[tuple[object, ...], bytes] = {}

    def compare(
        self, call: CollectiveCall, ordinal: int, digest: int, members: tuple[int, ...], generation: int
    ) -> OtherRank | None:
        """Write a call here, or return a different one that another rank of this host made at its number."""
        title = (call.group, generation)
        group = self._groups.get(title)
        if group is None:
            group = self._groups[title] = zlib.crc32(repr((title, members)).encode()) or 1
        at = self._slots + (group + ordinal) % _SLOTS * _SLOT
        text = self._text(call)
        head = (group, ordinal, digest, time.monotonic(), self._rank, len(text))
        made = _HEAD.pack(*head, _checksum(head, text)) + text
        self._memory[self._own : self._own + len(made)] = made
        slot = self._of_another_rank(at, group, ordinal)
        if not slot:
            self._memory[at : at + len(made)] = made
        elif digest == _HEAD.unpack_from(slot)[2]:
            return None
        # a slot that is half written, by one or two ranks, shows nothing; the own slots of its writers do
        return _mismatch_in(slot, call, digest) or self._in_own_slots(call, group, ordinal, digest)

    def request_details(self, within_s: float) -> None:
        """Request details from all ranks of this host for so long."""
        _DEADLINE.pack_into(self._memory, _DEADLINE_AT, time.monotonic() + within_s)

    @property
    def details_requested(self) -> bool:
        """Return whether a rank of this host requests details."""
        (until,) = _DEADLINE.unpack_from(self._memory, _DEADLINE_AT)
        return bool(time.monotonic() < until)

    def _in_own_slots(self, call: CollectiveCall, group: int, ordinal: int, digest: int) -> OtherRank | None:
        for slot in self._others:
            there, number, other = _KEY.unpack_from(self._memory, slot)
            if number == ordinal and there == group and other != digest:
                found = _mismatch_in(self._of_another_rank(slot, group, ordinal), call, digest)
                if found is not None:
                    return found
        return None

    def _of_another_rank(self, at: int, group: int, ordinal: int) -> bytes:
        """Return the slot of another rank for this call, as one copy: it may be written meanwhile."""
        slot = self._memory[at : at + _SLOT]
        there, number, _, when, rank, _, _ = _HEAD.unpack_from(slot)
        same = there == group and number == ordinal and when >= self._begun and rank != self._rank
        return slot if same else b""

    def _text(self, call: CollectiveCall) -> bytes:
        key = call[1:]
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) > 4 * _SLOTS:  # sizes that differ with every call
                self._texts.clear()
            text = json.dumps(call._replace(number=0), separators=(",", ":")).encode()
            if len(text) > _SLOT - _HEAD.size:
                text = json.dumps(call._replace(number=0, sizes=(), dtypes=()), separators=(",", ":")).encode()
            text = self._texts[key] = text[: _SLOT - _HEAD.size]
        return text


def _mismatch_in(slot: bytes, call: CollectiveCall, digest: int) -> OtherRank | None:
    """Return the call of a slot that is whole and differs."""
    if not slot:
        return None
    *head, check = _HEAD.unpack_from(slot)
    other, rank, length = head[2], head[4], head[5]
    text = slot[_HEAD.size : _HEAD.size + length]
    if other == digest or check != _checksum(head, text):
        return None
    found = _read(text)
    return None if found is None else OtherRank(rank, found._replace(number=call.number))


def _checksum(head: Sequence[float], text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(_HEAD.pack(*head, 0)))


def _read(text: bytes) -> CollectiveCall | None:
    from .protocol import read_call

    try:
        return read_call(json.loads(text))
    except (ValueError, TypeError, RecursionError):  # written over meanwhile, or cut
        return None


def open_shared_table(environ: Mapping[str, str], rank: int, *, begun: float) -> SharedTable | None:
    """Return the table of this host, or None if no launcher states the number of ranks. The first rank creates it.

    :param begun: time.monotonic() when this process began
    """
    try:
        ranks = int(environ["LOCAL_WORLD_SIZE"])
    except (KeyError, ValueError):
        return None
    if ranks < 2:
        return None
    local_rank = environ.get("LOCAL_RANK", "")
    number = int(local_rank) if local_rank.isdecimal() else rank
    path = _path(environ)
    for folder in _FOLDERS:
        if path is None or not os.path.isdir(folder):
            continue
        full = os.path.join(folder, path)
        try:
            return SharedTable(_opened(full, ranks), rank, begun=begun, index=number % ranks, ranks=ranks)
        except OSError:  # no room, or no right
            continue
    return None


def _opened(path: str, ranks: int) -> mmap.mmap:
    size = _OWN_SLOTS + (ranks + _SLOTS) * _SLOT
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        found = os.fstat(file)
        # a neighbor may have linked another file of this user here (fs.protected_hardlinks=0)
        if found.st_uid != os.getuid() or found.st_nlink > 1 or not stat.S_ISREG(found.st_mode):
            raise PermissionError(path)
        _locked(file)
        if os.fstat(file).st_size < size:
            os.posix_fallocate(file, 0, size)
        memory = mmap.mmap(file, size)
        (count,) = _COUNT.unpack_from(memory, 0)
        # another process may have filled the file with anything
        count = min(count + 1, ranks)
        _COUNT.pack_into(memory, 0, count)
        if count >= ranks:
            # all ranks have opened it: no file stays behind, however they end
            os.unlink(path)
        # the memory keeps the file open, and with it the lock
        fcntl.flock(file, fcntl.LOCK_UN)
        return memory
    finally:
        os.close(file)


def _locked(file: int) -> None:
    """Lock the counter, which two ranks must not change at once; raise OSError if that takes too long."""
    end = time.monotonic() + _LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)
        else:
            return


#: Variables that identify one attempt of a job.
_OF_ATTEMPT = (
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "GROUP_RANK",
)  # fmt: skip


def _path(environ: Mapping[str, str]) -> str | None:
    """Return a name that all ranks of one job, host and attempt share, and no others: they have one parent."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", "rb") as file:
            started = file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None
    made = json.dumps([parent, started, os.getuid(), [environ.get(name, "") for name in _OF_ATTEMPT]])
    return f"distcheck-{parent}-{zlib.crc32(made.encode()):08x}"
