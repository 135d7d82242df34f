"""A machine that is not this one: a file tree and a few recorded answers behind the interface of World."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distcheck.core.model import Unavailable
from distcheck.core.world import Address, Space, World

HOSTS = Path(__file__).parent / "hosts"


class RecordedWorld(World):
    """A World whose files stand below a folder, and whose other answers come from a mapping.

    Keys of the record: ``environ``, ``platform``, ``host_name``, ``full_host_name``, ``names`` (name to addresses, or
    to a text: the resolver's error), ``addresses`` (interface, family, address, netmask), ``limits`` (name to soft and
    hard), ``affinity``, ``cpus``, ``user_id``, ``spaces`` (path to total and free bytes), ``taken_ports``,
    ``ports_taken_on_ipv6``, ``listeners`` ("address:port" to what it says, "" for silence, a number for the error of
    connecting), ``working_folder``, ``python_path``,
    ``python_version``, ``python_executable``, ``now``.
    """

    def __init__(self, root: Path, record: Mapping[str, Any]) -> None:
        super().__init__(record.get("environ", {}), root=str(root))
        self.record = record
        self.home = record.get("home", "/home/user")
        self.platform = record.get("platform", "linux")
        self.pid = record.get("pid", 4711)

    @property
    def working_folder(self) -> str:
        return str(self.record.get("working_folder", "/home/user"))

    @property
    def user_id(self) -> int:
        return int(self.record.get("user_id", 1000))

    @property
    def python_path(self) -> tuple[str, ...]:
        return tuple(self.record.get("python_path", ("/usr/lib/python3/site-packages",)))

    @property
    def python_version(self) -> str:
        return str(self.record.get("python_version", "3.11.9"))

    @property
    def python_executable(self) -> str:
        return str(self.record.get("python_executable", "/usr/bin/python3"))

    def space(self, path: str) -> Space:
        spaces = self.record.get("spaces", {})
        if path not in spaces:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return Space(*spaces[path])

    def writable(self, path: str) -> bool:
        return path not in self.record.get("unwritable", ())

    def resource_limit(self, name: str) -> tuple[int | None, int | None]:
        limits = self.record.get("limits", {})
        if name not in limits:
            raise Unavailable(f"the limit {name} was not recorded")
        soft, hard = limits[name]
        return soft, hard

    def cpu_affinity(self) -> tuple[int, ...]:
        return tuple(self.record.get("affinity", range(self.cpu_count())))

    def cpu_count(self) -> int:
        return int(self.record.get("cpus", 8))

    def now(self) -> float:
        return float(self.record.get("now", 1_795_000_000.0))

    def host_name(self) -> str:
        return str(self.record.get("host_name", "node1"))

    def full_host_name(self) -> str:
        return str(self.record.get("full_host_name", self.host_name()))

    def resolve(self, name: str) -> tuple[str, ...]:
        found = self.record.get("names", {}).get(name)
        if found is None:
            try:
                socket.inet_aton(name)
            except OSError:
                found = "Name or service not known"
            else:
                return (name,)
        if isinstance(found, str):
            raise socket.gaierror(socket.EAI_NONAME, found)
        return tuple(found)

    def addresses(self) -> tuple[Address, ...]:
        return tuple(Address(*entry) for entry in self.record.get("addresses", ()))

    def try_listen(self, port: int) -> bool:
        if port in self.record.get("taken_ports", ()):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        if 0 < port < 1024 and self.user_id != 0:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return port not in self.record.get("ports_taken_on_ipv6", ())

    def connect(
        self, address: str, port: int, *, timeout_s: float, greeting_s: float = 0.0, greeting: bytes = b""
    ) -> bytes | None:
        said = self.record.get("listeners", {}).get(f"{address}:{port}")
        if said is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        if isinstance(said, int):
            raise OSError(said, os.strerror(said))
        return said.encode() or None

    def nvml(self) -> Any:
        provider = self.record.get("nvml")
        if provider is None:
            raise Unavailable("no NVIDIA driver: its library libnvidia-ml is not found")
        return provider


def recorded_world(folder: Path, **record: Any) -> RecordedWorld:
    """A world made in a test: ``files`` maps paths to contents (``{"link": target}`` makes a symbolic link)."""
    write_files(folder, record.pop("files", {}))
    return RecordedWorld(folder, record)


def load_world(name: str, folder: Path) -> RecordedWorld:
    """The machine ``tests/hosts/NAME``, its file tree written into a folder."""
    record = json.loads((HOSTS / name / "world.json").read_text())
    write_files(folder, json.loads((HOSTS / name / "files.json").read_text()))
    return RecordedWorld(folder, record)


def write_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Make a file tree: contents are text; ``{"link": target}`` a symbolic link; None an empty folder."""
    for name, content in files.items():
        path = folder / name.lstrip("/")
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            path.symlink_to(content["link"])
        else:
            path.write_text(content)
