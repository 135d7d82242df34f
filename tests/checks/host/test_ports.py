"""The port on which the job meets: recorded hosts, and listeners that are really there."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host import ports
from distcheck.checks.host.hostnames import MasterName, Name
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.ports import (
    MasterPort,
    PortOwner,
    master_port_is_free,
    master_port_is_wise,
    read_master_port,
)
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.core.world import World
from distcheck.launch.command import parse_command
from distcheck.launch.model import DEFAULT_PORT, Launch
from distcheck.launch.reader import make_launch
from tests.recorded import recorded_world

REPOSITORY = Path(__file__).parents[3]
NOT_ASKED = Unavailable("not asked")
LOCALHOST = MasterName(Name("127.0.0.1", ("127.0.0.1",)))
SYSCTL = "/proc/sys/net/ipv4"
LINUX_DEFAULTS = {
    f"{SYSCTL}/ip_local_port_range": "32768\t60999\n",
    f"{SYSCTL}/ip_unprivileged_port_start": "1024\n",
    f"{SYSCTL}/ip_local_reserved_ports": "\n",
}
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def planned(line: str, **environ: str) -> Launch:
    return make_launch(environ, command=parse_command(shlex.split(line), environ))


STATIC = planned("torchrun --nproc-per-node=2 --master-port=29500 train.py")
C10D = planned("torchrun --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:29500 train.py")
TWO_NODES = planned("torchrun --nnodes=2 --node-rank=0 --master-addr=node0 --master-port=29500 train.py")
RANK_0 = make_launch({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})
OTHERS = PortOwner(4242, "alice", "python serve.py", 1_795_000_000.0)
TAKEN = MasterPort(29500, "taken", OTHERS, free_port=29501, ephemeral_low=32768, ephemeral_high=60999)


def free_probe(launch: Launch, port: MasterPort, master: MasterName | Unavailable = LOCALHOST) -> list[Finding]:
    return list(master_port_is_free(launch, port, master))


# DC401


@pytest.mark.parametrize(
    ("launch", "port", "message", "fix"),
    [
        pytest.param(
            STATIC,
            TAKEN,
            "python serve.py (process 4242 of alice, since 2026-11-18",
            "--master-port=29501",
            id="static",
        ),
        pytest.param(TWO_NODES, TAKEN, "29500", "the same on every node", id="two nodes"),
        pytest.param(RANK_0, TAKEN, "29500", "29501 is free", id="rank 0 of a plain launch"),
        pytest.param(
            C10D,
            TAKEN._replace(listener="silent"),
            "wait without end",
            "--rdzv-endpoint=localhost:29501",
            id="silent listener",
        ),
        pytest.param(C10D, TAKEN._replace(listener="web-server"), "a web server", "--standalone", id="web server"),
        pytest.param(
            STATIC, TAKEN._replace(listener="torch-store"), "a store of torch", "29501", id="another job's store"
        ),
        pytest.param(STATIC, TAKEN._replace(owner=None), "may not inspect", "29501", id="/proc tells nothing"),
        pytest.param(
            STATIC,
            TAKEN._replace(owner=PortOwner(None, "bob")),
            "of bob that this user may not inspect",
            "29501",
            id="other user",
        ),
        pytest.param(
            STATIC,
            TAKEN._replace(owner=PortOwner(None, "me", own=True)),
            "another container",
            "29501",
            id="other container",
        ),
        pytest.param(
            STATIC,
            TAKEN._replace(owner=PortOwner(None, holds="closing")),
            "still close",
            "wait a minute",
            id="closing",
        ),
        pytest.param(
            STATIC,
            TAKEN._replace(owner=OTHERS._replace(holds="connected")),
            "its end of a connection",
            "29501",
            id="outgoing",
        ),
        pytest.param(
            STATIC, TAKEN._replace(free_port=None), "29500", "PORT must be free", id="no other port was found"
        ),
        pytest.param(
            planned("accelerate launch --num_machines=2 --machine_rank=0 --main_process_port 29500 t.py"),
            TAKEN,
            "29500",
            "--main_process_port 29501",
            id="accelerate",
        ),
        pytest.param(
            planned("deepspeed --master_port=29500 t.py"), TAKEN, "29500", "--master_port 29501", id="deepspeed"
        ),
    ],
)
def test_bad_port_in_use(launch: Launch, port: MasterPort, message: str, fix: str) -> None:
    (finding,) = free_probe(launch, port)
    assert (finding.code, finding.severity) == ("DC401", Severity.ERROR)
    assert message in finding.message
    assert fix in finding.fix.text


@pytest.mark.parametrize(
    ("launch", "port", "master"),
    [
        pytest.param(STATIC, TAKEN._replace(state="free", owner=None), LOCALHOST, id="free"),
        pytest.param(STATIC, TAKEN._replace(owner=OTHERS._replace(ancestor=True)), LOCALHOST, id="the job's own agent"),
        pytest.param(STATIC, TAKEN._replace(state="not-tried", owner=None), LOCALHOST, id="another host listens"),
        pytest.param(STATIC, MasterPort(0, "picked"), LOCALHOST, id="standalone"),
        pytest.param(STATIC, TAKEN._replace(state="privileged", owner=None), LOCALHOST, id="privileged is DC402"),
        pytest.param(
            STATIC, TAKEN._replace(state="taken-on-ipv6"), LOCALHOST, id="on IPv6 only, and the job meets on IPv4"
        ),
        pytest.param(
            STATIC, TAKEN._replace(state="taken-on-ipv6"), NOT_ASKED, id="on IPv6 only, the name is not known"
        ),
    ],
)
def test_good_dc401_port_in_use(launch: Launch, port: MasterPort, master: MasterName | Unavailable) -> None:
    assert free_probe(launch, port, master) == []


def test_bad_port_in_use_on_ipv6() -> None:
    master = MasterName(Name("node0", ("2001:db8::1", "10.0.0.4")))
    (finding,) = free_probe(STATIC, TAKEN._replace(state="taken-on-ipv6"), master)
    assert (finding.code, finding.severity) == ("DC401", Severity.ERROR)


def test_another_store_of_torch_is_joined_by_c10d() -> None:
    (finding,) = free_probe(C10D, TAKEN._replace(listener="torch-store"))
    assert (finding.code, finding.severity) == ("DC401", Severity.INFO)


def test_who_listens_is_not_known() -> None:
    with pytest.raises(Unavailable, match="29500"):
        free_probe(TWO_NODES, TAKEN._replace(state="not-known", owner=None))


def test_only_an_own_orphan_may_be_ended() -> None:
    (finding,) = free_probe(STATIC, TAKEN._replace(owner=OTHERS._replace(own=True, orphan=True)))
    assert "'kill 4242'" in finding.fix.text
    assert "kill" not in (finding.fix.command or "")
    for owner in (OTHERS, OTHERS._replace(own=True)):
        (finding,) = free_probe(STATIC, TAKEN._replace(owner=owner))
        assert "kill" not in finding.fix.text


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("torchrun --master-port=29500 train.py --lr=1", "torchrun --master-port=29501 train.py --lr=1"),
        ("torchrun --master_port 29500 train.py", "torchrun --master_port 29501 train.py"),
        (
            "srun torchrun --rdzv-backend=c10d --rdzv_endpoint=[::1]:29500 train.py",
            "srun torchrun --rdzv-backend=c10d '--rdzv_endpoint=[::1]:29501' train.py",
        ),
        ("deepspeed --master_port=29500 t.py --master_port=1", "deepspeed --master_port=29501 t.py --master_port=1"),
        ("torchrun --master-port=29500 train.py --token=abc", None),
        ("deepspeed t.py --master_port=29500", None),
    ],
)
def test_the_whole_command_is_given_where_the_port_stands_in_it(line: str, command: str | None) -> None:
    (finding,) = free_probe(planned(line), TAKEN)
    assert finding.fix.command == command
    if command is not None:
        assert planned(command).master_port == 29501


def test_a_plain_launch_is_fixed_in_the_job_script() -> None:
    (finding,) = free_probe(RANK_0, TAKEN)
    assert (finding.fix.command, finding.fix.where) == ("export MASTER_PORT=29501", "job-script")


# DC402


@pytest.mark.parametrize(
    ("launch", "port"),
    [
        pytest.param(STATIC, TAKEN._replace(port=40000, state="free", owner=None), id="ephemeral"),
        pytest.param(RANK_0, TAKEN._replace(port=60999, state="free", owner=None), id="ephemeral, exported"),
        pytest.param(STATIC, TAKEN._replace(port=40000, state="not-known", owner=None), id="ephemeral, some host's"),
        pytest.param(STATIC, TAKEN._replace(port=80, state="privileged", owner=None), id="privileged"),
    ],
)
def test_bad_port_choice(launch: Launch, port: MasterPort) -> None:
    (finding,) = master_port_is_wise(launch, port)
    # a privileged port can't be bound at all; an ephemeral one is taken on some day
    severity = Severity.ERROR if port.state == "privileged" else Severity.WARNING
    assert (finding.code, finding.severity) == ("DC402", severity)
    assert "29501" in finding.fix.text
    assert list(master_port_is_wise(launch, port._replace(port=29501, state="free"))) == []


@pytest.mark.parametrize(
    ("launch", "port"),
    [
        pytest.param(STATIC, TAKEN._replace(state="free"), id="below the range"),
        pytest.param(
            STATIC, TAKEN._replace(port=40000, state="free", reserved=True), id="reserved by the administrator"
        ),
        pytest.param(
            STATIC._replace(port_chosen=False), TAKEN._replace(port=40000, state="free"), id="c10d's own choice"
        ),
        pytest.param(RANK_0._replace(scheduler="ray"), TAKEN._replace(port=40000, state="free"), id="Ray's choice"),
        pytest.param(STATIC, TAKEN._replace(port=40000, state="not-tried"), id="another host judges"),
        pytest.param(STATIC, TAKEN._replace(port=80, state="free"), id="root may take any"),
        pytest.param(STATIC, TAKEN._replace(ephemeral_low=None, ephemeral_high=None, state="free"), id="no /proc"),
        pytest.param(STATIC, MasterPort(0, "picked"), id="none chosen"),
        pytest.param(
            STATIC,
            TAKEN._replace(port=40000, owner=OTHERS._replace(ancestor=True)),
            id="the agent listens there already",
        ),
    ],
)
def test_good_port_choice(launch: Launch, port: MasterPort) -> None:
    found = list(master_port_is_wise(launch, port))
    assert [finding.code for finding in found if finding.code == "DC402"] == []


# the reader, on recorded hosts


def read(world: World, launch: Launch, master: MasterName | Unavailable = NOT_ASKED) -> MasterPort:
    return read_master_port(world, launch, master, NOT_ASKED)


def test_a_free_port(tmp_path: Path) -> None:
    found = read(recorded_world(tmp_path, files=LINUX_DEFAULTS), STATIC)
    assert found == MasterPort(29500, "free", ephemeral_low=32768, ephemeral_high=60999)


def test_without_proc(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, platform="darwin", taken_ports=[29500])
    found = read(world, STATIC)
    assert (found.state, found.owner, found.ephemeral_low, found.free_port) == ("taken", None, None, 29501)
    assert free_probe(STATIC, found)[0].code == "DC401"


def taken_world(folder: Path, *, pid: int = 900, parent: int = 1, **record: Any) -> World:
    """Port 29500 is held by process 900 of alice; 4711 is this process, below 4000 and 1."""
    processes = {
        4711: ("python", 4000),
        4000: ("torchrun", 1),
        1: (record.pop("init", "systemd"), 0),
        900: ("python", parent),
    }
    files: dict[str, Any] = {
        **LINUX_DEFAULTS,
        "/proc/net/tcp": HEADER
        + "   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 77 1\n",
        "/proc/net/tcp6": HEADER,
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\nbroken line\n",
        "/proc/stat": "cpu 1 2 3\nbtime 1794000000\n",
        f"/proc/{pid}/fd/3": {"link": "/dev/null"},
        f"/proc/{pid}/fd/7": {"link": "socket:[77]"},
        "/proc/900/cmdline": "python\0serve.py\0--api-key\0abcdef\0",
        "/proc/900/stat": "900 (a (odd) name) S 1 " + "0 " * 17 + "100000 0 0\n",
        "/proc/900/environ": record.pop("variables", "HOME=/home/alice\0"),
    }
    for number, (name, above) in processes.items():
        user = 1001 if number == 900 else 1000
        files[f"/proc/{number}/status"] = f"Name:\t{name}\nPPid:\t{above}\nUid:\t{user}\t{user}\t{user}\t{user}\n"
    files.update(record.pop("more", {}))
    return recorded_world(folder, files=files, taken_ports=[29500], **record)


def test_the_owner_is_named(tmp_path: Path) -> None:
    found = read(taken_world(tmp_path, listeners={"127.0.0.1:29500": ""}), STATIC)
    assert found.owner == PortOwner(900, "alice", "python serve.py --api-key ***", 1_794_001_000.0)
    assert (found.state, found.listener, found.free_port) == ("taken", "silent", 29501)
    assert "abcdef" not in str(free_probe(STATIC, found))


@pytest.mark.parametrize("holder", [4711, 4000])
def test_the_own_agent_holds_it(tmp_path: Path, holder: int) -> None:
    found = read(taken_world(tmp_path, pid=holder), STATIC)
    assert found.owner is not None
    assert found.owner.ancestor
    assert found.listener is None
    assert free_probe(STATIC, found) == []


def test_a_socket_that_is_shared_with_the_agent(tmp_path: Path) -> None:
    world = taken_world(tmp_path, more={"/proc/4000/fd/5": {"link": "socket:[77]"}})
    owner = read(world, STATIC).owner
    assert owner is not None
    assert (owner.pid, owner.ancestor) == (4000, True)


def test_an_owner_whose_files_are_hidden(tmp_path: Path) -> None:
    found = read(taken_world(tmp_path, pid=900, more={"/proc/900/fd/7": {"link": "socket:[1]"}}), STATIC)
    assert found.owner == PortOwner(None, "alice")


@pytest.mark.parametrize(
    ("init", "parent", "variables", "user", "orphan"),
    [
        pytest.param("systemd", 1, "A=1\0TORCHELASTIC_RUN_ID=x\0", 1001, True, id="a worker whose agent is gone"),
        pytest.param("systemd", 1, "A=1\0TORCHELASTIC_RUN_ID=x\0", 1000, False, id="somebody else's"),
        pytest.param("systemd", 1, "A=1\0", 1001, False, id="nohup python"),
        pytest.param(
            "torchrun", 1, "TORCHELASTIC_RUN_ID=x\0", 1001, False, id="torchrun is process 1 of the container"
        ),
        pytest.param("systemd", 4000, "TORCHELASTIC_RUN_ID=x\0", 1001, False, id="its agent is there"),
    ],
)
def test_orphans(tmp_path: Path, init: str, parent: int, variables: str, user: int, orphan: bool) -> None:
    world = taken_world(tmp_path, init=init, parent=parent, variables=variables, user_id=user)
    owner = read(world, STATIC).owner
    assert owner is not None
    assert (owner.orphan, owner.own) == (orphan, user == 1001)


@pytest.mark.parametrize(
    ("state", "inode", "holds"),
    [("06", "0", "closing"), ("01", "77", "connected"), ("05", "0", "closing"), ("0A", "77", "listening")],
)
def test_what_holds_a_port(tmp_path: Path, state: str, inode: str, holds: str) -> None:
    line = (
        f"   0: 0100007F:733C 0100007F:1F90 {state} 00000000:00000000 00:00000000 00000000  1001        0 {inode} 1\n"
    )
    owner = read(taken_world(tmp_path, more={"/proc/net/tcp": HEADER + line}), STATIC).owner
    assert owner is not None
    assert owner.holds == holds
    assert owner.pid == (None if holds == "closing" else 900)


@pytest.mark.parametrize(
    ("field", "address"),
    [("0500000A:733C", "10.0.0.5"), ("00000000:733C", "127.0.0.1"), ("0200007F:733C", "127.0.0.2")],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="the recorded table is of a little-endian machine")
def test_a_listener_is_asked_at_its_own_address(tmp_path: Path, field: str, address: str) -> None:
    line = f"   0: {field} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 77 1\n"
    world = taken_world(
        tmp_path, more={"/proc/net/tcp": HEADER + line}, listeners={f"{address}:29500": "HTTP/1.1 400 Bad\r\n"}
    )
    found = read(world, STATIC)
    assert (found.listener, found.greeting) == ("web-server", "HTTP/1.1 400 Bad\\r\\n")


@pytest.mark.parametrize(
    ("said", "listener"),
    [
        ("dist", "torch-store"),
        ("SSH-2.0-OpenSSH_9.2", "other"),
        ("", "silent"),
        (111, None),
        ("HTTP/1.0 200 OK", "web-server"),
    ],
)
def test_what_answers(tmp_path: Path, said: object, listener: str | None) -> None:
    assert read(taken_world(tmp_path, listeners={"127.0.0.1:29500": said}), STATIC).listener == listener


def test_who_tries(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files=LINUX_DEFAULTS, taken_ports=[29500])
    for launch in (
        planned("torchrun --nnodes=2 --node-rank=1 --master-addr=node0 --master-port=29500 train.py"),
        RANK_0._replace(rank=1),
        RANK_0._replace(agent_store=True),
        planned("python train.py", RANK="1", WORLD_SIZE="2", MASTER_ADDR="node0", MASTER_PORT="29500"),
    ):
        assert read(world, launch).state == "not-tried"
    for launch in (STATIC, C10D, TWO_NODES, RANK_0):
        assert read(world, launch).state == "taken"


def test_with_c10d_the_address_tells_who_listens(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files=LINUX_DEFAULTS)
    launch = planned("torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=head:29500 train.py")
    here = Interfaces((Interface("eth0", ("10.0.0.5/255.255.255.0",)),))
    for address, state in (("10.0.0.5", "free"), ("10.0.0.4", "not-tried")):
        assert read_master_port(world, launch, MasterName(Name("head", (address,))), here).state == state
    assert read_master_port(world, launch, NOT_ASKED, here).state == "not-known"
    assert read_master_port(world, launch, MasterName(Name("head", error="unknown")), here).state == "not-known"


@pytest.mark.parametrize(
    "launch",
    [
        planned("torchrun --standalone train.py"),
        planned("torchrun train.py"),
        planned("torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py"),
        planned("accelerate launch train.py"),
        make_launch({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}),
    ],
)
def test_a_port_that_is_picked_as_the_job_starts(tmp_path: Path, launch: Launch) -> None:
    found = read(recorded_world(tmp_path), launch)
    assert found == MasterPort(0, "picked")
    assert free_probe(launch, found) == []


@pytest.mark.parametrize("launch", [Launch(), planned("python train.py")])
def test_no_port_is_not_checked(tmp_path: Path, launch: Launch) -> None:
    with pytest.raises(Unavailable):
        read(recorded_world(tmp_path), launch)


@pytest.mark.parametrize(("user", "state"), [(1000, "privileged"), (0, "free")])
def test_privileged_ports(tmp_path: Path, user: int, state: str) -> None:
    world = recorded_world(tmp_path, files=LINUX_DEFAULTS, user_id=user)
    assert read(world, planned("torchrun --master-port=80 train.py")).state == state


@pytest.mark.parametrize(
    ("low", "high", "taken", "free"),
    [
        (32768, 60999, [], 29501),
        (32768, 60999, [29501, 29502], 29503),
        (29000, 65535, [], 20000),
        (1024, 65535, [], None),
        (32768, 60999, range(20000, 32768), None),
    ],
)
def test_the_port_for_the_fix(tmp_path: Path, low: int, high: int, taken: list[int], free: int | None) -> None:
    files = {**LINUX_DEFAULTS, f"{SYSCTL}/ip_local_port_range": f"{low} {high}"}
    world = recorded_world(tmp_path, files=files, taken_ports=[29500, *taken])
    found = read(world, STATIC)
    assert found.free_port == free
    assert found.state == "taken"


def test_the_port_for_the_fix_is_one_that_the_kernel_gives_to_all_users(tmp_path: Path) -> None:
    files = {**LINUX_DEFAULTS, f"{SYSCTL}/ip_unprivileged_port_start": "30000\n"}
    assert read(recorded_world(tmp_path, files=files, taken_ports=[29500]), STATIC).free_port == 30000


@pytest.mark.parametrize(
    ("text", "reserved"), [("40000", True), ("8080,39990-40010\n", True), ("39990-39999,x-,-", False)]
)
def test_reserved_ports(tmp_path: Path, text: str, reserved: bool) -> None:
    world = recorded_world(tmp_path, files={**LINUX_DEFAULTS, f"{SYSCTL}/ip_local_reserved_ports": text})
    launch = planned("torchrun --master-port=40000 train.py")
    found = read(world, launch)
    assert found.reserved is reserved
    assert (list(master_port_is_wise(launch, found)) == []) is reserved


@given(
    tables=st.tuples(st.text(), st.text()),
    status=st.text(),
    port_range=st.text(),
    reserved=st.text(),
    passwd=st.text(),
)
def test_any_content_of_proc_is_survived(
    tmp_path_factory: pytest.TempPathFactory,
    tables: tuple[str, str],
    status: str,
    port_range: str,
    reserved: str,
    passwd: str,
) -> None:
    folder = tmp_path_factory.mktemp("host")
    line = "   0: 00000000:733C 00000000:0000 0A 0:0 0:0 0  1001        0 77 1\n"
    files: dict[str, Any] = {
        "/proc/net/tcp": HEADER + tables[0] + "\n" + line,
        "/proc/net/tcp6": tables[1],
        f"{SYSCTL}/ip_local_port_range": port_range,
        f"{SYSCTL}/ip_local_reserved_ports": reserved,
        "/etc/passwd": passwd,
        "/proc/900/status": status,
        "/proc/900/stat": status,
        "/proc/stat": status,
        "/proc/900/fd/7": {"link": "socket:[77]"},
    }
    encodable = {
        name: text if isinstance(text, dict) else text.encode("utf-8", "replace").decode()
        for name, text in files.items()
    }
    found = read(recorded_world(folder, files=encodable, taken_ports=[29500]), STATIC)
    assert found.owner is not None
    assert found.owner.pid == 900
    assert free_probe(STATIC, found)[0].code == "DC401"


# listeners that are really there

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_LISTEN = """
import socket, sys
family, address, v6only, reuse, words = sys.argv[1:6]
listener = socket.socket(getattr(socket, family))
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
if family == "AF_INET6":
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(v6only))
listener.bind((address, 0))
listener.listen(8)
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    if words == "store":
        connection.sendall(connection.recv(64)[6:10])
    elif words == "close":
        connection.close()
    keep = connection
"""


@contextlib.contextmanager
def child(*command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of ours and the first line that it prints; ended at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


@contextlib.contextmanager
def listener(
    family: str = "AF_INET",
    address: str = "0.0.0.0",
    *,
    v6only: bool = False,
    reuse: bool = True,
    words: str = "silent",
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    arguments = (family, address, str(int(v6only)), str(int(reuse)), words, "--token=s3cret-value")
    with child(sys.executable, "-c", _LISTEN, *arguments) as (process, line):
        if not line:
            pytest.skip(f"{address} is no address of this host")
        yield process, int(line)


def meeting_at(port: int) -> Launch:
    return Launch("planned", master_port=port, nnodes=1, nnodes_max=1, launcher="torchrun", rdzv_backend="static")


@linux
def test_bad_a_port_that_a_child_holds() -> None:
    with listener() as (process, port):
        found = read(World({}), meeting_at(port))
    assert found.state == "taken"
    owner = found.owner
    assert owner is not None
    assert (owner.pid, owner.own, owner.ancestor, owner.orphan) == (process.pid, True, False, False)
    assert owner.command is not None
    assert sys.executable in owner.command
    assert owner.user == (os.environ.get("USER") or owner.user)
    assert owner.started_at is not None
    assert abs(owner.started_at - time.time()) < 3600
    assert found.listener == "silent"
    (finding,) = free_probe(meeting_at(port), found)
    assert finding.code == "DC401"
    assert f"your process {process.pid}" in finding.message
    assert "s3cret" not in str(finding)
    assert found.free_port is not None


@linux
@pytest.mark.parametrize(
    ("family", "address", "v6only", "state"),
    [
        pytest.param("AF_INET", "0.0.0.0", False, "taken", id="IPv4"),
        pytest.param("AF_INET", "127.0.0.1", False, "taken", id="IPv4 loopback"),
        pytest.param("AF_INET", "127.0.0.2", False, "taken", id="another address of loopback"),
        pytest.param("AF_INET6", "::", False, "taken", id="both"),
        pytest.param("AF_INET6", "::", True, "taken-on-ipv6", id="IPv6"),
        pytest.param("AF_INET6", "::1", True, "taken-on-ipv6", id="IPv6 loopback"),
    ],
)
def test_who_is_in_the_way_of_torch(family: str, address: str, v6only: bool, state: str) -> None:
    with listener(family, address, v6only=v6only) as (process, port):
        found = read(World({}), meeting_at(port))
    assert found.state == state
    assert found.owner is not None
    assert found.owner.pid == process.pid
    assert found.listener == "silent"


@linux
@pytest.mark.parametrize(("words", "kind"), [("store", "torch-store"), ("close", "closes"), ("silent", "silent")])
def test_how_a_real_listener_answers(words: str, kind: str) -> None:
    with listener(words=words) as (_, port):
        assert read(World({}), meeting_at(port)).listener == kind


@linux
def test_a_real_web_server() -> None:
    with child(sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1") as (process, line):
        port = int(line.split(" port ")[1].split()[0])
        found = read(World({}), meeting_at(port))
    assert found.listener == "web-server"
    assert found.greeting is not None
    assert found.greeting.startswith("HTTP/")
    assert found.owner is not None
    assert found.owner.pid == process.pid


@linux
def test_good_a_port_of_which_connections_are_still_closing() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as client:
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    server.close()
    assert f":{port:04X}" in Path("/proc/net/tcp").read_text()
    assert read(World({}), meeting_at(port)).state == "free"


@linux
def test_an_outgoing_connection_holds_its_port() -> None:
    with listener() as (_, port), socket.create_connection(("127.0.0.1", port)) as client:
        own_port = client.getsockname()[1]
        owner = read(World({}), meeting_at(own_port)).owner
    assert owner is not None
    assert (owner.holds, owner.ancestor) == ("connected", True)


@linux
def test_good_the_process_above_holds_the_port() -> None:
    code = """
        import sys
        from distcheck.checks.host.ports import read_master_port
        from distcheck.launch.model import Launch
        from distcheck.core.model import Unavailable
        from distcheck.core.world import World
        launch = Launch("planned", master_port=int(sys.argv[1]), nnodes=1)
        print(read_master_port(World({}), launch, Unavailable(""), Unavailable("")).owner)
    """
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(port)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
    assert f"pid={os.getpid()}" in done.stdout
    assert "ancestor=True" in done.stdout


@pytest.mark.torch
@linux
@pytest.mark.parametrize(
    ("family", "address", "v6only", "reuse"),
    [
        ("AF_INET", "0.0.0.0", False, True),
        ("AF_INET", "0.0.0.0", False, False),
        ("AF_INET", "127.0.0.2", False, True),
        ("AF_INET6", "::", False, True),
        ("AF_INET6", "::", True, True),
        ("AF_INET6", "::1", True, False),
    ],
)
def test_torch_finds_the_same(family: str, address: str, v6only: bool, reuse: bool) -> None:
    distributed = pytest.importorskip("torch.distributed")
    with listener(family, address, v6only=v6only, reuse=reuse) as (_, port):
        try:
            World({}).try_listen(port)
        except OSError:
            with pytest.raises(distributed.DistNetworkError, match="98"):
                distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        else:
            distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)


@pytest.mark.torch
@linux
@pytest.mark.parametrize("libuv", [True, False])
def test_a_store_of_torch_is_known_for_one(libuv: bool) -> None:
    pytest.importorskip("torch.distributed")
    code = (
        "import sys, time, torch.distributed as d;"
        f"s = d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False, use_libuv={libuv});"
        "print(s.port, flush=True); time.sleep(60)"
    )
    with child(sys.executable, "-c", code) as (process, line):
        found = read(World({}), meeting_at(int(line)))
    assert found.listener == "torch-store"
    assert found.owner is not None
    assert found.owner.pid == process.pid


def test_the_free_port_of_this_host_can_be_bound() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        found = read(World({}), meeting_at(server.getsockname()[1]))
    assert found.state == "taken"
    if found.free_port is None:
        pytest.skip("every port of this host lies in its ephemeral range or is taken")
    assert found.free_port != DEFAULT_PORT
    assert World({}).try_listen(found.free_port)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_listeners_and_their_owners_are_those_that_psutil_finds() -> None:
    psutil = pytest.importorskip("psutil")
    code = (
        "import socket\n"
        "all = [socket.create_server((host, 0), family=family) for host, family in "
        "(('127.0.0.1', socket.AF_INET), ('0.0.0.0', socket.AF_INET), ('::', socket.AF_INET6))]\n"
        "print(*(one.getsockname()[1] for one in all), flush=True)\n"
        "__import__('time').sleep(60)"
    )
    with child(sys.executable, "-c", code) as (process, line):
        known = {
            (connection.laddr.port, connection.laddr.ip, process.pid)
            for connection in psutil.Process(process.pid).net_connections("tcp")
        }
        world = World({})
        found = set()
        for port in map(int, line.split()):
            (one,) = [item for item in ports._sockets(world, port) if item.state == "0A"]
            owner = ports._find_owner(world, ports._sockets(world, port))
            assert owner is not None
            assert owner.holds == "listening"
            assert owner.user == psutil.Process(process.pid).username()
            found.add((port, one.address, owner.pid))
            assert owner.started_at == pytest.approx(psutil.Process(process.pid).create_time(), abs=2)
    assert found == known
    assert len(found) == 3
