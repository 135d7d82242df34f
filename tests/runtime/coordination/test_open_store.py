"""The store that a supervisor serves listens where its ranks are."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distcheck.runtime.coordination.store_client import StoreLost, open_store

pytestmark = pytest.mark.torch


def _listeners(port: int) -> set[str]:
    """Return the addresses in hex on which a process listens on a port (proc(5): state 0A)."""
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and int(row[1].partition(":")[2], 16) == port}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net")
def test_a_store_for_this_host_alone_listens_on_loopback_alone() -> None:
    store = open_store("127.0.0.1", 0, serve=True, timeout_s=30)
    assert _listeners(store.port) == {"0100007F"}
    client = open_store("127.0.0.1", store.port, serve=False, timeout_s=30)
    client.set("key", "value")
    assert store.get("key") == b"value"


def test_a_port_that_is_taken_is_named_as_torch_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StoreLost, match="EADDRINUSE"):
        open_store("127.0.0.1", taken.getsockname()[1], serve=True, timeout_s=5)


@pytest.mark.skipif(sys.platform != "linux", reason="the store without libuv")
@pytest.mark.parametrize("held", [True, False])
def test_a_store_that_a_stranger_holds_up_does_not_hold_the_process(held: bool) -> None:
    """The destructor of torch's store waited for the rest of a message, and the smoke test never printed its report."""
    program = """\
import sys
from distcheck.runtime.coordination.store_client import keep_if_held_up, open_store
store = open_store("127.0.0.1", 0, serve=True, timeout_s=30)
print(store.port, flush=True)
sys.stdin.readline()
print(keep_if_held_up(store), flush=True)
del store
print("ended", flush=True)
"""
    run = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert run.stdin is not None and run.stdout is not None
        with socket.create_connection(("127.0.0.1", int(run.stdout.readline()))) as stranger:
            if held:
                # the number that torch expects first, then a key of five bytes of which one arrives
                stranger.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\1" + struct.pack("<Q", 5) + b"x")
                time.sleep(0.5)
            run.stdin.write("go\n")
            assert run.wait(30) == 0
            assert run.stdout.read().split() == [str(held), "ended"]
    finally:
        run.kill()
        run.wait()
