"""The commands as a user calls them: in a process of their own, with what a shell may do to them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner

from distcheck.cli.main import group
from tests import warm

SCHEMA = json.loads(files("distcheck").joinpath("reporters/report.schema.json").read_text(encoding="utf-8"))
ROOT = Path(__file__).parent.parent.parent


def environment(**extra: str) -> dict[str, str]:
    """A plain shell: nothing of a launch, and our package on the path."""
    names = ("PATH", "HOME", "LANG", "SYSTEMROOT", "XDG_CACHE_HOME")
    kept = {name: value for name, value in os.environ.items() if name in names}
    return {**kept, "PYTHONPATH": str(ROOT), **extra}


def distcheck(*arguments: str, cwd: Path | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a fork of a warm process; in a process of its own if a variable is read by Python itself."""
    if not any(name.startswith("PYTHON") for name in extra):
        return warm.run(arguments, environ=environment(**extra), cwd=cwd)
    return subprocess.run(
        [sys.executable, "-m", "distcheck", *arguments],
        capture_output=True,
        text=True,
        env=environment(**extra),
        cwd=cwd,
        timeout=60,
    )


def report_of(*arguments: str, cwd: Path | None = None, **extra: str) -> dict[str, Any]:
    result = distcheck(arguments[0], "--output-format", "json", *arguments[1:], cwd=cwd, **extra)
    assert "Traceback" not in result.stderr
    plain: dict[str, Any] = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    return plain


def loud(plain: dict[str, Any]) -> dict[str, str]:
    return {item["code"]: item["severity"] for item in plain["findings"] if item["severity"] != "info"}


def test_a_plain_shell_is_silent_above_info(tmp_path: Path) -> None:
    plain = report_of("env", cwd=tmp_path)
    assert plain["stage"] == "shell"
    assert loud(plain) == {}
    assert [item["code"] for item in plain["findings"] if item["code"].startswith("DC9")] == []


def test_bad_launched_without_variables(tmp_path: Path) -> None:
    result = distcheck("env", "--launched", "--select", "DC101", cwd=tmp_path)
    assert result.returncode == 1
    for word in ("DC101", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "torchrun"):
        assert word in result.stdout
    assert distcheck("env", "--launched", "--select", "DC101", "--exit-zero", cwd=tmp_path).returncode == 0
    assert distcheck("env", "--launched", "--select", "DC101", "--fail-on", "never", cwd=tmp_path).returncode == 0


def test_a_command_is_read_whole_with_or_without_the_dashes(tmp_path: Path) -> None:
    command = ["torchrun", "--nproc-per-node=3", "--nnodes=2", "train.py", "--select", "x"]
    for dashes in ([], ["--"]):
        plain = json.loads(distcheck("env", "--output-format", "json", *dashes, *command, cwd=tmp_path).stdout)
        assert plain["stage"] == "planned"
        assert "torchrun 2 nodes × 3 processes" in plain["subject"]["line"]


def test_a_command_in_quotes_is_taken_apart(tmp_path: Path) -> None:
    plain = json.loads(
        distcheck("env", "--output-format", "json", "--", "torchrun --nproc-per-node=3 x.py", cwd=tmp_path).stdout
    )
    assert "torchrun 3 processes" in plain["subject"]["line"]
    assert distcheck("env", "--", "torchrun 'x.py", cwd=tmp_path).returncode == 2


def test_a_command_that_is_no_launcher_is_not_taken_for_a_sound_one(tmp_path: Path) -> None:
    plain = json.loads(
        distcheck("env", "--output-format", "json", "--", "composer", "-n", "2", "x.py", cwd=tmp_path).stdout
    )
    assert "what the command starts" in [item["what"] for item in plain["not_checked"]]


def test_torch_is_not_imported(tmp_path: Path) -> None:
    program = (
        "import sys, os; os._exit = lambda status: None\n"
        "from distcheck.cli.main import main; sys.argv = ['distcheck', 'env', '-v']; main()\n"
        "assert 'torch' not in sys.modules and 'psutil' not in sys.modules, 'imported'"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["env", "--select", "DC4O1"], "DC4"),
        (["env", "--ignore", "master-port-inuse"], "DC401"),
        (["env", "--facts", "no-such-file.json"], "No such file"),
        (["env", "--facts", "."], "folder"),
        (["env", "-o", "no/such/folder/report.txt"], "does not exist"),
        (["env", "-o", "."], "folder"),
        (["env", "--redact"], "--save-facts"),
        (["env", "--select", "DC5", "--strict"], "leaves no rule"),
        (["env", "--ignore", "ALL"], "leaves no rule"),
        (["env", "--nproc-per-node", "many"], "many"),
        (["env", "--nnodes", "4:2"], "4:2"),
        (["env", "--fail-on", "fatal"], "fatal"),
        (["env", "--no-such-option"], "no-such-option"),
        (["emv"], "env"),
        (["explain", "DC4O1"], "DC4"),
        (["explain", "no message of any program looks like this"], "no rule knows"),
        (["rules", "--prefix", "XX"], "no rule"),
        (["diff", "a.json", "b.json"], "a.json"),
    ],
)
def test_bad_usage_is_one_clear_line_and_status_2(arguments: list[str], words: str, tmp_path: Path) -> None:
    result = distcheck(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert line


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kind": "distcheck facts", "schema_version": 99}', "\x00\x01"])
def test_bad_facts_files(content: str, tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(content)
    result = distcheck("env", "--facts", "facts.json", cwd=tmp_path)
    assert result.returncode == 2
    assert "facts.json" in result.stderr
    assert "Traceback" not in result.stderr


def test_facts_are_saved_redacted_and_judged_elsewhere(tmp_path: Path) -> None:
    saved = distcheck("env", "--nproc-per-node", "2", "--save-facts", "here.json", cwd=tmp_path)
    assert saved.returncode in (0, 1), saved.stderr
    first = report_of("env", "--nproc-per-node", "2", cwd=tmp_path)
    again = report_of("env", "--facts", "here.json", cwd=tmp_path, RANK="7", WORLD_SIZE="2")
    assert again["stage"] == "planned"
    assert loud(again) == loud(first)
    other = report_of("env", "--facts", "here.json", "--launched", "--select", "DC101", cwd=tmp_path)
    assert loud(other) == {"DC101": "error"}
    assert distcheck("env", "--save-facts", "hidden.json", "--redact", cwd=tmp_path).returncode in (0, 1)
    # a short name, such as `vm`, may be a part of other words
    hidden = (tmp_path / "hidden.json").read_text().replace("localhost", "")
    assert re.search(rf"\b{re.escape(os.uname().nodename)}\b", hidden) is None
    same = distcheck("diff", "here.json", "here.json", cwd=tmp_path)
    assert same.returncode == 0
    assert "agree" in same.stdout


def test_diff_shows_what_differs(tmp_path: Path) -> None:
    assert distcheck("env", "--save-facts", "a.json", cwd=tmp_path).returncode in (0, 1)
    plain = json.loads((tmp_path / "a.json").read_text())
    plain["facts"]["Limits"]["open_files_soft"] = 12
    (tmp_path / "b.json").write_text(json.dumps(plain))
    result = distcheck("diff", "a.json", "b.json", cwd=tmp_path)
    assert result.returncode == 1
    assert "open_files_soft" in result.stdout
    assert "1 difference\n" in result.stdout
    rows = json.loads(distcheck("diff", "a.json", "b.json", "--output-format", "json", cwd=tmp_path).stdout)
    assert [(row["fact"], row["place"], row["b"]) for row in rows["differences"]] == [("Limits", "open_files_soft", 12)]


def test_a_report_goes_to_a_file_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    result = distcheck("env", "--output-format", "json", "-o", str(target), cwd=tmp_path)
    assert result.stdout == ""
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(target.read_text()))
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_not_lost(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this platform")
    result = distcheck("env", "-o", "/dev/full", cwd=tmp_path)
    assert result.returncode == 2
    assert "/dev/full" in result.stderr
    assert result.stdout.startswith("distcheck env · ")


def test_must_check_and_strict(tmp_path: Path) -> None:
    missed = distcheck("env", "--must-check", "DC309", "--fail-on", "never", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    if missed.returncode == 0:
        pytest.skip("this machine has a GPU")
    assert missed.returncode == 3
    assert "DC309" in missed.stderr
    assert distcheck("env", "--must-check", "DC321", "--fail-on", "never", cwd=tmp_path).returncode == 0
    assert distcheck("env", "--strict", "--fail-on", "never", cwd=tmp_path).returncode == 3


def test_options_have_variables(tmp_path: Path) -> None:
    result = distcheck("env", "--launched", cwd=tmp_path, DISTCHECK_ENV_SELECT="DC101", DISTCHECK_ENV_QUIET="1")
    assert result.returncode == 1
    assert result.stdout.startswith("1 error, ")
    named = distcheck("env", cwd=tmp_path, DISTCHECK_ENV_IGNORE="DC3")
    assert "--ignore DC3" in named.stdout.split("\n\n")[0].replace("\n ", "")


def test_colors_follow_the_conventions(tmp_path: Path) -> None:
    assert "\x1b[" not in distcheck("env", cwd=tmp_path).stdout
    assert "\x1b[" in distcheck("env", cwd=tmp_path, FORCE_COLOR="1").stdout
    assert "\x1b[" not in distcheck("env", cwd=tmp_path, FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b[" in distcheck("env", "--color", "always", cwd=tmp_path, NO_COLOR="1").stdout


def test_the_text_fits_80_columns(tmp_path: Path) -> None:
    for line in distcheck("env", "--launched", "--nproc-per-node", "8", cwd=tmp_path).stdout.splitlines():
        assert len(line) <= 80 or line.startswith("      "), line


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m distcheck env -v | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert result.stdout.startswith("distcheck env · ")
    assert result.stderr == ""
    assert result.returncode == 0


def test_an_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time, distcheck.checks.host.examine as e\ne.examine = lambda *a, **k: time.sleep(60)\n"
         "import distcheck.cli.env as c\nc.examine = e.examine\nprint('ready', flush=True)\n"
         "import sys; sys.argv = ['distcheck', 'env']\nfrom distcheck.cli.main import main; main()"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert stderr.strip() == "Interrupted."


def test_awkward_environments(tmp_path: Path) -> None:
    awkward = {
        b"NCCL_DEBUG": b"\xff\xfe",
        b"NCCL_SOCKET_IFNAME": b"x" * 100_000,
        b"MASTER_ADDR": b"\x1b[2J\xc3",
        b"RANK": "\u0663".encode(),
        b"WORLD_SIZE": b"1e3",
        b"http_proxy": b"http://me:hunter2@proxy",
    }
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "env", "-v", "--timeout", "5"],
        capture_output=True,
        env={os.fsencode(key): os.fsencode(value) for key, value in environment().items()} | awkward,
        cwd=tmp_path,
        timeout=60,
    )
    assert result.returncode in (0, 1, 3)
    assert b"Traceback" not in result.stderr
    assert b"hunter2" not in result.stdout
    assert b"\x1b" not in result.stdout
    assert b"DC901" not in result.stdout


def test_help_teaches(tmp_path: Path) -> None:
    overview = distcheck("--help", cwd=tmp_path).stdout
    assert overview.index("Symptom, and what to type") < overview.index("Commands:")
    detail = distcheck("env", "--help", cwd=tmp_path).stdout
    assert "The launch to check:" in detail
    assert detail.index("--nproc-per-node") < detail.index("--select")
    assert "Examples:" in detail


def test_completion_has_a_script(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from distcheck.cli.main import group; group.main(prog_name='distcheck')"],
        capture_output=True,
        text=True,
        env=environment(_DISTCHECK_COMPLETE="bash_source"),
        cwd=tmp_path,
        timeout=60,
    )
    assert "complete -o nosort -F" in result.stdout


def test_explain_and_rules(tmp_path: Path) -> None:
    page = distcheck("explain", "DC320", cwd=tmp_path).stdout
    assert page.startswith("# DC320 shm-too-small\n")
    assert "## How to fix it" in page
    found = json.loads(
        distcheck("explain", "--output-format", "json", "insufficient shared memory (shm)", cwd=tmp_path).stdout
    )
    assert found[0]["code"] == "DC320"
    rows = json.loads(
        distcheck("rules", "--output-format", "json", "--way", "env", "--severity", "error", cwd=tmp_path).stdout
    )
    assert all("env" in row["ways"] and row["severities"][0] == "error" for row in rows)
    assert "DC401" in [row["code"] for row in rows]
    assert all(len(line) <= 80 for line in distcheck("rules", cwd=tmp_path).stdout.splitlines())


def test_a_link_stays_a_link_and_a_private_file_private(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    assert distcheck("env", "-o", str(link), cwd=tmp_path).returncode == 0
    assert link.is_symlink()
    assert target.read_text().startswith("distcheck env")
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">/dev/full"])
def test_closed_and_full_streams_end_in_no_traceback(closed: str, tmp_path: Path) -> None:
    for command in ("env", "rules", "--help"):
        result = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m distcheck {command} {closed}"],
            capture_output=True,
            text=True,
            env=environment(),
            cwd=tmp_path,
            timeout=60,
        )
        assert "Traceback" not in result.stderr
        assert result.returncode == (2 if "full" in closed else 0)


@pytest.mark.slow
def test_a_rank_that_nobody_collects_from_speaks_itself(tmp_path: Path) -> None:
    lonely = {"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    result = distcheck("env", "--select", "DC103", cwd=tmp_path, **lonely)
    assert result.returncode == 1
    assert "DC103" in result.stdout


def test_credentials_of_a_command_are_shown_and_saved_nowhere(tmp_path: Path) -> None:
    command = ["env", "PASSWORD=hunter2", "torchrun", "train.py", "--password", "hunter2", "--token=hunter2"]
    arguments = ("env", "-v", "--save-facts", "facts.json", "--output-format", "json", "--", *command)
    result = distcheck(*arguments, cwd=tmp_path)
    assert "hunter2" not in result.stdout
    assert "hunter2" not in (tmp_path / "facts.json").read_text()


def test_diff_tells_truth_values_and_ports_apart() -> None:
    from distcheck.cli.diff import _table, differences

    def fabric(state: str, usable: bool) -> dict[str, Any]:
        ports = [{"device": "mlx5_0", "port": 1, "state": state}, {"device": "mlx5_0", "port": 2, "state": "ACTIVE"}]
        return {"Fabric": {"ports": ports, "verbs_usable": usable}}

    found = list(differences(fabric("ACTIVE", True), fabric("DOWN", False)))
    assert sorted((item.place, item.left, item.right) for item in found) == [
        ("ports[mlx5_0].state", "ACTIVE", "DOWN"),
        ("verbs_usable", True, False),
    ]
    table = _table(found, "a", "b")
    assert "yes" in table
    assert "no" in table


def test_explain_invents_nothing_from_a_log(tmp_path: Path) -> None:
    log = "\n".join(f"step {step}: loss 0.{step}, the gpu has 40 GB, bus 12 GB/s" for step in range(100))
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "explain", "-"],
        input="has\nfallen x\ngpu\nxid 7\noff\nthe\nbus\n" + log * 50,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=20,
    )
    assert result.returncode == 2, result.stdout[:300]


@pytest.mark.parametrize("command", ["rehearse", "watch", "stuck"])
def test_the_old_name_of_the_hang_timeout_works_and_is_not_shown(command: str) -> None:
    found = group.get_command(click.Context(group), command)
    assert found is not None
    shown = CliRunner().invoke(group, [command, "--help"])
    assert "--hang-timeout S" in shown.output
    assert "--patience" not in shown.output
    words = ["train.py"] if command != "stuck" else []
    for option in ("--patience", "--hang-timeout"):
        context = found.make_context(command, [option, "7", *words], auto_envvar_prefix=f"DISTCHECK_{command.upper()}")
        assert context.params["hang_timeout"] == 7.0
    old = {f"DISTCHECK_{command.upper()}_PATIENCE": "9"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*next(iter(old.items())))
        assert found.make_context(command, words).params["hang_timeout"] == 9.0


def shown_by_env(*words: str) -> str:
    return CliRunner().invoke(group, ["env", "--isolated", *words]).output


def test_a_shell_learns_what_was_checked_and_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    faulty = shown_by_env()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (line,) = [line for line in shown_by_env().splitlines() if line.startswith("fine: ")]
    assert line.startswith("fine: variables, ") and line.endswith(" rules)")
    # a rule with a finding is not fine
    assert "DC112" in faulty and line not in faulty
    (only,) = [line for line in shown_by_env("--select", "DC320").splitlines() if line.startswith("fine: ")]
    assert only == "fine: memory, disk, libraries (1 rule)"
    assert "fine: " not in shown_by_env("--nproc-per-node", "2")


def test_a_shell_learns_what_to_type_next(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert "next, with your launch: distcheck env -- torchrun --nproc-per-node=" in shown_by_env()
    assert "next, with" not in shown_by_env("--nproc-per-node", "2")
    assert "next, with" not in shown_by_env("--quiet")


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="this machine has a driver")
def test_a_missing_driver_is_one_line() -> None:
    assert shown_by_env().count("no NVIDIA driver") == 1


@pytest.mark.parametrize(
    "before",
    [("run", "--no-preflight", "--"), ("run", "--log"), ("pickle",), ("diff",), ("stuck",), ("lint",), ("log",),
     ("explain",), ("watch", "-o"), ("watch",), ("rehearse",), ()],
    ids=" ".join,
)  # fmt: skip
def test_an_argument_does_not_control_the_terminal(before: tuple[str, ...], tmp_path: Path) -> None:
    result = distcheck(*before, "\x1b[31mé\x07\u202e/x", "b", cwd=tmp_path)
    assert result.returncode in (2, 127)
    printed = result.stdout + result.stderr
    assert not [char for char in printed if not char.isprintable() and char != "\n"]
    assert "é" in printed or before == ("stuck",)
    assert not list(tmp_path.iterdir())
