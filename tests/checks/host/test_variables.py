"""What is judged about variables: names, values, and what is left over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host import variables as room
from distcheck.checks.host.fabric import Fabric, RdmaPort
from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.limits import Limits
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import Software
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.core.variable_table import VariableTable
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
UNKNOWN = Unavailable("not looked at")
TABLE = VariableTable()

SHELL = Launch()
RANK = Launch("rank", launcher="torchrun", rank=1, local_world_size=8, agent_store=True)
PLANNED = Launch("planned", launcher="torchrun", nproc=8, nnodes=2, nnodes_max=2)
ONE_NODE = Launch("planned", launcher="torchrun", nproc=8)
SRUN = Launch("rank", launcher="slurm", rank=0, local_world_size=8)

CUDA = Software("3.11.7", torch="2.13.0", cuda="12.8", nccl_packages=(("nvidia-nccl-cu12", "2.27.5"),))
CPU = Software("3.11.7", torch="2.13.0+cpu")

SITE = "/etc/nccl.conf:3"
MINE = "~/.nccl.conf:1"


def cuda(torch: str = "2.13.0", nccl: str = "2.27.5") -> Software:
    return CUDA._replace(torch=torch, nccl_packages=(("nvidia-nccl-cu12", nccl),) if nccl else ())


def cards(count: int, name: str = "NVIDIA H100 80GB HBM3") -> Gpus:
    return Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", name) for index in range(count)))


def infiniband(state: str = "ACTIVE") -> Fabric:
    return Fabric((RdmaPort("mlx5_0", 1, state, link_layer="InfiniBand"),), verbs_usable=True)


def in_force(origin: str = "environment", **values: str) -> Settings:
    return Settings(tuple(Setting(name, value, origin) for name, value in sorted(values.items())))


def judge(
    settings: Settings,
    launch: Launch = PLANNED,
    software: Software | Unavailable = CUDA,
    **facts: Any,
) -> list[Finding]:
    """What all probes of the room say, but for what is always worth a line (DC115, DC116)."""

    def run() -> Iterator[Finding]:
        yield from room.names_are_known(launch, settings, software)
        yield from room.names_are_current(settings, software)
        yield from room.values_are_understood(launch, settings, software)
        yield from room.debugging_is_off(launch, settings, software)
        yield from room.transports_are_on(
            launch,
            settings,
            software,
            facts.get("gpus", UNKNOWN),
            facts.get("fabric", UNKNOWN),
            facts.get("platform", UNKNOWN),
        )
        yield from room.failures_end_the_job(launch, settings, software)
        yield from room.connections_fit_the_parallelism(launch, settings, software)

    return list(run())


def seen(findings: list[Finding]) -> list[tuple[str, Severity]]:
    return [(finding.code, finding.severity) for finding in findings]


# DC110


@pytest.mark.parametrize(
    ("settings", "meant"),
    [
        pytest.param(in_force(NCCL_SOCKET_IFNAMES="eth0"), "NCCL_SOCKET_IFNAME", id="a letter too many"),
        pytest.param(in_force(NCCL_DISABLE_IB="1"), "NCCL_IB_DISABLE", id="words in another order"),
        pytest.param(in_force(NCCL_NAN_CHECK="1"), "TORCH_NCCL_NAN_CHECK", id="the prefix left out"),
        pytest.param(in_force(GLOO_IB_DISABLE="1"), "GLOO_DEVICE_TRANSPORT", id="no such switch of gloo"),
        pytest.param(in_force(CUDA_VISIBLE_DEVICE="0"), "CUDA_VISIBLE_DEVICES", id="a listed slip of another library"),
        pytest.param(in_force(NCCL_MAX_CHANNELS="4"), "NCCL_MAX_CTAS", id="the current name, not its old one"),
        pytest.param(in_force(GLOO_SOCKET_FAMILY="AF_INET"), None, id="nothing like it"),
        pytest.param(
            in_force(NCCL_IFNAME="eth0", NCCL_SOCKET_IFNAME="eth1"), "NCCL_SOCKET_IFNAME", id="two names, two values"
        ),
        pytest.param(in_force(SITE, NCCL_SOCKET_IFNAMES="eth0"), "NCCL_SOCKET_IFNAME", id="in the site's file"),
        pytest.param(in_force(MINE, **{"export NCCL_DEBUG": "INFO"}), "NCCL_DEBUG", id="export in a file"),
        pytest.param(in_force(MINE, **{"NCCL_DEBUG ": " INFO"}), "NCCL_DEBUG", id="blanks around the sign"),
    ],
)
def test_bad_names(settings: Settings, meant: str | None) -> None:
    (finding,) = room.names_are_known(PLANNED, settings, CUDA)
    assert (finding.code, finding.severity) == ("DC110", WARNING)
    assert finding.evidence["meant"] == meant
    assert finding.fix.command is None, "a value that a library suddenly reads is for people to set"


@pytest.mark.parametrize("name", sorted(name for name in TABLE.names() if not TABLE.lookup(name).exists))  # type: ignore[union-attr]
def test_every_listed_slip_is_told_or_is_a_scripts_own(name: str) -> None:
    variable = TABLE.lookup(name)
    assert variable is not None
    severities = {finding.severity for finding in room.names_are_known(SHELL, in_force(**{name: "x"}), CUDA)}
    if not variable.own_use:
        assert severities == {WARNING}
    else:
        assert severities <= {INFO}


def test_no_existing_name_is_unknown() -> None:
    everything = in_force(**{name: "1" for name in TABLE.names() if TABLE.lookup(name).exists})  # type: ignore[union-attr]
    for launch in (SHELL, PLANNED, RANK):
        assert list(room.names_are_known(launch, everything, CUDA)) == []


@pytest.mark.parametrize(
    ("settings", "launch"),
    [
        pytest.param(in_force(NCCL_FASTRAK_IFNAME="eth1", NCCL_TUNER_CONFIG_PATH="/x"), PLANNED, id="a plug-in's own"),
        pytest.param(in_force(OFI_NCCL_NEW_OPTION="1"), PLANNED, id="a plug-in's prefix"),
        pytest.param(in_force(NCCL_LIB_DIRS="/usr/lib", NCCL_ROOT_DIR="/usr"), PLANNED, id="a build's own"),
        pytest.param(in_force(NCCL_VERSION="2.27.5"), PLANNED, id="an image's own"),
        pytest.param(in_force(NCCL_MY_SWITCH="1"), PLANNED, id="a script's own, far from all names"),
        pytest.param(in_force(NCCL_IFNAME="eth0", NCCL_SOCKET_IFNAME="eth0"), PLANNED, id="a helper beside the name"),
        pytest.param(in_force(MASTER_IP="10.0.0.1", MASTER_ADDR="node1"), RANK, id="a helper for the address"),
        pytest.param(in_force(MASTER_IP="10.0.0.1"), PLANNED, id="the script makes options of it"),
        pytest.param(in_force(NNODES="2", NODE_RANK="1", NPROC_PER_NODE="8"), SHELL, id="a script's own counts"),
        pytest.param(in_force(NNODES="2", NODE_RANK="1"), RANK, id="Lightning reads the node rank"),
        pytest.param(in_force("launcher", NCCL_SOCKET_IFNAMES="x"), RANK, id="not of a user"),
        pytest.param(
            Settings((Setting("NCCL_SOCKET_IFNAMES", "x"),), known=frozenset({"NCCL_SOCKET_IFNAMES"})),
            PLANNED,
            id="known to the configuration",
        ),
    ],
)
def test_good_names(settings: Settings, launch: Launch) -> None:
    assert list(room.names_are_known(launch, settings, CUDA)) == []


def test_a_newer_library_may_read_names_that_nobody_knows_here() -> None:
    settings = in_force(NCCL_IB_HCAX="1", TORCH_NCCL_NAN_CHECKS="1")
    assert len(list(room.names_are_known(PLANNED, settings, CUDA))) == 2
    assert list(room.names_are_known(PLANNED, settings, cuda("2.14.0", "2.33.1"))) == []


@pytest.mark.parametrize("name", ["NCCL_TIMEOUT", "TORCH_NCCL_TIMEOUT", "GLOO_TIMEOUT"])
def test_a_time_limit_that_only_scripts_read(name: str) -> None:
    (finding,) = room.names_are_known(PLANNED, in_force(**{name: "7200"}), CUDA)
    assert finding.severity is INFO
    assert "init_process_group" in finding.fix.text


def test_a_rank_without_the_name_that_counts() -> None:
    (finding,) = room.names_are_known(Launch("rank"), in_force(MASTER_HOST="node1"), CUDA)
    assert (finding.severity, finding.evidence["meant"]) == (WARNING, "MASTER_ADDR")


def planned(line: str) -> Launch:
    command = parse_command(line.split())
    return Launch("planned", launcher=command.launcher, command=command)


@pytest.mark.parametrize(
    ("line", "settings", "names"),
    [
        ("torchrun --nproc-per-node=8 train.py", in_force(NNODES="2"), ["NNODES"]),
        ("torchrun --nproc-per-node=8 train.py", in_force(NNODES="2", NODE_RANK="0"), ["NNODES", "NODE_RANK"]),
        ("torchrun train.py", in_force(NPROC_PER_NODE="8"), ["NPROC_PER_NODE"]),
        ("torchrun --nnodes=2 train.py", in_force(NNODES="4"), []),
        ("torchrun --nnodes=$NNODES --node-rank=$NODE_RANK train.py", in_force(NNODES="4", NODE_RANK="1"), []),
        ("torchrun --nproc-per-node=8 train.py", in_force(NNODES="1", NODE_RANK="0"), []),
        ("torchrun --standalone --nproc-per-node=8 train.py", in_force(NNODES="2"), []),
        ("torchrun --nproc-per-node=8 train.py", in_force(NNODES="2", PET_NNODES="2"), []),
        ("accelerate launch train.py", in_force(NNODES="2"), []),
        ("python train.py", in_force(NNODES="2"), []),
    ],
)
def test_what_torchrun_does_not_read(line: str, settings: Settings, names: list[str]) -> None:
    findings = list(room.names_are_known(planned(line), settings, CUDA))
    assert [finding.where.variable for finding in findings] == names
    assert all(finding.severity is WARNING and finding.fix.where == "launch-line" for finding in findings)


# DC111


@pytest.mark.parametrize(
    ("settings", "software", "severity"),
    [
        pytest.param(in_force(NCCL_ASYNC_ERROR_HANDLING="1"), CUDA, WARNING, id="torch's old name"),
        pytest.param(in_force(NCCL_BLOCKING_WAIT="0"), UNKNOWN, INFO, id="torch's old name, version not known"),
        pytest.param(in_force(TORCH_NCCL_TRACE_BUFFER_SIZE="2000"), CUDA, WARNING, id="the recorder's old name"),
        pytest.param(in_force(ENABLE_NCCL_HEALTH_CHECK="1"), CUDA, WARNING, id="gone from torch"),
        pytest.param(in_force(NCCL_TREE_THRESHOLD="0"), CUDA, WARNING, id="gone from NCCL"),
        pytest.param(in_force(NCCL_LL_THRESHOLD="0"), cuda(nccl=""), WARNING, id="gone before any NCCL of torch 2"),
        pytest.param(in_force(NCCL_SHM_USE_CUDA_MEMCPY="1"), cuda(nccl="2.30.7"), WARNING, id="gone from the newest"),
        pytest.param(in_force(NCCL_MIN_NCHANNELS="4"), CUDA, INFO, id="NCCL keeps its old names"),
        pytest.param(in_force(NCCL_LAUNCH_MODE="PARALLEL"), CUDA, INFO, id="outdated without a successor"),
        pytest.param(
            in_force(NCCL_BLOCKING_WAIT="1", TORCH_NCCL_BLOCKING_WAIT="0"), CUDA, WARNING, id="both, and they differ"
        ),
    ],
)
def test_bad_renamed(settings: Settings, software: Software | Unavailable, severity: Severity) -> None:
    (finding,) = room.names_are_current(settings, software)
    assert (finding.code, finding.severity) == ("DC111", severity)


@pytest.mark.parametrize(
    ("settings", "software"),
    [
        pytest.param(in_force(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"), CUDA, id="the old name that works"),
        pytest.param(in_force(NCCL_ASYNC_ERROR_HANDLING="1"), cuda("2.1.2"), id="before the new name"),
        pytest.param(
            in_force(NCCL_ASYNC_ERROR_HANDLING="1", TORCH_NCCL_ASYNC_ERROR_HANDLING="1"),
            CUDA,
            id="both names, on purpose",
        ),
        pytest.param(in_force(TORCH_NCCL_TRACE_BUFFER_SIZE="2000"), cuda("2.6.0"), id="before the recorder's new name"),
        pytest.param(in_force(NCCL_SHM_USE_CUDA_MEMCPY="1"), CUDA, id="this NCCL reads it"),
        pytest.param(in_force(NCCL_SHM_USE_CUDA_MEMCPY="1"), cuda(nccl=""), id="NCCL's version is not known"),
        pytest.param(in_force(NCCL_TREE_THRESHOLD="0"), UNKNOWN, id="nothing is known"),
        pytest.param(in_force(NCCL_TREE_THRESHOLD="0"), CUDA._replace(hip="7.0", cuda=None), id="RCCL"),
        pytest.param(in_force(SLURM_NODELIST="n[1-2]", SLURM_NPROCS="8"), CUDA, id="Slurm sets its old names itself"),
        pytest.param(in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="3"), CUDA, id="the new name"),
    ],
)
def test_good_renamed(settings: Settings, software: Software | Unavailable) -> None:
    assert list(room.names_are_current(settings, software)) == []


# DC112


@pytest.mark.parametrize(
    ("settings", "launch", "software", "severity"),
    [
        pytest.param(in_force(TORCH_DISTRIBUTED_DEBUG="1"), SHELL, UNKNOWN, ERROR, id="import torch fails"),
        pytest.param(in_force(TORCH_DISTRIBUTED_DEBUG=""), RANK, CUDA, ERROR, id="an empty level"),
        pytest.param(in_force(TORCH_LOGS="foo"), SHELL, CUDA, ERROR, id="a log that is neither log nor module"),
        pytest.param(in_force(TORCH_LOGS=""), SHELL, CUDA, ERROR, id="empty logs"),
        pytest.param(in_force(TORCH_LOGS="foo"), SHELL, cuda("2.15.0"), WARNING, id="a newer torch may know the log"),
        pytest.param(
            in_force(TORCH_LOGS="foo")._replace(files_apply=False),
            SHELL,
            CUDA,
            WARNING,
            id="nobody looked for a module",
        ),
        pytest.param(
            in_force(TORCH_LOGS="mine,other")._replace(importable=frozenset({"mine"})),
            SHELL,
            CUDA,
            ERROR,
            id="one of two is a module",
        ),
        pytest.param(in_force(NCCL_P2P_DISABLE="true"), PLANNED, CUDA, ERROR, id="P2P stays on"),
        pytest.param(in_force(NCCL_IB_DISABLE="yes"), SHELL, CUDA, ERROR, id="InfiniBand stays on"),
        pytest.param(in_force(NCCL_IB_DISABLE="yes"), SHELL, CPU, INFO, id="no NCCL in this torch"),
        pytest.param(
            in_force(NCCL_IB_DISABLE="yes"), PLANNED._replace(backend="gloo"), CUDA, INFO, id="no NCCL in this launch"
        ),
        pytest.param(in_force(NCCL_BUFFSIZE="4MB"), PLANNED, CUDA, ERROR, id="four bytes"),
        pytest.param(in_force(NCCL_NVLS_ENABLE="true"), PLANNED, CUDA, WARNING, id="off, and slower"),
        pytest.param(in_force(TORCH_FR_BUFFER_SIZE="abc"), PLANNED, CPU, ERROR, id="the recorder is gloo's, too"),
        pytest.param(in_force(TORCH_NCCL_BLOCKING_WAIT="on"), PLANNED, CUDA, ERROR, id="torch stops"),
        pytest.param(in_force(TORCH_NCCL_BLOCKING_WAIT="on"), PLANNED, CPU, INFO, id="a CPU build does not look"),
        pytest.param(in_force(GLOO_DEVICE_TRANSPORT="tcp"), PLANNED, CPU, ERROR, id="gloo stops"),
        pytest.param(
            in_force(GLOO_DEVICE_TRANSPORT="tcp"),
            PLANNED._replace(backend="nccl"),
            CUDA,
            INFO,
            id="no gloo in this launch",
        ),
        pytest.param(in_force(GLOO_DEVICE_TRANSPORT="TCP_TLS"), PLANNED, CPU, WARNING, id="some builds know it"),
        pytest.param(in_force(LOGLEVEL="debug"), PLANNED, CUDA, ERROR, id="torchrun stops"),
        pytest.param(in_force(LOGLEVEL="debug"), SHELL, CUDA, INFO, id="many programs read a log level"),
        pytest.param(in_force(LOGLEVEL="debug"), RANK, CUDA, INFO, id="torchrun has started already"),
        pytest.param(in_force(LOGLEVEL="debug"), planned("python train.py"), CUDA, INFO, id="no torchrun"),
        pytest.param(in_force(PET_STANDALONE="true"), PLANNED, CUDA, ERROR, id="an option of torchrun"),
        pytest.param(in_force(PET_STANDALONE="true"), SHELL, CUDA, WARNING, id="an option of a torchrun to come"),
        pytest.param(
            in_force(PYTORCH_CUDA_ALLOC_CONF="expandable_segments=True"), PLANNED, CUDA, ERROR, id="allocator"
        ),
        pytest.param(in_force(PYTORCH_CUDA_ALLOC_CONF="a=b"), PLANNED, CPU, INFO, id="no CUDA, no allocator"),
        pytest.param(in_force(OMP_NUM_THREADS="0"), PLANNED, CPU, WARNING, id="OpenMP takes every core"),
        pytest.param(in_force(NCCL_IB_TIMEOUT="40"), PLANNED, CUDA, WARNING, id="out of range"),
        pytest.param(in_force(NCCL_DEBUG="ERROR"), PLANNED, CUDA, INFO, id="a log level that is none"),
        pytest.param(in_force(NCCL_ALGO="Rign"), PLANNED, CUDA, ERROR, id="NCCL stops"),
        pytest.param(in_force(NCCL_ALGO="Rign"), PLANNED, UNKNOWN, WARNING, id="NCCL may stop"),
        pytest.param(in_force(NCCL_DEBUG="INFO "), PLANNED, CUDA, INFO, id="a blank that this NCCL keeps"),
        pytest.param(in_force(NCCL_SOCKET_IFNAME="eth0, eth1"), PLANNED, CUDA, WARNING, id="half of a list"),
        pytest.param(
            in_force(NCCL_SOCKET_IFNAME=" eth0"),
            PLANNED._replace(on_this_host=False),
            CUDA,
            ERROR,
            id="nobody else can look at the interfaces",
        ),
        pytest.param(in_force(SITE, NCCL_IB_TIMEOUT="22s"), PLANNED, CUDA, WARNING, id="in a file"),
        pytest.param(
            in_force(NCCL_CONF_FILE="/opt/x.conf")._replace(unread="No such file or directory"),
            PLANNED,
            CUDA,
            WARNING,
            id="a file that is not there",
        ),
    ],
)
def test_bad_values(settings: Settings, launch: Launch, software: Software | Unavailable, severity: Severity) -> None:
    (finding,) = room.values_are_understood(launch, settings, software)
    assert (finding.code, finding.severity) == ("DC112", severity)
    assert finding.where.variable == settings.items[0].name


@pytest.mark.parametrize(
    ("settings", "launch", "software"),
    [
        pytest.param(in_force(NCCL_IB_DISABLE="0", NCCL_DEBUG="warn", NCCL_ALGO="ring"), PLANNED, CUDA, id="plain"),
        pytest.param(in_force(NCCL_IB_DISABLE="", NCCL_DEBUG="", GLOO_SOCKET_IFNAME=""), PLANNED, CUDA, id="empty"),
        pytest.param(in_force(NCCL_ALGO="Rign"), PLANNED, cuda(nccl="2.20.5"), id="an older NCCL skips it"),
        pytest.param(in_force(NCCL_DEBUG="INFO "), PLANNED, cuda(nccl="2.30.7"), id="a newer NCCL trims it"),
        pytest.param(in_force(NCCL_TREE_THRESHOLD="4MB"), PLANNED, CUDA, id="nobody reads it any more"),
        pytest.param(in_force(TORCH_FR_BUFFER_SIZE="abc"), PLANNED, cuda("2.6.0"), id="nobody reads it yet"),
        pytest.param(
            in_force(TORCH_LOGS="+mine")._replace(importable=frozenset({"mine"})), SHELL, CUDA, id="a module's logs"
        ),
        pytest.param(in_force(NCCL_SOCKET_IFNAME=" eth0"), PLANNED, CUDA, id="DC406 looks at the interfaces"),
        pytest.param(in_force(GLOO_SOCKET_IFNAME="^lo"), PLANNED, CUDA, id="DC407 looks at the interfaces"),
        pytest.param(
            in_force("launcher", OMP_NUM_THREADS="1", TORCH_NCCL_ASYNC_ERROR_HANDLING="1"), RANK, CUDA, id="torchrun"
        ),
        pytest.param(in_force(NCCL_COMM_ID="***"), PLANNED, CUDA, id="a masked value"),
        pytest.param(in_force(UCX_TLS="nonsense", FI_PROVIDER="x"), PLANNED, CUDA, id="nobody knows how it is read"),
    ],
)
def test_good_values(settings: Settings, launch: Launch, software: Software | Unavailable) -> None:
    assert list(room.values_are_understood(launch, settings, software)) == []


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        (in_force(LOGLEVEL="debug"), "export LOGLEVEL=DEBUG"),
        (in_force(NCCL_BUFFSIZE="4MB"), "export NCCL_BUFFSIZE=4194304"),
        (in_force(USE_LIBUV="true"), "export USE_LIBUV=1"),
        (in_force(TORCH_LOGS="foo"), "unset TORCH_LOGS"),
        (in_force(PYTORCH_NO_CUDA_MEMORY_CACHING="0"), "unset PYTORCH_NO_CUDA_MEMORY_CACHING"),
        (in_force(NCCL_P2P_DISABLE="true"), None),
        (in_force(PET_NNODES="a"), None),
        (in_force("command", TORCH_LOGS="foo"), None),
        (in_force(MINE, NCCL_BUFFSIZE="4MB"), None),
    ],
)
def test_the_fix_is_what_was_meant(settings: Settings, command: str | None) -> None:
    (finding,) = room.values_are_understood(PLANNED, settings, CUDA)
    assert finding.fix.command == command


# DC113


@pytest.mark.parametrize(
    ("settings", "launch", "software", "severity"),
    [
        pytest.param(in_force(CUDA_LAUNCH_BLOCKING="1"), PLANNED, CUDA, WARNING, id="kernels one by one"),
        pytest.param(in_force(CUDA_LAUNCH_BLOCKING="1"), RANK, UNKNOWN, WARNING, id="nothing known about CUDA"),
        pytest.param(in_force(CUDA_LAUNCH_BLOCKING="1"), SHELL, CUDA, INFO, id="no launch"),
        pytest.param(in_force(CUDA_LAUNCH_BLOCKING="1"), PLANNED, CPU, INFO, id="no CUDA"),
        pytest.param(in_force(PYTORCH_NO_CUDA_MEMORY_CACHING="1"), PLANNED, CUDA, WARNING, id="no cache"),
        pytest.param(in_force(NCCL_DEBUG="info"), PLANNED, CUDA, INFO, id="NCCL's log"),
        pytest.param(in_force(TORCH_DISTRIBUTED_DEBUG="detail"), PLANNED, CUDA, INFO, id="checked collectives"),
        pytest.param(in_force(TORCH_NCCL_BLOCKING_WAIT="yes"), PLANNED, CUDA, INFO, id="waiting CPUs"),
        pytest.param(in_force(NCCL_CHECK_POINTERS="1"), PLANNED, UNKNOWN, INFO, id="checked pointers"),
        pytest.param(in_force(TORCH_LOGS="+dynamo"), PLANNED, CUDA, INFO, id="torch's logs"),
        pytest.param(in_force(NCCL_ALGO="Ring"), PLANNED, CUDA, INFO, id="a forced algorithm"),
        pytest.param(in_force(SITE, NCCL_DEBUG="INFO"), PLANNED, CUDA, INFO, id="by the site"),
    ],
)
def test_bad_leftovers(
    settings: Settings, launch: Launch, software: Software | Unavailable, severity: Severity
) -> None:
    (finding,) = room.debugging_is_off(launch, settings, software)
    assert (finding.code, finding.severity) == ("DC113", severity)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(in_force(CUDA_LAUNCH_BLOCKING="0", TORCH_NCCL_BLOCKING_WAIT="0"), id="off"),
        pytest.param(in_force(NCCL_DEBUG="WARN", TORCH_CPP_LOG_LEVEL="ERROR", UCX_LOG_LEVEL="warn"), id="quiet"),
        pytest.param(in_force(NCCL_DEBUG="", TORCH_DISTRIBUTED_DEBUG="OFF"), id="empty or off"),
        pytest.param(in_force(TORCH_LOGS="foo", NCCL_DEBUG="ERROR"), id="not even read: DC112 tells"),
        pytest.param(
            in_force(TORCH_NCCL_DUMP_ON_TIMEOUT="1", PYTHONFAULTHANDLER="1"), id="what helps and costs nothing"
        ),
        pytest.param(in_force(NCCL_MAX_NCHANNELS="32"), id="channels enough"),
    ],
)
def test_good_leftovers(settings: Settings) -> None:
    assert list(room.debugging_is_off(PLANNED, settings, CUDA)) == []


# DC114


@pytest.mark.parametrize(
    ("settings", "launch", "facts", "severity"),
    [
        pytest.param(
            in_force(NCCL_P2P_DISABLE="1"), ONE_NODE, {"gpus": cards(8)}, WARNING, id="eight GPUs without P2P"
        ),
        pytest.param(in_force(NCCL_P2P_LEVEL="LOC"), ONE_NODE, {"gpus": cards(8)}, WARNING, id="the same by level"),
        pytest.param(in_force(NCCL_SHM_DISABLE="1"), ONE_NODE, {"gpus": cards(2)}, WARNING, id="no shared memory"),
        pytest.param(in_force(NCCL_IB_DISABLE="1"), PLANNED, {"fabric": infiniband()}, WARNING, id="an active port"),
        pytest.param(in_force(NCCL_NET="socket"), PLANNED, {"fabric": infiniband()}, WARNING, id="sockets instead"),
        pytest.param(in_force(NCCL_NET_GDR_LEVEL="LOC"), PLANNED, {"fabric": infiniband()}, WARNING, id="no GPUDirect"),
        pytest.param(in_force(MINE, NCCL_IB_DISABLE="1"), PLANNED, {"fabric": infiniband()}, WARNING, id="my own file"),
        pytest.param(
            in_force(SITE, NCCL_IB_DISABLE="1"), PLANNED, {"fabric": infiniband()}, INFO, id="the site's file"
        ),
        pytest.param(in_force(NCCL_IB_DISABLE="1"), PLANNED, {"fabric": Fabric()}, INFO, id="no RDMA here"),
        pytest.param(
            in_force(NCCL_IB_DISABLE="1"), PLANNED, {"fabric": infiniband("DOWN")}, INFO, id="a port that is down"
        ),
        pytest.param(in_force(NCCL_IB_DISABLE="1"), PLANNED, {}, INFO, id="nobody knows of RDMA"),
        pytest.param(in_force(NCCL_IB_DISABLE="1"), ONE_NODE, {"fabric": infiniband()}, INFO, id="one node needs none"),
        pytest.param(in_force(NCCL_P2P_DISABLE="1"), ONE_NODE, {"gpus": cards(1)}, INFO, id="one GPU"),
        pytest.param(in_force(NCCL_P2P_DISABLE="1"), ONE_NODE, {}, INFO, id="no driver"),
        pytest.param(
            in_force(NCCL_P2P_DISABLE="1"),
            ONE_NODE,
            {"gpus": cards(4, "NVIDIA GeForce RTX 4090")},
            INFO,
            id="cards without P2P",
        ),
        pytest.param(
            in_force(NCCL_P2P_DISABLE="1"),
            ONE_NODE,
            {"gpus": cards(2), "platform": Platform("linux", wsl=2)},
            INFO,
            id="WSL2",
        ),
        pytest.param(in_force(NCCL_P2P_DISABLE="1"), SHELL, {"gpus": cards(8)}, INFO, id="no launch"),
        pytest.param(
            in_force(NCCL_P2P_DISABLE="1"), ONE_NODE._replace(backend="gloo"), {"gpus": cards(8)}, INFO, id="gloo only"
        ),
        pytest.param(in_force(NCCL_NVLS_ENABLE="0"), ONE_NODE, {"gpus": cards(8)}, INFO, id="a known workaround"),
    ],
)
def test_bad_transports(settings: Settings, launch: Launch, facts: dict[str, Any], severity: Severity) -> None:
    found = [item for item in judge(settings, launch, **facts) if item.code == "DC114"]
    assert seen(found) == [("DC114", severity)]
    if settings.items[0].by_site:
        assert (found[0].fix.by, found[0].fix.command) == ("site", None)
        assert SITE in found[0].message


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(in_force(NCCL_P2P_DISABLE="0", NCCL_IB_DISABLE="0", NCCL_SHM_DISABLE=""), id="all on"),
        pytest.param(in_force(NCCL_P2P_DISABLE="false", NCCL_NET="IB", NCCL_P2P_LEVEL="NVL"), id="other words"),
        pytest.param(in_force(NCCL_P2P_DISABLE="true"), id="it does not even switch: DC112 tells"),
        pytest.param(in_force(NCCL_NVLS_ENABLE="2", NCCL_MNNVL_ENABLE="2"), id="automatic"),
    ],
)
def test_good_transports(settings: Settings) -> None:
    found = judge(settings, PLANNED, gpus=cards(8), fabric=infiniband())
    assert "DC114" not in {item.code for item in found}


# DC115


@pytest.mark.parametrize(
    ("launch", "settings", "cores"),
    [
        pytest.param(RANK, in_force("launcher", OMP_NUM_THREADS="1"), 64, id="torchrun's 1"),
        pytest.param(PLANNED, in_force(), 64, id="torchrun will set 1"),
        pytest.param(SRUN, in_force(), 64, id="every core for every rank"),
    ],
)
def test_bad_threads(launch: Launch, settings: Settings, cores: int) -> None:
    platform = Platform("linux", cpus=cores)
    (finding,) = room.threads_fit_the_cores(launch, settings, Limits(affinity=tuple(range(cores))), platform)
    assert (finding.code, finding.severity) == ("DC115", INFO)
    assert finding.fix.command == f"export OMP_NUM_THREADS={cores // 8}"


@pytest.mark.parametrize(
    ("launch", "settings", "limits"),
    [
        pytest.param(RANK, in_force(OMP_NUM_THREADS="8"), Limits(affinity=tuple(range(64))), id="set"),
        pytest.param(
            RANK, in_force("launcher", OMP_NUM_THREADS="1"), Limits(affinity=tuple(range(8))), id="a core each"
        ),
        pytest.param(ONE_NODE._replace(nproc=1), in_force(), Limits(affinity=tuple(range(64))), id="one rank"),
        pytest.param(SHELL, in_force(), Limits(affinity=tuple(range(64))), id="no launch"),
        pytest.param(SRUN, in_force(), Limits(affinity=tuple(range(8))), id="srun has bound the task to its own cores"),
        pytest.param(RANK, in_force("launcher", OMP_NUM_THREADS="1"), UNKNOWN, id="cores not known"),
        pytest.param(SRUN, in_force(), UNKNOWN, id="cores not known under srun"),
    ],
)
def test_good_threads(launch: Launch, settings: Settings, limits: Limits | Unavailable) -> None:
    assert list(room.threads_fit_the_cores(launch, settings, limits, Platform("linux", cpus=64))) == []


# DC116


def test_bad_files_that_set_variables() -> None:
    settings = Settings(
        (
            Setting("NCCL_DEBUG", "WARN", "environment"),
            Setting("NCCL_IB_HCA", "mlx5", "/etc/nccl.conf:3"),
            Setting("NCCL_NET", "IB", "/etc/nccl.conf:4"),
            Setting("NCCL_SOCKET_IFNAME", "eth0", "~/.nccl.conf:1"),
        )
    )
    site, own = room.settings_come_from_files(settings)
    assert (site.code, site.severity, site.where.path, site.where.line) == ("DC116", INFO, "/etc/nccl.conf", 3)
    assert site.evidence["settings"] == {"NCCL_IB_HCA": "mlx5", "NCCL_NET": "IB"}
    assert own.where.path == "~/.nccl.conf"


def test_good_no_file_sets_anything() -> None:
    assert list(room.settings_come_from_files(in_force(NCCL_DEBUG="WARN"))) == []
    assert list(room.settings_come_from_files(in_force("launcher", RANK="0"))) == []
    assert list(room.settings_come_from_files(in_force(NCCL_ENV_PLUGIN="none"))) == []


def test_a_plug_in_gives_settings() -> None:
    (finding,) = room.settings_come_from_files(in_force(NCCL_ENV_PLUGIN="site"))
    assert finding.where.variable == "NCCL_ENV_PLUGIN"


def test_files_of_another_host_are_not_checked() -> None:
    with pytest.raises(Unavailable, match="not those that the job reads"):
        list(room.settings_come_from_files(Settings(files_apply=False)))


# DC119


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="0"), id="off"),
        pytest.param(in_force(NCCL_ASYNC_ERROR_HANDLING="0"), id="off by the old name"),
        pytest.param(in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_BLOCKING_WAIT="0"), id="both off"),
    ],
)
def test_bad_error_handling(settings: Settings) -> None:
    (finding,) = room.failures_end_the_job(PLANNED, settings, CUDA)
    assert (finding.code, finding.severity) == ("DC119", WARNING)


@pytest.mark.parametrize(
    ("settings", "launch", "software"),
    [
        pytest.param(in_force(), PLANNED, CUDA, id="not set"),
        pytest.param(in_force("launcher", TORCH_NCCL_ASYNC_ERROR_HANDLING="1"), RANK, CUDA, id="torchrun's 1"),
        pytest.param(in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="3"), PLANNED, CUDA, id="on"),
        pytest.param(
            in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="1", NCCL_ASYNC_ERROR_HANDLING="0"),
            PLANNED,
            CUDA,
            id="the new name wins",
        ),
        pytest.param(
            in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_BLOCKING_WAIT="1"),
            PLANNED,
            CUDA,
            id="waiting raises",
        ),
        pytest.param(in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="0"), PLANNED, CPU, id="no NCCL in this torch"),
        pytest.param(
            in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="0"), PLANNED._replace(backend="gloo"), CUDA, id="gloo has its own"
        ),
        pytest.param(in_force(TORCH_NCCL_ASYNC_ERROR_HANDLING="off"), PLANNED, CUDA, id="not even read: DC112 tells"),
    ],
)
def test_good_error_handling(settings: Settings, launch: Launch, software: Software) -> None:
    assert list(room.failures_end_the_job(launch, settings, software)) == []


# DC126

MEGATRON = CUDA._replace(packages=(("megatron-core", "0.14.0"),))


@pytest.mark.parametrize(
    ("settings", "launch", "software"),
    [
        pytest.param(in_force(CUDA_DEVICE_MAX_CONNECTIONS="1"), PLANNED, CUDA, id="1 without Megatron"),
        pytest.param(in_force(), PLANNED, MEGATRON, id="Megatron without 1"),
        pytest.param(
            in_force(), PLANNED._replace(script="megatron/pretrain_gpt.py"), CUDA, id="Megatron by its script"
        ),
    ],
)
def test_bad_connections(settings: Settings, launch: Launch, software: Software) -> None:
    (finding,) = room.connections_fit_the_parallelism(launch, settings, software)
    assert (finding.code, finding.severity) == ("DC126", INFO)


@pytest.mark.parametrize(
    ("settings", "launch", "software"),
    [
        pytest.param(in_force(), PLANNED, CUDA, id="neither"),
        pytest.param(in_force(CUDA_DEVICE_MAX_CONNECTIONS="1"), PLANNED, MEGATRON, id="as Megatron wants it"),
        pytest.param(in_force(CUDA_DEVICE_MAX_CONNECTIONS="32"), PLANNED, CUDA, id="many queues"),
        pytest.param(in_force(), SHELL, MEGATRON, id="no launch"),
    ],
)
def test_good_connections(settings: Settings, launch: Launch, software: Software) -> None:
    assert list(room.connections_fit_the_parallelism(launch, settings, software)) == []


# DC128

DETAIL = in_force(TORCH_DISTRIBUTED_DEBUG="DETAIL")


@pytest.mark.parametrize(
    ("settings", "launch", "software", "severity"),
    [
        pytest.param(DETAIL, PLANNED._replace(backend="gloo"), CUDA, WARNING, id="gloo by its name"),
        pytest.param(DETAIL, PLANNED, CPU, WARNING, id="gloo by the build"),
        pytest.param(in_force(TORCH_DISTRIBUTED_DEBUG="detail"), PLANNED, CPU, WARNING, id="in small letters"),
        pytest.param(DETAIL, SHELL, CPU, INFO, id="no launch"),
    ],
)
def test_bad_detail(settings: Settings, launch: Launch, software: Software, severity: Severity) -> None:
    (finding,) = room.detail_debugging_does_not_crash(launch, settings, software)
    assert (finding.code, finding.severity) == ("DC128", severity)
    assert finding.fix.command == "export TORCH_DISTRIBUTED_DEBUG=INFO"


@pytest.mark.parametrize(
    ("settings", "launch", "software"),
    [
        pytest.param(in_force(TORCH_DISTRIBUTED_DEBUG="INFO"), PLANNED, CPU, id="the fix"),
        pytest.param(in_force(), PLANNED, CPU, id="not set"),
        pytest.param(DETAIL, PLANNED, CUDA, id="NCCL"),
        pytest.param(DETAIL, PLANNED._replace(backend="nccl"), CPU, id="NCCL by its name"),
        pytest.param(DETAIL, PLANNED, CPU._replace(torch="2.12.0+cpu"), id="another torch"),
        pytest.param(DETAIL, PLANNED, Unavailable("no Python"), id="the torch is not known"),
    ],
)
def test_good_detail(settings: Settings, launch: Launch, software: Software) -> None:
    assert list(room.detail_debugging_does_not_crash(launch, settings, software)) == []


# all together


def test_a_message_carries_no_control_characters() -> None:
    settings = in_force(MINE, **{"NCCL_SOCKET_IFNAM\x1b": "eth0"})
    for finding in [*judge(settings), *room.settings_come_from_files(settings)]:
        assert finding.message.isprintable()
    (finding,) = room.values_are_understood(PLANNED, in_force(NCCL_IB_TIMEOUT="22\x1b[2J"), CUDA)
    assert finding.message.isprintable()


def test_a_worker_of_a_correct_torchrun_is_silent() -> None:
    worker = in_force(
        "launcher",
        RANK="1",
        LOCAL_RANK="1",
        WORLD_SIZE="16",
        LOCAL_WORLD_SIZE="8",
        MASTER_ADDR="node1",
        MASTER_PORT="29500",
        TORCHELASTIC_RUN_ID="none",
        TORCHELASTIC_USE_AGENT_STORE="True",
        TORCHELASTIC_MAX_RESTARTS="0",
        TORCHELASTIC_SIGNALS_TO_HANDLE="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        TORCH_NCCL_ASYNC_ERROR_HANDLING="1",
        OMP_NUM_THREADS="1",
    )
    assert judge(worker, RANK, gpus=cards(8), fabric=infiniband()) == []


NAMES = [*sorted(TABLE.names()), "NCCL_SOCKET_IFNAMES", "NCCL_DISABLE_IB"]
VALUES = st.sampled_from(["", "0", "1", "2", "true", "off", "4MB", "010", "INFO", "LOC", "foo", "a,b", "x y", "~/x"])


@given(
    chosen=st.dictionaries(st.sampled_from(NAMES), VALUES | st.text(max_size=12), min_size=1, max_size=4),
    launch=st.sampled_from([SHELL, PLANNED, RANK, SRUN]),
    software=st.sampled_from([CUDA, CPU, UNKNOWN, cuda("2.1.2", "2.18.3")]),
    origin=st.sampled_from(["environment", "command", "launcher", SITE, MINE]),
)
def test_no_settings_whatever_break_a_probe(
    chosen: dict[str, str], launch: Launch, software: Software | Unavailable, origin: str
) -> None:
    for finding in judge(in_force(origin, **chosen), launch, software, gpus=cards(8), fabric=infiniband()):
        assert not finding.message.endswith(".")
        assert finding.fix.text
        if origin == SITE:
            assert finding.fix.command is None
        if origin == "launcher":
            assert finding.code == "DC126", "nobody is blamed for what a launcher set"


@given(name=st.sampled_from(NAMES), value=VALUES, launch=st.sampled_from([SHELL, PLANNED, RANK]))
def test_no_fix_leads_to_the_next_finding(name: str, value: str, launch: Launch) -> None:
    facts = {"gpus": cards(8), "fabric": infiniband()}
    before = judge(in_force(**{name: value}), launch, **facts)
    for finding in before:
        command = finding.fix.command
        if command is None:
            continue
        verb, _, rest = command.partition(" ")
        after = in_force() if verb == "unset" else in_force(**{rest.partition("=")[0]: rest.partition("=")[2]})
        assert {item.key for item in judge(after, launch, **facts)} <= {item.key for item in before} - {finding.key}


def test_what_is_supposed_of_machines_that_nobody_described() -> None:
    """Files that run elsewhere: torch 2.4 and its NCCL, or newer, so that what those dropped or renamed is told."""

    def age(name: str, value: str = "1") -> list[tuple[str, Severity]]:
        return [(item.code, item.severity) for item in room.judge_age(in_force(**{name: value}), room.IN_USE)]

    assert age("NCCL_ASYNC_ERROR_HANDLING") == [("DC111", WARNING)]
    assert age("ENABLE_NCCL_HEALTH_CHECK") == [("DC111", WARNING)]
    assert age("NCCL_TREE_THRESHOLD") == [("DC111", WARNING)]
    # names of releases that are newer than that may be right
    assert age("TORCH_NCCL_TRACE_BUFFER_SIZE") == [("DC111", INFO)]
    assert age("NCCL_WORK_FIFO_DEPTH") == []
    assert age("TORCH_NCCL_ASYNC_ERROR_HANDLING") == []
    # nothing is supposed of a host whose software could not be looked at
    assert [item.severity for item in room.names_are_current(in_force(NCCL_BLOCKING_WAIT="1"), UNKNOWN)] == [INFO]
