"""What ``distcheck init`` tells CI to install: it is installed for real, and the printed line run in a clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import distcheck
from distcheck.cli import scaffold
from distcheck.cli.installation import Installation, _direct_url, find, of_direct_url

ROOT = Path(__file__).parents[2]
VERSION = distcheck.__version__
WHEEL = f".distcheck/distcheck-{VERSION}-py3-none-any.whl"
COMMIT = "0123456789012345678901234567890123456789"
SECRET = "s3cret"
#: An address that git maps to a folder; the user's copy is installed with a login.
REMOTE = "https://git.example.com/team/distcheck.git"


def vcs(url: str, **more: str) -> dict[str, Any]:
    return {"url": url, "vcs_info": {"vcs": "git", "commit_id": COMMIT}, **more}


@pytest.mark.parametrize(
    ("direct", "requirement"),
    [
        (None, f"distcheck=={VERSION}"),
        (vcs("https://git.example.com:8443/a/b.git"), f"distcheck @ git+https://git.example.com:8443/a/b.git@{COMMIT}"),
        (vcs("ssh://git@git.example.com/a/b"), f"distcheck @ git+ssh://git@git.example.com/a/b@{COMMIT}"),
        (
            vcs("https://git.example.com/a/b", subdirectory="tools/x"),
            f"distcheck @ git+https://git.example.com/a/b@{COMMIT}#subdirectory=tools/x",
        ),
        (vcs(f"https://me:{SECRET}@git.example.com/a"), f"distcheck @ git+https://git.example.com/a@{COMMIT}"),
        (vcs(f"https://{SECRET}@git.example.com/a"), f"distcheck @ git+https://git.example.com/a@{COMMIT}"),
        (vcs(f"ssh://git:{SECRET}@git.example.com/a"), f"distcheck @ git+ssh://git.example.com/a@{COMMIT}"),
        (vcs(f"https://git.example.com/a?token={SECRET}"), f"distcheck @ git+https://git.example.com/a@{COMMIT}"),
        (
            {"url": "https://example.com/d.whl", "archive_info": {"hashes": {"sha256": "ab"}}},
            "distcheck @ https://example.com/d.whl#sha256=ab",
        ),
        (
            {"url": "https://example.com/d.whl", "archive_info": {"hash": "sha256=ab"}},
            "distcheck @ https://example.com/d.whl#sha256=ab",
        ),
        ({"url": "https://example.com/d.whl", "archive_info": {}}, "distcheck @ https://example.com/d.whl"),
        # these can't be written without their credentials, or be reached
        ({"url": f"https://me:{SECRET}@example.com/d.whl", "archive_info": {}}, f"./{WHEEL}"),
        ({"url": f"https://example.com/d.whl?signature={SECRET}", "archive_info": {}}, f"./{WHEEL}"),
        ({"url": "file:///nowhere/d.whl", "archive_info": {}}, f"./{WHEEL}"),
        ({"url": "file:///nowhere/d", "dir_info": {"editable": True}}, f"./{WHEEL}"),
        (vcs("file:///nowhere/d"), f"./{WHEEL}"),
        ({"url": "https://example.com:no/d.whl", "archive_info": {}}, f"./{WHEEL}"),
        # these would not stay one word of a shell, or of YAML
        (vcs('https://git.example.com/a";curl x;"'), f"./{WHEEL}"),
        (vcs("https://git.example.com/$(id)"), f"./{WHEEL}"),
        (vcs("https://git.example.com/a b: c"), f"./{WHEEL}"),
        ({}, f"./{WHEEL}"),
    ],
)
def test_where_it_came_from(direct: dict[str, Any] | None, requirement: str, tmp_path: Path) -> None:
    found = of_direct_url(str(tmp_path), VERSION, direct)
    assert found.requirement == requirement
    assert SECRET not in repr(found)
    if requirement.startswith("./"):
        assert found.note is not None and WHEEL in found.note


def test_a_checkout_of_its_own_inside_the_repository_is_not_in_it(tmp_path: Path) -> None:
    inside = tmp_path / "src"
    inside.mkdir()
    direct = {"url": inside.as_uri(), "dir_info": {}}
    assert of_direct_url(str(tmp_path), VERSION, direct).requirement == "./src"
    (inside / ".git").mkdir()
    assert of_direct_url(str(tmp_path), VERSION, direct).requirement == f"./{WHEEL}"
    assert of_direct_url(str(inside), VERSION, direct).requirement == "."


@pytest.mark.parametrize(("kind", "found"), [("dist-info", None), ("egg-info", {})])
def test_what_setup_py_installed_came_from_no_index(kind: str, found: dict[str, Any] | None, tmp_path: Path) -> None:
    metadata = tmp_path / f"distcheck-{VERSION}.{kind}"
    metadata.mkdir()
    (metadata / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(
        f"Name: distcheck\nVersion: {VERSION}\n"
    )
    assert _direct_url(str(tmp_path)) == found


def test_pre_commit_gets_no_path_that_it_reads_elsewhere() -> None:
    hook = yaml.safe_load(scaffold.pre_commit_hook(Installation(f"./{WHEEL}", anywhere=False)))[0]["hooks"][0]
    assert (hook["language"], "additional_dependencies" in hook) == ("system", False)


def test_a_file_that_is_another_stays(tmp_path: Path) -> None:
    source = tmp_path / "distcheck.pyz"
    source.write_bytes(b"new\0")
    how = Installation("", "python3 x/distcheck.pyz", "x/distcheck.pyz", str(source))
    proposal = scaffold.propose(str(tmp_path), ("github",), installation=how)
    assert [change.path for change in proposal.changes][-1] == "x/distcheck.pyz"
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "distcheck.pyz").write_bytes(b"old")
    proposal = scaffold.propose(str(tmp_path), ("github",), installation=how)
    assert "x/distcheck.pyz" not in [change.path for change in proposal.changes]
    assert "is not changed" in proposal.notes[-1]
    # without a file for CI nothing is put there
    assert scaffold.propose(str(tmp_path / "x"), (), installation=how).notes == ()


# for real


class Place(NamedTuple):
    """Two Pythons: the user's, and that of CI, which has pip alone; and the variables of both."""

    user: Path
    ci: Path
    source: Path
    environ: dict[str, str]

    def run(self, line: str, folder: Path, python: Path) -> str:
        path = f"{python}{os.pathsep}{self.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", line], cwd=folder, env={**self.environ, "PATH": path},
            capture_output=True, text=True, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """pip makes wheels with the setuptools of this Python: nothing is downloaded."""
    setuptools = pytest.importorskip("setuptools")
    if os.name != "posix" or shutil.which("git") is None:
        pytest.skip("needs git and a POSIX system")
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    source.mkdir()
    shutil.copytree(ROOT / "distcheck", source / "distcheck", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "all")
    tools = folder / "tools"
    tools.mkdir()
    site = Path(setuptools.__file__).parent.parent
    for path in (site / "setuptools", site / "_distutils_hack", *site.glob("setuptools-*.dist-info")):
        (tools / path.name).symlink_to(path)
    venv.create(folder / "user", with_pip=True)
    # pip costs seconds; both are called as `python -m`
    shutil.copytree(folder / "user", folder / "ci", symlinks=True)
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    environ = {
        **kept, "HOME": str(folder), "PYTHONPATH": str(tools), "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1",
        # pip reads it the other way round: off
        "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_COMPILE": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull,
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": f"url.{source.as_uri()}.insteadOf", "GIT_CONFIG_VALUE_0": REMOTE,
        "GIT_CONFIG_KEY_1": f"url.{source.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_1": REMOTE.replace("://", f"://me:{SECRET}@"),
    }  # fmt: skip
    yield Place(folder / "user" / "bin", folder / "ci" / "bin", source, environ)


#: What each kind becomes is tested above for all; one is installed in each run, the package check installs the wheel.
KINDS = [
    "git with a login",
    *(pytest.param(kind, marks=pytest.mark.full) for kind in ("wheel", "inside", "directory", "editable", "git+file")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_printed_installs_it(kind: str, place: Place, tmp_path: Path) -> None:
    repository, source = tmp_path / "repository", tmp_path / "source"
    repository.mkdir()
    git(repository, "init", "-q")
    shutil.copytree(place.source, source)
    if kind == "inside":
        inside = repository / "third party" / "distcheck"
        shutil.copytree(source, inside, ignore=shutil.ignore_patterns(".git"))
    if kind == "wheel":
        place.run(f"python -m pip wheel -q --wheel-dir wheels '{source}'", tmp_path, place.user)
    words = {
        "wheel": f"'{tmp_path}'/wheels/*.whl", "directory": f"'{source}'", "editable": f"-e '{source}'",
        "inside": f"'{repository}/third party/distcheck'", "git+file": f"'git+file://{source}'",
        "git with a login": f"'git+{REMOTE.replace('://', f'://me:{SECRET}@')}'",
    }[kind]  # fmt: skip
    place.run(f"python -m pip install -q --force-reinstall {words}", tmp_path, place.user)
    ask = f"import json; from distcheck.cli.installation import find; print(json.dumps(find({str(repository)!r}, {VERSION!r})))"
    how = Installation(*json.loads(place.run(f'python -c "{ask}"', tmp_path, place.user)))
    proposal = scaffold.propose(str(repository), ("github",), installation=how)
    for change in proposal.changes:
        path = repository / change.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change.new)
        assert (SECRET.encode() not in change.new and str(tmp_path).encode() not in change.new) or path.suffix == ".whl"
    for note in proposal.notes:
        assert SECRET not in note
        if "\n" in note:
            place.run(note.partition("\n")[2], repository, place.user)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "distcheck")
    # CI has what is committed, and nothing else of this machine
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    shutil.rmtree(source)
    shutil.rmtree(repository)
    workflow = yaml.safe_load((clone / ".github/workflows/distcheck.yml").read_text())
    (line,) = (step["run"] for step in workflow["jobs"]["distcheck"]["steps"] if "pip install" in step.get("run", ""))
    place.run(f"{line} --force-reinstall", clone, place.ci)
    got = place.run(
        'python -c "import distcheck; print(distcheck.__version__, distcheck.__file__)"', tmp_path, place.ci
    )
    assert got.startswith(VERSION) and str(place.ci.parent) in got
    place.run("python -m pip uninstall -qy distcheck", tmp_path, place.ci)
    place.run("python -m pip uninstall -qy distcheck", tmp_path, place.user)


@pytest.mark.slow
def test_the_one_file_is_put_into_the_repository_and_runs_there(tmp_path: Path) -> None:
    program = tmp_path / "elsewhere" / "distcheck.pyz"
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "build_pyz.py", "-o", program], capture_output=True, text=True, timeout=120
    )
    if made.returncode:
        pytest.skip(made.stderr)
    repository = tmp_path / "repository"
    repository.mkdir()
    wrote = subprocess.run(
        [sys.executable, program, "init", "--github", "--pre-commit", "--no-baseline", "--yes", repository],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert wrote.returncode == 0, wrote.stdout + wrote.stderr
    assert "new file .distcheck/distcheck.pyz" in wrote.stdout
    program.unlink()
    workflow = yaml.safe_load((repository / ".github/workflows/distcheck.yml").read_text())
    (line,) = (step["run"] for step in workflow["jobs"]["distcheck"]["steps"] if "run" in step)
    assert line.startswith("python3 .distcheck/distcheck.pyz ci ")
    hook = yaml.safe_load((repository / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"][0]
    for typed in (line.partition(" ci ")[0] + " --version", hook["entry"]):
        ran = subprocess.run(["bash", "-c", typed], cwd=repository, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_checkout_that_runs_these_tests_is_no_index(tmp_path: Path) -> None:
    if not (ROOT / "setup.cfg").exists() or not str(distcheck.__file__).startswith(str(ROOT)):
        pytest.skip("distcheck runs from elsewhere")
    assert find(str(tmp_path), VERSION).requirement == f"./{WHEEL}"
