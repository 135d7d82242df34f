"""``distcheck run``: it looks first, the command is as it would be without us, and a failure is told."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck.cli import run
from distcheck.cli.run import log_folder
from distcheck.rules import Selection

from .test_cli import distcheck, environment

TAKEN = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, "
    "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)


def python(program: str) -> tuple[str, ...]:
    return "--", sys.executable, "-c", program


def test_a_command_that_succeeds_is_left_alone() -> None:
    result = distcheck("run", "--no-preflight", *python("print('hello')"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello\n", "")


def test_a_failure_is_told_on_standard_error_and_the_status_is_kept() -> None:
    program = f"import sys; print('step 1'); print({TAKEN!r}, file=sys.stderr); sys.exit(7)"
    result = distcheck("run", "--no-preflight", *python(program))
    assert (result.returncode, result.stdout) == (7, "step 1\n")
    assert result.stderr.startswith(TAKEN + "\n")
    assert "error DC401 master-port-in-use" in result.stderr


def test_the_output_is_kept_and_the_report_goes_where_it_is_wanted(tmp_path: Path) -> None:
    program = f"import sys; print('step 1', flush=True); print({TAKEN!r}); sys.exit(1)"
    result = distcheck(
        "run",
        "--no-preflight",
        "--log",
        "train.log",
        "-o",
        "verdict.json",
        "--output-format",
        "json",
        *python(program),
        cwd=tmp_path,
    )
    assert result.returncode == 1
    assert (tmp_path / "train.log").read_text() == f"step 1\n{TAKEN}\n"
    plain = json.loads((tmp_path / "verdict.json").read_text())
    assert plain["story"]["code"] == "DC401"
    assert plain["story"]["first"]["path"] == "train.log"
    assert "verdict.json" in result.stderr


def test_a_traceback_that_comes_in_pieces_is_one() -> None:
    program = (
        "import os, time\n"
        "for line in ('Traceback (most recent call last):', '  File \"/workspace/train.py\", line 3, in main', "
        "'    raise ValueError', 'ValueError: odd'):\n"
        "    os.write(2, (line + '\\n').encode()); time.sleep(0.05)\n"
        "raise SystemExit(1)\n"
    )
    result = distcheck("run", "--no-preflight", *python(program))
    assert "ValueError: odd" in result.stderr.split("\n\n", 1)[1]
    assert "/workspace/train.py:3 in main" in result.stderr


def test_a_pre_flight_error_starts_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("open('ran', 'w')\n")
    words = ("--", "torchrun", "--nproc-per-node=0", "train.py")
    env = {"MASTER_PORT": "70000"}
    result = distcheck("run", *words, cwd=tmp_path, **env)
    assert result.returncode == 1, result.stderr
    assert "nothing was started" in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "ran").exists()
    only = distcheck("run", "--preflight-only", *words, cwd=tmp_path, **env)
    assert only.returncode == 1
    assert "nothing was started" not in only.stderr


def test_preflight_only_starts_nothing(tmp_path: Path) -> None:
    result = distcheck("run", "--preflight-only", "--fail-on", "never", *python("print('started')"), cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    assert "distcheck env · stage planned" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("run",), 2, "COMMAND"),
        (("run", "--preflight-only", "--no-preflight", "--", "true"), 2, "exclude each other"),
        (("run", "--log", "nowhere/x.log", "--", "true"), 2, "does not exist"),
        (("run", "--no-preflight", "--", "no-such-program-at-all"), 127, "can't be started"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], status: int, said: str) -> None:
    result = distcheck(*arguments)
    assert result.returncode == status
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_scheduler_s_signal_reaches_the_command() -> None:
    program = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b'saving\\n'), sys.exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "distcheck", "run", "--no-preflight", *python(program)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGUSR1)
        assert running.stdout.read() == "saving\n"
        assert running.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (("torchrun", "--log-dir", "logs", "train.py"), "logs"),
        (("torchrun", "--log_dir=logs", "train.py"), "logs"),
        (("torchrun", "train.py"), None),
        (("torchrun", "train.py", "--log-dir", "runs"), None),
    ],
)
def test_the_folder_of_the_ranks_texts_is_known(words: tuple[str, ...], folder: str | None) -> None:
    assert log_folder(words, {}) == folder
    assert log_folder(words, {"PET_LOG_DIR": "site"}) == (folder or "site")


@pytest.mark.torch
def test_the_texts_of_ranks_that_torchrun_keeps_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys, time\n"
        f"if os.environ['RANK'] == '1':\n    print({TAKEN!r}, file=sys.stderr)\n    sys.exit(3)\n"
        "time.sleep(30)\n"
    )
    words = (
        "--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--log-dir", "logs",
        "--redirects", "3", "train.py",
    )  # fmt: skip
    result = distcheck("run", "--no-preflight", "-o", "verdict.json", "--output-format", "json", *words, cwd=tmp_path)
    assert result.returncode == 1
    plain = json.loads((tmp_path / "verdict.json").read_text())
    assert (plain["story"]["code"], plain["story"]["guilty"]["rank"]) == ("DC401", 1), plain["story"]


def test_a_failure_without_a_word_is_not_called_none() -> None:
    result = distcheck("run", "--no-preflight", "--", "sh", "-c", "echo step 1; exit 4")
    assert result.returncode == 4
    assert "status 4, and its output does not show why" in result.stderr
    assert "No failure" not in result.stderr
    killed = distcheck("run", "--no-preflight", "--", "sh", "-c", "kill -9 $$")
    assert (killed.returncode, "SIGKILL" in killed.stderr) == (137, True)


def test_a_traceback_that_no_rule_names_is_told() -> None:
    result = distcheck("run", "--no-preflight", *python("raise ValueError('odd')"))
    assert result.returncode == 1
    assert "a failure that no rule names" in result.stderr


def test_a_full_disk_is_said_once_and_the_command_goes_on() -> None:
    program = f"print('step 1' * 100000); print({TAKEN!r}); raise SystemExit(5)"
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "distcheck", "run", "--no-preflight", *python(program)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert result.returncode == 5
    assert result.stderr.count("standard output can't be written") == 1
    assert "error DC401" in result.stderr


def test_a_report_that_has_no_room_is_on_standard_error() -> None:
    result = distcheck("run", "--no-preflight", "-o", "/dev/full", *python(f"print({TAKEN!r}); raise SystemExit(5)"))
    assert (result.returncode, result.stdout) == (5, TAKEN + "\n")
    assert "/dev/full can't be written" in result.stderr
    assert "error DC401" in result.stderr


def test_text_that_cannot_be_kept_is_said_and_its_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "_MOST_SPOOLED", 1000)
    monkeypatch.setattr(run, "_END_BYTES", 1000)
    for log_file in (None, str(tmp_path / "train.log")):
        with contextlib.closing(run._Listener(log_file)) as listener:
            for step in range(1000):
                listener.take(f"step {step}\n".encode())
            listener.take(TAKEN.encode() + b"\n")
            report = listener.diagnose(Selection(), None, 0.0)
        assert report is not None
        assert report.story["code"] == "DC401"
        assert ("could not be kept" in capsys.readouterr().err) == (log_file is None)


GLOO_JOB = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
number = torch.ones(4)
dist.all_reduce(number)
sys.stdout.write(f"rank {dist.get_rank()} has {int(number[0])}\\n")  # print() writes text and end apart
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.root
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_good_dc320_a_gloo_job_starts_with_a_container_s_shared_memory(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed here")
    (tmp_path / "train.py").write_text(GLOO_JOB)
    job = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py")
    result = subprocess.run(
        [
            *("unshare", "-m", "--propagation", "private", "sh", "-c"),
            'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"',
            *("sh", sys.executable, "-m", "distcheck", "run", "--isolated", "--", *job),
        ],
        cwd=tmp_path,
        # the job of this test uses no GPU that may be there
        env=environment(CUDA_VISIBLE_DEVICES=""),
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "mount:" in result.stderr:
        pytest.skip(f"nothing can be mounted here: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split("\n")) == ["", "rank 0 has 2", "rank 1 has 2"]
    assert "nothing was started" not in result.stderr
