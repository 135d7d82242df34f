"""Processes that a script starts by multiprocessing pass one door, however they are started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck.runtime.coordination.child_processes import rank_info_in

DOOR = """
import os
def door(given):
    log = open(given, "a")
    def told(ended):
        log.write(f"{os.getpid()} {ended.state} {ended.status} {ended.detail}\\n")
        log.flush()
    log.write(f"{os.getpid()} passed\\n")
    log.flush()
    return told
"""
SCRIPT = """
import multiprocessing, os, sys
def work(what):
    print(os.getpid(), what, flush=True)
    if what == "raise":
        raise ValueError("a bad file")
    if what == "exit":
        sys.exit(7)
if __name__ == "__main__":
    from distcheck.runtime.coordination.child_processes import follow
    follow("doors:door", sys.argv[2])
    context = multiprocessing.get_context(sys.argv[1])
    for what in ("end", "raise", "exit"):
        process = context.Process(target=work, args=(what,))
        process.start()
        process.join()
        print(process.pid, process.exitcode, flush=True)
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_each_child_passes_the_door_once_and_tells_its_end(tmp_path: Path, method: str) -> None:
    (tmp_path / "doors.py").write_text(DOOR)
    (tmp_path / "script.py").write_text(SCRIPT)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    done = subprocess.run(
        [sys.executable, "script.py", method, "log"], cwd=tmp_path, env=environ, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pids = [line.split()[0] for line in done.stdout.splitlines() if line.split()[1] in ("end", "raise", "exit")]
    assert len(pids) == 3, done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if line.split()[1].isdigit()] == ["0", "1", "7"]
    log = (tmp_path / "log").read_text().splitlines()
    assert [line for line in log if line.split()[0] in pids] == [
        f"{pids[0]} passed", f"{pids[0]} left 0 ",
        f"{pids[1]} passed", f"{pids[1]} raised 1 ValueError: a bad file",
        f"{pids[2]} passed", f"{pids[2]} left 7 ",
    ]  # fmt: skip
    # the traceback of the child is the script's own
    assert "ValueError: a bad file" in done.stderr
    if sys.version_info >= (3, 11):
        assert "distcheck" not in done.stderr


def test_a_door_that_does_not_open_is_said_and_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "doors.py").write_text("raise RuntimeError('locked')")
    (tmp_path / "script.py").write_text(SCRIPT)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    done = subprocess.run(
        [sys.executable, "script.py", "fork", "log"], cwd=tmp_path, env=environ, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "is not observed: RuntimeError: locked" in done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if line.split()[1].isdigit()] == ["0", "1", "7"]


@pytest.mark.parametrize(
    ("args", "kwargs", "environ", "expected"),
    [
        (("gloo",), {"rank": 1, "world_size": 4}, {}, (1, 4)),
        (("gloo", "tcp://localhost:1?rank=2&world_size=4"), {}, {"RANK": "0", "WORLD_SIZE": "1"}, (2, 4)),
        (("gloo", None, None, 4, 3), {}, {}, (3, 4)),
        ((), {}, {"RANK": "0", "WORLD_SIZE": "2"}, (0, 2)),
        ((), {"world_size": 4}, {"RANK": "3", "WORLD_SIZE": "8"}, (3, 4)),
        # from a store, or MPI: only torch can tell
        ((), {"rank": 1}, {}, None),
        ((), {}, {}, None),
    ],
)
def test_which_rank_a_process_says_it_is(
    args: tuple[object, ...], kwargs: dict[str, object], environ: dict[str, str], expected: tuple[int, int] | None
) -> None:
    assert rank_info_in(args, kwargs, environ) == expected
