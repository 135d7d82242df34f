"""Which file a launch line names."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.paths import candidates, folders_of, the_one

from .sites import site_of


@pytest.mark.parametrize(
    ("path", "folders"),
    [
        ("run.sh", [""]),
        ("jobs/gpu/run.sh", ["jobs/gpu", "jobs", ""]),
        ("/data/jobs/run.sh", ["/data/jobs", "/data", "/"]),
        ("../jobs/run.sh", ["../jobs", "..", ""]),
    ],
)
def test_folders_that_a_name_may_be_told_from(path: str, folders: list[str]) -> None:
    assert list(folders_of(site_of("torchrun train.py", path))) == folders


def test_a_change_of_folder_counts_from_where_the_script_was_started() -> None:
    assert candidates(site_of("torchrun train.py", "jobs/run.sh", folder="src/"), "train.py") == [
        "jobs/src/train.py",
        "src/train.py",
    ]
    assert candidates(site_of("torchrun train.py", "jobs/run.sh", folder=".."), "train.py") == [
        "train.py",
        "../train.py",
    ]
    assert candidates(site_of("torchrun train.py", "jobs/run.sh", folder="/opt/zoo"), "train.py") == [
        "/opt/zoo/train.py"
    ]


@pytest.mark.parametrize("name", ["$X/train.py", "~/train.py", "*.py", "`pwd`/train.py", ""])
def test_a_name_that_the_shell_makes_is_none(name: str) -> None:
    assert candidates(site_of("torchrun x.py"), name) == []


@pytest.mark.parametrize("name", ["$SCRIPT_DIR/train.py", "${HERE}/train.py", '$(dirname "$0")/train.py'])
def test_the_folder_of_the_script_itself_is_known(name: str) -> None:
    assert candidates(site_of("torchrun x.py", "jobs/run.sh"), name) == ["jobs/train.py"]


def test_of_two_files_none_is_surely_the_one() -> None:
    site = site_of("torchrun train.py", "jobs/run.sh")
    assert the_one(site, ("train.py",), {"jobs/train.py"}.__contains__) == "jobs/train.py"
    assert the_one(site, ("train.py",), {"train.py"}.__contains__) == "train.py"
    assert the_one(site, ("train.py",), {"train.py", "jobs/train.py"}.__contains__) is None
    assert the_one(site, ("train.py",), set().__contains__) is None
