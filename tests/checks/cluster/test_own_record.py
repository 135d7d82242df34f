"""A host's own record: made of facts, small, without credentials, the same from a file as from the machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.cluster.own_record import (
    HostIdentity,
    host_facts_needed,
    make_host_record,
    rank_device,
    read_code,
    read_host_identity,
    read_host_record,
    rendezvous_of,
)
from distcheck.checks.cluster.records import Code, Device, HostRecord, RankRecord, from_json, join_ranks, to_json
from distcheck.checks.host.devices import Devices, apply_masks
from distcheck.checks.host.examine import examine
from distcheck.checks.host.fabric import Fabric, RdmaPort
from distcheck.checks.host.gpu_access import GpuAccess, GpuState
from distcheck.checks.host.gpus import Driver, Gpu, Gpus
from distcheck.checks.host.hostnames import HostName, Name
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.platform import Platform
from distcheck.checks.host.software import Library, NcclPlugins, Plugin, Software
from distcheck.core.model import NotApplicable, Unavailable
from distcheck.launch.model import Launch
from distcheck.launch.reader import make_launch
from distcheck.launch.settings import Setting, Settings
from tests.recorded import HOSTS, RecordedWorld, load_world, recorded_world

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
CARDS = tuple(
    Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", f"0000:0{index}:00.0", 80 << 30, architecture="9.0")
    for index in range(8)
)
GPUS = Gpus("nvidia", CARDS, "580.65.06", "13.0")


def launch(rank: int = 0) -> Launch:
    return Launch("rank", rank=rank, local_rank=rank % 8, world_size=16, local_world_size=8, node_rank=rank // 8)


def facts(**settings: str) -> dict[type, object]:
    """The facts of a healthy host."""
    return {
        Settings: Settings(tuple(Setting(name, value) for name, value in settings.items())),
        Gpus: GPUS,
        Devices: apply_masks({name: value for name, value in settings.items() if name == "CUDA_VISIBLE_DEVICES"}, GPUS),
        HostIdentity: HostIdentity("a7be24d3", {"ipc": "4026531839", "shm": "0:25"}),
        Platform: Platform("linux", "6.8.0", "docker"),
        Software: Software(
            "3.12.4", "2.13.0+cu130", "/opt/torch", "13.0", nccl_libraries=(Library("/x/libnccl.so.2", "wheel", "2.28.9"),),
            packages=(("triton", "3.7.0"),),
        ),
        Interfaces: Interfaces(
            (
                Interface("lo", ("127.0.0.1/255.0.0.0",), True, True, True, "loopback"),
                Interface("eth0", ("fe80::1%eth0/64", "10.0.0.5/255.255.255.0"), True, True, kind="ethernet", mtu_bytes=9000),
                Interface("cali12", ("fe80::2%cali12/64",), True, True, kind="veth"),
                Interface("ib0", ("10.1.0.5/255.255.255.0",), True, True, kind="infiniband", speed_mbit_per_s=400000),
                Interface("eth9", ("10.9.0.5/255.255.255.0",), True, False, kind="ethernet"),
            ),
            "eth0",
        ),
        HostName: HostName(Name("gpu01", ("10.0.0.5",))),
        Fabric: Fabric(
            (RdmaPort("mlx5_0", 1, "ACTIVE", link_layer="InfiniBand", rate_gbit_per_s=400.0), RdmaPort("mlx5_1", 1, "DOWN")),
            net_plugins=("/opt/hpcx/lib/libnccl-net.so",),
        ),
        NcclPlugins: NcclPlugins((Plugin("NCCL_NET_PLUGIN", "aws-ofi", "environment", "/opt/x/libnccl-net-aws-ofi.so"),)),
        Code: Code("/scratch/job", COMMIT, "main"),
    }  # fmt: skip


def test_a_record_of_all_facts() -> None:
    record = make_host_record(facts(NCCL_IB_HCA="=mlx5_0", NCCL_DEBUG="INFO"), launch(9), host="gpu02", pid=4711)
    device = Device("GPU-1", "0000:01:00.0", "NVIDIA H100 80GB HBM3", 80 << 30, "9.0")
    assert record.ranks == (
        RankRecord(
            9, 1, 16, 8, 1, 4711, device, {}, GpuAccess(GpuState.USABLE, "8 × NVIDIA H100 80GB HBM3", training=True)
        ),
    )  # fmt: skip
    assert (record.host, record.boot_id, record.container) == ("gpu02", "a7be24d3", "docker")
    assert record.versions["nccl"] == "2.28.9"
    assert {"python", "torch", "cuda", "driver", "kernel", "distcheck", "triton"} <= set(record.versions)
    assert record.settings == {"NCCL_IB_HCA": "=mlx5_0", "NCCL_DEBUG": "INFO"}
    assert len(record.gpus) == 8
    assert record.backends == ("gloo", "nccl")
    assert record.plugins == ("libnccl-net.so", "libnccl-net-aws-ofi.so")
    assert [(port.device, port.state, port.selected) for port in record.rdma_ports] == [
        ("mlx5_0", "ACTIVE", True),
        ("mlx5_1", "DOWN", False),
    ]
    assert record.code == Code("/scratch/job", COMMIT, "main")
    assert record.unavailable == {}


def test_the_interfaces_and_what_nccl_and_gloo_choose() -> None:
    record = make_host_record(facts(), launch(), host="gpu01")
    # what NCCL takes comes first; a pod's other end and loopback carry nothing between hosts
    assert [(item.name, item.nccl, item.gloo) for item in record.interfaces] == [
        ("ib0", True, False), ("eth0", False, True), ("eth9", False, False),
    ]  # fmt: skip
    assert record.interfaces[1].default_route
    assert record.interfaces[1].addresses[0] == "10.0.0.5/255.255.255.0"
    assert record.interfaces[2].up is False
    named = make_host_record(facts(NCCL_SOCKET_IFNAME="=eth0", GLOO_SOCKET_IFNAME="ib0"), launch(), host="gpu01")
    assert [(item.name, item.nccl, item.gloo) for item in named.interfaces[:2]] == [
        ("eth0", True, False), ("ib0", False, True),
    ]  # fmt: skip


def test_facts_may_come_by_name() -> None:
    by_type = make_host_record(facts(), launch(), host="gpu01")
    assert (
        make_host_record({made.__name__: value for made, value in facts().items()}, launch(), host="gpu01") == by_type
    )


def test_what_could_not_be_read_is_said() -> None:
    known = {**facts(), Gpus: Unavailable("no NVIDIA driver"), Fabric: Unavailable("/sys is not mounted")}
    known[Interfaces] = NotApplicable("nothing there")
    del known[Code]
    record = make_host_record(known, launch(), host="gpu01")
    assert record.unavailable == {
        "gpus": "no NVIDIA driver",
        "rdma_ports": "/sys is not mounted",
        "code": "it was not read",
    }
    assert record.gpus == ()
    assert record.ranks[0].device is None


def test_a_record_of_nothing() -> None:
    record = make_host_record({}, Launch(), host="h")
    assert record.ranks == ()
    assert set(record.unavailable) == {
        "settings", "gpus", "boot_id", "namespaces", "container", "versions", "backends", "interfaces", "rdma_ports", "code",
    }  # fmt: skip
    assert from_json(HostRecord, to_json(record)) == record


def test_settings_without_those_of_a_process_and_of_the_job() -> None:
    known = facts(
        NCCL_ALGO="Ring", RANK="3", LOCAL_RANK="3", MASTER_ADDR="gpu01", SLURM_PROCID="3", OMPI_COMM_WORLD_RANK="3",
        TORCHELASTIC_ERROR_FILE="/tmp/x", CUDA_VISIBLE_DEVICES="3", NCCL_HOSTID="x", SLURM_NODEID="1",
        LD_LIBRARY_PATH="/opt/lib:" * 100,
    )  # fmt: skip
    known[Settings] = Settings(
        (
            *(item for item in known[Settings].items if item.name != "NCCL_ALGO"),  # type: ignore[attr-defined]
            Setting("NCCL_ALGO", "Ring", "/etc/nccl.conf:3"),
            Setting("OMP_NUM_THREADS", "1", "launcher"),
        )
    )
    record = make_host_record(known, launch(3), host="gpu01")
    assert set(record.settings) == {"NCCL_ALGO", "SLURM_NODEID", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"}
    assert record.origins == {"NCCL_ALGO": "/etc/nccl.conf:3"}
    assert record.ranks[0].settings == {"CUDA_VISIBLE_DEVICES": "3", "NCCL_HOSTID": "x"}
    # a long value is cut, but two long ones that differ at their ends do not become one
    assert len(record.settings["LD_LIBRARY_PATH"]) < 200
    other = make_host_record(facts(LD_LIBRARY_PATH="/opt/lib:" * 100 + "/x"), launch(3), host="gpu01")
    assert other.settings["LD_LIBRARY_PATH"] != record.settings["LD_LIBRARY_PATH"]


@pytest.mark.parametrize(
    ("masks", "local_rank", "uuid"),
    [
        ({}, 0, "GPU-0"),
        ({}, 7, "GPU-7"),
        ({}, 8, None),
        ({}, None, None),
        ({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, 1, "GPU-5"),
        # one GPU is all that there is to take, whatever the local rank
        ({"CUDA_VISIBLE_DEVICES": "6"}, 6, "GPU-6"),
        ({"CUDA_VISIBLE_DEVICES": "6"}, None, "GPU-6"),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0, None),
    ],
)
def test_the_gpu_that_a_rank_would_use(masks: dict[str, str], local_rank: int | None, uuid: str | None) -> None:
    device = rank_device(local_rank, apply_masks(masks, GPUS), GPUS)
    assert (None if device is None else device.uuid) == uuid


def test_a_mig_instance_is_a_device_of_its_own() -> None:
    cut = Gpus("nvidia", (CARDS[0]._replace(mig_enabled=True, mig_uuids=("MIG-a", "MIG-b")),))
    device = rank_device(1, apply_masks({"CUDA_VISIBLE_DEVICES": "MIG-b"}, cut), cut)
    assert device is not None
    assert (device.uuid, device.pci, device.name) == ("MIG-b", "0000:00:00.0", "NVIDIA H100 80GB HBM3")


def test_an_order_that_cuda_chooses_is_not_guessed() -> None:
    mixed = Gpus("nvidia", (CARDS[0]._replace(name="NVIDIA T400"), *CARDS[1:]))
    assert rank_device(0, apply_masks({}, mixed), mixed) is None
    assert rank_device(0, apply_masks({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, mixed), mixed) is not None
    assert rank_device(0, None, GPUS) is None


@pytest.mark.parametrize(
    ("software", "system", "backends"),
    [
        (Software("3.12"), "linux", ()),
        (Software("3.12", "2.13.0+cpu", "/opt/torch"), "linux", ("gloo",)),
        (Software("3.12", "2.13.0", "/opt/torch", hip="6.4"), "linux", ("gloo", "nccl")),
        (Software("3.12", "2.13.0", "/opt/torch", "13.0"), "win32", ("gloo",)),
        # only its name is known: an editable build
        (Software("3.12", "2.14.0a0"), "linux", ()),
    ],
)
def test_backends_are_known_or_empty(software: Software, system: str, backends: tuple[str, ...]) -> None:
    known = {**facts(), Software: software, Platform: Platform(system)}
    assert make_host_record(known, launch(), host="gpu01").backends == backends


def test_the_nccl_that_is_found_counts_more_than_the_one_that_is_installed() -> None:
    def version(**changes: Any) -> str | None:
        software = Software("3.12", "2.13.0", "/opt/torch", "13.0")._replace(**changes)
        return make_host_record({**facts(), Software: software}, launch(), host="x").versions.get("nccl")

    installed = (("nvidia-nccl-cu13", "2.28.9"),)
    assert version(nccl_packages=installed) == "2.28.9"
    assert version(nccl_packages=installed, nccl_libraries=(Library("/usr/lib/x", "system", "2.27.5"),)) == "2.27.5"
    assert version(nccl_packages=(*installed, ("nvidia-nccl-cu12", "2.27.5"))) is None


def test_a_rank_that_is_not_the_first_says_little() -> None:
    record = make_host_record(facts(), launch(3), host="gpu01", whole=False)
    assert (record.versions, record.interfaces, record.unavailable) == ({}, (), {})
    assert record.ranks[0].device == Device("GPU-3", "0000:03:00.0", "NVIDIA H100 80GB HBM3", 80 << 30, "9.0")
    assert len(host_facts_needed(whole=False)) < len(host_facts_needed())


def test_records_of_ranks_become_one_of_the_host() -> None:
    few = [make_host_record(facts(NCCL_ALGO="Ring"), launch(rank), host="gpu01", whole=False) for rank in (2, 1)]
    whole = make_host_record(facts(NCCL_ALGO="Ring"), launch(0), host="gpu01")
    odd = make_host_record(facts(NCCL_PROTO="LL"), launch(3), host="gpu01", whole=False)
    (host,) = join_ranks([*few, whole, odd])
    assert [rank.rank for rank in host.ranks] == [0, 1, 2, 3]
    assert host.versions == whole.versions
    assert [dict(rank.settings) for rank in host.ranks] == [{}, {}, {}, {"NCCL_ALGO": "", "NCCL_PROTO": "LL"}]
    # containers that share no memory are told apart, also where they share a name
    other = odd._replace(namespaces={**odd.namespaces, "shm": "0:99"})
    assert len(join_ranks([whole, other])) == 2


@pytest.mark.parametrize(
    ("given", "way"),
    [
        (Launch(rdzv_backend="static"), "static"),
        (Launch(rdzv_backend="c10d"), "c10d"),
        (Launch(standalone=True), "c10d"),
        (Launch("rank", variables={"TORCHELASTIC_RUN_ID": "job42"}), "c10d"),
        (Launch("rank", variables={"TORCHELASTIC_RUN_ID": "none"}), None),
        (Launch("rank"), None),
    ],
)
def test_the_rendezvous_where_it_is_sure(given: Launch, way: str | None) -> None:
    assert rendezvous_of(given) == way


# reading


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /dev rw - devtmpfs udev rw
25 23 0:24 / /dev/shm rw - tmpfs tmpfs rw
31 23 0:61 / /dev/shm rw - tmpfs shm rw,size=65536k
"""


def test_the_identity_of_a_host(tmp_path: Path) -> None:
    world = recorded_world(
        tmp_path,
        files={
            "/proc/sys/kernel/random/boot_id": "a7be24d3-03f2\n",
            "/proc/self/ns/ipc": {"link": "ipc:[4026531839]"},
            "/proc/self/ns/uts": {"link": "uts:[4026531838]"},
            "/proc/self/mountinfo": MOUNTS,
        },
    )
    # the last mount at a place covers the others
    assert read_host_identity(world) == HostIdentity(
        "a7be24d3-03f2", {"ipc": "4026531839", "uts": "4026531838", "shm": "0:61"}
    )


def test_shared_memory_without_a_mount_of_its_own(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files={"/proc/self/mountinfo": "\n".join(MOUNTS.splitlines()[:2])})
    assert read_host_identity(world).namespaces == {"shm": "0:5"}


def test_no_identity_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        read_host_identity(recorded_world(tmp_path))
    with pytest.raises(Unavailable, match="darwin"):
        read_host_identity(recorded_world(tmp_path, platform="darwin"))


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, Code("/project/job/src")),
        ({"/project/job/.git/HEAD": f"{COMMIT}\n"}, Code("/project/job/src", COMMIT)),
        (
            {"/project/job/.git/HEAD": "ref: refs/heads/main\n", "/project/job/.git/refs/heads/main": f"{COMMIT}\n"},
            Code("/project/job/src", COMMIT, "main"),
        ),
        (
            {
                "/project/job/.git/HEAD": "ref: refs/heads/feature/x\n",
                "/project/job/.git/packed-refs": f"# pack-refs with: peeled\n{OTHER} refs/heads/x\n{COMMIT} refs/heads/feature/x\n^{OTHER}\n",
            },
            Code("/project/job/src", COMMIT, "feature/x"),
        ),
        # a branch without a commit
        ({"/project/job/.git/HEAD": "ref: refs/heads/main\n"}, Code("/project/job/src", "", "main")),
        # a worktree
        (
            {
                "/project/job/.git": "gitdir: /home/user/repo/.git/worktrees/job\n",
                "/home/user/repo/.git/worktrees/job/HEAD": "ref: refs/heads/main\n",
                "/home/user/repo/.git/worktrees/job/commondir": "../..\n",
                "/home/user/repo/.git/refs/heads/main": f"{COMMIT}\n",
            },
            Code("/project/job/src", COMMIT, "main"),
        ),
        # a submodule, by a relative path
        (
            {"/project/job/.git": "gitdir: ../repo/.git/modules/job\n", "/project/repo/.git/modules/job/HEAD": f"{OTHER}\n"},
            Code("/project/job/src", OTHER),
        ),
        # a folder that is called so and is none
        ({"/project/job/.git/notes": "x", "/project/.git/HEAD": f"{OTHER}\n"}, Code("/project/job/src", OTHER)),
    ],
)  # fmt: skip
def test_the_commit_of_the_working_directory(tmp_path: Path, files: dict[str, str], code: Code) -> None:
    world = recorded_world(tmp_path, files={"/project/job/src": None, **files}, working_folder="/project/job/src")
    assert read_code(world) == code


def test_references_that_are_not_read_are_said(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files={"/w/.git/HEAD": "ref: refs/heads/.invalid\n"}, working_folder="/w")
    with pytest.raises(Unavailable, match="reftable"):
        read_code(world)
    world = recorded_world(tmp_path, files={"/v/.git": "gitdir: /gone\n"}, working_folder="/v")
    with pytest.raises(Unavailable, match="/gone/HEAD"):
        read_code(world)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_git_itself(tmp_path: Path) -> None:
    def git(folder: Path, *words: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *identity, "-C", str(folder), *words], check=True, capture_output=True, text=True, timeout=30
        )
        return done.stdout.strip()

    repository, tree = tmp_path / "repository", tmp_path / "tree"
    repository.mkdir()
    git(repository, "init", "-q")
    git(repository, "commit", "-q", "--allow-empty", "-m", "one")
    git(repository, "worktree", "add", "-q", "-b", "side", str(tree))
    git(tree, "commit", "-q", "--allow-empty", "-m", "two")
    for packed in (False, True):
        if packed:
            git(repository, "pack-refs", "--all")
        for folder, branch in ((repository, "main"), (tree, "side")):
            world = recorded_world(Path("/"), working_folder=str(folder))
            assert read_code(world) == Code(str(folder), git(folder, "rev-parse", "HEAD"), branch)


@pytest.mark.parametrize("name", sorted(path.name for path in HOSTS.iterdir() if (path / "world.json").exists()))
def test_recorded_hosts_give_small_records_that_travel(name: str, tmp_path: Path) -> None:
    world = load_world(name, tmp_path)
    given = make_launch({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"})
    seen = examine(given, world)
    record = read_host_record(given, world, seen.facts)
    text = to_json(record)
    assert from_json(HostRecord, text) == record
    assert len(text) < 16 * 1024
    assert record.host == world.host_name()


class ClosedWorld(RecordedWorld):
    """A world that tells its name and nothing else."""

    def read_bytes(self, path: str, limit: int = 0) -> bytes:
        raise AssertionError(f"{path} was read")

    def list_folder(self, path: str) -> tuple[str, ...]:
        raise AssertionError(f"{path} was read")

    def exists(self, path: str) -> bool:
        raise AssertionError(f"{path} was looked for")


def test_nothing_is_read_twice(tmp_path: Path) -> None:
    known = {**facts(), Driver: Driver()}
    record = read_host_record(launch(), ClosedWorld(tmp_path, {}), known)
    assert record == make_host_record(known, launch(), host="node1", pid=4711)
    assert record.unavailable == {}
    # what is missing is read, and a reader that fails costs its own fact only
    del known[Code]
    record = read_host_record(launch(), ClosedWorld(tmp_path, {}), known)
    assert set(record.unavailable) == {"code"}
    assert "was looked for" in record.unavailable["code"]
