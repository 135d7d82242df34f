"""``env`` on machines whose ``/sys/class/kfd`` and ``/sys/class/infiniband`` are made: exit statuses, and what is said.

Whatever can't be read is an error or *not checked*, and never fine.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.made_machine import files_of, run

ROCM = "rocm-mi300x"
TORCH = "/opt/conda/envs/py_3.10/lib/python3.10/site-packages/torch"
NODES = "/sys/class/kfd/kfd/topology/nodes"
PORTS = "/sys/class/infiniband"
RENDER = [f"/dev/dri/renderD{minor}" for minor in range(128, 192, 8)]
ONE_NODE = ("--nproc-per-node=8",)
TWO_NODES = (
    *ONE_NODE, "--nnodes=2", "--node-rank=0", "--master-addr=10.5.0.17", "--master-port=29500", "--backend=nccl",
)  # fmt: skip

#: eight MI300X, and a torch for ROCm
GPUS = files_of(ROCM)
_LIBRARY = {"/usr/local/lib/libibverbs.so.1": ""}
#: with eight ports of InfiniBand, and with four of which one is down
HEALTHY = {**GPUS, **files_of("hgx-h100-infiniband", "/infiniband"), **_LIBRARY}
DEAD_PORT = {**GPUS, **files_of("infiniband-dead-port", "/infiniband"), **_LIBRARY}


def without(files: dict[str, Any], *beginnings: str) -> dict[str, Any]:
    return {path: content for path, content in files.items() if not path.startswith(beginnings)}


def with_torch(version: str, cuda: str | None) -> dict[str, Any]:
    """The same machine with a torch without ROCm."""
    files = without(GPUS, f"{TORCH}/lib/libtorch_hip", f"{TORCH}/lib/librccl", f"{TORCH}-")
    return {**files, f"{TORCH}/version.py": f"__version__ = {version!r}\ncuda = {cuda!r}\nhip = None\n"}


class Case(NamedTuple):
    """A machine, the options of ``env``, and what must come of it."""

    files: dict[str, Any]
    words: tuple[str, ...]
    status: int
    #: codes of errors and warnings, all of them
    codes: tuple[str, ...] = ()
    #: part of the message of a finding, or of the reason why something is not checked
    text: str = ""
    #: devices that this process may not open, and paths whose reader gets an error
    closed: tuple[str, ...] = ()
    refused: Mapping[str, int] = {}
    not_checked: tuple[str, ...] = ()


def every_port(name: str) -> dict[str, int]:
    return {f"{PORTS}/mlx5_{number}/ports/1/{name}": errno.EIO for number in range(8)}


CASES = {
    "8 GPUs": Case(GPUS, ONE_NODE, 0),
    "8 GPUs and 8 ports": Case(HEALTHY, TWO_NODES, 0),
    # AMD's driver
    "no permission on /dev/kfd": Case(GPUS, ONE_NODE, 1, ("DC315",), "/dev/kfd can't be opened", ("/dev/kfd",)),
    "no permission, for a shell": Case(GPUS, (), 0, (), "/dev/kfd can't be opened", ("/dev/kfd",), {}, ("DC309",)),
    "no permission, and gloo": Case(GPUS, (*ONE_NODE, "--backend=gloo"), 0, (), "can't be opened", ("/dev/kfd",)),
    "no /dev/kfd in the container": Case(
        without(GPUS, "/dev/kfd", "/dev/dri"), ONE_NODE, 1, ("DC315",), "/dev/kfd does not exist"
    ),
    "no permission on the GPUs": Case(GPUS, ONE_NODE, 1, ("DC315",), "/dev/dri/renderD128", tuple(RENDER)),
    "no permission on one GPU": Case(GPUS, ONE_NODE, 1, ("DC301",), "7 GPUs are usable", (RENDER[3],)),
    "the topology is not there": Case(without(GPUS, "/sys/class/kfd"), ONE_NODE, 1, ("DC315",), "no GPU can be read"),
    "the topology is refused": Case(
        GPUS, ONE_NODE, 1, ("DC315",), "no GPU can be read", refused={"/sys/class/kfd": errno.EACCES}
    ),
    "a cgroup keeps all GPUs": Case(
        GPUS, ONE_NODE, 1, ("DC315",), "no GPU can be read",
        refused={f"{NODES}/{number}/properties": errno.EPERM for number in range(2, 10)},
    ),
    "a torch for the CPU": Case(with_torch("2.7.1+cpu", None), ONE_NODE, 0, (), "this host has 8 GPUs"),
    "a torch for the CPU, and NCCL": Case(
        with_torch("2.7.1+cpu", None), (*ONE_NODE, "--backend=nccl"), 1, ("DC120",), "requests nccl"
    ),
    "a torch for CUDA": Case(with_torch("2.7.1+cu128", "12.8"), ONE_NODE, 0, (), "this host has 8 AMD GPUs"),
    "a torch for CUDA, and NCCL": Case(
        with_torch("2.7.1+cu128", "12.8"), (*ONE_NODE, "--backend=nccl"), 1, ("DC120",), "built for CUDA"
    ),
    "a torch for CUDA, no /dev/kfd": Case(without(with_torch("2.7.1+cu128", "12.8"), "/dev/kfd"), ONE_NODE, 0),
    "a torch for CUDA, no permission, and NCCL": Case(
        with_torch("2.7.1+cu128", "12.8"), (*ONE_NODE, "--backend=nccl"), 1, ("DC301",), "no usable GPU", ("/dev/kfd",)
    ),
    # InfiniBand
    "a link is down": Case(DEAD_PORT, TWO_NODES, 0, ("DC414",), "mlx5_2:1 is DOWN"),
    "no /dev/infiniband": Case(without(HEALTHY, "/dev/infiniband"), TWO_NODES, 0, ("DC413",), "can't open /dev/inf"),
    "no permission on /dev/infiniband": Case(
        HEALTHY, TWO_NODES, 0, ("DC413",), "can't open /dev/infiniband",
        tuple(f"/dev/infiniband/uverbs{number}" for number in range(8)),
    ),
    "the devices are refused": Case(
        HEALTHY, TWO_NODES, 0, (), "/sys/class/infiniband can't be read: Permission denied",
        refused={PORTS: errno.EACCES}, not_checked=("DC413", "DC414", "DC415", "DC416"),
    ),
    "the ports of one card are refused": Case(
        HEALTHY, TWO_NODES, 0, (), "mlx5_3/ports can't be read: Permission denied",
        refused={f"{PORTS}/mlx5_3/ports": errno.EACCES}, not_checked=("DC413", "DC414"),
    ),
    "no port shows its state": Case(
        HEALTHY, TWO_NODES, 0, (), "mlx5_0:1", refused=every_port("state"), not_checked=("DC413", "DC414", "DC415")
    ),
    "no port shows its kind": Case(
        HEALTHY, TWO_NODES, 0, (), "mlx5_0:1", refused=every_port("link_layer"), not_checked=("DC413", "DC414")
    ),
    "one port does not show its state": Case(
        HEALTHY, TWO_NODES, 0, ("DC414",), "the state of mlx5_3:1 can't be read; 7 of 8 like it are ACTIVE",
        refused={f"{PORTS}/mlx5_3/ports/1/state": errno.EIO},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_env(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    words = ("env", "--isolated", "--output-format", "json", *case.words)
    result = run(tmp_path, ROCM, case.files, *words, unwritable=case.closed, refused=case.refused)
    report = json.loads(result.stdout)
    loud = {item["code"] for item in report["findings"] if item["severity"] in ("error", "warning")}
    assert (result.returncode, loud) == (case.status, set(case.codes)), result.stdout
    said = [item["message"] for item in report["findings"]] + [item["why"] for item in report["not_checked"]]
    assert any(case.text in text for text in said), said
    unchecked = {code for item in report["not_checked"] for code in item["what"].split(", ")}
    assert set(case.not_checked) <= unchecked
    if case.closed or case.refused:
        assert loud or unchecked > {"DC333", "DC335"}, "that something could not be read shows nowhere"


def test_a_site_can_insist_on_ports_that_cannot_be_read(tmp_path: Path) -> None:
    words = ("env", "--isolated", *TWO_NODES, "--must-check", "DC413")
    assert run(tmp_path / "healthy", ROCM, HEALTHY, *words).returncode == 0
    assert run(tmp_path / "refused", ROCM, HEALTHY, *words, refused=every_port("state")).returncode == 3


#: machines on which gloo must not replace RCCL; no torch that these tests have can use a GPU, so that healthy ones fail
NEVER_ON_THE_CPU = (
    "8 GPUs", "no permission on /dev/kfd", "no /dev/kfd in the container", "no permission on the GPUs",
    "the topology is not there", "a cgroup keeps all GPUs",
)  # fmt: skip


def collective(name: str, folder: Path, *words: str) -> tuple[int, str]:
    """Exit status and output of the smoke test on one of the machines."""
    case = CASES[name]
    words = ("collective", "--nproc=2", "--quick", "--timeout=20", "--isolated", "--output-format", "concise", *words)
    result = run(folder, ROCM, case.files, *words, unwritable=case.closed, refused=case.refused)
    return result.returncode, result.stdout


@pytest.mark.torch
@pytest.mark.parametrize("name", NEVER_ON_THE_CPU)
def test_collective_never_passes_on_the_cpu(name: str, tmp_path: Path) -> None:
    status, text = collective(name, tmp_path)
    assert status == 1, text
    assert "gloo" not in text.splitlines()[-1]
    assert CASES[name].text in text


@pytest.mark.torch
@pytest.mark.parametrize("name", ["a torch for the CPU", "a torch for CUDA"])
def test_collective_warns_where_its_torch_has_no_code_for_the_gpus(name: str, tmp_path: Path) -> None:
    status, text = collective(name, tmp_path)
    assert status == 0, text
    assert "DC120 warning" in text
    assert text.splitlines()[-1].endswith("on gloo, CPU")


@pytest.mark.torch
def test_collective_on_the_cpu_on_purpose(tmp_path: Path) -> None:
    status, text = collective("no permission on /dev/kfd", tmp_path, "--backend=gloo")
    assert status == 0, text
    assert text.splitlines()[-1].endswith("on gloo, CPU")
