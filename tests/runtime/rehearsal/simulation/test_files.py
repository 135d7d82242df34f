"""Files of all ranks together: the probes on rows made by hand, and the hook on scripts of one process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from distcheck.core.model import Finding, NotApplicable, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation import files
from distcheck.runtime.rehearsal.simulation.event_log import read_rows
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

ROOT = Path(__file__).parents[4]
PLAN = RehearsalPlan("train.py", nnodes=1, nproc_per_node=2, folder="/job")
TWO_NODES = PLAN._replace(nnodes=2)
BEFORE, AFTER = {"life": 1, "0": 4}, {"life": 1, "0": 5}


def row(
    kind: str, rank: int | None, place: str = "train.py:9", clock: dict[str, int] = BEFORE, **data: Any
) -> LoggedEvent:
    if "path" in data:
        data["path"] = f"/job/{data['path']}"
    return LoggedEvent(f"files.{kind}", rank, 1, 0.0, 0, place, "main", {"clock": clock, **data})


def write(rank: int, path: str = "last.pt", **data: Any) -> LoggedEvent:
    return row("write", rank, **{"path": path, "how": "torch.save", "mode": "truncate", **data})


def read(rank: int, path: str = "last.pt", **data: Any) -> LoggedEvent:
    return row("read", rank, **{"path": path, "how": "open", "there": True, "place": "train.py:20", **data})


def mkdir(rank: int, path: str = "out", **data: Any) -> LoggedEvent:
    given = {
        "path": path,
        "exist_ok": False,
        "there": False,
        "caught": False,
        "how": "os.makedirs",
        "place": "train.py:6",
    }
    return row("mkdir", rank, **{**given, **data})


def fetch(rank: int, url: str = "http://x/data.zip", **data: Any) -> LoggedEvent:
    given = {"url": url, "by": "urllib.request.urlretrieve", "own": True, "place": "train.py:3"}
    return row("fetch", rank, **{**given, **data})


def asked(rank: int, there: bool, place: str = "train.py:5", path: str = "out") -> LoggedEvent:
    return row("asked", rank, place, path=path, there=there)


def judged(*rows: LoggedEvent, plan: RehearsalPlan = PLAN, ends: Iterable[End] = ()) -> list[Finding]:
    found = files.read_files(Rehearsal(plan, tuple(ends), rows))
    probes = (
        files.one_rank_writes_a_file, files.readers_wait_for_the_writer, files.folders_may_be_there,
        files.one_rank_fetches, files.one_rank_creates_and_removes_a_file, files.files_are_removed_after_all_have_read_them,
    )  # fmt: skip
    return [finding for probe in probes for finding in probe(found)]


def codes(*rows: LoggedEvent, **options: Any) -> list[str]:
    return [finding.code for finding in judged(*rows, **options)]


# DC720


def test_bad_all_ranks_write_a_checkpoint_dc720() -> None:
    (found,) = judged(write(0), write(1))
    assert (found.code, found.severity) == ("DC720", Severity.ERROR)
    assert (found.where.path, found.where.line, found.where.ranks) == ("train.py", 9, "0-1")
    assert '"last.pt"' in found.message
    assert "torch.save()" in found.fix.text
    assert "/job" not in found.message + found.fix.text


def test_bad_all_ranks_write_a_file_that_is_no_checkpoint_dc720() -> None:
    (found,) = judged(write(0, "args.json", how="open"), write(1, "args.json", how="open"))
    assert (found.code, found.severity) == ("DC720", Severity.WARNING)


@pytest.mark.parametrize(
    ("by", "guarded"),
    [
        ("transformers.save_pretrained", True),
        ("pandas.to_csv", True),
        ("hydra.decorated_main", False),
        ("a.fit", False),
    ],
)
def test_a_call_that_may_do_more_than_write_stays_on_all_ranks_dc720(by: str, guarded: bool) -> None:
    """An `if` around the call of hydra that runs the script would keep the other ranks from training."""
    (found,) = judged(*(write(rank, "out/config.yaml", how="open", by=by) for rank in range(2)))
    assert found.fix.text.startswith(f"let one rank write: `if dist.get_rank() == 0:` around {by}()") == guarded
    assert guarded or found.fix.text.startswith(f"put the rank into the path, or configure {by}()")


def test_bad_files_of_one_line_are_one_finding_dc720() -> None:
    (found,) = judged(*(write(rank, f"{epoch}.pt") for epoch in range(3) for rank in range(2)))
    assert '"0.pt" and 2 more files' in found.message


def test_bad_the_readers_are_told_to_wait_dc720() -> None:
    found = judged(write(0), write(1), read(1, clock=AFTER))
    assert [one.code for one in found] == ["DC720"]
    assert "dist.barrier() after it, because other ranks read the file" in found[0].fix.text


@pytest.mark.parametrize(
    "rows",
    [
        [write(0)],
        [write(0, "rank0.pt"), write(1, "rank1.pt")],
        # one after the other, each behind a barrier
        [write(0), write(1, clock=AFTER)],
        [write(0, clock={"life": 0}), write(1)],
        # by design: a log that all add to, a lock file, a part of a file, under a lock
        [write(0, mode="append"), write(1, mode="append")],
        [write(0, mode="create"), write(1, mode="create")],
        [write(0, mode="update"), write(1, mode="update")],
        [write(0, "a.lock"), write(1, "a.lock")],
        [write(0, locked=True), write(1, locked=True)],
        # written under names of their own, and moved at once
        [write(0, "a.0"), write(1, "a.1"), row("moved", 0, path="a", source="/job/a.0"), row("moved", 1, path="a")],
        # the process that starts the ranks is none
        [write(0), row("write", None, path="last.pt", mode="truncate", how="torch.save")],
    ],
)  # fmt: skip
def test_good_one_writer_at_a_time_dc720(rows: list[LoggedEvent]) -> None:
    assert codes(*rows) == []


def raised(rank: int, error: str, place: str = "train.py:9") -> End:
    return End(rank, rank, "raised", 1, detail=f"{error}: [Errno 2]", place=place)


def removed(rank: int, **data: Any) -> LoggedEvent:
    return row("removed", rank, **{"path": "part.pt", "how": "os.remove", **data})


@pytest.mark.parametrize(
    ("acts", "error", "verb"),
    [
        ([removed(0), removed(1)], "FileNotFoundError", "remove"),
        ([write(0, mode="create"), write(1, mode="create")], "FileExistsError", "create"),
    ],
)
def test_bad_only_the_first_rank_can_create_or_remove_a_file_dc720(
    acts: list[LoggedEvent], error: str, verb: str
) -> None:
    (found,) = judged(*acts, ends=[End(0, 0), raised(1, error)])
    assert (found.code, found.severity, found.where.line) == ("DC720", Severity.ERROR, 9)
    assert f'ranks 0-1 {verb} "' in found.message
    assert f"rank 1 failed with {error}" in found.message
    # it is handled, or another line failed
    assert codes(*acts) == []
    assert codes(*acts, ends=[End(0, 0), raised(1, error, "train.py:99")]) == []
    # one after the other
    assert codes(acts[0], acts[1]._replace(data={**acts[1].data, "clock": AFTER}), ends=[raised(1, error)]) == []


def test_bad_files_are_removed_while_another_rank_reads_them_dc722() -> None:
    parts = [
        write(0, "scratch/part.pt", clock={"life": 1, "0": 3}),
        read(1, "scratch/part.pt", there=False, place="train.py:20"),
    ]
    gone = removed(0, path="scratch", how="shutil.rmtree", place="train.py:49")
    error = raised(1, "FileNotFoundError", "train.py:20")
    (found,) = [one for one in judged(*parts, gone, ends=[End(0, 0), error]) if one.code == "DC722"]
    assert (found.severity, found.where.line, found.where.ranks) == (Severity.ERROR, 49, "0")
    assert 'rank 0 removes "scratch" here (shutil.rmtree)' in found.message
    for rows, ends in (
        ((*parts, gone), [End(0, 0), End(1, 1)]),  # handled
        ((*parts, gone._replace(data={**gone.data, "clock": AFTER})), [End(0, 0), error]),  # all have read before
        ((parts[1], gone), [End(0, 0), error]),  # it was never there
        ((*parts, removed(0, path="other", place="train.py:49")), [End(0, 0), error]),
    ):
        assert "DC722" not in {one.code for one in judged(*rows, ends=ends)}


def test_good_one_rank_of_each_node_writes_dc720() -> None:
    (found,) = judged(write(0), write(2), plan=TWO_NODES)
    assert found.severity is Severity.INFO
    assert "correct if each node has its own disk" in found.message
    assert "global rank" in found.fix.text


# DC724


def test_bad_a_file_is_read_while_it_is_written_dc724() -> None:
    (found,) = judged(write(0), read(1))
    assert found.severity is Severity.WARNING
    assert (found.code, found.where.line, found.where.ranks) == ("DC724", 20, "1")
    assert 'rank 1 reads "last.pt" here, which rank 0 writes at train.py:9' in found.message
    assert found.fix.text == "dist.barrier() on all ranks between the write at train.py:9 and this line"


def test_bad_a_file_is_read_before_it_is_there_dc724() -> None:
    end = End(1, how="raised", detail="FileNotFoundError: No such file or directory", place="train.py:20")
    (found,) = judged(read(1, there=False), write(0), ends=[end])
    assert found.message.endswith("; rank 1 failed")
    assert found.severity is Severity.ERROR


def test_bad_a_file_that_is_moved_into_place_is_read_at_once_dc724() -> None:
    moved = row("moved", 0, path="last.pt", source="/job/last.tmp")
    assert codes(write(0, "last.tmp"), moved, read(1)) == ["DC724"]


def test_bad_a_folder_is_used_before_it_is_made_dc724() -> None:
    (found,) = judged(mkdir(0, exist_ok=True), write(1, "out/log1.txt", mode="append"))
    assert found.code == "DC724"
    assert 'rank 1 uses the folder "out" here, which rank 0 makes at train.py:6' in found.message
    assert "os.makedirs(…, exist_ok=True)" in found.fix.text


@pytest.mark.parametrize("used", [[read(1, "out", there=False, how="listdir")], [read(1, "out/a.txt")]])
def test_bad_a_folder_is_read_before_it_is_made_dc724(used: list[LoggedEvent]) -> None:
    (found,) = judged(mkdir(0, exist_ok=True), *used)
    assert (found.code, found.where.line) == ("DC724", 20)


def test_bad_a_folder_is_made_in_one_that_another_rank_makes_dc724() -> None:
    inner = mkdir(1, "out/run", how="os.mkdir", caught=True)
    assert codes(mkdir(0, exist_ok=True), inner, write(1, "out/run/x")) == ["DC724"]


@pytest.mark.parametrize(
    "rows",
    [
        [write(0), read(0)],
        [write(0), read(1, clock=AFTER)],
        # a checkpoint that may be there from an earlier run
        [mkdir(0, exist_ok=True), read(1, "out/last.pt", there=False)],
        # the old one, before anybody writes
        [read(1), write(0, clock=AFTER)],
        [write(0, clock={"life": 0}), read(1)],
        # both add to it, and one looks at what stands there
        [write(0, mode="append"), write(1, mode="append"), read(1)],
        # it looks, and sleeps, until the file is there; or there is a lock
        [write(0), read(1, waited=True)],
        [write(0), read(1, locked=True)],
        # it asks first, and the writer moves the whole file into place
        [write(0, "last.tmp"), row("moved", 0, path="last.pt", source="/job/last.tmp"), asked(1, True, path="last.pt"),
         read(1)],
        # a barrier of a group of their own; a count that sends have spoilt
        [write(0, clock={"life": 1, "0": 4, "g": 1}), read(1, clock={"life": 1, "0": 4, "g": 2})],
        [write(0, clock={"life": 1, "0": 9, "0/calls": 2}), read(1, clock={"life": 1, "0": 9, "0/calls": 3})],
        # each has made the folder for itself, it was there, or it was seen to be there
        [mkdir(0, exist_ok=True), mkdir(1, exist_ok=True), write(1, "out/x")],
        [mkdir(0, there=True, exist_ok=True), write(1, "out/x")],
        [mkdir(0, exist_ok=True), asked(1, True), write(1, "out/x")],
        [mkdir(0, "out2", exist_ok=True), write(1, "out/x")],
        # both call makedirs("out/run"): the second finds "out" there, and makes no word of it
        [mkdir(0, exist_ok=True), mkdir(0, "out/run", exist_ok=True), mkdir(1, "out/run", exist_ok=True, there=True),
         write(1, "out/run/x")],
    ],
)  # fmt: skip
def test_good_readers_that_wait_dc724(rows: list[LoggedEvent]) -> None:
    assert codes(*rows) == []


def test_a_rank_that_failed_elsewhere_is_none_that_read_too_early_dc724() -> None:
    (found,) = judged(read(1), write(0), ends=[End(1, how="raised", detail="RuntimeError: x", place="train.py:30")])
    assert found.severity is Severity.WARNING


# DC722


def test_bad_ranks_make_one_folder_dc722() -> None:
    (found,) = judged(mkdir(0), mkdir(1))
    assert (found.code, found.severity, found.where.line) == ("DC722", Severity.WARNING, 6)
    assert found.fix.text == "os.makedirs(…, exist_ok=True)"


def test_bad_one_came_second_and_failed_dc722() -> None:
    end = End(1, how="raised", detail="FileExistsError: [Errno 17] File exists: 'out'", place="train.py:6")
    (found,) = judged(mkdir(0, how="os.mkdir"), mkdir(1, there=True, how="os.mkdir"), ends=[end])
    assert found.message.endswith("; rank 1 failed with FileExistsError")
    assert found.severity is Severity.ERROR
    assert "os.mkdir has no exist_ok" in found.fix.text


def test_bad_one_asked_when_the_other_had_made_it_dc722() -> None:
    (found,) = judged(mkdir(0, asked_at="train.py:5", how="Path.mkdir"), asked(0, False), asked(1, True))
    assert (found.code, found.where.ranks) == ("DC722", "0-1")
    assert found.fix.text.startswith("Path.mkdir(…, exist_ok=True); another rank can create it between")


@pytest.mark.parametrize(
    "rows",
    [
        [mkdir(0)],
        [mkdir(0, exist_ok=True), mkdir(1, exist_ok=True)],
        [mkdir(0, caught=True), mkdir(1, caught=True)],
        [mkdir(0, "out/0"), mkdir(1, "out/1")],
        # it was there before the job: no matter of ranks
        [mkdir(0, there=True), mkdir(1, there=True)],
        # one goes first; another asks elsewhere
        [mkdir(0), mkdir(1, clock=AFTER)],
        [mkdir(0, asked_at="train.py:5"), asked(1, True, "train.py:30")],
        [mkdir(0, asked_at=""), asked(1, True)],
    ],
)  # fmt: skip
def test_good_folders_that_may_be_there_dc722(rows: list[LoggedEvent]) -> None:
    assert codes(*rows) == []


def test_good_one_rank_of_each_node_makes_it_dc722() -> None:
    (found,) = judged(mkdir(0), mkdir(2), plan=TWO_NODES)
    assert found.severity is Severity.INFO


# DC725


def test_bad_all_ranks_fetch_the_same_dc725() -> None:
    data = [write(rank, "data.zip", how="open", place="train.py:3") for rank in range(2)]
    (found,) = judged(fetch(0), fetch(1), *data)
    assert (found.code, found.where.line) == ("DC725", 3)
    assert found.message == (
        'ranks 0-1 each fetch http://x/data.zip here (urllib.request.urlretrieve), into "data.zip"'
    )


def test_bad_the_net_is_not_there_dc725() -> None:
    assert codes(fetch(0), fetch(1)) == ["DC725"]


@pytest.mark.parametrize(
    "rows",
    [
        [fetch(0)],
        [fetch(0), fetch(1, clock=AFTER)],
        [fetch(0, "http://x/0"), fetch(1, "http://x/1")],
        [fetch(0, locked=True), fetch(1, locked=True)],
        # asks a server something, and writes nothing; a library that looks for a newer version
        [fetch(0, by=""), fetch(1, by="")],
        [fetch(0, by="", own=False), fetch(1, by="", own=False)],
        # a library that fetches in a way of its own
        [*(fetch(rank, by="", own=False) for rank in range(2)), *(write(rank, place="train.py:3") for rank in range(2))],
        # each to a place of its own
        [fetch(0), fetch(1), write(0, "data0", place="train.py:3"), write(1, "data1", place="train.py:3")],
    ],
)  # fmt: skip
def test_good_one_rank_fetches_dc725(rows: list[LoggedEvent]) -> None:
    assert codes(*rows) == []


def test_good_one_rank_of_each_node_fetches_dc725() -> None:
    assert codes(fetch(0), fetch(2), plan=TWO_NODES) == []
    assert codes(fetch(0), fetch(1), fetch(2), plan=TWO_NODES) == ["DC725"]


def test_nothing_to_look_at_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        files.read_files(Rehearsal(PLAN))


# the hook

HEAD = """
import os, sys
sys.path.insert(0, {root!r})
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.hooks import files
os.chdir({folder!r})
files.install(EventLog({notes!r}, {begun!r}, 0), RehearsalPlan("train.py", folder={folder!r}, private={private!r}))
sys.argv = ["train.py"]
source = open("train.py").read()
import linecache
exec(compile(source, os.path.join({folder!r}, "train.py"), "exec"), {{"__name__": "__main__"}})
"""


def rows_of(tmp_path: Path, script: str, begun: float = 0.0) -> list[LoggedEvent]:
    folder, private = tmp_path / "job", tmp_path / "private"
    for path in (folder, private / "notes"):
        path.mkdir(parents=True)
    (folder / "train.py").write_text(script)
    (folder / "there.txt").write_text("there")
    head = HEAD.format(
        root=str(ROOT), folder=str(folder), private=str(private), notes=str(private / "notes"), begun=begun
    )
    done = subprocess.run([sys.executable, "-c", head], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = []
    for one in read_rows(str(private / "notes")):
        plain = json.loads(json.dumps(one.data).replace(f"{folder}/", ""))
        if plain.get("path") != "train.py":
            found.append(one._replace(data=plain))
    return found


def briefly(rows: Iterable[LoggedEvent], *names: str) -> list[tuple[object, ...]]:
    return [(one.kind, one.place, *(one.data.get(name) for name in names)) for one in rows]


def test_removals_are_seen_with_their_line(tmp_path: Path) -> None:
    script = "import os, pathlib\nos.remove('there.txt')\npathlib.Path('gone.txt').unlink(missing_ok=True)\n"
    assert briefly(rows_of(tmp_path, script), "path", "how") == [
        ("files.removed", "train.py:2", "there.txt", "os.remove"),
        ("files.removed", "train.py:3", "gone.txt", "os.remove"),
    ]


def test_a_tree_is_removed_as_a_whole(tmp_path: Path) -> None:
    script = "import os, shutil\nos.mkdir('scratch')\nopen('scratch/part', 'w').close()\nshutil.rmtree('scratch')\n"
    removals = [one for one in rows_of(tmp_path, script) if one.kind == "files.removed"]
    assert briefly(removals, "path", "how") == [("files.removed", "train.py:4", "scratch", "shutil.rmtree")]


def test_writes_are_seen_with_their_line(tmp_path: Path) -> None:
    script = """\
import json, os
with open("a.json", "w") as file:
    json.dump({}, file)
open("log", "a").close()
open("once", "x").close()
open("a.json", "r+").close()
os.close(os.open("d", os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
import pathlib, shutil
pathlib.Path("p").write_text("1")
shutil.copy("p", "q")
os.replace("q", "r")
open("last.pth", "wb").close()
"""
    found = [one for one in rows_of(tmp_path, script) if one.kind in ("files.write", "files.moved")]
    assert briefly(found, "path", "mode", "by") == [
        ("files.write", "train.py:2", "a.json", "truncate", ""),
        ("files.write", "train.py:4", "log", "append", ""),
        ("files.write", "train.py:5", "once", "create", ""),
        ("files.write", "train.py:6", "a.json", "update", ""),
        ("files.write", "train.py:7", "d", "truncate", ""),
        ("files.write", "train.py:9", "p", "truncate", "pathlib.write_text"),
        ("files.write", "train.py:10", "q", "truncate", "shutil.copy"),
        ("files.moved", "train.py:11", "r", None, None),
        ("files.write", "train.py:12", "last.pth", "truncate", ""),
    ]


def test_what_nobody_waits_for_is_not_noted(tmp_path: Path) -> None:
    script = """\
import os, tempfile, json.tool
open(os.devnull, "w").close()
tempfile.TemporaryFile().close()
open("module.py", "w").close()
open("/proc/self/status").close()
"""
    assert briefly(rows_of(tmp_path, script)) == []


def test_reads_are_seen_whether_it_is_there_or_not(tmp_path: Path) -> None:
    script = """\
open("there.txt").close()
try:
    open("missing.txt")
except OSError:
    pass
import os, time
os.listdir(".")
time.sleep(0.01)
open("there.txt").read()
"""
    found = rows_of(tmp_path, script)
    assert briefly(found, "how", "there", "waited") == [
        ("files.read", "train.py:1", "open", True, False),
        ("files.read", "train.py:3", "open", False, False),
        ("files.read", "train.py:7", "listdir", True, False),
        ("files.read", "train.py:9", "open", True, True),
    ]


def test_a_lock_is_seen_until_it_is_given_back(tmp_path: Path) -> None:
    script = """\
import fcntl
lock = open("l.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
open("a", "w").close()
fcntl.flock(lock, fcntl.LOCK_UN)
open("b", "w").close()
"""
    found = [one for one in rows_of(tmp_path, script) if one.kind == "files.write"]
    assert [(one.data["path"], one.data["locked"]) for one in found] == [("l.lock", False), ("a", True), ("b", False)]


def test_python_s_own_folders_are_no_folders_of_the_script(tmp_path: Path) -> None:
    script = """\
import pathlib, sys
sys.dont_write_bytecode = False
pathlib.Path("package").mkdir()
pathlib.Path("package/part.py").write_text("")
sys.path.insert(0, "")
import package.part
assert pathlib.Path("package/__pycache__").exists()
"""
    found = [one.data["path"] for one in rows_of(tmp_path, script) if one.kind == "files.mkdir"]
    assert found == ["package"]


def test_folders_are_seen_with_what_they_were_told(tmp_path: Path) -> None:
    script = """\
import contextlib, os, pathlib
os.makedirs("a/b")
os.makedirs("a/c", exist_ok=True)
os.mkdir("d")
pathlib.Path("e").mkdir()
pathlib.Path("f/g").mkdir(parents=True, exist_ok=True)
try:
    os.mkdir("d")
except FileExistsError:
    pass
with contextlib.suppress(OSError):
    os.makedirs("d")
if not os.path.exists("h"):
    os.makedirs("h")
rank = 0
if rank == 0 and not os.path.exists("i"):
    os.makedirs("i")
"""
    found = [one for one in rows_of(tmp_path, script) if one.kind == "files.mkdir"]
    assert [
        (one.place, one.data["path"], bool(one.data["exist_ok"] or one.data["caught"]), one.data["how"], one.data["asked_at"])
        for one in found
    ] == [
        ("train.py:2", "a", True, "os.makedirs", ""),
        ("train.py:2", "a/b", False, "os.makedirs", ""),
        ("train.py:3", "a/c", True, "os.makedirs", ""),
        ("train.py:4", "d", False, "os.mkdir", ""),
        ("train.py:5", "e", False, "Path.mkdir", ""),
        # pathlib tries, makes what is above, and tries again
        ("train.py:6", "f/g", True, "Path.mkdir", ""),
        ("train.py:6", "f", True, "Path.mkdir", ""),
        ("train.py:6", "f/g", True, "Path.mkdir", ""),
        ("train.py:8", "d", True, "os.mkdir", ""),
        ("train.py:12", "d", True, "os.makedirs", ""),
        ("train.py:14", "h", False, "os.makedirs", "train.py:13"),
        ("train.py:17", "i", False, "os.makedirs", ""),
    ]  # fmt: skip


def test_downloads_are_seen_without_their_secrets(tmp_path: Path) -> None:
    script = """\
import os, urllib.request
here = "file://" + os.path.abspath("there.txt")
urllib.request.urlretrieve(here, "copy.txt")
urllib.request.urlopen(here).read()
urllib.request.Request("http://me:secret@host/path?key=1#x")
try:
    urllib.request.urlopen("http://me:secret@localhost:9/path?key=1", timeout=5)
except OSError:
    pass
"""
    found = [one for one in rows_of(tmp_path, script) if one.kind == "files.fetch"]
    assert [(one.place, one.data["url"].rpartition("/")[2], one.data["by"], one.data["own"]) for one in found] == [
        ("train.py:3", "there.txt", "urllib.request.urlretrieve", True),
        ("train.py:4", "there.txt", "", True),
        ("train.py:7", "path", "", True),
    ]
    assert "secret" not in json.dumps([one.data for one in found])


def test_a_data_set_of_many_files_is_not_noted_file_by_file(tmp_path: Path) -> None:
    import time

    script = """\
import os
os.makedirs("data")
for n in range(3000):
    os.close(os.open(f"data/{n}", os.O_CREAT | os.O_WRONLY))
    os.utime(f"data/{n}", (1, 1))
for n in range(3000):
    open(f"data/{n}").close()
"""
    found = [one for one in rows_of(tmp_path, script, time.time()) if one.kind == "files.read"]
    assert len(found) == 2000


@pytest.mark.torch
def test_what_torch_writes_in_cpp_is_seen(tmp_path: Path) -> None:
    script = """\
import torch
torch.save({"a": torch.ones(1)}, "a.pt")
torch.save({"a": torch.ones(1)}, "old.pt", _use_new_zipfile_serialization=False)
torch.load("a.pt")
torch.load("a.pt", mmap=True)
torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)), "j.pt")
"""
    found = rows_of(tmp_path, script)
    written = [one for one in found if one.kind == "files.write"]
    assert [(one.place, one.data["path"], one.data["by"] or one.data["how"]) for one in written] == [
        ("train.py:2", "a.pt", "torch.save"),
        ("train.py:3", "old.pt", "torch.save"),
        ("train.py:6", "j.pt", "torch.jit.save"),
    ]
    assert ("files.read", "train.py:4", "a.pt") in briefly(found, "path")
