"""The runner of the recipes, on a checkout that is made here; and each recipe is valid."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from distcheck.rules import catalogue
from tests.real import recipe, run
from tests.real.__main__ import PARTS, main
from tests.real.recipe import FINISHED, HUNG, Judged, Loaded, Recipe

RECIPES = recipe.load()
MADE_UP = Recipe("made/up", "0" * 40, "train.py", "toy", arguments=("{data}/words",), ends=FINISHED, steps=2)
TRAIN = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
words = open(sys.argv[1]).read().split()
for number, _ in enumerate(words):
    optimizer.zero_grad()
    model(torch.randn(4, 2) + dist.get_rank()).sum().backward()
    optimizer.step()
open("words", "w").write(" ".join(words))
dist.destroy_process_group()
"""

LOST = "RuntimeError: Connection closed by peer [127.0.0.1]:62858."


def make_words(folder: Path) -> None:
    (folder / "words").write_text("one two")


@pytest.mark.torch
@pytest.mark.slow
def test_a_recipe_runs_in_a_copy_and_differences_are_shown(tmp_path: Path) -> None:
    script = tmp_path / "made+up" / "train.py"
    script.parent.mkdir()
    script.write_text(TRAIN)
    wrong = MADE_UP._replace(findings=(Judged("DC201", "train.py:7", True, "the rule that the runner misses"),))
    result = run.run(Loaded("made_up", wrong, make_words), tmp_path, 200, PARTS)
    for outcome in (result.rehearsal, result.plain, result.watched, result.same):
        assert outcome is not None
        assert outcome.status == 0, outcome.printed
    assert set(run.findings_of(result.rehearsal)) == {
        ("DC720", "train.py:15", message) for _, _, message in run.findings_of(result.rehearsal)
    }
    assert [line.partition(" at train.py")[0] for line in result.differences] == [
        "rehearse: not judged: DC720",
        "rehearse: not found: DC201",
    ]
    assert [path.name for path in script.parent.iterdir()] == ["train.py"]


def of(ends: list[dict[str, object]], ended: str = "ended", steps: int = 3) -> run.Outcome:
    ends = [{"how": "steps", "status": 0, "place": "train.py:9", "detail": "", **end} for end in ends]
    return run.Outcome(0, 1.0, "", {"subject": {"ends": ends, "ended": ended, "steps": steps}, "findings": []})


@pytest.mark.parametrize(
    ("rehearsal", "expected"),
    [
        (of([{}, {}]), ("steps", 3, "")),
        (of([{"how": "finished"}, {}]), ("steps", 3, "")),
        (of([{"how": "finished"}, {"how": "finished"}]), ("finished", 3, "")),
        (of([{}, {"how": "raised", "status": 1, "place": "a.py:3", "detail": "E: no"}]), ("a.py:3", 3, "E: no")),
        (
            of(
                [
                    {"how": "raised", "place": "a.py:9", "detail": LOST},
                    {"how": "raised", "place": "a.py:3", "detail": "E"},
                ]
            ),
            ("a.py:3", 3, "E"),
        ),
        (of([{"how": "finished", "status": 2, "place": ""}]), ("finished with status 2", 3, "")),
        (of([{}, {}], ended="stands", steps=0), (HUNG, 0, "")),
        (run.Outcome(None, 9.0, ""), ("no end in time", 0, "")),
        (run.Outcome(2, 9.0, "no such script"), ("no report", 0, "no such script")),
    ],
)
def test_where_a_rehearsal_ends(rehearsal: run.Outcome, expected: tuple[str, int, str]) -> None:
    assert run.ending_of(rehearsal) == expected


def test_what_differs_from_the_recipe() -> None:
    stated = MADE_UP._replace(ends="steps", steps=3)
    assert run.differences_of(stated, of([{}]), None, None) == ()
    assert run.differences_of(stated, of([{}], steps=2), None, None) != ()
    assert run.differences_of(stated, of([{"how": "finished"}]), None, None) == ()
    assert run.differences_of(MADE_UP, of([{}]), None, None) != ()
    plain = run.Outcome(1, 1.0, "no GPU")
    assert run.differences_of(stated, None, plain, None) == ("plain: status 1: no GPU",)
    assert run.differences_of(stated._replace(ends="train.py:9"), None, plain, plain) == ()
    assert run.differences_of(stated, None, plain._replace(status=0), plain) == ("watch: status 1, without it 0",)


def test_launch_lines() -> None:
    rehearsal = run.command_of("rehearse", MADE_UP)
    assert rehearsal[rehearsal.index("--") :] == ["--", "torchrun", "train.py", "{data}/words"]
    assert "--nproc-per-node=2" in rehearsal
    same = run.command_of("same", MADE_UP._replace(cpu_arguments=("--cpu",)))
    assert same[same.index("--") :] == ["--", "torchrun", "train.py", "--cpu"]
    assert {"--nnodes=1", "--nproc-per-node=2", "--steps=0"} <= set(same)
    spawns = MADE_UP._replace(launcher=())
    rehearsal = run.command_of("rehearse", spawns)
    assert rehearsal[rehearsal.index("--") :] == ["--", "train.py", "{data}/words"]
    assert "--gpus-per-node=2" in rehearsal
    assert run.command_of("plain", spawns) == [sys.executable, "train.py", "{data}/words"]
    watched = run.command_of("watch", MADE_UP._replace(cpu_arguments=("--cpu",)))
    assert watched[:3] == [sys.executable, "-m", "torch.distributed.run"]
    assert watched[-2:] == ["train.py", "--cpu"]
    assert "distcheck.watch" in watched


def test_the_table_counts() -> None:
    judged = (Judged("DC720", "train.py:1", True, "so it is"), Judged("DC201", "train.py:2", False, "no"))
    results = [
        run.Result("one", MADE_UP._replace(findings=judged), run.Outcome(0, 12.3, ""), None, None, ()),
        run.Result(
            "fast", MADE_UP, None, run.Outcome(0, 9.0, "", cpu_s=10.0), None, (), run.Outcome(0, 9.0, "", cpu_s=12.0)
        ),
        run.Result("two", MADE_UP._replace(folder="src", limit="a kernel"), None, None, None, ()),
        run.Result("three", MADE_UP._replace(folder="src", script="-m made.up", ends="a.py:9"), None, None, None, ()),
    ]
    assert run.table(results).splitlines()[2:] == [
        "| [made/up](https://github.com/made/up) `train.py` | yes | DC720 | DC201 | – | – | 12 s | – |",
        "| [made/up](https://github.com/made/up) `train.py` | yes | – | – | 9 s | – | – | 1.20 × 10 s |",
        "| [made/up](https://github.com/made/up) `src/train.py` | no: a kernel | – | – | – | – | – | – |",
        "| [made/up](https://github.com/made/up) `-m made.up` | yes, it fails: a.py:9 | – | – | – | – | – | – |",
        "",
        "4 scripts of 1 repositories; 3 get as far as with GPUs, 1 of them fail there or hang. "
        "2 findings: 1 true, 1 false. 4 scripts also run on CPUs.",
    ]


def test_without_checkouts_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert len(capsys.readouterr().err.splitlines()) == len(RECIPES)
    with pytest.raises(SystemExit):
        main([str(tmp_path), "no-such-recipe"])


@pytest.mark.parametrize("loaded", RECIPES, ids=lambda one: one.name)
def test_recipes_are_valid(loaded: Loaded, tmp_path: Path) -> None:
    one = loaded.recipe
    assert len(one.commit) == 40
    assert one.repository.count("/") == 1
    codes = {rule.code for rule in catalogue.ALL}
    for judged in one.findings:
        assert judged.code in codes
        assert judged.why
        assert not judged.why.endswith(".")
    assert json.dumps(one)


def test_recipes_are_of_many_repositories() -> None:
    assert max(Counter(one.recipe.repository for one in RECIPES).values()) <= 3
    scripts = Counter((one.recipe.repository, one.recipe.script, one.recipe.arguments) for one in RECIPES)
    assert max(scripts.values()) == 1
