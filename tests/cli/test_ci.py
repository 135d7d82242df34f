"""``distcheck ci``: all parts in one report, the profiles, the time limit, and what a part that breaks means."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import click
import jsonschema
import psutil
import pytest
from click.testing import CliRunner

from distcheck import rules
from distcheck.checks.host.examine import examine
from distcheck.cli import ci, ci_parts, ci_profiles, ci_report, subprocess_call
from distcheck.cli.ci_profiles import PROFILES, CiEnvironment
from distcheck.cli.main import group
from distcheck.core.model import Fix, Severity, Where
from distcheck.launch.reader import make_launch
from distcheck.rules import Selection
from tests import test_hosts

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads(files("distcheck").joinpath("reporters/report.schema.json").read_text(encoding="utf-8"))
BAD = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.broadcast(torch.ones(2), src=dist.get_rank())
"""
GOOD = """\
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""


def environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "XDG_CACHE_HOME")}
    path = os.pathsep.join(filter(None, [extra.pop("PYTHONPATH", ""), str(ROOT)]))
    return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **extra}


class Ended(NamedTuple):
    """How a call ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*words: str, cwd: Path, **extra: str) -> Ended:
    """In this process, as it would be in a plain shell; the parts start processes of their own."""
    before = os.getcwd()
    os.chdir(cwd)
    try:
        with mock.patch.dict(os.environ, environment(**extra), clear=True):
            result = CliRunner().invoke(group, ["ci", *words], standalone_mode=False)
    finally:
        os.chdir(before)
    if isinstance(result.exception, click.ClickException):
        return Ended(result.exception.exit_code, result.stdout, result.stderr + result.exception.format_message())
    assert result.exception is None, result.exception
    return Ended(result.return_value, result.stdout, result.stderr)


def run_apart(*words: str, cwd: Path, **extra: str) -> Ended:
    """In a process of its own: for what depends on the modules that there are."""
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "ci", *words],
        cwd=cwd, env=environment(**extra), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "Traceback" not in result.stderr, result.stderr
    return Ended(result.returncode, result.stdout, result.stderr)


def report(*words: str, cwd: Path, **extra: str) -> tuple[int, dict[str, Any]]:
    result = run("--output-format", "json", *words, cwd=cwd, **extra)
    plain: dict[str, Any] = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    return result.returncode, plain


def statuses(plain: dict[str, Any]) -> dict[str, str]:
    return {item["part"]: item["status"] for item in plain["subject"]["parts"]}


def codes(plain: dict[str, Any]) -> dict[str, str]:
    """The loud findings, each with the part that saw it."""
    return {item["code"]: item["evidence"]["part"] for item in plain["findings"] if item["severity"] != "info"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with one script in which nothing is wrong."""
    (tmp_path / "train.py").write_text(GOOD)
    return tmp_path


@pytest.fixture
def fake_torch(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes a torch that does what its one line says as soon as it is imported."""

    def make(line: str) -> str:
        folder = tmp_path_factory.mktemp("site")
        (folder / "torch").mkdir()
        (folder / "torch" / "__init__.py").write_text(line + "\n")
        return str(folder)

    return make


# one report


def test_findings_of_all_parts_stand_in_one_report_and_name_their_part(project: Path) -> None:
    (project / "train.py").write_text(BAD)
    status, plain = report("--profile", "ci", "--parts", "lint,env", cwd=project, NCCL_DEBUGG="INFO")
    assert status == 1
    assert plain["command"] == "ci" and plain["stage"] == "shell" and plain["subject"]["profile"] == "ci"
    assert statuses(plain) == {"lint": "ran", "env": "ran"}
    assert codes(plain) == {"DC709": "lint", "DC110": "env"}


def test_a_sound_project_ends_with_0(project: Path) -> None:
    status, plain = report("--profile", "ci", "--parts", "lint,env", cwd=project)
    assert (status, {item["severity"] for item in plain["findings"]}, plain["not_checked"]) == (0, {"info"}, [])


def test_info_is_shown_on_demand(project: Path) -> None:
    _, plain = report("--profile", "ci", "--parts", "env", "-v", cwd=project)
    assert "DC101" in {item["code"] for item in plain["findings"]}
    _, plain = report("--profile", "ci", "--parts", "env", "--select", "DC101", cwd=project)
    assert {item["code"] for item in plain["findings"]} == {"DC101"}


def test_a_folder_without_scripts_is_not_checked_and_no_failure(tmp_path: Path) -> None:
    status, plain = report("--profile", "ci", "--parts", "env,lint", "--output-format", "json", cwd=tmp_path)
    assert (status, statuses(plain)["lint"]) == (3, "left-out"), "it was named"
    status, plain = report("--profile", "login-node", cwd=tmp_path)
    assert (status, statuses(plain)) == (0, {"lint": "left-out", "env": "ran"})
    assert plain["not_checked"] == [{"what": "lint", "why": "there are no Python files and no launch files"}]


def test_checkpoints_are_judged_where_that_is_asked_for(project: Path) -> None:
    class Nasty:
        def __reduce__(self) -> Any:
            return os.system, ("true",)

    (project / "model.pkl").write_bytes(pickle.dumps(Nasty()))
    status, plain = report("--profile", "login-node", cwd=project)
    assert (status, statuses(plain)) == (0, {"lint": "ran", "env": "ran"})
    status, plain = report("--profile", "login-node", "--pickle", cwd=project)
    assert status == 1
    assert codes(plain) == {"DC610": "pickle"}
    assert plain["findings"][0]["where"]["path"] == "model.pkl"


def test_a_checkpoint_that_can_not_be_opened_is_no_clean_end(project: Path) -> None:
    (project / "model.pt.7z").write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(100))
    status, plain = report("--parts", "pickle", "--select", "DC610", cwd=project)
    assert status == 3
    assert any("not known to be safe" in item["why"] for item in plain["not_checked"])


def test_paths_are_linted_also_where_the_profile_reads_none(project: Path) -> None:
    (project / "other.py").write_text(BAD)
    _, plain = report("train.py", "--profile", "container", "--budget", "20s", cwd=project)
    assert statuses(plain)["lint"] == "ran"
    assert next(iter(statuses(plain))) == "lint"
    assert "DC709" not in codes(plain)


def test_what_two_parts_saw_of_the_host_is_told_once() -> None:
    where, fix = Where(gpu=0), Fix("fix it")
    mild = rules.DC336.found("a look", fix=fix, where=where, severity=Severity.INFO, evidence={"part": "env"})
    bad = rules.DC336.found("a proof", fix=fix, where=where, severity=Severity.ERROR, evidence={"part": "smoke"})
    assert ci_report.each_once((mild, bad)) == (bad,)
    twice = (mild, mild._replace(message="the same part saw it in two ways"))
    assert ci_report.each_once(twice) == twice
    files = tuple(item._replace(where=Where(path="a.py", line=1)) for item in (mild, bad))
    assert len(ci_report.each_once(files)) == 2


# known findings


def test_a_baseline_holds_for_all_parts(project: Path) -> None:
    (project / "train.py").write_text(BAD)
    words = ("--profile", "login-node")
    made = run(*words, "--write-baseline", "known.json", cwd=project, NCCL_DEBUGG="INFO")
    assert made.returncode == 0, made.stderr
    assert set(json.loads((project / "known.json").read_text())["findings"]) == {"DC709:train.py", "DC110:NCCL_DEBUGG"}
    status, plain = report(*words, "--baseline", "known.json", cwd=project, NCCL_DEBUGG="INFO")
    assert (status, {item["severity"] for item in plain["findings"]}) == (0, {"info"})
    assert "2 known to the baseline" in plain["subject"]["line"]
    (project / "new.py").write_text(BAD)
    status, plain = report(*words, "--baseline", "known.json", cwd=project)
    assert (status, codes(plain)) == (1, {"DC709": "lint"})


def test_the_baseline_of_the_configuration_counts_and_must_be_there(project: Path) -> None:
    (project / "train.py").write_text(BAD)
    (project / "pyproject.toml").write_text('[tool.distcheck]\nbaseline = "known.json"\n')
    missing = run("--profile", "login-node", cwd=project)
    assert missing.returncode == 2 and "known.json" in missing.stderr
    assert run("--profile", "login-node", "--write-baseline", "known.json", cwd=project).returncode == 0
    assert report("--profile", "login-node", cwd=project)[0] == 0


# what is written where


def test_the_summary_is_added_and_other_formats_are_written_beside(project: Path) -> None:
    (project / "train.py").write_text(BAD)
    summary = project / "summary.md"
    summary.write_text("# of another step\n")
    words = ("--parts", "lint", "--summary", "summary.md", "--also", "sarif=a.sarif", "--also", "junit=b.xml")
    result = run(*words, "--output-format", "github", cwd=project)
    assert result.returncode == 1
    assert result.stdout.startswith("::error ")
    text = summary.read_text()
    assert text.startswith("# of another step\n") and "DC709" in text
    assert json.loads((project / "a.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "DC709"
    assert "DC709" in (project / "b.xml").read_text()


def test_no_summary_is_written_unasked(project: Path) -> None:
    (project / "train.py").write_text(BAD)
    run("--parts", "lint", cwd=project, GITHUB_STEP_SUMMARY=str(project / "summary.md"), GITHUB_ACTIONS="true")
    assert not (project / "summary.md").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "soon"), "60s"),
        (("--budget", "0.2s"), "from 1s"),
        (("--parts", "lint,tests"), "'tests' is not a part"),
        (("--parts", "a\x1b[31m\nb"), "'a\\x1b[31m\\nb' is not a part"),
        (("--also", "sarif"), "FORMAT=FILE"),
        (("--also", "pdf=x"), "FORMAT=FILE"),
        (("--also", "sarif=-"), "name of a file"),
        (("--also", "junit=a.xml", "--also", "sarif=./a.xml"), "./a.xml is named for two reports"),
        (("--also", "sarif=a", "-o", "a"), "give each its own file"),
        (("--summary", "no/such/folder"), "does not exist"),
        (("-o", ""), "-o needs the name of a file"),
        (("nowhere.py",), "no such file"),
        (("-",), "distcheck lint -"),
        (("--parts", "env", "train.py"), "has neither lint nor pickle"),
        (("--parts", "env", "--pickle"), "give one of them"),
        (("--parts", "env", "--select", "DC701"), "leaves no rule"),
        (("--select", "DC99x"), "distcheck rules"),
        (("--parts", "lint", "--config", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_wrong_use_is_told_in_one_line_with_status_2(project: Path, words: Sequence[str], said: str) -> None:
    result = run(*words, cwd=project)
    assert result.returncode == 2, result
    assert said in result.stderr and result.stdout == ""


@pytest.mark.parametrize("command", ["ci", "init"])
def test_a_working_folder_that_is_gone_is_said(command: str, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    result = subprocess.run(
        ["sh", "-c", f'cd gone && rmdir ../gone && exec "{sys.executable}" -m distcheck {command}'],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 2 and "the working folder was removed" in result.stderr


# profiles


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_a_profile_names_parts_and_rules_that_there_are(profile: ci_profiles.Profile) -> None:
    assert set(profile.parts) <= set(ci_profiles.PARTS)
    assert "pickle" not in profile.parts, "checkpoints are read where that is asked for"
    known = [rule.code for rule in rules.ALL]
    for code in (*profile.must_check, *(code for item in profile.silent for code in item.codes)):
        assert any(name.startswith(code) for name in known), code
    seen = {rule.code for part in profile.parts for rule in ci_parts.rules_of(part)}
    assert set(profile.must_check) <= seen
    silent = Selection(profile.ignored(gpus=8))
    assert not any(silent.matches(rules.find(code)) for code in profile.must_check), "required, and silent"


@pytest.mark.parametrize(
    "host", ["a100-pcie", "hgx-h100-infiniband", "efa-p4d", "gb200-tray", "rocm-mi300x", "docker-default"]
)
def test_what_a_gpu_node_must_show_can_be_seen_on_every_sound_one(host: str, tmp_path: Path) -> None:
    case = {"name": "sound"}
    world = test_hosts.world_of(host, case, tmp_path)
    facts = test_hosts.facts_of(host, case)
    launch = make_launch(
        world.environ, options=ci_parts.launch_options(PROFILES["gpu-node"], 8), host_name=world.host_name()
    )
    assert set(ci_profiles.REQUIRED_RULES) - examine(launch, world, facts=facts).checked == set()


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        (CiEnvironment(ci_variable="GITHUB_ACTIONS", gpus=8, container="docker"), "ci"),
        (CiEnvironment(gpus=8, submitter="sbatch", container="kubernetes"), "gpu-node"),
        (CiEnvironment(submitter="sbatch", repository=True), "login-node"),
        (CiEnvironment(container="docker"), "container"),
        (CiEnvironment(container="docker", repository=True), "ci"),
        (CiEnvironment(), "ci"),
    ],
)
def test_the_profile_is_told_by_what_is_there(seen: CiEnvironment, name: str) -> None:
    choice = ci_profiles.choose(seen)
    assert choice.profile.name == name and choice.why


def test_the_choice_and_its_reason_are_printed(project: Path) -> None:
    assert "profile ci (GITLAB_CI is set)" in run("--parts", "lint", cwd=project, GITLAB_CI="true").stdout
    # CI=false is how people switch off what a shell exports
    assert "is set" not in run("--parts", "lint", cwd=project, CI="false").stdout


def test_a_scheduler_outside_of_its_jobs_makes_a_login_node(project: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sbatch").write_text("#!/bin/sh\n")
    (tools / "sbatch").chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    assert "profile login-node, since sbatch is here" in run("--show-profile", cwd=project, PATH=path).stdout
    inside = run("--show-profile", cwd=project, PATH=path, SLURM_JOB_ID="7", SLURM_PROCID="0", SLURM_NTASKS="1")
    assert "login-node" not in inside.stdout


@pytest.mark.parametrize("name", PROFILES)
def test_show_profile_tells_what_the_documentation_tells(name: str) -> None:
    result = CliRunner().invoke(ci.command, ["--show-profile", "--profile", name], standalone_mode=False)
    assert result.return_value == 0
    shown = " ".join(result.stdout.split())
    page = " ".join((ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split())
    for what, how in ci_profiles.rows(PROFILES[name]):
        assert " ".join(how.split()) in shown
        assert f"| {what} | {how} |" in page, f"docs/ci.md does not say of {name}: | {what} | {how} |"


def test_scripts_that_lie_open_are_a_project(tmp_path: Path) -> None:
    """An image whose folder holds nothing but training scripts is not called sound without a look at them."""

    def seen() -> bool:
        before = os.getcwd()
        os.chdir(tmp_path)
        try:
            return ci._in_a_repository()
        finally:
            os.chdir(before)

    (tmp_path / "entrypoint.sh").touch()
    assert not seen()
    (tmp_path / "train.py").touch()
    assert seen()


def test_a_login_node_is_not_judged_as_a_host_of_the_job(project: Path) -> None:
    status, plain = report("--profile", "login-node", "-v", cwd=project, CUDA_VISIBLE_DEVICES="7", NCCL_DEBUGG="1")
    assert status == 0
    said = {item["code"] for item in plain["findings"]} | {item["what"] for item in plain["not_checked"]}
    assert {code[:3] for code in said if code.startswith("DC")} == {"DC1"}


def test_a_rule_that_is_asked_for_by_its_code_is_not_kept_silent(project: Path) -> None:
    _, plain = report("--profile", "ci", "--parts", "env", cwd=project)
    assert plain["not_checked"] == []
    gpu_rules = ("--select", "DC309", "--must-check", "DC309")
    status, plain = report("--profile", "ci", "--parts", "env", *gpu_rules, cwd=project)
    if status == 3:  # no driver here
        assert plain["not_checked"][0]["what"] == "DC309"
    else:
        assert "host.gpu_health.gpus_are_sound" in {item["name"] for item in plain["probes"]}


def test_a_gpu_node_without_its_gpus_never_ends_with_0(project: Path) -> None:
    if psutil.LINUX and Path("/proc/driver/nvidia").exists():
        pytest.skip("there is a GPU driver here")
    status, plain = report("--profile", "gpu-node", "--parts", "env", cwd=project)
    assert status == 1 and codes(plain)["DC121"] == "env"
    result = run("--profile", "gpu-node", "--parts", "env", "--ignore", "DC121,DC330", cwd=project)
    assert result.returncode == 3
    assert "must be checked and were not" in result.stderr and "DC309" in result.stderr


# the time limit


def silent() -> None:
    """Nobody is told anything."""


def running(mark: str) -> list[int]:
    return [item.pid for item in psutil.process_iter(["cmdline"]) if mark in " ".join(item.info["cmdline"] or ())]


@pytest.mark.slow
def test_what_takes_too_long_is_ended_with_all_that_it_started() -> None:
    mark = "61.7231"
    began = time.monotonic()
    with pytest.raises(subprocess_call.Overdue):
        subprocess_call.call(subprocess.run, (["sleep", mark],), 1.0, silent)
    assert time.monotonic() - began < 4
    until = time.monotonic() + 2
    while running(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert running(mark) == []


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (os._exit, (3,), "its process ended with status 3"),
        (os.abort, (), "its process was ended by SIGABRT"),
        (os.listdir, ("/no/such/folder",), "FileNotFoundError"),
        (os.kill, (0, signal.SIGKILL), "its process was ended by SIGKILL"),
    ],
)
def test_a_process_that_breaks_is_told_with_how(function: Any, arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(subprocess_call.Broken, match=said):
        subprocess_call.call(function, arguments, 20.0, silent)


def test_what_is_printed_does_not_stand_in_the_answer() -> None:
    answer = subprocess_call.call(os.write, (1, b"noise\n"), 20.0, silent)
    assert (answer.value, answer.text) == (6, "noise\n")


def test_without_memory_files_it_takes_a_folder_or_says_which_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert subprocess_call.call(os.write, (1, b"noise\n"), 20.0, silent).value == 6

    def no_folder() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(subprocess_call.tempfile, "TemporaryFile", no_folder)
    with pytest.raises(subprocess_call.Broken, match="name one in TMPDIR"):
        subprocess_call.call(os.write, (1, b"noise\n"), 20.0, silent)


def test_wrong_use_crosses_as_wrong_use() -> None:
    from distcheck.core.configuration import Configuration

    with pytest.raises(click.UsageError, match="leaves no rule"):
        subprocess_call.call(ci_parts.lint, (["--select", "DC401"], Configuration()), 20.0, silent)


def test_a_part_that_does_not_fit_is_not_checked_and_the_status_is_3(project: Path, fake_torch: Any) -> None:
    torch = fake_torch("raise SystemError('nobody may import this')")
    result = run_apart("--parts", "env,smoke", "--budget", "3s", "--ignore", "DC122", cwd=project, PYTHONPATH=torch)
    assert result.returncode == 3, result.stdout
    assert "smoke: " in result.stdout and "of --budget were left" in result.stdout
    assert "the time limit ended" in result.stderr


def test_what_comes_first_leaves_time_for_the_others(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, float] = {}

    def look(part: str, asked: Any, limit_s: float, tell: Any) -> Any:
        given[part] = limit_s
        raise subprocess_call.Overdue

    monkeypatch.setattr(ci, "_look", look)
    monkeypatch.setattr(ci, "_has_torch", lambda: True)
    # a clock that stands: what is given is exact, however busy the machine is
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    result = run("--profile", "ci", "--budget", "100s", cwd=project)
    # 1 s for env and 15 s for the smoke test, of a time that nothing was taken of
    assert [round(given[part]) for part in ("lint", "env", "smoke")] == [84, 85, 100]
    assert result.returncode == 3 and "a larger --budget gives it more" in " ".join(result.stdout.split())
    run("--profile", "ci", "--budget", "8s", cwd=project)
    # of a short time a quarter at most
    assert [round(given[part]) for part in ("lint", "env", "smoke")] == [6, 6, 8]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise ImportError('libcudart.so.12: cannot open shared object file')", "torch can't be imported: "),
        ("import os; os.abort()", "its process was ended by SIGABRT"),
    ],
)
def test_a_torch_that_breaks_is_no_clean_end(project: Path, fake_torch: Any, line: str, said: str) -> None:
    result = run_apart("--parts", "smoke", cwd=project, PYTHONPATH=fake_torch(line))
    assert result.returncode == 3
    assert said in " ".join(result.stdout.split()) and said in result.stderr
    assert "'distcheck collective --quick' runs it alone" in result.stderr


def test_where_torch_is_not_installed_the_smoke_test_is_left_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ci, "_has_torch", lambda: False)
    status, plain = report("--profile", "ci", cwd=project)
    assert (status, statuses(plain)) == (0, {"lint": "ran", "env": "ran", "smoke": "left-out"})
    named = run("--parts", "smoke", cwd=project)
    assert named.returncode == 3 and "torch is not installed" in named.stderr


def test_a_folder_called_torch_is_no_torch(project: Path) -> None:
    (project / "torch").mkdir()
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, cwd="/").returncode == 0:
        pytest.skip("torch is installed")
    assert "torch is not installed" in run_apart("--show-profile", cwd=project).stdout


@pytest.mark.slow
@pytest.mark.quiet
def test_a_torch_that_hangs_is_left_when_the_time_is_over(project: Path, fake_torch: Any) -> None:
    torch = fake_torch("import time; time.sleep(600)")
    began = time.monotonic()
    result = run_apart("--parts", "env,smoke", "--budget", "7s", "--ignore", "DC122", cwd=project, PYTHONPATH=torch)
    assert result.returncode == 3
    assert time.monotonic() - began < 12
    assert "its time limit ended after" in result.stdout
    assert running(torch) == []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_whoever_ends_it_ends_all_of_it(project: Path, fake_torch: Any, number: int, status: int) -> None:
    torch = fake_torch("import time; time.sleep(600)")
    process = subprocess.Popen(
        [sys.executable, "-m", "distcheck", "ci", "--parts", "smoke"],
        cwd=project, env=environment(PYTHONPATH=torch), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + 20
        while not running(torch) and time.monotonic() < until:
            time.sleep(0.05)
        assert running(torch)
        process.send_signal(number)
        assert process.wait(10) == status
        assert running(torch) == []
    finally:
        process.kill()
        process.wait()


# the smoke test itself


@pytest.mark.torch
def test_two_ranks_prove_every_collective_and_torch_stays_outside_of_this_process(project: Path) -> None:
    program = (
        "import sys; from distcheck.cli.main import group\n"
        "status = group.main(['ci', '--profile', 'ci', '--output-format', 'json'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(status)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project, env=environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    plain = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    severities = {item["severity"] for item in plain["findings"]}
    assert (result.returncode, severities, plain["not_checked"]) == (0, {"info"}, []), result.stderr
    assert statuses(plain) == {"lint": "ran", "env": "ran", "smoke": "ran"}
    assert plain["measurements"]["proof"]["world_size"] == 2
    assert "all collectives correct" in plain["measurements"]["sentence"]


@pytest.mark.torch
@pytest.mark.slow
def test_a_smoke_test_that_fails_names_its_part(project: Path) -> None:
    """The variable makes gloo look for an interface that is not there."""
    status, plain = report("--parts", "smoke", cwd=project, GLOO_SOCKET_IFNAME="nosuch0")
    assert status == 1
    assert set(codes(plain).values()) == {"smoke"}
    assert re.match(r"DC5", next(iter(codes(plain))))
