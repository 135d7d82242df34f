"""``distcheck env -- sbatch train.sbatch``: the job script is read, with what it starts and the nodes that it gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.limits import Limits
from distcheck.checks.host.platform import Platform
from distcheck.cli.env_job_script import with_options
from distcheck.core.facts_file import dump_facts
from distcheck.core.rank_evidence import OF_DOCUMENTS

from .test_cli import distcheck, report_of

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8

export NCCL_SOCKET_IFNAMES=eth0
srun torchrun --standalone --nproc_per_node=8 train.py
"""
#: Four GPUs, of which the script wants eight.
NODE: dict[type, object] = {
    Gpus: Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA A100") for index in range(4))),
    Platform: Platform("linux", cpus=64),
    Limits: Limits(memory_total_bytes=512 << 30),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.sbatch").write_text(SCRIPT, encoding="utf-8")
    saved = dump_facts(NODE, tool_version="1", saved_at="2026-01-01T00:00:00+00:00")
    (tmp_path / "a100.json").write_text(saved, encoding="utf-8")
    return tmp_path


def launch_findings(plain: dict[str, Any], path: str = "train.sbatch") -> list[tuple[str, str, int | None]]:
    """Rule, severity and line of what stands in a file."""
    return sorted(
        (item["code"], item["severity"], item["where"].get("line"))
        for item in plain["findings"]
        if item["where"].get("path") == path and item["severity"] != "info"
    )


def test_the_findings_of_the_script_are_those_of_the_command(folder: Path) -> None:
    plain = report_of("env", "--", "sbatch", "train.sbatch", cwd=folder)
    assert plain["stage"] == "planned"
    assert launch_findings(plain) == [("DC110", "warning", 6)]
    (finding,) = [item for item in plain["findings"] if item["code"] == "DC110"]
    assert finding["evidence"]["source"] == "export NCCL_SOCKET_IFNAMES=eth0"
    assert not [item for item in plain["not_checked"] if "no launcher" in item["why"]]
    result = distcheck("env", "--fail-on", "warning", "--", "sbatch", "train.sbatch", cwd=folder)
    assert result.returncode == 1
    assert "train.sbatch:6:1" in result.stdout


def test_what_documents_would_show_is_no_evidence(folder: Path) -> None:
    lines = ["#!/bin/bash", "#SBATCH --gres=gpu:4", "set -u", "export NCCL_P2P_DISABLE=1", "echo $SLURM_GPUS"]
    (folder / "job.sbatch").write_text(
        "\n".join([*lines, "srun torchrun --standalone --nproc-per-node=4 train.py", ""])
    )
    found = {
        item["code"]: item["evidence"]
        for item in report_of("env", "--", "sbatch", "job.sbatch", cwd=folder)["findings"]
        if item["where"].get("path") == "job.sbatch"
    }
    assert found["DC114"].keys().isdisjoint(OF_DOCUMENTS)
    assert found["DC818"].keys().isdisjoint(OF_DOCUMENTS)


def test_options_of_the_command_win_over_directives(folder: Path) -> None:
    plain = report_of("env", "--", "sbatch", "--gres=gpu:4", "train.sbatch", cwd=folder)
    assert launch_findings(plain) == [("DC110", "warning", 6), ("DC301", "error", 7)]
    plain = report_of("env", "--", "sbatch", "--job-name", "a b", "--gres=gpu:8", "train.sbatch", "--x", cwd=folder)
    assert launch_findings(plain) == [("DC110", "warning", 6)]


def test_saved_facts_are_those_of_the_nodes(folder: Path) -> None:
    plain = report_of("env", "--facts", "a100.json", "--", "sbatch", "train.sbatch", cwd=folder)
    found = launch_findings(plain)
    assert ("DC301", "error", 4) in found
    assert "a100.json" in next(item["message"] for item in plain["findings"] if item["code"] == "DC301")


def test_the_configuration_names_the_facts_of_the_nodes(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.distcheck]\nnode-facts = "a100.json"\n', encoding="utf-8")
    plain = report_of("env", "--", "sbatch", "train.sbatch", cwd=folder)
    assert ("DC301", "error", 4) in launch_findings(plain)
    (folder / "pyproject.toml").write_text('[tool.distcheck]\nnode-facts = "none.json"\n', encoding="utf-8")
    result = distcheck("env", "--", "sbatch", "train.sbatch", cwd=folder)
    assert result.returncode == 2
    assert "node-facts: none.json: it can't be read" in result.stderr


def test_what_the_script_starts_is_read_as_well(folder: Path) -> None:
    (folder / "train.sbatch").write_text(SCRIPT.replace("torchrun --standalone --nproc_per_node=8", "python"), "utf-8")
    (folder / "train.py").write_text(
        "import torch.distributed as dist\n\n\ndef main():\n    dist.init_process_group('nccl')\n\n\nmain()\n", "utf-8"
    )
    plain = report_of("env", "--", "sbatch", "--gres=gpu:1", "train.sbatch", cwd=folder)
    assert ("DC802", "warning", 7) in launch_findings(plain)


def test_comments_silence_findings(folder: Path) -> None:
    text = SCRIPT.replace("=eth0", "=eth0  # distcheck: ignore[DC110]")
    (folder / "train.sbatch").write_text(text, encoding="utf-8")
    assert launch_findings(report_of("env", "--", "sbatch", "train.sbatch", cwd=folder)) == []


def test_names_that_the_configuration_knows_are_known(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.distcheck]\nknown-variables = ["NCCL_SOCKET_IFNAMES"]\n', encoding="utf-8"
    )
    assert launch_findings(report_of("env", "--", "sbatch", "train.sbatch", cwd=folder)) == []


def test_rules_of_launch_files_can_be_chosen(folder: Path) -> None:
    plain = report_of("env", "--select", "DC110", "--", "sbatch", "train.sbatch", cwd=folder)
    assert launch_findings(plain) == [("DC110", "warning", 6)]
    plain = report_of("env", "--ignore", "DC110", "--", "sbatch", "train.sbatch", cwd=folder)
    assert launch_findings(plain) == []
    chosen = distcheck("env", "--select", "DC804", "--", "sbatch", "train.sbatch", cwd=folder)
    assert chosen.returncode == 0
    assert distcheck("env", "--select", "DC804", cwd=folder).returncode == 2


@pytest.mark.parametrize("command", [("bash", "run.sh"), ("./run.sh",), ("nohup", "bash", "run.sh", "8")])
def test_any_script_that_a_command_hands_over_is_read(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "run.sh").write_text("export GLOO_IB_DISABLE=0\ntorchrun --nproc_per_node=1 train.py\n", "utf-8")
    assert launch_findings(report_of("env", "--", *command, cwd=folder), "run.sh") == [("DC110", "warning", 1)]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("none.sbatch", None, "can't be read: No such file"),
        ("binary.sbatch", b"\x7fELF\0\0\0\0", "binary data"),
        ("train.csh", b"#!/bin/csh\ntorchrun train.py\n", "is not a shell script"),
    ],
)
def test_a_script_that_cannot_be_read_is_said(folder: Path, name: str, data: bytes | None, why: str) -> None:
    if data is not None:
        (folder / name).write_bytes(data)
    plain = report_of("env", "--", "sbatch", name, cwd=folder)
    assert any(why in item["why"] + item["what"] for item in plain["not_checked"]), plain["not_checked"]


def test_a_script_without_directives_keeps_its_lines(folder: Path) -> None:
    (folder / "plain.sh").write_text("#!/bin/bash\nexport GLOO_IB_DISABLE=0\ntorchrun --nproc_per_node=8 train.py\n")
    plain = report_of("env", "--", "sbatch", "--gres=gpu:4", "plain.sh", cwd=folder)
    assert launch_findings(plain, "plain.sh") == [("DC110", "warning", 2), ("DC301", "error", 3)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"#!/bin/bash\n#SBATCH -N2\n\necho\n", (b"#!/bin/bash\n#SBATCH -N2 -N 4\n\necho\n", None)),
        (b"#!/bin/bash\r\n#SBATCH -N2\r\necho\r\n", (b"#!/bin/bash\r\n#SBATCH -N2 -N 4\r\necho\r\n", None)),
        # a comment behind a directive would swallow them
        (b"#SBATCH -N2 # two\necho\n", (b"#SBATCH -N2 -N 4\necho\n", None)),
        # behind the first command there are no directives
        (b"#!/bin/bash\necho\n#SBATCH -N2\n", (b"#!/bin/bash\n#SBATCH -N 4\necho\n#SBATCH -N2\n", 2)),
        (b"echo\n", (b"#SBATCH -N 4\necho\n", 1)),
    ],
)
def test_options_stand_behind_the_last_directive(data: bytes, expected: tuple[bytes, int | None]) -> None:
    assert with_options(data, "-N 4") == expected
