"""``distcheck log`` as a user calls it: files, folders, pipes, a job that runs, bad input, formats, the exit status."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from tests.reporters.test_reporters import SCHEMA

from .test_cli import ROOT, distcheck, environment

TAKEN = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/workspace/train.py", line 12, in <module>\n'
    "[rank0]:     main()\n"
    "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
    "[rank1]: RuntimeError: Connection reset by peer\n"
)
RAISED = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/workspace/train.py", line 40, in step\n'
    "[rank2]:     raise ValueError(batch)\n"
    "[rank2]: ValueError: batch 4711 is empty\n"
)
LOST = "[rank1]: RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.5]:41234\n"
HEALTHY = "step 1 loss 0.31\nstep 2 loss 0.29\ntraining done\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(TAKEN)
    return path


def test_the_story_fits_a_screen_and_says_what_to_type(log: Path) -> None:
    result = distcheck("log", "train.log", cwd=log.parent)
    assert result.returncode == 1
    told, _, evidence = result.stdout.partition("\nevidence\n")
    assert len(told.splitlines()) <= 2 + 15
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "error DC401 master-port-in-use" in told
    assert "train.log:4" in told
    assert "29500" in told
    assert "train.log:5" in evidence


@pytest.mark.parametrize(
    ("text", "status", "outcome"),
    [(TAKEN, 1, "cause"), (RAISED, 3, "unnamed"), (LOST, 3, "consequences"), (HEALTHY, 0, "clean"), ("", 0, "clean")],
)
def test_the_status_says_whether_the_cause_is_known(tmp_path: Path, text: str, status: int, outcome: str) -> None:
    (tmp_path / "train.log").write_text(text)
    result = distcheck("log", "train.log", "--output-format", "json", cwd=tmp_path)
    plain = json.loads(result.stdout)
    jsonschema.validate(plain, SCHEMA)
    assert (result.returncode, plain["story"]["outcome"]) == (status, outcome), result.stderr
    assert distcheck("log", "train.log", "--exit-zero", cwd=tmp_path).returncode == 0


def test_a_failure_that_no_rule_names_shows_the_first_lines_of_the_guilty_rank(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOST + RAISED)
    result = distcheck("log", "train.log", cwd=tmp_path)
    assert "rank 2: ValueError: batch 4711 is empty" in result.stdout
    assert "/workspace/train.py:40 in step" in result.stdout
    assert "no rule names its cause" in result.stderr


@pytest.mark.parametrize("name", ["full", "concise", "json", "json-lines", "github", "html"])
def test_every_format_names_the_cause(log: Path, name: str) -> None:
    result = distcheck("log", "train.log", "--output-format", name, cwd=log.parent)
    assert result.returncode == 1
    assert "DC401" in result.stdout


def test_quiet_is_one_line(log: Path) -> None:
    result = distcheck("log", "-q", "train.log", cwd=log.parent)
    assert len(result.stdout.splitlines()) == 1
    assert "DC401" in result.stdout


def test_no_color_and_pipes_have_no_escapes(log: Path) -> None:
    assert "\x1b" not in distcheck("log", "train.log", cwd=log.parent).stdout
    assert "\x1b" not in distcheck("log", "train.log", cwd=log.parent, NO_COLOR="1", FORCE_COLOR="").stdout
    assert "\x1b[31;1m" in distcheck("log", "train.log", "--color", "always", cwd=log.parent).stdout


def test_a_pipe_is_read_to_its_end() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "log", "-"],
        input=TAKEN,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (result.returncode, "DC401" in result.stdout) == (1, True)


def test_a_folder_of_files_of_ranks_is_one_job(tmp_path: Path) -> None:
    for rank, text in enumerate(
        (LOST.replace("[rank1]: ", ""), TAKEN.replace("[rank0]: ", "").replace("[rank1]: ", ""))
    ):
        folder = tmp_path / "logs" / "none_x" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(text)
        (folder / "stdout.log").write_bytes(b"")
    plain = json.loads(distcheck("log", "logs", "--output-format", "json", cwd=tmp_path).stdout)
    assert (plain["story"]["code"], plain["story"]["guilty"]["rank"]) == ("DC401", 1)


def test_a_compressed_and_rotated_log_is_read_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "train.log.2.gz").write_bytes(gzip.compress(TAKEN.encode()))
    (tmp_path / "train.log.1").write_text(LOST)
    (tmp_path / "train.log").write_text(LOST)
    names = ("train.log", "train.log.1", "train.log.2.gz")
    plain = json.loads(distcheck("log", *names, "--output-format", "json", cwd=tmp_path).stdout)
    assert plain["story"]["code"] == "DC401"
    assert plain["story"]["first"]["path"] == "train.log.2.gz"


def test_every_event_is_shown_on_demand(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TAKEN + LOST * 30)
    plain = json.loads(distcheck("log", "--all", "train.log", "--output-format", "json", cwd=tmp_path).stdout)
    assert sum(1 + event["repeated"] for event in plain["story"]["events"] if event["kind"] == "lost") >= 30
    assert "every event" in distcheck("log", "--all", "train.log", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("log",), "FILE|DIR|-"),
        (("log", "nowhere.log"), "nowhere.log: there is no such file or folder"),
        (("log", "-", "-"), "can be read once"),
        (("log", "--idle", "3", "train.log"), "--idle belongs to --follow"),
        (("log", "--select", "DC201x", "train.log"), "no rule is called"),
        (("log", "--select", "DC105", "train.log"), "leaves no rule that log can see"),
        (("log", "-o", "nowhere/out.txt", "train.log"), "does not exist"),
        (("log", "-o", "./train.log", "train.log"), "the report would replace it"),
    ],
)
def test_bad_input_is_one_clear_line(log: Path, arguments: tuple[str, ...], said: str) -> None:
    result = distcheck(*arguments, cwd=log.parent)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_what_cannot_be_read_is_said_and_the_rest_is_read(tmp_path: Path, log: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 16)
    result = distcheck("log", "weights.bin", cwd=tmp_path)
    assert result.returncode == 2, result.stdout
    assert "weights.bin" in result.stdout + result.stderr
    plain = json.loads(distcheck("log", "weights.bin", "train.log", "--output-format", "json", cwd=tmp_path).stdout)
    assert plain["story"]["code"] == "DC401"
    assert "DC904" in {finding["code"] for finding in plain["findings"]}


def test_an_ignored_cause_does_not_make_a_consequence_the_cause(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TAKEN)
    plain = json.loads(
        distcheck("log", "train.log", "--ignore", "DC401", "--output-format", "json", cwd=tmp_path).stdout
    )
    assert "DC401" not in {finding["code"] for finding in plain["findings"]}
    assert plain["story"]["code"] == "DC401"
    assert any("--ignore DC401" in line for line in plain["subject"]["line"])


@pytest.mark.slow
def test_a_job_that_runs_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(HEALTHY.replace("training done\n", ""))
    with subprocess.Popen(
        [sys.executable, "-m", "distcheck", "log", "--follow", "--idle", "3", "train.log"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tmp_path,
    ) as running:
        time.sleep(1.5)
        with path.open("a") as file:
            for line in TAKEN.splitlines(keepends=True):
                file.write(line)
                file.flush()
                time.sleep(0.1)
        assert running.stderr is not None
        first = running.stderr.readline()
        out, rest = running.communicate(timeout=60)
    assert "DC401" in first + rest
    assert running.returncode == 1
    assert "error DC401" in out


@pytest.mark.slow
def test_a_log_that_is_emptied_while_it_is_followed_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(HEALTHY * 100)
    with subprocess.Popen(
        [sys.executable, "-m", "distcheck", "log", "--follow", "--idle", "4", "train.log"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tmp_path,
    ) as running:
        time.sleep(2)
        path.write_text(TAKEN)
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "error DC401" in out


def test_torch_is_never_imported() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from distcheck import diagnose_log\n"
        "assert diagnose_log(sys.argv[1]).story['code'] == 'DC401'\n"
    )
    path = ROOT / "tests" / "checks" / "logs" / "DC401"
    bad = next(item for item in sorted(path.iterdir()) if item.name.startswith("bad") and item.is_file())
    subprocess.run([sys.executable, "-c", program, str(bad)], check=True, cwd=ROOT, timeout=60)


@pytest.mark.skipif(os.name == "nt", reason="such names are POSIX's")
def test_a_name_that_would_act_on_a_terminal_is_escaped(tmp_path: Path) -> None:
    name = "a\x1b[31m\nb.log"
    (tmp_path / name).write_text(TAKEN)
    result = distcheck("log", name, cwd=tmp_path)
    assert result.returncode == 1
    assert "\x1b" not in result.stdout
    assert "  a\\x1b[31m\\nb.log:4  rank 0: " in result.stdout
    absent = distcheck("log", "no\x1b[31m.log", cwd=tmp_path)
    assert (absent.returncode, "\x1b" in absent.stderr) == (2, False)


def test_what_could_not_be_read_is_not_called_healthy(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 16)
    assert "No failure" not in distcheck("log", "weights.bin", cwd=tmp_path).stdout
    packed = gzip.compress("".join(f"step {number} loss 0.{number}\n" for number in range(9999)).encode())
    (tmp_path / "train.log.gz").write_bytes(packed[: len(packed) // 2])
    assert "No failure is in what could be read." in distcheck("log", "train.log.gz", cwd=tmp_path).stdout


@pytest.mark.slow
def test_a_named_pipe_is_followed_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(
        [sys.executable, "-m", "distcheck", "log", "--follow", "pipe"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tmp_path,
    ) as running:
        (tmp_path / "pipe").write_text(RAISED)
        out, said = running.communicate(timeout=60)
    assert running.returncode == 3
    assert "a failure that no rule names" in said
    assert "ValueError: batch 4711 is empty" in out


@pytest.mark.slow
def test_what_was_written_just_before_a_log_is_rotated_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(RAISED)
    with subprocess.Popen(
        [sys.executable, "-m", "distcheck", "log", "--follow", "--idle", "3", "train.log"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tmp_path,
    ) as running:
        assert running.stderr is not None
        assert "batch 4711 is empty" in running.stderr.readline()
        with path.open("a") as file:
            file.write(TAKEN)
        path.rename(tmp_path / "train.log.1")
        path.write_text("")
        out, _ = running.communicate(timeout=60)
    assert (running.returncode, "error DC401" in out) == (1, True)


@pytest.mark.slow
def test_a_log_with_rotated_parts_is_followed(tmp_path: Path) -> None:
    (tmp_path / "train.log.1").write_text(HEALTHY.replace("training done\n", ""))
    path = tmp_path / "train.log"
    path.write_text("step 3 loss 0.28\n")
    with subprocess.Popen(
        [sys.executable, "-m", "distcheck", "log", "--follow", "--idle", "4", "--output-format", "json", "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=tmp_path,
    ) as running:
        time.sleep(2)
        with path.open("a") as file:
            file.write(TAKEN)
        out, _ = running.communicate(timeout=60)
    story = json.loads(out)["story"]
    assert (story["code"], story["first"]["line"]) == ("DC401", 5)
    assert sum(source["lines"] for source in story["sources"]) == 3 + len(TAKEN.splitlines())


def test_what_can_not_be_reached_is_not_called_absent(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for command in ("log", "pickle", "ci"):
        result = distcheck(command, "loop/train.log", cwd=tmp_path)
        assert result.returncode == 2
        assert "loop/train.log: it can't be reached: Too many levels of symbolic links" in result.stderr
        assert "absent.log: there is no such file or folder" in distcheck(command, "absent.log", cwd=tmp_path).stderr
