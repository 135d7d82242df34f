"""Before a launch: could a rank that hangs be asked for its last collectives?"""

from __future__ import annotations

import pytest

from distcheck.checks.host.flight_recorder import a_hang_can_be_inspected
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import Software
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings

PLANNED = Launch("planned", launcher="torchrun", nproc=8)
LINUX = Platform("linux")
UNKNOWN = Unavailable("not looked at")


def in_force(**values: str) -> Settings:
    return Settings(tuple(Setting(name, value, "environment") for name, value in values.items()))


def torch(version: str) -> Software:
    return Software("3.11.7", torch=version, cuda="12.8")


ASKED = in_force(TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/tmp/ask-")
NEWEST = torch("2.13.0")


def found(settings: Settings, launch: Launch = PLANNED, software: Software | Unavailable = NEWEST) -> list[Finding]:
    return list(a_hang_can_be_inspected(launch, settings, software, LINUX))


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2.13.0", ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DUMP_TEMP_FILE"]),
        ("2.11.0", ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DUMP_TEMP_FILE"]),
        ("2.10.0", ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_TRACE_BUFFER_SIZE",
                    "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT"]),
        ("2.4.0", ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_NCCL_TRACE_BUFFER_SIZE",
                   "TORCH_NCCL_DUMP_ON_TIMEOUT"]),
    ],
)  # fmt: skip
def test_bad_no_pipe_is_named(version: str, names: list[str]) -> None:
    """DC127: what has to be set depends on the release."""
    (finding,) = found(in_force(), software=torch(version))
    assert (finding.code, finding.severity) == ("DC127", Severity.INFO)
    assert finding.evidence["lacking"] == names
    assert finding.fix.command is not None
    # what it says to set is all that has to be
    set_ = dict(line.removeprefix("export ").split("=") for line in finding.fix.command.splitlines())
    assert list(set_) == names
    assert found(in_force(**set_), software=torch(version)) == []


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2.13.0"),
        ("TORCH_FR_BUFFER_SIZE", "2.13.0"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "2.13.0"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2.4.0"),
    ],
)
def test_bad_a_pipe_whose_recorder_is_off(name: str, version: str) -> None:
    """DC127."""
    settings = Settings((*ASKED.items, Setting(name, "0", "environment")))
    (finding,) = found(settings, software=torch(version))
    assert finding.message.startswith(f"{name}=0: ")
    assert finding.where.variable == name


def test_bad_without_knowledge_of_torch_where_nccl_is_named() -> None:
    """DC127."""
    assert len(found(in_force(), PLANNED._replace(backend="cpu:gloo,cuda:nccl"), UNKNOWN)) == 1
    assert len(found(in_force(), Launch("planned", launcher="torchrun", nnodes=2, nnodes_max=2))) == 1


@pytest.mark.parametrize(
    ("settings", "launch", "software", "platform"),
    [
        pytest.param(ASKED, PLANNED, NEWEST, LINUX, id="it can be asked"),
        pytest.param(in_force(), Launch(), NEWEST, LINUX, id="no launch"),
        pytest.param(in_force(), PLANNED._replace(stage="rank"), NEWEST, LINUX, id="too late to say"),
        pytest.param(in_force(), PLANNED._replace(nproc=1), NEWEST, LINUX, id="one rank"),
        pytest.param(in_force(), PLANNED._replace(nproc=None, nproc_text="gpu"), NEWEST, LINUX, id="not known"),
        pytest.param(in_force(), PLANNED._replace(backend="gloo"), NEWEST, LINUX, id="gloo"),
        pytest.param(in_force(), PLANNED, Software("3.11.7", torch="2.13.0+cpu"), LINUX, id="no NCCL in it"),
        pytest.param(in_force(), PLANNED, Software("3.11.7"), LINUX, id="no torch"),
        pytest.param(in_force(), PLANNED, UNKNOWN, LINUX, id="torch is not known"),
        pytest.param(in_force(), PLANNED, NEWEST, Platform("win32"), id="no pipes there"),
    ],
)
def test_good_nothing_is_said(
    settings: Settings, launch: Launch, software: Software | Unavailable, platform: Platform
) -> None:
    assert list(a_hang_can_be_inspected(launch, settings, software, platform)) == []


def test_good_what_the_finding_says_to_set_brings_no_other_finding() -> None:
    """DC127 must lead to no DC110, DC111, DC112 or DC113."""
    from distcheck.checks.host import variables

    for version in ("2.4.0", "2.8.0", "2.13.0"):
        software = torch(version)
        (finding,) = found(in_force(), software=software)
        lines = (finding.fix.command or "").splitlines()
        settings = in_force(**dict(line.removeprefix("export ").split("=") for line in lines))
        installed = variables.Installed(variables.version_numbers(version))
        said = [
            *variables.judge_names(PLANNED, settings, installed),
            *variables.judge_age(settings, installed),
            *variables.judge_values(PLANNED, settings, installed),
            *variables.judge_debugging(PLANNED, settings, installed),
        ]
        assert [item.message for item in said] == []
