"""Ranks are run, watched and ended, whatever their body does; nothing of them is left."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import pytest

from distcheck.testing import RanksFailed, TorchMissing, run_ranks
from distcheck.testing.ranks import import_torch

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_torch = pytest.mark.torch


def rank() -> int:
    return int(os.environ["RANK"])


def barrier() -> None:
    import torch.distributed as dist

    dist.barrier()


def total(value: float) -> float:
    import torch
    import torch.distributed as dist

    tensor = torch.tensor([float(value)])
    dist.all_reduce(tensor)
    return tensor.item()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_until_gone(pids: list[int], seconds: float = 10.0) -> list[int]:
    end = time.monotonic() + seconds
    while time.monotonic() < end and (pids := [pid for pid in pids if not is_gone(pid)]):
        time.sleep(0.05)
    return pids


@needs_torch
def test_results_come_back_by_rank() -> None:
    assert run_ranks(3, lambda: total(rank())) == [3.0] * 3
    assert run_ranks(2, lambda word, *, times: word * (times + rank()), "ab", times=1) == ["ab", "abab"]


@needs_torch
def test_a_tensor_comes_back() -> None:
    import torch

    (first, _) = run_ranks(2, lambda: torch.arange(3) + rank())
    assert first.tolist() == [0, 1, 2]


@needs_torch
def test_the_environment_is_that_of_torchrun() -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    first, second = run_ranks(2, lambda: [os.environ.get(name) for name in names])
    assert first[:5] == ["0", "0", "2", "2", "127.0.0.1"]
    assert second[:2] == ["1", "1"]
    assert first[5] == second[5]
    assert "RANK" not in os.environ


@needs_torch
def test_torchs_debug_mode_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def body() -> None:
        import torch.distributed as dist

        # the one rank's shape differs: in this mode torch says so, else gloo would abort
        dist.all_reduce(torch.ones(1 + rank()))

    import torch
    import torch.distributed  # it reads the mode when it is imported, and breaks where it is another one later

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    with pytest.raises(RanksFailed, match="Detected mismatch between collectives on ranks"):
        run_ranks(2, body)


@needs_torch
def test_a_body_may_make_its_own_group() -> None:
    def body() -> int:
        import torch.distributed as dist

        assert not dist.is_initialized()
        dist.init_process_group("gloo")
        return dist.get_world_size() + int(total(1))

    assert run_ranks(2, body, init=False) == [4, 4]


@needs_torch
def test_a_body_may_destroy_the_group() -> None:
    def body() -> None:
        import torch.distributed as dist

        dist.destroy_process_group()

    assert run_ranks(2, body) == [None, None]


@needs_torch
def test_threads_of_the_parent_do_no_harm() -> None:
    """OpenMP's pool does not survive a fork: a rank that used it would hang."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        square = torch.ones(512, 512)
        expected = (square @ square).sum().item()
        assert run_ranks(2, lambda: (square @ square).sum().item(), timeout=30) == [expected] * 2
    finally:
        torch.set_num_threads(threads)


@needs_torch
def test_what_ranks_print_has_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        print(f"out {rank()}")
        print("half a line", end="", file=sys.stderr)
        barrier()
        os.write(1, b" and the rest\n")

    run_ranks(2, body)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [
        "[rank 0] half a line and the rest", "[rank 0] out 0", "[rank 1] half a line and the rest", "[rank 1] out 1",
    ]  # fmt: skip


@needs_torch
def test_one_that_raises_is_named_at_once_and_the_other_shown() -> None:
    def body() -> None:
        if rank() == 1:
            raise ValueError("no such shape")
        barrier()

    began = time.monotonic()
    with pytest.raises(RanksFailed, match=r"^rank 1 of 2 failed: ValueError: no such shape$") as caught:
        run_ranks(2, body, timeout=60)
    assert time.monotonic() - began < 20
    failures = caught.value.failures
    assert (failures[1].kind, failures[1].message) == ("ValueError", "no such shape")
    assert 'raise ValueError("no such shape")' in failures[1].text
    assert "call_body" not in failures[1].text
    assert failures[0].state == "running"
    assert "barrier" in failures[0].text


@needs_torch
def test_one_that_hangs_is_named_with_its_line() -> None:
    def body() -> None:
        if rank() == 1:
            time.sleep(600)
        barrier()

    with pytest.raises(
        RanksFailed, match=r"within 1 s: rank 1 is at .*test_ranks\.py:\d+ \(time.sleep\(600\)\)"
    ) as caught:
        run_ranks(2, body, timeout=1)
    assert str(caught.value).endswith("rank 0 waits in barrier (#1)")
    assert [title for title, _ in caught.value.sections] == ["rank 1 still running", "rank 0 still running"]


@needs_torch
def test_one_that_keeps_the_interpreter_is_asked_by_a_signal() -> None:
    def body() -> None:
        if rank() == 1:
            ctypes.PyDLL(None).sleep(600)  # it lets go of no lock
        barrier()

    with pytest.raises(RanksFailed, match=r"rank 1 is at .*PyDLL\(None\)\.sleep\(600\)"):
        run_ranks(2, body, timeout=1)


@needs_torch
def test_one_that_is_stopped_is_named() -> None:
    def body() -> None:
        if rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        barrier()

    with pytest.raises(RanksFailed, match=r"rank 1 is stopped \(SIGSTOP\); rank 0 waits in barrier"):
        run_ranks(2, body, timeout=1)


@needs_torch
def test_one_that_returns_early_is_named() -> None:
    with pytest.raises(RanksFailed, match=r"rank 0 waits in barrier \(#1\); rank 1 returned without it"):
        run_ranks(2, lambda: barrier() if rank() == 0 else None, timeout=1)


@needs_torch
@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os._exit(3), "it exited with status 3"),
        (lambda: os._exit(0), "it exited with status 0"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "it was killed by SIGKILL"),
        (lambda: ctypes.string_at(0), "it was killed by SIGSEGV"),
    ],
    ids=["exits", "exits-well", "killed", "crashes"],
)
def test_one_that_dies_is_named_with_how(end: Any, how: str) -> None:
    def body() -> None:
        if rank() == 1:
            end()
        barrier()

    with pytest.raises(RanksFailed, match=f"^rank 1 of 2 died: {how}$"):
        run_ranks(2, body)


@needs_torch
def test_a_crash_shows_its_stack_in_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RanksFailed, match="SIGSEGV"):
        run_ranks(1, lambda: ctypes.string_at(0))
    assert "[rank 0] Fatal Python error: Segmentation fault" in capsys.readouterr().out


@needs_torch
def test_an_exit_is_a_failure_unless_it_says_that_all_is_well() -> None:
    assert run_ranks(1, lambda: sys.exit(0)) == [None]
    with pytest.raises(RanksFailed, match="rank 0 of 1 failed: SystemExit: 3"):
        run_ranks(1, lambda: sys.exit(3))


@needs_torch
def test_a_skip_of_all_that_did_not_return_is_a_skip() -> None:
    def body() -> None:
        if rank() == 1:
            raise unittest.SkipTest("no GPU")

    with pytest.raises(unittest.SkipTest, match="no GPU"):
        run_ranks(2, body)


@needs_torch
def test_a_result_that_can_not_be_pickled_is_named_by_its_path() -> None:
    with pytest.raises(RanksFailed, match="returned what can't be pickled") as caught:
        run_ranks(1, lambda: {"state": [threading.Lock()]})
    assert "result['state'][0] (_thread.lock)" in caught.value.failures[0].text


@needs_torch
def test_nothing_is_left_not_even_what_ranks_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def body() -> None:
        child = subprocess.Popen(["sleep", "600"])
        with pids.open("a") as file:
            file.write(f"{os.getpid()} {child.pid} ")
        barrier()

    run_ranks(2, body)
    started = [int(word) for word in pids.read_text().split()]
    assert len(started) == 4
    assert not wait_until_gone(started, 1.0)


@needs_torch
def test_descriptors_and_threads_are_given_back() -> None:
    run_ranks(2, barrier)
    before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    for _ in range(3):
        run_ranks(2, barrier)
        with pytest.raises(RanksFailed):
            run_ranks(2, lambda: 1 / 0)
    assert (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))) == before


@needs_torch
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ranks_end_with_whoever_watches_them(tmp_path: Path, number: int) -> None:
    pids = tmp_path / "pids"
    program = (
        "import os, sys, time\n"
        "from distcheck.testing import run_ranks\n"
        "def body():\n"
        f"    open({str(pids)!r}, 'a').write(f'{{os.getpid()}} ')\n"
        "    time.sleep(600)\n"
        "run_ranks(2, body, timeout=300)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and (not pids.exists() or len(pids.read_text().split()) < 2):
            time.sleep(0.05)
        started = [int(word) for word in pids.read_text().split()]
        assert len(started) == 2
        process.send_signal(number)
        process.wait(20)
        assert not wait_until_gone(started)
    finally:
        process.kill()
        process.wait()


@needs_torch
def test_ranks_start_no_ranks() -> None:
    with pytest.raises(RanksFailed, match="ranks start no ranks"):
        run_ranks(1, lambda: run_ranks(1, barrier))


@needs_torch
@pytest.mark.slow
def test_spawned_ranks() -> None:
    assert run_ranks(2, total, 2, start="spawn") == [4.0, 4.0]
    with pytest.raises(RanksFailed, match=r"rank 0 of 1 failed: ValueError: could not convert string"):
        run_ranks(1, total, "x", start="spawn")


@needs_torch
def test_a_body_that_can_not_be_sent_to_a_spawned_rank_is_explained() -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match="this can't be pickled") as caught:
        run_ranks(1, lambda: lock, start="spawn")
    assert "sent['body']" in str(caught.value)
    with pytest.raises(TypeError, match="this can't be pickled") as caught:
        run_ranks(1, print, {"a": [lock]}, start="spawn")
    assert "sent['args'][0]['a'][0] (_thread.lock)" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"n": 0}, "number of ranks is 0"),
        ({"n": True}, "number of ranks is True"),
        ({"n": "2"}, "number of ranks is '2'"),
        ({"timeout": 0}, "timeout is 0"),
        ({"start": "forkserver"}, "start is 'forkserver'; expected 'fork' or 'spawn'"),
    ],
)
def test_what_is_not_right_is_said_before_anything_is_started(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        run_ranks(given.pop("n", 2), print, **given)


def test_a_body_must_be_a_function() -> None:
    with pytest.raises(TypeError, match=r"expected a function: distributed\(2, body\)"):
        run_ranks(2, print())  # type: ignore[func-returns-value,arg-type]


def test_without_torch_there_are_no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    with pytest.raises(TorchMissing, match="torch is not installed for"):
        run_ranks(2, print)


def test_a_torch_that_is_broken_is_not_a_missing_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import nothing_of_this_name\n")
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
        import_torch()


@needs_torch
def test_collectives_of_the_tests_own_process_are_no_ranks() -> None:
    """A forked process inherits the recorder of its parent."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.barrier()
        dist.all_gather_object([None], "before")
    finally:
        dist.destroy_process_group()

    def body() -> None:
        if dist.get_rank() == 0:
            time.sleep(600)
        dist.barrier()

    with pytest.raises(RanksFailed) as caught:
        run_ranks(2, body, timeout=1.0)
    told = caught.value.full_text()
    assert "last collectives: #1 barrier []" in told
    assert "all_gather" not in told
