"""Which rank failed: one test for each evidence and its place in the order, faulty and innocent ranks side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.logs.diagnose import diagnose, read_timeline
from distcheck.checks.logs.failed_rank import _EVIDENCE

_ROW = """{index}:
  time      : 2026-11-22_07:56:31
  host      : node01
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: {pid})
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""


def report(first: tuple[int, int], *others: tuple[int, int]) -> str:
    """Return torchrun's report of ranks with their exit codes."""
    rows = [
        _ROW.format(index=f"[{number}]", rank=rank, code=code, pid=4700 + rank)
        for number, (rank, code) in enumerate((first, *others))
    ]
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + "=" * 60
        + "\ntrain.py FAILED\n"
        + "-" * 60
        + "\nFailures:\n"
        + ("".join(rows[1:]) or "  <NO_OTHER_FAILURES>\n")
        + "-" * 60
        + "\nRoot Cause (first observed failure):\n"
        + rows[0]
        + "=" * 60
        + "\n"
    )


WAIT = (
    "[rank{rank}]:[E1122 07:56:31.182731234 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)
LOST = (
    "[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Connection closed by peer "
    "[127.0.0.1]:40112\n"
)
FRAMES = (
    '  File "/opt/env/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py", line 1787, in run_scheduler_process\n'
    "    scheduler = Scheduler(server_args)\n"
)


def story(text: str, folder: Path) -> dict[str, Any]:
    path = folder / "run.log"
    path.write_text(text, "utf-8")
    found = diagnose(read_timeline([str(path)])).story
    assert found is not None
    return dict(found)


def failed(text: str, folder: Path) -> dict[str, Any]:
    return dict(story(text, folder).get("guilty") or {})


def test_the_order_of_trust() -> None:
    assert [evidence.__name__ for evidence in _EVIDENCE] == [
        "_row_of_the_line", "_first_of_launchers", "_only_row", "_dead_worker", "_stated",
    ]  # fmt: skip


def test_the_writer_of_the_cause_comes_before_the_launchers_first(tmp_path: Path) -> None:
    raised = '[rank3]: Traceback (most recent call last):\n[rank3]:   File "t.py", line 3, in <module>\n[rank3]: '
    assert failed(f"{raised}KeyError: 'labels'\n{report((1, 1), (3, 1))}", tmp_path)["rank"] == 3


def test_what_launchers_saw_first_comes_before_a_statement(tmp_path: Path) -> None:
    text = "ERROR: validation failed on rank 2\n"
    assert failed(text, tmp_path)["rank"] == 2
    assert failed(text + report((1, 1), (2, 1)), tmp_path)["rank"] == 1


def test_a_rank_that_lost_its_peer_was_not_the_first(tmp_path: Path) -> None:
    assert failed(LOST.format(rank=0) + report((2, 7), (0, 1)), tmp_path)["rank"] == 2
    assert "rank" not in failed(LOST.format(rank=0) + report((0, 1), (2, 1)), tmp_path)


def test_an_error_line_of_one_that_lost_its_peer_is_no_cause(tmp_path: Path) -> None:
    relayed = (
        "[1,0]<stderr>:ERROR: 2 root errors found.\n"
        "[1,0]<stderr>:Unknown: Horovod has been shut down. This was caused by an exception on one of the ranks\n"
    )
    found = story(relayed, tmp_path)
    assert found["outcome"] == "consequences" and found["guilty"] == {}
    own = relayed.replace("[1,0]<stderr>:ERROR", "[1,1]<stderr>:ERROR")
    assert failed(own, tmp_path)["rank"] == 1


@pytest.mark.parametrize(
    "wait",
    [
        WAIT.format(rank=1),
        "[rank1]:[W1122 07:56:31.854597329 socket.cpp:489] [c10d] waitForInput: socket SocketImpl(fd=79, "
        "addr=[node01]:41170, remote=[node02]:29500) timed out after 1800000ms\n",
    ],
)
def test_an_exception_that_is_cut_off_below_a_wait_names_no_rank(wait: str, tmp_path: Path) -> None:
    cut = f"[2026-11-22 07:56:32 TP2] Scheduler hit an exception: Traceback (most recent call last):\n{FRAMES}"
    assert failed(cut, tmp_path)["rank"] == 2
    assert "rank" not in failed(wait + cut, tmp_path)
    assert failed(f"{wait}{cut}ValueError: 7 heads\n", tmp_path).get("rank") in (2, None)


@pytest.mark.parametrize("label", ["[TP3] ", "[DP3 TP3] ", "[2026-11-22 07:56:32 TP3 EP3] "])
def test_the_label_of_a_scheduler(label: str, tmp_path: Path) -> None:
    text = f"{label}Scheduler hit an exception: Traceback (most recent call last):\n{FRAMES}ValueError: 7 heads\n"
    assert failed(text, tmp_path)["rank"] == 3
    # stages of a pipeline count their own ranks
    assert "rank" not in failed(text.replace("TP3", "TP3 PP1").replace(" EP3", ""), tmp_path)


def test_vllms_executor_names_the_worker_that_it_found_dead(tmp_path: Path) -> None:
    text = "ERROR 11-22 07:56:31 [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down executor.\n"
    found = story(text, tmp_path)
    assert found["outcome"] == "consequences" and found["guilty"] == {"rank": 2}


def test_a_signal_of_composers_launcher(tmp_path: Path) -> None:
    found = story("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.\n", tmp_path)
    assert found["code"] == "DC320" and found["guilty"]["rank"] == 2
    assert story("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -11.\n", tmp_path)["code"] is None


def test_a_task_that_the_scheduler_ended_did_not_fail(tmp_path: Path) -> None:
    ended = "srun: error: node01: task 2: Terminated\n"
    both = f"srun: error: node01: tasks 1,3: Aborted\nsrun: Terminating StepId=5.0\n{ended}"
    assert "rank" not in failed(both, tmp_path)
    assert failed(f"srun: error: node01: task 1: Aborted\n{ended}", tmp_path)["rank"] == 1


def test_a_rank_that_had_to_be_ended_while_all_others_waited(tmp_path: Path) -> None:
    waits = WAIT.format(rank=1) + WAIT.format(rank=2)
    assert failed(waits + report((1, -6), (0, -15), (2, -6)), tmp_path)["rank"] == 0
    # no row of it: it may be on another host, or of no job
    assert "rank" not in failed(waits + report((1, -6), (2, -6)), tmp_path)


def test_a_report_that_is_cut_off_above_the_root_cause_names_no_first(tmp_path: Path) -> None:
    text = report((0, 1), (1, 1))
    assert failed(text, tmp_path)["rank"] == 0
    above, root = text.split("Root Cause (first observed failure):\n")
    assert "rank" not in failed(above, tmp_path)
    # rows without a heading may be those of the root cause
    assert failed(root, tmp_path)["rank"] == 0


def test_a_program_that_a_rank_ran_is_its_own_failure(tmp_path: Path) -> None:
    raised = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 48, in <module>\n'
        '    subprocess.run(["tar", "xf", "data.tar"], check=True)\n'
        '  File "/usr/lib/python3.11/subprocess.py", line 571, in run\n'
        "    raise CalledProcessError(retcode, process.args,\n"
        "subprocess.CalledProcessError: Command '['tar', 'xf', 'data.tar']' returned non-zero exit status 2.\n"
    )
    own = "".join(f"[rank1]: {line}\n" for line in raised.splitlines())
    found = story(own + LOST.format(rank=0) + report((1, 1), (0, 1)), tmp_path)
    assert found["outcome"] == "unnamed" and found["guilty"]["rank"] == 1
    # without a rank it may be that of a launcher
    assert story(raised, tmp_path)["outcome"] == "consequences"


def test_a_signal_that_torchrun_saw_first_is_not_its_own(tmp_path: Path) -> None:
    lost = "".join(
        "".join(
            f"[rank{rank}]: {line}\n"
            for line in (
                "Traceback (most recent call last):",
                '  File "train.py", line 19, in <module>',
                "    loss.backward()",
                "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Connection closed by peer "
                "[127.0.0.1]:40112",
            )
        )
        for rank in (0, 1)
    )
    assert failed(lost + report((2, -15), (0, 1), (1, 1)), tmp_path)["rank"] == 2
    # ended by torchrun: it is one of those that a missing rank kept waiting
    assert failed(lost + report((0, 1), (1, 1), (2, -15)), tmp_path).get("rank") != 2
