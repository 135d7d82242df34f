"""Which variables are in force, and who set them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.configuration import Configuration
from distcheck.launch.model import Launch, LaunchCommand
from distcheck.launch.settings import Setting, Settings, parse_nccl_conf, read_settings
from tests.recorded import recorded_world

SHELL = Launch()
TORCHRUN_WORKER = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node1",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "OMP_NUM_THREADS": "1",
    "NCCL_DEBUG": "INFO",
}


def settings(folder: Path, launch: Launch = SHELL, **record: Any) -> Settings:
    return read_settings(recorded_world(folder, **record), launch, Configuration())


def origins(found: Settings) -> dict[str, str]:
    return {item.name: item.origin for item in found.items}


def test_the_environment_is_in_force(tmp_path: Path) -> None:
    found = settings(tmp_path, environ={"NCCL_DEBUG": "INFO", "HOME": "/home/user", "WANDB_API_KEY": "x"})
    assert found.items == (Setting("NCCL_DEBUG", "INFO", "environment"),)
    assert (found.get("NCCL_DEBUG"), found.origin("NCCL_DEBUG")) == ("INFO", "environment")
    assert (found.get("NCCL_IB_HCA"), found.of("NCCL_IB_HCA"), found.origin("NCCL_IB_HCA")) == (None, None, None)


def test_what_torchrun_set_is_no_users_doing(tmp_path: Path) -> None:
    assert origins(settings(tmp_path, environ=TORCHRUN_WORKER)) == {
        **dict.fromkeys(TORCHRUN_WORKER, "launcher"),
        "NCCL_DEBUG": "environment",
    }


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        pytest.param({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}, "TORCH_NCCL_ASYNC_ERROR_HANDLING", id="no torchrun"),
        pytest.param(
            {**TORCHRUN_WORKER, "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"},
            "TORCH_NCCL_ASYNC_ERROR_HANDLING",
            id="torchrun gives 1, and leaves the user's 0",
        ),
        pytest.param({**TORCHRUN_WORKER, "OMP_NUM_THREADS": "8"}, "OMP_NUM_THREADS", id="threads of the user"),
        pytest.param(
            {**TORCHRUN_WORKER, "LOCAL_WORLD_SIZE": "1"}, "OMP_NUM_THREADS", id="torchrun leaves a single worker alone"
        ),
    ],
)
def test_what_the_user_set_is_the_users(tmp_path: Path, environ: dict[str, str], name: str) -> None:
    found = settings(tmp_path, environ=environ).of(name)
    assert found is not None
    assert found.by_user


def test_files_come_after_the_environment_and_the_users_before_the_sites(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        environ={"NCCL_DEBUG": "WARN"},
        files={
            "/etc/nccl.conf": "# site\nNCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5\nNCCL_SOCKET_IFNAME=eth0\n",
            "/home/user/.nccl.conf": "NCCL_IB_HCA==mlx5_0\nNCCL_IB_HCA=twice\n",
        },
    )
    assert found.items == (
        Setting("NCCL_DEBUG", "WARN", "environment"),
        Setting("NCCL_IB_HCA", "=mlx5_0", "~/.nccl.conf:1"),
        Setting("NCCL_SOCKET_IFNAME", "eth0", "/etc/nccl.conf:4"),
    )
    of_site = found.of("NCCL_SOCKET_IFNAME")
    assert of_site is not None
    assert (of_site.by_site, of_site.by_user) == (True, False)


def test_an_empty_variable_hides_the_file_and_counts_as_unset(tmp_path: Path) -> None:
    found = settings(tmp_path, environ={"NCCL_IB_HCA": ""}, files={"/etc/nccl.conf": "NCCL_IB_HCA=mlx5\n"})
    assert found.get("NCCL_IB_HCA") is None
    assert found.of("NCCL_IB_HCA") == Setting("NCCL_IB_HCA", "", "environment")


def test_an_empty_variable_of_torch_is_set(tmp_path: Path) -> None:
    assert settings(tmp_path, environ={"TORCH_DISTRIBUTED_DEBUG": ""}).get("TORCH_DISTRIBUTED_DEBUG") == ""


def test_a_named_file_stands_in_for_the_users(tmp_path: Path) -> None:
    files = {"/home/user/.nccl.conf": "NCCL_DEBUG=INFO\n", "/opt/job.conf": "NCCL_NET=Socket"}
    found = settings(tmp_path, environ={"NCCL_CONF_FILE": "/opt/job.conf"}, files=files)
    assert origins(found) == {"NCCL_CONF_FILE": "environment", "NCCL_NET": "/opt/job.conf:1"}
    assert found.unread is None


def test_a_named_file_that_is_missing_is_told(tmp_path: Path) -> None:
    files = {"/home/user/.nccl.conf": "NCCL_DEBUG=INFO\n", "/etc/nccl.conf": "NCCL_NET=IB\n"}
    found = settings(tmp_path, environ={"NCCL_CONF_FILE": "~/job.conf"}, files=files)
    assert found.unread == "No such file or directory"
    assert origins(found)["NCCL_NET"] == "/etc/nccl.conf:1"
    assert found.get("NCCL_DEBUG") is None, "NCCL reads no other file of the user then"


def test_an_empty_name_of_a_file_is_none(tmp_path: Path) -> None:
    found = settings(tmp_path, environ={"NCCL_CONF_FILE": ""}, files={"/home/user/.nccl.conf": "NCCL_DEBUG=INFO\n"})
    assert found.get("NCCL_DEBUG") == "INFO"


def test_a_planned_command_wins(tmp_path: Path) -> None:
    command = LaunchCommand("torchrun", assignments={"NCCL_DEBUG": "TRACE", "NCCL_CONF_FILE": "/opt/job.conf"})
    found = settings(
        tmp_path,
        Launch("planned", command=command),
        environ={"NCCL_DEBUG": "WARN"},
        files={"/opt/job.conf": "NCCL_NET=IB\nNCCL_DEBUG=INFO\n"},
    )
    assert found.get("NCCL_DEBUG") == "TRACE"
    assert origins(found) == {"NCCL_CONF_FILE": "command", "NCCL_DEBUG": "command", "NCCL_NET": "/opt/job.conf:1"}


def test_files_of_this_host_are_not_those_of_a_job_elsewhere(tmp_path: Path) -> None:
    launch = Launch("planned", on_this_host=False)
    found = settings(tmp_path, launch, environ={"NCCL_NET": "IB"}, files={"/etc/nccl.conf": "NCCL_DEBUG=INFO\n"})
    assert origins(found) == {"NCCL_NET": "environment"}
    assert not found.files_apply


def test_a_file_gives_no_secret_and_nothing_foreign(tmp_path: Path) -> None:
    found = settings(
        tmp_path, files={"/etc/nccl.conf": "PATH=/x\nNCCL_PLUGIN_TOKEN=abc\nHTTP_PROXY=http://me:secret@proxy:80\n"}
    )
    assert origins(found) == {"HTTP_PROXY": "/etc/nccl.conf:3", "NCCL_PLUGIN_TOKEN": "/etc/nccl.conf:2"}
    assert "secret" not in repr(found)
    assert "abc" not in repr(found)


def test_a_blank_belongs_to_the_name(tmp_path: Path) -> None:
    found = settings(tmp_path, files={"/etc/nccl.conf": "export NCCL_DEBUG=INFO\nNCCL_NET =IB\n # x y=1\n  =2\n"})
    assert [item.name for item in found.items] == ["NCCL_NET ", "export NCCL_DEBUG"]
    assert found.get("NCCL_DEBUG") is None


def test_modules_that_logs_may_name(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        Launch(script="train/main.py"),
        environ={"TORCH_LOGS": "+json,trainer,helpers,thing,nothing,dynamo"},
        files={"/site/trainer/__init__.py": "", "/project/helpers.py": "", "/site/thing-1.0.dist-info/METADATA": ""},
        python_path=["/site", "/missing"],
        working_folder="/project",
    )
    assert found.importable == {"json", "trainer", "helpers"}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("NCCL_DEBUG=INFO\n", [(1, "NCCL_DEBUG", "INFO")]),
        ("# remark\n\nNCCL_NET=IB", [(3, "NCCL_NET", "IB")]),
        ("NCCL_NET = IB\n", [(1, "NCCL_NET ", " IB")]),
        (" # NCCL_NET=IB\n", [(1, " # NCCL_NET", "IB")]),
        ("NCCL_SOCKET_IFNAME==ens1f0\n", [(1, "NCCL_SOCKET_IFNAME", "=ens1f0")]),
        ("NCCL_DEBUG=INFO\r\n", [(1, "NCCL_DEBUG", "INFO\r")]),
        ("export NCCL_DEBUG=INFO\n", [(1, "export NCCL_DEBUG", "INFO")]),
        ("NCCL_DEBUG\n=x\n", []),
        ("NCCL_HOSTID=" + "x" * 2000, [(1, "NCCL_HOSTID", "x" * 1023)]),
        ("NCCL_HOSTID=a\0b\nNCCL_NET=IB", [(1, "NCCL_HOSTID", "a"), (2, "NCCL_NET", "IB")]),
        ("", []),
    ],
)
def test_a_file_is_read_as_nccl_reads_it(text: str, lines: list[tuple[int, str, str]]) -> None:
    assert parse_nccl_conf(text) == lines


@given(text=st.text())
def test_no_file_whatever_raises(text: str) -> None:
    lines = parse_nccl_conf(text)
    assert [number for number, _, _ in lines] == sorted({number for number, _, _ in lines})
    assert all(name and "=" not in name for _, name, _ in lines)
