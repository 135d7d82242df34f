"""On which addresses the processes of a command listen while it runs: the table of ports in ``docs/security.md``."""

from __future__ import annotations

import contextlib
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from .test_leftovers import CASES, Case, _alive, _started

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.torch]

_BY_NAME = {case.name: case for case in CASES}
_PLAIN = _BY_NAME["torchrun -m distcheck.watch"]._replace(
    arguments=("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "train.py")
)
_LONGEST_S = 40.0


def _is_rank(process: psutil.Process) -> bool:
    return "train.py" in process.cmdline() and "torch.distributed.run" not in process.cmdline()


def listening(
    case: Case, base: Path, seconds: float, of: Callable[[psutil.Process], bool] = lambda _: True
) -> list[str]:
    """Run a command, and return where its processes wait for others: one entry for each socket."""
    found: dict[tuple[int, int], str] = {}
    mark = uuid.uuid4().hex
    with _started(case, base, mark) as process:
        until = time.monotonic() + _LONGEST_S
        while process.poll() is None and time.monotonic() < until:
            for pid in _alive(mark):
                with contextlib.suppress(psutil.Error):
                    one = psutil.Process(pid)
                    for socket in one.net_connections("inet") if of(one) else ():
                        if socket.status == psutil.CONN_LISTEN or (socket.type == 2 and not socket.raddr):
                            found[pid, socket.laddr.port] = socket.laddr.ip
                            until = min(until, time.monotonic() + seconds)
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
    return sorted(found.values())


_REHEARSE = _BY_NAME["rehearse"]
_OPEN = _REHEARSE._replace(name="rehearse --network", arguments=("rehearse", "--network", *_REHEARSE.arguments[1:]))


def test_ranks_of_a_rehearsal_listen_in_a_namespace_of_their_own(tmp_path: Path) -> None:
    assert listening(_REHEARSE, tmp_path, 5) == []


@pytest.mark.parametrize("case", [_BY_NAME["collective"], _OPEN], ids=lambda case: case.name)
def test_ranks_of_one_host_listen_on_loopback(tmp_path: Path, case: Case) -> None:
    found = listening(case, tmp_path, 5)
    assert found, "nothing was seen"
    assert set(found) <= {"127.0.0.1", "::1"} or all(address.startswith("127.") for address in found), found


def test_a_check_of_several_hosts_listens_on_the_first_ones_port(tmp_path: Path) -> None:
    arguments = ("collective", "--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--nproc", "1")
    found = listening(Case("first host", arguments), tmp_path, 3)
    assert found
    # the port of the membership check, and test ports on the address of the chosen interface
    assert sum(address in ("0.0.0.0", "::") for address in found) <= 1, found


def test_the_records_of_merge_need_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEP_ID", "PROCID", "LOCALID", "NODEID"):
        monkeypatch.setenv(f"SLURM_{name}", "0")
    for name in ("JOB_ID", "NTASKS", "NNODES", "STEP_NUM_TASKS", "STEP_NUM_NODES", "JOB_NUM_NODES"):
        monkeypatch.setenv(f"SLURM_{name}", "2")
    case = Case("env --merge", ("env", "--merge", "--merge-dir", ".", "--wait", "3s"))
    assert listening(case, tmp_path, 1) == []
    assert "nothing came from 1 task" in (tmp_path / "output").read_text()


def test_watch_opens_no_port_of_its_own(tmp_path: Path) -> None:
    watched = listening(_BY_NAME["torchrun -m distcheck.watch"], tmp_path / "watched", 6, _is_rank)
    plain = listening(_PLAIN, tmp_path / "plain", 6, _is_rank)
    assert len(watched) <= len(plain)
    assert set(watched) <= set(plain)
