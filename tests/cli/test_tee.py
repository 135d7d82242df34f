"""A command that runs below ours: what it writes, what it is sent, how it ends, and what becomes of it if we are killed."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Runs its arguments through passthrough, and keeps what was listened to in the file named first.
DRIVER = """
import sys
from distcheck.cli import tee as passthrough
heard = open(sys.argv[1], "wb", buffering=0)
try:
    ended = passthrough.run(sys.argv[2:], heard.write)
except passthrough.CannotStart as error:
    print(error, file=sys.stderr)
    sys.exit(error.status)
sys.exit(ended.status)
"""


def words(tmp_path: Path, *command: str) -> list[str]:
    return [sys.executable, "-c", DRIVER, str(tmp_path / "heard"), *command]


def heard(tmp_path: Path) -> bytes:
    return (tmp_path / "heard").read_bytes()


def python(program: str) -> tuple[str, str, str]:
    return sys.executable, "-c", program


def test_both_streams_are_passed_on_unchanged(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    (tmp_path / "data").write_bytes(data)
    program = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read()); print('bad', file=sys.stderr)"
    ran = subprocess.run(
        words(tmp_path, *python(program), str(tmp_path / "data")),
        capture_output=True,
        timeout=30,
        cwd=ROOT,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, data, b"bad\n")
    assert len(heard(tmp_path)) == len(data) + 4


def test_the_order_is_kept_where_both_streams_are_one(tmp_path: Path) -> None:
    program = "import os\nfor i in range(500): os.write(1 + i % 2, b'%d\\n' % i)"
    ran = subprocess.run(
        words(tmp_path, *python(program)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=30,
        cwd=ROOT,
        check=True,
    )
    assert ran.stdout.split() == [b"%d" % number for number in range(500)]
    assert heard(tmp_path) == ran.stdout


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.kill(os.getpid(), 15)", 143),
        ("import os; os.abort()", 134),
    ],
)
def test_the_status_is_what_a_shell_would_say(tmp_path: Path, program: str, status: int) -> None:
    ran = subprocess.run(words(tmp_path, *python(program)), capture_output=True, timeout=30, cwd=ROOT, check=False)
    assert ran.returncode == status


def test_what_cannot_be_started_is_said_as_a_shell_does(tmp_path: Path) -> None:
    ran = subprocess.run(words(tmp_path, "/nowhere/at-all"), capture_output=True, timeout=30, cwd=ROOT, check=False)
    assert (ran.returncode, ran.stderr) == (127, b"No such file or directory\n")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    ran = subprocess.run(words(tmp_path, str(script)), capture_output=True, timeout=30, cwd=ROOT, check=False)
    assert (ran.returncode, ran.stderr) == (126, b"Permission denied\n")


def test_what_is_written_to_standard_input_arrives(tmp_path: Path) -> None:
    ran = subprocess.run(
        words(tmp_path, "cat"), input=b"one\ntwo\n", capture_output=True, timeout=30, cwd=ROOT, check=True
    )
    assert ran.stdout == b"one\ntwo\n"


SIGNALLED = """
import os, signal, sys, time
def say(number, _):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")  # a signal may arrive inside of the print below
    if number == signal.SIGTERM:
        sys.exit(7)
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, say)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_signals_reach_the_command_once_each(tmp_path: Path) -> None:
    with subprocess.Popen(words(tmp_path, *python(SIGNALLED)), stdout=subprocess.PIPE, cwd=ROOT) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        for name in ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGTERM"):
            running.send_signal(signal.Signals[name])
            assert running.stdout.readline() == name.encode() + b"\n"
        assert running.stdout.read() == b""
        assert running.wait(timeout=30) == 7


def test_what_we_are_told_to_ignore_the_command_ignores(tmp_path: Path) -> None:
    program = "import signal; print(signal.getsignal(signal.SIGHUP).name, signal.getsignal(signal.SIGTERM).name)"
    ran = subprocess.run(
        words(tmp_path, *python(program)),
        capture_output=True,
        timeout=30,
        cwd=ROOT,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert ran.stdout == b"SIG_IGN SIG_DFL\n"


def test_the_command_ends_when_we_are_killed(tmp_path: Path) -> None:
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(words(tmp_path, *python(program)), stdout=subprocess.PIPE, cwd=ROOT) as running:
        assert running.stdout is not None
        process = int(running.stdout.readline())
        running.kill()
        running.wait(timeout=30)
    end = time.monotonic() + 20
    while time.monotonic() < end and is_alive(process):
        time.sleep(0.05)
    assert not is_alive(process)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_grandchild_that_keeps_the_streams_does_not_keep_us(tmp_path: Path) -> None:
    program = "import subprocess; print('begun', flush=True); subprocess.Popen(['sleep', '8'])"
    with subprocess.Popen(words(tmp_path, *python(program)), stdout=subprocess.PIPE, cwd=ROOT) as running:
        began = time.monotonic()
        assert running.wait(timeout=30) == 0
        assert time.monotonic() - began < 6
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"


def in_terminal(command: list[str], keys: bytes = b"", *, until: bytes | None = None) -> tuple[int, bytes]:
    """Run a command in a pseudo-terminal; its status and all that it showed."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execv(command[0], command)
    shown = b""
    typed = not keys
    end = time.monotonic() + 30
    while time.monotonic() < end:
        readable, _, _ = select.select([terminal], [], [], 0.5)
        if readable:
            try:
                data = os.read(terminal, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        if not typed and (until is None or until in shown):
            os.write(terminal, keys)
            typed = True
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown


def test_the_command_has_a_terminal_where_we_have_one(tmp_path: Path) -> None:
    program = "import os, sys; print([os.isatty(i) for i in range(3)], os.get_terminal_size())"
    status, shown = in_terminal(words(tmp_path, *python(program)))
    assert (status, b"[True, True, True]" in shown) == (0, True)
    assert shown.endswith(b"\r\n")
    ran = subprocess.run(
        words(tmp_path, *python("import os; print([os.isatty(i) for i in range(3)])")),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
        cwd=ROOT,
        check=True,
    )
    assert ran.stdout == b"[False, False, False]\n"


def test_what_is_typed_reaches_the_command(tmp_path: Path) -> None:
    status, shown = in_terminal(words(tmp_path, *python("print('got', input('say: '))")), b"hello\r", until=b"say: ")
    assert status == 0
    assert b"got hello\r\n" in shown


@pytest.mark.slow
def test_ctrl_c_reaches_the_command_once(tmp_path: Path) -> None:
    program = (
        "import signal, time\nseen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "end = time.time() + 2\n"
        "while time.time() < end: time.sleep(0.1)\n"
        "print('interrupted', len(seen))\n"
    )
    status, shown = in_terminal(words(tmp_path, *python(program)), b"\x03", until=b"ready")
    assert status == 0
    assert b"interrupted 1\r\n" in shown


def test_no_descriptor_of_ours_is_left_in_the_command(tmp_path: Path) -> None:
    program = "import os; print(sorted(int(name) for name in os.listdir('/proc/self/fd'))[:-1])"
    ran = subprocess.run(words(tmp_path, *python(program)), capture_output=True, timeout=30, cwd=ROOT, check=True)
    assert ran.stdout == b"[0, 1, 2]\n"


@pytest.mark.slow
def test_ctrl_c_without_a_keyboard_reaches_all_that_the_command_started(tmp_path: Path) -> None:
    with subprocess.Popen(
        words(tmp_path, "sh", "-c", "echo ready; sleep 30; echo after"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=10) in (130, 0)


@pytest.mark.slow
def test_ctrl_c_reaches_a_command_that_closed_its_streams(tmp_path: Path) -> None:
    program = (
        "import os, time\nprint('ready', flush=True)\ntime.sleep(0.3)\nfor i in range(3): os.close(i)\ntime.sleep(20)"
    )
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        command = words(tmp_path, *python(program))
        os.execv(command[0], command)
    assert b"ready" in os.read(terminal, 100)
    time.sleep(1.5)
    began = time.monotonic()
    os.write(terminal, b"\x03")
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) != 0
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_ctrl_z_stops_both_and_they_go_on_together(tmp_path: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    program = "import time; print('re' + 'ady', flush=True); time.sleep(2); print('do' + 'ne', flush=True)"
    line = " ".join(shlex.quote(word) for word in words(tmp_path, *python(program)))
    os.write(terminal, f"{line}\n".encode())
    assert b"ready" in shown_until(terminal, b"ready\r\n")
    os.write(terminal, b"\x1a")
    assert b"Stopped" in shown_until(terminal, b"Stopped")
    os.write(terminal, b"fg\n")
    assert b"done" in shown_until(terminal, b"done\r\n")
    os.kill(process, signal.SIGKILL)
    os.close(terminal)
    os.waitpid(process, 0)


def shown_until(terminal: int, text: bytes) -> bytes:
    shown, end = b"", time.monotonic() + 15
    while text not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            shown += os.read(terminal, 4096)
    return shown


def test_a_reader_that_leaves_ends_the_command_as_it_would_without_us(tmp_path: Path) -> None:
    with subprocess.Popen(words(tmp_path, "yes"), stdout=subprocess.PIPE, cwd=ROOT) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"y\n"
        running.stdout.close()
        assert running.wait(timeout=10) == 128 + signal.SIGPIPE


@pytest.mark.slow
def test_a_grandchild_that_writes_for_ever_does_not_keep_us(tmp_path: Path) -> None:
    program = "(while echo tick; do sleep 0.1; done) & exit 3"
    began = time.monotonic()
    ran = subprocess.run(
        words(tmp_path, "sh", "-c", program), stdout=subprocess.PIPE, timeout=30, cwd=ROOT, check=False
    )
    assert ran.returncode == 3
    assert time.monotonic() - began < 10
