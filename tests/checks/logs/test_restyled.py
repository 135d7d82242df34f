"""The labelled logs in other dress: mixed anew, behind other prefixes, among lines of training. The answer stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import noise
from .cases import Case, Expectation, every_case, read_case, told

pytestmark = [pytest.mark.slow, pytest.mark.sampled(every=20)]

#: Of one file, with a failure in it.
CASES = [case for case in every_case() if case.is_bad and case.path.is_file() and read_case(case)[0].cause != "clean"]
#: That a job still waits is known only by nothing following; progress of whoever it is says that it does not.
STILL_WAITING = {
    "DC404/bad_after_a_restart.log",
    "DC404/bad_mac.log",
    "DC404/bad_ssh_of_a_launcher.log",
    "DC404/bad_still_waiting.log",
    "DC416/bad_local_protection_error.log",
    "DC417/bad_a_transfer_fails.log",
    "DC417/bad_an_empty_list.log",
    "DC417/bad_no_data_available.log",
    "DC417/bad_no_provider_at_the_end.log",
    "DC502/bad_more_wait_at_the_end.log",
    "DC511/bad_blocking_wait.log",
    "DC511/bad_first_collective_old_torch.log",
    "DC518/bad_horovod_shut_down.log",
    # Ray starts lost workers again
    "DC518/bad_ray_names_the_dead_worker.log",
    "DC518/bad_ray_reports_a_dead_worker.log",
    "DC518/bad_unique_id_lost.log",
    "DC518/bad_verl_names_the_dead_actor.log",
}
#: A host's name before a line ("gpu-b: ") counts as a prefix only where the file as a whole speaks for it.
LABELLED = {"DC411/bad_master.log"}
#: What stands directly before a line, or behind it, tells the rule, and the noise stands between.
TORN = {"DC323/bad_bare_memory_error.log", "DC726/bad_store_wait.log"}
#: What tells the rule is which host wrote, and that prefix is taken away.
BY_HOST = {"DC408/bad_srun.log", "DC203/bad_all_but_first.log"}


def answer(case: Case, data: bytes, folder: Path) -> str | None:
    """The code that is told, ``none`` for a failure that no rule names."""
    story = told({case.path.name: data}, folder / "log").story
    return "none" if story["outcome"] in ("unnamed", "consequences") else story.get("code")


def parts(case: Case) -> tuple[Expectation, bytes]:
    expectation, texts = read_case(case)
    return expectation, next(iter(texts.values()))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in STILL_WAITING | LABELLED | TORN], ids=lambda case: case.name
)
def test_among_lines_of_training(case: Case, tmp_path: Path) -> None:
    expected, data = parts(case)
    assert answer(case, noise.surround_with_noise(data, lines=800, seed=1), tmp_path) == expected.cause


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in STILL_WAITING], ids=lambda case: case.name)
def test_with_lines_of_training_behind_it(case: Case, tmp_path: Path) -> None:
    expected, data = parts(case)
    behind = b"\n".join(noise.training_noise(800, 3))
    assert answer(case, data + b"\n" + behind + b"\n", tmp_path) == expected.cause


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_its_ranks_mixed_anew(case: Case, tmp_path: Path) -> None:
    expected, data = parts(case)
    assert answer(case, noise.shuffle_ranks(data, seed=1), tmp_path) == expected.cause


@pytest.mark.parametrize("style", ["rank", "kubernetes", "colour"])
@pytest.mark.parametrize("case", [case for case in CASES if case.name not in BY_HOST], ids=lambda case: case.name)
def test_behind_other_prefixes(case: Case, style: str, tmp_path: Path) -> None:
    expected, data = parts(case)
    assert answer(case, noise.reprefix(data, style), tmp_path) == expected.cause


@pytest.mark.parametrize("name", ["DC401", "DC101", "DC701", "DC323", "DC320"])
def test_in_100_000_lines(name: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.code == name)
    expected, data = parts(case)
    assert answer(case, noise.surround_with_noise(data, lines=100_000, seed=2), tmp_path) == expected.cause
