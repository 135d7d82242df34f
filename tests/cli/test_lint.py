"""``distcheck lint`` as a user calls it: what is found, shown, silenced, fixed, and said of what can't be read."""

from __future__ import annotations

import json
import marshal
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from distcheck._version import __version__
from distcheck.checks.source import engine
from distcheck.checks.source.cache import Cache
from distcheck.checks.source.extract import extract
from distcheck.checks.source.summary import ENGINE_VERSION, pack

from .test_cli import SCHEMA, distcheck, environment, report_of

#: A warning and an error: the global rank as a device in a script for several nodes, and a variable compared with a
#: number.
TRAIN = """\
# Started by torchrun.

import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    if os.environ["RANK"] == 0:  # the first
        print("first of", os.environ.get("NNODES"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
RANK, DEVICE, COMPARED = 10, 12, 14
#: Nothing is wrong with it; rank modulo device count is worth an info.
MODULO = """\
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
GOOD = TRAIN.replace("set_device(rank)", "set_device(local_rank)").replace('os.environ["RANK"] == 0', "rank == 0")


def project(folder: Path, **texts: str) -> Path:
    """A folder with files; ``sub__x`` is sub/x.py."""
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def lint(folder: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    result = distcheck("lint", *arguments, cwd=folder, **extra)
    assert "Traceback" not in result.stderr, result.stderr
    return result


def places(folder: Path, *arguments: str) -> list[tuple[str, int, str]]:
    """(path, line, code) of the findings that a text shows."""
    shown = re.compile(r"(.+?):(\d+):(?:\d+:)? (DC\d+) ")
    found = (shown.match(line) for line in lint(folder, "--output-format", "concise", *arguments).stdout.splitlines())
    return sorted((match[1], int(match[2]), match[3]) for match in found if match)


# what is shown


def test_full_shows_the_line_with_a_caret_the_help_and_the_flow(tmp_path: Path) -> None:
    result = lint(project(tmp_path, train=TRAIN))
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "distcheck lint · 1 file"
    (head,) = [line for line in lines if line.startswith("warning DC201 global-rank-as-device  (train.py:")]
    column = int(head.removesuffix(")").rsplit(":", 1)[1])
    shown = lines.index(f"  {DEVICE} |     torch.cuda.set_device(rank)")
    assert shown > lines.index(head)
    assert lines[shown + 1].startswith("     | " + " " * (column - 1) + "^^^^")
    (help_line,) = [line for line in lines[shown:] if line.startswith("  help:") and "local_rank" in line]
    assert not any(line.startswith("  flow:") for line in lines), "the only step repeats the message"
    assert lines[-1].startswith("1 error, 1 warning, 0 info, 0 not checked · ")
    assert help_line


def test_full_shows_a_flow_of_several_steps(tmp_path: Path) -> None:
    train = (
        "import os\nimport torch\n\n\ndef main(mine):\n    torch.cuda.set_device(mine)\n\n\n"
        "main(int(os.environ['RANK']))\nprint(os.environ['NNODES'])\n"
    )
    lines = lint(project(tmp_path, train=train)).stdout.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("  flow: train.py:9: the global rank"))
    assert lines[first + 1].startswith("        train.py:9: passed as mine to main()")


def test_concise_is_sorted_by_path_and_line(tmp_path: Path) -> None:
    result = lint(project(tmp_path, train=TRAIN, a__b=TRAIN, good=GOOD), "--output-format", "concise")
    heads = [re.sub(r":\d+: ", " ", line, count=1).split(" ")[:2] for line in result.stdout.splitlines()]
    assert heads == [
        [f"a/b.py:{DEVICE}", "DC201"],
        [f"a/b.py:{COMPARED}", "DC209"],
        [f"train.py:{DEVICE}", "DC201"],
        [f"train.py:{COMPARED}", "DC209"],
    ]
    assert f"train.py:{COMPARED}:8: DC209 " in result.stdout


def test_json_carries_source_flow_and_edits(tmp_path: Path) -> None:
    plain = report_of("lint", cwd=project(tmp_path, train=TRAIN))
    device, compared = sorted(plain["findings"], key=lambda item: str(item["code"]))
    assert device["evidence"]["source"] == "    torch.cuda.set_device(rank)"
    assert any(f"train.py:{RANK}" in step for step in device["evidence"]["flow"])
    assert device["key"] == "DC201:train.py:main"
    assert compared["fix"]["safe"]
    assert compared["fix"]["edits"][0]["path"] == "train.py"
    assert plain["subject"]["files"] == 1
    assert "facts" not in plain


def test_github_annotates_lines(tmp_path: Path) -> None:
    result = lint(project(tmp_path, train=TRAIN), "--output-format", "github")
    assert f"::error file=train.py,line={COMPARED},col=8,endLine={COMPARED},endColumn=31,title=DC209" in result.stdout


@pytest.mark.parametrize("output_format", ["json-lines", "html"])
def test_the_other_formats_take_it(tmp_path: Path, output_format: str) -> None:
    result = lint(project(tmp_path, train=TRAIN), "--output-format", output_format)
    assert result.returncode == 1
    assert "DC201" in result.stdout


def test_quiet_is_one_line(tmp_path: Path) -> None:
    for arguments in (("-q",), ("-q", "--output-format", "concise")):
        result = lint(project(tmp_path, train=TRAIN), *arguments)
        assert result.stdout.startswith("1 error, 1 warning")
        assert len(result.stdout.splitlines()) == 1
        assert result.stderr == ""


def test_statistics_count(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN, b=TRAIN)
    result = lint(folder, "--statistics")
    assert [line.split()[:3] for line in result.stdout.splitlines()] == [
        ["2", "DC201", "warning"],
        ["2", "DC209", "error"],
    ]
    assert result.returncode == 1
    rows = json.loads(lint(folder, "--statistics", "--output-format", "json").stdout)
    assert [(row["code"], row["count"], row["fixable"]) for row in rows] == [("DC201", 2, 0), ("DC209", 2, 2)]


def test_good_code_gives_nothing(tmp_path: Path) -> None:
    result = lint(project(tmp_path, good=GOOD, other="x = 1\n"))
    assert result.returncode == 0
    assert result.stdout.startswith("distcheck lint · 2 files\n\n0 errors, 0 warnings")


def test_info_is_shown_when_it_is_asked_for(tmp_path: Path) -> None:
    folder = project(tmp_path, train=MODULO)
    quiet = lint(folder)
    assert "DC212" not in quiet.stdout
    assert "0 warnings, 1 info hidden (-v shows them)" in quiet.stdout
    # JSON holds all findings, whatever a text shows
    plain = report_of("lint", cwd=folder)
    assert [item["code"] for item in plain["findings"]] == ["DC212"]
    assert plain["summary"]["info"] == 1
    for arguments in (
        ("--select", "DC212"),
        ("--extend-select", "rank-modulo-device-count"),
        ("-v",),
        ("--fail-on", "info"),
    ):
        result = lint(folder, *arguments)
        assert "info DC212 rank-modulo-device-count  (train.py:7:" in result.stdout
        assert result.returncode == (1 if "--fail-on" in arguments else 0)


def test_selection(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN)
    assert places(folder, "--select", "DC209") == [("train.py", COMPARED, "DC209")]
    assert places(folder, "--ignore", "global-rank-as-device") == [("train.py", COMPARED, "DC209")]
    result = lint(folder, "--select", "DC201", "--ignore", "DC201")
    assert result.returncode == 2
    assert "leaves no rule" in result.stderr
    assert lint(folder, "--select", "DC309").returncode == 2
    unknown = lint(folder, "--select", "globalrank-as-device")
    assert unknown.returncode == 2
    assert "did you mean DC201" in unknown.stderr


def test_preview_adds_what_is_off_by_default(tmp_path: Path) -> None:
    folder = project(tmp_path, train=GOOD)
    assert "DC220" not in [code for _, _, code in places(folder, "-v")]
    assert "DC220" in [code for _, _, code in places(folder, "--preview", "-v")]
    assert "DC220" not in [code for _, _, code in places(folder, "--preview", "--ignore", "DC220", "-v")]
    assert "DC220" not in [code for _, _, code in places(folder, "--preview", "--ignore", "DC22", "-v")]
    # what is selected stays selected, and nothing else is added
    assert "DC220" in [code for _, _, code in places(folder, "--preview", "--select", "DC2", "-v")]
    assert places(folder, "--preview", "--select", "DC701", "-v") == []


# silencing


def test_comments_silence_and_unused_ones_are_told(tmp_path: Path) -> None:
    text = TRAIN.replace("set_device(rank)", "set_device(rank)  # noqa: DC201 one host only")
    text = text.replace("# the first", "# distcheck: ignore[env-compared-with-int, DC720]")
    folder = project(tmp_path, train=text)
    result = lint(folder)
    assert result.returncode == 0
    assert "2 silenced in the code" in result.stdout
    assert places(folder, "--extend-select", "DC905") == [("train.py", COMPARED, "DC905")]


def test_a_whole_file_is_silenced(tmp_path: Path) -> None:
    folder = project(tmp_path, train="# distcheck: ignore-file[DC201, DC209]\n" + TRAIN, other=TRAIN)
    assert {path for path, _, _ in places(folder)} == {"other.py"}


def test_a_misspelt_suppression_is_said(tmp_path: Path) -> None:
    result = lint(project(tmp_path, train=TRAIN.replace("# the first", "# noqa: DC2O9")))
    assert f"train.py:{COMPARED}: " in result.stderr
    assert "DC2O9" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--per-file-ignores", "old/*:DC201,DC209"),
        ("--per-file-ignores", "train.py:DC2"),
        ("--per-file-ignores", "!good/**:ALL"),
        ("--extend-exclude", "old"),
        ("--exclude", "old,other"),
    ],
)
def test_some_files_are_silent(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    folder = project(tmp_path, old__train=TRAIN, good__main=TRAIN)
    assert {path for path, _, _ in places(folder)} == {"old/train.py", "good/main.py"}
    assert {path for path, _, _ in places(folder, *arguments)} == {"good/main.py"}


def test_the_configuration_says_the_same(tmp_path: Path) -> None:
    folder = project(tmp_path, old__train=TRAIN, gen__main=TRAIN, new=TRAIN, modulo=MODULO)
    (folder / "pyproject.toml").write_text(
        '[tool.distcheck]\nextend-exclude = ["gen"]\nper-file-ignores = { "old/*" = ["DC201", "env-compared-with-int"] }\n'
        'extend-select = ["DC212"]\n'
    )
    expected = [("modulo.py", 7, "DC212"), ("new.py", DEVICE, "DC201"), ("new.py", COMPARED, "DC209")]
    assert places(folder) == expected
    # patterns are relative to the file that holds them
    (folder / "sub").mkdir()
    assert [(path.removeprefix("../"), line, code) for path, line, code in places(folder / "sub", "..")] == expected
    assert len(places(folder, "--isolated")) == 6
    (folder / "pyproject.toml").unlink()
    (folder / "setup.cfg").write_text(
        "[distcheck]\nextend-exclude = gen\nper-file-ignores =\n    old/*: DC201, DC209\n    nothing.py: DC7\nextend-select = DC212\n"
    )
    assert places(folder) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("per-file-ignore = {}", "did you mean 'per-file-ignores'"),
        ("per-file-ignores = 3", "expected a table"),
        ("per-file-ignores = {'a' = 3}", "expected a list of rules"),
        ("per-file-ignores = 'DC201'", "has no pattern"),
        ("per-file-ignores = {'a' = ['DC2O1']}", "no rule is called 'DC2O1'"),
        ("preview = 'perhaps'", "expected true or false"),
        ("exclude = 3", "expected a text or a list"),
        ("baseline = 'gone.json'", "there is no such file"),
    ],
)
def test_a_wrong_configuration_is_one_clear_line(tmp_path: Path, text: str, words: str) -> None:
    (project(tmp_path, train=GOOD) / "pyproject.toml").write_text(f"[tool.distcheck]\n{text}\n")
    result = lint(tmp_path)
    assert result.returncode == 2
    assert words in result.stderr


@pytest.mark.parametrize("name", ["baseline", "node-facts"])
@pytest.mark.parametrize("value", ["pipe", "/dev/zero"])
def test_a_configuration_that_names_no_ordinary_file_is_one_clear_line(tmp_path: Path, name: str, value: str) -> None:
    folder = project(tmp_path, train=GOOD)
    os.mkfifo(folder / "pipe")
    (folder / "pyproject.toml").write_text(f"[tool.distcheck]\n{name} = '{value}'\n")
    result = lint(folder)
    assert result.returncode == 2
    assert f"{name} " in result.stderr and "it is no ordinary file" in result.stderr


def test_an_ignore_file_of_git_is_respected(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN, gen__main=TRAIN)
    (folder / ".gitignore").write_text("gen/\n")
    assert {path for path, _, _ in places(folder)} == {"train.py"}
    assert len(places(folder, "--no-respect-gitignore")) == 4
    assert len(places(folder, "gen/main.py")) == 2
    (folder / "pyproject.toml").write_text("[tool.distcheck]\nrespect-gitignore = false\n")
    assert len(places(folder)) == 4


# baselines


def test_a_baseline_knows_what_was_there_wherever_it_moves(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN)
    written = lint(folder, "--write-baseline", "known.json")
    assert (written.returncode, written.stdout) == (0, "")
    assert "2 findings" in written.stderr
    assert lint(folder, "--baseline", "known.json").returncode == 0
    (folder / "train.py").write_text("# moved\n\n" + TRAIN)
    result = lint(folder, "--baseline", "known.json")
    assert result.returncode == 0
    assert "2 known to the baseline" in result.stdout
    project(folder, sub__other=TRAIN)
    assert [item[0] for item in places(folder, "--baseline", "known.json")] == ["sub/other.py"] * 2
    assert [item[0] for item in places(folder / "sub", "..", "--baseline", "../known.json")] == ["../sub/other.py"] * 2


def test_a_second_finding_like_a_known_one_is_new(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN)
    lint(folder, "--write-baseline", "known.json")
    (folder / "train.py").write_text(
        TRAIN.replace("    dist.barrier()\n", "    torch.cuda.set_device(rank)\n    dist.barrier()\n")
    )
    assert places(folder, "--baseline", "known.json") == [("train.py", COMPARED + 2, "DC201")]


def test_what_is_gone_from_the_baseline_is_said(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN, other=TRAIN)
    lint(folder, "--write-baseline", "known.json")
    (folder / "train.py").write_text(GOOD)
    assert "2 findings of the baseline no longer occur" in lint(folder, "--baseline", "known.json").stderr
    assert "gone" not in lint(folder, "other.py", "--baseline", "known.json").stderr
    (folder / "train.py").write_text("def f(:\n    rank = get_rank()\n")
    assert "gone" not in lint(folder, "--baseline", "known.json").stderr


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"distcheck_baseline": 9}', '{"distcheck_baseline": 1, "findings": {"a": 0}}']
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    (project(tmp_path, train=TRAIN) / "known.json").write_text(text)
    result = lint(tmp_path, "--baseline", "known.json")
    assert result.returncode == 2
    assert "known.json" in result.stderr


# fixing


def test_fix_fixes_what_is_safe_and_keeps_the_rest_as_it_was(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN, good=GOOD)
    path = folder / "train.py"
    path.write_bytes(TRAIN.replace("\n", "\r\n").encode())
    path.chmod(0o750)
    before = (folder / "good.py").stat().st_mtime_ns
    diff = lint(folder, "--diff")
    assert diff.returncode == 1
    assert '-    if os.environ["RANK"] == 0:  # the first\r\n' in diff.stdout.replace("\r\n", "\n").replace(
        "\n", "\r\n"
    )
    assert path.read_bytes() == TRAIN.replace("\n", "\r\n").encode()
    result = lint(folder, "--fix", "--fail-on", "warning")
    assert result.returncode == 1
    assert "fixed 1 finding in 1 file" in result.stderr
    assert "DC209" not in result.stdout
    assert "DC201" in result.stdout
    fixed = TRAIN.replace('os.environ["RANK"] == 0', 'int(os.environ["RANK"]) == 0').replace("\n", "\r\n").encode()
    assert path.read_bytes() == fixed
    assert path.stat().st_mode & 0o777 == 0o750
    assert (folder / "good.py").stat().st_mtime_ns == before
    again = lint(folder, "--fix")
    assert not re.search(r"fixed \d", again.stderr), "nothing safe is left"
    assert path.read_bytes() == fixed
    assert (lint(folder, "--diff").returncode, lint(folder, "--diff").stdout) == (0, "")


def test_a_diff_can_be_applied(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN)
    diff = lint(folder, "--diff").stdout
    (folder / "fix.diff").write_text(diff)
    assert diff.startswith("--- train.py\n+++ train.py\n")
    done = subprocess.run(["git", "apply", "-p0", "fix.diff"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert places(folder, "--select", "DC209") == []


def test_what_is_silenced_or_not_selected_is_not_fixed(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN.replace("# the first", "# noqa: DC209"))
    lint(folder, "--fix")
    lint(project(tmp_path, other=TRAIN), "--fix", "--select", "DC201")
    assert 'if os.environ["RANK"] == 0' in (folder / "train.py").read_text()
    assert 'if os.environ["RANK"] == 0' in (folder / "other.py").read_text()


def test_a_file_that_changes_meanwhile_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distcheck.cli import lint_run
    from distcheck.cli.main import group

    path = project(tmp_path, train=TRAIN) / "train.py"
    monkeypatch.chdir(tmp_path)
    look = lint_run.look

    def look_and_edit(*arguments: Any) -> Any:
        looked = look(*arguments)
        path.write_text("# moved\n" + TRAIN)
        return looked

    monkeypatch.setattr(lint_run, "look", look_and_edit)
    assert group.main(["lint", "--fix", "--no-cache", "-q"], standalone_mode=False) == 1
    assert path.read_text() == "# moved\n" + TRAIN


@pytest.mark.parametrize(
    "arguments",
    [
        ("--unsafe-fixes",),
        ("--fix", "--diff"),
        ("--fix", "--write-baseline", "x.json"),
        ("--write-baseline", ""),
        ("-", "train.py"),
        ("--stdin-filename", "x.py", "train.py"),
        ("--jobs", "0"),
        ("--no-such-option",),
        ("-o", "no/such/folder/x"),
        ("--baseline", "gone.json"),
        ("--cache-dir", "train.py"),
        ("--config", "gone.toml"),
    ],
)
def test_wrong_use_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = lint(project(tmp_path, train=TRAIN), *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert (tmp_path / "train.py").read_text() == TRAIN


# standard input


def piped(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distcheck", "lint", *arguments],
        input=text,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=folder,
        timeout=60,
    )


def test_standard_input(tmp_path: Path) -> None:
    result = piped(tmp_path, TRAIN, "--stdin-filename", "src/train.py", "--output-format", "concise", "-")
    assert result.stdout.startswith(f"src/train.py:{DEVICE}:")
    assert result.returncode == 1
    assert piped(tmp_path, GOOD, "-").returncode == 0
    assert (
        piped(
            tmp_path, TRAIN, "-", "--stdin-filename", "old/x.py", "--extend-exclude", "old", "--force-exclude"
        ).returncode
        == 0
    )
    fixed = piped(tmp_path, TRAIN, "-", "--fix")
    assert fixed.stdout == TRAIN.replace('os.environ["RANK"] == 0', 'int(os.environ["RANK"]) == 0')
    assert "DC201" in fixed.stderr
    assert piped(tmp_path, "def f(:\n  rank()", "-").returncode == 2
    assert os.listdir(tmp_path) == []


# bad input


def test_what_can_not_be_read_is_told_and_the_rest_is_checked(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN, broken="import torch.distributed\ndef f(:\n")
    (folder / "null.py").write_bytes(b"import torch.distributed\nx = 1\x00\n")
    (folder / "latin.py").write_bytes(b"import torch.distributed\nx = '\xe9'\n")
    (folder / "cookie.py").write_bytes(b"# coding: no-such-thing\nimport torch.distributed\n")
    (folder / "deep.py").write_text("import torch.distributed\nx = " + "(" * 5000 + ")" * 5000 + "\n")
    (folder / "deeper.py").write_text("import torch.distributed\nx = " + "-" * 100_000 + "1\n")
    (folder / "large.py").write_text("import torch.distributed\n" + "x = 1\n" * 1_700_000)
    (folder / "crlf.py").write_bytes(GOOD.replace("\n", "\r\n").encode())
    (folder / "tabs.py").write_text(GOOD.replace("    ", "\t"))
    (folder / "marked.py").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    (folder / "empty.py").write_text("")
    (folder / "pieces.ipynb").write_text("{ torch.distributed")
    (folder / "away.py").symlink_to("nowhere.py")
    plain = report_of("lint", ".", "gone.py", "away.py", cwd=folder)
    found = {(item["where"]["path"], item["code"]) for item in plain["findings"]}
    unreadable = {"broken", "null", "latin", "cookie", "deep", "deeper", "large", "gone", "away"}
    assert {path for path, code in found if code == "DC904"} == {f"{name}.py" for name in unreadable} | {"pieces.ipynb"}
    assert {item for item in found if item[1] != "DC904"} == {("train.py", "DC201"), ("train.py", "DC209")}
    (broken,) = [item for item in plain["findings"] if item["where"]["path"] == "broken.py"]
    assert broken["where"]["line"] == 2
    assert lint(folder, "gone.py", "train.py", "--output-format", "concise").stdout.startswith("gone.py: DC904 ")
    assert lint(folder, "--ignore", "DC904", "gone.py", "train.py").stderr.startswith(
        "distcheck: gone.py: it does not exist"
    )


def test_what_python_says_of_a_notebook_names_the_cell(tmp_path: Path) -> None:
    cells = ["import torch.distributed as dist\n", "\ndef train():\n"]
    plain = {"cells": [{"cell_type": "code", "source": text} for text in cells], "metadata": {}, "nbformat": 4}
    (tmp_path / "nb.ipynb").write_text(json.dumps(plain))
    (finding,) = report_of("lint", "nb.ipynb", cwd=tmp_path)["findings"]
    assert finding["code"] == "DC904"
    assert "expected an indented block after function definition on line 2 of cell 2" in finding["message"]


def test_only_where_nothing_could_be_read_the_status_is_2(tmp_path: Path) -> None:
    folder = project(tmp_path, broken="import torch.distributed\ndef f(:\n", good=GOOD)
    assert lint(folder, "good.py", "gone.py").returncode == 1
    assert lint(folder, "good.py", "broken.py", "--exit-zero").returncode == 0
    for paths in (("gone.py",), ("gone", "gone.py"), ("broken.py",), ("broken.py", "gone.py", "--exit-zero")):
        result = lint(folder, *paths)
        assert result.returncode == 2, paths
        assert "none of the input could be read" in result.stderr


def test_a_folder_without_python_is_no_error(tmp_path: Path) -> None:
    result = lint(tmp_path)
    assert result.returncode == 0
    assert "no Python files and no launch files in this folder" in result.stderr


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read any file")
def test_a_file_that_is_not_ours_to_read_is_told(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN, closed=TRAIN)
    (folder / "closed.py").chmod(0)
    assert ("closed.py", "DC904") in {(path, code) for path, _, code in places(folder)}


def test_a_name_that_is_no_utf_8_is_a_name(tmp_path: Path) -> None:
    text = "import torch\nimport torch.distributed as dist\n\n\ndef run(node_rank):\n    print(node_rank)\n    torch.cuda.set_device(dist.get_rank())\n"
    (tmp_path / os.fsdecode(b"bad\xff.py")).write_text(text)
    result = lint(tmp_path, "--output-format", "concise")
    assert "DC201" in result.stdout
    assert "bad\\udcff.py:7:" in result.stdout


def test_a_notebooks_findings_name_their_cell(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# training"},
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "import os, torch\n", "import torch.distributed as dist"],
        },
        {
            "cell_type": "code",
            "source": "!nvidia-smi\nrank = int(os.environ['RANK'])\nlocal_rank = int(os.environ['LOCAL_RANK'])",
        },
        {"cell_type": "code", "source": "\ntorch.cuda.set_device(rank)\nif os.environ['RANK'] == 0:\n    print(1)"},
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    text = path.read_text()
    result = lint(tmp_path, "--output-format", "concise", "--select", "DC201,DC209")
    assert [re.sub(r"\d+: DC.*", "", line) for line in result.stdout.splitlines()] == [
        "train.ipynb:cell 4:2:",
        "train.ipynb:cell 4:3:",
    ]
    plain = report_of("lint", "--select", "DC201", cwd=tmp_path)
    assert plain["findings"][0]["where"]["cell"] == 4
    assert plain["findings"][0]["evidence"]["source"] == "torch.cuda.set_device(rank)"
    assert plain["findings"][0]["evidence"]["flow"][0].startswith("train.ipynb:cell 3:2: the global rank")
    assert "notebooks are not edited" in lint(tmp_path, "--fix").stderr
    assert path.read_text() == text


# the cache, processes, signals


def test_the_cache_changes_nothing_but_the_time(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", train=TRAIN, good=GOOD)
    user = {"XDG_CACHE_HOME": str(tmp_path / "user")}
    first = lint(folder, "--output-format", "concise", **user).stdout
    caches = list((tmp_path / "user" / "distcheck").glob("*.cache"))
    assert len(caches) == 1
    assert lint(folder, "--output-format", "concise", **user).stdout == first
    caches[0].write_bytes(caches[0].read_bytes()[:100] + b"\xff" * 50)
    assert lint(folder, "--output-format", "concise", **user).stdout == first
    caches[0].write_bytes(b"\x00" * 1000)
    assert lint(folder, "--output-format", "concise", **user).stdout == first
    (folder / "train.py").write_text(GOOD)
    assert lint(folder, "--output-format", "concise", **user).stdout == ""
    assert sorted(os.listdir(folder)) == ["good.py", "train.py"]


def test_where_the_cache_is(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", sub__train=GOOD)
    user = tmp_path / "user"
    lint(folder / "sub", "--no-cache", XDG_CACHE_HOME=str(user))
    assert not user.exists()
    lint(folder / "sub", "--cache-dir", "here", XDG_CACHE_HOME=str(user))
    assert (folder / "sub" / "here" / "CACHEDIR.TAG").exists()
    assert sorted(os.listdir(user / "distcheck")) == [".gitignore", "CACHEDIR.TAG", "distcheck-key"]
    lint(folder / "sub", DISTCHECK_LINT_CACHE_DIR=str(folder / "there"))
    assert (folder / "there" / "CACHEDIR.TAG").exists()
    lint(folder / "sub", XDG_CACHE_HOME=str(user))
    assert list((user / "distcheck").glob("*.cache"))
    assert (user / "distcheck").stat().st_mode & 0o777 == 0o700


def test_a_cache_that_can_not_be_written_is_said_only_where_it_was_asked_for(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", train=GOOD)
    (tmp_path / "distcheck").write_text("")
    assert lint(folder, XDG_CACHE_HOME=str(tmp_path)).stderr == ""
    assert "cache can't be written" in lint(folder, "--cache-dir", "train.py/x").stderr


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "site.toml"])
def test_a_project_does_not_choose_where_the_cache_is(tmp_path: Path, name: str) -> None:
    folder = project(tmp_path / "project", train=TRAIN)
    (outside := tmp_path / "outside").mkdir()
    (old := outside / "precious.cache").write_text("mine")
    os.utime(old, (0, 0))
    section = {"pyproject.toml": "[tool.distcheck]", "setup.cfg": "[distcheck]"}.get(name, "")
    value = f'"{outside}"' if name.endswith(".toml") else str(outside)
    (folder / name).write_text(f"{section}\ncache-dir = {value}\n")
    config = ("--config", name) if name == "site.toml" else ()
    result = lint(folder, *config)
    assert result.returncode == 1
    assert [line for line in result.stderr.splitlines() if "cache-dir" in line] == [
        f"distcheck: {name if config else folder / name}: cache-dir is ignored: a project can not choose it; "
        "fix: pass --cache-dir"
    ]
    assert os.listdir(outside) == ["precious.cache"]
    assert "ignored" not in lint(folder, *config, "--cache-dir", "here").stderr
    assert (folder / "here").is_dir()


def test_the_site_chooses_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distcheck.cli.lint import _cache
    from distcheck.core import configuration

    monkeypatch.setenv("SCRATCH", str(tmp_path))
    settings = configuration.Configuration(
        (
            configuration.ConfigurationEntry("cache-dir", ("/outside",), "/project/pyproject.toml"),
            configuration.ConfigurationEntry("cache-dir", ("$SCRATCH/lint",), configuration.SITE_FILE),
        )
    )
    cache = _cache({"no_cache": False, "cache_dir": None}, settings, "/project")
    assert cache is not None
    cache.put(b"x" * 20, b"")
    assert cache.save() is None
    assert list((tmp_path / "lint").glob("*.cache"))


def test_fixes_do_not_follow_a_link_out_of_the_checkout(tmp_path: Path) -> None:
    outside = project(tmp_path / "outside", precious=TRAIN) / "precious.py"
    folder = project(tmp_path / "project", real=TRAIN)
    (folder / "out.py").symlink_to(outside)
    (folder / "again.py").symlink_to("real.py")
    result = lint(folder, "--fix")
    assert f"out.py is left as it is: it is a link to {outside}, outside of the checkout" in result.stderr
    assert outside.read_text() == TRAIN
    assert (folder / "real.py").read_text() != TRAIN
    assert lint(folder, "--fix", "--fail-on", "warning", "again.py").returncode == 1
    assert (folder / "again.py").is_symlink()


def test_fixes_do_not_follow_a_folder_that_is_a_link_out_of_the_checkout(tmp_path: Path) -> None:
    outside = project(tmp_path / "outside", precious=TRAIN) / "precious.py"
    folder = project(tmp_path / "project", real=TRAIN)
    (folder / ".git").mkdir()
    (folder / "sub").symlink_to(outside.parent)
    result = lint(folder, "--fix", "sub/precious.py", "real.py")
    assert f"sub/precious.py is left as it is: it is a link to {outside}, outside of the checkout" in result.stderr
    assert outside.read_text() == TRAIN
    assert (folder / "real.py").read_text() != TRAIN


def test_a_file_that_changes_before_its_fix_is_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from distcheck.cli import lint_results
    from distcheck.cli.main import group

    folder = project(tmp_path / "project", real=TRAIN)
    write = lint_results._write_changes

    def edit_first(*arguments: Any) -> bool:
        (folder / "real.py").write_text("edited = True\n")
        return write(*arguments)

    monkeypatch.setattr(lint_results, "_write_changes", edit_first)
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(group, ["lint", "--isolated", "--no-cache", "--fix", "."], standalone_mode=False)
    assert "real.py is left as it is: it was changed during the check" in result.stderr
    assert result.return_value != 0
    assert (folder / "real.py").read_text() == "edited = True\n"


def test_a_link_that_a_project_brings_is_not_followed(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", train=TRAIN)
    (outside := tmp_path / "outside").mkdir()
    (folder / ".distcheck_cache").symlink_to(outside)
    assert lint(folder).returncode == 1
    result = lint(folder, "--cache-dir", ".distcheck_cache")
    assert result.returncode == 1
    assert f"a link in the checkout leads from {folder / '.distcheck_cache'} to {outside}; fix:" in result.stderr
    assert os.listdir(outside) == []


#: What a project may bring in place of the summary of its train.py.
BROUGHT = {
    "hides": pack(extract(b"x = 1\n")),
    "crashes": b"\x05\x00\x00\x00(\xff\xff\xff\x7f",
    "has another shape": (lambda header: len(header).to_bytes(4, "little") + header)(marshal.dumps((1, (), 2, 3, 4))),
    "never ends": pack(extract(TRAIN.encode())._replace(scopes=[], terms=[("|", 0, 0)] * 50)),
}


@pytest.mark.parametrize("what", list(BROUGHT))
@pytest.mark.parametrize("option", [(), ("--cache-dir", ".distcheck_cache")])
def test_a_cache_that_a_project_brings_is_not_read(tmp_path: Path, what: str, option: tuple[str, ...]) -> None:
    folder = project(tmp_path, train=TRAIN)
    expected = lint(folder, "--no-cache", "--output-format", "concise")
    assert expected.returncode == 1
    cache = Cache(str(folder / ".distcheck_cache"), f"{__version__}-{ENGINE_VERSION}")
    cache.put(engine._summary_key("train.py", engine.content_digest(TRAIN.encode())), BROUGHT[what])
    assert cache.save() is None
    for _ in range(2):
        result = lint(folder, *option, "--output-format", "concise")
        assert (result.stdout, result.stderr) == (expected.stdout, expected.stderr)


def test_several_at_once_agree(tmp_path: Path) -> None:
    folder = project(tmp_path, **{f"train{number}": TRAIN for number in range(20)})
    command = [
        sys.executable,
        "-m",
        "distcheck",
        "lint",
        "--output-format",
        "concise",
        "--select",
        "DC201,DC209",
        "-j",
        "2",
    ]
    runs = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=folder
        )
        for _ in range(3)
    ]
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert len(outputs[0].splitlines()) == 40
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_spawned_process_is_bound_by_its_index(tmp_path: Path) -> None:
    """No launcher sets LOCAL_RANK there: reading it would end the script with a KeyError."""
    text = """\
import torch.distributed as dist
import torch.multiprocessing as mp


def train(index, size):
    dist.init_process_group("nccl", world_size=size, rank=index)
    dist.barrier()


if __name__ == "__main__":
    mp.spawn(train, nprocs=2, args=(2,))
"""
    result = lint(project(tmp_path, train=text), "--select", "DC206", "--output-format", "json")
    (finding,) = json.loads(result.stdout)["findings"]
    assert "torch.cuda.set_device(index)" in finding["fix"]["text"]
    assert "LOCAL_RANK" not in finding["fix"]["text"]


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.slow
def test_ctrl_c_is_quiet(tmp_path: Path, jobs: str) -> None:
    text = "import torch.distributed\n" + "def f(x):\n    return x + 1\n" * 2000
    folder = project(tmp_path, **{f"file{number}": text + f"y = {number}\n" for number in range(120)})
    run = subprocess.Popen(
        [sys.executable, "-m", "distcheck", "lint", "--no-cache", "-j", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=folder,
        start_new_session=True,
    )
    time.sleep(1.5)
    assert run.poll() is None
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err.strip()) == (130, "", "Interrupted.")


@pytest.mark.slow
@pytest.mark.full
def test_a_terminal_is_told_how_far_it_is(tmp_path: Path) -> None:
    import pty

    text = "import torch.distributed\n" + "def f(x):\n    return x + 1\n" * 6000
    folder = project(tmp_path, **{f"file{number}": text + f"y = {number}\n" for number in range(60)})
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "distcheck", "lint", "--no-cache", "-j", "1", "-q"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment(TERM="xterm"),
        cwd=folder,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side has closed it
            break
        if not part:
            break
        seen += part
    os.close(ours)
    out, _ = run.communicate(timeout=60)
    assert out.startswith(b"0 errors")
    assert b"lint" in seen
    assert b"/60" in seen
    assert seen.endswith(b"\r\x1b[K")


def test_a_report_is_written_to_a_file_and_the_status_stays(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN)
    result = lint(folder, "-o", "report.json", "--output-format", "json")
    assert (result.returncode, result.stdout) == (1, "")
    plain: dict[str, Any] = json.loads((folder / "report.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)


def test_torch_is_never_imported(tmp_path: Path) -> None:
    project(tmp_path, train=TRAIN)
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from distcheck.cli.main import group\n"
        "status = group.main(['lint', '--no-cache', '-q'], standalone_mode=False)\n"
        "assert status == 1, status\n"
        "assert 'psutil' not in sys.modules and 'pynvml' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment(), timeout=60)


def test_help_teaches(tmp_path: Path) -> None:
    result = lint(tmp_path, "--help")
    assert result.returncode == 0
    for words in ("Examples:", "--unsafe-fixes --diff", "# noqa: DC201", "distcheck: ignore[DC201]", "Which files"):
        assert words in result.stdout


def test_a_notebook_is_no_evidence_about_ranks(tmp_path: Path) -> None:
    """A call in a notebook runs in one process; the script still calls the method on every rank."""
    (tmp_path / "lib.py").write_text(
        "import os\n\nimport torch\n\n\nclass Predictor:\n    def fetch_cache(self):\n"
        '        if not os.path.exists("cache"):\n            os.makedirs("cache")\n        return torch.zeros(1)\n\n\n'
        "def build(name):\n    return REGISTRY[name]()\n"
    )
    (tmp_path / "train.py").write_text(
        'import torch.distributed as dist\n\nimport lib\n\ndist.init_process_group("gloo")\nlib.build("x").fetch_cache()\n'
    )
    options = ("--isolated", "--no-cache", "--select", "DC722")
    before = places(tmp_path, *options)
    assert [(path, code) for path, _, code in before] == [("lib.py", "DC722")]
    # set_device lets the notebook pass the prefilter
    text = "import torch\nfrom lib import Predictor\npip install x\ntorch.cuda.set_device(0)\nPredictor().fetch_cache()"
    cell = {"cell_type": "code", "source": text}
    (tmp_path / "demo.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    assert places(tmp_path, *options) == before


#: Every rank writes one file: DC720, which is often wrong in public code.
SAVES = """import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
torch.save(model.state_dict(), "model.pt")
dist.destroy_process_group()
"""


def test_a_rule_that_is_often_wrong_is_quiet_unless_it_is_named(tmp_path: Path) -> None:
    folder = project(tmp_path, train=SAVES)
    assert ("train.py", 6, "DC720") not in places(folder)
    (hidden,) = [item for item in report_of("lint", cwd=folder)["findings"] if item["code"] == "DC720"]
    assert hidden["severity"] == "info"
    for arguments in (("train.py",), ("--select", "DC720"), ("--extend-select", "DC7"), ("--preview",)):
        (loud,) = [item for item in report_of("lint", *arguments, cwd=folder)["findings"] if item["code"] == "DC720"]
        assert loud["severity"] != "info", arguments
    assert "reports this rule at level `info`" in distcheck("explain", "DC720", cwd=folder).stdout


def test_a_dropped_gather_names_the_list_that_it_fills(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        train="import torch\nimport torch.distributed as dist\n\n"
        'dist.init_process_group("nccl")\n'
        'own = torch.ones(2, device=f"cuda:{dist.get_rank()}")\n'
        "parts = [torch.zeros_like(own) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None\n"
        "dist.gather(own, parts, dst=0, async_op=True)\n"
        "print(parts)\n",
    )
    found = report_of("lint", "train.py", cwd=folder)["findings"]
    (message,) = [item["message"] for item in found if item["code"] == "DC713"]
    assert message.endswith(": parts may be used before it is ready")


def test_a_rule_that_is_mostly_wrong_is_a_note_with_preview_too(tmp_path: Path) -> None:
    start = 'import torch\nimport torch.distributed as dist\n\ndist.init_process_group("nccl")\n'
    folder = project(tmp_path, train=f"{start}dist.all_reduce(torch.ones(2))\n")

    def levels(*arguments: str) -> list[str]:
        found = report_of("lint", *arguments, cwd=folder)["findings"]
        return [item["severity"] for item in found if item["code"] == "DC714"]

    for arguments in ((), ("--preview",), ("--preview", "-v"), (".", "--preview")):
        assert levels(*arguments) == ["info"]
    for arguments in (("train.py",), ("--select", "DC714"), ("--preview", "--extend-select", "DC714")):
        assert levels(*arguments) == ["error"]
    assert "mostly wrong in public code" in distcheck("explain", "DC714", cwd=folder).stdout


def test_a_rule_that_was_judged_too_rarely_is_info_in_many_files(tmp_path: Path) -> None:
    folder = project(tmp_path, train=TRAIN, **{f"other{number}": "import torch\n" for number in range(9)})

    def level(*arguments: str) -> str:
        found = [item for item in report_of("lint", *arguments, cwd=folder)["findings"] if item["code"] == "DC209"]
        return "".join(item["severity"] for item in found)

    assert level() == "error"
    project(tmp_path, one_more="")
    assert level() == "info"
    for arguments in (("train.py",), (".", "train.py"), ("--select", "DC209"), ("--preview",)):
        assert level(*arguments) == "error"
    shown = " ".join(distcheck("lint", cwd=folder).stdout.split())
    assert "2 lowered to info by measured precision (--preview: own level)" in shown
    assert "lowered" not in distcheck("lint", "--preview", cwd=folder).stdout
    assert "at level `info` in more than 10 files" in distcheck("explain", "DC209", cwd=folder).stdout
