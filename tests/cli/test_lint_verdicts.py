"""What one run of lint keeps for the next: the same report as without a cache, whatever changed in between."""

from __future__ import annotations

import io
import marshal
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.launch_files import document_files, documented
from distcheck.checks.launch_files import engine as launch_engine
from distcheck.checks.source import engine
from distcheck.checks.source.cache import Cache
from distcheck.cli import lint_inputs, lint_run, lint_verdicts
from distcheck.cli.lint import command, lint_options
from distcheck.core.configuration import Configuration, ConfigurationEntry
from distcheck.reporters.progress import Progress

from .test_lint import GOOD, TRAIN
from .test_lint_ranks import MAYBE, SEVERAL

JOB = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
source env.sh
srun torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint localhost:1 train.py
"""
HELPER = """\
import torch.distributed as dist


def save():
    dist.barrier()
"""
CALLER = """\
import torch.distributed as dist
import helper

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    helper.save()
"""
OLD = 1_600_000_000


class Tree:
    """A folder with files, and runs of lint in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
        self.reads: list[str] = []
        self.judged = 0

    def write(self, name: str, text: str, *, at: float = OLD) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (at, at))

    def run(
        self,
        *words: str,
        configuration: Configuration = Configuration(),
        cached: bool = True,
        named: frozenset[str] = frozenset(),
    ) -> tuple[list[dict[str, Any]], list[Any], set[str]]:
        """Return the findings, what was not checked, and what was; ``reads`` and ``judged`` are those of this run."""
        given = command.make_context("lint", [*words, *(() if cached else ("--no-cache",)), "-j", "1"]).params
        options = lint_options(given, configuration)
        inputs = lint_inputs.inputs_of(options)
        inputs = inputs._replace(named=inputs.named | named)
        self.reads, self.judged = [], 0
        with self.monkeypatch.context() as patch:
            patch.setattr(lint_inputs, "bytes_of", self._counting(lint_inputs.bytes_of))
            patch.setattr(lint_verdicts, "bytes_of", lint_inputs.bytes_of)
            from distcheck.cli import lint_units

            judge = lint_units.judge_unit

            def counted(*given: Any) -> Any:
                self.judged += 1
                return judge(*given)

            patch.setattr(lint_units, "judge_unit", counted)
            result = lint_run.look(options, inputs, {}, lint_inputs.DelayedProgress(Progress(io.StringIO()), 1e18))
        lint_run.save_cache(options)
        report = result.report
        return [finding.as_dict() for finding in report.findings], list(report.not_checked), set(report.checked)

    def _counting(self, function: Callable[..., bytes]) -> Callable[..., bytes]:
        def read(path: str, *given: Any, **more: Any) -> bytes:
            self.reads.append(path)
            return function(path, *given, **more)

        return read

    def check(self, *words: str, **more: Any) -> list[str]:
        """Compare a run with the cache to one without it, and return the codes with their paths."""
        cached = self.run(*words, **more)
        reads, judged = self.reads, self.judged
        assert self.run(*words, cached=False, **more) == cached
        self.reads, self.judged = reads, judged
        return [f"{item['code']} {item['where']['path']}" for item in cached[0]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    # what was written a moment ago is read again: the clock is ahead
    real = time.time_ns
    monkeypatch.setattr(lint_inputs.time, "time_ns", lambda: real() + 10_000_000_000)
    return Tree(tmp_path / "tree", monkeypatch)


FILES: Mapping[str, str] = {
    "one/pyproject.toml": "",
    "one/train.py": TRAIN,
    "one/util.py": GOOD,
    "one/plain.py": "x = 1\n",
    "two/setup.py": "import torch.distributed\n",
    "two/helper.py": HELPER,
    "two/caller.py": CALLER,
    "two/job.sbatch": JOB.replace("train.py", "caller.py"),
    "two/env.sh": "export NCCL_DEBUG=INFO\n",
}


def fill(tree: Tree) -> list[str]:
    for name, text in FILES.items():
        tree.write(name, text)
    return tree.check()


def test_a_second_run_reads_nothing_and_judges_nothing(tree: Tree) -> None:
    found = fill(tree)
    assert tree.judged == 2
    assert "DC209 one/train.py" in found
    assert any(one.endswith(("two/helper.py", "two/caller.py")) for one in found)
    assert any(one.endswith("two/job.sbatch") for one in found)
    assert tree.check() == found
    assert (tree.reads, tree.judged) == ([], 0)


def test_only_the_part_of_a_changed_file_is_judged(tree: Tree) -> None:
    found = fill(tree)
    tree.write("one/train.py", GOOD, at=OLD + 1)
    after = tree.check()
    assert tree.judged == 1
    assert "one/train.py" in tree.reads
    assert "two/helper.py" not in tree.reads
    assert "DC209 one/train.py" in found and "DC209 one/train.py" not in after
    assert [one for one in after if "two/" in one] == [one for one in found if "two/" in one]
    tree.check()
    assert (tree.reads, tree.judged) == ([], 0)


def test_launch_files_that_have_not_changed_are_not_parsed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tree)
    parsed: list[str] = []
    read = launch_engine.read_source

    def counted(source: Any, *given: Any) -> Any:
        parsed.append(source.path)
        return read(source, *given)

    monkeypatch.setattr(launch_engine, "read_source", counted)
    tree.write("one/train.py", GOOD, at=OLD + 1)
    tree.run()
    assert parsed == []
    # the job sources it
    tree.write("two/env.sh", "export NCCL_DEBUG=WARN\n", at=OLD + 1)
    tree.run()
    assert sorted(parsed) == ["two/env.sh", "two/job.sbatch"]


def edit_helper(tree: Tree) -> None:
    tree.write("two/helper.py", HELPER.replace("dist.barrier()", "pass"), at=OLD + 1)


def rename(tree: Tree) -> None:
    (tree.folder / "one/train.py").rename(tree.folder / "one/other.py")


def delete(tree: Tree) -> None:
    (tree.folder / "two/caller.py").unlink()


def add(tree: Tree) -> None:
    tree.write("one/more.py", TRAIN)


def sourced(tree: Tree) -> None:
    tree.write("two/env.sh", "export NCCL_ASYNC_ERROR_HANDLING=1\n", at=OLD + 1)


def unsourced(tree: Tree) -> None:
    (tree.folder / "two/env.sh").unlink()


def split(tree: Tree) -> None:
    tree.write("one/deep/pyproject.toml", "")
    tree.write("one/deep/train.py", TRAIN)


def unsplit(tree: Tree) -> None:
    (tree.folder / "one/pyproject.toml").unlink()


def break_it(tree: Tree) -> None:
    tree.write("one/train.py", "def (:  # torch.distributed\n", at=OLD + 1)


def requested(tree: Tree) -> None:
    # a file that was put aside is now a guarded caller
    tree.write("one/plain.py", "import torch\nimport train\nif train.rank == 0:\n    train.main()\n", at=OLD + 1)


def silence(tree: Tree) -> None:
    text = TRAIN.replace(
        '    if os.environ["RANK"] == 0:  # the first', '    if os.environ["RANK"] == 0:  # noqa: DC209'
    )
    tree.write("one/train.py", text, at=OLD + 1)


def same_size_same_time(tree: Tree) -> None:
    path = tree.folder / "one/train.py"
    found = path.stat()
    path.write_text(TRAIN.replace("== 0:", "!= 0:"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def replaced_by_another(tree: Tree) -> None:
    tree.write("new.py", GOOD + "#" * (len(TRAIN) - len(GOOD)))
    os.replace(tree.folder / "new.py", tree.folder / "one/train.py")


CHANGES = [
    edit_helper, rename, delete, add, sourced, unsourced, split, unsplit, break_it, requested, silence,
    same_size_same_time, replaced_by_another,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_gives_what_a_run_without_a_cache_gives(tree: Tree, change: Callable[[Tree], None]) -> None:
    fill(tree)
    change(tree)
    tree.check()
    # and once more from what that run has kept
    tree.check()
    assert tree.judged == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--select", "DC209"), ("--ignore", "DC209"), ("--preview",), ("-v",), ("one",), ("two", "one"),
        ("one/train.py",), ("--per-file-ignores", "one/*:DC2"), ("--exclude", "two"), ("--include-markdown",),
        ("--extend-exclude", "env.sh"),
    ],
)  # fmt: skip
def test_other_options_give_what_a_run_without_a_cache_gives(tree: Tree, words: tuple[str, ...]) -> None:
    fill(tree)
    tree.write("two/README.md", "```sh\n" + JOB + "```\n")
    tree.check(*words)
    tree.check(*words)
    assert (tree.reads, tree.judged) == ([], 0)


def test_a_setting_that_decides_what_is_misspelt_counts(tree: Tree) -> None:
    tree.write("job.sh", "export NCCL_DEBUGG=INFO\ntorchrun --nproc_per_node 8 train.py\n")
    known = Configuration((ConfigurationEntry("known-variables", ("NCCL_DEBUGG",), "/p/pyproject.toml"),))
    before = tree.check("-v")
    assert tree.check("-v", configuration=known) != before
    assert tree.check("-v") == before


def test_a_file_that_was_written_just_now_is_read_again(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tree)
    monkeypatch.setattr(lint_inputs.time, "time_ns", lambda: (OLD + 2) * 1_000_000_000)
    tree.write("one/train.py", GOOD, at=OLD + 1)
    tree.check()
    tree.check()
    assert "one/train.py" in tree.reads and tree.judged == 0


def test_other_code_of_the_same_version_is_not_trusted(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tree)
    monkeypatch.setattr(lint_verdicts, "_fingerprint", lambda: "other")
    tree.check()
    assert tree.judged == 2


def test_what_can_not_be_kept_is_found_again(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("train.py", TRAIN)
    monkeypatch.setattr(lint_verdicts, "_plain_finding", lambda finding: object())
    first = tree.run()
    assert tree.run() == first
    assert tree.judged == 1


@pytest.mark.parametrize(
    "stored",
    [b"", b"x", marshal.dumps(()), marshal.dumps({}), marshal.dumps(((1, 2), 3)), marshal.dumps(None)],
    ids=["empty", "text", "short", "mapping", "pairs", "none"],
)
def test_stored_values_of_another_shape_are_not_used(tree: Tree, stored: bytes) -> None:
    fill(tree)
    real = Cache.get

    def damaged(cache: Cache, digest: bytes) -> bytes | None:
        return None if real(cache, digest) is None else stored

    get = Cache.get
    tree.monkeypatch.setattr(Cache, "get", damaged)
    found = tree.run()
    tree.monkeypatch.setattr(Cache, "get", get)
    assert found == tree.run(cached=False)


def test_the_digest_is_that_of_the_engine() -> None:
    assert lint_verdicts.digest_of(b"x") == engine.content_digest(b"x")


def test_fixes_and_plug_ins_are_not_kept(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("train.py", TRAIN)
    tree.check()
    monkeypatch.setattr(lint_verdicts, "has_plug_ins", lambda path: True)
    tree.check()
    assert tree.judged == 1


@pytest.mark.parametrize("damaged", [b"x", marshal.dumps(3), marshal.dumps([(1, 2)])])
def test_what_was_made_of_an_ignore_file_is_kept_by_its_text(tree: Tree, damaged: bytes) -> None:
    tree.write("skip/train.py", TRAIN)
    tree.write("train.py", TRAIN)
    tree.write(".gitignore", "skip/\n!keep.py\n*.tmp\n")
    both = [f"{code} {path}" for path in ("skip/train.py", "train.py") for code in ("DC201", "DC209")]
    one = tree.check("--select", "DC201,DC209")
    assert sorted(one) == ["DC201 train.py", "DC209 train.py"]
    assert tree.check("--select", "DC201,DC209") == one
    get = Cache.get
    tree.monkeypatch.setattr(Cache, "get", lambda cache, digest: damaged if get(cache, digest) else None)
    assert [item["where"]["path"] for item in tree.run("--select", "DC201,DC209")[0]] == ["train.py"] * 2
    tree.monkeypatch.setattr(Cache, "get", get)
    tree.write(".gitignore", "*.tmp\n")
    assert sorted(tree.check("--select", "DC201,DC209")) == sorted(both)


def test_an_open_python_file_changes_levels_and_no_verdict(tree: Tree) -> None:
    """The language server names the open files: that must not judge their project again."""
    tree.write("train.py", CALLER)
    tree.write("helper.py", HELPER)
    assert tree.check() == ["DC701 train.py"] and tree.judged == 1
    assert tree.check(named=frozenset(["train.py"])) == ["DC701 train.py"] and tree.judged == 0


#: A function that no file names unless ``plain.py`` does, which is not linked with the others.
APPLY = """\
import torch.multiprocessing as mp


def apply_all():
    def worker():
        pass

    mp.get_context("spawn").Process(target=worker).start()


def count():
    return 2
"""
COUNT = """\
import torch.distributed as dist
from tool.apply import count

if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(count())
"""


def test_a_name_in_a_file_that_is_not_linked_decides(tree: Tree) -> None:
    def levels() -> list[str]:
        assert tree.check() in (["DC605 tool/apply.py"], [])
        return [item["severity"] for item in tree.run("-v")[0] if item["code"] == "DC605"]

    tree.write("tool/apply.py", APPLY)
    tree.write("train.py", COUNT)
    tree.write("plain.py", "x = 1\n")
    assert levels() == ["info"]
    assert levels() == ["info"]
    tree.write("plain.py", "x = 'apply_all'\n", at=OLD + 10)
    assert levels() == ["error"]
    tree.write("plain.py", "x = 2\n", at=OLD + 20)
    assert levels() == ["info"]
    tree.write("conf/plain.yaml", "_target_: tool.apply.apply_all\n", at=OLD + 30)
    assert levels() == ["error"]
    tree.write("conf/plain.yaml", "_target_: tool.apply.count\n", at=OLD + 40)
    assert levels() == ["info"]
    tree.write("train.py", f"{COUNT}    print(locals(), getattr(apply, 'x', 0))\n", at=OLD + 43)
    assert levels() == ["info"]
    tree.write("train.py", f"import tool.apply as tools\n{COUNT}    print(getattr(apply, 'x', 0))\n", at=OLD + 44)
    assert levels() == ["info"]
    tree.write("train.py", f"from tool import apply\n{COUNT}    print(getattr(apply, 'x', 0))\n", at=OLD + 45)
    assert levels() == ["error"]
    tree.write("train.py", COUNT, at=OLD + 46)
    tree.write("tool/__init__.py", "", at=OLD + 50)
    assert levels() == ["info"]
    tree.write("setup.py", "", at=OLD + 60)
    assert levels() == ["error"]


def test_a_part_of_a_repository_shows_no_function_without_a_caller(tree: Tree) -> None:
    tree.write("part/tool/apply.py", APPLY)
    tree.write("part/train.py", COUNT)
    tree.write("caller.py", "from part.tool.apply import apply_all\n")
    tree.write(".git/HEAD", "")
    assert tree.check("part") == ["DC605 part/tool/apply.py"]
    assert tree.check("part/tool/apply.py", "part/train.py") == ["DC605 part/tool/apply.py"]
    tree.write("caller.py", "", at=OLD + 10)
    assert tree.check(".") == []


def severities(tree: Tree) -> list[str]:
    """Compare a run with the cache to one without it, and return the severities of what needs several ranks."""
    words = ("--select", "DC720")
    cached = tree.run(*words)
    assert tree.run(*words, cached=False) == cached
    return [item["severity"] for item in cached[0]]


DOCUMENT = f"```bash\nsource env.sh\n{SEVERAL}```\n"


def name_another_script(tree: Tree) -> None:
    tree.write("README.md", DOCUMENT.replace("train.py", "other.py"))


def rename_the_document(tree: Tree) -> None:
    (tree.folder / "README.md").rename(tree.folder / "README.txt")


@pytest.mark.parametrize(
    ("change", "level"),
    [
        (lambda tree: tree.write("train.py", MAYBE, at=OLD + 1), "warning"),
        (lambda tree: tree.write("docs/start.md", DOCUMENT.replace("torchrun", "python")), "warning"),
        (name_another_script, "info"),
        (rename_the_document, "info"),
    ],
)
def test_a_changed_document_is_read_again(tree: Tree, change: Callable[[Tree], None], level: str) -> None:
    tree.write("train.py", MAYBE)
    tree.write("env.sh", "export A=1\n")
    tree.write("README.md", DOCUMENT)
    assert severities(tree) == ["warning"]
    change(tree)
    assert severities(tree) == [level]


def test_a_document_that_is_added_is_read(tree: Tree) -> None:
    tree.write("train.py", MAYBE)
    assert severities(tree) == ["info"]
    tree.write("docs/start.md", DOCUMENT)
    assert severities(tree) == ["warning"]


def test_documents_that_have_not_changed_are_not_parsed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("train.py", MAYBE)
    tree.write("README.md", DOCUMENT)
    parsed: list[str] = []
    read_one = launch_engine.read_one

    def counted(path: str, *given: Any) -> Any:
        parsed.append(path)
        return read_one(path, *given)

    monkeypatch.setattr(documented, "read_one", counted)
    words = ("--select", "DC720")
    first = tree.run(*words)
    assert len(parsed) == 1
    assert tree.run(*words) == first
    assert len(parsed) == 1
    tree.write("README.md", DOCUMENT + "\n")
    assert tree.run(*words) == first
    assert len(parsed) == 2


def test_a_file_that_a_document_sources_is_part_of_the_answers(tree: Tree) -> None:
    tree.write("env.sh", "export A=1\n")
    tree.write("README.md", DOCUMENT)
    files = document_files.DocumentFiles()
    assert files.documents(str(tree.folder)) == ["README.md"]
    assert files.sourced(str(tree.folder), "env.sh") == b"export A=1\n"
    assert files.sourced(str(tree.folder), "gone.sh") is None
    answers = files.answers()
    assert document_files.is_unchanged(answers)
    tree.write("gone.sh", "")
    assert not document_files.is_unchanged(answers)
    (tree.folder / "gone.sh").unlink()
    tree.write("env.sh", "export A=2\n")
    assert not document_files.is_unchanged(answers)
