"""gloo on the CPU is never taken in place of GPUs; the last line names what was tested on what."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.cluster.records import Cluster, HostRecord, RankRecord
from distcheck.checks.host.gpu_access import GpuAccess, GpuState
from distcheck.checks.host.gpus import NVML_LIMIT_S
from distcheck.core.model import Finding, Report
from distcheck.launch.model import Launch
from distcheck.reporters import Style, render
from distcheck.rules import Selection
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.smoke_test import run as smoke
from distcheck.runtime.smoke_test.backend import (
    Choice,
    choose,
    hardware_text,
    ranks_can_use_their_gpus,
    torch_is_built_for_the_gpus,
)
from distcheck.runtime.smoke_test.model import Options
from tests.checks.host.test_gpu_access import CrashingDriver, FailingDriver, HungDriver, machine
from tests.cli.test_cli import environment
from tests.fake_nvml import FakeNvml, pcie_a100
from tests.recorded import RecordedWorld, write_files

H100 = "NVIDIA H100 80GB HBM3"
GOOD = GpuAccess(GpuState.USABLE, f"8 × {H100}", True)
BROKEN = GpuAccess(GpuState.UNUSABLE, "NVML: Unknown Error")
QUICK = Options(quick=True, timeout_s=20.0)


def host(name: str, *access: GpuAccess, backends: tuple[str, ...] = ("gloo", "nccl"), first: int = 0) -> HostRecord:
    """A host with a rank for each access; no rank knows which GPU it takes."""
    ranks = tuple(RankRecord(first + number, gpu_access=one) for number, one in enumerate(access))
    return HostRecord(name, ranks, versions={"torch": "2.13.0"}, backends=backends)


def found(*hosts: HostRecord, options: Options = Options()) -> list[tuple[str, str]]:
    """Code and severity of what is reported about the choice for these hosts."""
    return [(item.code, item.severity.word) for item in findings(*hosts, options=options)]


def findings(*hosts: HostRecord, options: Options = Options()) -> list[Finding]:
    facts = (choose(options, hosts), Cluster(hosts))
    return [*ranks_can_use_their_gpus(*facts), *torch_is_built_for_the_gpus(*facts)]


@pytest.mark.parametrize(
    "access",
    [GOOD, BROKEN, GpuAccess()],
    ids=["which GPU is not known", "the driver does not answer", "not read"],
)
def test_nccl_is_taken_unless_it_is_known_that_there_is_no_gpu(access: GpuAccess) -> None:
    """Mixed GPUs, a missing LOCAL_RANK and a rank too many leave a rank without a device, and the choice as it is."""
    assert choose(Options(), [host("a", access, access)]) == Choice("nccl", "cuda", True)


@pytest.mark.parametrize("state", [GpuState.ABSENT, GpuState.HIDDEN, GpuState.OTHER_BUILD])
def test_gloo_is_taken_where_no_rank_has_a_gpu(state: GpuState) -> None:
    assert choose(Options(), [host("a", GpuAccess(state))]) == Choice("gloo", "cpu", True)


def test_gloo_is_taken_where_no_torch_has_nccl() -> None:
    assert choose(Options(), [host("a", GOOD, backends=("gloo",))]) == Choice("gloo", "cpu", True)
    assert choose(Options(), [host("a", GOOD, backends=())]).backend == "nccl"


def test_one_rank_with_a_gpu_is_enough_for_nccl() -> None:
    assert choose(Options(), [host("a", GOOD), host("b", GpuAccess(GpuState.ABSENT), first=1)]).backend == "nccl"
    assert choose(Options(), [host("a", GOOD), host("b", GOOD, backends=("gloo",), first=1)]).backend == "nccl"


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        (Options(backend="gloo"), Choice("gloo", "cpu")),
        (Options(backend="nccl"), Choice("nccl", "cuda")),
        (Options(device="cpu"), Choice("gloo", "cpu")),
        (Options(device="cuda"), Choice("nccl", "cuda")),
        (Options(backend="gloo", device="cuda"), Choice("gloo", "cuda")),
    ],
)
def test_options_decide(options: Options, choice: Choice) -> None:
    hosts = [host("a", BROKEN)]
    assert choose(options, hosts) == choice
    assert found(*hosts, options=options) == []


def test_nothing_is_chosen_without_records() -> None:
    assert choose(Options()) == Choice("", "", True)


def test_good_ranks_can_use_their_gpus() -> None:
    assert found(host("a", GOOD, GOOD)) == []
    assert found(host("a", GpuAccess(GpuState.ABSENT), GpuAccess(GpuState.ABSENT))) == []
    assert found(host("a", GpuAccess(GpuState.ABSENT), backends=("gloo",))) == []


def test_bad_dc315_gpus_that_can_not_be_read() -> None:
    (finding,) = findings(host("node1", BROKEN, BROKEN), host("node2", GOOD, first=2))
    assert (finding.code, finding.severity.word) == ("DC315", "error")
    assert "ranks 0-1 on node1" in finding.message
    assert "NVML: Unknown Error" in finding.message
    assert "--backend gloo" in finding.fix.text
    assert (finding.where.host, finding.where.ranks) == ("node1", "0-1")


def test_bad_dc315_a_host_without_gpus_among_others() -> None:
    (finding,) = findings(host("node1", GOOD), host("node2", GpuAccess(GpuState.ABSENT), first=1))
    assert (finding.code, finding.severity.word) == ("DC315", "error")
    assert "rank 1 on node2 cannot use a GPU (there is none)" in finding.message


def test_bad_dc315_a_mask_hides_all_gpus() -> None:
    (finding,) = findings(host("node1", GpuAccess(GpuState.HIDDEN, "CUDA_VISIBLE_DEVICES=''", True)))
    assert (finding.code, finding.severity.word) == ("DC315", "warning")
    assert "only gloo on the CPU was tested" in finding.message
    # a CPU build has nothing to hide
    assert found(host("node1", GpuAccess(GpuState.HIDDEN, "CUDA_VISIBLE_DEVICES=''"), backends=("gloo",))) == []


def test_bad_dc120_a_build_without_cuda_beside_gpus() -> None:
    (finding,) = findings(host("node1", GpuAccess(GpuState.OTHER_BUILD, f"8 × {H100}", True), backends=("gloo",)))
    assert (finding.code, finding.severity.word) == ("DC120", "warning")
    assert f"(8 × {H100})" in finding.message


def test_good_dc120_graphics_of_a_processor_are_a_note() -> None:
    assert found(host("laptop", GpuAccess(GpuState.OTHER_BUILD, "1 × AMD Radeon Graphics"))) == [("DC120", "info")]


@pytest.mark.parametrize(
    ("choice", "names", "text"),
    [
        (Choice("gloo", "cpu"), (), "on gloo, CPU"),
        (Choice("nccl", "cuda"), (H100,) * 8, f"on nccl, 8 × {H100}"),
        (Choice("nccl", "cuda"), (H100,) * 6, f"on nccl, 6 × {H100}, 2 × unknown GPU"),
        (Choice("nccl", "cuda"), (), "on nccl, 8 × unknown GPU"),
        (Choice(), (), "no backend or device was chosen"),
    ],
)
def test_the_text_of_backend_and_device(choice: Choice, names: tuple[str, ...], text: str) -> None:
    assert hardware_text(choice, names, 8) == text


# whole runs of a CUDA build on machines whose driver fails


def run(
    world: RecordedWorld,
    options: Options = QUICK,
    rank_infos: tuple[RankInfo, ...] = (RankInfo(0, 2, 0, 2, 0), RankInfo(1, 2, 1, 2, 0)),
) -> Report:
    """A smoke test of all ranks of this process, after a check of a recorded machine with a CUDA build."""
    inspected = smoke.look(rank_infos, Launch("planned", nproc=len(rank_infos)), world, Selection())
    ended = smoke.run(rank_infos, inspected, smoke.Request(options=options))
    assert ended.report is not None
    ended.publish(0)
    return ended.report


def last_line(report: Report) -> str:
    return render(report, "full", Style(width=200)).splitlines()[-1]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("kind", "record", "seen"),
    [
        (CrashingDriver, {}, "signal 11"),
        (FailingDriver, {"nvml_error": 9}, "Driver Not Loaded"),
        (FailingDriver, {"nvml_error": 999}, "Unknown Error"),
        (RecordedWorld, {"nvml": FakeNvml(())}, "NVML lists no GPU"),
        pytest.param(HungDriver, {}, f"did not answer within {NVML_LIMIT_S:g} s", marks=pytest.mark.slow),
    ],
)
def test_bad_dc315_a_cuda_build_with_a_broken_driver(
    kind: type[RecordedWorld], record: dict[str, Any], seen: str, tmp_path: Path
) -> None:
    report = run(machine(kind, tmp_path, **record))
    (finding,) = (item for item in report.findings if item.code == "DC315")
    assert finding.severity.word == "error"
    assert seen in finding.message
    assert "start" not in report.measurements["phases"]
    assert last_line(report).endswith("results not checked; bandwidth not measured; on nccl, 2 × unknown GPU")


@pytest.mark.torch
def test_mixed_gpus_are_tested_with_nccl(tmp_path: Path) -> None:
    """CUDA chooses the order, so no rank's device is known: torch without CUDA fails here, and nothing passes on gloo."""
    cards = pcie_a100().cards
    nvml = FakeNvml((cards[0]._replace(name="NVIDIA T400", capability=(7, 5)), *cards[1:]))
    report = run(machine(RecordedWorld, tmp_path, nvml=nvml))
    assert report.measurements["backend"] == "nccl"
    assert report.worst is not None
    assert report.worst.word == "error"
    assert "on nccl, 2 × unknown GPU" in last_line(report)


@pytest.mark.torch
def test_a_rank_without_local_rank_is_tested_with_nccl(tmp_path: Path) -> None:
    report = run(machine(RecordedWorld, tmp_path, nvml=pcie_a100()), rank_infos=(RankInfo(0, 1),))
    assert report.measurements["backend"] == "nccl"
    assert report.worst is not None
    assert report.worst.word == "error"


@pytest.mark.torch
def test_good_an_explicit_gloo_tests_the_cpu(tmp_path: Path) -> None:
    report = run(machine(FailingDriver, tmp_path, nvml_error=999), options=QUICK._replace(backend="gloo"))
    assert "DC315" not in {item.code for item in report.findings}
    assert report.measurements["proof"]["ranks"] == 2
    assert last_line(report) == ("2 ranks on 1 host: all collectives correct; bandwidth not measured; on gloo, CPU")


# the command


def collective(*words: str, folder: Path, **variables: str) -> tuple[int, str]:
    result = subprocess.run(
        [*words], capture_output=True, text=True, cwd=folder, timeout=240,
        env={**environment(), "OMP_NUM_THREADS": "1", **variables},
    )  # fmt: skip
    return result.returncode, (result.stdout.splitlines() or [result.stderr])[-1]


@pytest.mark.torch
@pytest.mark.parametrize("options", [(), ("--quiet",), ("--output-format", "concise")])
def test_the_last_line_of_the_command(options: tuple[str, ...], tmp_path: Path) -> None:
    program = (sys.executable, "-m", "distcheck", "collective", "--nproc", "2", "--quick", "--backend", "gloo")
    assert collective(*program, *options, folder=tmp_path) == (
        0,
        "2 ranks on 1 host: all collectives correct; bandwidth not measured; on gloo, CPU",
    )


@pytest.mark.torch
@pytest.mark.skipif(os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"), reason="this machine has a GPU")
def test_the_last_line_under_torchrun(tmp_path: Path) -> None:
    torchrun = Path(sys.executable).with_name("torchrun")
    program = str(torchrun if torchrun.exists() else shutil.which("torchrun"))
    words = (program, "--standalone", "--nproc-per-node=2", "-m", "distcheck.collective", "--quick")
    assert collective(*words, folder=tmp_path) == (
        0,
        "2 ranks on 1 host: all collectives correct; bandwidth not measured; on gloo, CPU",
    )


#: A rank on a machine whose NVML crashes, and whose torch has the version file of a CUDA build.
CRASHING_RANK = """
import faulthandler, os, signal, sys
from distcheck.core.world import World

def nvml(self):
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)

World.nvml = nvml
World.python_path = (os.path.abspath("site-packages"),)

from distcheck.collective import main
main()
"""


@pytest.mark.torch
@pytest.mark.full  # a driver that crashes without torchrun, and the last line under torchrun, run always
def test_bad_dc315_a_crashing_driver_under_torchrun(tmp_path: Path) -> None:
    files = {
        "rank.py": CRASHING_RANK,
        "site-packages/torch/__init__.py": "",
        "site-packages/torch/version.py": "__version__ = '2.13.0+cu130'\ncuda = '13.0'\nhip = None\n",
        "site-packages/torch/lib/libtorch_cuda.so": "",
    }
    write_files(tmp_path, files)
    words = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "rank.py", "--quick")
    status, line = collective(*words, "--output-format", "concise", folder=tmp_path)
    assert (status, line.rpartition("; ")[2]) == (1, "on nccl, 2 × unknown GPU")
    status, line = collective(*words, "--output-format", "concise", "--select", "DC315", folder=tmp_path)
    assert (status, line.rpartition("; ")[2]) == (1, "on nccl, 2 × unknown GPU")
    status, line = collective(*words, "--output-format", "concise", "--backend", "gloo", folder=tmp_path)
    assert (status, line.rpartition("; ")[2]) == (0, "on gloo, CPU")


@pytest.mark.torch
def test_the_last_line_of_ranks_that_were_not_started(tmp_path: Path) -> None:
    status, line = collective(sys.executable, "-m", "distcheck.collective", folder=tmp_path)
    assert status in (1, 3)
    assert line == "no rank was started: no backend or device was chosen"


@pytest.mark.torch
def test_the_last_line_of_a_rank_that_never_comes(tmp_path: Path) -> None:
    rank = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    from .ranks import free_port

    words = (sys.executable, "-m", "distcheck.collective", "--quick", "--timeout", "2")
    status, line = collective(*words, folder=tmp_path, **rank, MASTER_PORT=str(free_port()))
    assert status == 1
    assert line == "1 of 2 ranks came; rank 1 is missing; no backend or device was chosen"
    status, line = collective(*words, "--backend", "gloo", folder=tmp_path, **rank, MASTER_PORT=str(free_port()))
    assert line == "1 of 2 ranks came; rank 1 is missing; on gloo, CPU"
