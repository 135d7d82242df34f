"""The software that a job will load: torch, CUDA, NCCL, from metadata and files only. Nothing is imported.

It reports which torch ``import torch`` would take, which libnccl.so.2 the loader would give it, and whether both fit.
Driver and GPU architectures are the matter of ``gpus.py``; comparing hosts that of ``cluster``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.patterns import lazy
from distcheck.core.registry import fact, probe
from distcheck.core.world import NO_NVML, World
from distcheck.launch.model import Launch
from distcheck.launch.settings import Settings
from distcheck.rules import shared_fixes

from . import _loader
from .gpus import Gpus
from .platform import Platform

Version = tuple[int, ...]

#: Header lines of torch's METADATA come first; with the licences of 2.13 they are 8 KiB long.
METADATA_BYTES = 64 * 1024
#: Packages in addition to torch and NCCL whose versions matter most to a reader of a report.
PACKAGES = frozenset(
    {
        "accelerate",
        "apex",
        "colossalai",
        "datasets",
        "deepspeed",
        "distcheck",
        "flash-attn",
        "horovod",
        "lightning",
        "lightning-fabric",
        "megatron-core",
        "mosaicml",
        "nvidia-nvshmem-cu12",
        "nvidia-nvshmem-cu13",
        "peft",
        "pytorch-lightning",
        "ray",
        "torchao",
        "torchft-nightly",
        "torchtitan",
        "torchvision",
        "transformer-engine",
        "transformers",
        "triton",
        "vllm",
    }
)
NCCL_SONAME = "libnccl.so.2"
#: What each release of NCCL writes of itself into its library (``NCCL version 2.27.5+cuda12.9``).
NCCL_VERSION = lazy(rb"NCCL version (\d+\.\d+\.\d+)(?:\+cuda(\d+\.\d+))?")
#: What ``torch.cuda.get_arch_list()`` splits, a constant of libtorch_python.so: ``sm_80 sm_90 compute_90``, for ROCm
#: ``gfx90a gfx942`` (torch/csrc/cuda/Module.cpp, ``CUDA_ARCH_FLAGS``; read in the wheel of torch 2.9.1 for CUDA 12.8).
_ARCHITECTURE = rb"(?:(?:sm|compute)_\d{2,3}[af]?|gfx[0-9a-f]{1,4}(?:-\d)*(?:-generic)?(?::[a-z]+[+-])*)"
ARCHITECTURES = lazy(_ARCHITECTURE + rb"(?: " + _ARCHITECTURE + rb")*(?=\0)")
#: The first torch whose store uses libuv by default; its Windows builds have none (pytorch/pytorch#139990).
LIBUV_BY_DEFAULT = (2, 4)
#: The last version whose init_process_group was reported to need libuv on Windows; 2.13 does not.
LIBUV_REQUESTED_ON_WINDOWS = (2, 7)
#: Launchers that serve their store through torch's elastic agent, which takes no notice of USE_LIBUV (torch 2.4 to
#: 2.13; pytorch/pytorch#196855 is open).
ELASTIC_LAUNCHERS = frozenset({"torchrun", "torch.distributed.launch", "accelerate"})
#: Programs that start ranks, and whose folder shows their Python.
LAUNCHER_PROGRAM = lazy(r"(?:torchrun|accelerate|deepspeed|python(?:\d(?:\.\d+)?)?)(?:\.exe)?$")
#: The plug-ins that a variable may name, and what NCCL puts before a bare name (NCCL 2.19 to 2.30, ``plugin_open.cc``).
PLUGIN_VARIABLES = {"NCCL_NET_PLUGIN": "libnccl-net", "NCCL_TUNER_PLUGIN": "libnccl-tuner"}


class Library(NamedTuple):
    """A shared library that the loader, or torch, would find."""

    path: str
    #: where it was found: ``wheel``, ``LD_LIBRARY_PATH``, ``LD_PRELOAD``, ``system``
    origin: str
    version: str | None = None
    #: CUDA version that it was built with
    cuda: str | None = None


class Software(NamedTuple):
    """What is installed for this Python. ``torch`` is None where it is not."""

    python: str
    torch: str | None = None
    #: folder or file that ``import torch`` would take
    torch_path: str | None = None
    #: CUDA version that torch was built with, from ``torch/version.py``; None for a CPU or ROCm build
    cuda: str | None = None
    hip: str | None = None
    #: architectures that torch was built for, as its library lists them; empty: unknown
    architectures: tuple[str, ...] = ()
    #: installed NCCL packages, name and version
    nccl_packages: tuple[tuple[str, str], ...] = ()
    #: the NCCL package that torch requires, from its metadata: ``nvidia-nccl-cu12==2.27.5``
    nccl_required: str | None = None
    #: the NCCL libraries, first the one that the loader gives to torch
    nccl_libraries: tuple[Library, ...] = ()
    #: what Python would take for torch instead of the installed one, relative to the working directory
    shadowing: tuple[str, ...] = ()
    #: other packages that bear on training, name and version
    packages: tuple[tuple[str, str], ...] = ()
    #: torch's library links libnccl.so.2; None: unknown
    nccl_linked: bool | None = None
    #: symbols that torch needs from NCCL and the first library does not have; None: not checked
    nccl_missing: tuple[str, ...] | None = None
    #: folder of the launcher's program, where that belongs to another Python than this one
    elsewhere: str | None = None
    #: this user may change the folder that torch is installed in
    writable: bool = False

    @property
    def backends(self) -> frozenset[str]:
        """The backends that this build of torch has; empty where torch is missing."""
        if self.torch is None:
            return frozenset()
        return frozenset({"gloo", "nccl"} if self.cuda or self.hip else {"gloo"})


class DriverLibrary(NamedTuple):
    """CUDA's driver library as the loader finds it."""

    path: str
    #: ``LD_LIBRARY_PATH`` or ``system``
    origin: str
    #: driver version of the library, such as ``550.54.15``; None: its name does not show it
    version: str | None = None

    @property
    def compat(self) -> bool:
        """It comes from a package for forward compatibility, not from the driver."""
        return "/compat/" in self.path


class Plugin(NamedTuple):
    """A plug-in of NCCL that a variable names."""

    variable: str
    #: one name; a variable may hold several
    name: str
    #: who set the variable, as in ``Setting.origin``
    origin: str
    #: where it was found, None where it was not
    path: str | None = None


class NcclPlugins(NamedTuple):
    """The plug-ins that variables name."""

    named: tuple[Plugin, ...] = ()


@fact(limit_s=2)
def read_software(world: World, launch: Launch, settings: Settings) -> Software:
    """From the folders of ``sys.path``, the working directory and the loader's folders."""
    found: dict[str, tuple[str, str]] = {}
    nccl: dict[str, str] = {}
    for folder in world.python_path:
        for name, version in _packages_in(world, folder):
            found.setdefault(name, (version, folder))
            if name.startswith("nvidia-nccl-cu"):
                nccl.setdefault(name, version)
    software = Software(
        world.python_version,
        nccl_packages=tuple(sorted(nccl.items())),
        packages=tuple(sorted((name, version) for name, (version, _) in found.items() if name in PACKAGES)),
        elsewhere=_launcher_elsewhere(world, launch),
    )
    first = _first_folder(world, launch, settings)
    folders = tuple(dict.fromkeys((*((first,) if first else ()), *world.python_path)))
    torch, shadowing = _find_torch(world, folders)
    software = software._replace(shadowing=tuple(_relative(world, path) for path in shadowing))
    listed = found.get("torch")
    if torch is None:
        # installed in a way that only an import hook knows (an editable build)
        return software if listed is None else software._replace(torch=listed[0])
    values = parse_version_file(world.text_or_empty(f"{torch}/version.py"))
    folder = torch.rpartition("/")[0]
    software = software._replace(
        torch=values.get("__version__") or (listed[0] if listed else "unknown"),
        torch_path=shadowing[0] if shadowing else torch,
        cuda=values.get("cuda"),
        hip=values.get("hip"),
        writable=world.writable(folder),
    )
    if software.cuda or software.hip:
        software = software._replace(architectures=_architectures(world, torch))
    if software.cuda and world.platform == "linux":
        required = _nccl_requirement(world, folder, listed[0]) if listed and listed[1] == folder else None
        software = _with_nccl(world, settings, torch, software._replace(nccl_required=required))
    return software


@fact()
def read_driver_library(world: World, settings: Settings) -> DriverLibrary:
    """Which libcuda.so.1 a process would load."""
    if world.platform != "linux":
        raise Unavailable(f"only Linux has CUDA's compatibility libraries, this is {world.platform}")
    for path, origin in _loader.search(world, "libcuda.so.1", settings.get("LD_LIBRARY_PATH")):
        return DriverLibrary(path, origin, _version_of_link(world, path, "libcuda.so."))
    # one missing driver is one reason
    if not any(True for _ in _loader.search(world, "libnvidia-ml.so.1", settings.get("LD_LIBRARY_PATH"))):
        raise Unavailable(NO_NVML)
    raise Unavailable("no NVIDIA driver: its library libcuda.so.1 is not found")


@fact()
def read_plugins(world: World, settings: Settings) -> NcclPlugins:
    """The plug-ins that variables name, and where the loader finds them."""
    named = []
    for variable, prefix in PLUGIN_VARIABLES.items():
        setting = settings.of(variable)
        if setting is None:
            continue
        for name in filter(None, setting.value.split(",")):
            # "none" and STATIC_PLUGIN load no file
            if name.lower() != "none" and not name.startswith("STATIC_PLUGIN"):
                named.append(Plugin(variable, name, setting.origin, _find_plugin(world, settings, name, prefix)))
    return NcclPlugins(tuple(named))


@probe(rules.DC120)
def backend_is_built_in(
    launch: Launch, software: Software, gpus: Gpus | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """Report a torch without the backend of the launch."""
    _insist_on_this_python(software)
    if software.torch is None:
        return
    cards = 0 if isinstance(gpus, Unavailable) else len(gpus.gpus)
    system = "linux" if isinstance(platform, Unavailable) else platform.system
    stated = "nccl" in re.split(r"[:,]", launch.backend or "")
    evidence = {
        "torch": software.torch,
        "cuda": software.cuda,
        "hip": software.hip,
        "backend": launch.backend,
        "gpus": cards,
    }
    found = functools.partial(rules.DC120.found, where=Where(object=f"torch {software.torch}"), evidence=evidence)
    if stated and system != "linux":
        yield found(
            f"the launch uses nccl, and no torch for {'Windows' if system == 'win32' else 'macOS'} has it",
            severity=Severity.ERROR if launch.launched else Severity.INFO,
            fix=shared_fixes.GLOO_ON_WINDOWS,
        )
    elif "nccl" not in software.backends and (stated or cards):
        requested = stated or launch.nproc_text == "gpu"
        yield found(
            f"torch {software.torch} is built without CUDA and NCCL, "
            + ("and the launch requests nccl" if stated else f"and this host has {cards} GPU{'s' * (cards != 1)}"),
            severity=Severity.ERROR if requested and launch.launched else Severity.INFO,
            fix=shared_fixes.BUILD_FOR_GPUS,
        )
    elif isinstance(gpus, Gpus) and cards and (software.cuda if gpus.vendor == "amd" else software.hip):
        requested = stated or launch.nproc_text == "gpu"
        yield found(
            f"torch {software.torch} is built for {'ROCm' if software.hip else 'CUDA'}, and this host has {cards} "
            f"{'AMD' if gpus.vendor == 'amd' else 'NVIDIA'} GPU{'s' * (cards != 1)}",
            severity=Severity.ERROR if requested and launch.launched else Severity.INFO,
            fix=shared_fixes.BUILD_FOR_GPUS,
        )


@probe(rules.DC122)
def torch_is_the_installed_one(launch: Launch, software: Software) -> Iterator[Finding]:
    """No file of the script's folder or the working directory stands in the way of ``import torch``."""
    for path in software.shadowing:
        module = path.endswith(".py")
        yield rules.DC122.found(
            f"import torch takes {path}, "
            + ("which is no part of torch" if module else "a source tree of torch whose extension is not built"),
            severity=Severity.ERROR if launch.launched else Severity.INFO,
            where=Where(path=path),
            evidence={"path": path, "torch": software.torch},
            fix=Fix(f"rename {path}, and remove the compiled copy in __pycache__ next to it", where="code")
            if module
            else shared_fixes.BUILD_THE_TREE,
        )


@probe(rules.DC123)
def store_needs_no_libuv(
    launch: Launch, software: Software, settings: Settings, platform: Platform
) -> Iterator[Finding]:
    """On Windows the store is made without libuv, which torch's builds for Windows lack."""
    if platform.system != "win32" or software.torch is None or not launch.launched:
        return
    version = version_numbers(software.torch)[:2]
    value = settings.get("USE_LIBUV")
    agent = launch.launcher in ELASTIC_LAUNCHERS
    if version < LIBUV_BY_DEFAULT or launch.agent_store:
        return
    if not agent and (value == "0" or (value is None and version > LIBUV_REQUESTED_ON_WINDOWS)):
        return
    evidence = {"torch": software.torch, "USE_LIBUV": value, "launcher": launch.launcher}
    if agent:
        yield rules.DC123.found(
            f"{launch.launcher} of torch {software.torch} requests libuv for any value of USE_LIBUV, and torch "
            "for Windows has none",
            where=Where(object=launch.launcher),
            evidence=evidence,
            fix=Fix(
                "run it under WSL2. Or start the ranks without a launcher: set RANK, LOCAL_RANK, WORLD_SIZE, "
                "MASTER_ADDR and MASTER_PORT for each, with USE_LIBUV=0 and the backend gloo",
                where="launch-line",
            ),
        )
        return
    yield rules.DC123.found(
        f"torch {software.torch} requests libuv{'' if value is None else f' (USE_LIBUV={value})'}, and torch for "
        "Windows has none",
        where=Where(variable="USE_LIBUV"),
        evidence=evidence,
        fix=Fix("switch it off where all ranks get it", command="set USE_LIBUV=0", where="job-script", safe=True),
    )


@probe(rules.DC330)
def torch_is_installed(launch: Launch, software: Software) -> Iterator[Finding]:
    """The Python that runs the job has torch."""
    if software.torch is not None:
        return
    needed = launch.launched and software.elsewhere is None
    other = f"; the launch takes the Python in {software.elsewhere}" if software.elsewhere else ""
    yield rules.DC330.found(
        f"this Python ({software.python}) has no torch{other}",
        severity=Severity.ERROR if needed else Severity.INFO,
        where=Where(object="torch"),
        evidence={"python": software.python, "launcher_folder": software.elsewhere},
        fix=Fix(
            "run distcheck with the Python of the job (python -m distcheck), or activate the job's environment first; "
            "if torch is missing there too, the selector at pytorch.org/get-started gives the command",
            where="each-task" if launch.stage == "rank" else "this-shell",
        ),
    )


@probe(rules.DC331)
def nccl_is_the_one_that_torch_needs(launch: Launch, software: Software, gpus: Gpus | Unavailable) -> Iterator[Finding]:
    """The libnccl.so.2 that the loader gives to torch has what torch was built against."""
    _insist_on_this_python(software)
    if not software.cuda or software.nccl_linked is False or not software.nccl_libraries:
        return
    library = software.nccl_libraries[0]
    needed = version_numbers(_required_version(software) or "")
    problem = _nccl_problem(software, library, needed, gpus)
    packages = [f"{name} {version}" for name, version in software.nccl_packages]
    evidence = {
        "path": library.path,
        "origin": library.origin,
        "version": library.version,
        "cuda": library.cuda,
        "required": software.nccl_required,
        "packages": packages,
        "missing_symbols": list(software.nccl_missing or ()),
    }
    where = Where(object=library.path)
    if problem is not None:
        yield rules.DC331.found(
            f"torch loads NCCL {library.version or 'of unknown version'} from {library.path} ({library.origin}), "
            f"{problem}",
            severity=Severity.ERROR if launch.launched else Severity.INFO,
            where=where,
            evidence=evidence,
            fix=_give_torch_its_nccl(software, library),
        )
    elif len(packages) > 1:
        yield rules.DC331.found(
            f"{' and '.join(packages)} are installed into the same folder, where "
            f"{library.version or 'the library of one of them'} is in place",
            severity=Severity.INFO,
            where=where,
            evidence=evidence,
            fix=_give_torch_its_nccl(software, library),
        )


@probe(rules.DC332)
def nccl_is_there(launch: Launch, software: Software, platform: Platform | Unavailable) -> Iterator[Finding]:
    """The NCCL library that torch was built to load is found."""
    if isinstance(platform, Platform) and platform.system != "linux":
        return  # torch for Windows and macOS has no NCCL
    _insist_on_this_python(software)
    if not software.cuda or software.nccl_linked is False or software.nccl_libraries:
        return
    if software.nccl_linked is None and software.nccl_required is None:
        raise Unavailable("torch's library can't be read, and no metadata shows which NCCL it needs")
    required = software.nccl_required
    again = f"python -m pip install --force-reinstall --no-deps {required}"
    yield rules.DC332.found(
        f"torch {software.torch} loads {NCCL_SONAME}, and no folder of the loader or of this Python has it",
        severity=Severity.ERROR if launch.launched else Severity.INFO,
        where=Where(object=NCCL_SONAME),
        evidence={
            "torch": software.torch,
            "required": required,
            "packages": [f"{name} {version}" for name, version in software.nccl_packages],
        },
        fix=Fix(
            f"put back what torch requires: {again}" if required else "install NCCL 2 for the CUDA of this torch",
            command=again if required and software.writable else None,
            by="user" if software.writable else "admin",
            where="host",
        ),
    )


@probe(rules.DC333)
def driver_library_fits(launch: Launch, library: DriverLibrary, gpus: Gpus) -> Iterator[Finding]:
    """CUDA's compatibility library is used only with the GPUs and drivers that it is made for."""
    if not library.compat or gpus.vendor != "nvidia":
        return
    driver, own = version_numbers(gpus.driver_version), version_numbers(library.version)
    geforce = sorted({gpu.name for gpu in gpus.gpus if "GeForce" in gpu.name})
    if not driver or not own or own == driver:
        return
    if own < driver:
        problem = f"which is older than the driver {gpus.driver_version}"
    elif geforce:
        problem = f"which works with data-centre GPUs only, and this host has {', '.join(geforce)}"
    else:
        return
    yield rules.DC333.found(
        f"CUDA's library is taken from {library.path} (driver {library.version}, by way of {library.origin}), "
        f"{problem}",
        severity=Severity.ERROR if launch.launched and launch.backend != "gloo" else Severity.INFO,
        where=Where(object=library.path),
        evidence={
            "path": library.path,
            "origin": library.origin,
            "version": library.version,
            "driver_version": gpus.driver_version,
            "geforce": geforce,
        },
        fix=Fix(
            "take the compat folder out of LD_LIBRARY_PATH where the job or the image sets it, so that the driver's "
            "own library is found"
            if library.origin == "LD_LIBRARY_PATH"
            else "build the image without the package cuda-compat, or take its folder out of /etc/ld.so.conf.d and run "
            "ldconfig; an image for a CUDA that the driver supports needs no such package",
            where="job-script" if library.origin == "LD_LIBRARY_PATH" else "host",
        ),
    )


@probe(rules.DC334)
def named_plugins_are_there(launch: Launch, plugins: NcclPlugins) -> Iterator[Finding]:
    """A plug-in that a variable names is found; that none is named or found is normal."""
    if launch.backend == "gloo":
        return
    for plugin in plugins.named:
        if plugin.path is not None:
            continue
        site = plugin.origin.startswith("/")
        yield rules.DC334.found(
            f"{plugin.variable}={plugin.name} names a plug-in that the loader does not find, "
            "so that NCCL goes on without it",
            severity=Severity.WARNING if launch.launched and launch.several_nodes else Severity.INFO,
            where=Where(variable=plugin.variable),
            evidence={"variable": plugin.variable, "name": plugin.name, "origin": plugin.origin},
            fix=Fix(
                "put the folder of the plug-in on LD_LIBRARY_PATH or into the container, the same on all nodes; "
                f"{plugin.variable}=none selects NCCL's own "
                f"network{f' (the value stands in {plugin.origin})' if site else ''}",
                by="site" if site else "user",
                where="host" if site else "job-script",
            ),
        )


def version_numbers(text: str | None) -> Version:
    """The numbers at the beginning of a version: (2, 3, 5) for ``<=2.3.5``; empty where there are none."""
    match = re.match(r"(?:<=)?(\d+(?:\.\d+)*)", text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else ()


# reading: packages


def _packages_in(world: World, folder: str) -> Iterator[tuple[str, str]]:
    """Normalised names and versions of the packages in a folder, from the names of their metadata."""
    for name in world.names_or_empty(folder):
        package = parse_metadata_name(name)
        if package is not None:
            yield package


def parse_metadata_name(name: str) -> tuple[str, str] | None:
    """``torch-2.13.0+cpu.dist-info`` as ``("torch", "2.13.0+cpu")``, eggs alike; None for any other name."""
    stem, dot, kind = name.rpartition(".")
    if not dot or kind not in ("dist-info", "egg-info"):
        return None
    # an egg's name ends with its Python: torch-2.5.1-py3.11.egg-info
    parts = stem.split("-")
    if len(parts) < 2 or not parts[0] or not parts[1]:
        return None
    return re.sub(r"[-_.]+", "-", parts[0]).lower(), parts[1]


def parse_version_file(text: str) -> dict[str, str]:
    """Return the texts that ``torch/version.py`` assigns; other values are skipped."""
    found = {}
    for match in re.finditer(r"^(\w+)(?:\s*:[^=\n]*)?\s*=\s*(['\"])([^'\"\n]*)\2\s*(?:#.*)?$", text, re.MULTILINE):
        found[match[1]] = match[3]
    return found


def parse_requirement(line: str) -> str | None:
    """The NCCL package of a line of METADATA, as ``nvidia-nccl-cu12==2.27.5``; None for other lines and for extras."""
    match = re.match(
        r"Requires-Dist:\s*(nvidia[-_.]nccl[-_.]cu\d+)\s*\(?\s*(==[^\s;)]+)?[^;]*(;.*)?$", line, re.IGNORECASE
    )
    if match is None or re.search(r"\bextra\s*==", match[3] or ""):
        return None
    return re.sub(r"[-_.]+", "-", match[1]).lower() + (match[2] or "")


def _nccl_requirement(world: World, folder: str, version: str) -> str | None:
    text = world.text_or_empty(f"{folder}/torch-{version}.dist-info/METADATA", METADATA_BYTES)
    head = re.split(r"\r?\n\r?\n", text, maxsplit=1)[0]
    return next((found for line in head.splitlines() if (found := parse_requirement(line)) is not None), None)


# reading: which torch


def _first_folder(world: World, launch: Launch, settings: Settings) -> str | None:
    """What Python puts first on its path in the job: the script's folder, or the working directory for ``-m``."""
    if settings.get("PYTHONSAFEPATH"):
        return None
    command = launch.command
    if launch.script and not (command is not None and command.module):
        return _loader.absolute(world, launch.script).rpartition("/")[0] or "/"
    if launch.stage == "rank":
        # this process is started as the job's is: what is first stands in its path already
        return None
    try:
        return world.working_folder
    except OSError:
        return None


def _find_torch(world: World, folders: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The folder of the installed torch, and what Python would find before it.

    Python's own order in each folder: a package, then a module; a folder without ``__init__.py`` only if there is
    neither in any folder.
    """
    shadowing: list[str] = []
    for folder in folders:
        package = f"{folder}/torch"
        if world.exists(f"{package}/__init__.py"):
            if _is_built(world, package):
                return package, tuple(shadowing)
            shadowing.append(package)
        elif world.exists(f"{package}.py"):
            shadowing.append(f"{package}.py")
    return None, tuple(shadowing)


def _is_built(world: World, package: str) -> bool:
    """A source tree has no version file before its first build, and no extension unless it was built in place."""
    if not world.exists(f"{package}/version.py"):
        return False
    if package.rpartition("/")[0].endswith(("/site-packages", "/dist-packages")):
        return True
    try:
        return any(name.startswith("_C.") and name.endswith((".so", ".pyd")) for name in world.list_folder(package))
    except OSError:
        return True


def _relative(world: World, path: str) -> str:
    try:
        here = world.working_folder.rstrip("/") + "/"
    except OSError:
        return path
    return path[len(here) :] if path.startswith(here) else path


def _launcher_elsewhere(world: World, launch: Launch) -> str | None:
    """Return the folder of the planned launcher if it is not that of this Python; None if it is, or if unknown."""
    own = world.python_executable.rpartition("/")[0]
    if launch.stage != "planned" or launch.command is None or not own:
        return None
    program = next((word for word in launch.command.argv if LAUNCHER_PROGRAM.match(word.rpartition("/")[2])), None)
    if program is None:
        return None
    if "/" in program:
        folder = _loader.absolute(world, program).rpartition("/")[0]
    else:
        folder = next((entry.rstrip("/") for entry in world.program_path if world.exists(f"{entry}/{program}")), own)
    return None if folder == own else folder


def _architectures(world: World, torch: str) -> tuple[str, ...]:
    """The architectures that torch was built for; empty where its library holds no list of them, or several."""
    constants = _loader.read_section(world, f"{torch}/lib/libtorch_python.so", b".rodata") or b""
    lists = set(ARCHITECTURES.findall(constants))
    return tuple(lists.pop().decode().split()) if len(lists) == 1 else ()


# reading: NCCL


def _with_nccl(world: World, settings: Settings, torch: str, software: Software) -> Software:
    """The NCCL libraries in the order in which the loader takes them for torch."""
    dynamic = _loader.read_dynamic(world, f"{torch}/lib/libtorch_cuda.so")
    variable = settings.get("LD_LIBRARY_PATH")
    site = torch.rpartition("/")[0]
    # torch's wheels search there before LD_LIBRARY_PATH (--force-rpath in their build scripts, 2.1 to 2.13)
    before = (f"{site}/nvidia/nccl/lib",) if dynamic is None else dynamic.rpath
    after = () if dynamic is None else dynamic.runpath
    found: dict[str, str] = {}
    for entry in _loader.preloaded(world, settings.get("LD_PRELOAD")):
        if entry.rpartition("/")[2].startswith("libnccl.so"):
            candidates = [entry] if "/" in entry else [path for path, _ in _loader.search(world, entry, variable)][:1]
            for path in candidates:
                if world.exists(_loader.absolute(world, path)):
                    found.setdefault(_loader.absolute(world, path), "LD_PRELOAD")
    for path, origin in _loader.search(world, NCCL_SONAME, variable, before=before, after=after):
        found.setdefault(path, origin if origin == "LD_LIBRARY_PATH" else _kind(path))
    # if the loader finds none, torch searches all folders of Python
    for folder in world.python_path:
        path = f"{folder}/nvidia/nccl/lib/{NCCL_SONAME}"
        if path not in found and world.exists(path):
            found[path] = "wheel"
    libraries = tuple(_library(world, path, origin, software) for path, origin in found.items())
    linked = None if dynamic is None else NCCL_SONAME in dynamic.needed
    software = software._replace(nccl_libraries=libraries, nccl_linked=linked)
    if linked and libraries and _is_doubtful(software):
        wanted = _loader.read_symbols(world, f"{torch}/lib/libtorch_cuda.so", "nccl", defined=False)
        given = _loader.read_symbols(world, libraries[0].path, "nccl", defined=True)
        if wanted is not None and given is not None:
            software = software._replace(nccl_missing=tuple(sorted(wanted - given)))
    return software


def _kind(path: str) -> str:
    return "wheel" if "/nvidia/nccl/" in path else "system"


def _library(world: World, path: str, origin: str, software: Software) -> Library:
    match = NCCL_VERSION.search(_loader.read_section(world, path, b".rodata") or b"")
    if match is not None:
        return Library(path, origin, match[1].decode(), match[2].decode() if match[2] else None)
    version = _version_of_link(world, path, "libnccl.so.")
    if version is None and origin == "wheel" and len(software.nccl_packages) == 1:
        version = software.nccl_packages[0][1]
    return Library(path, origin, version)


def _version_of_link(world: World, path: str, prefix: str) -> str | None:
    """Return ``550.54.15`` for ``libcuda.so.1 -> libcuda.so.550.54.15``; None if the name has no version."""
    for _ in range(4):
        name = path.rpartition("/")[2]
        version = name[len(prefix) :] if name.startswith(prefix) else ""
        if re.fullmatch(r"\d+(\.\d+)+", version):
            return version
        target = world.link_or_empty(path)
        if not target:
            return None
        path = target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}"
    return None


def _is_doubtful(software: Software) -> bool:
    """Whether the symbols are worth reading, which takes some tens of milliseconds."""
    first, *others = software.nccl_libraries
    required = _required_version(software)
    if required is not None:
        return first.version is None or version_numbers(first.version)[:2] < version_numbers(required)[:2]
    return first.origin in ("LD_PRELOAD", "LD_LIBRARY_PATH") and any(other.version != first.version for other in others)


def _find_plugin(world: World, settings: Settings, name: str, prefix: str) -> str | None:
    names = [name]
    if "/" in name:
        path = _loader.absolute(world, name)
        return path if world.exists(path) else None
    if not (name.startswith("lib") and name.endswith(".so")):
        names.append(f"{prefix}-{name}.so")
    wheels = [f"{folder}/{part}" for folder in world.python_path for part in ("nvidia/nccl/lib", "torch/lib")]
    for each in names:
        for path, _ in _loader.search(world, each, settings.get("LD_LIBRARY_PATH"), before=wheels):
            return path
    return None


# judging


def _insist_on_this_python(software: Software) -> None:
    """Raise Unavailable if the launch uses another Python: the packages of this one do not apply."""
    if software.elsewhere is not None:
        raise Unavailable(f"the launch takes the Python in {software.elsewhere}; run distcheck with that one")


def _required_version(software: Software) -> str | None:
    _, equals, version = (software.nccl_required or "").partition("==")
    return version if equals else None


def _nccl_problem(
    software: Software, library: Library, needed: tuple[int, ...], gpus: Gpus | Unavailable
) -> str | None:
    """Why torch can't work with this library, None where it can."""
    missing = software.nccl_missing
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"which lacks {missing[0]}{more} that torch needs"
    own = version_numbers(library.version)
    required = software.nccl_required
    if missing is None and needed and own and own[:2] < needed[:2]:
        return f"which is older than the {required} that torch requires"
    if missing is None and needed and not own and len(software.nccl_packages) > 1:
        return f"into whose folder {len(software.nccl_packages)} packages are installed, and torch requires {required}"
    built, wanted = version_numbers(library.cuda)[:1], version_numbers(software.cuda)[:1]
    if built and wanted and built > wanted and not isinstance(gpus, Unavailable):
        supported = version_numbers(gpus.driver_cuda)[:1]
        if supported and supported < built:
            return f"which is built for CUDA {library.cuda}, and the driver supports CUDA {gpus.driver_cuda} only"
    return None


def _give_torch_its_nccl(software: Software, library: Library) -> Fix:
    folder = library.path.rpartition("/")[0]
    if library.origin == "LD_PRELOAD":
        return Fix(f"take {library.path} out of LD_PRELOAD where the job sets it", where="job-script")
    if library.origin == "LD_LIBRARY_PATH":
        return Fix(f"take {folder} out of LD_LIBRARY_PATH where the job sets it", where="job-script")
    required = software.nccl_required
    if required is None:
        return Fix(
            f"install the NCCL that this torch was built against in the place of {library.path}",
            by="admin",
            where="host",
        )
    kept = required.partition("==")[0]
    others = [name for name, _ in software.nccl_packages if name != kept]
    steps = [f"python -m pip install --force-reinstall --no-deps {required}"]
    if others:
        steps.insert(0, f"python -m pip uninstall -y {' '.join(others)}")
    return Fix(
        f"remove {' and '.join(others)}, then put back what torch requires, which the removal takes along"
        if others
        else "put back the version that torch requires",
        command=" && ".join(steps) if software.writable else None,
        by="user" if software.writable else "admin",
        where="host",
        risk="packages that need the other version (CuPy, TensorFlow, JAX) then want an environment of their own"
        if others
        else None,
    )
