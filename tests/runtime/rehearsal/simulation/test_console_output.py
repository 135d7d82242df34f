"""Lines and trackers of all ranks together, and trackers that stay offline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from distcheck.core.model import Finding, NotApplicable, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation import console_output, trackers
from distcheck.runtime.rehearsal.simulation.console_output import Printed, PrintedLine, TrackerRun
from distcheck.runtime.rehearsal.simulation.event_log import read_rows
from distcheck.runtime.rehearsal.simulation.plan import Rehearsal, RehearsalPlan

ROOT = Path(__file__).parents[4]
PLAN = RehearsalPlan("train.py", nnodes=1, nproc_per_node=2)
TWO_NODES = PLAN._replace(nnodes=2)


def lines(
    ranks: Iterable[int], steps: Iterable[int], digest: int | None = 7, place: str = "train.py:9"
) -> list[PrintedLine]:
    return [PrintedLine(rank, place, step, rank if digest is None else digest) for step in steps for rank in ranks]


def judged(*given: PrintedLine | TrackerRun, plan: RehearsalPlan = PLAN) -> list[Finding]:
    found = Printed(
        plan,
        tuple(one for one in given if isinstance(one, PrintedLine)),
        tuple(one for one in given if isinstance(one, TrackerRun)),
    )
    return [*console_output.one_rank_prints(found), *console_output.one_rank_starts_the_tracker(found)]


def test_bad_all_ranks_print_the_same_in_each_step_dc721() -> None:
    (found,) = judged(*lines([0, 1], [0, 1, 2]))
    assert (found.code, found.severity) == ("DC721", Severity.INFO)
    assert (found.where.path, found.where.line, found.where.ranks) == ("train.py", 9, "0-1")
    assert "if dist.get_rank() == 0" in found.fix.text


def test_bad_all_ranks_log_the_same_dc721() -> None:
    (found,) = judged(*[line._replace(how="logging") for line in lines([0, 1], [0, 1])])
    assert "ranks 0-1 log the same line" in found.message
    assert "setLevel" in found.fix.text


@pytest.mark.parametrize(
    "given",
    [
        lines([0], [0, 1, 2]),
        # a banner, however many lines it has
        [*lines([0, 1], [0]), *lines([0, 1], [0], digest=8)],
        # the rank, its own loss
        lines([0, 1], [0, 1, 2], digest=None),
        # one rank has more to say there
        [*lines([0, 1], [0, 1]), *lines([1], [0, 1], digest=9)],
        # each says it elsewhere, or at another time
        [*lines([0], [0, 1]), *lines([1], [0, 1], place="train.py:10")],
        [*lines([0], [0, 1]), *lines([1], [2, 3])],
    ],
)  # fmt: skip
def test_good_prints_that_are_meant_dc721(given: list[PrintedLine]) -> None:
    assert judged(*given) == []


def test_good_one_rank_of_each_node_prints_dc721() -> None:
    assert judged(*lines([0, 2], [0, 1]), plan=TWO_NODES) == []


def starts(ranks: Iterable[int], tracker: str = "wandb.init", **more: int) -> list[TrackerRun]:
    return [TrackerRun(rank, "train.py:5", tracker, **more) for rank in ranks]


def test_bad_every_rank_starts_the_tracker_dc721() -> None:
    (found,) = judged(*starts([0, 1]))
    assert (found.code, found.severity, found.where.line) == ("DC721", Severity.WARNING, 5)
    assert "the job has 2 runs instead of one" in found.message
    assert 'mode="online" if dist.get_rank() == 0 else "disabled"' in found.fix.text


def test_bad_one_rank_of_each_node_starts_the_tracker_dc721() -> None:
    (found,) = judged(*starts([0, 2], "SummaryWriter"), plan=TWO_NODES)
    assert "compare the global rank" in found.fix.text


@pytest.mark.parametrize(
    "given",
    [
        starts([0]),
        starts([0, 1], several=True),
        starts([0, 1], off=True),
        [*starts([0]), *starts([1], off=True)],
        [*starts([0], given=1), *starts([1], given=2)],
    ],
)  # fmt: skip
def test_good_trackers_that_know_of_ranks_dc721(given: list[TrackerRun]) -> None:
    assert judged(*given) == []


def test_nothing_printed_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        console_output.read_printed(Rehearsal(PLAN))


# the hooks

HEAD = """
import os, sys
sys.path[:0] = [{root!r}, {folder!r}]
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation import hooks
from distcheck.runtime.rehearsal.simulation.hooks import console_output as prints, trackers
os.chdir({folder!r})
event_log = EventLog({notes!r}, 0.0, 0)
plan = RehearsalPlan("train.py", folder={folder!r}, private={private!r})
prints.install(event_log, plan)
trackers.install(event_log, plan)
path = os.path.join({folder!r}, "train.py")
exec(compile(open(path).read(), path, "exec"), {{"__name__": "__main__", "event_log": event_log}})
"""


def played(tmp_path: Path, script: str, **modules: str) -> tuple[str, list[LoggedEvent]]:
    folder, private = tmp_path / "job", tmp_path / "private"
    for path in (folder, private / "notes"):
        path.mkdir(parents=True)
    (folder / "train.py").write_text(script)
    # installed modules are no code of the user's
    (tmp_path / "site-packages").mkdir()
    for name, text in modules.items():
        path = tmp_path / "site-packages" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        if "__" in name:
            # one without it comes behind a real one of that name
            (path.parent / "__init__.py").touch()
        path.write_text(text)
    head = HEAD.format(root=str(ROOT), folder=str(folder), notes=str(private / "notes"), private=str(private))
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site-packages')!r})\n{head}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, list(read_rows(str(private / "notes")))


def test_lines_are_seen_with_their_place(tmp_path: Path) -> None:
    script = """\
import logging, sys
class Loud:
    times = 0
    def __str__(self):
        Loud.times += 1
        return "loud"
print("a", Loud(), 3, sep="-", end="!")
print("a-loud-3")
print("elsewhere", file=open("out.txt", "w"))
print(Loud.times)
logging.basicConfig(stream=sys.stdout, format="%(asctime)s %(levelname)s %(message)s")
for _ in range(2):
    logging.warning("logged")
    event_log.step += 1
"""
    output, rows = played(tmp_path, script)
    assert output.startswith("a-loud-3!a-loud-3\n1\n")
    seen = [(row.place, row.data["how"], row.data["digest"]) for row in rows]
    assert [(place, how) for place, how, _ in seen] == [
        ("train.py:7", "print"), ("train.py:8", "print"), ("train.py:10", "print"), ("train.py:13", "logging"),
        ("train.py:13", "logging"),
    ]  # fmt: skip
    assert seen[0][2] == seen[1][2]
    # the time in it does not make it another line
    assert seen[3][2] == seen[4][2]


def test_only_the_first_lines_of_a_place_are_noted(tmp_path: Path) -> None:
    script = "for step in range(20):\n    event_log.step = step\n    for _ in range(50): print(step)\n"
    _, rows = played(tmp_path, script)
    assert [row.step for row in rows] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


WANDB = """
import os
def init(project=None, mode=None, group=None, config=None):
    print("mode", mode or os.environ.get("WANDB_MODE", "online"))
"""


def test_a_tracker_that_is_told_to_go_online_stays_offline(tmp_path: Path) -> None:
    script = """\
import wandb
wandb.init(project="a")
wandb.init(project="a", mode="online")
wandb.init(project="a", mode="disabled")
wandb.init(project="a", group="job", config=object())
"""
    output, rows = played(tmp_path, script, wandb=WANDB)
    assert output.split() == ["mode", "online", "mode", "offline", "mode", "disabled", "mode", "online"]
    started = [row for row in rows if row.kind == "trackers.start"]
    assert [(row.place, row.data["off"], row.data["several"]) for row in started] == [
        ("train.py:2", False, False), ("train.py:3", False, False), ("train.py:4", True, False),
        ("train.py:5", False, True),
    ]  # fmt: skip
    assert started[0].data["given"] != started[1].data["given"]
    assert trackers.offline_note(rows) == "offline: wandb.init"


def test_mlflow_is_led_to_a_folder_of_the_rehearsal(tmp_path: Path) -> None:
    script = """\
import os, mlflow
os.environ["MLFLOW_TRACKING_URI"] = "file:///private"
mlflow.set_tracking_uri("https://me:secret@tracking")
mlflow.set_tracking_uri("sqlite:///here.db")
mlflow.start_run()
"""
    fake = "def set_tracking_uri(uri): print(uri)\ndef start_run(): pass\n"
    output, rows = played(tmp_path, script, mlflow=fake)
    assert output.split() == ["file:///private", "sqlite:///here.db"]
    (line,) = trackers.notes(Rehearsal(PLAN, rows=tuple(rows)))
    assert line.startswith("train.py:3: mlflow.set_tracking_uri()")
    assert "secret" not in line


def test_a_tracker_without_an_offline_mode_is_told(tmp_path: Path) -> None:
    _, rows = played(tmp_path, "import comet_ml\ncomet_ml.Experiment()\n", comet_ml="class Experiment:\n    pass\n")
    assert trackers.notes(Rehearsal(PLAN, rows=tuple(rows))) == (
        "train.py:2: comet_ml.Experiment() has no offline mode: its run is a real one",
    )  # fmt: skip
    assert trackers.offline_note(rows) == ""


HUB = """
class RepoUrl(str): pass
class CommitInfo(str):
    def __new__(cls, *, commit_url, **others): return str.__new__(cls, commit_url)
class HfApi:
    def create_repo(self, repo_id, **others): raise SystemExit("gone up")
    def upload_folder(self, *, repo_id, folder_path): raise SystemExit("gone up")
    def hf_hub_download(self, repo_id): return "down"
api = HfApi()
create_repo = api.create_repo
"""


def test_nothing_goes_up_to_the_hub(tmp_path: Path) -> None:
    script = """\
from huggingface_hub.hf_api import HfApi, create_repo
print(create_repo("me/model"), HfApi().create_repo(repo_id="model"))
print(HfApi().upload_folder(repo_id="me/model", folder_path="."), HfApi().hf_hub_download("me/model"))
"""
    output, rows = played(tmp_path, script, huggingface_hub__hf_api=HUB)
    hub = "https://huggingface.co"
    assert output.split() == [f"{hub}/me/model", f"{hub}/rehearsal/model", f"{hub}/me/model/commit/0", "down"]
    assert trackers.notes(Rehearsal(PLAN, rows=tuple(rows))) == (
        "train.py:2: HfApi.create_repo() was not called: a rehearsal uploads nothing",
        "train.py:3: HfApi.upload_folder() was not called: a rehearsal uploads nothing",
    )


def test_an_unknown_version_of_a_tracker_does_not_harm_the_script(tmp_path: Path) -> None:
    output, rows = played(tmp_path, "import wandb, mlflow\nprint(wandb.x)\n", wandb="x = 1", mlflow="y = 1")
    assert output == "1\n"
    (failed,) = [row for row in rows if row.kind == "stage.hook_failed"]
    assert failed.data["hook"] == "trackers (mlflow)"


# variables


def test_the_ranks_are_offline() -> None:
    found = trackers.environment({"WANDB_MODE": "online", "TRACKIO_SPACE_ID": "me/space"}, "/private")
    assert found["WANDB_MODE"] == "offline"
    assert found["MLFLOW_TRACKING_URI"] == "file:///private/trackers/mlflow"
    assert found["TRACKIO_SPACE_ID"] == ""
    assert "TRACKIO_SERVER_URL" not in found


def test_who_has_switched_a_tracker_off_keeps_it_so() -> None:
    assert "WANDB_MODE" not in trackers.environment({"WANDB_MODE": "disabled"}, "/private")


def test_each_variable_says_where_it_was_read() -> None:
    assert [one.name for one in trackers.VARIABLES if not one.source] == []
    assert len({one.name for one in trackers.VARIABLES}) == len(trackers.VARIABLES)
