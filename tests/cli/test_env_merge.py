"""``distcheck env --merge`` as a user calls it: several processes that stand for hosts, a folder between them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from distcheck.checks.cluster import own_record  # noqa: F401 - its facts are saved as well
from distcheck.checks.host.examine import examine
from distcheck.core import registry
from distcheck.core.facts_file import dump_facts
from distcheck.launch.model import Launch
from tests.test_hosts import facts_of, launch_of, read, world_of

from .test_cli import SCHEMA, distcheck, environment

DISTCHECK = [sys.executable, "-m", "distcheck", "env"]
TORCHRUN = (
    "--", "torchrun", "--nnodes", "4", "--nproc-per-node", "8", "--rdzv-backend", "c10d", "--rdzv-endpoint",
    "127.0.0.1:29511", "train.py",
)  # fmt: skip


def slurm(task: int, hosts: int = 4, *, job: str = "12", step: str = "0", on_each: int = 1) -> dict[str, str]:
    """The variables of a task of ``srun -N hosts --ntasks-per-node=on_each``."""
    node = task // on_each
    count = str(hosts * on_each)
    return {
        "SLURM_JOB_ID": job, "SLURM_STEP_ID": step, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task % on_each),
        "SLURM_NODEID": str(node), "SLURM_NTASKS": count, "SLURM_STEP_NUM_TASKS": count,
        "SLURM_STEP_TASKS_PER_NODE": f"{on_each}(x{hosts})", "SLURM_NNODES": str(hosts),
        "SLURM_STEP_NUM_NODES": str(hosts), "SLURM_STEP_NODELIST": f"gpu[01-{hosts:02d}]",
        "SLURMD_NODENAME": f"gpu{node + 1:02d}",
    }  # fmt: skip


def openmpi(task: int, tasks: int) -> dict[str, str]:
    """The variables of a task of ``mpirun --map-by ppr:1:node``."""
    return {
        "OMPI_COMM_WORLD_RANK": str(task), "OMPI_COMM_WORLD_SIZE": str(tasks), "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMIX_NAMESPACE": "prterun-head-4711@1",
    }  # fmt: skip


class Run:
    """One task and what became of it."""

    def __init__(self, folder: Path, variables: Mapping[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*DISTCHECK, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**variables),
            cwd=folder,
        )

    def result(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=90)
        return self.process.returncode, out, err


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder that all hosts share; nothing of ours is left there."""
    shared = tmp_path / "shared"
    shared.mkdir()
    yield shared
    assert [path.name for path in shared.iterdir()] == []


def together(folder: Path, tasks: Sequence[Mapping[str, str]], *arguments: str) -> list[tuple[int, str, str]]:
    runs = [Run(folder, variables, *arguments) for variables in tasks]
    return [run.result() for run in runs]


def plain_of(text: str) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    return plain


# started together


def test_good_four_hosts_one_report(folder: Path) -> None:
    first, *others = together(folder, [slurm(task) for task in range(4)], "--merge", "--output-format", "json")
    assert first[0] == 0, first
    assert others == [(0, "", "")] * 3
    plain = plain_of(first[1])
    assert plain["subject"]["host"] == "gpu[01-04]"
    assert plain["subject"]["merged_hosts"] == 4
    assert plain["subject"]["line"][0] == "4 hosts"
    assert plain["subject"]["closing"] == []
    assert [item for item in plain["findings"] if item["severity"] != "info"] == []


@pytest.mark.slow
def test_bad_a_host_that_sends_nothing_is_named_in_time(folder: Path) -> None:
    start = time.monotonic()
    first, *others = together(folder, [slurm(task) for task in (0, 1, 3)], "--merge", "--wait", "2s")
    assert time.monotonic() - start < 30
    status, out, err = first
    assert status == 3
    assert err == "distcheck: not every host was checked: gpu03\n"
    assert "3 of 4 hosts" in out
    assert "sent nothing within 2 s: gpu03" in out.splitlines()
    assert "to run without them: --exclude=gpu03" in out.splitlines()
    assert [(status, out) for status, out, _ in others] == [(0, "")] * 2


def test_bad_one_hosts_trouble_is_said_with_its_name(folder: Path) -> None:
    tasks = [slurm(task) for task in range(4)]
    tasks[2]["TORCH_FR_BUFFER_SIZE"] = "abc"
    arguments = ("--merge", "--select", "DC112", "--output-format", "json", *TORCHRUN)
    first, *others = together(folder, tasks, *arguments)
    assert first[0] == 1
    assert [status for status, _, _ in others] == [0] * 3
    plain = plain_of(first[1])
    assert plain["stage"] == "planned"
    assert [(item["code"], item["where"]["host"]) for item in plain["findings"]] == [("DC112", "gpu03")]


def test_bad_what_differs_between_hosts_is_compared(folder: Path) -> None:
    tasks = [slurm(task) for task in range(4)]
    tasks[3]["NCCL_PROTO"] = "Simple"
    arguments = ("--merge", "--backend", "nccl", "--select", "DC504", "--output-format", "json", *TORCHRUN)
    plain = plain_of(together(folder, tasks, *arguments)[0][1])
    (finding,) = plain["findings"]
    assert (finding["code"], finding["severity"]) == ("DC504", "warning")
    assert "gpu04" in json.dumps(finding)
    assert "NCCL_PROTO" in finding["message"]


def test_good_several_tasks_a_host_speak_once(folder: Path) -> None:
    tasks = [slurm(task, 2, on_each=2) for task in range(4)]
    scratch = folder.parent / "tmp"
    for node in range(2):
        (scratch / str(node)).mkdir(parents=True)
    for number, task in enumerate(tasks):
        task["TMPDIR"] = str(scratch / str(number // 2))  # each host has a folder of its own
    results = together(folder, tasks, "--merge", "--output-format", "json")
    assert [status for status, _, _ in results] == [0] * 4
    assert [bool(out) for _, out, _ in results] == [True, False, False, False]
    plain = plain_of(results[0][1])
    assert plain["subject"]["host"] == "gpu[01-02]"
    assert not any("did not come" in item["why"] for item in plain["not_checked"])


def test_bad_what_each_task_of_a_host_says_reaches_the_comparison(folder: Path) -> None:
    """Here, that the ranks of two hosts have the same numbers."""
    tasks = [
        {**slurm(task, 2, on_each=2), "RANK": str(task % 2), "LOCAL_RANK": str(task % 2), "WORLD_SIZE": "4",
         "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512"}
        for task in range(4)
    ]  # fmt: skip
    for number, task in enumerate(tasks):
        task["TMPDIR"] = str(folder.parent / f"tmp{number // 2}")
        Path(task["TMPDIR"]).mkdir(exist_ok=True)
    results = together(folder, tasks, "--merge", "--select", "DC5,DC103", "--output-format", "json")
    plain = plain_of(results[0][1])
    assert plain["stage"] == "rank"
    assert {"DC502", "DC103"} & {item["code"] for item in plain["findings"]}, plain


def test_good_tasks_of_mpirun(folder: Path) -> None:
    results = together(folder, [openmpi(task, 3) for task in range(3)], "--merge", "--output-format", "json")
    assert [status for status, _, _ in results] == [0] * 3
    assert plain_of(results[0][1])["stage"] == "shell"
    assert results[1][1] == results[2][1] == ""


@pytest.mark.slow
def test_bad_tasks_that_nothing_names_are_counted(folder: Path) -> None:
    status, out, _ = together(folder, [openmpi(task, 4) for task in range(2)], "--merge", "--wait", "1")[0]
    assert status == 3
    assert "sent nothing within 1 s: 2 tasks, on hosts that nothing names" in out


def test_good_two_steps_of_one_job_do_not_mix(folder: Path) -> None:
    tasks = [slurm(task, 2, step=step) for step in "01" for task in range(2)]
    results = together(folder, tasks, "--merge", "--output-format", "json")
    assert [status for status, _, _ in results] == [0] * 4
    for number in (0, 2):
        assert plain_of(results[number][1])["subject"]["merged_hosts"] == 2


@pytest.mark.slow
def test_bad_a_first_host_that_never_comes_is_named_by_another(folder: Path) -> None:
    results = together(folder, [slurm(task) for task in (1, 2, 3)], "--merge", "--wait", "1s")
    told = [(status, out) for status, out, _ in results if out]
    assert len(told) == 1, results
    status, out = told[0]
    assert status == 3
    assert "sent nothing within 1 s: gpu01" in out.splitlines()
    assert "3 of 4 hosts" in out


@pytest.mark.slow
def test_bad_a_damaged_record_is_said(folder: Path) -> None:
    run = Run(folder, slurm(0, 2), "--merge", "--wait", "20s")
    place = folder / ".distcheck-12.0"
    wait_for(place)
    (place / "1+gpu02.json").write_text('{"kind": "distcheck rec')
    status, out, _ = run.result()
    assert status == 3
    assert "sent what can't be read: gpu02" in out
    assert "1 of 2 hosts" in out


def test_bad_a_folder_that_can_not_be_written(folder: Path) -> None:
    arguments = ("--merge", "--merge-dir", "/proc", "--wait", "0.2s", "--select", "DC112")
    results = together(folder, [{**slurm(task, 2), "TORCH_FR_BUFFER_SIZE": "abc"} for task in range(2)], *arguments)
    for (status, out, err), host in zip(results, ("gpu01", "gpu02"), strict=True):
        assert status in (1, 2), (out, err)
        assert len(err.splitlines()) == 1
        assert err.startswith(f"distcheck: {host}: no folder for the records can be made in /proc")
        assert "DC112" in out


@pytest.mark.slow
def test_bad_hosts_that_share_no_folder(folder: Path) -> None:
    """Each has a folder of its own: all say so, and what each has seen is not lost."""
    own = [folder.parent / name for name in ("a", "b")]
    runs = []
    for task, place in enumerate(own):
        place.mkdir()
        runs.append(Run(place, slurm(task, 2), "--merge", "--wait", "0.5s"))
    (status, out, _), (other_status, _, err) = [run.result() for run in runs]
    assert (status, other_status) == (3, 2)
    assert "is that a folder that all hosts share? --merge-dir names another" in out
    assert "sent nothing within 0.5 s: gpu02" in out
    assert "--exclude" not in out
    assert "gpu02: no other host's record came to" in err and "--merge-dir" in err
    for place in own:
        assert list(place.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.slow
def test_a_signal_leaves_nothing_behind(folder: Path, number: signal.Signals) -> None:
    run = Run(folder, slurm(0), "--merge", "--wait", "60s")
    wait_for(folder / ".distcheck-12.0")
    wait_until_collecting(run)
    run.process.send_signal(number)
    status, out, err = run.result()
    assert (status, out) == (128 + number, "")
    assert "Traceback" not in err
    assert not (folder / ".distcheck-12.0").exists()


def wait_for(place: Path) -> None:
    end = time.monotonic() + 30
    while not place.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_until_collecting(run: Run) -> None:
    """Until it has looked at its host, and waits for others; a signal before that is answered as well."""
    time.sleep(0.8)
    assert run.process.poll() is None


def test_select_of_a_rule_that_only_comparing_sees(folder: Path) -> None:
    first, _ = together(folder, [slurm(task, 2) for task in range(2)], "--merge", "--select", "DC503")
    assert first[0] == 0, first
    assert distcheck("env", "--select", "DC503", cwd=folder).returncode == 2


# records of before


def record(folder: Path, name: str, **variables: str) -> str:
    """A record of this host under another name."""
    result = distcheck("env", "--save-record", "-", "--backend", "nccl", cwd=folder, **variables)
    assert result.returncode == 0 and result.stdout.count("\n") == 1, result
    plain = json.loads(result.stdout)
    host = plain["host"]
    plain["record"]["record"]["boot_id"] = f"boot-{name}"
    text: str = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", name, json.dumps(plain))
    return text


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("records")
    healthy = record(folder, "gpu01")
    return {
        **{f"gpu{number:02d}": healthy.replace("gpu01", f"gpu{number:02d}") for number in range(1, 5)},
        "gpu05": record(folder, "gpu05", TORCH_FR_BUFFER_SIZE="abc"),
    }


def test_records_in_files_and_folders(tmp_path: Path, records: dict[str, str]) -> None:
    (tmp_path / "more").mkdir()
    for name, text in records.items():
        (tmp_path / ("more" if name > "gpu03" else "") / f"{name}.json").write_text(text)
    result = distcheck(
        "env", "--select", "DC112", "--output-format", "json", "--merge", "gpu01.json", "gpu02.json", "gpu03.json",
        "more", cwd=tmp_path,
    )  # fmt: skip
    plain = plain_of(result.stdout)
    assert plain["subject"]["host"] == "gpu[01-05]"
    assert [(item["code"], item["where"]["host"]) for item in plain["findings"] if item["code"] == "DC112"] == [
        ("DC112", "gpu05")
    ]


def test_records_as_pdsh_prints_them(tmp_path: Path, records: dict[str, str]) -> None:
    lines = [f"{name}: {text}\n" for name, text in records.items()]
    lines[1] = lines[1][:400] + "\n"
    lines.insert(0, "gpu09: bash: distcheck: command not found\n")
    result = subprocess.run(
        [*DISTCHECK, "--expect", "gpu[01-06]", "--merge", "-"],
        input="".join(lines),
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=60,
    )
    assert result.returncode in (1, 3), result
    assert "4 of 6 hosts" in result.stdout
    assert "sent nothing: gpu06" in result.stdout.splitlines()
    assert "sent what can't be read: gpu02" in result.stdout.splitlines()


def test_one_report_saved_record_and_folder(tmp_path: Path) -> None:
    result = distcheck("env", "-q", "--save-record", str(tmp_path), cwd=tmp_path)
    assert "0 errors" in result.stdout
    (path,) = tmp_path.glob("*.json")
    merged = distcheck("env", "--merge", path.name, cwd=tmp_path)
    assert merged.returncode == 0
    assert "1 host ·" in merged.stdout


def facts_text(host: str, folder: Path, number: int = 0) -> tuple[str, str]:
    """A recorded machine's name, and its facts as --save-facts writes them."""
    case = read(host, "cases")[number]
    world = world_of(host, case, folder)
    launch = launch_of(case, world)
    report = examine(launch, world, facts=facts_of(host, case), every_fact=True)
    known = {made.__name__: made for made in registry.readers()}
    facts = {known[name]: value for name, value in report.facts.items() if name in known}
    return world.host_name(), dump_facts({**facts, Launch: launch}, tool_version="test", saved_at="")


def test_a_folder_of_facts(tmp_path: Path) -> None:
    name, text = facts_text("hgx-h100-infiniband", tmp_path / "trees")
    facts = tmp_path / "facts"
    facts.mkdir()
    for number in range(1, 9):
        (facts / f"{number}.json").write_text(text.replace(name, f"gpu{number:02d}"))
    plain = json.loads(text.replace(name, "gpu09"))
    plain["facts"]["Gpus"]["gpus"] = plain["facts"]["Gpus"]["gpus"][:7]
    (facts / "9.json").write_text(json.dumps(plain))

    quiet = distcheck("env", "--facts", "facts", cwd=tmp_path)
    assert quiet.returncode == 0, quiet
    assert "9 hosts · " in quiet.stdout

    planned = distcheck("env", "--facts", "facts", "--nnodes", "9", "--nproc-per-node", "8", cwd=tmp_path)
    assert planned.returncode == 1
    assert "error DC301 nproc-exceeds-gpus  (gpu09" in planned.stdout
    assert "to run without them: --exclude=gpu09" in planned.stdout
    assert len(planned.stdout.splitlines()) <= 20


@pytest.mark.slow
def test_a_thousand_files_in_seconds(tmp_path: Path) -> None:
    name, text = facts_text("hgx-h100-infiniband", tmp_path / "trees")
    facts = tmp_path / "facts"
    facts.mkdir()
    for number in range(1100):
        (facts / f"{number}.json").write_text(text.replace(name, f"gpu{number:04d}"))
    result = distcheck("env", "--facts", "facts", cwd=tmp_path)
    assert result.returncode == 0, result
    assert "1,100 hosts · 8 × NVIDIA H100 80GB HBM3" in result.stdout
    assert len(result.stdout.splitlines()) <= 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--merge",), "no variable shows which other hosts take part"),
        (("--merge", "gone.json"), "gone.json: there is no such file; a command to check follows --"),
        (("--merge", "empty"), "empty: there is no .json file in this folder"),
        (("--merge", "text.json"), "text.json: there is no record in it"),
        (("--merge", "other.json"), "other.json: it is no record; expected what 'distcheck env --save-record' writes"),
        (("--merge", "half.json"), "half.json"),
        (("--facts", "empty"), "empty: there is no .json file in this folder"),
        (("--merge", "--wait", "soon"), "--wait is 'soon'; expected a time such as 30s, 30 or 2m"),
        (("--expect", "gpu[1-", "--merge", "other.json"), "--expect: the brackets of 'gpu[1-' do not match"),
        (("--wait", "3s"), "--wait belongs to --merge"),
        (("--merge-dir", "."), "--merge-dir belongs to --merge"),
        (("--merge", "--save-facts", "x.json"), "--save-facts is about one host"),
        (("--merge", "--merge-dir", ".", "other.json"), "--merge-dir is the folder in which hosts exchange records"),
        (("--facts", "empty", "--merge-dir", "."), "--merge-dir is the folder in which hosts exchange records"),
        (("--save-record", "gone/x.json"), "the folder gone does not exist"),
        (("--save-record", "x.json", "-o", "x.json"), "--save-record takes the name of a file of its own"),
    ],
)
def test_bad_use_is_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.json").write_text("hello\n")
    (tmp_path / "other.json").write_text('{"schema_version": 1}')
    (tmp_path / "half.json").write_text('{"kind": "distcheck record", "v": 1')
    variables = slurm(0) if "soon" in arguments else {}
    result = distcheck("env", *arguments, cwd=tmp_path, **variables)
    assert result.returncode == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_bad_a_run_without_a_name_needs_a_folder(folder: Path) -> None:
    tasks = [{"PMI_RANK": str(task), "PMI_SIZE": "2"} for task in range(2)]
    result = distcheck("env", "--merge", cwd=folder, **tasks[0])
    assert result.returncode == 2
    assert "--merge-dir" in result.stderr
    results = together(folder, tasks, "--merge", "--merge-dir", ".", "--output-format", "json")
    assert [status for status, _, _ in results] == [0, 0], results
    assert plain_of(results[0][1])["subject"]["merged_hosts"] == 1  # two tasks on this one host


def test_plain_env_imports_nothing_of_this(tmp_path: Path) -> None:
    program = (
        "import sys, runpy, os\n"
        "from distcheck.cli import main as cli\n"
        "def leave(status):\n"
        "    names = [n for n in sys.modules if n.endswith(('.merging', '.exchange', '.own_record', '.judges'))]\n"
        "    print(names, file=sys.stderr); os._exit(status)\n"
        "cli.leave = leave\n"
        "sys.argv = ['distcheck', 'env', '-q']\n"
        "cli.main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert result.stderr.strip() == "[]", result.stderr


def test_bad_a_pattern_of_the_shell_names_what_a_neighbor_put_there(tmp_path: Path) -> None:
    """``--merge /shared/*.json``: a pipe of another user would be awaited, and a device read without an end."""
    (tmp_path / "zeros.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    if os.geteuid() == 0:
        os.chown(tmp_path / "pipe.json", 65534, 65534)
    for name in ("zeros.json", *(["pipe.json"] if os.geteuid() == 0 else [])):
        done = subprocess.run(
            [sys.executable, "-m", "distcheck", "env", "--merge", str(tmp_path / name)],
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode, "it can't be read" in done.stderr) == (2, True), done.stderr
