"""Files that launchers read on their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.checks.host.launcher_files import launchers_read_no_hidden_file, read_launcher_files
from distcheck.core.model import NotApplicable, Severity
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import make_launch
from tests.recorded import recorded_world

DEFAULT = "/home/user/.cache/huggingface/accelerate/default_config.yaml"


def planned(command: str) -> Launch:
    return make_launch({}, command=parse_command(command.split()))


def test_bad_dc116_accelerates_default(tmp_path: Path) -> None:
    launch = planned("accelerate launch train.py")
    world = recorded_world(tmp_path, files={DEFAULT: "num_processes: 8\n"})
    (finding,) = launchers_read_no_hidden_file(launch, read_launcher_files(world, launch))
    assert (finding.code, finding.severity, finding.where.path) == ("DC116", Severity.INFO, DEFAULT)


def test_bad_dc116_deepspeeds_variables(tmp_path: Path) -> None:
    launch = planned("deepspeed train.py")
    text = "# ours\nNCCL_DEBUG=INFO\nexport_me\nHF_TOKEN=hunter2\n"
    world = recorded_world(tmp_path, files={"/home/user/.deepspeed_env": text}, working_folder="/project")
    (finding,) = launchers_read_no_hidden_file(launch, read_launcher_files(world, launch))
    assert finding.evidence["variables"] == ["NCCL_DEBUG"]
    assert "hunter2" not in str(finding)


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("accelerate launch train.py", {}),
        ("accelerate launch --config_file mine.yaml train.py", {DEFAULT: ""}),
        ("deepspeed train.py", {"/home/user/.deepspeed_env": "\n"}),
    ],
)
def test_good_dc116_no_hidden_file(tmp_path: Path, command: str, files: dict[str, str]) -> None:
    launch = planned(command)
    assert (
        list(launchers_read_no_hidden_file(launch, read_launcher_files(recorded_world(tmp_path, files=files), launch)))
        == []
    )


def test_good_dc116_other_launchers_read_none_of_them(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable):
        read_launcher_files(recorded_world(tmp_path, files={DEFAULT: ""}), planned("torchrun train.py"))
