"""``env`` and ``collective`` on machines whose NVML is a library of C: exit statuses, and every call that can fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nvml_library import command, needs_a_compiler, run, variables

pytestmark = needs_a_compiler

H100 = {"gpus": 8}
A100 = {"capability": 80, "fabric": 0, "links": 0, "memory_gib": 40, "name": "NVIDIA A100-PCIE-40GB"}
DISPLAY = {**A100, "gpus": 5, "name.0": "NVIDIA T400", "capability.0": 75}
MIG = {**A100, "gpus": 1, "mig": 2}

SLOW = "slow cards"
#: case → GPUs and faults, options of ``env``, its exit status, its errors; one of several where a container differs
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...], int, tuple[str, ...]]] = {
    "8 x H100": (H100, ("--nproc-per-node=8",), 0, ()),
    "a rank too many": (H100, ("--nproc-per-node=9",), 1, ("DC301",)),
    "A100 and a display card": (DISPLAY, ("--nproc-per-node=4",), 0, ()),
    "MIG, one rank": (MIG, ("--nproc-per-node=1",), 0, ()),
    "MIG, two ranks": (MIG, ("--nproc-per-node=2",), 1, ("DC306",)),
    "a card is lost": ({**H100, "fail.nvmlDeviceGetHandleByIndex_v2.3": 15}, ("--nproc-per-node=4",), 1, ("DC309",)),
    "a card is lost meanwhile": ({**H100, "fail.nvmlDeviceGetNvLinkState.3": 15}, ("--nproc-per-node=4",), 1, ("DC309",)),
    "memory waits for a reset": ({**H100, "remap_pending.5": 1}, ("--nproc-per-node=8",), 1, ("DC309",)),
    "the fabric is not ready": ({**H100, "fabric": 2}, ("--nproc-per-node=8",), 1, ("DC312",)),
    "the driver is not loaded": ({**H100, "fail.nvmlInitWithFlags": 9}, ("--nproc-per-node=8",), 1, ("DC315",)),
    "NVML fails": ({**H100, "fail.nvmlInitWithFlags": 999}, ("--nproc-per-node=8",), 1, ("DC314", "DC315")),
    "NVML fails for a shell": ({**H100, "fail.nvmlInitWithFlags": 999}, (), 0, ()),
    "NVML fails for gloo": ({**H100, "fail.nvmlInitWithFlags": 9}, ("--nproc-per-node=8", "--backend=gloo"), 0, ()),
    "the driver was updated": ({**H100, "fail.nvmlInitWithFlags": 18}, ("--nproc-per-node=8",), 1, ("DC313",)),
    "NVML crashes": ({**H100, "fail.nvmlInitWithFlags": -2}, ("--nproc-per-node=8",), 1, ("DC315",)),
    "NVML crashes at a card": ({**H100, "fail.nvmlDeviceGetMigMode.7": -2}, ("--nproc-per-node=8",), 1, ("DC315",)),
    "NVML does not count": ({**H100, "fail.nvmlDeviceGetCount_v2": 999}, ("--nproc-per-node=8",), 1, ("DC314", "DC315")),
    "an old driver": (
        {
            **H100,
            **{
                f"fail.nvmlDeviceGet{name}": 13
                for name in (
                    "ComputeRunningProcesses_v3", "CurrentClocksEventReasons", "TemperatureV", "GpuFabricInfoV",
                    "GpuFabricInfo", "MigMode", "RemappedRows",
                )
            },
        },
        ("--nproc-per-node=8",),
        0,
        (),
    ),
    # no persistence mode: 1.8 s a card, which is more than the limit for one card
    SLOW: ({**H100, "wait_ms.each_gpu": 1800, "persistence": 0}, ("--nproc-per-node=8",), 0, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name == SLOW else ()) for name in CASES])
def test_env(name: str, tmp_path: Path) -> None:
    described, words, status, errors = CASES[name]
    result = run(tmp_path, described, "env", "--isolated", "--output-format", "json", *words)
    report = json.loads(result.stdout)
    found = {item["code"] for item in report["findings"] if item["severity"] == "error"}
    assert (result.returncode, bool(found)) == (status, bool(errors)), result.stdout
    assert found <= set(errors)
    assert "DC901" not in {item["code"] for item in report["findings"]}
    if name == SLOW:
        assert "DC902" not in {item["code"] for item in report["findings"]}


@pytest.mark.slow
def test_env_where_nvml_hangs(tmp_path: Path) -> None:
    described = {"gpus": 1, "fail.nvmlInitWithFlags": -1}
    result = run(tmp_path, described, "env", "--isolated", "--output-format", "json", "--nproc-per-node=1")
    report = json.loads(result.stdout)
    assert "DC902" in {item["code"] for item in report["findings"]}
    assert "DC309" in " ".join(item["what"] for item in report["not_checked"])
    words = ("env", "--isolated", "--nproc-per-node=1", "--must-check", "DC309")
    assert run(tmp_path, described, *words).returncode == 3


#: case → GPUs and faults; no torch that these tests have can use a GPU, so that even healthy ones are an error
SICK: dict[str, dict[str, Any]] = {
    "8 x H100": H100,
    "A100 and a display card": DISPLAY,
    "MIG": MIG,
    "all cards are lost": {"gpus": 2, "fail.nvmlDeviceGetHandleByIndex_v2": 15},
    "no card": {"gpus": 0},
    "the driver is not loaded": {**H100, "fail.nvmlInitWithFlags": 9},
    "NVML fails": {**H100, "fail.nvmlInitWithFlags": 999},
    "the driver was updated": {**H100, "fail.nvmlInitWithFlags": 18},
    "NVML crashes": {**H100, "fail.nvmlInitWithFlags": -2},
    "NVML does not count": {**H100, "fail.nvmlDeviceGetCount_v2": 999},
    "no name": {**H100, "fail.nvmlDeviceGetName": 999},
}


@pytest.mark.torch
@pytest.mark.parametrize("name", SICK)
def test_collective_never_passes_on_the_cpu(name: str, tmp_path: Path) -> None:
    words = ("collective", "--nproc=2", "--quick", "--timeout=20", "--isolated", "--output-format", "concise")
    result = run(tmp_path, SICK[name], *words)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "gloo" not in result.stdout.splitlines()[-1]


@pytest.mark.torch
def test_collective_on_the_cpu_on_purpose(tmp_path: Path) -> None:
    words = ("collective", "--nproc=2", "--quick", "--backend=gloo", "--isolated", "--output-format", "concise")
    result = run(tmp_path, SICK["NVML crashes"], *words)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].endswith("on gloo, CPU")


# each function in turn, with each code

OF_A_CARD = (
    "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetName",
    "nvmlDeviceGetUUID", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetNvLinkState", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetComputeRunningProcesses_v3",
)  # fmt: skip
OF_THE_DRIVER = (
    "nvmlInitWithFlags", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetCount_v2",
)  # fmt: skip
CODES = (1, 2, 3, 4, 6, 9, 13, 15, 18, 999)

#: Reads the GPUs once for each description, in a process of its own: the library keeps what it has read.
_READ_EACH = """
import json, os, sys
import pynvml
from distcheck.checks.host.gpus import read_gpus
from distcheck.core.model import Unavailable
from distcheck.core.world import World

for line in sys.stdin:
    path = line.strip()
    child = os.fork()
    if child == 0:
        os.environ["STANDIN_NVML"] = path
        try:
            print(json.dumps([[gpu.lost, list(gpu.errors)] for gpu in read_gpus(World()).gpus]))
        except Unavailable as error:
            print(json.dumps(error.why))
        except BaseException as error:
            print(json.dumps({"raised": repr(error)}))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_each_call_fails_with_each_code(tmp_path: Path) -> None:
    cases = [(function, code) for function in (*OF_A_CARD, *OF_THE_DRIVER) for code in CODES]
    paths = []
    for function, code in cases:
        paths.append(tmp_path / f"{function}-{code}.json")
        paths[-1].write_text(json.dumps({"gpus": 2, "mig": 2, f"fail.{function}": code}))
    result = subprocess.run(
        [sys.executable, "-c", _READ_EACH], input="\n".join(map(str, paths)), capture_output=True, text=True, check=True,
        env={**os.environ, **variables(tmp_path, {})}, timeout=120,
    )  # fmt: skip
    found = dict(zip(cases, map(json.loads, result.stdout.splitlines()), strict=True))
    assert {case: seen for case, seen in found.items() if isinstance(seen, dict)} == {}
    for (function, code), seen in found.items():
        unread = function in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2")
        assert isinstance(seen, str) == unread, (function, code, seen)
        if unread:
            assert seen.startswith("NVML: ")
        elif code == 15 and function in OF_A_CARD:
            assert [lost for lost, _ in seen] == [True, True], function
        elif function != "nvmlDeviceGetHandleByIndex_v2":
            assert [lost for lost, _ in seen] == [False, False], (function, code)


# the ranks of a host ask at once

#: Reads the GPUs of a machine with 8 device nodes when a line comes; may open those that the argument lists.
_READ_AT_ONCE = """
import json, sys
import pynvml, distcheck.core.facts_file, distcheck.core.shared_reading
from distcheck.checks.host.gpus import read_gpus
from distcheck.core.model import Unavailable
from distcheck.core.world import World

class Machine(World):
    def names_or_empty(self, path):
        return tuple(f"nvidia{number}" for number in range(8)) if path == "/dev" else super().names_or_empty(path)
    def writable(self, path):
        return path[-1] in sys.argv[1]

print("ready", flush=True)
sys.stdin.readline()
try:
    print(json.dumps([gpu.uuid for gpu in read_gpus(Machine()).gpus]))
except Unavailable as error:
    print(json.dumps(error.why))
"""
ALL = "01234567"


def read_at_once(folder: Path, described: dict[str, Any], *may_open: str) -> tuple[list[int], set[str], int]:
    """Exit statuses and answers of one process for each argument, and how many of them initialized NVML."""
    log = folder / "log"
    found = variables(folder, {"wait_ms.nvmlInitWithFlags": 4000, "log": str(log), **described})
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _READ_AT_ONCE, nodes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **found},
        )
        for nodes in may_open
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=60)[0] for process in processes}
    return [process.returncode for process in processes], answers, len(log.read_text().splitlines())


@pytest.mark.slow
def test_one_rank_reads_nvml_for_all(tmp_path: Path) -> None:
    statuses, answers, readings = read_at_once(tmp_path, H100, *[ALL] * 8)
    assert statuses == [0] * 8
    assert len(answers) == 1 and len(json.loads(answers.pop())) == 8
    assert readings == 1


@pytest.mark.slow
def test_ranks_with_other_devices_read_for_themselves(tmp_path: Path) -> None:
    statuses, _, readings = read_at_once(tmp_path, H100, ALL, ALL, "0", "1")
    assert (statuses, readings) == ([0] * 4, 3)


@pytest.mark.slow
def test_a_failure_is_handed_on_and_a_crash_is_not(tmp_path: Path) -> None:
    failing = {**H100, "fail.nvmlInitWithFlags": 999}
    assert read_at_once(tmp_path, failing, *[ALL] * 3) == ([0] * 3, {'"NVML: Unknown Error"\n'}, 1)
    (tmp_path / "log").unlink()
    statuses, _, readings = read_at_once(tmp_path, {**H100, "fail.nvmlInitWithFlags": -2}, *[ALL] * 3)
    assert (statuses, readings) == ([-signal.SIGSEGV] * 3, 3)


@pytest.mark.torch
@pytest.mark.slow
def test_ranks_of_torchrun_share_a_reading(tmp_path: Path) -> None:
    log = tmp_path / "log"
    described = {**H100, "wait_ms.nvmlInitWithFlags": 5000, "log": str(log)}
    words = ("--quick", "--timeout=40", "--isolated", "--output-format", "concise")
    program, found = command(tmp_path, described, *words, module="collective")
    program[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    result = subprocess.run(
        program, env={"PATH": os.environ["PATH"], **found}, cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    # this torch cannot use them
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].endswith("on nccl, 4 × NVIDIA H100 80GB HBM3"), result.stdout
    # on a busy machine a rank may start when the first one has read
    assert len(log.read_text().splitlines()) < 4
