"""The plug-in in runs of pytest: what ``--distcheck`` adds, tests on ranks, and what each failure looks like."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

BAD = """\
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    dist.broadcast(torch.ones(2), src=dist.get_rank())


main()
"""
MILD = """\
import os
import torch
import torch.distributed as dist
print(os.environ["SLURM_NNODES"])
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
"""
JOB = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
srun torchrun --nnodes=2 --nproc-per-node=8 train.py
"""
needs_torch = pytest.mark.torch


@pytest.fixture(scope="module", autouse=True)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What runs of pytest in this process need, imported before them: they forget what they import, and neither torch
    nor a registry of probes can be imported a second time.
    """
    from distcheck.cli.lint import command

    folder = tmp_path_factory.mktemp("before")
    (folder / "train.py").write_text(BAD)
    (folder / "train.sbatch").write_text(JOB)
    command.main(["--isolated", "--no-cache", "-o", str(folder / "report"), str(folder)], standalone_mode=False)
    importlib.import_module("distcheck.testing.linting")
    importlib.import_module("distcheck.testing.plugin")
    importlib.import_module("distcheck.checks.pickles.picklability")
    wanted = any(item.get_closest_marker("torch") for item in request.session.items if item.path == request.path)
    if wanted and importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch.distributed")


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that know nothing of this one's options."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """pytest in this process, on the files made so far."""
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def write(pytester: pytest.Pytester, **files: str) -> None:
    """Files by their names, with two underscores for the dot."""
    for name, text in files.items():
        Path(pytester.path, name.replace("__", ".")).write_text(textwrap.dedent(text), encoding="utf-8")


def lines_of(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines + result.errlines)


# what it costs


def test_a_run_that_asks_for_nothing_pays_nothing(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        conftest__py="""\
            import sys


            def pytest_unconfigure(config):
                ours = sorted(name for name in sys.modules if name.split(".")[0] == "distcheck")
                print("OURS", *ours)
                heavy = {"click", "torch", "yaml", "psutil", "tree_sitter", "multiprocessing.connection"}
                print("HEAVY", *sorted(heavy & set(sys.modules)))
            """,
        test_one__py="def test_one(): pass\n",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:xdist",
        "-p",
        "no:timeout",
    ]
    result = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout
    assert "OURS distcheck distcheck.pytest_plugin\n" in result.stdout
    assert "HEAVY\n" in result.stdout


def test_it_can_be_switched_off(pytester: pytest.Pytester) -> None:
    write(pytester, test_one__py="def test_one(distributed): pass\n")
    result = run(pytester, "-p", "no:distcheck")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'distributed' not found*"])


def test_its_marks_are_known(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.distributed(n, *", "@pytest.mark.distcheck: *"])


# --distcheck


def test_findings_fail_as_tests(pytester: pytest.Pytester) -> None:
    write(pytester, train__py=BAD, test_one__py="def test_one(): pass\n")
    result = run(pytester, "--distcheck")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "train.py F*",
            "*___ train.py::distcheck ___*",
            "1 finding: DC709 arguments-differ-by-rank",
            "*- error DC709 arguments-differ-by-rank (train.py:7) -*",
            "  7 |     dist.broadcast(*",
            "  help: *",
            "FAILED train.py::distcheck - 1 finding: DC709 arguments-differ-by-rank",
        ]
    )
    assert "linting.py" not in lines_of(result)


def test_short_tracebacks_are_short_findings_with_their_fix(pytester: pytest.Pytester) -> None:
    write(pytester, train__py=BAD)
    result = run(pytester, "--distcheck", "--tb=short")
    result.stdout.fnmatch_lines(["train.py:7:5: DC709 *", "fix: pass the same src*"])


def test_a_clean_project_passes(pytester: pytest.Pytester) -> None:
    write(pytester, train__py="import torch.distributed as dist\n\ndist.init_process_group()\n")
    result = run(pytester, "--distcheck", "-rP", "--distcheck-ignore", "DC7")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["distcheck lint · 1 file*"])


def test_a_project_without_anything_to_look_at_is_skipped_and_said_so(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--distcheck", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no Python files and no launch files below *"])


def test_launch_files_are_looked_at(pytester: pytest.Pytester) -> None:
    write(pytester, train__sbatch=JOB, train__py="print()\n")
    result = run(pytester, "--distcheck", "--distcheck-fail-on", "warning")
    result.stdout.fnmatch_lines(["FAILED train.sbatch::distcheck - *DC106 double-launch*"])


def test_milder_findings_are_warnings_and_fail_on_raises_them(pytester: pytest.Pytester) -> None:
    write(pytester, train__py=MILD)
    result = run(pytester, "--distcheck", "--distcheck-select", "DC201")
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*train.py:6: DistcheckWarning: DC201 global-rank-as-device: *"])
    result = run(pytester, "--distcheck", "--distcheck-select", "DC201", "--distcheck-fail-on", "warning")
    result.assert_outcomes(passed=1, failed=1)
    result = run(pytester, "--distcheck", "--distcheck-select", "DC201", "-W", "error::UserWarning")
    result.assert_outcomes(passed=1, failed=1)


def test_the_configuration_of_the_project_counts(pytester: pytest.Pytester) -> None:
    write(pytester, train__py=BAD, pyproject__toml='[tool.distcheck]\nselect = ["DC720"]\n')
    run(pytester, "--distcheck").assert_outcomes(passed=1)
    write(pytester, pyproject__toml='[tool.distcheck]\nfail-on = "never"\nselect = ["DC709"]\n')
    run(pytester, "--distcheck").assert_outcomes(passed=2, warnings=1)
    write(pytester, pyproject__toml='[tool.distcheck]\nexclude = ["train.py"]\n')
    run(pytester, "--distcheck").assert_outcomes(skipped=1)


def test_the_root_folder_is_looked_at_from_wherever_it_is_called(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pytester, train__py=BAD, pyproject__toml="[tool.pytest.ini_options]\n")
    below = pytester.mkdir("below")
    (below / "test_one.py").write_text("import os\ndef test_one(): assert os.path.basename(os.getcwd()) == 'below'\n")
    monkeypatch.chdir(below)
    result = run(pytester, "--distcheck")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["FAILED *train.py::distcheck - 1 finding: DC709*"])


def test_a_line_can_be_silenced(pytester: pytest.Pytester) -> None:
    write(pytester, train__py=BAD.replace("get_rank())", "get_rank())  # noqa: DC709"))
    run(pytester, "--distcheck", "--distcheck-select", "DC709").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        (("-m", "distcheck"), {"passed": 1, "failed": 1, "deselected": 1}),
        (("-m", "not distcheck"), {"passed": 1, "deselected": 2}),
        (("-k", "train"), {"failed": 1, "deselected": 2}),
        (("test_one.py",), {"passed": 2, "failed": 1}),
    ],
)
def test_they_are_selected_as_tests_are(
    pytester: pytest.Pytester, options: tuple[str, ...], counts: dict[str, int]
) -> None:
    write(pytester, train__py=BAD, test_one__py="def test_one(): pass\n")
    run(pytester, "--distcheck", *options).assert_outcomes(**counts)


@pytest.mark.parametrize(
    ("files", "options", "text"),
    [
        ({}, ("--distcheck-select", "DC70l"), "--distcheck: *DC70l*"),
        ({"pyproject__toml": "[tool.distcheck]\nignroe = []\n"}, (), "--distcheck: *did you mean 'ignore'*"),
    ],
)
def test_what_is_used_wrongly_is_said_in_a_line(
    pytester: pytest.Pytester, files: dict[str, str], options: tuple[str, ...], text: str
) -> None:
    write(pytester, train__py=BAD, **files)
    result = run(pytester, "--distcheck", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert any(line.startswith("ERROR: --distcheck: ") for line in result.errlines), lines_of(result)
    result.stderr.fnmatch_lines([f"ERROR: {text}"])


def test_a_file_that_is_no_python_is_a_finding(pytester: pytest.Pytester) -> None:
    write(pytester, train__py="import torch.distributed\nif\n", other__py="print()\n")
    result = run(pytester, "--distcheck", "--distcheck-fail-on", "warning")
    result.stdout.fnmatch_lines(["FAILED train.py::distcheck - 1 finding: DC904*"])


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
@pytest.mark.slow
@pytest.mark.full
def test_it_works_under_xdist(pytester: pytest.Pytester) -> None:
    write(pytester, train__py=BAD, test_one__py="def test_one(): pass\n")
    result = pytester.runpytest_subprocess("--distcheck", "-n", "2", "-p", "no:cacheprovider", timeout=100)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*- error DC709 arguments-differ-by-rank (train.py:7) -*", "FAILED train.py::distcheck - 1 finding: DC709*"]
    )


# fixtures without ranks


def test_a_port_and_a_picklable_object(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        test_one__py="""\
            import socket, threading

            def test_port(free_port):
                with socket.create_server(("127.0.0.1", free_port)):
                    socket.create_connection(("127.0.0.1", free_port), timeout=5).close()

            def test_good(assert_picklable):
                assert_picklable({"numbers": [1, 2]}, mode="spawn")

            def test_bad(assert_picklable):
                assert_picklable({"state": [threading.Lock()]}, name="trainer")
            """,
    )
    result = run(pytester)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            '>       assert_picklable({"state": [[]threading.Lock()[]]}, name="trainer")',
            "E       AssertionError: trainer can't be pickled: 1 member stops it",
            "E         trainer[[]'state'[]][[]0[]] (_thread.lock)",
        ]
    )
    assert "find_unpicklable" not in lines_of(result)


# ranks


def test_without_torch_a_test_on_ranks_is_skipped_and_says_why(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    write(
        pytester,
        test_one__py="""\
            import pytest

            def test_fixture(distributed):
                distributed(2, print)

            @pytest.mark.distributed(2)
            def test_mark():
                pass
            """,
    )
    result = run(pytester, "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED *ranks need torch: torch is not installed for *"])


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("distributed", "the mark is distributed(); expected distributed(n) or *"),
        ("distributed(2, 3)", "the mark is distributed(2, 3); expected *"),
        ("distributed(2, tiemout=3)", "the mark is distributed(2, tiemout=3); expected *"),
        ("distributed([])", "*got empty parameter set*"),
    ],
)
def test_a_mark_that_is_not_right_is_no_passed_test(pytester: pytest.Pytester, mark: str, text: str) -> None:
    write(pytester, test_one__py=f"import pytest\n\n@pytest.mark.{mark}\ndef test_one():\n    pass\n")
    result = run(pytester, "-rs")
    assert result.parseoutcomes().get("passed", 0) == 0
    result.stdout.fnmatch_lines([f"*{text}"])


def test_a_mark_on_a_method_of_unittest_is_no_passed_test(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        test_one__py="""\
            import unittest
            import pytest

            class TestIt(unittest.TestCase):
                @pytest.mark.distributed(2)
                def test_one(self):
                    pass
            """,
    )
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the mark 'distributed' does not reach methods of a unittest.TestCase; call *"])


GOOD_TESTS = """\
    import os
    import unittest
    import pytest


    def total(value):
        import torch
        import torch.distributed as dist

        tensor = torch.tensor([float(value)])
        dist.all_reduce(tensor)
        return tensor.item()


    def rank():
        return int(os.environ["RANK"])


    def test_fixture(distributed):
        assert distributed(3, lambda: total(rank())) == [3.0] * 3


    def test_arguments(distributed):
        assert distributed(2, total, 4) == distributed(2, total, value=4) == [8.0, 8.0]


    @pytest.mark.parametrize("n", [1, 2])
    def test_parametrised(distributed, n):
        assert distributed(n, total, 1) == [n] * n


    @pytest.mark.distributed(2)
    def test_mark(tmp_path, monkeypatch):
        (tmp_path / str(rank())).touch()
        assert total(1) == 2
        assert sorted(os.listdir(tmp_path)) == ["0", "1"]


    @pytest.mark.distributed([1, 2])
    @pytest.mark.parametrize("value", [3])
    def test_sizes(world_size, value):
        assert total(value) == value * world_size


    @pytest.mark.distributed([1, 2])
    def test_sizes_that_nobody_asks_for():
        assert total(1) == int(os.environ["WORLD_SIZE"])


    class TestMethods:
        pytestmark = pytest.mark.distributed(2, timeout=30, init=False)

        def test_method(self):
            import torch.distributed as dist

            assert not dist.is_initialized()
            dist.init_process_group("gloo")
            assert total(1) == 2


    def test_own_error(distributed):
        from distcheck.testing import RanksFailed

        with pytest.raises(RanksFailed, match="rank 1 of 2 failed: ZeroDivisionError") as caught:
            distributed(2, lambda: 1 // (1 - rank()))
        assert caught.value.failures[1].kind == "ZeroDivisionError"


    def test_skip(distributed):
        distributed(2, lambda: pytest.skip("no GPU here"))


    @pytest.mark.distributed(2)
    def test_skip_by_mark():
        raise unittest.SkipTest("no time")


    @pytest.mark.distributed(2)
    def test_known():
        pytest.xfail("a known bug")


    @pytest.mark.xfail(strict=True)
    @pytest.mark.distributed(2)
    def test_marked_known():
        assert rank() == 0
    """


@needs_torch
def test_tests_on_ranks(pytester: pytest.Pytester) -> None:
    write(pytester, test_ranks__py=GOOD_TESTS)
    result = run(pytester, "-rs", "-W", "error")
    result.assert_outcomes(passed=11, skipped=2, xfailed=2)
    result.stdout.fnmatch_lines(["SKIPPED *no GPU here", "SKIPPED *no time"])


@needs_torch
@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
@pytest.mark.slow
@pytest.mark.full
def test_tests_on_ranks_under_xdist(pytester: pytest.Pytester) -> None:
    write(pytester, test_ranks__py=GOOD_TESTS)
    result = pytester.runpytest_subprocess("-n", "2", "-p", "no:cacheprovider", timeout=200)
    result.assert_outcomes(passed=11, skipped=2, xfailed=2)


@needs_torch
def test_what_failures_look_like(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        test_ranks__py="""\
            import logging
            import os
            import time
            import pytest
            import torch.distributed as dist


            @pytest.mark.distributed(2)
            def test_compares():
                print("in", dist.get_rank())
                logging.warning("careful")
                if dist.get_rank() == 1:
                    assert [1, 2] == [1, dist.get_rank()]


            def test_raises(distributed):
                def body():
                    if dist.get_rank() == 1:
                        raise KeyError("lr")

                distributed(2, body)


            def test_hangs(distributed):
                def body():
                    if dist.get_rank() == 0:
                        time.sleep(600)
                    dist.barrier()

                distributed(2, body, timeout=0.5)


            @pytest.mark.distributed(2)
            def test_dies():
                if dist.get_rank() == 1:
                    os._exit(3)
                dist.barrier()


            def test_is_killed(distributed):
                distributed(1, lambda: os.kill(os.getpid(), 9))


            @pytest.mark.distributed(1)
            def test_stays_as_a_coroutine():
                pytest.fail("said so")
            """,
    )
    result = run(pytester, "-vv")
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(
        [
            "*___ test_compares ___*",
            "rank 1 of 2 failed: assert [[]1, 2[]] == [[]1, 1[]]",
            "*--- rank 1 failed ---*",
            "    @pytest.mark.distributed(2)",
            ">           assert [[]1, 2[]] == [[]1, dist.get_rank()[]]",
            "E           assert [[]1, 2[]] == [[]1, 1[]]",
            "E             At index 1 diff: 2 != 1",
            "test_ranks.py:13: AssertionError",
            "*Captured stdout call*",
            "*[[]rank *[]] in 0",
            "*___ test_raises ___*",
            ">       distributed(2, body)",
            "E       distcheck.testing.RanksFailed: rank 1 of 2 failed: KeyError: 'lr'",
            "*--- rank 1 failed ---*",
            '>           raise KeyError("lr")',
            "E           KeyError: 'lr'",
            "*___ test_hangs ___*",
            "E       distcheck.testing.RanksFailed: not all of 2 ranks came to the end within 0.5 s: rank 0 is at "
            "test_ranks.py:27 (time.sleep(600)); rank 1 waits in barrier (#1)",
            "*--- rank 0 still running ---*",
            "test_ranks.py:27 in body",
            "    time.sleep(600)",
            "*--- rank 1 still running ---*",
            "last collectives: #1 barrier []".replace("[]", "[[][]]"),
            "*___ test_dies ___*",
            "rank 1 of 2 died: it exited with status 3",
            "*--- rank 0 lost the others ---*",
            "*___ test_is_killed ___*",
            "E       distcheck.testing.RanksFailed: rank 0 of 1 died: it was killed by SIGKILL",
            "FAILED test_ranks.py::test_compares - rank 1 of 2 failed: assert [[]1, 2[]] == [[]1, 1[]]*",
            "FAILED test_ranks.py::test_stays_as_a_coroutine - rank 0 of 1 failed: said so",
        ]
    )
    text = lines_of(result)
    assert "[rank 1] WARNING root:test_ranks.py:11 careful" in text
    for file in ("ranks.py:", "rank.py:", "in_pytest.py", "pytest_plugin.py"):
        assert not [line for line in text.splitlines() if line.startswith(file) or f"testing/{file}" in line], text


@needs_torch
def test_the_timeout_is_an_option_and_a_setting(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        test_one__py="""\
            import time

            def test_one(distributed):
                distributed(1, time.sleep, 600)
            """,
        pytest__ini="[pytest]\ndistcheck_timeout = 0.3\n",
    )
    run(pytester).stdout.fnmatch_lines(["*came to the end within 0.3 s*"])
    run(pytester, "--distcheck-timeout", "0.2").stdout.fnmatch_lines(["*came to the end within 0.2 s*"])
    write(pytester, pytest__ini="[pytest]\ndistcheck_timeout = soon\n")
    run(pytester).stdout.fnmatch_lines(["distcheck_timeout is 'soon' in *; expected seconds"])


@needs_torch
@pytest.mark.slow
def test_a_spawned_rank_says_what_an_assertion_compared(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        test_one__py="""\
            def body(number):
                assert number == 3

            def test_one(distributed):
                distributed(1, body, 4, start="spawn")

            def test_closure(distributed):
                number = 3
                distributed(1, lambda: body(number), start="spawn")
            """,
    )
    result = run(pytester)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            ">       assert number == 3",
            "E       assert 4 == 3",
            "E       TypeError: a spawned rank gets its body through pickle, and this can't be pickled:",
            "E         sent[[]'body'[]] (function)",
        ]
    )
