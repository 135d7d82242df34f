"""A script under watch is what it would be without: compared with Python itself, side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck.runtime.coordination.run_script import _kept, how_it_ended, without_ours

#: Run alike by Python and by us; the first line says what it is about.
SCRIPTS = {
    "arguments and names": """
import sys
print(sys.argv, __name__, __file__, __package__, __spec__, __doc__, __cached__)
print(sys.path[0], sorted(name for name in globals() if name.startswith("_")))
print(sys.modules["__main__"].__dict__ is globals(), type(__loader__).__name__, __loader__.name)
""",
    "status of sys.exit": "import sys; sys.exit(7)",
    "a text for sys.exit": "import sys; sys.exit('no data')",
    "None for sys.exit": "import sys; sys.exit()",
    "an exception": """
def train():
    raise ValueError("bad batch")
train()
""",
    "an exception with a cause": """
def load():
    try:
        {}["x"]
    except KeyError as error:
        raise RuntimeError("no x") from error
load()
""",
    "a hook of its own": """
import sys
sys.excepthook = lambda kind, value, trace: print("hook", kind.__name__, value, trace.tb_lineno)
raise ValueError("bad batch")
""",
    "a hook that fails": """
import sys
def hook(*_):
    raise KeyError("hook")
sys.excepthook = hook
raise ValueError("bad batch")
""",
    "a syntax error": "print('before')\ndef broken(:\n    pass\n",
    "exit handlers, then threads": """
import atexit, threading, time
atexit.register(print, "handler")
thread = threading.Thread(target=lambda: (time.sleep(0.2), print("thread")))
thread.start()
print("main")
""",
    "an exception in a thread": """
import threading
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start(); thread.join()
print("main goes on")
""",
    "os._exit": "import os, sys; print('out'); sys.stdout.flush(); os._exit(9)",
    "interrupted": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "interrupted, and caught": """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT); time.sleep(5)
except KeyboardInterrupt:
    print("stopped")
""",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)",
    "aborted": "import os; os.abort()",
    "a module beside it": "import beside; print(beside.VALUE)",
    "pickled by name": """
import pickle
class Batch: pass
print(pickle.loads(pickle.dumps(Batch())).__class__.__module__)
""",
    "a spawned child": """
import multiprocessing
def work(value):
    return value * 2
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
""",
    "a forked child": """
import multiprocessing, os
def work():
    print("child", flush=True)
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start(); child.join(); print(child.exitcode)
""",
    "globals at the end": """
import atexit
value = 3
def late():
    print(value, __name__)
atexit.register(late)
""",
    "a future import stays its own": "print(eval('1', {}), (lambda: 0).__annotations__)\ndef f(x: int): pass\nprint(f.__annotations__)\n",
}


def both(folder: Path, *command: str, **variables: str) -> list[tuple[int, str, str]]:
    """Status, output and errors: by Python, and by us."""
    root = str(Path(__file__).parents[3])
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environ["PYTHONPATH"] = root
    # with a rank there is a side thread; without torch it has nobody to talk to
    environ.update(RANK="0", WORLD_SIZE="2", **variables)
    ran = []
    for prefix in ((), ("-m", "distcheck.watch")):
        done = subprocess.run(
            [sys.executable, *prefix, *command], cwd=folder, env=environ, capture_output=True, text=True, timeout=60
        )
        ran.append((done.returncode, done.stdout, done.stderr))
    return ran


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_what_it_is_without_us(name: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    folder = tmp_path / "sub"
    folder.mkdir()
    (tmp_path / "train.py").write_text(SCRIPTS[name])
    plain, ours = both(folder, "../train.py", "--lr", "0.1", "--", "-x")
    assert ours == plain


@pytest.mark.slow
def test_the_scripts_that_end_otherwise_do_so(tmp_path: Path) -> None:
    """The comparison above would hold for two runs that both fail at once."""
    (tmp_path / "train.py").write_text(SCRIPTS["interrupted"])
    assert both(tmp_path, "train.py")[1][0] == -signal.SIGINT
    (tmp_path / "train.py").write_text(SCRIPTS["an exception"])
    status, _, errors = both(tmp_path, "train.py")[1]
    assert status == 1
    assert "bad batch" in errors
    assert "distcheck" not in errors
    assert "runpy" not in errors


@pytest.mark.parametrize("body", ["import sys; print(sys.argv[1:], __name__, __package__)", "import sys; sys.exit(4)"])
def test_a_module(body: str, tmp_path: Path) -> None:
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").write_text("print('package')\n")
    (package / "main.py").write_text(f"from . import __name__ as parent\nprint(parent, __spec__.name)\n{body}\n")
    plain, ours = both(tmp_path, "-m", "trainer.main", "--lr", "1")
    assert ours == plain


def test_a_package_is_run_by_its_main(tmp_path: Path) -> None:
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys; print(sys.argv[0], sys.argv[1:], __spec__.name)\n")
    plain, ours = both(tmp_path, "-m", "trainer", "x")
    assert ours == plain
    plain, ours = both(tmp_path, "trainer", "x")
    assert (ours[0], ours[1]) == (plain[0], plain[1])


@pytest.mark.parametrize("command", [("nothing.py",), ("-m", "nothing"), ("-m", "os.nothing")])
def test_what_is_not_there(command: tuple[str, ...], tmp_path: Path) -> None:
    plain, ours = both(tmp_path, *command)
    assert ours[0] == plain[0]
    assert ours[2].splitlines()[-1] == plain[2].splitlines()[-1]


def test_a_link_leads_to_the_folder_of_its_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "train.py").write_text("import beside, sys; print(beside.VALUE, __file__, sys.path[0])\n")
    (real / "beside.py").write_text("VALUE = 6\n")
    (tmp_path / "link.py").symlink_to(real / "train.py")
    plain, ours = both(tmp_path, "link.py")
    assert ours == plain
    assert ours[1].startswith("6 ")


def test_without_a_launcher_it_runs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')\n")
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environ["PYTHONPATH"] = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-m", "distcheck.watch", "train.py"],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.endswith("nothing was watched\n")


def test_torch_is_not_imported_for_a_script_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print('torch' in sys.modules, 'numpy' in sys.modules)\n")
    assert both(tmp_path, "train.py")[1][:2] == (0, "False False\n")


def test_options_end_at_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv[1:])\n")
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "RANK": "0", "WORLD_SIZE": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "distcheck.watch", "--hang-timeout", "5", "train.py", "--hang-timeout", "x", "-m", "--", "-h"],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "['--hang-timeout', 'x', '-m', '--', '-h']\n")
    wrong = subprocess.run(
        [sys.executable, "-m", "distcheck.watch", "--hang-timeout", "soon", "train.py"],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "'soon'" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_groups_of_exceptions_lose_our_frames_as_well() -> None:
    try:
        exec(compile("raise ValueError('inner')", "train.py", "exec"))
    except ValueError as error:
        inner = error
    outer = RuntimeError("outer")
    outer.__context__ = inner
    outer.__cause__ = outer  # a circle that Python allows
    without_ours(outer)
    assert inner.__traceback__ is not None
    assert _kept(None) is None


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ValueError("bad batch\nshape [3]"), "ValueError: bad batch"),
        (ValueError("lengths differ:\n3 and 4"), "ValueError: lengths differ: 3 and 4"),
        # torch.multiprocessing.spawn raises the traceback of a child
        (RuntimeError("\n\n-- Process 0:\nTraceback\n  File x\nKeyError: 'a'\n"), "RuntimeError: KeyError: 'a'"),
        (ValueError("a name:"), "ValueError: a name:"),
        (ValueError(), "ValueError"),
        (ValueError("\n \n"), "ValueError:"),
    ],
)
def test_what_was_raised_is_one_line(error: Exception, detail: str) -> None:
    assert how_it_ended(error).detail == detail
