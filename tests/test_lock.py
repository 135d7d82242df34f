"""The locks of what tox installs: each version has hashes, and an environment holds nothing else."""

from __future__ import annotations

import configparser
import hashlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import lock

ROOT = Path(__file__).parents[1]
LOCKS = sorted(path.name for path in (ROOT / "tools").glob("lock*.txt"))


def _tox() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.read(ROOT / "tox.ini", encoding="utf-8")
    return found


@pytest.mark.parametrize("name", [*LOCKS, "one_file.txt"])
def test_each_version_has_hashes(name: str) -> None:
    text = (ROOT / "tools" / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("#", " "))]
    found = list(lock._PIN.finditer(text))
    assert len(found) == len(lines) > 5
    assert all(lock._HASH.search(match["rest"]) for match in found)
    assert "://" not in text


def test_each_environment_installs_from_a_lock() -> None:
    settings = _tox()
    first = settings["testenv"]
    assert (
        first["constraints"] == "tools/lock.txt" and settings["testenv:.pkg"]["constraints"] == "{[testenv]constraints}"
    )
    assert first["commands_pre"] == "python tools/lock.py --installed {[testenv]constraints}"
    assert "UV_NO_BUILD = 1" in first["set_env"]
    for name in settings.sections():
        own = settings[name]
        if not name.startswith("testenv:"):
            continue
        assert "{[testenv]set_env}" in own.get("set_env", "{[testenv]set_env}"), name
        assert not {"install_command", "uv_seed", "recreate_commands", "package"} & set(own), name
        for key, word in (("constraints", ""), ("commands_pre", "python tools/lock.py --installed ")):
            for line in filter(None, own.get(key, "").splitlines()):
                if name != "testenv:.pkg":
                    assert re.fullmatch(rf"\w+: {word}tools/(\S+)", line)[1] in LOCKS, name  # type: ignore[index]
    # the one that makes the locks runs no test and nothing of distcheck
    bare = [name for name in settings.sections() if settings[name].get("commands_pre") == ""]
    assert bare == ["testenv:lock"]


def test_ci_installs_tox_by_hash() -> None:
    lines = [line for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines() if "install" in line]
    (line,) = [line for line in lines if not line.startswith("#")]
    assert line.endswith("install --quiet --require-hashes -r tools/lock_tox.txt")


def test_the_locks_hold_what_is_declared() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = settings["options"]["install_requires"].splitlines()
    for extra in ("test", "docs"):
        lines += settings["options.extras_require"][extra].splitlines()
    lines += _tox()["testenv:torch"]["deps"].splitlines() + _tox()["testenv:lint"]["deps"].splitlines()
    known = lock.pins((ROOT / "tools" / "lock.txt").read_text(encoding="utf-8"))
    names = {lock.normal(re.split(r"[=<>; ]", line)[0]) for line in lines if line and not line.startswith("#")}
    assert len(names) > 25 and names <= known.keys()
    for line in lines:
        if exact := re.match(r"([\w-]+)==(\S+)$", line):
            assert known[lock.normal(exact[1])] == {exact[2]}


def _installed_lock(without: str = "") -> str:
    found = ((each.metadata["Name"], each.version) for each in importlib.metadata.distributions())
    return "".join(
        f"{name}=={version.partition('+')[0]} \\\n    --hash=sha256:{'0' * 64}\n"
        for name, version in found
        if name != without
    )


@pytest.mark.parametrize(
    ("text", "missed"), [(_installed_lock(), ""), (_installed_lock("pytest"), "pytest "), ("", "click ")]
)
def test_what_no_lock_names_is_found(text: str, missed: str, tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(text)
    command = [sys.executable, str(ROOT / "tools" / "lock.py"), "--installed", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == bool(missed), ended.stderr
    assert re.search(rf"^{missed}", ended.stderr, re.MULTILINE) and (missed or not ended.stderr)


def test_another_version_is_not_the_locked_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(_installed_lock("click") + f"click==0.1 \\\n    --hash=sha256:{'0' * 64}\n")
    assert lock.verify(path) == 1
    assert f"click {importlib.metadata.version('click')} is installed" in capsys.readouterr().err


def test_the_hash_of_a_build_in_a_folder_is_added_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl").write_bytes(b"wheel")
    build = hashlib.sha256(b"wheel").hexdigest()
    text = "\n".join(
        f"{name}=={version} ; python_version >= '3.10' \\\n    --hash=sha256:{'1' * 64} \\\n    --hash=sha256:{'2' * 64}"
        for name, version in (("sympy", "1.14"), ("torch", "2.13.0"), ("triton", "3.7"))
    )
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    added = lock.with_builds(text, "")
    assert added.count("--hash") == 7 and added.index("sympy") < added.index(build) < added.index("triton")
    monkeypatch.delenv("UV_FIND_LINKS")
    assert lock.with_builds(text, added) == added
    assert lock.with_builds(text.replace("2.13.0", "2.14.0"), added) == text.replace("2.13.0", "2.14.0")


@pytest.mark.parametrize(
    ("line", "python", "expected"),
    [
        ("click>=8", None, "click>=8"),
        ("click>=8", (3, 11), "click>=8; python_version >= '3.11'"),
        ("tomli; os_name == 'nt'", (3, 11), "tomli; python_version >= '3.11' and (os_name == 'nt')"),
    ],
)
def test_a_requirement_counts_for_the_pythons_of_its_environment(
    line: str, python: tuple[int, int] | None, expected: str
) -> None:
    assert lock.since(line, python) == expected
