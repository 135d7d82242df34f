"""torch, CUDA and NCCL as files tell them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host.examine import examine
from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import (
    DriverLibrary,
    Library,
    NcclPlugins,
    Plugin,
    Software,
    backend_is_built_in,
    driver_library_fits,
    named_plugins_are_there,
    nccl_is_the_one_that_torch_needs,
    nccl_is_there,
    parse_metadata_name,
    parse_requirement,
    parse_version_file,
    read_driver_library,
    read_plugins,
    read_software,
    store_needs_no_libuv,
    torch_is_installed,
    torch_is_the_installed_one,
)
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.core.world import World
from distcheck.launch.model import Launch, LaunchCommand
from distcheck.launch.reader import LaunchOptions, make_launch
from distcheck.launch.settings import Setting, Settings
from distcheck.rules import Selection
from tests.recorded import RecordedWorld, recorded_world

from .elf import make_elf, write_elf

SITE = "/venv/lib/python3.11/site-packages"
NO_GPU = Unavailable("no NVIDIA driver")
LINUX, WINDOWS, MAC = Platform("linux"), Platform("win32"), Platform("darwin")
PLANNED = Launch("planned", launcher="torchrun", nproc=8)
TWO_NODES = Launch("planned", launcher="torchrun", nproc=8, nnodes=2)
CPU_BUILD = Software("3.11.9", "2.13.0+cpu", f"{SITE}/torch")
CUDA_BUILD = Software(
    "3.11.9",
    "2.13.0+cu130",
    f"{SITE}/torch",
    cuda="13.0",
    nccl_packages=(("nvidia-nccl-cu13", "2.28.9"),),
    nccl_required="nvidia-nccl-cu13==2.28.9",
    nccl_libraries=(Library(f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "wheel", "2.28.9", "13.0"),),
    nccl_linked=True,
    writable=True,
)
VERSION_FILE = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'
hip: Optional[str] = {hip}
xpu: Optional[str] = None
"""
METADATA = """Metadata-Version: 2.4
Name: torch
Version: 2.13.0
Requires-Dist: filelock
Requires-Dist: nvidia-cudnn-cu13==9.13.0.50; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu13==2.28.9; platform_system == "Linux"
Requires-Dist: triton==3.6.0; platform_system == "Linux"

Requires-Dist: nvidia-nccl-cu11==1.0 is only text of the description
"""


def settings(**values: str) -> Settings:
    return Settings(tuple(Setting(name, value) for name, value in values.items()))


def gpus(*names: str, driver: str = "580.82.07", cuda: str = "13.0") -> Gpus:
    cards = tuple(Gpu(index, f"GPU-{index}", name) for index, name in enumerate(names or ["NVIDIA H100 80GB HBM3"] * 8))
    return Gpus("nvidia", cards, driver_version=driver, driver_cuda=cuda)


def the_finding(findings: Any) -> Finding:
    (finding,) = findings
    assert isinstance(finding, Finding)
    return finding


def torch_files(version: str, *, site: str = SITE, cuda: str | None = None, hip: str | None = None) -> dict[str, Any]:
    return {
        f"{site}/torch/__init__.py": "",
        f"{site}/torch/version.py": VERSION_FILE.format(version=version, cuda=repr(cuda), hip=repr(hip)),
        f"{site}/torch-{version}.dist-info/METADATA": METADATA,
    }


def world_with(tmp_path: Path, files: dict[str, Any], **record: Any) -> RecordedWorld:
    return recorded_world(
        tmp_path, files=files, python_path=["/venv/bin", SITE], python_executable="/venv/bin/python", **record
    )


def cuda_world(tmp_path: Path, files: dict[str, Any] | None = None, **library: Any) -> RecordedWorld:
    """A torch wheel for CUDA 13 and its NCCL, as pip installs them."""
    world = world_with(
        tmp_path,
        {
            **torch_files("2.13.0+cu130", cuda="13.0"),
            f"{SITE}/nvidia_nccl_cu13-2.28.9.dist-info": None,
            "/etc/ld.so.cache": "",
            **(files or {}),
        },
    )
    described = {"needed": ["libnccl.so.2"], "rpath": "$ORIGIN/../../nvidia/nccl/lib:$ORIGIN", **library}
    write_elf(tmp_path, f"{SITE}/torch/lib/libtorch_cuda.so", make_elf(wanted=["ncclNew", "malloc"], **described))
    return world


def write_nccl(
    tmp_path: Path, path: str, version: str, cuda: str = "13.0", symbols: tuple[str, ...] = ("ncclNew", "ncclOld")
) -> None:
    text = f"x\0NCCL version {version}+cuda{cuda}\0".encode()
    write_elf(tmp_path, path, make_elf(defined=symbols, rodata=text))


# reading torch


def test_a_cpu_build(tmp_path: Path) -> None:
    files = {
        **torch_files("2.13.0+cpu"),
        f"{SITE}/accelerate-1.15.0.dist-info": None,
        f"{SITE}/numpy-2.1.0.dist-info": None,
        f"{SITE}/flash_attn-2.7.4-py3.11.egg-info": None,
    }
    found = read_software(world_with(tmp_path, files), Launch(), Settings())
    assert found == Software(
        "3.11.9",
        "2.13.0+cpu",
        f"{SITE}/torch",
        packages=(("accelerate", "1.15.0"), ("flash-attn", "2.7.4")),
        writable=True,
    )
    assert found.backends == {"gloo"}


def test_a_rocm_build(tmp_path: Path) -> None:
    found = read_software(world_with(tmp_path, torch_files("2.13.0+rocm7.1", hip="7.1.25424")), Launch(), Settings())
    assert (found.torch, found.cuda, found.hip, found.nccl_required) == ("2.13.0+rocm7.1", None, "7.1.25424", None)
    assert found.backends == {"gloo", "nccl"}


def test_a_cuda_build(tmp_path: Path) -> None:
    world = cuda_world(tmp_path)
    write_nccl(tmp_path, f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "2.28.9")
    assert read_software(world, Launch(), Settings()) == CUDA_BUILD


def test_no_torch(tmp_path: Path) -> None:
    found = read_software(world_with(tmp_path, {}), Launch(), Settings())
    assert (found.torch, found.torch_path, found.backends) == (None, None, frozenset())


def test_an_editable_torch_is_known_by_its_metadata(tmp_path: Path) -> None:
    found = read_software(world_with(tmp_path, {f"{SITE}/torch-2.14.0a0+git1.dist-info": None}), Launch(), Settings())
    assert (found.torch, found.torch_path) == ("2.14.0a0+git1", None)


def test_the_first_folder_of_the_path_wins(tmp_path: Path) -> None:
    files = {**torch_files("2.4.0"), **torch_files("2.13.0", site="/home/user/.local/site-packages")}
    world = world_with(tmp_path, files)
    world.record = {**world.record, "python_path": ["/home/user/.local/site-packages", SITE]}
    assert read_software(world, Launch(), Settings()).torch == "2.13.0"


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("torch-2.13.0+cpu.dist-info", ("torch", "2.13.0+cpu")),
        ("nvidia_nccl_cu12-2.27.5.dist-info", ("nvidia-nccl-cu12", "2.27.5")),
        ("Flash.Attn-2.7.4.dist-info", ("flash-attn", "2.7.4")),
        ("torch-2.5.1-py3.11.egg-info", ("torch", "2.5.1")),
        ("torch", None),
        ("torch.dist-info", None),
        ("-1.dist-info", None),
        ("torch-.dist-info", None),
    ],
)
def test_names_of_metadata(name: str, package: tuple[str, str] | None) -> None:
    assert parse_metadata_name(name) == package


@given(st.text(max_size=60))
def test_any_name_is_a_package_or_none(name: str) -> None:
    for text in (name, name + ".dist-info", name + ".egg-info"):
        found = parse_metadata_name(text)
        assert found is None or (found[0] == found[0].lower() and all(found))


def test_version_files_of_old_and_new_releases() -> None:
    old = "__version__ = '1.13.1+cu117'\ndebug = False\ncuda = '11.7'\ngit_version = 'x'\nhip = None\n"
    assert parse_version_file(old) == {"__version__": "1.13.1+cu117", "cuda": "11.7", "git_version": "x"}
    new = parse_version_file(VERSION_FILE.format(version="2.13.0", cuda='"13.0"', hip="None"))
    assert (new["__version__"], new["cuda"], "hip" in new) == ("2.13.0", "13.0", False)


@given(st.text(max_size=200))
def test_version_files_are_never_run(text: str) -> None:
    assert all(isinstance(value, str) and "\n" not in value for value in parse_version_file(text).values())


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ('Requires-Dist: nvidia-nccl-cu12==2.27.5; platform_system == "Linux"', "nvidia-nccl-cu12==2.27.5"),
        ('Requires-Dist: nvidia-nccl-cu12 (==2.19.3) ; platform_system == "Linux"', "nvidia-nccl-cu12==2.19.3"),
        ("Requires-Dist: nvidia_nccl_cu13==2.28.9", "nvidia-nccl-cu13==2.28.9"),
        ("Requires-Dist: nvidia-nccl-cu12>=2.18", "nvidia-nccl-cu12"),
        ("Requires-Dist: nvidia-nccl-cu12==2.27.5; extra == 'cuda'", None),
        ("Requires-Dist: nvidia-cudnn-cu12==9.1", None),
        ("Name: nvidia-nccl-cu12", None),
    ],
)
def test_requirements(line: str, package: str | None) -> None:
    assert parse_requirement(line) == package


@given(st.text(max_size=100))
def test_any_line_is_a_requirement_or_none(text: str) -> None:
    for line in (text, "Requires-Dist: nvidia-nccl-cu12" + text):
        found = parse_requirement(line)
        assert found is None or found.startswith("nvidia-nccl-cu")


# the Python of the launch


@pytest.mark.parametrize(
    ("argv", "elsewhere"),
    [
        (("torchrun", "train.py"), "/opt/conda/bin"),
        (("srun", "-n8", "/apps/torch/bin/python3.12", "train.py"), "/apps/torch/bin"),
        (("python", "train.py"), None),
        (("/venv/bin/torchrun", "train.py"), None),
        (("accelerate", "launch", "train.py"), None),
        (("./train.sh",), None),
    ],
)
def test_a_launch_may_take_another_python(tmp_path: Path, argv: tuple[str, ...], elsewhere: str | None) -> None:
    files = {"/opt/conda/bin/torchrun": "", "/venv/bin/python": "", "/opt/conda/bin/python": ""}
    world = world_with(tmp_path, files, environ={"PATH": "/usr/bin:/venv/bin:/opt/conda/bin"})
    launch = Launch("planned", command=LaunchCommand("torchrun", argv=argv))
    assert read_software(world, launch, Settings()).elsewhere == elsewhere
    assert read_software(world, launch._replace(stage="shell"), Settings()).elsewhere is None


@pytest.mark.parametrize("probe", [nccl_is_there, nccl_is_the_one_that_torch_needs, backend_is_built_in])
def test_another_python_is_not_checked(probe: Any) -> None:
    software = CUDA_BUILD._replace(elsewhere="/opt/conda/bin")
    arguments = {
        nccl_is_there: (LINUX,),
        nccl_is_the_one_that_torch_needs: (NO_GPU,),
        backend_is_built_in: (NO_GPU, LINUX),
    }
    with pytest.raises(Unavailable, match="/opt/conda/bin"):
        list(probe(PLANNED, software, *arguments[probe]))


# DC120 backend-absent


@pytest.mark.parametrize(
    ("launch", "software", "cards", "platform", "severity", "words"),
    [
        pytest.param(
            PLANNED._replace(backend="nccl"),
            CPU_BUILD,
            NO_GPU,
            LINUX,
            Severity.ERROR,
            "requests nccl",
            id="nccl asked for",
        ),
        pytest.param(
            PLANNED._replace(backend="cpu:gloo,cuda:nccl"),
            CPU_BUILD,
            gpus(),
            LINUX,
            Severity.ERROR,
            "nccl",
            id="by device",
        ),
        pytest.param(
            PLANNED._replace(nproc=None, nproc_text="gpu"), CPU_BUILD, gpus(), LINUX, Severity.ERROR, "8 GPUs", id="gpu"
        ),
        pytest.param(PLANNED, CPU_BUILD, gpus(), LINUX, Severity.INFO, "8 GPUs", id="perhaps gloo is meant"),
        pytest.param(Launch(), CPU_BUILD, gpus("A"), LINUX, Severity.INFO, "1 GPU", id="nothing is launched"),
        pytest.param(
            PLANNED._replace(backend="nccl"),
            CUDA_BUILD,
            gpus(),
            WINDOWS,
            Severity.ERROR,
            "Windows",
            id="CUDA on Windows",
        ),
        pytest.param(PLANNED._replace(backend="nccl"), CPU_BUILD, NO_GPU, MAC, Severity.ERROR, "macOS", id="a Mac"),
    ],
)
def test_bad_backend(
    launch: Launch, software: Software, cards: Any, platform: Platform, severity: Severity, words: str
) -> None:
    finding = the_finding(backend_is_built_in(launch, software, cards, platform))
    assert (finding.code, finding.severity) == ("DC120", severity)
    assert words in finding.message


@pytest.mark.parametrize(
    ("launch", "software", "cards"),
    [
        pytest.param(PLANNED._replace(backend="nccl"), CUDA_BUILD, gpus(), id="CUDA build"),
        pytest.param(
            PLANNED._replace(backend="nccl"),
            CPU_BUILD._replace(torch="2.13.0+rocm7.1", hip="7.1"),
            NO_GPU,
            id="ROCm build",
        ),
        pytest.param(PLANNED._replace(backend="gloo"), CPU_BUILD, NO_GPU, id="gloo on a CPU build"),
        pytest.param(PLANNED, CPU_BUILD, NO_GPU, id="no GPUs, nothing asked for"),
        pytest.param(
            PLANNED._replace(backend="nccl"), Software("3.11.9"), gpus(), id="no torch is another rule's matter"
        ),
    ],
)
def test_good_backend(launch: Launch, software: Software, cards: Any) -> None:
    assert list(backend_is_built_in(launch, software, cards, LINUX)) == []


# DC122 module-shadowing


@pytest.mark.parametrize(
    ("launch", "files", "path"),
    [
        pytest.param(
            Launch("planned", script="train.py"), {"/home/user/torch.py": ""}, "torch.py", id="beside the script"
        ),
        pytest.param(
            Launch("planned", script="src/train.py"),
            {"/home/user/src/torch.py": ""},
            "src/torch.py",
            id="in its folder",
        ),
        pytest.param(
            Launch("planned", script="/data/train.py"), {"/data/torch.py": ""}, "/data/torch.py", id="somewhere else"
        ),
        pytest.param(
            Launch("planned", script="pkg.train", command=LaunchCommand("torchrun", script="pkg.train", module=True)),
            {"/home/user/torch.py": ""},
            "torch.py",
            id="a module starts in the working directory",
        ),
        pytest.param(
            Launch("planned", script="train.py"),
            {"/home/user/torch/__init__.py": "", "/home/user/torch/_C/__init__.pyi": ""},
            "torch",
            id="a source tree that was never built",
        ),
        pytest.param(
            Launch("planned", script="train.py"),
            {"/home/user/torch/__init__.py": "", "/home/user/torch/version.py": "", "/home/user/torch/_C/a.pyi": ""},
            "torch",
            id="a source tree that was built elsewhere",
        ),
    ],
)
def test_bad_shadowing(tmp_path: Path, launch: Launch, files: dict[str, Any], path: str) -> None:
    world = world_with(tmp_path, {**torch_files("2.13.0+cpu"), **files})
    software = read_software(world, launch, Settings())
    assert (software.torch, software.shadowing) == ("2.13.0+cpu", (path,))
    finding = the_finding(torch_is_the_installed_one(launch, software))
    assert (finding.code, finding.severity, finding.where.path) == ("DC122", Severity.ERROR, path)
    assert the_finding(torch_is_the_installed_one(Launch(), software)).severity is Severity.INFO


@pytest.mark.parametrize(
    ("launch", "files"),
    [
        pytest.param(Launch("planned", script="train.py"), {"/home/user/distributed.py": ""}, id="distributed.py"),
        pytest.param(
            Launch("planned", script="train.py"),
            {"/home/user/torch/notes.txt": "", "/home/user/nccl/__init__.py": ""},
            id="a folder that is no package comes last",
        ),
        pytest.param(
            Launch("planned", script="src/train.py"),
            {"/home/user/torch.py": ""},
            id="the script's folder counts, not this one",
        ),
        pytest.param(Launch("rank", local_rank=0), {"/home/user/torch.py": ""}, id="not on the path of this rank"),
        pytest.param(
            Launch("planned", script="train.py"),
            {
                "/home/user/torch/__init__.py": "",
                "/home/user/torch/version.py": VERSION_FILE.format(version="2.14.0a0", cuda="None", hip="None"),
                "/home/user/torch/_C.cpython-311-x86_64-linux-gnu.so": "",
            },
            id="a source tree that was built in place",
        ),
    ],
)
def test_good_shadowing(tmp_path: Path, launch: Launch, files: dict[str, Any]) -> None:
    world = world_with(tmp_path, {**torch_files("2.13.0+cpu"), **files})
    assert list(torch_is_the_installed_one(launch, read_software(world, launch, Settings()))) == []


def test_good_shadowing_safe_path(tmp_path: Path) -> None:
    world = world_with(tmp_path, {**torch_files("2.13.0+cpu"), "/home/user/torch.py": ""})
    launch = Launch("planned", script="train.py")
    assert read_software(world, launch, settings(PYTHONSAFEPATH="1")).shadowing == ()


@pytest.mark.parametrize("shadowed", [True, False])
def test_python_itself_agrees_about_shadowing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shadowed: bool) -> None:
    """A real script beside a real torch.py, or a mere folder torch/, with another torch further down the path."""
    site, job = tmp_path / "site-packages", tmp_path / "job"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").touch()
    (site / "torch" / "version.py").write_text(VERSION_FILE.format(version="2.13.0", cuda="None", hip="None"))
    job.mkdir()
    if shadowed:
        (job / "torch.py").touch()
    else:
        (job / "torch").mkdir()
    (job / "train.py").write_text("import torch\nprint(torch.__file__)\n")
    environ = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=job, env=environ, capture_output=True, text=True, check=True
    )
    monkeypatch.chdir(job)
    monkeypatch.syspath_prepend(str(site))
    launch = Launch("planned", script="train.py")
    software = read_software(World(), launch, Settings())
    found = list(torch_is_the_installed_one(launch, software))
    if shadowed:
        assert done.stdout.strip() == str(job / "torch.py") == software.torch_path
        assert [(item.code, item.where.path) for item in found] == [("DC122", "torch.py")]
    else:
        assert done.stdout.strip() == str(site / "torch" / "__init__.py")
        assert (software.torch_path, found) == (str(site / "torch"), [])


# DC123 windows-no-libuv


@pytest.mark.parametrize(
    ("launch", "torch", "values", "where"),
    [
        pytest.param(PLANNED, "2.13.0+cpu", {}, "torchrun", id="torchrun"),
        pytest.param(
            PLANNED, "2.5.1+cu121", {"USE_LIBUV": "0"}, "torchrun", id="torchrun takes no notice of the variable"
        ),
        pytest.param(Launch("rank", launcher="python"), "2.5.1", {}, "USE_LIBUV", id="2.5 by default"),
        pytest.param(Launch("rank", launcher="python"), "2.13.0", {"USE_LIBUV": "1"}, "USE_LIBUV", id="asked for"),
    ],
)
def test_bad_libuv(launch: Launch, torch: str, values: dict[str, str], where: str) -> None:
    finding = the_finding(store_needs_no_libuv(launch, CPU_BUILD._replace(torch=torch), settings(**values), WINDOWS))
    assert (finding.code, finding.severity) == ("DC123", Severity.ERROR)
    assert where in (finding.where.variable, finding.where.object)


@pytest.mark.parametrize(
    ("launch", "torch", "values", "platform"),
    [
        pytest.param(PLANNED, "2.13.0", {}, LINUX, id="Linux has libuv"),
        pytest.param(PLANNED, "2.3.1", {}, WINDOWS, id="2.3 did not ask for it"),
        pytest.param(Launch("rank", launcher="python"), "2.5.1", {"USE_LIBUV": "0"}, WINDOWS, id="switched off"),
        pytest.param(Launch("rank", launcher="python"), "2.13.0", {}, WINDOWS, id="2.13 asks for it no more"),
        pytest.param(Launch("rank", launcher="torchrun", agent_store=True), "2.13.0", {}, WINDOWS, id="it has started"),
        pytest.param(Launch(), "2.5.1", {}, WINDOWS, id="nothing is launched"),
        pytest.param(PLANNED, None, {}, WINDOWS, id="no torch"),
    ],
)
def test_good_libuv(launch: Launch, torch: str | None, values: dict[str, str], platform: Platform) -> None:
    assert list(store_needs_no_libuv(launch, CPU_BUILD._replace(torch=torch), settings(**values), platform)) == []


# DC330 torch-missing


@pytest.mark.parametrize(
    ("launch", "elsewhere", "severity"),
    [
        pytest.param(PLANNED, None, Severity.ERROR, id="planned"),
        pytest.param(Launch("rank", local_rank=0), None, Severity.ERROR, id="rank"),
        pytest.param(Launch(), None, Severity.INFO, id="nothing is launched"),
        pytest.param(PLANNED, "/opt/conda/bin", Severity.INFO, id="the launch takes another Python"),
    ],
)
def test_bad_torch_missing(launch: Launch, elsewhere: str | None, severity: Severity) -> None:
    finding = the_finding(torch_is_installed(launch, Software("3.11.9", elsewhere=elsewhere)))
    assert (finding.code, finding.severity) == ("DC330", severity)
    assert "this Python (3.11.9) has no torch" in finding.message
    assert (elsewhere or "") in finding.message


@pytest.mark.parametrize("software", [CPU_BUILD, CUDA_BUILD, Software("3.11.9", "2.14.0a0+git1")])
def test_good_torch_missing(software: Software) -> None:
    assert list(torch_is_installed(PLANNED, software)) == []


# DC331 nccl-library-shadowed

OLD = "/opt/nccl/lib/libnccl.so.2"
WHEEL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"


def judge_nccl(world: World, cards: Any = NO_GPU, launch: Launch = PLANNED, **values: str) -> list[Finding]:
    return list(nccl_is_the_one_that_torch_needs(launch, read_software(world, launch, settings(**values)), cards))


def test_bad_nccl_preloaded(tmp_path: Path) -> None:
    world = cuda_world(tmp_path)
    write_nccl(tmp_path, WHEEL, "2.28.9")
    write_nccl(tmp_path, OLD, "2.18.3", "12.2", symbols=("ncclOld",))
    finding = the_finding(judge_nccl(world, LD_PRELOAD=OLD))
    assert (finding.code, finding.severity) == ("DC331", Severity.ERROR)
    assert finding.message == f"torch loads NCCL 2.18.3 from {OLD} (LD_PRELOAD), which lacks ncclNew that torch needs"
    assert "LD_PRELOAD" in finding.fix.text
    assert the_finding(judge_nccl(world, launch=Launch(), LD_PRELOAD=OLD)).severity is Severity.INFO


def test_bad_nccl_on_the_library_path_of_a_build_with_runpath(tmp_path: Path) -> None:
    world = cuda_world(tmp_path, rpath=None, runpath="$ORIGIN/../../nvidia/nccl/lib")
    write_nccl(tmp_path, WHEEL, "2.28.9")
    write_nccl(tmp_path, OLD, "2.18.3", symbols=("ncclOld",))
    finding = the_finding(judge_nccl(world, LD_LIBRARY_PATH="/opt/nccl/lib"))
    assert (finding.code, finding.evidence["origin"]) == ("DC331", "LD_LIBRARY_PATH")
    assert finding.evidence["missing_symbols"] == ["ncclNew"]
    assert "take /opt/nccl/lib out of LD_LIBRARY_PATH" in finding.fix.text


def test_good_nccl_on_the_library_path_of_a_wheel(tmp_path: Path) -> None:
    """torch's wheels have RPATH, which comes before LD_LIBRARY_PATH."""
    world = cuda_world(tmp_path)
    write_nccl(tmp_path, WHEEL, "2.28.9")
    write_nccl(tmp_path, OLD, "2.18.3", symbols=("ncclOld",))
    assert judge_nccl(world, LD_LIBRARY_PATH="/opt/nccl/lib") == []


def test_bad_nccl_two_packages_in_one_folder(tmp_path: Path) -> None:
    world = cuda_world(tmp_path, {f"{SITE}/nvidia_nccl_cu12-2.21.5.dist-info": None})
    write_nccl(tmp_path, WHEEL, "2.21.5", "12.4", symbols=("ncclOld",))
    finding = the_finding(judge_nccl(world))
    assert (finding.code, finding.severity) == ("DC331", Severity.ERROR)
    assert finding.evidence["packages"] == ["nvidia-nccl-cu12 2.21.5", "nvidia-nccl-cu13 2.28.9"]
    assert finding.fix.command == (
        "python -m pip uninstall -y nvidia-nccl-cu12 && "
        "python -m pip install --force-reinstall --no-deps nvidia-nccl-cu13==2.28.9"
    )


def test_bad_nccl_two_packages_and_a_library_that_can_not_be_read(tmp_path: Path) -> None:
    world = cuda_world(tmp_path, {f"{SITE}/nvidia_nccl_cu12-2.21.5.dist-info": None, WHEEL: "no ELF"})
    finding = the_finding(judge_nccl(world))
    assert (finding.code, finding.severity) == ("DC331", Severity.ERROR)
    assert "of unknown version" in finding.message


def test_bad_nccl_two_packages_with_the_right_library_are_only_told(tmp_path: Path) -> None:
    world = cuda_world(tmp_path, {f"{SITE}/nvidia_nccl_cu12-2.21.5.dist-info": None})
    write_nccl(tmp_path, WHEEL, "2.28.9")
    finding = the_finding(judge_nccl(world))
    assert (finding.code, finding.severity) == ("DC331", Severity.INFO)
    assert "where 2.28.9 is in place" in finding.message


def test_bad_nccl_built_for_a_newer_cuda_than_the_driver_has(tmp_path: Path) -> None:
    world = cuda_world(tmp_path)
    write_nccl(tmp_path, WHEEL, "2.28.9", "14.0")
    finding = the_finding(judge_nccl(world, gpus(cuda="13.0")))
    assert finding.severity is Severity.ERROR
    assert "built for CUDA 14.0, and the driver supports CUDA 13.0 only" in finding.message
    assert judge_nccl(world, gpus(cuda="14.1")) == []


def test_bad_nccl_fix_without_the_right_to_change_it(tmp_path: Path) -> None:
    world = cuda_world(tmp_path)
    world.record = {**world.record, "unwritable": [SITE]}
    write_nccl(tmp_path, WHEEL, "2.21.5", symbols=("ncclOld",))
    fix = the_finding(judge_nccl(world)).fix
    assert (fix.by, fix.command) == ("admin", None)


def test_good_nccl_a_newer_one_was_installed_on_purpose(tmp_path: Path) -> None:
    world = cuda_world(tmp_path)
    write_nccl(tmp_path, WHEEL, "2.30.7")
    assert judge_nccl(world, gpus()) == []


def test_good_nccl_an_older_one_that_has_all_that_torch_needs(tmp_path: Path) -> None:
    world = cuda_world(tmp_path)
    write_nccl(tmp_path, WHEEL, "2.26.2")
    assert judge_nccl(world, gpus()) == []


def test_good_nccl_of_a_vendor_image(tmp_path: Path) -> None:
    """NVIDIA's images build torch against the system's NCCL; a package beside it serves something else."""
    system = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
    files = {
        **torch_files("2.6.0a0+ecf3bae40a.nv25.01", site="/usr/local/lib/python3.12/dist-packages", cuda="12.8"),
        "/usr/local/lib/python3.12/dist-packages/nvidia_nccl_cu12-2.20.5.dist-info": None,
        "/usr/local/lib/python3.12/dist-packages/torch-2.6.0a0+ecf3bae40a.nv25.01.dist-info/METADATA": "Name: torch\n",
        "/etc/ld.so.cache": f"\0{system}\0",
    }
    world = world_with(tmp_path, files)
    world.record = {**world.record, "python_path": ["/usr/local/lib/python3.12/dist-packages"]}
    library = "/usr/local/lib/python3.12/dist-packages/torch/lib/libtorch_cuda.so"
    write_elf(tmp_path, library, make_elf(needed=["libnccl.so.2"], runpath="$ORIGIN", wanted=["ncclNew"]))
    write_nccl(tmp_path, system, "2.25.1", "12.8")
    write_nccl(
        tmp_path, "/usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2", "2.20.5", symbols=("ncclOld",)
    )
    software = read_software(
        world, PLANNED, settings(LD_LIBRARY_PATH="/usr/local/cuda/compat/lib:/usr/local/nvidia/lib")
    )
    assert [(item.origin, item.version) for item in software.nccl_libraries] == [
        ("system", "2.25.1"),
        ("wheel", "2.20.5"),
    ]
    assert list(nccl_is_the_one_that_torch_needs(PLANNED, software, gpus())) == []
    assert list(nccl_is_there(PLANNED, software, LINUX)) == []


def test_bad_nccl_of_a_source_build(tmp_path: Path) -> None:
    """No metadata says which version is right; that the library lacks a symbol does."""
    world = cuda_world(tmp_path, {f"{SITE}/torch-2.13.0+cu130.dist-info/METADATA": "Name: torch\n"}, rpath=None)
    write_nccl(tmp_path, WHEEL, "2.28.9")
    write_nccl(tmp_path, OLD, "2.18.3", symbols=("ncclOld",))
    finding = the_finding(judge_nccl(world, LD_LIBRARY_PATH="/opt/nccl/lib"))
    assert (finding.code, finding.severity) == ("DC331", Severity.ERROR)


@pytest.mark.parametrize(
    "software",
    [
        pytest.param(CUDA_BUILD, id="wheel"),
        pytest.param(CPU_BUILD, id="CPU build"),
        pytest.param(CUDA_BUILD._replace(nccl_linked=False, nccl_libraries=()), id="NCCL is built in"),
        pytest.param(Software("3.11.9"), id="no torch"),
    ],
)
def test_good_nccl(software: Software) -> None:
    assert list(nccl_is_the_one_that_torch_needs(PLANNED, software, gpus())) == []
    assert list(nccl_is_there(PLANNED, software, LINUX)) == []


def test_the_version_of_a_library_without_text_comes_from_its_name(tmp_path: Path) -> None:
    files = {"/opt/nccl/lib/libnccl.so.2": {"link": "libnccl.so.2.18.3"}, "/opt/nccl/lib/libnccl.so.2.18.3": ""}
    world = cuda_world(tmp_path, files)
    found = read_software(world, PLANNED, settings(LD_PRELOAD=OLD))
    assert found.nccl_libraries == (Library(OLD, "LD_PRELOAD", "2.18.3"),)
    finding = the_finding(nccl_is_the_one_that_torch_needs(PLANNED, found, NO_GPU))
    assert "which is older than the nvidia-nccl-cu13==2.28.9 that torch requires" in finding.message


# DC332 nccl-library-missing


def test_bad_nccl_missing(tmp_path: Path) -> None:
    software = read_software(cuda_world(tmp_path), PLANNED, Settings())
    assert (software.nccl_linked, software.nccl_libraries) == (True, ())
    finding = the_finding(nccl_is_there(PLANNED, software, LINUX))
    assert (finding.code, finding.severity) == ("DC332", Severity.ERROR)
    assert finding.fix.command == "python -m pip install --force-reinstall --no-deps nvidia-nccl-cu13==2.28.9"
    assert the_finding(nccl_is_there(Launch(), software, LINUX)).severity is Severity.INFO
    assert list(nccl_is_there(PLANNED, software, Platform("win32"))) == []


def test_bad_nccl_missing_without_the_right_to_install(tmp_path: Path) -> None:
    finding = the_finding(nccl_is_there(PLANNED, CUDA_BUILD._replace(nccl_libraries=(), writable=False), LINUX))
    assert (finding.fix.by, finding.fix.command) == ("admin", None)


def test_good_nccl_missing_of_the_system(tmp_path: Path) -> None:
    world = cuda_world(tmp_path, {"/etc/ld.so.cache": f"\0{OLD}\0"})
    write_nccl(tmp_path, OLD, "2.28.9")
    assert list(nccl_is_there(PLANNED, read_software(world, PLANNED, Settings()), LINUX)) == []


def test_good_nccl_missing_torch_finds_it_by_itself(tmp_path: Path) -> None:
    """Where the loader finds none, torch's import looks through all folders of Python."""
    world = cuda_world(tmp_path, rpath=None)
    world.record = {**world.record, "python_path": [SITE, "/home/user/.local/site-packages"]}
    write_nccl(tmp_path, "/home/user/.local/site-packages/nvidia/nccl/lib/libnccl.so.2", "2.28.9")
    assert list(nccl_is_there(PLANNED, read_software(world, PLANNED, Settings()), LINUX)) == []


def test_nccl_missing_is_not_checked_where_nothing_tells(tmp_path: Path) -> None:
    software = CUDA_BUILD._replace(nccl_linked=None, nccl_required=None, nccl_libraries=())
    with pytest.raises(Unavailable, match="can't be read"):
        list(nccl_is_there(PLANNED, software, LINUX))


# DC333 cuda-compat-conflict

COMPAT = DriverLibrary("/usr/local/cuda/compat/lib/libcuda.so.1", "LD_LIBRARY_PATH", "580.65.06")


@pytest.mark.parametrize(
    ("launch", "library", "cards", "severity", "words"),
    [
        pytest.param(
            PLANNED,
            COMPAT,
            gpus("NVIDIA GeForce RTX 4090", driver="550.54.15"),
            Severity.ERROR,
            "RTX 4090",
            id="GeForce",
        ),
        pytest.param(
            PLANNED, COMPAT, gpus(driver="590.10"), Severity.ERROR, "older than the driver 590.10", id="old compat"
        ),
        pytest.param(
            PLANNED,
            COMPAT._replace(origin="system"),
            gpus("NVIDIA GeForce RTX 4090", driver="550.54.15"),
            Severity.ERROR,
            "by way of system",
            id="ldconfig",
        ),
        pytest.param(
            Launch(), COMPAT, gpus("NVIDIA GeForce RTX 4090", driver="550.54.15"), Severity.INFO, "4090", id="no launch"
        ),
    ],
)
def test_bad_compat(launch: Launch, library: DriverLibrary, cards: Gpus, severity: Severity, words: str) -> None:
    finding = the_finding(driver_library_fits(launch, library, cards))
    assert (finding.code, finding.severity) == ("DC333", severity)
    assert words in finding.message


@pytest.mark.parametrize(
    ("library", "cards"),
    [
        pytest.param(COMPAT, gpus(driver="550.54.15"), id="a data-centre GPU is what it is made for"),
        pytest.param(COMPAT, gpus("NVIDIA GeForce RTX 4090", driver="580.65.06"), id="the driver's own version"),
        pytest.param(
            DriverLibrary("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "system", "550.54.15"),
            gpus("NVIDIA GeForce RTX 4090", driver="550.54.15"),
            id="the driver's own",
        ),
        pytest.param(COMPAT._replace(version=None), gpus("NVIDIA GeForce RTX 4090"), id="a version that can't be told"),
        pytest.param(COMPAT, gpus("AMD Instinct MI300X")._replace(vendor="amd"), id="AMD"),
    ],
)
def test_good_compat(library: DriverLibrary, cards: Gpus) -> None:
    assert list(driver_library_fits(PLANNED, library, cards)) == []


def test_the_driver_library_is_read(tmp_path: Path) -> None:
    files = {
        "/usr/local/cuda/compat/lib.real/libcuda.so.1": {"link": "libcuda.so.580.65.06"},
        "/usr/local/cuda/compat/lib.real/libcuda.so.580.65.06": "",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1": {"link": "libcuda.so.550.54.15"},
        "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15": "",
        "/etc/ld.so.cache": "\0/usr/lib/x86_64-linux-gnu/libcuda.so.1\0",
    }
    world = recorded_world(tmp_path, files=files)
    own = DriverLibrary("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "system", "550.54.15")
    assert (
        read_driver_library(world, settings(LD_LIBRARY_PATH="/usr/local/cuda/compat/lib:/usr/local/nvidia/lib")) == own
    )
    assert not own.compat
    found = read_driver_library(world, settings(LD_LIBRARY_PATH="/usr/local/cuda/compat/lib.real"))
    assert found == DriverLibrary("/usr/local/cuda/compat/lib.real/libcuda.so.1", "LD_LIBRARY_PATH", "580.65.06")
    assert found.compat


def test_no_driver_library_is_not_checked(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="libnvidia-ml"):
        read_driver_library(recorded_world(tmp_path), Settings())
    with pytest.raises(Unavailable, match="win32"):
        read_driver_library(recorded_world(tmp_path, platform="win32"), Settings())


# DC334 nccl-plugin-mismatch


@pytest.mark.parametrize(
    ("launch", "severity"),
    [
        pytest.param(TWO_NODES, Severity.WARNING, id="two nodes"),
        pytest.param(PLANNED, Severity.INFO, id="one node needs no network"),
        pytest.param(Launch(), Severity.INFO, id="nothing is launched"),
    ],
)
def test_bad_plugin(launch: Launch, severity: Severity) -> None:
    plugins = NcclPlugins(
        (Plugin("NCCL_NET_PLUGIN", "ofi", "environment"), Plugin("NCCL_TUNER_PLUGIN", "x", "y", "/x.so"))
    )
    finding = the_finding(named_plugins_are_there(launch, plugins))
    assert (finding.code, finding.severity, finding.where.variable) == ("DC334", severity, "NCCL_NET_PLUGIN")
    assert finding.fix.by == "user"


def test_bad_plugin_of_a_site(tmp_path: Path) -> None:
    plugins = NcclPlugins((Plugin("NCCL_NET_PLUGIN", "gone", "/etc/nccl.conf:3"),))
    fix = the_finding(named_plugins_are_there(TWO_NODES, plugins)).fix
    assert fix.by == "site"
    assert "/etc/nccl.conf:3" in fix.text


@pytest.mark.parametrize(
    ("launch", "plugins"),
    [
        pytest.param(TWO_NODES, NcclPlugins(), id="none is named"),
        pytest.param(TWO_NODES, NcclPlugins((Plugin("NCCL_NET_PLUGIN", "ofi", "environment", "/x.so"),)), id="found"),
        pytest.param(
            TWO_NODES._replace(backend="gloo"),
            NcclPlugins((Plugin("NCCL_NET_PLUGIN", "ofi", "environment"),)),
            id="gloo",
        ),
    ],
)
def test_good_plugin(launch: Launch, plugins: NcclPlugins) -> None:
    assert list(named_plugins_are_there(launch, plugins)) == []


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("NCCL_NET_PLUGIN", "ofi", ["/opt/ofi/lib/libnccl-net-ofi.so"]),
        ("NCCL_NET_PLUGIN", "libnccl-net-ofi.so", ["/opt/ofi/lib/libnccl-net-ofi.so"]),
        ("NCCL_NET_PLUGIN", "/opt/ofi/lib/libnccl-net-ofi.so", ["/opt/ofi/lib/libnccl-net-ofi.so"]),
        ("NCCL_NET_PLUGIN", "ofi,spcx", ["/opt/ofi/lib/libnccl-net-ofi.so", None]),
        ("NCCL_NET_PLUGIN", "libnccl-net-gone.so", [None]),
        ("NCCL_NET_PLUGIN", "/opt/gone.so", [None]),
        ("NCCL_NET_PLUGIN", "none", []),
        ("NCCL_NET_PLUGIN", "STATIC_PLUGIN", []),
        ("NCCL_NET_PLUGIN", "", []),
        ("NCCL_TUNER_PLUGIN", "ofi", ["/opt/ofi/lib/libnccl-tuner-ofi.so"]),
        ("NCCL_TUNER_PLUGIN", "wheel", [f"{SITE}/nvidia/nccl/lib/libnccl-tuner-wheel.so"]),
    ],
)
def test_named_plugins_are_looked_for(tmp_path: Path, variable: str, value: str, found: list[str | None]) -> None:
    files = {
        "/opt/ofi/lib/libnccl-net-ofi.so": "",
        "/opt/ofi/lib/libnccl-tuner-ofi.so": "",
        f"{SITE}/nvidia/nccl/lib/libnccl-tuner-wheel.so": "",
    }
    world = world_with(tmp_path, files)
    plugins = read_plugins(world, settings(LD_LIBRARY_PATH="/opt/ofi/lib", **{variable: value}))
    assert [plugin.path for plugin in plugins.named] == found
    assert all(plugin.variable == variable for plugin in plugins.named)


#: What stands around the list in the wheel of torch 2.9.1 for CUDA 12.8; nothing separates it from what comes before.
BUILT_FOR = b"string ipc_hsm_70 sm_75 sm_80 sm_90 compute_90\0\0\0/pytorch/torch/csrc/cuda/Module.cpp\0"


@pytest.mark.parametrize(
    ("constants", "architectures"),
    [
        (BUILT_FOR, ("sm_70", "sm_75", "sm_80", "sm_90", "compute_90")),
        (b"x\0sm_90a\0", ("sm_90a",)),
        (b"x\0gfx90a:xnack- gfx942 gfx11-generic\0", ("gfx90a:xnack-", "gfx942", "gfx11-generic")),
        (b"x\0sm_80 sm_90\0compute_70\0", ()),
        (b"x\0sm_80 is too old\0", ()),
    ],
)
def test_the_architectures_of_torch(tmp_path: Path, constants: bytes, architectures: tuple[str, ...]) -> None:
    world = cuda_world(tmp_path)
    write_elf(tmp_path, f"{SITE}/torch/lib/libtorch_python.so", make_elf(rodata=constants))
    assert read_software(world, Launch(), Settings()).architectures == architectures


def test_a_library_that_can_not_be_read_tells_no_architectures(tmp_path: Path) -> None:
    assert read_software(cuda_world(tmp_path), Launch(), Settings()).architectures == ()


@pytest.mark.parametrize(("architecture", "codes"), [("12.0", ["DC335"]), ("9.0", [])])
def test_bad_and_good_dc335_in_env(tmp_path: Path, architecture: str, codes: list[str]) -> None:
    """What is read of torch's library reaches the rule."""
    world = cuda_world(tmp_path)
    write_elf(tmp_path, f"{SITE}/torch/lib/libtorch_python.so", make_elf(rodata=BUILT_FOR.replace(b" compute_90", b"")))
    launch = make_launch({}, options=LaunchOptions(nproc_per_node="1"))
    gpus = Gpus("nvidia", (Gpu(0, "GPU-0", "a card", architecture=architecture),), "580.65.06", "13.0")
    report = examine(launch, world, facts={Gpus: gpus}, selection=Selection(select=("DC335",)))
    assert [item.code for item in report.findings] == codes
    assert "DC335" in report.checked


# on this machine


def test_the_torch_of_this_machine() -> None:
    """What the files say is what torch says of itself, where it is installed."""
    software = read_software(World(), Launch(), Settings())
    assert software.python == ".".join(str(part) for part in sys.version_info[:3])
    code = "import torch; print(torch.__version__, torch.version.cuda, torch.version.hip)"
    code += "; print(*(getattr(torch._C, '_cuda_getArchFlags', str)() or '').split())"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True)
    if done.returncode:
        assert software.torch is None or "No module named" not in done.stderr.splitlines()[-1]
        return
    expected = [str(software.torch), str(software.cuda), str(software.hip), *software.architectures]
    assert done.stdout.split() == expected
