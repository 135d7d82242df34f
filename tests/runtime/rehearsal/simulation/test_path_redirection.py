"""Python that is led elsewhere: the script sees what it would see, and nothing that was there is changed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck.runtime.rehearsal.simulation.overlay import OverlaySettings, _redirected

ROOT = Path(__file__).parents[4]

PRELUDE = """
import json, os, sys
sys.path.insert(0, {root!r})
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
if {private!r}:
    from distcheck.runtime.rehearsal.simulation.hooks import overlay
    overlay.install(EventLog({private!r}, 0.0, 0), RehearsalPlan("x.py", private={private!r}, folder={folder!r}))
os.chdir({folder!r})
seen = []
def told(what):
    seen.append(what)
def tried(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except OSError as error:
        here = os.path.realpath({folder!r}) + os.sep
        names = [str(name).replace(here, "") for name in (error.filename, error.filename2) if name is not None]
        return [type(error).__name__, error.errno, *names]
def tree():
    found = {{}}
    for folder, names, files in os.walk("."):
        for name in files:
            path = os.path.join(folder, name)
            found[path] = os.readlink(path) if os.path.islink(path) else open(path).read()
        for name in names:
            found[os.path.join(folder, name)] = "/"
    return found
"""

#: Each does something to the files that :func:`fill` makes, and tells what it has seen.
SCRIPTS = {
    "write anew": "open('a.txt', 'w').write('new'); told(open('a.txt').read()); told(os.path.getsize('a.txt'))",
    "append": "f = open('a.txt', 'a'); f.write('more'); f.close(); told(open('a.txt').read())",
    "update": "f = open('a.txt', 'r+b'); f.seek(1); f.write(b'X'); f.close(); told(open('a.txt').read())",
    "create": "told(tried(open, 'a.txt', 'x')); open('b.txt', 'x').close(); told(tried(open, 'b.txt', 'x'))",
    "by descriptor": (
        "d = os.open('n.bin', os.O_CREAT | os.O_RDWR | os.O_EXCL); os.write(d, b'12'); os.close(d)\n"
        "told(tried(os.open, 'n.bin', os.O_CREAT | os.O_EXCL)); told(open('n.bin').read())\n"
        "d = os.open('a.txt', os.O_WRONLY | os.O_APPEND); os.write(d, b'Z'); os.close(d)"
    ),
    "name": "f = open('w.txt', 'w'); told(f.name); f.close()",
    "no folder": "told(tried(open, 'none/x', 'w')); told(tried(os.mkdir, 'none/x')); told(tried(open, 'none'))",
    "remove": (
        "os.remove('a.txt'); told(os.path.exists('a.txt')); told(tried(open, 'a.txt')); told(tried(os.remove, 'a.txt'))\n"
        "told(sorted(os.listdir('.'))); open('a.txt', 'w').write('again'); told(open('a.txt').read())"
    ),
    "remove a folder": "told(tried(os.remove, 'd')); told(tried(os.rmdir, 'd')); told(tried(os.rmdir, 'a.txt'))",
    "mkdir": (
        "os.makedirs('new/deep', exist_ok=True); os.makedirs('d/new'); told(tried(os.mkdir, 'd'))\n"
        "told(tried(os.makedirs, 'd/new')); os.makedirs('d', exist_ok=True); open('new/deep/f', 'w').write('1')\n"
        "told(sorted(os.listdir('d')))"
    ),
    "rename": "os.rename('a.txt', 'b.txt'); told(sorted(os.listdir('.'))); told(tried(os.rename, 'a.txt', 'c'))",
    "replace": (
        "open('t', 'w').write('t'); os.replace('t', 'a.txt'); told(open('a.txt').read()); told(os.path.exists('t'))"
    ),
    "rename a folder": (
        "open('d/more', 'w').write('m'); os.rename('d', 'e'); told(sorted(os.listdir('e'))); told(os.path.isdir('d'))\n"
        "os.mkdir('d'); told(os.listdir('d')); told(tried(os.rename, 'd', 'e'))"
    ),
    "rmtree": (
        "import shutil; open('d/sub/x', 'w').close(); shutil.rmtree('d'); told(os.path.exists('d/sub'))\n"
        "os.mkdir('d'); told(os.listdir('d')); open('d/y', 'w').close(); told(os.listdir('d'))"
    ),
    "copytree": "import shutil; shutil.copytree('d', 'copy'); shutil.copy2('a.txt', 'd/z'); shutil.move('d/z', 'z2')",
    "pathlib": (
        "from pathlib import Path; p = Path('d') / 'p.txt'; p.write_text('p'); told(p.read_text()); told(p.exists())\n"
        "told(sorted(str(one) for one in Path('.').rglob('*'))); p.unlink(); told(p.exists())\n"
        "Path('q').mkdir(); Path('a.txt').rename('q/a'); told(sorted(one.name for one in Path('q').iterdir()))"
    ),
    "glob": "import glob; open('d/g.txt', 'w').close(); told(sorted(glob.glob('**/*.txt', recursive=True)))",
    "scandir": (
        "open('d/s', 'w').write('12')\n"
        "with os.scandir('d') as found: told(sorted([e.name, e.path, e.is_dir(), e.stat().st_size] for e in found if e.is_file()))"
    ),
    "chdir": "os.makedirs('w/in'); os.chdir('w/in'); told(os.getcwd()[-5:]); open('f', 'w').write('f'); os.chdir('../..')",
    "chmod": "os.chmod('a.txt', 0o600); told(oct(os.stat('a.txt').st_mode)); os.truncate('a.txt', 1)",
    "links": "os.symlink('d', 'l'); told(sorted(os.listdir('l'))); open('l/by', 'w').write('1'); told(open('d/by').read())",
    "many": (
        "import tempfile, gzip, zipfile\n"
        "with gzip.open('z.gz', 'wt') as f: f.write('zipped')\n"
        "told(gzip.open('z.gz', 'rt').read()); os.remove('z.gz')\n"
        "with tempfile.NamedTemporaryFile('w', delete=False) as f: f.write('t')\n"
        "os.replace(f.name, 'from-temp'); told(open('from-temp').read())"
    ),
    "mmap": (
        "import mmap\n"
        "with open('a.txt', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[0:1] = b'M'\n"
        "told(open('a.txt').read())"
    ),
    "sqlite": (
        "import sqlite3; c = sqlite3.connect('db'); c.execute('create table t (a)'); c.commit(); c.close()\n"
        "told(os.path.exists('db')); os.remove('db')"
    ),
}  # fmt: skip


def fill(folder: Path) -> None:
    (folder / "d" / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("hello")
    (folder / "d" / "in.txt").write_text("inside")
    (folder / "d" / "sub" / "deep.txt").write_text("deep")


def digest(folder: Path) -> str:
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found.append((str(path.relative_to(folder)), status.st_mode, status.st_mtime_ns, content))
    return hashlib.sha256(repr(found).encode()).hexdigest()


def settings(folder: Path, private: Path) -> OverlaySettings:
    shadow = private / "overlay" / "led"
    shadow.mkdir(parents=True, exist_ok=True)
    made = OverlaySettings(
        "python", partial=True, shadow=str(shadow), own=(str(folder),), apart=(str(private),), free=("/tmp", "/proc")
    )
    (private / "overlay.json").write_text(json.dumps(made._asdict()))
    return made


def run(script: str, folder: Path, private: Path | None) -> dict[str, object]:
    head = PRELUDE.format(root=str(ROOT), private="" if private is None else str(private), folder=str(folder))
    code = f"{head}\n{script}\nprint(json.dumps({{'seen': seen, 'tree': tree()}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_sees_what_it_would_see(tmp_path: Path, name: str) -> None:
    plain, led, private = (tmp_path / part for part in ("plain", "led", "private"))
    private.mkdir()
    for folder in (plain, led):
        folder.mkdir()
        fill(folder)
    settings(led, private)
    before = digest(led)

    native = run(SCRIPTS[name], plain, None)
    there = run(SCRIPTS[name], led, private)
    # another rank, which begins when the first has ended
    other = run("", led, private)

    def same(found: object) -> object:
        return json.loads(json.dumps(found).replace(str(led), str(plain)))

    links = {"./l"} if name == "links" else set()  # a link may lead elsewhere, as long as it leads to the same
    assert same(there["seen"]) == native["seen"]
    for found in (there, other):
        tree, expected = found["tree"], native["tree"]
        assert isinstance(tree, dict)
        assert isinstance(expected, dict)
        assert {path: text for path, text in tree.items() if path not in links} == {
            path: text for path, text in expected.items() if path not in links
        }
    assert digest(led) == before


def test_what_was_led_away_is_listed(tmp_path: Path) -> None:
    folder, private = tmp_path / "job", tmp_path / "private"
    folder.mkdir()
    private.mkdir()
    fill(folder)
    made = settings(folder, private)
    run("open('n', 'w').close(); os.remove('a.txt'); open('d/in.txt', 'a').write('x')", folder, private)
    assert _redirected(made.shadow) == (
        [str(folder / "n"), str(folder / "d" / "in.txt")],
        [str(folder / "a.txt")],
    )


def test_folders_that_nobody_misses_are_left_alone(tmp_path: Path) -> None:
    folder, private = tmp_path / "job", tmp_path / "private"
    folder.mkdir()
    private.mkdir()
    made = settings(folder, private)
    other = tmp_path / "elsewhere"
    other.mkdir()
    # temporary files are written as they are; ``tmp_path`` itself may be one
    code = f"open({str(other / 'x')!r}, 'w').write('1')"
    run(code, folder, private)
    expected = not made.ground.is_users(str(other / "x"))
    assert (other / "x").exists() is expected


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    folder, private = tmp_path / "job", tmp_path / "private"
    folder.mkdir()
    private.mkdir()
    fill(folder)
    (folder / "a.txt").chmod(0o400)
    settings(folder, private)
    assert run("told(tried(open, 'a.txt', 'w'))", folder, private)["seen"] == [["PermissionError", 13, "a.txt"]]
