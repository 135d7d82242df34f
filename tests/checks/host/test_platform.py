"""What kind of machine this is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.platform import Platform, read_platform
from distcheck.core.world import World
from tests.recorded import recorded_world

LINUX = "Linux version 6.8.0-45-generic (buildd@host) (gcc 13.2) #45-Ubuntu SMP\n"
HOST_ROOT = "22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda2 rw\n"
OVERLAY = "612 500 0:52 / / rw,relatime - overlay overlay rw,lowerdir={layer}/l/A:{layer}/l/B,upperdir={layer}/x/diff\n"


@pytest.mark.parametrize(
    ("files", "environ", "container"),
    [
        pytest.param({"/.dockerenv": ""}, {}, "docker", id="docker"),
        pytest.param({"/run/.containerenv": 'engine="podman-4.9"\n'}, {}, "podman", id="podman"),
        pytest.param(
            {"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes", id="a pod with Docker's mark"
        ),
        pytest.param({"/var/run/secrets/kubernetes.io": None}, {}, "kubernetes", id="service account"),
        pytest.param(
            {"/proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n"},
            {},
            "kubernetes",
            id="cgroup of a pod",
        ),
        pytest.param(
            {"/proc/self/mountinfo": "9 1 8:1 /var/lib/kubelet/pods/1/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"},
            {},
            "kubernetes",
            id="mounts of a pod",
        ),
        pytest.param(
            {"/.singularity.d": None, "/.dockerenv": ""},
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
            "singularity",
            id="the innermost one counts",
        ),
        pytest.param(
            {"/proc/self/mountinfo": "77 60 0:44 /.lock /.lock ro,nosuid - overlay fuse-overlayfs ro\n"},
            {},
            "enroot",
            id="enroot's lock",
        ),
        pytest.param({"/.enroot": None}, {}, "enroot", id="enroot bundle"),
        pytest.param({"/run/systemd/container": "lxc\n"}, {}, "lxc", id="named by systemd"),
        pytest.param({}, {"container": "podman"}, "podman", id="named by the environment"),
        pytest.param({"/proc/self/cgroup": "4:memory:/docker/0123abc\n"}, {}, "docker", id="cgroup v1"),
        pytest.param({"/proc/self/cgroup": "0::/lxc.payload.box\n"}, {}, "lxc", id="cgroup of lxc"),
        pytest.param(
            {"/proc/self/mountinfo": OVERLAY.format(layer="/var/lib/docker/overlay2")}, {}, "docker", id="root"
        ),
        pytest.param(
            {"/proc/self/mountinfo": OVERLAY.format(layer="/var/lib/containers/storage/overlay")},
            {},
            "podman",
            id="layers",
        ),
        pytest.param(
            {
                "/proc/self/mountinfo": HOST_ROOT
                + "80 22 0:50 /proc/cpuinfo /proc/cpuinfo rw - fuse.lxcfs lxcfs rw,user_id=0\n"
            },
            {},
            "lxc",
            id="lxcfs over /proc",
        ),
    ],
)
def test_containers_are_told(tmp_path: Path, files: dict[str, Any], environ: dict[str, str], container: str) -> None:
    world = recorded_world(tmp_path, files={"/proc/version": LINUX, **files}, environ=environ)
    assert read_platform(world).container == container


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {"/proc/self/mountinfo": HOST_ROOT, "/proc/self/cgroup": "0::/user.slice/session-2.scope\n"}, id="host"
        ),
        pytest.param(
            {
                "/proc/self/mountinfo": HOST_ROOT
                + "90 22 8:1 / /var/lib/kubelet/pods/1/volumes rw - ext4 /dev/sdb rw\n"
                + "91 22 0:61 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw,lowerdir=/var/lib/docker/l\n"
                + "92 22 0:50 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n"
            },
            id="a host that runs containers",
        ),
        pytest.param({}, id="nothing to read"),
    ],
)
def test_hosts_are_no_containers(tmp_path: Path, files: dict[str, Any]) -> None:
    assert read_platform(recorded_world(tmp_path, files=files)).container is None


@pytest.mark.parametrize(
    ("version", "files", "wsl"),
    [
        ("Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x)", {}, 2),
        ("Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)", {}, 1),
        ("Linux version 6.6.0-mine (me@x)", {"/proc/sys/fs/binfmt_misc/WSLInterop": ""}, 2),
        (LINUX, {}, None),
        ("Linux version 6.6.0 (build@microsoft.example)", {}, None),
    ],
)
def test_wsl(tmp_path: Path, version: str, files: dict[str, Any], wsl: int | None) -> None:
    assert read_platform(recorded_world(tmp_path, files={"/proc/version": version, **files})).wsl == wsl


@pytest.mark.parametrize(
    ("files", "virtual"),
    [
        ({"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse2 hypervisor lahf_lm\n"}, True),
        ({"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse2\n", "/sys/class/dmi/id/sys_vendor": "QEMU\n"}, False),
        ({"/proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n", "/sys/class/dmi/id/sys_vendor": "QEMU\n"}, True),
        ({"/sys/hypervisor/type": "xen\n"}, True),
        ({"/sys/class/dmi/id/sys_vendor": "Supermicro\n"}, False),
    ],
)
def test_virtual_machines(tmp_path: Path, files: dict[str, str], virtual: bool) -> None:
    assert read_platform(recorded_world(tmp_path, files=files)).virtual_machine is virtual


def test_a_cloud_machine(tmp_path: Path) -> None:
    world = recorded_world(
        tmp_path,
        files={
            "/proc/version": LINUX,
            "/sys/class/dmi/id/product_name": "p5.48xlarge\n",
            "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        },
        cpus=192,
        user_id=1001,
    )
    assert read_platform(world) == Platform(
        "linux",
        kernel="6.8.0-45-generic",
        product="p5.48xlarge",
        virtual_machine=True,
        user_id=1001,
        cpus=192,
        vendor="Amazon EC2",
    )


def test_only_the_start_of_cpuinfo_is_read(tmp_path: Path) -> None:
    files = {"/proc/cpuinfo": "x" * 5000 + "\nflags\t: hypervisor\n"}
    assert not read_platform(recorded_world(tmp_path, files=files)).virtual_machine


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems(tmp_path: Path, system: str) -> None:
    world = recorded_world(tmp_path, platform=system, cpus=10, user_id=501, files={"/.dockerenv": ""})
    assert read_platform(world) == Platform(system, user_id=501, cpus=10)


def test_this_machine() -> None:
    world = World()
    found = read_platform(world)
    assert (found.system, found.cpus, found.user_id) == (world.platform, world.cpu_count(), world.user_id)
    if world.platform == "linux":
        assert found.kernel == Path("/proc/sys/kernel/osrelease").read_text().strip()
