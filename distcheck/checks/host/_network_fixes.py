"""How a variable of NCCL or gloo is fixed where it was set, and how messages name settings and lists.

Shared by the modules ``interfaces``, ``fabric`` and ``cloud_networks``; it judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from distcheck.core.model import Fix, Unavailable
from distcheck.launch.settings import COMMAND, ENVIRONMENT, LAUNCHER, Setting

from .platform import Platform

#: So many names are shown in a message; the rest stands in the evidence.
MOST_SHOWN = 6


def listed(names: Iterable[str]) -> str:
    """Names for a message, at most MOST_SHOWN of them; ``none`` without any."""
    everyone = list(names)
    shown = ", ".join(everyone[:MOST_SHOWN]) or "none"
    return f"{shown} and {len(everyone) - MOST_SHOWN} more" if len(everyone) > MOST_SHOWN else shown


def written(setting: Setting) -> str:
    """A setting for a message: name and value, and the file that it comes from."""
    by_file = setting.origin not in (ENVIRONMENT, LAUNCHER, COMMAND)
    return f"{setting.name}={setting.value}" + (f" (from {setting.origin})" if by_file else "")


def change(setting: Setting | None, text: str, command: str | None) -> Fix:
    """A fix for the job script: what it exports wins over files, but an assignment on the launch line wins over it."""
    if setting is not None and setting.origin == COMMAND:
        return Fix(text, where="launch-line")
    return Fix(text, command=command, where="job-script")


def leave_out(setting: Setting, then: str) -> Fix:
    """A variable goes where it was set; what the site set is the site's to change."""
    if setting.by_site:
        return Fix(
            f"ask the administrators of this cluster why {setting.origin} sets {setting.name}, and measure with "
            f"and without it before a change; {then}",
            by="site",
            where="host",
        )
    if not setting.by_user:
        return Fix(f"take {setting.name} out of {setting.origin}; {then}", where="host")
    return change(setting, f"remove {setting.name}; {then}", f"unset {setting.name}")


def let_rdma_in(platform: Platform | Unavailable) -> Fix:
    """How a process gets at the RDMA devices, by what this machine is."""
    container = None if isinstance(platform, Unavailable) else platform.container
    if container == "kubernetes":
        return Fix(
            "request the cluster's RDMA resource for the pod (an rdma/… or vpc.amazonaws.com/efa limit; 'kubectl "
            "describe node' lists it) and add the capability IPC_LOCK",
            where="job-script",
        )
    if container in ("docker", "podman"):
        return Fix(
            "start the container with --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1",
            where="launch-line",
        )
    return Fix(
        "have an administrator load ib_uverbs and let users open /dev/infiniband/uverbs* (rdma-core's udev rules do), "
        "or pass /dev/infiniband into the container",
        by="admin",
        where="host",
    )
