"""Whether torch can use a GPU: known GPUs, known absence, and everything that is neither."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from pathlib import Path
from typing import Any

import pynvml
import pytest

from distcheck.checks.host.devices import Devices, apply_masks
from distcheck.checks.host.gpu_access import GpuAccess, GpuState, gpu_access
from distcheck.checks.host.gpus import AMD_UNREAD, Driver, Gpu, Gpus
from distcheck.checks.host.software import Software
from distcheck.core.checker import Checker
from distcheck.core.model import Unavailable
from distcheck.launch.model import Launch
from distcheck.rules import Selection
from tests.fake_nvml import FakeNvml, hgx_h100, pcie_a100
from tests.recorded import RecordedWorld, load_world, recorded_world, write_files

CUDA = Software("3.12", "2.13.0", "/opt/torch", cuda="13.0")
ROCM = Software("3.12", "2.13.0", "/opt/torch", hip="6.4")
CPU = Software("3.12", "2.13.0+cpu", "/opt/torch")
NONE = Unavailable("no NVIDIA driver: its library libnvidia-ml is not found")
CLOSED = Unavailable(f"{NONE.why}{AMD_UNREAD}/dev/kfd does not exist")
MI300X = Gpus("amd", (Gpu(0, "GPU-0", "AMD Instinct MI300X", architecture="gfx942"),))
GRAPHICS = Gpus("amd", (Gpu(0, "GPU-0", "AMD Radeon Graphics", architecture="gfx1103"),))
H100 = Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100", architecture="9.0") for index in range(2)))


class CrashingDriver(RecordedWorld):
    """A machine whose NVML ends the process that asks it."""

    def nvml(self) -> Any:
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)


class HungDriver(RecordedWorld):
    """A machine whose NVIDIA driver hangs in the kernel."""

    def nvml(self) -> Any:
        time.sleep(60)


class FailingDriver(RecordedWorld):
    """A machine on which nvmlInit fails with the code ``nvml_error`` of the record."""

    def nvml(self) -> Any:
        raise Unavailable(f"NVML: {pynvml.NVMLError(self.record['nvml_error'])}")


def machine(kind: type[RecordedWorld], folder: Path, host: str = "a100-pcie", **record: Any) -> RecordedWorld:
    """A recorded machine, a CUDA build of torch included, with another NVML."""
    known = load_world(host, folder)
    return kind(folder, {**known.record, **record})


def access_of(world: RecordedWorld, budget_s: float | None = None) -> GpuAccess:
    checker = Checker(Selection(ignore=("ALL",)), plug_ins=False)
    made = (Gpus, Devices, Driver, Software)
    facts = checker.plan(type(world), Launch, also=made).run(world, Launch(), budget_s=budget_s).facts
    gpus, devices, driver, software = (facts[one.__name__] for one in made)
    return gpu_access(gpus, devices, driver, software)


def test_good_gpus_of_this_build_are_usable(tmp_path: Path) -> None:
    world = machine(RecordedWorld, tmp_path, nvml=pcie_a100())
    assert access_of(world) == GpuAccess(GpuState.USABLE, "4 × NVIDIA A100-PCIE-40GB", True)


def test_good_mixed_gpus_are_usable(tmp_path: Path) -> None:
    """CUDA chooses the order of a display card and A100s; that there are GPUs is known all the same."""
    cards = pcie_a100().cards
    nvml = FakeNvml((cards[0]._replace(name="NVIDIA T400", capability=(7, 5)), *cards[1:]))
    access = access_of(machine(RecordedWorld, tmp_path, nvml=nvml))
    assert access == GpuAccess(GpuState.USABLE, "3 × NVIDIA A100-PCIE-40GB, 1 × NVIDIA T400", True)


@pytest.mark.parametrize("host", ["laptop-no-gpu", "kubernetes-pytorchjob"])
def test_good_no_driver_and_no_node_is_no_gpu(host: str, tmp_path: Path) -> None:
    world = load_world(host, tmp_path)
    for name in ("dev", "usr"):
        (tmp_path / name).rename(tmp_path / f"no-{name}") if (tmp_path / name).exists() else None
    assert access_of(world) == GpuAccess(GpuState.ABSENT)


def test_bad_a_driver_that_hangs(tmp_path: Path) -> None:
    access = access_of(machine(HungDriver, tmp_path), budget_s=1)
    assert access.state == GpuState.UNUSABLE
    assert "read_gpus" in access.seen


def test_bad_a_driver_that_crashes(tmp_path: Path) -> None:
    access = access_of(machine(CrashingDriver, tmp_path))
    assert access.state == GpuState.UNUSABLE
    assert "signal 11" in access.seen
    assert "/dev/nvidia0" in access.seen


@pytest.mark.parametrize(("code", "text"), [(9, "Driver Not Loaded"), (999, "Unknown Error")])
def test_bad_a_driver_that_does_not_start(code: int, text: str, tmp_path: Path) -> None:
    access = access_of(machine(FailingDriver, tmp_path, nvml_error=code))
    assert access.state == GpuState.UNUSABLE
    assert text in access.seen
    # the library alone is a driver: without a device node as well
    folder = tmp_path / "bare"
    files = {"/site/torch/version.py": "__version__ = '2.13.0'\ncuda = '13.0'\n", "/site/torch/_C.so": ""}
    write_files(folder, files)
    assert access_of(FailingDriver(folder, {"python_path": ("/site",), "nvml_error": code})).state == GpuState.UNUSABLE


@pytest.mark.parametrize(
    ("name", "more"),
    [("nvidia0", ""), ("nvidiactl", ""), ("kfd", ", but no GPU can be read in /sys/class/kfd/kfd/topology/nodes")],
)
def test_bad_a_device_node_without_a_driver_library(name: str, more: str, tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files={f"/dev/{name}": ""})
    assert access_of(world) == GpuAccess(GpuState.UNUSABLE, f"/dev/{name} exists{more}")


def test_bad_a_driver_that_lists_no_gpu(tmp_path: Path) -> None:
    """A cgroup keeps the GPUs of other jobs from this one."""
    access = access_of(machine(RecordedWorld, tmp_path, nvml=FakeNvml(())))
    assert access.state == GpuState.UNUSABLE
    assert "NVML lists no GPU" in access.seen


def test_bad_all_gpus_are_lost() -> None:
    lost = Gpus("nvidia", tuple(gpu._replace(lost=True) for gpu in H100.gpus))
    assert gpu_access(lost, apply_masks({}, lost), Driver(), CUDA) == GpuAccess(GpuState.UNUSABLE, "2 GPUs lost", True)


def test_bad_a_faulty_mask_is_not_one_that_hides_all() -> None:
    devices = apply_masks({"CUDA_VISIBLE_DEVICES": "7"}, H100)
    access = gpu_access(H100, devices, Driver(), CUDA)
    assert access == GpuAccess(GpuState.UNUSABLE, "CUDA_VISIBLE_DEVICES='7'", True)


@pytest.mark.parametrize("gpus", [H100, Unavailable("NVML: Unknown Error")])
def test_a_mask_that_hides_all(gpus: Gpus | Unavailable) -> None:
    access = gpu_access(gpus, apply_masks({"CUDA_VISIBLE_DEVICES": ""}, gpus), Driver(), CUDA)
    assert (access.state, access.seen) == (GpuState.HIDDEN, "CUDA_VISIBLE_DEVICES=''")


@pytest.mark.parametrize(
    ("gpus", "driver", "software", "access"),
    [
        (H100, Driver(), CPU, GpuAccess(GpuState.OTHER_BUILD, "2 × NVIDIA H100", True)),
        (H100, Driver(), ROCM, GpuAccess(GpuState.OTHER_BUILD, "2 × NVIDIA H100", True)),
        (MI300X, Driver(shared_nodes=("/dev/kfd",)), CUDA, GpuAccess(GpuState.OTHER_BUILD, "1 × AMD Instinct MI300X", True)),
        (GRAPHICS, Driver(shared_nodes=("/dev/kfd",)), CUDA, GpuAccess(GpuState.OTHER_BUILD, "1 × AMD Radeon Graphics", False)),
        (
            Unavailable("NVML: Unknown Error"), Driver(nodes=("/dev/nvidia0",)), CPU,
            GpuAccess(GpuState.OTHER_BUILD, "/dev/nvidia0", True),
        ),
        (MI300X, Driver(shared_nodes=("/dev/kfd",)), ROCM, GpuAccess(GpuState.USABLE, "1 × AMD Instinct MI300X", True)),
        (NONE, Driver(shared_nodes=("/dev/kfd",)), ROCM, GpuAccess(GpuState.UNUSABLE, "/dev/kfd exists")),
        # /dev/kfd is no business of a CUDA build, and a laptop's NVIDIA library none of a ROCm build
        (NONE, Driver(shared_nodes=("/dev/kfd",)), CUDA, GpuAccess(GpuState.ABSENT)),
        (NONE, Driver(library_version="550.54.15"), ROCM, GpuAccess(GpuState.ABSENT)),
        # a container without /dev/kfd sees the GPUs of its host in /sys
        (CLOSED, Driver(amd_gpus=8), ROCM, GpuAccess(GpuState.UNUSABLE, "/dev/kfd does not exist")),
        (CLOSED, Driver(amd_gpus=8), CUDA, GpuAccess(GpuState.ABSENT)),
        (GRAPHICS, Driver(library_version="550.54.15"), CUDA, GpuAccess(
            GpuState.UNUSABLE, "the library libnvidia-ml exists, and NVML did not answer"
        )),
        # WSL without a driver for CUDA, and a container without GPUs on a host that has some
        (NONE, Driver(through_windows=True), CUDA, GpuAccess(GpuState.ABSENT)),
        (NONE, Driver(module_version="550.54.15"), CUDA, GpuAccess(GpuState.ABSENT)),
        (NONE, Unavailable("not Linux"), CPU, GpuAccess(GpuState.ABSENT)),
        # the files of an editable build do not show for what it is built
        (H100, Driver(), Software("3.12", "2.14.0a0"), GpuAccess(GpuState.USABLE, "2 × NVIDIA H100", True)),
        (Unavailable("NVML: Unknown Error"), Driver(), Unavailable("slow"), GpuAccess(GpuState.UNUSABLE, "NVML: Unknown Error")),
    ],
)  # fmt: skip
def test_what_torch_is_built_for(
    gpus: Gpus | Unavailable, driver: Driver | Unavailable, software: Software | Unavailable, access: GpuAccess
) -> None:
    assert gpu_access(gpus, apply_masks({}, gpus), driver, software) == access


def test_a_host_of_eight(tmp_path: Path) -> None:
    access = access_of(machine(RecordedWorld, tmp_path, "hgx-h100-infiniband", nvml=hgx_h100()))
    assert access.seen == "8 × NVIDIA H100 80GB HBM3"
