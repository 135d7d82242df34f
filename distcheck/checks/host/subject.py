"""What was checked, in few words: for the first line of a report and the ``subject`` of its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.core.model import Unavailable
from distcheck.launch.model import Launch

from .gpus import Gpus
from .hostnames import HostName
from .platform import Platform
from .software import Software


def describe(launch: Launch, facts: Mapping[str, Any], host: str) -> dict[str, Any]:
    """The subject of a report on one host: names, versions, and ``line``, the same as short phrases."""
    own_name = facts.get(HostName.__name__)
    gpus = facts.get(Gpus.__name__)
    software = facts.get(Software.__name__)
    subject: dict[str, Any] = {
        "host": own_name.name.name if isinstance(own_name, HostName) else host,
        "launcher": launch.launcher,
        "scheduler": launch.scheduler,
        "rank": launch.rank,
        "gpus": [gpu.name for gpu in gpus.gpus] if isinstance(gpus, Gpus) else None,
        "driver": gpus.driver_version if isinstance(gpus, Gpus) else None,
    }
    if isinstance(software, Software):
        subject.update(
            python=software.python, torch=software.torch, cuda=software.cuda, hip=software.hip, nccl=_nccl(software)
        )
    subject["line"] = [
        *_launch_phrases(launch),
        str(subject["host"]),
        *_host_phrases(facts, gpus),
        *_software_phrases(software),
    ]
    return subject


def _launch_phrases(launch: Launch) -> Iterator[str]:
    parts = dict.fromkeys(part for part in (launch.scheduler, launch.launcher) if part)
    size = ""
    if launch.nnodes is not None and launch.nnodes > 1:
        size = f"{launch.nnodes} nodes"
    here = launch.ranks_here
    if here is not None:
        size = f"{size} × {here} processes" if size else f"{here} process{'es' * (here != 1)}"
    if parts or size:
        yield " ".join([*parts, size]).strip()


def _host_phrases(facts: Mapping[str, Any], gpus: object) -> Iterator[str]:
    platform = facts.get(Platform.__name__)
    if isinstance(platform, Platform) and platform.container:
        yield f"{platform.container} container" if platform.container != "kubernetes" else "kubernetes pod"
    if isinstance(gpus, Gpus):
        kinds = Counter(gpu.name or "unknown GPU" for gpu in gpus.gpus)
        yield ", ".join(f"{count} × {name}" for name, count in kinds.items()) or "no GPU"
        if gpus.driver_version:
            yield f"driver {gpus.driver_version}"
    elif isinstance(gpus, Unavailable):
        yield "no GPU driver" if "no NVIDIA driver" in gpus.why else "GPUs not seen"


def _software_phrases(software: object) -> Iterator[str]:
    if not isinstance(software, Software):
        return
    yield f"torch {software.torch}" if software.torch else "no torch"
    nccl = _nccl(software)
    if nccl:
        yield f"NCCL {nccl}"


def _nccl(software: Software) -> str | None:
    """Return the version that torch will load, as far as files show it."""
    for library in software.nccl_libraries[:1]:
        if library.version:
            return library.version
    for _, version in software.nccl_packages:
        return version
    return None
