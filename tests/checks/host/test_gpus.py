"""Reading GPUs: NVML through a fake provider, AMD and the driver's files from a file tree, and this machine."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.gpus import (
    Driver,
    Gpu,
    GpuProcess,
    Gpus,
    PeerPaths,
    nvml_limit_s,
    read_driver,
    read_gpus,
    read_peer_paths,
)
from distcheck.core import isolation, registry
from distcheck.core.facts_file import dump_facts, load_facts
from distcheck.core.model import Unavailable
from distcheck.core.world import World
from tests.fake_nvml import (
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    Failure,
    FakeCard,
    FakeNvml,
    hgx_h100,
    mig_a100,
    pcie_a100,
    sick_card,
    uuid_of,
)
from tests.recorded import recorded_world

GIB = 1 << 30
FIRST_NAMESPACE = {"link": "pid:[4026531836]"}
PASSWD = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n"


def gpus_of(folder: Path, nvml: FakeNvml, files: dict[str, Any] | None = None) -> Gpus:
    return read_gpus(recorded_world(folder, nvml=nvml, files=files or {}))


# NVIDIA


def test_an_hgx_node_is_read(tmp_path: Path) -> None:
    files = {
        "/sys/bus/pci/devices/0000:19:00.0/numa_node": "1\n",
        "/sys/bus/pci/devices/0000:19:00.0/local_cpulist": "0-2,96\n",
    }
    found = gpus_of(tmp_path, hgx_h100(), files)
    assert (found.vendor, found.driver_version, found.driver_cuda, len(found.gpus)) == (
        "nvidia",
        "550.54.15",
        "12.4",
        8,
    )
    assert found.gpus[0] == Gpu(
        index=0,
        uuid=uuid_of(0),
        name="NVIDIA H100 80GB HBM3",
        pci="0000:19:00.0",
        memory_bytes=80 * GIB,
        architecture="9.0",
        compute_mode="default",
        persistence_mode=True,
        mig_enabled=False,
        ecc_uncorrected_volatile=0,
        ecc_uncorrected_lifetime=0,
        remapped_rows=0,
        remap_pending=False,
        remap_failed=False,
        temperature_c=31,
        fabric_state="completed",
        fabric_status=0,
        nvlinks_active=18,
        numa_node=1,
        cpus=(0, 1, 2, 96),
    )
    assert [gpu.index for gpu in found.gpus] == list(range(8))
    assert found.gpus[1].numa_node is None


def test_what_a_card_does_not_have_is_no_error(tmp_path: Path) -> None:
    missing = Failure(NOT_SUPPORTED)
    card = pcie_a100(ecc_volatile=missing, ecc_lifetime=missing, remapped=missing, mig_mode=missing).cards[0]
    (gpu,) = gpus_of(tmp_path, FakeNvml([card])).gpus
    assert (gpu.nvlinks_active, gpu.fabric_state, gpu.remap_pending) == (None, "not-supported", None)
    assert (gpu.ecc_uncorrected_volatile, gpu.mig_enabled, gpu.errors, gpu.lost) == (None, None, (), False)


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "uuid",
        "pci",
        "memory_bytes",
        "capability",
        "compute_mode",
        "persistence_mode",
        "mig_mode",
        "ecc_volatile",
        "remapped",
        "clock_reasons",
        "temperature",
        "fabric",
        "links",
        "processes",
    ],
)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, UNKNOWN])
def test_one_failing_call_costs_one_field(tmp_path: Path, name: str, code: int) -> None:
    failing: dict[str, Any] = {name: Failure(code)}
    (gpu,) = gpus_of(tmp_path, FakeNvml([FakeCard(uuid=uuid_of(0))._replace(**failing)])).gpus
    assert not gpu.lost
    sound = {"name": gpu.name, "capability": gpu.architecture, "temperature": gpu.temperature_c}
    assert all(value for other, value in sound.items() if other != name)
    assert len(gpu.errors) == (code == UNKNOWN and name not in ("fabric", "links"))


@pytest.mark.parametrize(
    "changes",
    [{"links": Failure(GPU_IS_LOST)}, {"fabric": Failure(GPU_IS_LOST)}, {"mig_uuids": (Failure(GPU_IS_LOST),)}],
)
def test_any_call_may_find_that_a_card_is_lost(changes: dict[str, Any], tmp_path: Path) -> None:
    card = FakeCard(uuid=uuid_of(0), mig_mode=(1, 1))._replace(**changes)
    (gpu,) = gpus_of(tmp_path, FakeNvml([card])).gpus
    assert gpu.lost
    assert len(gpu.errors) == 1
    assert gpu.errors[0].endswith("GPU is lost")


def test_a_driver_that_does_not_count_its_cards(tmp_path: Path) -> None:
    class Uncounted(FakeNvml):
        def nvmlDeviceGetCount(self) -> int:
            raise self.NVMLError(UNKNOWN)

    with pytest.raises(Unavailable, match="NVML: nvmlDeviceGetCount: Unknown Error"):
        gpus_of(tmp_path, Uncounted([]))


@pytest.mark.parametrize(("cards", "seconds"), [(0, 12), (1, 12), (8, 32), (16, 64)])
def test_the_limit_grows_with_the_cards(cards: int, seconds: float, tmp_path: Path) -> None:
    files = {f"/proc/driver/nvidia/gpus/0000:{number:02x}:00.0/information": "" for number in range(cards)}
    assert nvml_limit_s(recorded_world(tmp_path, files=files)) == seconds


def test_a_card_lost_while_it_is_read(tmp_path: Path) -> None:
    nvml = FakeNvml([FakeCard(uuid=uuid_of(0), temperature=Failure(GPU_IS_LOST), ecc_volatile=Failure(GPU_IS_LOST))])
    (gpu,) = gpus_of(tmp_path, nvml).gpus
    assert gpu.lost
    # nothing more is asked of it, so the words stand there once
    assert gpu.errors == ("nvmlDeviceGetTotalEccErrors: GPU is lost",)


def test_cards_without_a_handle(tmp_path: Path) -> None:
    well = FakeCard(uuid=uuid_of(0))
    nvml = FakeNvml([well, well._replace(handle=Failure(GPU_IS_LOST)), well._replace(handle=Failure(NO_PERMISSION))])
    found = gpus_of(tmp_path, nvml)
    # what a cgroup keeps from us is none of ours; what is lost is told
    assert [(gpu.index, gpu.lost) for gpu in found.gpus] == [(0, False), (1, True)]
    assert found.gpus[1].errors == ("nvmlDeviceGetHandleByIndex: GPU is lost",)


def test_old_names_and_texts_as_bytes(tmp_path: Path) -> None:
    old = FakeNvml(
        [FakeCard(uuid=uuid_of(0), clock_reasons=0x44, fabric=(2, 0), processes=[(7, None)])],
        missing=[
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetTemperatureV",
            "nvmlDeviceGetGpuFabricInfoV",
            "nvmlDeviceGetComputeRunningProcesses",
        ],
        as_bytes=True,
    )
    found = gpus_of(tmp_path, old)
    (gpu,) = found.gpus
    assert found.driver_version == "550.54.15"
    assert (gpu.name, gpu.uuid, gpu.pci) == ("NVIDIA H100 80GB HBM3", uuid_of(0), "0000:19:00.0")
    assert (gpu.throttle, gpu.temperature_c) == (("sw-power-cap", "hw-thermal"), 31)
    assert (gpu.fabric_state, gpu.fabric_status) == ("in-progress", None)
    assert gpu.processes == (GpuProcess(7, None),)


def test_a_driver_without_fabric_calls(tmp_path: Path) -> None:
    old = FakeNvml([FakeCard()], missing=["nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"])
    assert gpus_of(tmp_path, old).gpus[0].fabric_state is None


def test_mig_instances_are_read(tmp_path: Path) -> None:
    (gpu,) = gpus_of(tmp_path, mig_a100(2)).gpus
    assert gpu.mig_enabled
    assert [uuid[:8] for uuid in gpu.mig_uuids] == ["MIG-09f0", "MIG-19f0"]
    assert gpu.errors == ()


@pytest.mark.parametrize(("code", "instances", "errors"), [(NO_PERMISSION, 2, 0), (UNKNOWN, 1, 1)])
def test_mig_instances_of_others(tmp_path: Path, code: int, instances: int, errors: int) -> None:
    card = mig_a100(2).cards[0]
    card = card._replace(mig_uuids=(card.mig_uuids[0], Failure(code), card.mig_uuids[1]))
    (gpu,) = gpus_of(tmp_path, FakeNvml([card])).gpus
    assert (len(gpu.mig_uuids), len(gpu.errors)) == (instances, errors)


@pytest.mark.parametrize(("text", "node"), [("-1\n", None), ("0\n", 0), ("3\n", 3), ("", None)])
def test_numa_nodes(tmp_path: Path, text: str, node: int | None) -> None:
    files = {"/sys/bus/pci/devices/0000:19:00.0/numa_node": text}
    assert gpus_of(tmp_path, FakeNvml([FakeCard()]), files).gpus[0].numa_node == node


def test_a_sick_card_is_read(tmp_path: Path) -> None:
    (gpu,) = gpus_of(tmp_path, sick_card(remapped=(1, 3, 1, 1), retired_pending=1)).gpus
    assert (gpu.remapped_rows, gpu.remap_pending, gpu.remap_failed, gpu.retired_pages_pending) == (3, True, True, True)
    assert (gpu.ecc_uncorrected_volatile, gpu.ecc_uncorrected_lifetime) == (2, 5)


def test_links_that_are_down_are_not_counted(tmp_path: Path) -> None:
    assert gpus_of(tmp_path, hgx_h100(links=(1, 0, 1))).gpus[0].nvlinks_active == 2


def test_it_survives_pickling_and_the_facts_file(tmp_path: Path) -> None:
    found = gpus_of(tmp_path, sick_card(processes=[(99, 5 * GIB)]))
    assert pickle.loads(pickle.dumps(found)) == found
    text = dump_facts({Gpus: found}, tool_version="1", saved_at="now")
    assert load_facts(text, {"Gpus": Gpus})[Gpus] == found


def test_no_context_and_no_change_is_asked_for(tmp_path: Path) -> None:
    nvml = hgx_h100()
    gpus_of(tmp_path, nvml)
    assert nvml.calls
    assert all(name.startswith(("nvmlDeviceGet", "nvmlSystemGet")) for name in nvml.calls)


def test_it_runs_in_a_child(tmp_path: Path) -> None:
    reader = registry.readers()[Gpus]
    assert reader.isolated
    child = isolation.start(reader, [recorded_world(tmp_path, nvml=hgx_h100())])
    found = child.result()
    assert isinstance(found, Gpus)
    assert len(found.gpus) == 8


# processes


def process_files(
    pid: int, *, uid: int, parent: int, command: str, descriptor: str = "", environ: str = ""
) -> dict[str, Any]:
    stat = f"{pid} (py) worker) S {parent} " + " ".join(["0"] * 17) + " 5000 1 2"
    files: dict[str, Any] = {
        f"/proc/{pid}/status": f"Name:\tpython\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
        f"/proc/{pid}/cmdline": command.replace(" ", "\0") + "\0",
        f"/proc/{pid}/stat": stat,
        f"/proc/{pid}/environ": environ,
    }
    if descriptor:
        files[f"/proc/{pid}/fd/5"] = {"link": descriptor}
    return files


def processes_of(folder: Path, files: dict[str, Any], namespace: Any = FIRST_NAMESPACE) -> tuple[GpuProcess, ...]:
    files = {
        "/proc/self/ns/pid": namespace,
        "/proc/stat": "cpu 1 2\nbtime 1795000000\n",
        "/etc/passwd": PASSWD,
        **files,
    }
    nvml = FakeNvml([FakeCard(processes=[(300, 70 * GIB)])])
    return read_gpus(recorded_world(folder, nvml=nvml, files=files, user_id=1000)).gpus[0].processes


WORKER: dict[str, Any] = {"uid": 1000, "parent": 1, "command": "python train.py", "descriptor": "/dev/nvidia0"}
ELASTIC = "HOME=/home/alice\0TORCHELASTIC_RUN_ID=none\0"


def test_a_process_is_described(tmp_path: Path) -> None:
    files = process_files(300, uid=1001, parent=299, command="python train.py --api-key sk-abcdefghijklmnopqrstuv")
    assert processes_of(tmp_path, files) == (
        GpuProcess(300, 70 * GIB, "bob", "python train.py --api-key ***", 1795000050.0, False, False),
    )


@pytest.mark.parametrize(
    ("changes", "orphan"),
    [
        pytest.param({"environ": ELASTIC}, True, id="rank whose agent is gone"),
        pytest.param({"command": "python -c from multiprocessing.spawn import spawn_main"}, True, id="spawned worker"),
        pytest.param({}, False, id="sent to the background on purpose"),
        pytest.param({"environ": ELASTIC, "parent": 299}, False, id="its agent lives"),
        pytest.param({"environ": ELASTIC, "uid": 1001}, False, id="of another user"),
        pytest.param({"environ": ELASTIC, "descriptor": "/dev/null"}, False, id="another process with the same number"),
        pytest.param({"environ": "X=TORCHELASTIC_RUN_ID=1\0"}, False, id="the name stands in another variable's value"),
    ],
)
def test_orphans(tmp_path: Path, changes: dict[str, Any], orphan: bool) -> None:
    (process,) = processes_of(tmp_path, process_files(300, **{**WORKER, **changes}))
    assert process.orphan is orphan


def test_orphans_taken_over_by_the_users_systemd(tmp_path: Path) -> None:
    files = {**process_files(300, **{**WORKER, "parent": 900, "environ": ELASTIC}), "/proc/900/comm": "systemd\n"}
    assert processes_of(tmp_path, files)[0].orphan


@pytest.mark.parametrize("namespace", [{"link": "pid:[4026532999]"}, ""])
def test_in_a_container_numbers_mean_other_processes(tmp_path: Path, namespace: Any) -> None:
    files = process_files(300, **{**WORKER, "environ": ELASTIC})
    assert processes_of(tmp_path, files, namespace) == (GpuProcess(300, 70 * GIB),)


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    assert processes_of(tmp_path, {}) == (GpuProcess(300, 70 * GIB),)


# AMD


def amd_files(count: int = 2) -> dict[str, Any]:
    files: dict[str, Any] = {
        "/sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n",
        "/sys/module/amdgpu/version": "6.8.5\n",
        "/proc/self/ns/pid": FIRST_NAMESPACE,
        "/dev/kfd": "",
    }
    for index in range(count):
        node, minor = f"/sys/class/kfd/kfd/topology/nodes/{index + 1}", 128 + index
        files |= {
            f"/dev/dri/renderD{minor}": "",
            f"{node}/properties": "simd_count 1216\ngfx_target_version 90402\nlocation_id 1280\ndomain 0\n"
            f"unique_id {0xABC0 + index}\ndrm_render_minor {minor}\n",
            f"{node}/name": "ip discovery\n",
            f"{node}/gpu_id": f"{1000 + index}\n",
            f"{node}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {192 * GIB}\n",
            f"{node}/io_links/0/properties": "type 2\n",
            f"{node}/io_links/1/properties": "type 11\n",
            f"{node}/p2p_links/0/properties": "type 11\n",
            f"/sys/class/drm/renderD{minor}/device/mem_info_vram_used": f"{3 * GIB}\n",
            f"/sys/class/drm/renderD{minor}/device/ras/umc_err_count": "ue: 4\nce: 9\n",
            f"/sys/class/kfd/kfd/proc/300/vram_{1000 + index}": f"{index * GIB}\n",
        }
    return files


def test_amd_gpus_are_read(tmp_path: Path) -> None:
    found = read_gpus(recorded_world(tmp_path, files=amd_files()))
    assert (found.vendor, found.driver_version, found.driver_cuda) == ("amd", "6.8.5", "")
    assert found.gpus[1] == Gpu(
        index=1,
        uuid="GPU-000000000000abc1",
        name="ip discovery",
        pci="0000:05:00.0",
        memory_bytes=192 * GIB,
        memory_used_bytes=3 * GIB,
        architecture="gfx942",
        ecc_uncorrected_volatile=4,
        nvlinks_active=2,
        processes=(GpuProcess(300, GIB),),
    )
    assert found.gpus[0].processes == ()


@pytest.mark.parametrize(
    ("number", "name"), [(90010, "gfx90a"), (90402, "gfx942"), (110000, "gfx1100"), (120001, "gfx1201")]
)
def test_amd_targets(tmp_path: Path, number: int, name: str) -> None:
    properties = f"simd_count 4\ngfx_target_version {number}\n"
    files = {"/sys/class/kfd/kfd/topology/nodes/1/properties": properties, "/dev/kfd": ""}
    assert read_gpus(recorded_world(tmp_path, files=files)).gpus[0].architecture == name


def test_amd_gpus_whose_device_is_closed_to_this_process_are_passed_over(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files=amd_files(), unwritable=["/dev/dri/renderD128"])
    assert [(gpu.index, gpu.uuid) for gpu in read_gpus(world).gpus] == [(0, "GPU-000000000000abc1")]


def test_a_cpu_alone_is_no_amd_gpu(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no NVIDIA driver"):
        read_gpus(recorded_world(tmp_path, files=amd_files(0)))


def test_integrated_amd_graphics_don_t_hide_a_broken_nvidia_driver(tmp_path: Path) -> None:
    files = amd_files(1) | {
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n"
    }
    with pytest.raises(Unavailable, match="no NVIDIA driver"):
        read_gpus(recorded_world(tmp_path, files=files))


# the driver's files


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024", "550.54.15"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)",
            "580.95.05",
        ),
        ("NVRM version: NVIDIA UNIX Kernel Module  595.10", "595.10"),
        ("something else", None),
    ],
)
def test_the_modules_version(tmp_path: Path, line: str, version: str | None) -> None:
    files = {"/proc/driver/nvidia/version": line + "\nGCC version: gcc version 12.3.0\n"}
    assert read_driver(recorded_world(tmp_path, files=files)).module_version == version


def test_the_drivers_files_are_read(tmp_path: Path) -> None:
    files = {
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": {"link": "libnvidia-ml.so.550.90.07"},
        "/dev/nvidia0": "",
        "/dev/nvidia1": "",
        "/dev/nvidiactl": "",
        "/dev/nvidia-uvm": "",
        "/proc/driver/nvidia-nvswitch/devices/0000:05:00.0": None,
    }
    world = recorded_world(tmp_path, files=files, unwritable=["/dev/nvidia1"])
    driver = read_driver(world)
    assert driver == Driver(
        library_version="550.90.07",
        nodes=("/dev/nvidia0", "/dev/nvidia1"),
        blocked=("/dev/nvidia1",),
        nvswitches=1,
        shared_nodes=("/dev/nvidia-uvm", "/dev/nvidiactl"),
    )
    assert not driver.nothing_there


def test_a_library_of_ones_own_comes_first(tmp_path: Path) -> None:
    files = {
        "/usr/lib64/libnvidia-ml.so.1": {"link": "libnvidia-ml.so.550.90.07"},
        "/opt/driver/libnvidia-ml.so.1": {"link": "/opt/driver/libnvidia-ml.so.535.54.03"},
    }
    world = recorded_world(tmp_path, files=files, environ={"LD_LIBRARY_PATH": "/opt/empty:/opt/driver"})
    assert read_driver(world).library_version == "535.54.03"


def test_wsls_library_has_no_number(tmp_path: Path) -> None:
    assert read_driver(recorded_world(tmp_path, files={"/usr/lib/wsl/lib/libnvidia-ml.so.1": ""})).library_version == ""
    assert read_driver(recorded_world(tmp_path / "none")).library_version is None


def test_where_nothing_is_there(tmp_path: Path) -> None:
    assert read_driver(recorded_world(tmp_path)).nothing_there
    assert not read_driver(recorded_world(tmp_path / "wsl", files={"/dev/dxg": ""})).nothing_there
    assert not read_driver(recorded_world(tmp_path / "amd", files=amd_files(1))).nothing_there
    with pytest.raises(Unavailable, match="darwin"):
        read_driver(recorded_world(tmp_path, platform="darwin"))


def test_iommu_groups_are_read(tmp_path: Path) -> None:
    gpus = Gpus("nvidia", tuple(Gpu(index, uuid_of(index), "X", pci=f"0000:0{index}:00.0") for index in range(3)))
    files = {
        "/sys/kernel/iommu_groups/7/type": "DMA-FQ\n",
        "/sys/bus/pci/devices/0000:00:00.0/iommu_group": {"link": "../../../../kernel/iommu_groups/7"},
        "/sys/bus/pci/devices/0000:01:00.0/iommu_group/type": "identity\n",
        "/sys/bus/pci/devices/0000:02:00.0/vendor": "0x10de\n",
    }
    world = recorded_world(tmp_path, files=files)
    assert read_peer_paths(world, gpus) == PeerPaths((("0000:00:00.0", "DMA-FQ"), ("0000:01:00.0", "identity")))
    with pytest.raises(Unavailable, match="/sys/bus/pci"):
        read_peer_paths(recorded_world(tmp_path / "empty"), gpus)
    with pytest.raises(Unavailable, match="win32"):
        read_peer_paths(recorded_world(tmp_path, platform="win32"), gpus)


# this machine


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"), reason="this machine has a GPU")
def test_a_real_machine_without_gpus() -> None:
    with pytest.raises(Unavailable, match=r"no NVIDIA driver|NVML"):
        read_gpus(World())


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux")
def test_a_real_machine_in_a_child() -> None:
    found: Any
    try:
        found = isolation.start(registry.readers()[Gpus], [World()]).result()
    except Unavailable as unavailable:
        found = unavailable
    assert isinstance(found, (Gpus, Unavailable))
    driver = read_driver(World())
    assert set(driver.blocked) <= set(driver.nodes)
    assert not (isinstance(found, Gpus) and found.gpus and driver.nothing_there)


# the library itself


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
            "no NVIDIA driver: its library libnvidia-ml is not found",
        ),
        (
            "libnvidia-ml.so.1: file too short",
            "the NVIDIA driver's library libnvidia-ml can't be loaded: libnvidia-ml.so.1: file too short",
        ),
    ],
)
def test_a_library_that_is_broken_is_not_called_missing(said: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise OSError(said)

    monkeypatch.setattr("ctypes.CDLL", load)
    with pytest.raises(Unavailable) as unavailable:
        World({}).nvml()
    assert unavailable.value.why == why


def test_without_its_module_nvml_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unavailable, match=r"pynvml does not import .*; pip install nvidia-ml-py"):
        World({}).nvml()
