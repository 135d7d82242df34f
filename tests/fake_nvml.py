"""NVML without a driver: an object with the functions that distcheck calls, answering for GPUs that a test describes.

Structures and error classes are those of the real Python module, whose import needs no driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pynvml

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION
GPU_IS_LOST = pynvml.NVML_ERROR_GPU_IS_LOST
FUNCTION_NOT_FOUND = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN
GIB = 1 << 30


class Failure(NamedTuple):
    """Stands for an answer: the call fails with this NVML code."""

    code: int


class FakeCard(NamedTuple):
    """What NVML says of one GPU; a Failure in place of any value makes its call fail."""

    name: Any = "NVIDIA H100 80GB HBM3"
    uuid: Any = "GPU-00000000-0000-0000-0000-000000000000"
    pci: Any = "00000000:19:00.0"
    memory_bytes: Any = 80 * GIB
    memory_used_bytes: int = 0
    capability: Any = (9, 0)
    compute_mode: Any = 0
    persistence_mode: Any = 1
    #: current and pending, as NVML gives them
    mig_mode: Any = (0, 0)
    mig_uuids: tuple[Any, ...] = ()
    ecc_volatile: Any = 0
    ecc_lifetime: Any = 0
    #: correctable, uncorrectable, pending, failed
    remapped: Any = (0, 0, 0, 0)
    retired_pending: Any = Failure(NOT_SUPPORTED)
    clock_reasons: Any = 0
    temperature: Any = 31
    #: state and status of the fabric
    fabric: Any = (3, 0)
    #: states of the NVLinks
    links: Any = (1,) * 18
    #: pid and bytes of memory (None: not told) of each process
    processes: Any = ()
    #: the handle itself can't be had
    handle: Any = None


class FakeNvml:
    """A stand-in for the module ``pynvml`` after ``nvmlInit``.

    :param missing: functions that this driver, or this version of the module, does not have
    """

    NVMLError = pynvml.NVMLError
    NVMLLibraryMismatchError = pynvml.NVMLLibraryMismatchError
    c_nvmlGpuFabricInfoV_t = pynvml.c_nvmlGpuFabricInfoV_t  # noqa: N815 - NVML's own name
    c_nvmlGpuFabricInfo_t = pynvml.c_nvmlGpuFabricInfo_t  # noqa: N815

    def __init__(
        self,
        cards: Iterable[FakeCard],
        *,
        driver: str = "550.54.15",
        cuda: int = 12040,
        missing: Iterable[str] = (),
        as_bytes: bool = False,
    ) -> None:
        self.cards = tuple(cards)
        self.driver = driver
        self.cuda = cuda
        self.missing = frozenset(missing)
        self.as_bytes = as_bytes
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml"):
            if name in self.missing:
                raise AttributeError(name)
            self.calls.append(name)
        return super().__getattribute__(name)

    def _text(self, value: str) -> str | bytes:
        return value.encode() if self.as_bytes else value

    def nvmlSystemGetDriverVersion(self) -> Any:
        return self._text(self.driver)

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return self.cuda

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        answer(self.cards[index].handle)
        return self.cards[index]

    def nvmlDeviceGetName(self, card: FakeCard) -> Any:
        return self._text(answer(card.name))

    def nvmlDeviceGetUUID(self, card: Any) -> Any:
        return self._text(card if isinstance(card, str) else answer(card.uuid))

    def nvmlDeviceGetPciInfo(self, card: FakeCard) -> Any:
        return SimpleNamespace(busId=self._text(answer(card.pci)))

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard) -> Any:
        return SimpleNamespace(total=answer(card.memory_bytes), used=card.memory_used_bytes)

    def nvmlDeviceGetCudaComputeCapability(self, card: FakeCard) -> Any:
        return answer(card.capability)

    def nvmlDeviceGetComputeMode(self, card: FakeCard) -> Any:
        return answer(card.compute_mode)

    def nvmlDeviceGetPersistenceMode(self, card: FakeCard) -> Any:
        return answer(card.persistence_mode)

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> Any:
        return answer(card.mig_mode)

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, index: int) -> Any:
        if index >= len(card.mig_uuids):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return answer(card.mig_uuids[index])

    def nvmlDeviceGetTotalEccErrors(self, card: FakeCard, error_type: int, counter: int) -> Any:
        assert error_type == pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        return answer(card.ecc_volatile if counter == pynvml.NVML_VOLATILE_ECC else card.ecc_lifetime)

    def nvmlDeviceGetRemappedRows(self, card: FakeCard) -> Any:
        return answer(card.remapped)

    def nvmlDeviceGetRetiredPagesPendingStatus(self, card: FakeCard) -> Any:
        return answer(card.retired_pending)

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: FakeCard) -> Any:
        return answer(card.clock_reasons)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: FakeCard) -> Any:
        return answer(card.clock_reasons)

    def nvmlDeviceGetTemperatureV(self, card: FakeCard, sensor: int) -> Any:
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return answer(card.temperature)

    def nvmlDeviceGetTemperature(self, card: FakeCard, sensor: int) -> Any:
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return answer(card.temperature)

    def nvmlDeviceGetNvLinkState(self, card: FakeCard, link: int) -> Any:
        states = answer(card.links)
        if link >= len(states):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return states[link]

    def nvmlDeviceGetGpuFabricInfoV(self, card: FakeCard, reference: Any) -> int:
        reference._obj.state, reference._obj.status = answer(card.fabric)
        return 0

    def nvmlDeviceGetGpuFabricInfo(self, card: FakeCard, reference: Any) -> int:
        reference._obj.state, reference._obj.status = answer(card.fabric)
        return 0

    def nvmlDeviceGetComputeRunningProcesses(self, card: FakeCard) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in answer(card.processes)]

    def nvmlDeviceGetComputeRunningProcesses_v2(self, card: FakeCard) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in answer(card.processes)]


def answer(value: Any) -> Any:
    """A value as NVML would give it: Failure is raised."""
    if isinstance(value, Failure):
        raise pynvml.NVMLError(value.code)
    return value


def uuid_of(index: int) -> str:
    """The UUID of the card at an index in the profiles below: each begins with another digit."""
    return f"GPU-{index:x}1ab4e2c-77f0-4b5a-9d3e-00000000000{index:x}"


def hgx_h100(**changes: Any) -> FakeNvml:
    """Eight H100 behind NVSwitch, all well; ``changes`` apply to every card."""
    return FakeNvml(
        FakeCard(uuid=uuid_of(index), pci=f"00000000:{0x19 + 0x10 * index:02X}:00.0")._replace(**changes)
        for index in range(8)
    )


def pcie_a100(**changes: Any) -> FakeNvml:
    """Four A100 on PCIe: no NVLink, no fabric."""
    return FakeNvml(
        FakeCard(
            name="NVIDIA A100-PCIE-40GB",
            uuid=uuid_of(index),
            pci=f"00000000:{0x25 + 0x20 * index:02X}:00.0",
            memory_bytes=40 * GIB,
            capability=(8, 0),
            fabric=Failure(NOT_SUPPORTED),
            links=Failure(NOT_SUPPORTED),
        )._replace(**changes)
        for index in range(4)
    )


def mig_a100(instances: int = 2) -> FakeNvml:
    """One A100 that is cut into MIG instances."""
    card = pcie_a100().cards[0]
    uuids = tuple(f"MIG-{index}9f04cbb-5a0e-5e3c-8d6c-aaaaaaaaaaaa" for index in range(instances))
    return FakeNvml([card._replace(mig_mode=(1, 1), mig_uuids=uuids)])


def sick_card(**changes: Any) -> FakeNvml:
    """One H100 with a row of memory that waits for a reset."""
    return FakeNvml(
        [FakeCard(uuid=uuid_of(0), remapped=(0, 3, 1, 0), ecc_volatile=2, ecc_lifetime=5)._replace(**changes)]
    )
