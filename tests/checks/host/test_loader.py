"""What the dynamic loader would find."""

from __future__ import annotations

import ctypes.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as options
from hypothesis import strategies as st

from distcheck.checks.host import _loader as loader
from distcheck.core.world import World
from tests.recorded import recorded_world

from .elf import make_elf, write_elf

LIBRARY = make_elf(
    needed=["libnccl.so.2", "libc.so.6"],
    rpath="$ORIGIN/../../nvidia/nccl/lib:${ORIGIN}:/opt/lib",
    defined=["ncclGetVersion", "other"],
    wanted=["ncclAllReduce", "malloc"],
    rodata=b"..NCCL version 2.27.5+cuda12.9\0..",
)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


def test_a_library_with_rpath(tmp_path: Path) -> None:
    write_elf(tmp_path, "/site/torch/lib/libtorch_cuda.so", LIBRARY)
    found = loader.read_dynamic(recorded_world(tmp_path), "/site/torch/lib/libtorch_cuda.so")
    assert found == loader.Dynamic(
        ("libnccl.so.2", "libc.so.6"),
        rpath=("/site/torch/lib/../../nvidia/nccl/lib", "/site/torch/lib", "/opt/lib"),
    )


def test_the_loader_takes_no_notice_of_rpath_beside_runpath(tmp_path: Path) -> None:
    write_elf(tmp_path, "/lib/a.so", make_elf(rpath="/old", runpath="$ORIGINAL:$ORIGIN"))
    found = loader.read_dynamic(recorded_world(tmp_path), "/lib/a.so")
    assert found == loader.Dynamic((), runpath=("$ORIGINAL", "/lib"))


def test_symbols_and_sections(tmp_path: Path) -> None:
    write_elf(tmp_path, "/a.so", LIBRARY)
    world = recorded_world(tmp_path)
    assert loader.read_symbols(world, "/a.so", "nccl", defined=True) == frozenset({"ncclGetVersion"})
    assert loader.read_symbols(world, "/a.so", "nccl", defined=False) == frozenset({"ncclAllReduce"})
    assert loader.read_section(world, "/a.so", b".rodata") == b"..NCCL version 2.27.5+cuda12.9\0.."
    assert loader.read_section(world, "/a.so", b".nothing") is None


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"INPUT(libnccl.so.2)\n", LIBRARY[:100], b"\x7fELF\x01\x01" + LIBRARY[6:]]
)
def test_other_files_tell_nothing(tmp_path: Path, data: bytes) -> None:
    write_elf(tmp_path, "/a.so", data)
    world = recorded_world(tmp_path)
    for path in ("/a.so", "/missing.so"):
        assert loader.read_dynamic(world, path) is None
        assert loader.read_symbols(world, path, "nccl", defined=True) is None
        assert loader.read_section(world, path, b".rodata") is None


@options(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, len(LIBRARY) - 1), st.integers(0, 255)), max_size=12),
    st.integers(0, len(LIBRARY)),
)
@example([(0x28 + 5, 255)], len(LIBRARY))
def test_damaged_libraries_never_raise(tmp_path: Path, changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(LIBRARY)
    for place, value in changes:
        data[place] = value
    write_elf(tmp_path, "/a.so", bytes(data[:length]))
    world = recorded_world(tmp_path)
    found = loader.read_dynamic(world, "/a.so")
    assert found is None or all(isinstance(name, str) for name in found.needed)
    symbols = loader.read_symbols(world, "/a.so", "nccl", defined=True)
    assert symbols is None or all(name.startswith("nccl") for name in symbols)
    section = loader.read_section(world, "/a.so", b".rodata")
    assert section is None or len(section) <= length


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        (None, ()),
        ("", ()),
        ("/a:/b", ("/a", "/b")),
        ("/a;/b", ("/a", "/b")),
        pytest.param(":/a", (".", "/a"), id="an empty entry is the working directory"),
    ],
)
def test_library_path(text: str | None, folders: tuple[str, ...]) -> None:
    assert loader.library_path(text) == folders


def test_preloaded(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files={"/etc/ld.so.preload": "/usr/lib/site.so\n"})
    assert loader.preloaded(world, "/a.so:b.so /c.so") == ("/a.so", "b.so", "/c.so", "/usr/lib/site.so")
    assert loader.preloaded(recorded_world(tmp_path / "other"), None) == ()


CACHE = b"glibc-ld.so.cache1.1\x05\0\0\0libnccl.so.2\0/usr/lib/x/libnccl.so.2\0/usr/lib/x/mylibnccl.so.2\0"


def test_search_follows_the_loaders_order(tmp_path: Path) -> None:
    files = {
        f"{folder}/libnccl.so.2": "" for folder in ("/before", "/path", "/after", "/usr/lib/x", "/lib64", "/home/user")
    }
    world = recorded_world(tmp_path, files={**files, "/etc/ld.so.cache": CACHE.decode()})
    found = list(
        loader.search(
            world, "libnccl.so.2", "/missing:/path::/before", before=["/x/../before"], after=["/path", "/after"]
        )
    )
    assert found == [
        ("/before/libnccl.so.2", "RPATH"),
        ("/path/libnccl.so.2", "LD_LIBRARY_PATH"),
        ("/home/user/libnccl.so.2", "LD_LIBRARY_PATH"),
        ("/after/libnccl.so.2", "RUNPATH"),
        ("/usr/lib/x/libnccl.so.2", "system"),
        ("/lib64/libnccl.so.2", "system"),
    ]


@given(st.binary(max_size=200))
def test_any_cache_gives_paths_of_the_library(data: bytes) -> None:
    assert all(path.endswith("/libnccl.so.2") for path in loader.cached(data + CACHE, "libnccl.so.2"))
    assert "/usr/lib/x/libnccl.so.2" in loader.cached(data + CACHE, "libnccl.so.2")


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("/a/../b//c/.", "/b/c"),
        ("x", "/home/user/x"),
        ("../x", "/home/x"),
        ("/../..", "/"),
        ("./lib/x.so", "/home/user/lib/x.so"),
    ],
)
def test_absolute(tmp_path: Path, path: str, absolute: str) -> None:
    assert loader.absolute(recorded_world(tmp_path), path) == absolute


@linux
def test_a_real_library() -> None:
    """The C library that this process runs on, as the kernel and ctypes know it."""
    maps = Path("/proc/self/maps").read_text()
    match = re.search(r"(/\S*/libc\.so\.6|/\S*/libc-2\.\d+\.so)$", maps, re.MULTILINE)
    if match is None or os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("no 64-bit glibc here")
    path, world = match[1], World()
    symbols = loader.read_symbols(world, path, "pthread_", defined=True)
    assert symbols is not None
    assert "pthread_self" in symbols
    assert b"GNU C Library" in (loader.read_section(world, path, b".rodata") or b"")
    found = [path for path, origin in loader.search(world, "libc.so.6", None) if origin == "system"]
    assert any(os.path.samefile(each, path) for each in found)


@linux
def test_real_dependencies() -> None:
    name = ctypes.util.find_library("m")
    if name is None or os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("no math library here")
    (path, _), *_ = loader.search(World(), name, None)
    found = loader.read_dynamic(World(), path)
    assert found is not None
    assert "libc.so.6" in found.needed


@linux
def test_the_search_agrees_with_the_real_loader(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH wins over the system for a program without RPATH: ld.so itself says so."""
    (real, _), *_ = loader.search(World(), "libc.so.6", None)
    (tmp_path / "libc.so.6").symlink_to(real)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(["ldd", "/bin/sh"], env=environ, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("ldd does not work here")
    (first, origin), *_ = loader.search(World(), "libc.so.6", str(tmp_path))
    assert origin == "LD_LIBRARY_PATH"
    assert f"libc.so.6 => {first}" in done.stdout
