"""Calls of one host side by side in shared memory."""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from distcheck.runtime.coordination import shared_table as module
from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.call_signatures import KINDS
from distcheck.runtime.coordination.model import CollectiveCall
from distcheck.runtime.coordination.shared_table import OtherRank, SharedTable, open_shared_table

ENVIRON = {"LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
BOTH = (0, 1)


def call(size: int = 20, number: int = 412) -> CollectiveCall:
    return CollectiveCall(number, "all_reduce", "0", ((size,),), ("float32",), "sum", None, "train.py:88", "main")


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SharedTable, SharedTable]]:
    monkeypatch.setattr(module, "_FOLDERS", (str(tmp_path),))
    begun = time.monotonic()
    first = open_shared_table(ENVIRON, 0, begun=begun)
    assert first is not None
    assert len(list(tmp_path.iterdir())) == 1
    second = open_shared_table(ENVIRON, 1, begun=begun)
    assert second is not None
    # the last one that comes takes its name away: nothing is left behind
    assert list(tmp_path.iterdir()) == []
    yield first, second


@pytest.mark.parametrize("how", ["hard link", "link", "another user", "pipe", "nothing"])
def test_bad_a_table_that_a_neighbor_prepared_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its name can be guessed: a hard link to a file of this user was filled with the table."""
    if how == "another user" and os.geteuid() != 0:
        pytest.skip("gives a file to another user")
    folders = [tmp_path / "shm", tmp_path / "tmp"]
    monkeypatch.setattr(module, "_FOLDERS", tuple(map(str, folders)))
    (victim := tmp_path / "victim").write_bytes(b"mine")
    for folder in folders:
        folder.mkdir()
        name = folder / str(module._path(ENVIRON))
        if how == "hard link":
            os.link(victim, name)
        elif how == "link":
            name.symlink_to(victim)
        elif how == "another user":
            name.write_bytes(b"\xff" * 1_000_000)
            name.chmod(0o666)
            os.chown(name, 12345, 12345)
        elif how == "pipe":
            os.mkfifo(name)
    table = open_shared_table(ENVIRON, 0, begun=time.monotonic())
    assert (table is not None) == (how == "nothing")
    assert victim.read_bytes() == b"mine"
    if how == "another user":
        assert {path.read_bytes() for folder in folders for path in folder.iterdir()} == {b"\xff" * 1_000_000}


def test_bad_a_table_with_any_content_ends_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter that was full raised an exception in the script of the rank."""
    monkeypatch.setattr(module, "_FOLDERS", (str(tmp_path),))
    (tmp_path / str(module._path(ENVIRON))).write_bytes(b"\xff" * (1 << 20))
    table = open_shared_table(ENVIRON, 0, begun=time.monotonic())
    assert table is not None
    assert not list(tmp_path.iterdir())
    assert not table.details_requested


def test_good_equal_calls_meet(boards: tuple[SharedTable, SharedTable]) -> None:
    for ordinal in range(1, 2000):
        for board in boards:
            assert board.compare(call(), ordinal, 7 * ordinal, BOTH, 0) is None


def test_bad_the_second_that_comes_sees_the_difference(boards: tuple[SharedTable, SharedTable]) -> None:
    """DC517, before torch is called: gloo would end the process."""
    assert boards[0].compare(call(20), 5, 111, BOTH, 0) is None
    found = boards[1].compare(call(19), 5, 222, BOTH, 0)
    assert found is not None
    assert (found.rank, found.call) == (0, call(20))


@pytest.mark.parametrize(
    ("ordinal", "digest", "members", "generation"),
    [
        # another call, another group of that name, another life of the group
        (6, 222, BOTH, 0),
        (5, 222, (0, 1, 2), 0),
        (5, 222, BOTH, 1),
        # the same
        (5, 111, BOTH, 0),
    ],
)
def test_good_what_need_not_be_equal(
    boards: tuple[SharedTable, SharedTable], ordinal: int, digest: int, members: tuple[int, ...], generation: int
) -> None:
    assert boards[0].compare(call(20), 5, 111, BOTH, 0) is None
    assert boards[1].compare(call(19), ordinal, digest, members, generation) is None


def test_good_what_an_earlier_round_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that begins anew has the same name for it; its processes are younger."""
    monkeypatch.setattr(module, "_FOLDERS", (str(tmp_path),))
    environ = {**ENVIRON, "LOCAL_WORLD_SIZE": "3"}
    before = open_shared_table(environ, 0, begun=time.monotonic())
    assert before is not None
    before.compare(call(20), 5, 111, BOTH, 0)
    again = open_shared_table(environ, 1, begun=time.monotonic())
    assert again is not None
    assert again.compare(call(19), 5, 222, BOTH, 0) is None


def test_a_call_too_long_for_its_slot_is_told_without_sizes(boards: tuple[SharedTable, SharedTable]) -> None:
    long = call()._replace(sizes=((1234, 5678),) * 60, dtypes=("float32",) * 60)
    assert boards[0].compare(long, 5, 111, BOTH, 0) is None
    found = boards[1].compare(call(), 5, 222, BOTH, 0)
    assert found is not None
    assert (found.call.sizes, found.call.place) == ((), "train.py:88")


def test_all_ranks_of_the_host_are_asked_for_a_while(boards: tuple[SharedTable, SharedTable]) -> None:
    assert not boards[0].details_requested
    boards[1].request_details(30.0)
    assert boards[0].details_requested
    boards[1].request_details(0.0)
    assert not boards[0].details_requested
    # what is asked stands beside the calls
    for ordinal in range(1, 2000):
        for board in boards:
            assert board.compare(call(), ordinal, 7 * ordinal, BOTH, 0) is None
    assert not boards[0].details_requested


@pytest.mark.parametrize("environ", [{}, {"LOCAL_WORLD_SIZE": "1"}, {"LOCAL_WORLD_SIZE": "two"}])
def test_without_others_there_is_none(environ: dict[str, str]) -> None:
    assert open_shared_table(environ, 0, begun=0.0) is None


def test_one_that_can_not_be_opened_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds its lock, or there is no folder for it: the job must not notice."""
    import fcntl

    monkeypatch.setattr(module, "_FOLDERS", (str(tmp_path), str(tmp_path / "missing")))
    monkeypatch.setattr(module, "_LOCK_WITHIN_S", 0.05)
    path = module._path(ENVIRON)
    assert path is not None
    file = os.open(tmp_path / path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        assert open_shared_table(ENVIRON, 0, begun=0.0) is None
    finally:
        os.close(file)


def test_good_a_slot_that_is_being_written(boards: tuple[SharedTable, SharedTable]) -> None:
    """Whoever reads between two bytes of a writer sees neither the call before nor this one, and no difference."""
    memory = boards[0]._memory
    assert boards[0].compare(call(), 5, 0x1122334455, BOTH, 0) is None
    at = memory.rfind(struct.pack("=Q", 0x1122334455))
    for byte in range(5):
        whole = memory[at + byte]
        memory[at + byte] = 0
        assert boards[1].compare(call(), 5, 0x1122334455, BOTH, 0) is None
        memory[at + byte] = whole
    found = boards[1].compare(call(19), 5, 222, BOTH, 0)
    assert found is not None
    assert found.call == call()


@pytest.mark.parametrize("half", [False, True])
def test_bad_two_that_look_at_the_same_instant(boards: tuple[SharedTable, SharedTable], half: bool) -> None:
    """Both find nothing, and write over each other, or half over each other: the desk tells."""
    first, second = boards
    memory = second._memory
    second.compare(call(19), 5, 222, BOTH, 0)
    # the slot as it was before that, or with the text of another
    at = memory.rfind(struct.pack("=Q", 222)) - 8
    memory[at + module._HEAD.size if half else at : at + module._SLOT] = bytes(module._SLOT - half * module._HEAD.size)
    found = first.compare(call(20), 5, 111, BOTH, 0)
    assert found is not None
    assert (found.rank, found.call) == (1, call(19))


def test_bad_of_two_at_once_at_least_one_sees_it() -> None:
    """Two processes that come to each call at the same microsecond."""
    rounds = 3000
    memory, steps, seen = mmap.mmap(-1, 1 << 20), mmap.mmap(-1, 4096), mmap.mmap(-1, 2 * rounds)

    def calls(side: int) -> None:
        board = SharedTable(memory, side, begun=0.0, index=side, ranks=2)
        for ordinal in range(1, rounds):
            struct.pack_into("=I", steps, 64 * side, ordinal)
            while struct.unpack_from("=I", steps, 64 * (1 - side))[0] < ordinal:
                pass
            if board.compare(call(20 - side), ordinal, 2 * ordinal + side, BOTH, 0) is not None:
                seen[side * rounds + ordinal] = 1

    child = os.fork()
    if child == 0:
        try:
            calls(1)
        finally:
            os._exit(0)
    calls(0)
    os.waitpid(child, 0)
    assert [ordinal for ordinal in range(1, rounds) if not seen[ordinal] and not seen[rounds + ordinal]] == []


class Group:
    """The default group of a torch that is not here."""

    group_name = "0"

    def _get_sequence_number_for_group(self) -> int:
        return 0


@pytest.mark.parametrize(("operation", "told"), [("barrier", 0), ("all_reduce", 1)])
def test_calls_that_are_alike_are_not_told_though_an_earlier_one_differed(operation: str, told: int) -> None:
    """A digest is of all calls up to one: from the first that differed on, all differ."""
    found: list[object] = []
    posts = CallRecorder()
    posts._module = SimpleNamespace(
        _get_default_group=Group, get_process_group_ranks=lambda _: BOTH, get_backend=lambda _: "gloo"
    )
    table = SimpleNamespace(compare=lambda *_: OtherRank(1, CollectiveCall(1, operation, place="train.py:9")))
    posts.observe(SimpleNamespace(differs=lambda *seen: found.append(seen)), table)  # type: ignore[arg-type]
    posts._note("barrier", KINDS["barrier"], {})
    assert (len(found), posts._compares) == (told, False)
