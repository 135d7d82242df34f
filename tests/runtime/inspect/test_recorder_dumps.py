"""The flight recorder of a rank that runs: asked through its pipe by one that answers as torch's does, and read."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distcheck.checks.logs.flight_recorder import read_dump
from distcheck.runtime.coordination.model import CollectiveCall
from distcheck.runtime.inspect import recorder_dumps
from distcheck.runtime.inspect.jobs import RankProcess
from distcheck.runtime.inspect.processes import RankCandidate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no named pipes to open in that way")

#: What ProcessGroupNCCL's monitor does: it makes the pipe, polls it, and writes a dump beside (torch 2.13).
ANSWERS = """
import os, sys, time
stem, dump, text = sys.argv[1:]
os.mkfifo(stem + "3.pipe")
pipe = os.open(stem + "3.pipe", os.O_RDONLY | os.O_NONBLOCK)
print("ready", flush=True)
while True:
    if os.read(pipe, 128):
        with open(dump + "3", "w") as file:
            file.write(text)
    time.sleep(0.05)
"""


def entry(
    number: int, operation: str = "all_reduce", state: str = "completed", group: tuple[str, str] = ("0", "default_pg")
) -> dict[str, object]:
    return {
        "profiling_name": f"nccl:{operation}", "collective_seq_id": number, "is_p2p": False, "process_group": list(group),
        "input_sizes": [[20, 3]], "input_dtypes": ["Float"], "state": state,
        "frames": [
            {"filename": "/v/site-packages/torch/distributed/distributed_c10d.py", "line": 1, "name": "all_reduce"},
            {"filename": "/home/u/train.py", "line": 88, "name": "train"},
        ],
    }  # fmt: skip


def dump_of(*entries: dict[str, object]) -> dict[str, object]:
    return {"version": "2.10", "rank": 3, "entries": list(entries), "pg_config": {"0": {"ranks": "[0, 1, 2, 3]"}}}


OPEN = dump_of(entry(411), entry(412, state="started"), entry(413, "barrier", "scheduled"))


def rank(tmp_path: Path, pid: int = 0, **more: str) -> RankProcess:
    variables = {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/ask_",
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_",
        **more,
    }
    return RankProcess(3, RankCandidate(pid, 1, age_s=60.0, variables=variables, folder=str(tmp_path)))


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    started = []

    def start(text: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", ANSWERS, f"{tmp_path}/ask_", f"{tmp_path}/dump_", text], stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_rank_that_has_a_pipe_is_asked_and_its_dump_is_read(tmp_path: Path, answering: Callable[[str], int]) -> None:
    item = rank(tmp_path, answering(json.dumps(OPEN)))
    (tmp_path / "dump_3").write_text("an older one")
    os.utime(tmp_path / "dump_3", (1, 1))
    before = time.time()
    asked = recorder_dumps.request_dumps([item])
    assert asked == {3: ""}
    found = recorder_dumps.dumps([item], asked, before)
    assert recorder_dumps.open_call(found[3]) == CollectiveCall(
        412, "all_reduce", "0", ((20, 3),), ("Float",), place="train.py:88", function="train"
    )


def test_a_dump_is_read_as_data(tmp_path: Path) -> None:
    """One that was written since the process was started, by its watchdog, and that holds a call: it is not made."""

    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    (tmp_path / "dump_3").write_bytes(pickle.dumps(OPEN))
    assert 3 in recorder_dumps.dumps([rank(tmp_path)], {}, time.time())
    (tmp_path / "dump_3").write_bytes(pickle.dumps({"entries": [Harmful()]}))
    assert recorder_dumps.dumps([rank(tmp_path)], {}, time.time()) == {}
    assert not (tmp_path / "made").exists()


def test_one_of_an_earlier_start_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "dump_3").write_text(json.dumps(OPEN))
    os.utime(tmp_path / "dump_3", (time.time() - 120, time.time() - 120))
    assert recorder_dumps.dumps([rank(tmp_path)], {}, time.time()) == {}


def test_without_a_pipe_nobody_is_asked_or_waited_for(tmp_path: Path) -> None:
    start = time.monotonic()
    without = rank(tmp_path)
    without = without._replace(process=without.process._replace(variables={}))
    assert recorder_dumps.request_dumps([without]) == {}
    asked = recorder_dumps.request_dumps([rank(tmp_path)])
    assert "can't be opened: No such file" in asked[3]
    assert recorder_dumps.dumps([rank(tmp_path)], asked, time.time()) == {}
    assert time.monotonic() - start < 1


def test_what_is_no_pipe_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "ask_3.pipe").write_text("mine")
    assert "is no pipe" in recorder_dumps.request_dumps([rank(tmp_path)])[3]
    assert (tmp_path / "ask_3.pipe").read_text() == "mine"


def test_a_link_and_the_pipe_of_another_user_are_not_written(tmp_path: Path) -> None:
    """The path is the choice of the rank's user, and root can open everything."""
    os.mkfifo(tmp_path / "other")
    reader = os.open(tmp_path / "other", os.O_RDONLY | os.O_NONBLOCK)
    try:
        (tmp_path / "ask_3.pipe").symlink_to("other")
        assert "is no pipe" in recorder_dumps.request_dumps([rank(tmp_path)])[3]
        (tmp_path / "ask_3.pipe").unlink()
        (tmp_path / "other").rename(tmp_path / "ask_3.pipe")
        if os.geteuid() == 0:
            os.chown(tmp_path / "ask_3.pipe", 65534, 65534)
            assert "is the pipe of another user" in recorder_dumps.request_dumps([rank(tmp_path)])[3]
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)


def test_a_pipe_in_the_place_of_a_dump_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ordinary").write_text("x")
    ordinary = os.stat(tmp_path / "ordinary")
    os.mkfifo(tmp_path / "dump_3")
    # it was an ordinary file a moment ago
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: ordinary if "dump_3" in str(path) else real(path, **more))
    started = time.monotonic()
    assert recorder_dumps.dumps([rank(tmp_path)], {}, time.time()) == {}
    assert time.monotonic() - started < 5


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ask_3.pipe")
    start = time.monotonic()
    assert "can't be opened" in recorder_dumps.request_dumps([rank(tmp_path)])[3]
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(
    "variables, path",
    [
        ({"TORCH_FR_DUMP_TEMP_FILE": "/a/b_"}, "/a/b_3"),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/a/b_"}, "/a/b_3"),
        ({"TORCH_FR_DUMP_TEMP_FILE": "b_"}, "/run/of/u/b_3"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/torch/comm_lib_trace_rank_3"),
        ({"HOME": "/h"}, "/h/.cache/torch/comm_lib_trace_rank_3"),
    ],
)
def test_where_a_dump_stands(variables: dict[str, str], path: str) -> None:
    assert (
        recorder_dumps.dump_path(RankProcess(3, RankCandidate(0, 1, variables=variables, folder="/run/of/u"))) == path
    )


def test_which_call_is_open() -> None:
    def call(*entries: dict[str, object]) -> CollectiveCall | None:
        return recorder_dumps.open_call(read_dump(json.dumps(dump_of(*entries)).encode()))

    assert call(entry(1), entry(2)) is None
    sub = call(entry(1), entry(7, state="started", group=("1", "tp")))
    assert sub is not None
    assert (sub.number, sub.group) == (7, "1 tp")
    both = call(entry(7, state="started", group=("1", "tp")), entry(9, "barrier", "scheduled"))
    assert both is not None
    # what has started keeps what only stands in the queue
    assert (both.number, both.operation, both.group) == (7, "all_reduce", "1 tp")
    queued = call(entry(7, state="scheduled", group=("1", "tp")), entry(9, "barrier", "scheduled"))
    assert queued is not None
    assert (queued.number, queued.group) == (9, "0")


def test_how_far_a_rank_has_come_in_each_group() -> None:
    dump = read_dump(
        json.dumps(dump_of(entry(411), entry(7, group=("1", "tp")), entry(412, state="scheduled"))).encode()
    )
    assert recorder_dumps.entered(dump) == {"0": 412, "1 tp": 7}
