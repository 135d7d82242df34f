"""What a run keeps about single files of a part: scripts that were followed, and findings of launch files alone."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.checks.source import simulated_ranks
from distcheck.cli import lint_verdicts
from distcheck.core import checker

from .test_lint_verdicts import JOB, OLD, Tree
from .test_lint_verdicts import tree as tree  # a fixture

SCRIPT = """\
import torch
import torch.distributed as dist

from exchange import exchange


def main():
    dist.init_process_group("gloo")
    exchange(dist.get_rank())


if __name__ == "__main__":
    main()
"""
#: It calls what nothing is known of.
SECOND = SCRIPT.replace("import torch\n", "import torch\nimport settings\n").replace(
    "    exchange(", "    settings.meter().note(1)\n    exchange("
)
EXCHANGE = """\
import torch
import torch.distributed as dist


def exchange(rank):
    if rank == 0:
        dist.send(torch.ones(3), 1)
    elif rank == 1:
        dist.recv(torch.ones(3), 0)
"""
UNEVEN = EXCHANGE.replace("dist.recv(torch.ones(3)", "dist.recv(torch.ones(2)")
OTHER = """\
import torch.distributed as dist


def report(value):
    dist.barrier()
"""


@pytest.fixture
def followed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fill the tree, and return the files that are followed from then on."""
    found: list[int] = []
    follow = simulated_ranks._outcomes

    def counted(sources: Any, file: int) -> Any:
        found.append(file)
        return follow(sources, file)

    monkeypatch.setattr(simulated_ranks, "_outcomes", counted)
    files = {
        "train.py": SCRIPT,
        "exchange.py": EXCHANGE,
        "other.py": OTHER,
        "job.sbatch": JOB,
        "env.sh": "export A=1\n",
    }
    for name, text in files.items():
        tree.write(name, text)
    tree.run()
    assert found, "the script is followed by the first run"
    found.clear()
    return found


def test_a_script_is_not_followed_again_if_another_file_changes(tree: Tree, followed: list[int]) -> None:
    tree.write("other.py", OTHER + "\n\nWIDTH = 3\n", at=OLD + 1)
    tree.run()
    assert tree.judged == 1
    assert followed == []


def test_bad_a_fault_in_a_module_that_it_goes_through(tree: Tree, followed: list[int]) -> None:
    tree.write("exchange.py", UNEVEN, at=OLD + 1)
    assert "DC709 exchange.py" in tree.check()
    tree.write("other.py", OTHER + "\n\nWIDTH = 3\n", at=OLD + 1)
    assert "DC709 exchange.py" in tree.check()
    tree.write("exchange.py", EXCHANGE, at=OLD + 2)
    assert "DC709 exchange.py" not in tree.check()


def test_a_module_that_a_name_leads_to_now(tree: Tree, followed: list[int]) -> None:
    tree.write("settings.py", "import torch.distributed as dist\n\n\ndef meter():\n    dist.barrier()\n", at=OLD + 1)
    tree.run()
    assert followed


def test_a_name_that_communicates_now(tree: Tree, followed: list[int]) -> None:
    tree.write("other.py", OTHER.replace("report", "note"), at=OLD + 1)
    tree.run()
    assert followed


@pytest.mark.parametrize("damaged", [3, (b"", 3, 3), ((), (), ((1, 2),))])
def test_damaged_answers_are_found_again(
    tree: Tree, followed: list[int], monkeypatch: pytest.MonkeyPatch, damaged: object
) -> None:
    monkeypatch.setattr(lint_verdicts.CachedAnswers, "recall", lambda self, *name: damaged)
    tree.write("exchange.py", UNEVEN, at=OLD + 1)
    assert "DC709 exchange.py" in tree.check()


def test_launch_files_are_judged_once_for_many_edits_of_scripts(
    tree: Tree, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    found_by = checker._Run.found_by

    def counted(self: Any, probe: Any, values: Any) -> Any:
        ran.append(probe.name)
        return found_by(self, probe, values)

    monkeypatch.setattr(checker._Run, "found_by", counted)
    status, values = "launch_files.exit_status.status_of_the_launch_is_kept", "launch_files.variables.names_are_known"
    tree.write("exchange.py", UNEVEN, at=OLD + 1)
    before = tree.run()[0]
    assert ran and status not in ran
    # what a file that the job sources holds counts
    tree.write("env.sh", "export NCCL_DEBUGG=INFO\n", at=OLD + 1)
    found = tree.check()
    assert status in ran and values in ran
    assert len(found) > len(before)
