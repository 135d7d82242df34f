"""A rehearsed script reaches its own machine and no other: nothing is sent here, the audit events are raised by hand."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation import network_namespace
from distcheck.runtime.rehearsal.simulation.event_log import read_rows
from distcheck.runtime.rehearsal.simulation.network import notes
from distcheck.runtime.rehearsal.simulation.overlay import OverlaySettings
from distcheck.runtime.rehearsal.simulation.plan import Rehearsal, RehearsalPlan

PROGRAM = """
import json, socket, sys
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.hooks import network
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

folder, opened, events = sys.argv[1:]
event_log = EventLog(folder, 0.0, 0)
network.install(event_log, RehearsalPlan("train.py", private=folder, network=opened == "True"))
for event, *arguments in json.loads(events):
    try:
        sys.audit(event, *(tuple(one) if isinstance(one, list) else one for one in arguments))
    except OSError as error:
        print(type(error).__name__, error)
    else:
        print("passed")
# a real connection to this machine
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(("localhost", server.getsockname()[1])).close()
event_log.close()
assert not event_log.lost, event_log.lost
"""


def run(folder: Path, *events: list[object], opened: bool = False) -> tuple[list[str], list[LoggedEvent]]:
    """What each event gave, and the rows."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(opened), json.dumps(events)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return result.stdout.splitlines(), list(read_rows(str(folder)))


BAD = [
    ["socket.connect", None, ["192.0.2.7", 443]],
    ["socket.connect", None, ["2001:db8::1", 443, 0, 0]],
    ["socket.sendto", None, ["192.0.2.7", 53]],
    ["socket.sendmsg", None, ["192.0.2.7", 53]],
]
GOOD = [
    ["socket.connect", None, ["127.0.0.1", 29500]],
    ["socket.connect", None, ["::1", 29500, 0, 0]],
    ["socket.connect", None, "/tmp/a.socket"],
    ["socket.sendmsg", None, None],
    ["socket.getaddrinfo", "localhost", 80],
    ["socket.getaddrinfo", None, 80],
    ["socket.getaddrinfo", "192.0.2.7", 80],
    ["socket.gethostbyname", "127.0.0.1"],
]


def test_bad_another_machine_is_not_reached(tmp_path: Path) -> None:
    said, rows = run(tmp_path, *BAD)
    assert [line.partition(":")[0] for line in said] == ["OSError [Errno 101] Network is unreachable"] * len(BAD)
    assert all("--network" in line for line in said)
    assert [row.data["peer"] for row in rows if row.kind == "network.refused"] == [
        "192.0.2.7:443", "2001:db8::1:443", "192.0.2.7:53", "192.0.2.7:53"
    ]  # fmt: skip


def test_bad_a_name_is_not_looked_up(tmp_path: Path) -> None:
    said, rows = run(tmp_path, ["socket.getaddrinfo", "example.org", 443], ["socket.gethostbyname", "example.org"])
    assert [line.partition(":")[0] for line in said] == ["gaierror [Errno -3] Temporary failure in name resolution"] * 2
    assert {row.data["peer"] for row in rows} == {"example.org"}


def test_good_this_machine_is_reached(tmp_path: Path) -> None:
    said, rows = run(tmp_path, *GOOD)
    assert said == ["passed"] * len(GOOD)
    assert rows == []


def test_good_an_open_network_refuses_nothing(tmp_path: Path) -> None:
    said, rows = run(tmp_path, *BAD, opened=True)
    assert (said, rows) == (["passed"] * len(BAD), [])


DATAGRAMS = """
import socket, sys
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.hooks import network
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

event_log = EventLog(sys.argv[1], 0.0, 0)
network.install(event_log, RehearsalPlan("train.py"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.connect(("192.0.2.7", 80))
    print(own.getsockname()[0])
    try:
        own.send(b"nothing leaves")
    except OSError as error:
        print(type(error).__name__)
# Python resolves these names before it raises an audit event
for name, *arguments in ("connect",), ("connect_ex",), ("sendto", b"x"):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as named:
        try:
            getattr(named, name)(*arguments, ("host.invalid", 443))
        except socket.gaierror as error:
            print("--network" in str(error))
# to this machine it is a connection
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
    server.bind(("127.0.0.1", 0))
    client.connect(server.getsockname())
    client.send(b"arrives")
    print(server.recv(99))
event_log.close()
"""


def test_a_script_reads_its_own_address_from_a_datagram_socket_and_resolves_no_other(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", DATAGRAMS, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    own = [address for _, address in network_namespace.read().interfaces] or ["0.0.0.0"]
    assert result.stdout.splitlines() == [own[0], "OSError", *["True"] * 3, "b'arrives'"]
    assert [(row.kind, row.data["peer"]) for row in read_rows(str(tmp_path))] == [
        ("network.refused", "host.invalid")
    ] * 3


def test_a_process_outside_of_the_rehearsal_is_reported(tmp_path: Path) -> None:
    # the settings are those of a namespace that this test does not have: a port on which no process listens here
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    settings = OverlaySettings(listening=(port, 29500), namespaces=("net",))
    (tmp_path / "overlay.json").write_text(json.dumps(settings._asdict()))
    said, rows = run(
        tmp_path, ["socket.connect", None, ["127.0.0.1", port]], ["socket.connect", None, ["::1", 1, 0, 0]]
    )
    assert said == ["passed"] * 2  # the kernel refuses it
    assert [(row.kind, row.data["peer"]) for row in rows] == [("network.outside", f"127.0.0.1:{port}")]


def row(place: str, peer: str, kind: str = "network.refused") -> LoggedEvent:
    return LoggedEvent(kind, 0, 1, 0.0, 0, place, data={"peer": peer})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((), ()),
        (
            (row("train.py:3", "a.org"), row("train.py:3", "a.org"), row("train.py:3", "192.0.2.7:443")),
            ("train.py:3: the connection to a.org, 192.0.2.7:443 was refused (--network allows it)",),
        ),
        ((row("", "a.org"),), ("the connection to a.org was refused (--network allows it)",)),
        (
            (row("train.py:3", "127.0.0.1:6379", "network.outside"), row("train.py:3", "a.org")),
            (
                "train.py:3: the connection to 127.0.0.1:6379, a process outside of the rehearsal, was refused "
                "(--network allows it)",
                "train.py:3: the connection to a.org was refused (--network allows it)",
            ),
        ),
    ],
)
def test_each_line_is_reported_once(rows: tuple[LoggedEvent, ...], expected: tuple[str, ...]) -> None:
    assert notes(Rehearsal(RehearsalPlan("train.py"), rows=rows)) == expected


def test_many_lines_are_counted() -> None:
    found = notes(
        Rehearsal(RehearsalPlan("train.py"), rows=tuple(row(f"train.py:{line}", "a.org") for line in range(9)))
    )
    assert (len(found), found[-1]) == (6, "4 more lines connect to other machines")
