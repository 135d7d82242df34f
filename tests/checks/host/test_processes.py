"""Who started this process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host.processes import DEEPEST, Ancestry, read_ancestry, shown_command
from distcheck.core.model import Unavailable
from distcheck.core.world import World
from tests.recorded import recorded_world

SELF = 4711


def process(
    pid: int, name: str, parent: int, arguments: Sequence[str] = (), *, tty: int = 34816, ignored: str = "0" * 16
) -> dict[str, Any]:
    """The files of one process in /proc."""
    return {
        f"/proc/{pid}/stat": f"{pid} ({name}) S {parent} {pid} {pid} {tty} -1 4194304 100 0 0 0 1 1 0 0 20 0 1 0 100\n",
        f"/proc/{pid}/status": f"Name:\t{name}\nSigBlk:\t{'0' * 16}\nSigIgn:\t{ignored}\nSigCgt:\t{'0' * 16}\n",
        f"/proc/{pid}/cmdline": "\0".join(arguments) + "\0" if arguments else "",
    }


def read(folder: Path, *processes: dict[str, Any]) -> Ancestry:
    files: dict[str, Any] = {}
    for one in processes:
        files.update(one)
    return read_ancestry(recorded_world(folder, files=files, pid=SELF))


INIT = process(1, "systemd", 0, ("/sbin/init",), tty=0)
SSHD = process(20, "sshd", 1, ("sshd: me@pts/0",), tty=0)
SHELL = process(30, "bash", 20, ("-bash",))


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["python3", "-c", "import os\nos.fork()", "x"], "python3 -c ... x"),
        (["/bin/bash", "-c", "train --token abc"], "/bin/bash -c ..."),
        (["python", "train.py", "--api-key=sesame", "-c"], "python train.py --api-key=*** -c"),
        (["srun", "-c", "8", "python"], "srun -c 8 python"),
        ([], ""),
    ],
)
def test_a_program_text_is_not_shown(words: list[str], shown: str) -> None:
    assert " ".join(shown_command(words)) == shown


def test_a_worker_of_torchrun_in_a_terminal(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        INIT,
        SSHD,
        SHELL,
        process(
            40, "pt_elastic", 30, ("/opt/venv/bin/python3.11", "/opt/venv/bin/torchrun", "--nproc-per-node=2", "t.py")
        ),
        process(SELF, "python3.11", 40, ("/opt/venv/bin/python3.11", "-u", "t.py")),
    )
    assert [ancestor.pid for ancestor in found.ancestors] == [40, 30, 20, 1]
    assert (found.terminal, found.ignores_hangup, found.under_nohup) == (True, False, False)
    assert (found.launchers, found.keepers, found.surroundings) == (("torchrun",), (), None)
    assert found.under_torchrun
    assert found.complete


@pytest.mark.parametrize(
    ("name", "arguments", "launcher"),
    [
        ("torchrun", ("/usr/bin/python3", "/usr/bin/torchrun", "t.py"), "torchrun"),
        ("python3", ("python3", "-u", "-m", "torch.distributed.run", "t.py"), "torchrun"),
        (
            "python",
            ("python", "-X", "faulthandler", "-m", "torch.distributed.launch", "t.py"),
            "torch.distributed.launch",
        ),
        ("accelerate", ("/usr/bin/python3", "/usr/bin/accelerate", "launch", "t.py"), "accelerate"),
        ("python3", ("python3", "-m", "deepspeed.launcher.launch", "t.py"), "deepspeed"),
        ("srun", ("srun", "-n", "2", "python", "t.py"), "srun"),
        ("slurmstepd", ("slurmstepd: [12.0]",), "slurmstepd"),
        ("orted", ("/usr/bin/orted", "-mca", "ess", "env"), "mpirun"),
        ("hydra_pmi_proxy", ("/usr/bin/hydra_pmi_proxy",), "mpiexec"),
        ("python3", ("python3", "launch_me.py", "torchrun"), None),
        ("vim", ("vim", "torchrun"), None),
        ("bash", ("bash", "torchrun.sh"), None),
    ],
)
def test_launchers(tmp_path: Path, name: str, arguments: tuple[str, ...], launcher: str | None) -> None:
    found = read(tmp_path, INIT, process(40, name, 1, arguments), process(SELF, "python", 40))
    assert found.launchers == (() if launcher is None else (launcher,))


@pytest.mark.parametrize(
    ("name", "arguments", "keeper"),
    [
        ("tmux: server", ("tmux", "new", "-s", "train"), "tmux"),
        ("screen", ("SCREEN",), "screen"),
        ("slurmstepd", ("slurmstepd: [12.batch]",), "slurmstepd"),
        ("sshd", ("sshd: me@pts/0",), None),
        ("gnome-terminal-", ("/usr/libexec/gnome-terminal-server",), None),
    ],
)
def test_keepers(tmp_path: Path, name: str, arguments: tuple[str, ...], keeper: str | None) -> None:
    found = read(tmp_path, INIT, process(40, name, 1, arguments), process(SELF, "python", 40))
    assert found.keepers == (() if keeper is None else (keeper,))


@pytest.mark.parametrize(
    ("arguments", "surroundings"),
    [
        (("python3", "-m", "ipykernel_launcher", "-f", "/run/kernel.json"), "jupyter"),
        (("/usr/bin/python3", "/usr/bin/jupyter-lab"), "jupyter"),
        (("/usr/bin/python3", "/usr/bin/ipython"), "ipython"),
        (("/home/me/.vscode-server/bin/abc/node", "/home/me/.vscode-server/bin/abc/out/server-main.js"), "vscode"),
        (("python3", "/home/me/.vscode/extensions/ms-python.debugpy-1/bundled/libs/debugpy/launcher"), "vscode"),
        (("/usr/bin/python3", "/opt/pycharm/plugins/python/helpers/pydev/pydevd.py", "--file", "t.py"), "pycharm"),
        (("/home/me/PycharmProjects/x/venv/bin/python", "/home/me/PycharmProjects/x/t.py"), None),
        (("-bash",), None),
    ],
)
def test_surroundings(tmp_path: Path, arguments: tuple[str, ...], surroundings: str | None) -> None:
    child = tmp_path / "child"
    own = tmp_path / "own"
    assert read(child, INIT, process(40, "x", 1, arguments), process(SELF, "python", 40)).surroundings == surroundings
    assert read(own, INIT, process(SELF, "x", 1, arguments)).surroundings == surroundings


def test_only_the_words_that_name_a_program_are_kept(tmp_path: Path) -> None:
    secret = ("--api-key", "sesame", "TOKEN=sesame")
    found = read(
        tmp_path,
        INIT,
        process(40, "python3", 1, ("python3", "-c", "login('sesame')")),
        process(41, "python3", 40, ("python3", "-u", "serve.py", *secret)),
        process(42, "agent", 41, ("/usr/bin/agent", *secret)),
        process(SELF, "python", 42),
    )
    assert [ancestor.arguments for ancestor in found.ancestors] == [
        ("/usr/bin/agent",),
        ("python3", "-u", "serve.py"),
        ("python3",),
        ("/sbin/init",),
    ]
    assert "sesame" not in repr(found)


# nohup


def test_bad_nohup_in_front_of_a_shell_script(tmp_path: Path) -> None:
    """nohup itself is gone, since it becomes the command; what it started goes on ignoring SIGHUP."""
    found = read(
        tmp_path,
        INIT,
        SSHD,
        SHELL,
        process(40, "bash", 30, ("bash", "run.sh"), ignored="0000000000000001"),
        process(41, "pt_elastic", 40, ("python3", "/usr/bin/torchrun")),
        process(SELF, "python", 41),
    )
    assert (found.under_nohup, found.ignores_hangup) == (True, False)


def test_a_rank_has_no_terminal_but_its_agent_has(tmp_path: Path) -> None:
    found = read(tmp_path, INIT, SSHD, SHELL, process(41, "pt_elastic", 30), process(SELF, "python", 41, tty=0))
    assert (found.terminal, found.from_terminal) == (False, True)
    service = process(41, "pt_elastic", 1, tty=0)
    assert not read(tmp_path / "service", INIT, service, process(SELF, "python", 41, tty=0)).from_terminal


def test_bad_nohup_by_its_file(tmp_path: Path) -> None:
    agent = process(41, "pt_elastic", 30, ("python3", "/usr/bin/torchrun"))
    agent["/proc/41/fd/1"] = {"link": "/home/me/nohup.out"}
    assert read(tmp_path, INIT, SSHD, SHELL, agent, process(SELF, "python", 41)).under_nohup


@pytest.mark.parametrize(
    "above", [("sshd", ("sshd: me",)), ("tmux: server", ("tmux",)), ("systemd", ("systemd", "--user"))]
)
def test_good_a_service_that_ignores_hangups_is_no_nohup(tmp_path: Path, above: tuple[str, tuple[str, ...]]) -> None:
    """Only what stands below the beginning of the session counts."""
    service = process(20, above[0], 1, above[1], ignored="0000000000000001")
    assert not read(tmp_path, INIT, service, SHELL, process(SELF, "python", 30)).under_nohup


def test_own_signals_and_terminal(tmp_path: Path) -> None:
    found = read(tmp_path, INIT, process(SELF, "python", 1, tty=0, ignored="0000000001001001"))
    assert (found.terminal, found.ignores_hangup) == (False, True)


# what can't be read


def test_a_name_with_brackets_and_blanks(tmp_path: Path) -> None:
    found = read(tmp_path, INIT, process(40, "a) S 1 (b c", 1), process(SELF, "python", 40))
    assert [ancestor.name for ancestor in found.ancestors] == ["a) S 1 (b c", "systemd"]
    assert found.complete


def test_a_hidden_parent_ends_the_chain(tmp_path: Path) -> None:
    found = read(tmp_path, process(SELF, "python", 40))
    assert (found.ancestors, found.complete, found.terminal) == ((), False, True)


def test_the_top_of_a_container(tmp_path: Path) -> None:
    found = read(tmp_path, process(SELF, "python", 0))
    assert (found.ancestors, found.complete) == ((), True)


def test_a_process_that_goes_away_while_it_is_read(tmp_path: Path) -> None:
    parent = {name: text for name, text in process(40, "bash", 1, ("bash",)).items() if name.endswith("stat")}
    found = read(tmp_path, INIT, parent, process(SELF, "python", 40))
    assert found.ancestors[0].arguments == ()
    assert found.ancestors[0].ignores_hangup is None


def test_the_chain_is_bounded(tmp_path: Path) -> None:
    chain = [process(1000 + number, "sh", 1001 + number) for number in range(DEEPEST + 10)]
    found = read(tmp_path, *chain, process(SELF, "python", 1000))
    assert len(found.ancestors) == DEEPEST
    assert not found.complete


def test_parents_in_a_circle_end(tmp_path: Path) -> None:
    found = read(tmp_path, process(40, "a", 41), process(41, "b", 40), process(SELF, "python", 40))
    assert [ancestor.pid for ancestor in found.ancestors] == [40, 41]


def test_no_proc_is_not_checked(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="4711"):
        read_ancestry(recorded_world(tmp_path))
    with pytest.raises(Unavailable, match="darwin"):
        read_ancestry(recorded_world(tmp_path, platform="darwin"))


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_in_proc_is_no_crash(tmp_path_factory: pytest.TempPathFactory, stat: str, status: str) -> None:
    world = recorded_world(tmp_path_factory.mktemp("proc"))
    folder = Path(world.path("/proc/4711"))
    folder.mkdir(parents=True)
    (folder / "stat").write_bytes(f"4711 (x) S 0 {stat}".encode("utf-8", "surrogatepass"))
    (folder / "status").write_bytes(f"SigIgn:{status}".encode("utf-8", "surrogatepass"))
    try:
        found = read_ancestry(world)
    except Unavailable:
        return
    assert found.ancestors == ()


# this machine


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_process() -> None:
    found = read_ancestry(World())
    assert found.ancestors[0].pid == os.getppid()
    assert found.ignores_hangup is (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("nohup") is None, reason="needs /proc and nohup")
def test_bad_a_real_nohup_is_seen() -> None:
    code = (
        "from distcheck.checks.host.processes import read_ancestry\n"
        "from distcheck.core.world import World\n"
        "print(read_ancestry(World()).under_nohup)"
    )
    done = subprocess.run(
        ["nohup", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.strip() == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_ancestors_are_those_that_psutil_finds() -> None:
    psutil = pytest.importorskip("psutil")
    found = read_ancestry(World())
    known = psutil.Process().parents()
    assert [ancestor.pid for ancestor in found.ancestors] == [process.pid for process in known]
    # a name is what the kernel calls the process: at most 15 bytes, which psutil may lengthen from the command line
    assert all(process.name().startswith(one.name) for one, process in zip(found.ancestors, known, strict=True))
    assert found.terminal is (psutil.Process().terminal() is not None)
