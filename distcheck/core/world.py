"""Access to the system: files, environment, limits, network and NVML of this process and this host.

Readers access the system only through a :class:`World`, so that a file tree and a few recorded values can replace
any machine in tests. It judges nothing and keeps no secret. Variables that do not bear on distributed training are
dropped, and credentials are masked as values are collected.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .model import Unavailable
from .redaction import mask
from .variable_table import VariableTable

if TYPE_CHECKING:
    import socket

#: Longest value of a variable that is kept, in characters. LD_LIBRARY_PATH with many modules has several thousand.
LONGEST_VALUE = 16384
#: The most bytes that a reader gets of a file. /proc and /sys files are small, and a hostile file must not fill memory.
LONGEST_FILE = 4 * 1024 * 1024
#: Why NVML is unavailable if the loader finds no library of that name.
NO_NVML = "no NVIDIA driver: its library libnvidia-ml is not found"


class Address(NamedTuple):
    """One address of a network interface."""

    interface: str
    #: ``ipv4`` or ``ipv6``
    family: str
    address: str
    netmask: str | None = None


class Space(NamedTuple):
    """Size and free space of a file system, in bytes."""

    total_bytes: int
    free_bytes: int


class World:
    """The system as this process sees it. Each method raises OSError or Unavailable if it can't read its value."""

    def __init__(self, environ: Mapping[str, str] | None = None, *, root: str = "/") -> None:
        """
        :param environ: the variables to check instead of this process's own
        :param root: the folder that replaces ``/``
        """
        self.root = root
        raw = os.environ if environ is None else environ
        self.environ: Mapping[str, str] = collect_variables(raw)
        self.home: str | None = raw.get("HOME") or raw.get("USERPROFILE") or None
        #: the folders in which a shell searches for programs
        self.program_path: tuple[str, ...] = tuple(entry for entry in raw.get("PATH", "").split(os.pathsep) if entry)
        behind = raw.get("SUDO_UID", "")
        #: under sudo, the number of the user who called it
        self.user_behind: int | None = int(behind) if behind.isdecimal() else None
        self.platform = sys.platform
        self.pid = os.getpid()

    # files

    def path(self, path: str) -> str:
        """Return the path on this machine of an absolute path on the checked machine."""
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    def read_bytes(self, path: str, limit: int = LONGEST_FILE) -> bytes:
        """Return the first ``limit`` bytes of a file; raises OSError."""
        with open(self.path(path), "rb", buffering=0) as file:
            chunks = []
            while limit > 0 and (chunk := file.read(min(limit, 1 << 16))):
                chunks.append(chunk)
                limit -= len(chunk)
        return b"".join(chunks)

    def read_text(self, path: str) -> str:
        """Return a file as text, with invalid UTF-8 replaced; raises OSError."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        """Return at most ``length`` bytes of a large file from ``offset`` on; raises OSError."""
        with open(self.path(path), "rb", buffering=0) as file:
            file.seek(offset)
            return file.read(length)

    def list_folder(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder, sorted; raises OSError."""
        return tuple(sorted(os.listdir(self.path(path))))

    def exists(self, path: str) -> bool:
        """Return whether a path exists; False also if a parent folder can't be read."""
        return os.path.exists(self.path(path))

    def is_file(self, path: str) -> bool:
        """Return whether a path is an ordinary file. Reading a pipe could block."""
        return os.path.isfile(self.path(path))

    def read_link(self, path: str) -> str:
        """Return the target of a symbolic link, unresolved; raises OSError."""
        return os.readlink(self.path(path))

    def text_or_empty(self, path: str, limit: int = LONGEST_FILE) -> str:
        """Return the start of a file as text; empty if it can't be read, which for most small files means the same."""
        try:
            return self.read_bytes(path, limit).decode("utf-8", "replace")
        except OSError:
            return ""

    def names_or_empty(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder, sorted; none if it can't be read."""
        try:
            return self.list_folder(path)
        except OSError:
            return ()

    def link_or_empty(self, path: str) -> str:
        """Return the target of a symbolic link, unresolved; empty if it can't be read."""
        try:
            return self.read_link(path)
        except OSError:
            return ""

    def space(self, path: str) -> Space:
        """Return the space of the file system that holds a path; raises OSError."""
        if not hasattr(os, "statvfs"):
            import shutil

            usage = shutil.disk_usage(self.path(path))
            return Space(usage.total, usage.free)
        found = os.statvfs(self.path(path))
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def writable(self, path: str) -> bool:
        """Return whether this process may write to a path."""
        return os.access(self.path(path), os.W_OK)

    # this process

    @property
    def working_folder(self) -> str:
        """Return the working directory; raises OSError if it was removed."""
        return os.getcwd()

    @property
    def user_id(self) -> int:
        """Return the effective user ID; -1 on a platform without user IDs."""
        return os.geteuid() if hasattr(os, "geteuid") else -1

    @property
    def python_path(self) -> tuple[str, ...]:
        """Return the folders in which this Python searches for packages (``sys.path``)."""
        return tuple(entry for entry in sys.path if entry)

    @property
    def python_version(self) -> str:
        """Return the version of this Python, such as ``3.12.4``."""
        return ".".join(str(part) for part in sys.version_info[:3])

    @property
    def python_executable(self) -> str:
        """Return the path of this Python; empty if it is embedded in another program."""
        return sys.executable or ""

    def resource_limit(self, name: str) -> tuple[int | None, int | None]:
        """Return the soft and hard limit of ``nofile`` (files), ``memlock`` (bytes) or ``nproc`` (processes).

        None means unlimited.
        """
        try:
            import resource
        except ImportError:
            raise Unavailable(f"{self.platform} has no resource limits") from None
        soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        return (
            None if soft == resource.RLIM_INFINITY else soft,
            None if hard == resource.RLIM_INFINITY else hard,
        )

    def cpu_affinity(self) -> tuple[int, ...]:
        """Return the CPUs on which this process may run; raises Unavailable if the platform does not report them."""
        if not hasattr(os, "sched_getaffinity"):
            raise Unavailable(f"{self.platform} does not report a process's CPU affinity")
        return tuple(sorted(os.sched_getaffinity(0)))

    def cpu_count(self) -> int:
        """Return the number of logical CPUs of the host, at least 1."""
        return os.cpu_count() or 1

    def now(self) -> float:
        """Return the seconds since 1970, UTC."""
        return time.time()

    # network

    def host_name(self) -> str:
        """Return ``gethostname()``, from which gloo and torchrun derive an address."""
        import socket

        return socket.gethostname()

    def full_host_name(self) -> str:
        """Return ``socket.getfqdn()``, the name that c10d gives to other nodes. It may query a name server."""
        import socket

        return socket.getfqdn()

    def resolve(self, name: str) -> tuple[str, ...]:
        """Return the addresses of a name, in getaddrinfo's order, each once.

        It blocks as long as the resolver does, so readers that call it have a limit.
        It raises socket.gaierror if the name does not resolve.
        """
        import socket

        # bytes avoid the codec for international names, whose import takes as long as a fast resolver
        query = name.encode() if name.isascii() else name
        found = socket.getaddrinfo(query, None, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))

    def addresses(self) -> tuple[Address, ...]:
        """Return the addresses of all interfaces, in the system's order, from netifaces or from the Linux kernel.

        It raises Unavailable if neither works.
        """
        try:
            import netifaces
        except ImportError as error:
            return self._addresses_from_the_kernel(error)
        families = (("ipv4", netifaces.AF_INET), ("ipv6", netifaces.AF_INET6))
        return tuple(
            Address(name, family, entry["addr"], entry.get("netmask") or entry.get("mask"))
            for name in netifaces.interfaces()
            for family, number in families
            for entry in netifaces.ifaddresses(name).get(number, ())
            if "addr" in entry
        )

    def _addresses_from_the_kernel(self, missing: ImportError) -> tuple[Address, ...]:
        if self.platform != "linux":
            raise Unavailable(
                f"the netifaces module does not import ({missing}), and on {self.platform} there is "
                "no other source of addresses; pip install netifaces-plus"
            ) from missing
        from .netlink import read_addresses

        try:
            return tuple(Address(*found) for found in read_addresses())
        except OSError as error:
            raise Unavailable(
                f"the netifaces module does not import ({missing}), and the kernel reports no addresses: "
                f"{error.strerror or error}"
            ) from error

    def try_listen(self, port: int) -> bool:
        """Bind and listen as torch's store does, and close the socket at once.

        torch 2.13 opens one socket on ``::`` for IPv6 and IPv4. If that fails, it opens one on ``0.0.0.0``. Both have
        SO_REUSEADDR (with libuv and without). So a listener on any IPv4 address of the host is a conflict. A listener
        on IPv6 alone and connections that are still closing are not.

        :return: False if only IPv4 is free, because another process holds the IPv6 port
        :raises OSError: EADDRINUSE if the port is in use, EACCES if it is privileged
        """
        import socket

        try:
            self._listen(socket.AF_INET6, "::", port)
        except OSError as error:
            self._listen(socket.AF_INET, "0.0.0.0", port)
            return error.errno != errno.EADDRINUSE
        return True

    def _listen(self, family: socket.AddressFamily, address: str, port: int) -> None:
        import socket

        with socket.socket(family, socket.SOCK_STREAM) as listener:
            if self.platform != "win32":  # on Windows, it would take over a port that is in use
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((address, port))
            listener.listen(1)

    def connect(
        self, address: str, port: int, *, timeout_s: float, greeting_s: float = 0.0, greeting: bytes = b""
    ) -> bytes | None:
        """Connect and close again.

        :param greeting_s: seconds to wait for the server's first bytes
        :param greeting: the bytes to send first
        :return: the first bytes of the server, b"" if it closed the connection, None if it sent nothing
        :raises OSError: TimeoutError if nothing answers, ConnectionRefusedError if no process listens
        """
        import socket

        with socket.create_connection((address, port), timeout=timeout_s) as connection:
            if greeting_s <= 0:
                return None
            connection.settimeout(greeting_s)
            try:
                if greeting:
                    connection.sendall(greeting)
                return connection.recv(64)
            except TimeoutError:
                return None
            except ConnectionError:
                return b""

    # devices

    def read_together(self, name: str, read: Callable[[], bytes]) -> bytes:
        """Return what ``read`` returns. Of the processes that call this at once, the first reads for all.

        They are processes of one user in the same namespaces. Where sharing is not possible, each reads for itself.

        :param name: what is read: the same for all processes that would read the same
        """
        if self.platform != "linux":
            return read()
        from .shared_reading import read_together

        return read_together(f"{self.root}\0{name}", read)

    def nvml(self) -> Any:
        """Return NVIDIA's management library, initialized. It can hang in the kernel: only isolated readers use it.

        It raises Unavailable, with NVML's message, if there is no driver or it does not answer.
        """
        try:
            import ctypes

            ctypes.CDLL("nvml.dll" if self.platform == "win32" else "libnvidia-ml.so.1")
        except OSError as error:
            if isinstance(error, FileNotFoundError) or "no such file" in str(error).lower():
                raise Unavailable(NO_NVML) from None
            raise Unavailable(f"the NVIDIA driver's library libnvidia-ml can't be loaded: {error}") from None
        try:
            import pynvml
        except ImportError as error:
            raise Unavailable(f"the module pynvml does not import ({error}); pip install nvidia-ml-py") from None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unavailable(f"NVML: {error}") from error
        return pynvml


def collect_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that bear on distributed training, without credentials, each cut to LONGEST_VALUE."""
    table = VariableTable()
    kept = {}
    for name, value in environ.items():
        if table.bears_on_training(name):
            # masked before it is cut: the rest of a credential would have no form
            text = mask(value[: 2 * LONGEST_VALUE], name=name)
            text = text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"
            kept[name] = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return kept
