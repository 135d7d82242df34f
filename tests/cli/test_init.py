"""``distcheck init``: what it writes, what it leaves alone, and that a second run has nothing to do."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from distcheck.cli import installation, scaffold
from distcheck.cli.installation import Installation
from distcheck.cli.main import group
from distcheck.cli.scaffold import Proposal, ProposedFile, propose
from distcheck.core.configuration import load
from distcheck.core.world import World

from .test_ci import BAD, environment

BASELINE = b'{"distcheck_baseline": 1, "findings": {}}\n'
REQUIREMENT = Installation("distcheck==1.0")
#: Variables of a process whose distcheck is from an index.
INDEX: dict[str, str] = {}


@pytest.fixture(autouse=True)
def from_an_index(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """These tests run in a checkout, which CI can't reach; ``tests/cli/test_installation.py`` has all kinds."""
    monkeypatch.setattr(installation, "find", lambda repository, version: REQUIREMENT)
    site = tmp_path_factory.mktemp("site")
    (site / "distcheck.dist-info").mkdir()
    (site / "distcheck.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: distcheck\nVersion: 1.0\n")
    (site / "distcheck").symlink_to(Path(installation.__file__).parents[1])
    monkeypatch.setitem(INDEX, "PYTHONPATH", str(site))


def init(folder: Path, *words: str) -> tuple[int, str]:
    """A call without a terminal; the repository is not linted, which takes time."""
    return call(str(folder), "--no-baseline", *words)


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, ["init", *words], standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        return result.exception.exit_code, result.output + result.exception.format_message()
    assert result.exception is None, result.exception
    return result.return_value, result.output


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git/" not in f"{path.relative_to(folder)}/"
    }


def write(proposal: Proposal, folder: Path) -> None:
    for change in proposal.changes:
        path = folder / change.path
        assert (path.read_bytes() if path.exists() else None) == change.old
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change.new)


def the_change(proposal: Proposal, path: str) -> ProposedFile:
    (found,) = (change for change in proposal.changes if change.path == path)
    return found


# the command


def test_without_a_terminal_it_shows_and_writes_nothing(tmp_path: Path) -> None:
    status, text = init(tmp_path, "--github")
    assert status == 1
    assert "+[tool.distcheck]" in text and "+jobs:" in text
    assert "nothing was written: there is no terminal for a question; --yes writes without one" in text
    assert contents(tmp_path) == {}


def test_it_writes_what_it_showed_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    status, _ = init(tmp_path, "--github", "--gitlab", "--pre-commit", "--yes")
    assert status == 0
    first = contents(tmp_path)
    assert sorted(first) == [
        ".github/workflows/distcheck.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml", "pyproject.toml",
    ]  # fmt: skip
    status, text = init(tmp_path, "--github", "--gitlab", "--pre-commit", "--yes")
    assert (status, contents(tmp_path)) == (0, first)
    assert text.count("already there: ") == 4 and "nothing to do" in text


def test_a_broken_file_stays_and_nothing_else_is_written(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.distcheck\n")
    before = contents(tmp_path)
    status, text = init(tmp_path, "--github", "--yes")
    assert status == 2
    assert "pyproject.toml can't be read, and is not changed" in text and "Traceback" not in text
    assert contents(tmp_path) == before


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file, where a folder belongs")
    status, text = init(tmp_path, "--github", "--yes")
    assert status == 2
    assert ".github/workflows/distcheck.yml can't be written" in text


def test_there_must_be_such_a_folder(tmp_path: Path) -> None:
    status, text = init(tmp_path / "nowhere")
    assert status == 2 and "there is no such folder" in text


def test_the_repository_is_found_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "src" / "deep")
    assert call("--no-baseline", "--yes", "--github")[0] == 0
    assert (tmp_path / ".github" / "workflows" / "distcheck.yml").exists()


def on_a_terminal(words: Sequence[str], cwd: Path, answers: str) -> tuple[int, str]:
    """A call with a terminal on which somebody types."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "distcheck", "init", *words],
        stdin=theirs, stdout=theirs, stderr=subprocess.STDOUT, cwd=cwd, env=environment(TERM="dumb", **INDEX),
    )  # fmt: skip
    os.close(theirs)
    text = b""
    try:
        os.write(ours, answers.encode())
        until = time.monotonic() + 40
        # a terminal whose other side has gone away is an error to read from
        with contextlib.suppress(OSError):
            while time.monotonic() < until and (piece := os.read(ours, 4096)):
                text += piece
        return process.wait(20), text.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1)])
def test_on_a_terminal_it_asks(tmp_path: Path, answer: str, status: int) -> None:
    ended, text = on_a_terminal(["--github", "--no-baseline"], tmp_path, f"{answer}\n")
    assert ended == status, text
    assert "Write these 2 files?" in text
    assert (tmp_path / "pyproject.toml").exists() is (answer == "y")


def test_on_a_terminal_it_offers_a_baseline(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BAD)
    ended, text = on_a_terminal(["--github"], tmp_path, "y\ny\n")
    assert ended == 0, text
    assert "lint reports 1 finding. Accept them in a baseline" in text
    assert json.loads((tmp_path / scaffold.BASELINE).read_text())["findings"] == {"DC709:train.py": 1}


# a baseline


def test_a_baseline_takes_what_is_there_and_ci_then_is_content(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BAD)
    status, text = call(str(tmp_path), "--pre-commit")
    assert status == 1 and "lint reports 1 finding: --baseline accepts what exists" in text
    assert sorted(contents(tmp_path)) == ["train.py"], "a look leaves nothing"
    assert call(str(tmp_path), "--pre-commit", "--baseline", "--yes")[0] == 0
    assert json.loads((tmp_path / scaffold.BASELINE).read_text())["findings"] == {"DC709:train.py": 1}
    assert load(World(), str(tmp_path / "pyproject.toml")).word("baseline") == scaffold.BASELINE
    status, text = call(str(tmp_path), "--pre-commit", "--yes")
    assert status == 0 and "nothing to do" in text
    checked = subprocess.run(
        [sys.executable, "-m", "distcheck", "ci", "--parts", "lint"],
        cwd=tmp_path, env=environment(**INDEX), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    assert "1 known to the baseline" in " ".join(checked.stdout.split())


def test_a_section_that_is_there_gets_the_baseline_and_keeps_the_rest(tmp_path: Path) -> None:
    before = '[tool.distcheck] # ours\nignore = ["DC744"]  # why\n\n[tool.distcheck.per-file-ignores]\n"a" = ["DC7"]\n'
    (tmp_path / "pyproject.toml").write_text(before)
    change = the_change(propose(str(tmp_path), (), installation=REQUIREMENT, baseline=BASELINE), "pyproject.toml")
    line = f'baseline = "{scaffold.BASELINE}"\n'
    assert change.new.decode() == before.replace("# ours\n", f"# ours\n{line}")


# the configuration


@pytest.mark.parametrize(
    ("name", "before", "added"),
    [
        ("pyproject.toml", b"[project]\nname = 'x'\n", b"\n#"),
        ("pyproject.toml", b"[project]\nname = 'x'", b"\n\n#"),
        ("pyproject.toml", b"[project]\r\nname = 'x'\r\n", b"\r\n#"),
        ("pyproject.toml", b"\xef\xbb\xbf[project]\nname = '\xc3\xbc'\n", b"\n#"),
        ("pyproject.toml", b"", b"#"),
        ("pyproject.toml", b"tool.black.line-length = 100\n[[tool.x.y]]\na = [\n  1,\n]\n", b"\n#"),
        ("setup.cfg", b"[metadata]\nname = x\n\n[options]\npackages =\n    a\n", b"\n#"),
        ("tox.ini", b"[tox]\nenvlist = py3\n# a comment at the end", b"\n\n#"),
    ],
)
def test_a_file_is_only_added_to(tmp_path: Path, name: str, before: bytes, added: bytes) -> None:
    (tmp_path / name).write_bytes(before)
    (tmp_path / "third_party").mkdir()
    proposal = propose(str(tmp_path), (), installation=REQUIREMENT, baseline=BASELINE)
    change = the_change(proposal, name)
    assert change.new.startswith(before + added)
    end = b"\r\n" if b"\r\n" in before else b"\n"
    assert change.new.endswith(end) and change.new.count(b"\n") == change.new.count(end)
    write(proposal, tmp_path)
    configuration = load(World(), str(tmp_path / name))
    assert configuration.word("fail-on") == "error"
    assert configuration.values("extend-exclude") == ("third_party",)
    assert configuration.word("baseline") == scaffold.BASELINE


def test_what_the_settings_would_break_is_left_to_do_by_hand(tmp_path: Path) -> None:
    before = b"tool = {black = {line-length = 100}}\n"
    (tmp_path / "pyproject.toml").write_bytes(before)
    proposal = propose(str(tmp_path), (), installation=REQUIREMENT)
    assert proposal.changes == ()
    assert proposal.notes[0].startswith("add this to pyproject.toml:\n")
    status, text = init(tmp_path, "--yes")
    assert status == 1 and "to do by hand: add this to pyproject.toml" in text
    assert (tmp_path / "pyproject.toml").read_bytes() == before


def test_a_project_that_pip_builds_without_pyproject_gets_none(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("")
    assert [change.path for change in propose(str(tmp_path), (), installation=REQUIREMENT).changes] == ["setup.cfg"]


def test_submodules_are_the_code_of_others(tmp_path: Path) -> None:
    (tmp_path / ".gitmodules").write_text(
        '[submodule "a"]\n\tpath = libs/a\n\turl = x\n[submodule "b"]\n path = vendor/b\n'
        # a pattern, or a second setting
        '[submodule "c"]\n path = *\n[submodule "d"]\n path = .\n[submodule "e"]\n path = x\rbaseline = y\n'
    )
    (tmp_path / "vendor").mkdir()
    change = the_change(propose(str(tmp_path), (), installation=REQUIREMENT), "pyproject.toml")
    assert b'extend-exclude = ["vendor", "libs/a"]' in change.new


# which systems


def test_what_is_there_shows_the_system(tmp_path: Path) -> None:
    assert scaffold.detected(str(tmp_path)) == {}
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = git@GitHub.com:x/y.git\n')
    assert list(scaffold.detected(str(tmp_path))) == ["github"]
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = https://gitlab.example.org/x/y.git\n')
    assert list(scaffold.detected(str(tmp_path))) == ["gitlab"]
    (tmp_path / ".github").mkdir()
    (tmp_path / ".pre-commit-config.yml").write_text("repos: []\n")
    assert list(scaffold.detected(str(tmp_path))) == ["github", "gitlab", "pre-commit"]
    assert "no CI system is detected" in init(tmp_path / ".github")[1]


# GitHub


def test_a_workflow_that_runs_distcheck_is_enough(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "tests.yaml").write_text("jobs: {a: {steps: [{run: distcheck lint}]}}\n")
    proposal = propose(str(tmp_path), ("github",), installation=REQUIREMENT)
    assert ".github/workflows/tests.yaml runs distcheck" in proposal.settled
    assert [change.path for change in proposal.changes] == ["pyproject.toml"]


def test_what_is_no_file_is_no_workflow(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    (folder / "old.yml").mkdir(parents=True)
    (folder / "gone.yaml").symlink_to("nowhere")
    proposal = propose(str(tmp_path), ("github",), installation=REQUIREMENT)
    assert the_change(proposal, scaffold.GITHUB_FILE).old is None


def test_a_workflow_of_that_name_that_does_something_else_stays(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "distcheck.yml").write_text("name: something else\n")
    proposal = propose(str(tmp_path), ("github",), installation=REQUIREMENT)
    assert [change.path for change in proposal.changes] == ["pyproject.toml"]
    assert "is not changed" in proposal.notes[0]


# GitLab


@pytest.mark.parametrize(
    ("before", "stage"),
    [
        (b"build:\n  script: [make]\n", None),
        (b"stages: [build, test]\nbuild:\n  stage: build\n  script: [make]", None),
        (b"stages:\n  - build\n  - ship\nbuild:\n  stage: build\n  script:\n    - !reference [.a, script]\n", "build"),
        (b"spec:\n  inputs: {}\n---\nbuild:\r\n  script: [make]\r\n", None),
        # a name must not become a command
        (b'stages: ["x\\n  before_script: [a]", b]\n', "x\n  before_script: [a]"),
        (b"stages: [[build], 7, ~, no, 'a: b']\n", "a: b"),
        (b"stages: [{a: b}, 7]\n", None),
    ],
)
def test_a_pipeline_gets_an_include_and_a_job_in_a_stage_that_it_has(
    tmp_path: Path, before: bytes, stage: str | None
) -> None:
    (tmp_path / ".gitlab-ci.yml").write_bytes(before)
    proposal = propose(str(tmp_path), ("gitlab",), installation=REQUIREMENT)
    change = the_change(proposal, ".gitlab-ci.yml")
    assert change.new.startswith(before)
    assert b"include:" in change.new[len(before) :]
    job = yaml.safe_load(the_change(proposal, ".gitlab/distcheck.yml").new)["distcheck"]
    assert job.get("stage") == stage
    write(proposal, tmp_path)
    assert propose(str(tmp_path), ("gitlab",), installation=REQUIREMENT).changes == ()


def test_an_include_that_is_there_is_left_to_its_author(tmp_path: Path) -> None:
    (tmp_path / ".gitlab-ci.yml").write_bytes(b"include:\n  - local: a.yml\n")
    proposal = propose(str(tmp_path), ("gitlab",), installation=REQUIREMENT)
    assert ".gitlab-ci.yml" not in {change.path for change in proposal.changes}
    assert "- local: .gitlab/distcheck.yml" in proposal.notes[0]


@pytest.mark.parametrize("system", ["gitlab", "pre-commit"])
@pytest.mark.parametrize("bomb", ["aliases", "merges", "circle"])
def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path: Path, system: str, bomb: str) -> None:
    lines = {
        "aliases": ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 15)],
        "merges": ["a0: &a0 {x: y}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 15)],
        "circle": ["a: &a [*a]"],
    }[bomb]
    name = {"gitlab": ".gitlab-ci.yml", "pre-commit": ".pre-commit-config.yaml"}[system]
    (tmp_path / name).write_text("\n".join([*lines, "repos:", "- repo: local", "  hooks: []", ""]))
    with pytest.raises(scaffold.Unreadable, match="its aliases stand for too many values"):
        propose(str(tmp_path), (system,), installation=REQUIREMENT)


def test_a_pipeline_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gitlab-ci.yml").write_bytes(b"a: [\n")
    with pytest.raises(scaffold.Unreadable, match=r"\.gitlab-ci\.yml can't be read"):
        propose(str(tmp_path), ("gitlab",), installation=REQUIREMENT)


# pre-commit

OTHER = "repos:\n{0}- repo: https://github.com/x/y\n{0}  rev: v1  # pinned\n{0}  hooks:\n{0}    - id: z\n"


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (OTHER.format("  "), ""),
        (OTHER.format(""), ""),
        (OTHER.format("    "), ""),
        ("repos:\n-   repo: https://github.com/x/y\n    rev: v1\n    hooks:\n    -   id: z\n", "\n\n"),
        ("repos:\n- repo: local\n  hooks:\n  - id: z\n    entry: |\n      bash -c '\n\n      true'\n", "\n\n"),
        ("# mine\ndefault_stages: [pre-commit]\n" + OTHER.format("  "), "\n# about ci\nci:\n  autofix_prs: false\n"),
        (OTHER.format("  "), "  # - repo: switched off\n"),
        (OTHER.format("  ").rstrip("\n"), ""),
        (OTHER.format("  ").replace("\n", "\r\n"), "exclude: ^a/\r\n"),
        (
            "repos:\n  - repo: local\n    hooks:\n      - id: ü\n        entry: |\n          a\n          b\n",
            "\nfail_fast: true\n",
        ),
    ],
)
def test_a_hook_becomes_the_last_of_the_list(tmp_path: Path, before: str, behind: str) -> None:
    path = tmp_path / ".pre-commit-config.yaml"
    path.write_bytes((before + behind).encode())
    proposal = propose(str(tmp_path), ("pre-commit",), installation=REQUIREMENT)
    change = the_change(proposal, path.name)
    assert change.new.startswith(before.encode()) and change.new.endswith(behind.encode())
    old, new = yaml.safe_load(before + behind), yaml.safe_load(change.new)
    assert new.pop("repos")[:-1] == old.pop("repos") and new == old
    write(proposal, tmp_path)
    assert propose(str(tmp_path), ("pre-commit",), installation=REQUIREMENT).changes == ()


@pytest.mark.parametrize(
    "before", ["repos: []\n", "repos: [{repo: meta, hooks: [{id: identity}]}]\n", "fail_fast: true\n"]
)
def test_a_list_in_brackets_is_left_to_its_author(tmp_path: Path, before: str) -> None:
    (tmp_path / ".pre-commit-config.yaml").write_text(before)
    proposal = propose(str(tmp_path), ("pre-commit",), installation=REQUIREMENT)
    assert [change.path for change in proposal.changes] == ["pyproject.toml"]
    assert "id: distcheck-lint" in proposal.notes[0]


def test_what_is_shown_of_a_file_holds_no_credential(tmp_path: Path) -> None:
    token = "ghp_" + "aB3" * 12
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\n# {token}\n")
    _, text = init(tmp_path, "--github")
    assert "pyproject.toml" in text and "***" in text and token not in text
    init(tmp_path, "--github", "--yes")
    assert token in (tmp_path / "pyproject.toml").read_text()
