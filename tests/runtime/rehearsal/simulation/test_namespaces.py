"""The network of a rehearsal: no other machine is reached, from any program, and this one looks as it is."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distcheck.runtime.rehearsal.simulation import network_namespace, overlay
from distcheck.runtime.rehearsal.simulation.network_namespace import NameServer, Outside
from distcheck.runtime.rehearsal.simulation.overlay import Overlay
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

from .test_overlay import ROOT, rank

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")
#: an address of documentation (RFC 5737), and a name of a domain that never exists (RFC 2606)
ELSEWHERE = "bash -c 'exec 3<>/dev/tcp/198.51.100.7/443'"
NAMED = "bash -c 'exec 3<>/dev/tcp/tracker.invalid/443'"


def run(plan: RehearsalPlan, command: str) -> subprocess.CompletedProcess[str]:
    """A program that is no Python, started by a rank."""
    code = f"import subprocess; done = subprocess.run({command!r}, shell=True, capture_output=True, text=True); "
    out = rank(plan, code + "print(done.returncode); print(done.stdout + done.stderr)")
    status, _, text = out.partition("\n")
    return subprocess.CompletedProcess(command, int(status), text)


@pytest.fixture
def plan(tmp_path: Path) -> RehearsalPlan:
    for name in ("job", "private"):
        (tmp_path / name).mkdir()
    return RehearsalPlan("train.py", folder=str(tmp_path / "job"), private=str(tmp_path / "private"))


@pytest.fixture(params=[False, True], ids=["overlay", "in_place"])
def closed(request: pytest.FixtureRequest, plan: RehearsalPlan) -> Iterator[Overlay]:
    made = overlay.begin(plan._replace(in_place=request.param))
    if "net" not in made.settings.namespaces:
        made.remove()
        pytest.skip(f"network namespaces are not allowed here: {made.notes}")
    yield made
    made.remove()


def refused(made: Overlay) -> list[str]:
    return [note for note in made.end().notes if "was refused" in note]


def test_bad_a_program_reaches_another_machine(closed: Overlay) -> None:
    assert "unreachable" in run(closed.plan, ELSEWHERE).stdout
    assert refused(closed) == [
        "compiled code, or a program that the script started, tried to reach other machines, and was refused "
        "(--network allows it)"
    ]


def test_bad_a_program_looks_up_another_machine(closed: Overlay) -> None:
    assert run(closed.plan, NAMED).returncode != 0
    assert "tried to resolve tracker.invalid, and was refused" in refused(closed)[0]


def test_bad_a_service_of_this_machine_outside_of_the_rehearsal(closed: Overlay) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert run(closed.plan, f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}'").returncode != 0


def test_good_ranks_reach_each_other(closed: Overlay) -> None:
    # each of them is a process of its own; the second one is no Python
    script = (
        "import socket, subprocess; server = socket.create_server(('127.0.0.1', 0)); port = server.getsockname()[1]; "
        "program = ['bash', '-c', f'exec 3<>/dev/tcp/localhost/{port}; echo hello >&3']; "
        "subprocess.run(program, check=True); print(server.accept()[0].recv(9))"
    )
    assert rank(closed.plan, script) == "b'hello\\n'\n"
    assert refused(closed) == []


def test_good_the_hosts_addresses_interfaces_and_name_are_here(closed: Overlay) -> None:
    outside = network_namespace.read()
    script = (
        "import socket; from distcheck.runtime.rehearsal.simulation import network_namespace as n; "
        "print(socket.gethostname(), sorted(a for _, a in n.read().interfaces)); "
        "[socket.socket().bind((a, 0)) for _, a in n.read().interfaces]"
    )
    addresses = sorted(address for _, address in outside.interfaces)
    assert rank(closed.plan, script) == f"{socket.gethostname()} {addresses}\n"
    assert refused(closed) == []


def test_good_an_open_network_is_this_machines(plan: RehearsalPlan) -> None:
    made = overlay.begin(plan._replace(network=True))
    try:
        assert "net" not in made.settings.namespaces
        with socket.create_server(("127.0.0.1", 0)) as server:
            assert run(plan, f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}'").returncode == 0
        assert made.end().notes == ()
    finally:
        made.remove()


def test_good_an_open_network_in_place_needs_no_process(plan: RehearsalPlan) -> None:
    made = overlay.begin(plan._replace(network=True, in_place=True))
    assert (made._keeper, made.settings.how, made.settings.namespaces, made.notes) == (None, "none", (), [])
    made.remove()


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from distcheck.runtime.rehearsal.simulation import overlay
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
made = overlay.begin(RehearsalPlan("t.py", folder={folder!r}, private={private!r}, in_place=True))
print(*made.settings.namespaces or ["none"])
print(*made.notes, sep="\\n")
made.remove()
"""


@pytest.mark.parametrize(
    ("forbidden", "expected"),
    [
        ("true", ("user net", [])),
        ("echo 0 > /proc/sys/user/max_net_namespaces", ("none", [
            "connections of compiled code and of programs that the script starts are not refused: no network "
            "namespace (unshare: No space left on device)"
        ])),
    ],
)  # fmt: skip
def test_where_namespaces_are_not_allowed_python_is_refused_and_the_rest_not_checked(
    plan: RehearsalPlan, forbidden: str, expected: tuple[str, list[str]]
) -> None:
    code = PROGRAM.format(root=str(ROOT), folder=plan.folder, private=plan.private)
    # in a user namespace without the right to make namespaces for itself, unless it makes another of users
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", f'{forbidden} && exec setpriv --bounding-set -sys_admin '
             '--inh-caps -all "$0" -c "$1"', sys.executable, code]  # fmt: skip
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("no util-linux")
    if done.returncode != 0:
        pytest.skip(f"user namespaces are not allowed here: {done.stderr}")
    first, *rest = done.stdout.splitlines()
    assert (first, [line for line in rest if line]) == expected


def test_nothing_is_left_of_a_killed_parent(plan: RehearsalPlan) -> None:
    code = PROGRAM.format(root=str(ROOT), folder=plan.folder, private=plan.private)
    code = code.replace("made.remove()", "print(made._keeper._process.pid, flush=True)\nimport time\ntime.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        keeper = next(int(line) for line in parent.stdout if line.strip().isdigit())
        parent.send_signal(signal.SIGKILL)
    until = time.monotonic() + 10
    while os.path.exists(f"/proc/{keeper}/ns/net") and time.monotonic() < until:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{keeper}/ns/net")


# the name server: pure


def question(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


@pytest.mark.parametrize(
    ("name", "kind", "code", "addresses"),
    [
        ("example.org", 1, 2, 0),
        ("example.org", 28, 2, 0),
        (socket.gethostname().partition(".")[0], 1, 0, 1),
        (socket.gethostname().partition(".")[0].upper() + ".cluster.local", 1, 0, 1),
        (socket.gethostname().partition(".")[0], 28, 0, 0),
        ("1.0.0.127.in-addr.arpa", 12, 3, 0),
    ],
)
def test_the_name_server_knows_this_host_only(name: str, kind: int, code: int, addresses: int) -> None:
    server = NameServer(["192.0.2.5"])
    query = question(name, kind)
    answer = server.answer(query)
    number, flags, questions, answers, *_ = struct.unpack_from(">6H", answer)
    assert (number, flags & 0x8000, flags & 15, questions, answers) == (7, 0x8000, code, 1, addresses)
    assert answer[12 : len(query)] == query[12:]
    assert answer[len(query) :].endswith(socket.inet_aton("192.0.2.5") if addresses else b"")
    assert list(server.names) == (["example.org"] if code == 2 else [])


def test_a_name_with_a_search_domain_is_listed_once() -> None:
    server = NameServer([])
    for name in ("api.example.org", "api.example.org.cluster.local", "other.org"):
        server.answer(question(name))
    assert list(server.names) == ["api.example.org", "other.org"]


@pytest.mark.parametrize("query", [b"", b"short", question("a.b")[:-3]])
def test_what_is_no_question_is_no_answer(query: bytes) -> None:
    with pytest.raises((IndexError, struct.error)):
        NameServer([]).answer(query)


def test_the_hosts_network_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = network_namespace.read()
        assert server.getsockname()[1] in found.listening
    assert isinstance(found, Outside)
    assert "lo" not in dict(found.interfaces)
