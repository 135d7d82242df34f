"""A real CUDA build of torch without a GPU: gloo tests the CPU where there is no driver, and nothing passes where there is one.

`tox -e torch-oldest,torch-middle` runs these tests; `tox -e full` makes such an environment where the disk allows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from tests import nvml_library

from .test_torch_release import run

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.full]


def is_cuda_build() -> bool:
    import torch

    return torch.version.cuda is not None


@pytest.fixture
def on_a_cuda_build() -> None:
    if not is_cuda_build() or Path("/proc/driver/nvidia/version").exists():
        pytest.skip("needs a CUDA build of torch, and no driver")


H100 = {"gpus": 2}
#: case → GPUs and faults of a machine whose driver torch cannot use, and the code that names the reason
NEVER_FINE: dict[str, tuple[dict[str, Any], str]] = {
    "healthy by NVML": (H100, "DC512"),
    "the driver is not loaded": ({**H100, "fail.nvmlInitWithFlags": 9}, "DC315"),
    "NVML crashes": ({**H100, "fail.nvmlInitWithFlags": -2}, "DC315"),
    "no card": ({"gpus": 0}, "DC315"),
}


@pytest.mark.usefixtures("on_a_cuda_build")
def test_good_without_a_driver_the_cpu_is_tested(tmp_path: Path) -> None:
    status, output = run("distcheck", "collective", "--nproc", "2", "--quick", "--isolated", folder=tmp_path)
    assert status == 0, output
    assert " ".join(output.split()).endswith("on gloo, CPU"), output


@pytest.mark.usefixtures("on_a_cuda_build")
@nvml_library.needs_a_compiler
@pytest.mark.parametrize("name", NEVER_FINE)
def test_bad_with_a_driver_nothing_passes_on_the_cpu(name: str, tmp_path: Path) -> None:
    described, code = NEVER_FINE[name]
    words = ("collective", "--nproc=2", "--quick", "--timeout=40", "--isolated", "--output-format", "json")
    result = nvml_library.run(tmp_path, described, *words, own_torch=True)
    report = json.loads(result.stdout)
    assert result.returncode == 1, result.stdout + result.stderr
    assert code in {item["code"] for item in report["findings"] if item["severity"] == "error"}, report["findings"]
    assert report["measurements"]["backend"] != "gloo"


@pytest.mark.usefixtures("on_a_cuda_build")
@nvml_library.needs_a_compiler
@pytest.mark.parametrize(("capability", "found"), [(30, True), (90, False)])
def test_dc335_reads_what_this_torch_was_built_for(capability: int, found: bool, tmp_path: Path) -> None:
    words = ("env", "--isolated", "--nproc-per-node=2", "--output-format", "json")
    result = nvml_library.run(tmp_path, {**H100, "capability": capability}, *words, own_torch=True)
    report = json.loads(result.stdout)
    assert ("DC335" in {item["code"] for item in report["findings"]}) == found
    assert "DC335" not in " ".join(item["what"] for item in report["not_checked"])


#: a CUDA build takes 5 GB, and as much while it is unpacked
_NEEDED_BYTES = 20 << 30


@pytest.mark.timeout(3600)
def test_a_cuda_build_in_an_environment_of_its_own(tmp_path: Path) -> None:
    if is_cuda_build() or shutil.disk_usage(tmp_path).free < _NEEDED_BYTES:
        pytest.skip("this is a CUDA build, or less than 20 GB are free")
    repository = Path(__file__).parents[2]
    venv.create(tmp_path / "environment", with_pip=True)
    python = str(tmp_path / "environment" / "bin" / "python")
    # the only wheel of this version for Linux that the index has is a CUDA build
    words = ("install", "-q", "--no-cache-dir", "torch==2.8.0", "numpy", f"{repository}[test]")
    subprocess.run([python, "-m", "pip", *words], check=True, cwd=tmp_path)
    tests = ("tests/runtime/test_cuda_build.py", "tests/runtime/test_torch_release.py")
    result = subprocess.run([python, "-m", "pytest", "-q", *tests], cwd=repository, capture_output=True, text=True)
    shutil.rmtree(tmp_path / "environment")
    assert result.returncode == 0, result.stdout
    assert "12 passed, 1 skipped" in result.stdout, result.stdout
