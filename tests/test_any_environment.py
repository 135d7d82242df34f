"""No environment whatsoever makes it crash, or print a credential."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distcheck.checks.host.examine import examine
from distcheck.core.model import Severity
from distcheck.core.variable_table import VariableTable
from distcheck.launch.reader import make_launch
from distcheck.reporters import FORMATS, Style, render

from .recorded import RecordedWorld

#: An example is a whole examination, rendered in all formats.
FULL = os.environ.get("TOX_ENV_NAME") == "full"
NAMES = sorted(VariableTable().names())
WORDS = ["", "0", "1", "2", "8", "-1", "true", "gpu", "abc", "localhost", "127.0.0.1", "10.0.0.1", "node[1-4]", "^lo", "=eth0", "a,b", "1e9", "99999999999999999999", "\n", "$X", "tcp://10.0.0.1:29500", "INFO", "/nowhere"]  # fmt: skip
VALUES = st.sampled_from(WORDS) | st.text(max_size=30).filter(lambda text: "\x00" not in text)
LAUNCH_NAMES = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "SLURM_STEP_ID", "CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "KUBERNETES_SERVICE_HOST", "PET_NNODES", "OMPI_COMM_WORLD_RANK"]  # fmt: skip
ENVIRONMENTS = st.dictionaries(st.sampled_from(NAMES) | st.sampled_from(LAUNCH_NAMES), VALUES, max_size=12)
SECRET = "hunter2" + "Q" * 4

WORLD = {
    "addresses": [["lo", "ipv4", "127.0.0.1", "255.0.0.0"], ["eth0", "ipv4", "10.0.0.5", "255.255.255.0"]],
    "names": {"node1": ["10.0.0.5"], "localhost": ["127.0.0.1"]},
    "spaces": {"/dev/shm": [1 << 34, 1 << 34], "/tmp": [1 << 34, 1 << 34]},
    "limits": {"nofile": [1024, 1048576], "memlock": [65536, 65536], "nproc": [4096, 4096]},
}


@settings(max_examples=150 if FULL else 50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(environ=ENVIRONMENTS, launched=st.booleans())
@pytest.mark.slow
def test_no_environment_breaks_it(tmp_path: Path, environ: dict[str, str], launched: bool) -> None:
    world = RecordedWorld(tmp_path, {**WORLD, "environ": environ})
    report = examine(make_launch(world.environ, launched=launched), world)
    assert [item for item in report.findings if item.code in ("DC901", "DC902")] == []
    for output_format in FORMATS:
        assert "\x1b" not in render(report, output_format, Style(verbose=True))


@settings(max_examples=60 if FULL else 20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    environ=ENVIRONMENTS,
    place=st.sampled_from(["http_proxy", "HTTPS_PROXY", "MASTER_ADDR", "NCCL_DEBUG", "TORCH_TOKEN", "SLURM_JWT", "WANDB_API_KEY", "NCCL_SECRET_KEY"]),
)  # fmt: skip
@pytest.mark.slow
def test_no_environment_shows_a_credential(tmp_path: Path, environ: dict[str, str], place: str) -> None:
    value = (
        f"http://me:{SECRET}@host:1/" if place in ("http_proxy", "HTTPS_PROXY", "MASTER_ADDR", "NCCL_DEBUG") else SECRET
    )
    world = RecordedWorld(tmp_path, {**WORLD, "environ": {**environ, place: value}})
    report = examine(make_launch(world.environ, launched=True), world, every_fact=True)
    for output_format in FORMATS:
        assert SECRET not in render(report, output_format, Style(verbose=True))


@pytest.mark.parametrize("launched", [False, True])
def test_an_empty_environment_on_a_sound_host(tmp_path: Path, launched: bool) -> None:
    world = RecordedWorld(tmp_path, WORLD)
    report = examine(make_launch({}, launched=launched), world)
    assert {item.code for item in report.findings if item.severity > Severity.INFO} == (
        {"DC101", "DC330"} if launched else set()
    )
