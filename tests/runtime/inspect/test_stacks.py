"""What py-spy says of a process: read, explained where it can't, and laid side by side."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from distcheck.core.model import Unavailable
from distcheck.core.world import World
from distcheck.runtime.coordination.model import CollectiveCall, Frame
from distcheck.runtime.inspect.stacks import (
    call_of,
    find_py_spy,
    is_own,
    parse,
    read_stack,
    waits_for_children,
    why_not,
)

C10D = "torch/distributed/distributed_c10d.py"
WRAPPER = Frame("torch/distributed/c10d_logger.py", 83, "_exception_logger.<locals>.wrapper")
OWN = Frame("train.py", 16, "train", True)


def library(path: str, function: str) -> Frame:
    return Frame(path, 1, function)


def dumped(*threads: tuple[str, int, list[tuple[str, str, int]]]) -> str:
    return json.dumps(
        [
            {
                "pid": 9, "thread_name": name, "os_thread_id": number, "active": False, "owns_gil": name == "MainThread",
                "frames": [{"name": function, "filename": path, "line": line} for function, path, line in frames],
            }
            for name, number, frames in threads
        ]
    )  # fmt: skip


def test_the_main_thread_comes_first_with_paths_as_a_user_would_name_them() -> None:
    text = dumped(
        ("pin_memory", 11, [("run", "/usr/lib/python3.11/threading.py", 1)]),
        (
            "MainThread",
            9,
            [("all_reduce", f"/v/site-packages/{C10D}", 3252), ("train", "/home/u/run/src/train.py", 16)],
        ),
    )
    main, other = parse(text, 9, "/home/u/run")
    assert main.frames == (Frame(C10D, 3252, "all_reduce"), Frame("src/train.py", 16, "train", True))
    assert (main.main, other.main, other.name) == (True, False, "pin_memory")


def test_in_a_container_the_main_thread_is_known_by_its_name() -> None:
    assert parse(dumped(("MainThread", 1, [])), 4711)[0].main


@pytest.mark.parametrize("text", ["", "[", "{}", '[{"frames": 1}]', '[{"frames": [{"filename": "a"}]}]', "[3]"])
def test_what_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text, 1)


def test_whose_code_it_is() -> None:
    assert is_own("/home/u/train.py")
    assert not is_own("/v/lib/python3.11/site-packages/torch/x.py")
    assert not is_own("<frozen runpy>")
    assert not is_own(__import__("distcheck.runtime.inspect.stacks", fromlist=["x"]).__file__)


@pytest.mark.parametrize(
    "frames, operation",
    [
        ([library(C10D, "all_reduce"), WRAPPER, OWN], "all_reduce"),
        ([library(C10D, "all_gather"), WRAPPER, library(C10D, "all_gather_object"), WRAPPER, OWN], "all_gather_object"),
        ([library(C10D, "all_gather_into_tensor"), WRAPPER, library("torch/distributed/fsdp/_x.py", "_unshard"), OWN], "all_gather_into_tensor"),
        ([library("torch/distributed/rendezvous.py", "_create_c10d_store"), library(C10D, "init_process_group"), OWN], "init_process_group"),
        ([library("torch/distributed/_functional_collectives.py", "wait_tensor"), OWN], "wait_tensor"),
        ([library("torch/nn/parallel/distributed.py", "DistributedDataParallel._sync_buffers"), OWN], "DistributedDataParallel._sync_buffers"),
        ([library("torch/autograd/graph.py", "_engine_run_backward"), library("torch/_tensor.py", "Tensor.backward"), OWN], "backward"),
        ([library("torch/cuda/__init__.py", "synchronize"), OWN], "cuda.synchronize"),
    ],
)  # fmt: skip
def test_a_stack_tells_the_collective(frames: list[Frame], operation: str) -> None:
    assert call_of(frames) == CollectiveCall(0, operation, place="train.py:16", function="train")


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [OWN],
        [library("torch/nn/modules/linear.py", "Linear.forward"), OWN],
        [library("torch/cuda/__init__.py", "device_count"), OWN],
        # a function of the user's that a collective calls back is no collective
        [OWN, library(C10D, "all_reduce")],
        [library("torch/utils/data/dataloader.py", "_next_data"), OWN],
    ],
)
def test_what_is_no_collective(frames: list[Frame]) -> None:
    assert call_of(frames) is None


def test_a_parent_that_waits_for_its_children() -> None:
    assert waits_for_children(
        [library("selectors.py", "select"), library("torch/multiprocessing/spawn.py", "ProcessContext.join"), OWN]
    )
    assert not waits_for_children([library("torch/utils/data/dataloader.py", "_try_get_data"), OWN])


@pytest.mark.parametrize(
    "error, yama, user, told",
    [
        ("Error: Permission Denied: Try running again with sudo", 1, 1000, "ptrace_scope is 1"),
        ("Error: Operation not permitted (os error 1)", 0, 1000, "SYS_PTRACE"),
        ("Error: Permission denied (os error 13)", None, 0, "SYS_PTRACE"),
        ("Error: Permission denied (os error 13)", 3, 0, "no process may read"),
        ("Error: Failed to find python version from target process", 0, 0, "does not know the Python"),
        ("Error: No such process (os error 3)", 0, 0, "ended meanwhile"),
        ("Error: of a new kind\nmore", 0, 0, "py-spy: Error: of a new kind"),
        ("", 0, 0, "it printed nothing"),
    ],
)
def test_why_a_stack_can_not_be_had(error: str, yama: int | None, user: int, told: str) -> None:
    assert told in why_not(error, yama, user)


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_py_spy_is_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "python_executable", str(tmp_path / "elsewhere" / "python"))
    with pytest.raises(Unavailable, match="pip install py-spy"):
        find_py_spy(World({"PATH": str(tmp_path)}))
    made = program(tmp_path / "py-spy", "exit 0")
    assert find_py_spy(World({"PATH": str(tmp_path)})) == made


def test_nothing_is_ever_stopped(tmp_path: Path) -> None:
    made = program(tmp_path / "py-spy", 'echo "$@" >> "${0%/*}/asked"; echo "[]"')
    assert read_stack(World({}), made, 7) == ()
    assert "--nonblocking" in (tmp_path / "asked").read_text()


def test_a_torn_look_is_repeated(tmp_path: Path) -> None:
    text = 'echo x >> "${0%/*}/tries"; [ $(wc -l < "${0%/*}/tries") -ge 2 ] || { echo "Error: torn" >&2; exit 1; }; echo "[]"'
    assert read_stack(World({}), program(tmp_path / "py-spy", text), 7) == ()


def test_a_refusal_is_not(tmp_path: Path) -> None:
    text = 'echo x >> "${0%/*}/tries"; echo "Error: Permission denied" >&2; exit 1'
    with pytest.raises(Unavailable, match="memory"):
        read_stack(World({}), program(tmp_path / "py-spy", text), 7)
    assert (tmp_path / "tries").read_text() == "x\n"


def test_one_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distcheck.runtime.inspect.stacks.LIMIT_S", 0.3)
    with pytest.raises(Unavailable, match="did not answer within"):
        read_stack(World({}), program(tmp_path / "py-spy", "exec sleep 60"), 7)


@pytest.mark.parametrize("scope", ["1", "2", "3"])
def test_what_a_host_forbids_is_said(tmp_path: Path, scope: str) -> None:
    yama = tmp_path / "root" / "proc" / "sys" / "kernel" / "yama"
    yama.mkdir(parents=True)
    (yama / "ptrace_scope").write_text(f"{scope}\n")
    made = program(tmp_path / "py-spy", 'echo "Error: Operation not permitted (os error 1)" >&2; exit 1')
    with pytest.raises(Unavailable) as failed:
        read_stack(World({}, root=str(tmp_path / "root")), made, 7)
    # root may where scope is 1 or 2, so that it is something else that forbids it
    if scope == "3" or os.geteuid():
        assert f"ptrace_scope is {scope}" in failed.value.why
    else:
        assert "SYS_PTRACE" in failed.value.why


def test_a_loaders_worker_that_is_waited_for_is_no_rank() -> None:
    joins = [library("multiprocessing/process.py", "BaseProcess.join"), OWN]
    assert waits_for_children(joins)
    assert not waits_for_children(joins, of_spawn=True)
