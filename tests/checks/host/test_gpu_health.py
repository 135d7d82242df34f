"""Driver, health of the GPUs, and the ways between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host.devices import apply_masks
from distcheck.checks.host.gpu_health import (
    container_still_has_its_gpus,
    driver_is_new_enough,
    driver_stays_loaded,
    fabric_is_ready,
    gpus_are_free,
    gpus_are_sound,
    gpus_can_be_read,
    gpus_reach_each_other,
    gpus_run_at_speed,
    nvml_fits_the_driver,
    torch_knows_the_gpus,
    wsl_can_run_it,
)
from distcheck.checks.host.gpus import Driver, Gpu, GpuProcess, Gpus, PeerPaths, read_gpus
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import Software
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings
from tests.fake_nvml import UNKNOWN, Failure, FakeNvml, hgx_h100, pcie_a100, sick_card, uuid_of
from tests.recorded import recorded_world

NO_LIBRARY = Unavailable("no libcuda")
GIB = 1 << 30
NO_GPU = Unavailable("no NVIDIA driver: its library libnvidia-ml is not found")
MISMATCH = Unavailable("NVML: RM has detected an NVML/RM version mismatch.")
LOST = Unavailable("NVML: Unknown Error")
NO_SOFTWARE = Unavailable("not looked")
NO_DRIVER = Unavailable("darwin")
HOST = Platform("linux")
DOCKER = Platform("linux", container="docker")
SHELL = Launch()
RANKS_8 = Launch("planned", nproc=8)
RANKS_2 = Launch("planned", nproc=2)
GLOO = Launch("planned", nproc=8, backend="gloo")
H100 = "NVIDIA H100 80GB HBM3"


def cards(count: int = 8, **changes: Any) -> Gpus:
    """Healthy H100 behind NVSwitch, each with changes."""
    gpu = Gpu(
        0,
        "",
        H100,
        memory_bytes=80 * GIB,
        architecture="9.0",
        persistence_mode=True,
        ecc_uncorrected_volatile=0,
        ecc_uncorrected_lifetime=0,
        remap_pending=False,
        remap_failed=False,
        fabric_state="completed",
        fabric_status=0,
        nvlinks_active=18,
    )
    made = (gpu._replace(index=index, uuid=uuid_of(index), pci=f"0000:{index:02x}:00.0") for index in range(count))
    return Gpus("nvidia", tuple(one._replace(**changes) for one in made), "550.54.15", "12.4")


def changed(gpus: Gpus, index: int, **changes: Any) -> Gpus:
    made = list(gpus.gpus)
    made[index] = made[index]._replace(**changes)
    return gpus._replace(gpus=tuple(made))


def all_of(gpus: Gpus | Unavailable) -> Any:
    return apply_masks({}, gpus)


# DC304


def torch_for(cuda: str | None, hip: str | None = None) -> Software:
    return Software("3.11", torch="2.9.0", cuda=cuda, hip=hip)


def with_driver(version: str, cuda: str) -> Gpus:
    return cards(1)._replace(driver_version=version, driver_cuda=cuda)


@pytest.mark.parametrize(
    ("cuda", "gpus", "needed"),
    [
        ("13.0", with_driver("550.54.15", "12.4"), "580.65.06"),
        ("12.1", with_driver("470.256.02", "11.4"), "525.60.13"),
        ("12.8", with_driver("520.61.05", "11.8"), "525.60.13"),
        ("11.8", with_driver("450.51.06", "11.0"), "450.80.02"),
        ("14.0", with_driver("590.44.01", "13.1"), "one for CUDA 14"),
    ],
)
def test_bad_dc304(cuda: str, gpus: Gpus, needed: str) -> None:
    (finding,) = driver_is_new_enough(RANKS_8, torch_for(cuda), gpus, Driver(), NO_LIBRARY)
    assert (finding.code, finding.severity) == ("DC304", Severity.ERROR)
    assert needed in finding.message
    (finding,) = driver_is_new_enough(SHELL, torch_for(cuda), gpus, Driver(), NO_LIBRARY)
    assert finding.severity is Severity.INFO
    (finding,) = driver_is_new_enough(GLOO, torch_for(cuda), gpus, Driver(), NO_LIBRARY)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("cuda", "gpus"),
    [("14.0", with_driver("590.44.01", "")), ("x", with_driver("590.44.01", "13.1")), ("12.8", with_driver("", ""))],
)
def test_dc304_is_not_checked_where_versions_say_nothing(cuda: str, gpus: Gpus) -> None:
    with pytest.raises(Unavailable, match=r"known|compared"):
        list(driver_is_new_enough(RANKS_8, torch_for(cuda), gpus, Driver(), NO_LIBRARY))


def test_bad_dc304_from_the_loaded_module() -> None:
    loaded = Driver("470.256.02", nodes=("/dev/nvidia0",))
    (finding,) = driver_is_new_enough(RANKS_8, torch_for("12.8"), MISMATCH, loaded, NO_LIBRARY)
    assert (finding.code, finding.evidence["driver"]) == ("DC304", "470.256.02")


@pytest.mark.parametrize(
    ("software", "gpus"),
    [
        pytest.param(torch_for("12.8"), with_driver("550.54.15", "12.4"), id="minor version compatibility"),
        pytest.param(torch_for("12.8"), with_driver("525.60.13", "12.0"), id="the oldest one"),
        pytest.param(torch_for("11.8"), with_driver("580.95.05", "13.0"), id="newer driver"),
        pytest.param(torch_for("13.0"), with_driver("535.104.05", "13.0"), id="cuda-compat is in use"),
        pytest.param(torch_for("10.2"), with_driver("550.54.15", "12.4"), id="very old torch"),
        pytest.param(torch_for("14.1"), with_driver("650.10.01", "14.0"), id="a later major version"),
        pytest.param(torch_for(None), with_driver("470.256.02", "11.4"), id="torch for CPUs"),
        pytest.param(torch_for(None, hip="6.4"), Gpus("amd", (Gpu(0, "", "MI300X"),)), id="ROCm"),
        pytest.param(torch_for("13.0"), cards(0), id="no GPU"),
    ],
)
def test_good_dc304(software: Software, gpus: Gpus) -> None:
    assert list(driver_is_new_enough(RANKS_8, software, gpus, Driver(), NO_LIBRARY)) == []


@pytest.mark.parametrize("driver", [Driver(), Driver("470.256.02"), NO_DRIVER])
def test_dc304_is_not_checked_without_a_driver(driver: Driver | Unavailable) -> None:
    with pytest.raises(Unavailable, match="no NVIDIA driver"):
        list(driver_is_new_enough(RANKS_8, torch_for("12.8"), NO_GPU, driver, NO_LIBRARY))


# DC305

ORPHAN = GpuProcess(4711, 40 * GIB, "alice", "python train.py", 1_795_000_000.0, orphan=True, own=True)
FOREIGN = GpuProcess(4712, 71 * GIB, "bob", "python train.py", 1_795_000_000.0)


def dc305(launch: Launch, gpus: Gpus) -> list[Finding]:
    return list(gpus_are_free(launch, all_of(gpus), gpus, NO_SOFTWARE))


def test_bad_dc305_own_orphans() -> None:
    gpus = changed(cards(2, processes=(ORPHAN,)), 1, processes=(ORPHAN, ORPHAN._replace(pid=4713, memory_bytes=None)))
    (finding,) = dc305(RANKS_2, gpus)
    assert (finding.code, finding.severity) == ("DC305", Severity.WARNING)
    assert (finding.fix.command, finding.fix.where) == ("kill 4711 4713", "host")
    assert "process 4711 of alice (80.0 GiB on GPU 0-1, since 2026-11-18 11:06 UTC)" in finding.message
    (finding,) = dc305(SHELL, gpus)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize("launch", [SHELL, RANKS_2, GLOO, Launch("rank", local_world_size=2)])
def test_bad_dc305_processes_of_others_are_told_and_left_alone(launch: Launch) -> None:
    (finding,) = dc305(launch, cards(2, processes=(FOREIGN,)))
    assert (finding.code, finding.severity, finding.fix.command) == ("DC305", Severity.INFO, None)
    assert "kill" not in finding.fix.text
    assert finding.evidence["processes"][0]["user"] == "bob"


def test_bad_dc305_a_notebook_of_ones_own_is_told() -> None:
    (finding,) = dc305(RANKS_2, cards(2, processes=(ORPHAN._replace(orphan=False, command="ipykernel_launcher"),)))
    assert (finding.code, finding.severity, finding.fix.command) == ("DC305", Severity.INFO, None)


def test_many_processes_make_one_line() -> None:
    (finding,) = dc305(SHELL, cards(1, processes=tuple(FOREIGN._replace(pid=pid) for pid in range(10))))
    assert finding.message.endswith("and 6 more")
    assert len(finding.evidence["processes"]) == 10


@pytest.mark.parametrize(
    ("launch", "process"),
    [
        pytest.param(Launch("rank", local_world_size=2), ORPHAN._replace(orphan=False), id="the job's own ranks"),
        pytest.param(RANKS_2, FOREIGN._replace(memory_bytes=200 << 20), id="hardly any memory"),
        pytest.param(RANKS_2, FOREIGN._replace(command="nvidia-cuda-mps-server", user="root"), id="MPS"),
        pytest.param(RANKS_2, GpuProcess(300, None), id="nothing is known about it"),
    ],
)
def test_good_dc305(launch: Launch, process: GpuProcess) -> None:
    assert dc305(launch, cards(2, processes=(process,))) == []


def test_good_dc305_on_a_gpu_that_is_masked() -> None:
    gpus = changed(cards(2), 1, processes=(ORPHAN,))
    assert list(gpus_are_free(RANKS_2, apply_masks({"CUDA_VISIBLE_DEVICES": "0"}, gpus), gpus, NO_SOFTWARE)) == []


# DC309


def dc309(launch: Launch, gpus: Gpus, driver: Driver | Unavailable = Driver()) -> list[Finding]:
    return list(gpus_are_sound(launch, all_of(gpus), gpus, driver, NO_SOFTWARE))


@pytest.mark.parametrize(
    ("changes", "words", "repair"),
    [
        ({"remap_pending": True}, "waits for a reset to be replaced", "nvidia-smi -r -i 3"),
        ({"remap_failed": True, "remap_pending": True}, "could not be replaced", "have the card replaced"),
        ({"retired_pages_pending": True}, "to be retired", "nvidia-smi -r -i 3"),
        ({"ecc_uncorrected_volatile": 2, "architecture": "gfx942"}, "2 uncorrected", "amd-smi reset -G -g 3"),
        ({"lost": True, "errors": ("nvmlDeviceGetHandleByIndex: GPU is lost",)}, "GPU is lost", "reseat"),
    ],
)
def test_bad_dc309(changes: dict[str, Any], words: str, repair: str) -> None:
    gpus = changed(cards(), 3, **changes)
    (finding,) = dc309(RANKS_8, gpus)
    assert (finding.code, finding.severity, finding.where.gpu) == ("DC309", Severity.ERROR, "3")
    assert words in finding.message
    assert (finding.fix.by, finding.fix.command) == ("admin", None)
    assert repair in finding.fix.text
    assert dc309(SHELL, gpus)[0].severity is Severity.INFO
    assert dc309(GLOO, gpus)[0].severity is Severity.INFO


@pytest.mark.parametrize("changes", [{"ecc_uncorrected_lifetime": 7}, {"remapped_rows": 2}])
def test_bad_dc309_history_is_info(changes: dict[str, Any]) -> None:
    (finding,) = dc309(RANKS_8, changed(cards(), 3, **changes))
    assert (finding.code, finding.severity) == ("DC309", Severity.INFO)


def test_good_dc309() -> None:
    assert dc309(RANKS_8, cards()) == []
    unknown = {
        "ecc_uncorrected_volatile": None,
        "ecc_uncorrected_lifetime": None,
        "remap_pending": None,
        "remap_failed": None,
    }
    assert dc309(RANKS_8, cards(2, **unknown)) == []
    sick = changed(cards(2), 1, remap_pending=True)
    assert (
        list(gpus_are_sound(RANKS_8, apply_masks({"CUDA_VISIBLE_DEVICES": "0"}, sick), sick, Driver(), NO_SOFTWARE))
        == []
    )
    # what a container has lost access to is not broken
    gone = changed(cards(1), 0, lost=True)
    assert dc309(RANKS_8, gone, Driver(nodes=("/dev/nvidia0",), blocked=("/dev/nvidia0",))) == []


def test_from_nvml_to_the_finding(tmp_path: Path) -> None:
    gpus = read_gpus(recorded_world(tmp_path, nvml=sick_card()))
    (finding,) = dc309(Launch("planned", nproc=1), gpus)
    assert (finding.code, finding.evidence["uncorrected_ever"]) == ("DC309", 5)
    for healthy in (hgx_h100(), pcie_a100()):
        assert dc309(RANKS_8, read_gpus(recorded_world(tmp_path, nvml=healthy))) == []


# DC310


def dc310(launch: Launch, gpus: Gpus) -> list[Finding]:
    return list(gpus_run_at_speed(launch, all_of(gpus), gpus, NO_SOFTWARE))


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (("sw-thermal",), "its temperature"),
        (("hw-slowdown", "hw-thermal"), "limit)"),
        (("hw-power-brake", "sw-power-cap"), "brake signal"),
        (("hw-slowdown",), "its supply)"),
    ],
)
def test_bad_dc310(reasons: tuple[str, ...], words: str) -> None:
    gpus = changed(cards(), 5, throttle=reasons, temperature_c=91)
    (finding,) = dc310(RANKS_8, gpus)
    assert (finding.code, finding.severity, finding.where.gpu) == ("DC310", Severity.WARNING, "5")
    assert finding.message.endswith(words)
    assert "91 °C" in finding.message
    assert dc310(SHELL, gpus)[0].severity is Severity.INFO


def test_bad_dc310_cards_alike_make_one_line() -> None:
    (finding,) = dc310(RANKS_8, changed(cards(throttle=("hw-thermal",), temperature_c=88), 3, temperature_c=95))
    assert (finding.code, finding.where.gpu) == ("DC310", "0-7")
    assert "up to 95 °C" in finding.message


@pytest.mark.parametrize(
    "reasons", [(), ("idle",), ("sw-power-cap",), ("application-clocks", "sync-boost", "display-clocks")]
)
def test_good_dc310(reasons: tuple[str, ...]) -> None:
    assert dc310(RANKS_8, cards(throttle=reasons)) == []


# DC311


def test_bad_dc311() -> None:
    gpus = changed(cards(2), 1, persistence_mode=False)
    (finding,) = driver_stays_loaded(all_of(gpus), gpus, HOST)
    assert (finding.code, finding.severity, finding.where.gpu) == ("DC311", Severity.INFO, "1")


@pytest.mark.parametrize(
    ("gpus", "platform"),
    [
        pytest.param(cards(), HOST, id="on"),
        pytest.param(cards(1, persistence_mode=False), HOST, id="a laptop's GPU"),
        pytest.param(cards(persistence_mode=None), HOST, id="not told"),
        pytest.param(cards(persistence_mode=False), DOCKER, id="container"),
        pytest.param(cards(persistence_mode=False), Platform("linux", wsl=2), id="WSL"),
        pytest.param(cards(persistence_mode=False), Platform("win32"), id="Windows"),
    ],
)
def test_good_dc311(gpus: Gpus, platform: Platform) -> None:
    assert list(driver_stays_loaded(all_of(gpus), gpus, platform)) == []


# DC312


def dc312(launch: Launch, gpus: Gpus, driver: Driver | Unavailable = Driver()) -> list[Finding]:
    return list(fabric_is_ready(launch, gpus, all_of(gpus), driver, NO_SOFTWARE))


@pytest.mark.parametrize("state", ["not-started", "in-progress"])
def test_bad_dc312(state: str) -> None:
    gpus = cards(fabric_state=state, fabric_status=None)
    (finding,) = dc312(RANKS_8, gpus)
    assert (finding.code, finding.severity, finding.where.gpu) == ("DC312", Severity.ERROR, "0-7")
    assert "550.54.15" in finding.fix.text
    assert dc312(SHELL, gpus)[0].severity is Severity.INFO
    # one GPU of such a machine works without the fabric
    assert dc312(RANKS_8, cards(1, fabric_state=state))[0].severity is Severity.INFO


def test_bad_dc312_registration_failed() -> None:
    (finding,) = dc312(RANKS_8, changed(cards(), 2, fabric_status=999))
    assert (finding.code, finding.severity, finding.where.gpu) == ("DC312", Severity.ERROR, "2")


def test_good_dc312() -> None:
    assert dc312(RANKS_8, cards(), Driver(nvswitches=4)) == []
    assert dc312(RANKS_8, cards(fabric_state="not-supported", fabric_status=None)) == []
    assert dc312(RANKS_8, Gpus("amd", (Gpu(0, "", "MI300X"),))) == []
    assert dc312(RANKS_8, cards(0), Driver(nvswitches=4)) == []


def test_dc312_is_not_checked_where_nvml_does_not_tell() -> None:
    with pytest.raises(Unavailable, match="does not report"):
        dc312(RANKS_8, cards(fabric_state=None))
    with pytest.raises(Unavailable, match="Hopper"):
        dc312(RANKS_8, cards(fabric_state="not-supported"), Driver(nvswitches=6))


# DC313

LOADED = Driver("550.54.15", "550.90.07", nodes=("/dev/nvidia0",))


@pytest.mark.parametrize("gpus", [MISMATCH, Unavailable("NVML: Driver/library version mismatch")])
def test_bad_dc313(gpus: Unavailable) -> None:
    (finding,) = nvml_fits_the_driver(RANKS_8, gpus, LOADED, HOST)
    assert (finding.code, finding.severity) == ("DC313", Severity.ERROR)
    assert finding.message.endswith("module 550.54.15, library 550.90.07")
    (finding,) = nvml_fits_the_driver(SHELL, gpus, NO_DRIVER, DOCKER)
    assert (finding.severity, finding.evidence["module"]) == (Severity.INFO, None)
    assert "container" in finding.fix.text
    (finding,) = nvml_fits_the_driver(GLOO, gpus, LOADED, HOST)
    assert finding.severity is Severity.INFO


def test_good_dc313() -> None:
    # the files' numbers alone prove nothing: the loader may find another library
    assert list(nvml_fits_the_driver(RANKS_8, cards(), LOADED, HOST)) == []


@pytest.mark.parametrize("gpus", [NO_GPU, LOST, Unavailable("host.gpus.read_gpus did not answer within 12 s")])
def test_dc313_is_not_checked_without_nvml(gpus: Unavailable) -> None:
    with pytest.raises(Unavailable) as caught:
        list(nvml_fits_the_driver(RANKS_8, gpus, LOADED, HOST))
    assert caught.value.why == gpus.why


def test_nvmls_own_words_are_the_ones_that_are_looked_for() -> None:
    import pynvml

    error = str(pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH))
    (finding,) = nvml_fits_the_driver(RANKS_8, Unavailable(f"NVML: {error}"), LOADED, HOST)
    assert finding.code == "DC313"
    lost = Unavailable(f"NVML: {pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)}")
    (finding,) = container_still_has_its_gpus(RANKS_8, lost, LOADED, DOCKER)
    assert finding.code == "DC314"


# DC315

NODES = Driver("550.54.15", nodes=("/dev/nvidia0",))
CUDA_BUILD = Software("3.12", "2.13.0", "/opt/torch", cuda="13.0")
CRASHED = Unavailable("the process that read it ended by signal 11")


@pytest.mark.parametrize("why", ["NVML: Driver Not Loaded", "NVML: Unknown Error", CRASHED.why])
@pytest.mark.parametrize("driver", [NODES, Driver("550.54.15")])
def test_bad_dc315_a_driver_that_fails(why: str, driver: Driver) -> None:
    for launch in (RANKS_8, RANKS_8._replace(backend="nccl")):
        (finding,) = gpus_can_be_read(launch, Unavailable(why), driver, HOST, CUDA_BUILD)
        assert (finding.code, finding.severity) == ("DC315", Severity.ERROR)
        assert why in finding.message
    for launch in (SHELL, GLOO):
        (finding,) = gpus_can_be_read(launch, Unavailable(why), driver, HOST, CUDA_BUILD)
        assert finding.severity is Severity.INFO
    (finding,) = gpus_can_be_read(RANKS_8, Unavailable(why), driver, HOST, Software("3.12", "2.13.0+cpu", "/opt/torch"))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("gpus", "driver", "platform"),
    [
        pytest.param(cards(), NODES, HOST, id="NVML answers"),
        pytest.param(NO_GPU, Driver(), HOST, id="no driver"),
        pytest.param(Unavailable("NVML: Driver Not Loaded"), Driver(), HOST, id="a library without a module"),
        pytest.param(LOST, Driver("550.54.15"), DOCKER, id="a container without GPUs sees the module of its host"),
        pytest.param(MISMATCH, NODES, HOST, id="DC313"),
        pytest.param(LOST, NODES, DOCKER, id="DC314"),
    ],
)
def test_good_dc315(gpus: Gpus | Unavailable, driver: Driver, platform: Platform) -> None:
    assert list(gpus_can_be_read(RANKS_8, gpus, driver, platform, CUDA_BUILD)) == []


@pytest.mark.parametrize("gpus", [NO_GPU, Unavailable("host.gpus.read_gpus did not answer within 12 s")])
def test_dc315_is_not_checked(gpus: Unavailable) -> None:
    with pytest.raises(Unavailable, match=gpus.why):
        list(gpus_can_be_read(RANKS_8, gpus, NODES, HOST, CUDA_BUILD))


# DC314

BLOCKED = Driver("550.54.15", nodes=("/dev/nvidia0",), blocked=("/dev/nvidia0",))


def test_bad_dc314() -> None:
    (finding,) = container_still_has_its_gpus(RANKS_8, LOST, BLOCKED, DOCKER)
    assert (finding.code, finding.severity) == ("DC314", Severity.ERROR)
    assert "/dev/nvidia0 can't be opened" in finding.message
    (finding,) = container_still_has_its_gpus(SHELL, LOST, BLOCKED, DOCKER)
    assert finding.severity is Severity.INFO


def test_bad_dc314_with_a_list_of_lost_gpus(tmp_path: Path) -> None:
    gpus = read_gpus(recorded_world(tmp_path, nvml=hgx_h100(handle=Failure(UNKNOWN))))
    (finding,) = container_still_has_its_gpus(RANKS_8, gpus, BLOCKED, DOCKER)
    assert (finding.code, finding.evidence["nvml"]) == ("DC314", "nvmlDeviceGetHandleByIndex: Unknown Error")
    assert dc309(RANKS_8, gpus, BLOCKED) == []


def test_good_dc314() -> None:
    assert list(container_still_has_its_gpus(RANKS_8, cards(), BLOCKED, DOCKER)) == []
    assert list(container_still_has_its_gpus(RANKS_8, LOST, BLOCKED, HOST)) == []
    lost = changed(cards(2), 0, lost=True)
    assert list(container_still_has_its_gpus(RANKS_8, lost, Driver(nodes=("/dev/nvidia0",)), DOCKER)) == []


@pytest.mark.parametrize(
    ("gpus", "driver"),
    [
        pytest.param(NO_GPU, Driver("550.54.15"), id="container without a GPU on a host that has some"),
        pytest.param(LOST, Driver("550.54.15"), id="no device nodes"),
        pytest.param(MISMATCH, BLOCKED, id="another error"),
    ],
)
def test_dc314_is_not_checked_where_no_gpu_was_given(gpus: Unavailable, driver: Driver) -> None:
    with pytest.raises(Unavailable):
        list(container_still_has_its_gpus(RANKS_8, gpus, driver, DOCKER))


# DC335


def dc335(launch: Launch, architectures: tuple[str, ...], gpus: Gpus, **masks: str) -> list[Finding]:
    hip = gpus.vendor == "amd"
    software = Software("3.11", torch="2.9.0", cuda=None if hip else "12.8", hip="6.4" if hip else None)
    return list(
        torch_knows_the_gpus(launch, software._replace(architectures=architectures), gpus, apply_masks(masks, gpus))
    )


def of_architecture(*architectures: str) -> Gpus:
    vendor = "amd" if architectures[0].startswith("gfx") else "nvidia"
    return Gpus(
        vendor,
        tuple(
            Gpu(index, uuid_of(index), f"card {name}", architecture=name) for index, name in enumerate(architectures)
        ),
    )


USUAL = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize(
    ("built", "gpus"),
    [
        pytest.param(("sm_80", "sm_90"), of_architecture("12.0"), id="new card, old torch"),
        pytest.param(USUAL, of_architecture("7.0"), id="V100 and a torch that left it out"),
        pytest.param(("sm_86",), of_architecture("8.0"), id="a later minor version only"),
        pytest.param(("sm_100a", "compute_100a"), of_architecture("10.3"), id="for exactly 10.0"),
        pytest.param(("sm_100f",), of_architecture("11.0"), id="for another family"),
        pytest.param(("compute_90a",), of_architecture("10.0"), id="PTX for exactly 9.0"),
        pytest.param(("compute_90",), of_architecture("8.0"), id="PTX for a later one"),
        pytest.param(("gfx90a", "gfx942"), of_architecture("gfx1100"), id="AMD"),
        pytest.param(("gfx11-generic",), of_architecture("gfx1201"), id="another generation"),
    ],
)
def test_bad_dc335(built: tuple[str, ...], gpus: Gpus) -> None:
    launch = Launch("planned", nproc=1)
    (finding,) = dc335(launch, built, gpus)
    assert (finding.code, finding.severity, finding.where.gpu) == ("DC335", Severity.ERROR, "0")
    assert dc335(SHELL, built, gpus)[0].severity is Severity.INFO
    assert dc335(launch._replace(backend="gloo"), built, gpus)[0].severity is Severity.INFO


@pytest.mark.parametrize(
    ("built", "gpus"),
    [
        pytest.param(USUAL, of_architecture("9.0"), id="exactly"),
        pytest.param(("sm_80",), of_architecture("8.6"), id="same major version"),
        pytest.param(("sm_80", "compute_90"), of_architecture("12.0"), id="PTX is compiled on the spot"),
        pytest.param(("sm_90a",), of_architecture("9.0"), id="architecture-specific, this one"),
        pytest.param(("sm_100f",), of_architecture("10.3"), id="family"),
        pytest.param(("gfx942:sramecc+:xnack-",), of_architecture("gfx942"), id="AMD with features"),
        pytest.param(("gfx11-generic",), of_architecture("gfx1100"), id="AMD generic"),
        pytest.param(("gfx9-4-generic",), of_architecture("gfx942"), id="AMD generic, part of a generation"),
    ],
)
def test_good_dc335(built: tuple[str, ...], gpus: Gpus) -> None:
    assert dc335(Launch("planned", nproc=1), built, gpus) == []


def test_good_dc335_a_display_card_is_worth_a_line_only() -> None:
    gpus = of_architecture("9.0", "9.0", "3.5")
    (finding,) = dc335(RANKS_2, USUAL, gpus)
    assert (finding.severity, finding.where.gpu) == (Severity.INFO, "2")
    assert dc335(RANKS_2, USUAL, gpus, CUDA_VISIBLE_DEVICES="0,1") == []
    (finding,) = dc335(Launch("planned", nproc=3), USUAL, gpus)
    assert finding.severity is Severity.ERROR
    first = of_architecture("3.5", "9.0", "9.0")
    assert dc335(RANKS_2, USUAL, first, CUDA_DEVICE_ORDER="PCI_BUS_ID")[0].severity is Severity.ERROR


def test_dc335_is_not_checked_where_files_do_not_tell() -> None:
    with pytest.raises(Unavailable, match="do not show"):
        dc335(RANKS_2, (), cards(2))


@pytest.mark.parametrize(
    "software", [Software("3.11"), Software("3.11", torch="2.9.0"), Software("3.11", torch="2.9.0", hip="6.4")]
)
def test_good_dc335_without_a_torch_for_these_gpus(software: Software) -> None:
    gpus = cards(2)
    assert list(torch_knows_the_gpus(RANKS_2, software, gpus, all_of(gpus))) == []


@given(st.integers(5, 12), st.integers(0, 9), st.integers(0, 9))
def test_code_runs_on_later_minor_versions_of_its_major(major: int, minor: int, more: int) -> None:
    gpus = of_architecture(f"{major}.{minor + more}")
    assert dc335(SHELL, (f"sm_{major}{minor}",), gpus) == []
    assert dc335(SHELL, (f"compute_{major}{minor}",), of_architecture(f"{major + 1}.0")) == []
    assert len(dc335(SHELL, (f"sm_{major}{minor}",), of_architecture(f"{major + 1}.{minor}"))) == 1


# DC336


def dc336(launch: Launch, gpus: Gpus, kind: str = "DMA-FQ", platform: Platform = HOST, **values: str) -> list[Finding]:
    paths = PeerPaths(tuple((gpu.pci, kind) for gpu in gpus.gpus if kind))
    settings = Settings(tuple(Setting(name, value) for name, value in values.items()))
    return list(gpus_reach_each_other(launch, settings, all_of(gpus), gpus, paths, platform))


@pytest.mark.parametrize(("kind", "links"), [("DMA", 0), ("DMA-FQ", None)])
def test_bad_dc336(kind: str, links: int | None) -> None:
    for launch in (SHELL, RANKS_2):
        (finding,) = dc336(launch, cards(2, nvlinks_active=links), kind)
        assert (finding.code, finding.severity, finding.where.gpu) == ("DC336", Severity.INFO, "0-1")


def test_good_dc336_where_one_card_only_is_translated() -> None:
    gpus = cards(2, nvlinks_active=0)
    paths = PeerPaths(((gpus.gpus[0].pci, "DMA"), (gpus.gpus[1].pci, "identity")))
    assert list(gpus_reach_each_other(RANKS_2, Settings(), all_of(gpus), gpus, paths, HOST)) == []


def test_bad_dc336_cards_without_peer_access() -> None:
    (finding,) = dc336(RANKS_2, cards(2, name="NVIDIA GeForce RTX 4090", nvlinks_active=None), "")
    assert (finding.code, finding.severity) == ("DC336", Severity.INFO)
    assert "shared memory" in finding.message


@pytest.mark.parametrize(
    ("launch", "gpus", "kind", "platform", "values"),
    [
        pytest.param(RANKS_8, cards(), "DMA-FQ", HOST, {}, id="NVLink"),
        pytest.param(RANKS_2, cards(2, nvlinks_active=0), "identity", HOST, {}, id="iommu=pt"),
        pytest.param(RANKS_2, cards(2, nvlinks_active=0), "", HOST, {}, id="no IOMMU"),
        pytest.param(SHELL, cards(1, nvlinks_active=0), "DMA", HOST, {}, id="one GPU"),
        pytest.param(
            RANKS_2, cards(2, nvlinks_active=0), "DMA", Platform("linux", virtual_machine=True), {}, id="cloud VM"
        ),
        pytest.param(RANKS_2, cards(2, nvlinks_active=0), "DMA", Platform("linux", wsl=2), {}, id="WSL"),
        pytest.param(Launch("planned", nproc=1), cards(2, nvlinks_active=0), "DMA", HOST, {}, id="one rank"),
        pytest.param(
            SHELL, cards(2, name="NVIDIA GeForce RTX 4090", nvlinks_active=None), "", HOST, {}, id="no launch"
        ),
        pytest.param(
            RANKS_2,
            cards(2, name="NVIDIA GeForce RTX 4090", nvlinks_active=None),
            "",
            HOST,
            {"NCCL_P2P_DISABLE": "1"},
            id="already switched off",
        ),
        pytest.param(
            RANKS_2,
            cards(2, name="NVIDIA RTX 4000 SFF Ada Generation", nvlinks_active=None),
            "",
            HOST,
            {},
            id="RTX 4000",
        ),
    ],
)
def test_good_dc336(launch: Launch, gpus: Gpus, kind: str, platform: Platform, values: dict[str, str]) -> None:
    assert dc336(launch, gpus, kind, platform, **values) == []


# DC337

WSL = Platform("linux", wsl=2)


def test_bad_dc337() -> None:
    (finding,) = wsl_can_run_it(RANKS_2, cards(2), WSL, NO_SOFTWARE)
    assert (finding.code, finding.severity) == ("DC337", Severity.INFO)
    (finding,) = wsl_can_run_it(Launch("planned", nproc=1, nnodes=2)._replace(nproc=None), cards(1), WSL, NO_SOFTWARE)
    assert finding.code == "DC337"


@pytest.mark.parametrize(
    ("launch", "gpus", "platform"),
    [
        pytest.param(RANKS_2, cards(2), HOST, id="Linux"),
        pytest.param(Launch("planned", nproc=1), cards(1), WSL, id="one rank"),
        pytest.param(SHELL, cards(2), WSL, id="no launch"),
        pytest.param(GLOO, cards(2), WSL, id="gloo"),
        pytest.param(RANKS_2, cards(0), WSL, id="no GPU"),
    ],
)
def test_good_dc337(launch: Launch, gpus: Gpus, platform: Platform) -> None:
    assert list(wsl_can_run_it(launch, gpus, platform, NO_SOFTWARE)) == []


# all together


@pytest.mark.parametrize("nvml", [hgx_h100(), pcie_a100()], ids=["hgx", "pcie"])
@pytest.mark.parametrize(
    "launch", [SHELL, Launch("planned", nproc=4), Launch("rank", local_rank=3, local_world_size=4)]
)
def test_a_healthy_host_is_silent_above_info(tmp_path: Path, nvml: FakeNvml, launch: Launch) -> None:
    gpus = read_gpus(recorded_world(tmp_path, nvml=nvml))
    devices = all_of(gpus)
    software = Software("3.11", torch="2.9.0", cuda="12.8", architectures=USUAL)
    driver = Driver("550.54.15", "550.54.15", nodes=("/dev/nvidia0",))
    found = [
        *driver_is_new_enough(launch, software, gpus, driver, NO_LIBRARY),
        *gpus_are_free(launch, devices, gpus, software),
        *gpus_are_sound(launch, devices, gpus, driver, software),
        *gpus_run_at_speed(launch, devices, gpus, software),
        *driver_stays_loaded(devices, gpus, HOST),
        *fabric_is_ready(launch, gpus, devices, driver, software),
        *torch_knows_the_gpus(launch, software, gpus, devices),
        *nvml_fits_the_driver(launch, gpus, driver, HOST),
        *container_still_has_its_gpus(launch, gpus, driver, HOST),
        *wsl_can_run_it(launch, gpus, HOST, software),
    ]
    assert [finding for finding in found if finding.severity > Severity.INFO] == []
