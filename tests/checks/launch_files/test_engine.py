"""From paths to launch files: what is read of which file, what others name, whose comments count, what reads worse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from distcheck.checks.launch_files import engine
from distcheck.checks.launch_files.model import LaunchFile

TORCHRUN = b"#!/bin/bash\ntorchrun --nproc-per-node 8 train.py\n"
DEEPSPEED = b'{"train_batch_size": 8, "zero_optimization": {"stage": 2}, "fp16": {"enabled": true}}'


def source(path: str, data: bytes, requested: list[int] | None = None) -> engine.LaunchSource:
    def read(limit: int) -> bytes:
        if requested is not None:
            requested.append(limit)
        return data[:limit]

    return engine.LaunchSource(path, read)


def nothing(path: str) -> bytes | None:
    return None


def paths(*sources: engine.LaunchSource, **more: bool | tuple[str, ...]) -> list[tuple[str, str]]:
    files = engine.read_launch_files(sources, look_up=nothing, **more)  # type: ignore[arg-type]
    return [(file.path, file.kind) for file in files.files]


def test_what_is_no_launch_file_is_passed_over_and_the_order_stays() -> None:
    found = paths(
        source("z.sh", TORCHRUN),
        source("values.yaml", b"a: 1\n"),
        source("ds.json", DEEPSPEED),
        source("data.json", b'{"train_batch_size": 8}'),
        source("LICENSE", b"All rights\n"),
        source("run", TORCHRUN),
        source("README.md", b"```sh\ntorchrun train.py\n```\n"),
    )
    assert found == [("z.sh", "shell"), ("ds.json", "deepspeed"), ("run", "shell")]


def test_documents_are_read_where_they_are_asked_for_or_named() -> None:
    readme = source("README.md", b"```sh\ntorchrun train.py\n```\n")
    assert paths(readme) == []
    assert paths(readme, include_markdown=True) == [("README.md", "markdown")]
    assert paths(readme, named=("README.md",)) == [("README.md", "markdown")]


@pytest.mark.parametrize("path", ["large.json", "weights"])
def test_of_data_no_more_than_the_beginning_is_read(path: str) -> None:
    requested: list[int] = []
    assert paths(source(path, b'[1, "' + b"x" * 1_000_000 + b'"]', requested)) == []
    assert requested == [65_536]


def test_a_configuration_larger_than_its_beginning_is_read_in_full() -> None:
    data = DEEPSPEED[:-1] + b"," + b" " * 70_000 + b'"gradient_clipping": 1.0}'
    (file,) = engine.read_launch_files([source("ds.json", data)], look_up=nothing).files
    assert file.problems == ()
    assert file.configurations[0].get("gradient_clipping") is not None


def test_what_can_not_be_opened_is_said_where_its_name_says_that_it_matters() -> None:
    def closed(limit: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    names = ("job.sh", "data.json", "blob", "named.json")
    files = engine.read_launch_files([engine.LaunchSource(name, closed) for name in names], named=("named.json",)).files
    assert [(file.path, file.problems[0][0]) for file in files] == [
        ("job.sh", "it can't be read: Permission denied"),
        ("named.json", "it can't be read: Permission denied"),
    ]


def test_a_file_that_a_reader_fails_on_is_said_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_file(path: str, data: bytes, kind: str, look_up: object) -> LaunchFile:
        return LaunchFile(path, kind) if path == "good.sh" else LaunchFile(path, kind, lines=tuple(range(1 // 0)))

    monkeypatch.setattr(engine, "read_file", read_file)
    files = engine.read_launch_files([source("odd.sh", TORCHRUN), source("good.sh", TORCHRUN)], look_up=nothing).files
    assert [file.path for file in files] == ["odd.sh", "good.sh"]
    assert "ZeroDivisionError" in files[0].problems[0][0]
    assert files[1].problems == ()


def test_other_files_are_looked_up_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "env.sh").write_text("A=1\n")
    (tmp_path.parent / "outside.sh").write_text("B=1\n")
    look = engine.look_up_below(str(tmp_path), {"sub/new.sh": b"C=1\n"})
    assert look("sub/env.sh") == look("./sub/../sub/env.sh") == look(str(tmp_path / "sub" / "env.sh")) == b"A=1\n"
    assert look("sub/new.sh") == b"C=1\n"
    assert look("../outside.sh") == b"B=1\n"
    wider = engine.look_up_below(str(tmp_path / "sub"), roots=[str(tmp_path.parent)])
    assert wider(str(tmp_path.parent / "outside.sh")) == b"B=1\n"
    assert wider("/etc/passwd") is None
    for path in ("sub", "gone.sh", "/etc/passwd", str(tmp_path.parent / "outside.sh"), "/dev/zero", "a\0b"):
        assert look(path) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.sh")
    assert engine.look_up_below(str(tmp_path))("pipe.sh") is None


def test_a_file_is_asked_for_once() -> None:
    requested: list[str] = []
    look = engine.remembering(lambda path: requested.append(path))
    assert look("env.sh") is look("env.sh") is None
    assert requested == ["env.sh"]


SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
# first
#   second
srun torchrun \\
    --nnodes 2 \\
    train.py  # behind

echo one\\\\
echo two
"""


@pytest.mark.parametrize(
    ("line", "requested"),
    [
        (5, {3, 4, 5, 7}),
        (6, {3, 4, 5, 6, 7}),
        (7, {3, 4, 5, 7}),
        (2, {2}),
        # a backslash behind a backslash stands for itself
        (9, {9}),
        (10, {10}),
        (99, set()),
    ],
)
def test_comments_count_for_the_whole_command_and_from_above(line: int, requested: set[int]) -> None:
    file = LaunchFile("job.sh", "shell", lines=tuple(SCRIPT.split("\n")))
    assert engine.lines_around(file, (line, line)) == requested


def test_a_file_of_backslashes_ends() -> None:
    file = LaunchFile("job.sh", "shell", lines=("\\",) * 1_000_000)
    assert len(engine.lines_around(file, (500_000,))) < 10_000


def test_new_bytes_that_read_worse_are_told() -> None:
    before = engine.read_one("ds.json", DEEPSPEED, nothing)
    assert before is not None
    assert engine.why_it_reads_worse("ds.json", before, DEEPSPEED.replace(b"8", b"16"), nothing) is None
    why = engine.why_it_reads_worse("ds.json", before, DEEPSPEED.replace(b"8,", b"8"), nothing)
    assert why is not None
    assert why.startswith("line 1: ")


def test_the_grammar_and_yaml_are_imported_when_a_file_needs_them() -> None:
    program = (
        "import sys\n"
        "from distcheck.checks.launch_files.engine import LaunchSource, read_launch_files\n"
        "def read(name, data):\n"
        "    return read_launch_files([LaunchSource(name, lambda limit: data)], look_up=lambda path: None).files\n"
        "heavy = ('yaml', 'tree_sitter', 'distcheck.checks.launch_files.launcher')\n"
        "read('a.yaml', b'a: 1\\n'); read('b.sh', b'echo hello\\n'); read('c.json', b'{}')\n"
        "assert not [name for name in heavy if name in sys.modules], 'too early'\n"
        "assert read('b.sh', b'torchrun train.py\\n')[0].sites\n"
        "assert 'tree_sitter' in sys.modules and 'yaml' not in sys.modules\n"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root, timeout=60)


def test_what_reads_is_not_imported_to_judge_and_all_probes_are() -> None:
    import distcheck.checks.launch_files as room

    folder = Path(room.__path__[0])
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py") if path.stem != "__init__"}
    with_probes = {name for name, text in texts.items() if "\n@probe(" in text}
    assert with_probes == set(room.PROBES)
