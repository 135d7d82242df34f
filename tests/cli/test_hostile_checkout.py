"""What a checkout brings along: links that lead out of it where a command writes, pipes and devices where one reads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .test_cli import environment
from .test_lint import TRAIN

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")

WRITERS = {
    "lint -o": ("lint", "--no-cache", "-o", "out", "."),
    "lint --write-baseline": ("lint", "--no-cache", "--write-baseline", "out", "."),
    "lint --diff -o": ("lint", "--no-cache", "--diff", "--unsafe-fixes", "-o", "out", "."),
    "pickle -o": ("pickle", "-o", "out", "."),
    "log -o": ("log", "-o", "out", "a.log"),
    "env --save-facts": ("env", "--save-facts", "out"),
    "run --log": ("run", "--log", "out", "--", "true"),
    "ci --also": ("ci", "--parts", "lint", "--also", "json=out"),
    "ci --summary": ("ci", "--parts", "lint", "--summary", "out"),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "a.log").write_text("[rank0]: RuntimeError: x\n")
    return folder


def distcheck(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distcheck", *words],
        cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_bad_no_report_goes_through_a_link_out_of_the_checkout(checkout: Path, tmp_path: Path, name: str) -> None:
    (victim := tmp_path / "victim").write_text("mine")
    (checkout / "out").symlink_to(victim)
    result = distcheck(*WRITERS[name], cwd=checkout)
    assert result.returncode == 2, result.stdout
    assert f"it is a link to {victim}, outside of the checkout; name that file itself" in result.stderr
    assert victim.read_text() == "mine"


def test_good_links_inside_and_folders_of_the_user(checkout: Path, tmp_path: Path) -> None:
    (outside := tmp_path / "scratch").mkdir()
    (latest := outside / "latest").symlink_to(outside / "today")
    (outside / "today").write_text("old")
    (checkout / "report").write_text("old")
    (checkout / "out").symlink_to("report")
    (checkout / "scratch").symlink_to(outside)
    for path in ("out", "scratch/report", "scratch/latest", str(latest), "/dev/stdout"):
        result = distcheck("lint", "--no-cache", "-o", path, ".", cwd=checkout)
        assert result.returncode == 1, result.stderr
    for file in (checkout / "report", outside / "report", outside / "today"):
        assert file.read_text().startswith("distcheck lint")
    assert (checkout / "out").is_symlink() and latest.is_symlink()


@pytest.mark.parametrize("name", [".github", ".github/workflows", "pyproject.toml", ".pre-commit-config.yaml"])
def test_bad_init_writes_nothing_through_a_link_out_of_the_checkout(checkout: Path, tmp_path: Path, name: str) -> None:
    (outside := tmp_path / "outside").mkdir()
    target = outside
    if "." in name[1:]:
        (target := outside / "file").write_text("# private\n")
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).symlink_to(target)
    result = distcheck("init", "--github", "--pre-commit", "--no-baseline", "--yes", cwd=checkout)
    assert result.returncode == 2, result.stdout
    assert f"a link leads from {name}" in result.stderr and "outside of the checkout" in result.stderr
    assert "private" not in result.stdout
    assert [entry.name for entry in outside.rglob("*")] == ([] if target == outside else ["file"])
    assert target.is_dir() or target.read_text() == "# private\n"


def test_good_init_follows_a_link_inside_of_the_checkout(checkout: Path) -> None:
    (checkout / "shared.yaml").write_text("repos: []\n")
    (checkout / "part").mkdir()
    (checkout / "part" / ".pre-commit-config.yaml").symlink_to("../shared.yaml")
    result = distcheck("init", "part", "--pre-commit", "--no-baseline", "--yes", cwd=checkout)
    assert "outside" not in result.stderr
    assert result.returncode in (0, 1)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [_pipe, _device])
@pytest.mark.parametrize(
    ("name", "words", "status"),
    [
        ("pyproject.toml", ("init", "--no-baseline", "--yes"), 2),
        (".gitlab-ci.yml", ("init", "--no-baseline", "--yes"), 2),
        ("pyproject.toml", ("pickle", "x.pkl"), 0),
        ("pyproject.toml", ("pickle", "."), 0),
        ("setup.cfg", ("lint", "--no-cache", "good.py"), 0),
    ],
)
def test_bad_no_pipe_or_device_of_a_checkout_is_read(
    checkout: Path, make: Callable[[Path], None], name: str, words: tuple[str, ...], status: int
) -> None:
    (checkout / "x.pkl").write_bytes(b"\x80\x04N.")
    (checkout / "good.py").write_text("import torch\n")
    make(checkout / name)
    result = distcheck(*words, cwd=checkout)
    assert result.returncode == status, result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_bad_an_edit_of_the_same_size_and_time_is_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor, rsync or tar may set the old time again: --fix wrote over such an edit."""
    from click.testing import CliRunner

    from distcheck.cli import lint_results
    from distcheck.cli.main import group

    path = checkout / "train.py"
    old = path.stat()
    edited = "#" + TRAIN[1:]
    write = lint_results._write_changes

    def edit_first(*arguments: object) -> bool:
        path.write_text(edited)
        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lint_results, "_write_changes", edit_first)
    monkeypatch.chdir(checkout)
    result = CliRunner().invoke(group, ["lint", "--isolated", "--no-cache", "--fix", "."], standalone_mode=False)
    assert "train.py is left as it is: it was changed during the check" in result.stderr
    assert path.read_text() == edited
