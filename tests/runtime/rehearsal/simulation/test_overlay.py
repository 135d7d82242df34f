"""What ranks write goes into an overlay and away with it: mounted where that is allowed, by Python elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation import overlay, protected_paths
from distcheck.runtime.rehearsal.simulation.event_log import read_rows
from distcheck.runtime.rehearsal.simulation.overlay import LeftFile, Overlay
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.protected_paths import FileSystem, Mount

ROOT = Path(__file__).parents[4]
RANK = """
import os, sys
sys.path.insert(0, {root!r})
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation import overlay
from distcheck.runtime.rehearsal.simulation.hooks import overlay as hook
plan = RehearsalPlan("train.py", folder={folder!r}, private={private!r})
overlay.join(plan)
os.makedirs({private!r} + "/notes", exist_ok=True)
hook.install(EventLog({private!r} + "/notes", 0.0, 0), plan)
"""


def rank(plan: RehearsalPlan, script: str) -> str:
    code = RANK.format(root=str(ROOT), folder=plan.folder, private=plan.private) + script
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, cwd=plan.folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def plan(tmp_path: Path) -> RehearsalPlan:
    for name in ("job", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "job" / "kept.txt").write_text("kept")
    (tmp_path / "job" / "gone.txt").write_text("gone")
    return RehearsalPlan("train.py", folder=str(tmp_path / "job"), private=str(tmp_path / "private"))


@pytest.fixture(params=["mount", "python"])
def begun(request: pytest.FixtureRequest, plan: RehearsalPlan, monkeypatch: pytest.MonkeyPatch) -> Iterator[Overlay]:
    """An overlay, in each of the two ways."""
    if request.param == "python":
        monkeypatch.setattr(overlay, "_separate", lambda *_: None)
    made = overlay.begin(plan)
    if made.settings.how != request.param:
        made.remove()
        pytest.skip(f"mounting is not allowed here: {made.notes}")
    yield made
    made.remove()


def test_nothing_of_the_users_is_changed(begun: Overlay) -> None:
    plan, folder = begun.plan, Path(begun.plan.folder)
    rank(plan, "open('kept.txt', 'w').write('new'); os.remove('gone.txt'); os.makedirs('out/a'); open('out/a/b', 'w')")
    assert sorted(path.name for path in folder.iterdir()) == ["gone.txt", "kept.txt"]
    assert (folder / "kept.txt").read_text() == "kept"


def test_all_ranks_share_what_is_written(begun: Overlay) -> None:
    rank(begun.plan, "open('new.txt', 'w').write('from rank 0'); os.remove('gone.txt')")
    seen = rank(begun.plan, "print(os.getcwd()); print(open('new.txt').read(), os.path.exists('gone.txt'))")
    assert seen.splitlines() == [begun.plan.folder, "from rank 0 False"]


def test_absolute_paths_elsewhere_are_covered_too(begun: Overlay) -> None:
    # neither in the working directory nor among the temporary files
    target = Path(os.path.expanduser("~")) / f"distcheck-test-{os.getpid()}"
    if not os.access(target.parent, os.W_OK) or not begun.settings.ground.is_users(str(target)):
        pytest.skip("the home folder is not one that a rehearsal would change")
    try:
        assert (
            rank(begun.plan, f"open({str(target)!r}, 'w').write('1'); print(os.path.exists({str(target)!r}))")
            == "True\n"
        )
        assert not target.exists()
        assert str(target) in begun.end().written
    finally:
        target.unlink(missing_ok=True)


def test_what_would_have_been_written_is_told(begun: Overlay) -> None:
    rank(
        begun.plan,
        "open('b.txt', 'w').write('1'); open('kept.txt', 'a').write('1'); os.remove('gone.txt'); open('kept.txt')",
    )
    left = begun.end()
    assert (left.written, left.removed) == (("b.txt", "kept.txt"), ("gone.txt",))
    assert (
        left.text
        == "would have written 2 files (b.txt, kept.txt) and removed 1 file (gone.txt); nothing of it was kept"
    )


def test_nothing_is_left_of_it(begun: Overlay) -> None:
    rank(begun.plan, "os.makedirs('x/y'); open('x/y/z', 'w').write('1')")
    memory = begun._in_memory
    begun.remove()
    assert not (Path(begun.plan.private) / "overlay").exists()
    assert memory is None or not os.path.exists(memory.path)


def test_the_private_folder_is_as_it_is_outside(begun: Overlay) -> None:
    note = Path(begun.plan.private) / "note"
    rank(begun.plan, f"open({str(note)!r}, 'w').write('seen')")
    assert note.read_text() == "seen"


def test_a_folder_that_was_there_can_be_renamed(begun: Overlay) -> None:
    (Path(begun.plan.folder) / "old").mkdir()
    (Path(begun.plan.folder) / "old" / "in").write_text("1")
    assert (
        rank(begun.plan, "os.rename('old', 'new'); print(os.listdir('new'), os.path.exists('old'))") == "['in'] False\n"
    )
    assert (Path(begun.plan.folder) / "old" / "in").exists()


def test_a_file_that_is_opened_and_not_changed_would_not_have_been_written(begun: Overlay) -> None:
    if begun.settings.how == "python":
        pytest.skip("Python copies it when it is opened for writing, and tells it as written")
    rank(begun.plan, "open('kept.txt', 'r+').close()")
    assert begun.end().written == ()


def test_what_another_program_writes_is_covered_and_its_rank_not_known(begun: Overlay) -> None:
    if begun.settings.how == "python":
        rank(begun.plan, "import subprocess; subprocess.run(['true'])")
        notes = begun.end(read_rows(os.path.join(begun.plan.private, "notes"))).notes
        assert [
            note for note in notes if note.endswith("what true writes is not redirected: it is no Python of this rank")
        ]
        return
    rank(begun.plan, "import subprocess; subprocess.run(['cp', 'kept.txt', 'copy.txt'], check=True)")
    assert not (Path(begun.plan.folder) / "copy.txt").exists()
    left = begun.end([LoggedEvent("files.write", 0, 1, 0.0, 0, "train.py:1", "", {"path": "/elsewhere"})])
    assert left.written == ("copy.txt",)
    assert [note for note in left.notes if "copy.txt: written by other than Python code" in note]


def test_files_that_a_row_explains_are_not_told_as_unknown(begun: Overlay) -> None:
    rank(begun.plan, "open('n.txt', 'w').write('1')")
    path = os.path.join(os.path.realpath(begun.plan.folder), "n.txt")
    rows = [LoggedEvent("files.write", 0, 1, 0.0, 0, "train.py:1", "", {"path": path})]
    assert not [note for note in begun.end(rows).notes if "n.txt" in note]


def test_files_of_a_folder_that_was_moved_are_explained(begun: Overlay) -> None:
    """Written into ``part``, which then becomes ``whole``; what another program wrote there stays unknown."""
    if begun.settings.how == "python":
        pytest.skip("no program's files are in the overlay")
    program = "open('part/mine', 'w'); subprocess.run(['cp', 'kept.txt', 'part/other'], check=True)"
    rank(
        begun.plan,
        f"import subprocess; os.mkdir('part'); {program}; os.rename('part', 'between'); os.rename('between', 'whole')",
    )

    def row(kind: str, **data: str) -> LoggedEvent:
        paths = {name: os.path.join(begun.plan.folder, path) for name, path in data.items()}
        return LoggedEvent(kind, 0, 1, 0.0, 0, "train.py:1", "", paths)

    left = begun.end([
        row("files.write", path="part/mine"),
        row("files.moved", path="between", source="part"),
        row("files.moved", path="whole", source="between"),
    ])  # fmt: skip
    unknown = [note for note in left.notes if "written by other than Python code" in note]
    assert [note.partition(": ")[0] for note in unknown] == [os.path.join(begun.plan.folder, "whole", "other")]


def test_in_place_writes_where_the_script_says(plan: RehearsalPlan) -> None:
    made = overlay.begin(plan._replace(in_place=True))
    rank(plan, "open('n.txt', 'w').write('1')")
    assert made.end() == LeftFile("none")
    assert made.end().text == ""
    made.remove()
    assert (Path(plan.folder) / "n.txt").read_text() == "1"


def test_a_rank_that_cant_enter_the_overlay_does_not_run_the_script(begun: Overlay) -> None:
    if begun.settings.how == "python":
        pytest.skip("there is nothing to enter")
    begun.remove()  # the process that keeps it is gone
    with pytest.raises(AssertionError, match=r"FileNotFoundError|No such file|setns"):
        rank(begun.plan, "open('kept.txt', 'w').write('new')")
    assert (Path(begun.plan.folder) / "kept.txt").read_text() == "kept"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")
def test_what_the_kernel_refuses_is_an_error() -> None:
    from distcheck.runtime.rehearsal.simulation import namespaces

    with pytest.raises(OSError, match="setns"):
        namespaces.enter(os.getpid(), ["user"])  # a process cannot enter the namespace that it is in


def test_a_job_that_holds_the_temporary_files(tmp_path: Path) -> None:
    (tmp_path / "tmp" / "private").mkdir(parents=True)
    plan = RehearsalPlan("train.py", folder=str(tmp_path), private=str(tmp_path / "tmp" / "private"))
    made = overlay.begin(plan)
    try:
        if made.settings.how != "mount":
            pytest.skip("mounting is not allowed here")
        assert str(tmp_path) in made.settings.covered
        rank(plan, f"open('a.txt', 'w').write('1'); open({plan.private + '/note'!r}, 'w').write('seen')")
        assert made.end().written == ("a.txt",)
        assert (tmp_path / "tmp" / "private" / "note").read_text() == "seen"
        assert not (tmp_path / "a.txt").exists()
        stores = [made.kept, made._in_memory.path]
        assert all(map(os.path.exists, stores))
    finally:
        made.remove()
    assert not any(map(os.path.exists, stores))


def test_file_systems_and_files_that_are_mounted_in_the_job(tmp_path: Path) -> None:
    for name in ("job/data", "private/notes"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "job" / "config").write_text("of the folder")
    (tmp_path / "outer").write_text("mounted")
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from distcheck.runtime.rehearsal.simulation import mount_namespace as mounting, namespaces, overlay
from distcheck.runtime.rehearsal.simulation.hooks import overlay as hook
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
os.chdir({str(tmp_path)!r})
try:
    namespaces.separate("mnt", user=os.getuid() != 0)
    mounting._mount("tmpfs", "job/data", "tmpfs", 0)
    mounting._mount("outer", "job/config", "", mounting._BIND)
except OSError as error:
    sys.exit(f"not allowed: {{error}}")
open("job/data/old", "w").close()
plan = RehearsalPlan("t.py", folder=os.path.abspath("job"), private=os.path.abspath("private"))
made = overlay.begin(plan)
if made.settings.how != "mount":
    sys.exit("not allowed")
if os.fork() == 0:
    overlay.join(plan)
    hook.install(EventLog(os.path.join(plan.private, "notes"), 0.0, 0), plan)
    with open("data/new", "w") as file: file.write("1")
    print(sorted(os.listdir("data")), open("config").read(), flush=True)
    with open("config", "w") as file: file.write("changed")
    print(open("config").read(), flush=True)
    os._exit(0)
os.wait()
print(os.listdir("job/data"), open("job/config").read(), made.end().written)
made.remove()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    if done.stderr.startswith("not allowed"):
        pytest.skip(done.stderr)
    assert done.stdout.splitlines() == [
        "['new', 'old'] mounted",
        "changed",
        "['old'] mounted ('data/new', 'config')",
    ], done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="takes another user's place")
def test_who_may_not_mount_gets_a_user_namespace(tmp_path: Path) -> None:
    python = Path("/usr/bin/python3")
    if not python.exists() or not os.access(ROOT, os.R_OK):
        pytest.skip("no Python that everybody may run")
    import tempfile

    base = Path(tempfile.mkdtemp(prefix="distcheck-test-"))
    os.chmod(base, 0o755)
    for name in ("job", "private", "job/old"):
        (base / name).mkdir()
        os.chown(base / name, 65534, 65534)
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from distcheck.runtime.rehearsal.simulation import overlay
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
plan = RehearsalPlan("t.py", folder={str(base / "job")!r}, private={str(base / "private")!r})
made = overlay.begin(plan, {{}})
print(made.settings.how, made.settings.user, flush=True)
if made.settings.how == "mount":
    if os.fork() == 0:
        overlay.join(plan)
        from distcheck.runtime.rehearsal.simulation.hooks import overlay as hook
        from distcheck.runtime.rehearsal.simulation.event_log import EventLog
        hook.install(EventLog(plan.private, 0.0, 0), plan)
        with open("n.txt", "w") as file: file.write("1")
        os.rename("old", "new")  # the kernel refuses that here
        os._exit(0)
    os.wait()
    left = made.end()
    print(left.written, left.removed, os.listdir(plan.folder))
made.remove()
print(os.path.exists(made.kept))
"""
    try:
        done = subprocess.run(
            [str(python), "-c", code], capture_output=True, text=True, timeout=120, check=False, user=65534, group=65534,
            extra_groups=[], cwd=base,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        if lines[0].startswith("python"):
            pytest.skip("user namespaces are not allowed here")
        assert lines == ["mount True", "('n.txt',) ('old',) ['old']", "False"]
    finally:
        subprocess.run(["rm", "-rf", str(base)], check=True)


# which places: pure

GROUND = FileSystem(("/home/me/job",), ("/tmp/private", "/home/me/.cache"), ("/tmp", "/proc"))


def test_what_is_the_users() -> None:
    users = {"/home/me/job/a": True, "/scratch/x": True, "/tmp/x": False, "/home/me/.cache/x": False, "/proc/1": False}
    assert {path: GROUND.is_users(path) for path in users} == users


def test_a_job_among_temporary_files_is_the_users() -> None:
    ground = FileSystem(("/tmp/job",), ("/tmp/job/private",), ("/tmp",))
    assert ground.is_users("/tmp/job/x")
    assert not ground.is_users("/tmp/other")
    assert not ground.is_users("/tmp/job/private/x")


def test_mounts_are_read() -> None:
    text = (
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "23 22 0:5 / /proc rw - proc proc rw\n"
        "24 22 0:9 / /mnt/my\\040data ro,nosuid shared:3 master:2 - nfs4 server:/data rw\n"
        "25 22 0:10 / /scratch rw - lustre lfs rw\n"
        "26 25 0:11 / /scratch rw - ext4 /dev/vdb ro\n"
    )
    assert protected_paths.read_mounts(text) == (
        Mount("/", "ext4"), Mount("/proc", "proc"), Mount("/mnt/my data", "nfs4", False), Mount("/scratch", "ext4", False),
    )  # fmt: skip


def test_everything_of_the_users_is_covered() -> None:
    mounts = [
        Mount("/", "ext4"), Mount("/proc", "proc"), Mount("/scratch", "lustre"), Mount("/data", "nfs4", False),
        Mount("/home/me", "nfs4"), Mount("/tmp", "tmpfs"), Mount("/home/auto", "autofs"),
    ]  # fmt: skip
    found = protected_paths.everything(mounts, ["home", "usr", "etc", "opt", "tmp", "proc", "scratch", "data"], GROUND)
    # the file system in a covered one is covered for itself; what is read-only is not
    assert found.covered == ("/home", "/opt", "/scratch", "/home/me")
    assert found.through == ("/home/auto", "/home/me/.cache")


def test_a_job_that_holds_the_temporary_files_is_covered() -> None:
    ground = FileSystem(("/tmp",), ("/tmp/private",), ("/tmp",))
    found = protected_paths.everything([Mount("/", "ext4"), Mount("/tmp", "tmpfs")], ["home", "tmp"], ground)
    assert found == protected_paths.ProtectedPaths(("/home", "/tmp"), ("/tmp/private",))


def test_in_a_user_namespace_only_own_places_are_covered() -> None:
    assert protected_paths.only_own([Mount("/", "ext4")], "/home/me", GROUND) == protected_paths.ProtectedPaths(
        ("/home/me",), ("/home/me/.cache",)
    )


def test_caches_are_known_by_their_variables() -> None:
    environ = {"HOME": "/h", "HF_HOME": "/scratch/hf", "TORCH_HOME": "relative", "XDG_CACHE_HOME": "/job"}
    found = protected_paths.caches(environ, ["/job"])
    assert "/scratch/hf" in found
    assert "/h/.cache" in found
    assert not [path for path in found if path.startswith("/job") or "relative" in path]
