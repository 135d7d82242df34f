"""Which Python file a launch line starts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from distcheck import rules
from distcheck.checks.launch_files.model import LaunchFiles
from distcheck.checks.launch_files.scripts import (
    STARTED_BY,
    find_started,
    names_of,
    wanted_scripts,
    without_missing_launchers,
    without_weaker,
)
from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.checks.source.program import Program
from distcheck.core.model import Finding, Fix, Severity, Where

from .sites import shell_file, site_of

SCRIPT = "import torch.distributed as dist\ndist.init_process_group()\n"


def program_of(files: Mapping[str, str]) -> Program:
    """Files that stand in memory, linked."""
    return analyse([SourceFile(path, partial(str.encode, text)) for path, text in files.items()])


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("torchrun train.py --lr 1", ("train.py",)),
        ("torchrun src/train.py", ("src/train.py",)),
        ("python -m zoo.train", ("zoo/train.py", "zoo/train/__main__.py", "src/zoo/train.py", "src/zoo/train/__main__.py")),
        ("PYTHONPATH=lib:$PYTHONPATH torchrun -m zoo", ("zoo.py", "zoo/__main__.py", "src/zoo.py", "src/zoo/__main__.py", "lib/zoo.py", "lib/zoo/__main__.py")),
        ("bash train.sh", ()),
        ("torchrun $SCRIPT", ()),
        ("torchrun --no-python ./run.sh", ()),
        ('torchrun "$SCRIPT_DIR/train.py"', ("$SCRIPT_DIR/train.py",)),
        ("python -c 'print(1)'", ()),
    ],
)  # fmt: skip
def test_names_of_a_line(line: str, names: tuple[str, ...]) -> None:
    assert names_of(site_of(line)) == names


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("run.sh", "torchrun train.py", "train.py"),
        ("run.sh", "torchrun ./train.py", "train.py"),
        ("jobs/run.sh", "torchrun train.py", "train.py"),
        ("run.sh", "torchrun zoo/main.py", "zoo/main.py"),
        ("jobs/run.sh", "python -m zoo.main", "zoo/main.py"),
        ("jobs/run.sh", "torchrun other.py", "jobs/other.py"),
        ('jobs/run.sh', 'torchrun "$SCRIPT_DIR/../train.py"', "train.py"),
        ("jobs/run.sh", "torchrun both.py", None),
        ("run.sh", "torchrun /opt/train.py", None),
        ("run.sh", "torchrun $X/train.py", None),
        ("run.sh", "torchrun nothing.py", None),
    ],
)  # fmt: skip
def test_the_file_that_a_line_starts(path: str, line: str, found: str | None) -> None:
    program = program_of(dict.fromkeys(("train.py", "zoo/main.py", "jobs/other.py", "jobs/both.py", "both.py"), SCRIPT))
    file = shell_file(line, path=path)
    started = find_started(LaunchFiles((file,)), program)
    assert [start.path for start in started.starts] == ([] if found is None else [found])
    if found is not None:
        start = started.of(file.sites[0])
        assert start is not None
        assert program.index.files[start.script].path == found


def test_a_folder_that_the_line_changes_to_counts() -> None:
    program = program_of({"train.py": SCRIPT, "src/train.py": SCRIPT})
    started = find_started(LaunchFiles((shell_file("torchrun train.py", folder="src"),)), program)
    assert [start.path for start in started.starts] == ["src/train.py"]


def test_scripts_that_are_wanted_with_what_they_import() -> None:
    files = {
        "train.py": b"import os, zoo.model\nfrom utils import dist, io\nfrom .local import x\nimport torch\n",
        "zoo/model.py": b"",
        "zoo/__init__.py": b"",
        "utils/__init__.py": b"",
        "utils/dist.py": b"",
        "local.py": b"",
        "unrelated.py": b"",
    }

    def read(path: str) -> bytes:
        return files[path]

    launch_files = LaunchFiles((shell_file("torchrun train.py", "torchrun gone.py", "bash x.sh"),))
    assert wanted_scripts(launch_files, files.__contains__, read) == (
        "local.py",
        "train.py",
        "utils/__init__.py",
        "utils/dist.py",
        "zoo/model.py",
    )


def test_a_script_that_can_t_be_read_is_wanted_all_the_same() -> None:
    def read(path: str) -> bytes:
        raise PermissionError(path)

    launch_files = LaunchFiles((shell_file("torchrun train.py"),))
    assert wanted_scripts(launch_files, {"train.py"}.__contains__, read) == ("train.py",)


def finding(severity: Severity, line: int, started: bool, code: str = "DC201") -> Finding:
    rule = rules.find(code)
    return Finding(
        rule.code,
        rule.name,
        severity,
        "text",
        Fix("fix it"),
        Where("train.py", line, 1),
        {STARTED_BY: "run.sh:1"} if started else {},
    )


def test_what_a_launch_line_makes_worse_is_said_once() -> None:
    weak, worse = finding(Severity.WARNING, 3, False), finding(Severity.ERROR, 3, True)
    same, elsewhere = finding(Severity.ERROR, 3, False), finding(Severity.WARNING, 4, False)
    other = finding(Severity.WARNING, 3, False, "DC206")
    assert without_weaker([weak, worse]) == [worse]
    assert without_weaker([worse, same, elsewhere, other]) == [worse, elsewhere, other]
    assert without_weaker([weak, weak, elsewhere]) == [weak, weak, elsewhere]


def test_a_script_that_a_launch_line_starts_misses_no_launcher() -> None:
    program = program_of({"train.py": "import setup_ranks\n" + SCRIPT, "setup_ranks.py": SCRIPT, "other.py": SCRIPT})
    missed = [finding(Severity.INFO, 3, False, "DC208")._replace(where=Where(path, 3, 1)) for path in program.files]
    weak = finding(Severity.WARNING, 3, False)

    def left(line: str) -> list[str]:
        started = find_started(LaunchFiles((shell_file(line),)), program)
        found = without_missing_launchers([*missed, weak], started)
        assert found[-1] is weak
        return sorted(str(item.where.path) for item in found[:-1])

    assert left("torchrun --nproc_per_node=8 train.py") == ["other.py"]
    assert left("python train.py") == ["other.py", "setup_ranks.py", "train.py"]
