"""The configuration: where it is found, what adds up, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.configuration import (
    FLAGS,
    LISTS,
    SITE_FILE,
    TABLES,
    WORDS,
    Configuration,
    ConfigurationEntry,
    ConfigurationError,
    load,
)
from tests.cli.test_cli import distcheck
from tests.recorded import recorded_world

PYPROJECT = "/home/user/project/pyproject.toml"


def configuration(tmp_path: Path, files: dict[str, str], folder: str = "/home/user/project") -> Configuration:
    return load(recorded_world(tmp_path, files=files, working_folder=folder))


def test_the_projects_file_and_the_sites_add_up(tmp_path: Path) -> None:
    found = configuration(
        tmp_path,
        {
            PYPROJECT: '[tool.distcheck]\nignore = ["DC402"]\nfail-on = "warning"\nknown_variables = "NCCL_MINE, GLOO_MINE"\n',
            SITE_FILE: 'ignore = ["DC311"]\nfail-on = "error"\n',
        },
    )
    assert found.values("ignore") == ("DC402", "DC311")
    assert found.word("fail-on") == "warning"
    assert found.values("known-variables") == ("NCCL_MINE", "GLOO_MINE")
    assert found.origin("ignore") == f"{PYPROJECT}, {SITE_FILE}"


@pytest.mark.parametrize("name", ["setup.cfg", "tox.ini"])
def test_ini_files(tmp_path: Path, name: str) -> None:
    found = configuration(
        tmp_path, {f"/home/user/project/{name}": "[other]\nx = %(y)s\n[distcheck]\nignore =\n  DC402\n  DC311\n"}
    )
    assert found.values("ignore") == ("DC402", "DC311")


def test_the_nearest_file_upwards_that_names_us(tmp_path: Path) -> None:
    files = {
        PYPROJECT: '[tool.distcheck]\nignore = ["DC402"]\n',
        "/home/user/project/a/b/pyproject.toml": "[tool.ruff]\n",
    }
    assert configuration(tmp_path, files, "/home/user/project/a/b").values("ignore") == ("DC402",)


def test_no_farther_than_the_repository(tmp_path: Path) -> None:
    files = {"/home/user/pyproject.toml": '[tool.distcheck]\nignore = ["DC402"]\n', "/home/user/project/.git/HEAD": ""}
    assert configuration(tmp_path, files) == Configuration()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.distcheck]\nignroe = []\n", "did you mean 'ignore'"),
        ("[tool.distcheck]\nzzz = []\n", "expected one of select"),
        ("[tool.distcheck]\nignore = 3\n", "expected a text or a list of texts"),
        ("[tool.distcheck\n", "not valid TOML"),
        ("[tool]\ndistcheck = 1\n", "not a table"),
    ],
)
def test_bad_files_are_refused_with_their_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml") as caught:
        configuration(tmp_path, {PYPROJECT: text})
    assert words in str(caught.value)


def test_an_unknown_rule_in_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.distcheck]\nignore = ["DC4O1"]\n')
    result = distcheck("env", cwd=tmp_path)
    assert result.returncode == 2
    assert "DC4O1" in result.stderr
    assert distcheck("env", "--isolated", cwd=tmp_path).returncode == 0


def test_what_a_file_hides_is_in_the_header(tmp_path: Path) -> None:
    (tmp_path / "tox.ini").write_text("[distcheck]\nignore = DC101\nfail-on = info\n")
    result = distcheck("env", "--launched", "--select", "DC101,DC330", cwd=tmp_path)
    assert "DC101 (" in result.stdout.replace("\n ", "")
    assert "error DC101" not in result.stdout
    named = tmp_path / "other.toml"
    named.write_text('fail-on = "never"\n')
    assert distcheck("env", "--launched", "--config", str(named), cwd=tmp_path).returncode == 0
    assert distcheck("env", "--config", "gone.toml", cwd=tmp_path).returncode == 2
    named.write_text('fail-on = "sometimes"\n')
    assert "sometimes" in distcheck("env", "--config", str(named), cwd=tmp_path).stderr


def test_names_of_a_projects_own_are_no_slips(tmp_path: Path) -> None:
    arguments = ("env", "--nproc-per-node", "2", "--select", "DC110", "--fail-on", "warning")
    assert distcheck(*arguments, cwd=tmp_path, NCCL_SOCKET_IFNAMES="eth0").returncode == 1
    (tmp_path / "pyproject.toml").write_text('[tool.distcheck]\nknown-variables = ["NCCL_SOCKET_IFNAMES"]\n')
    assert distcheck(*arguments, cwd=tmp_path, NCCL_SOCKET_IFNAMES="eth0").returncode == 0


def test_tables_flags_and_patterns(tmp_path: Path) -> None:
    toml = (
        "[tool.distcheck]\npreview = true\nforce-exclude = false\nexclude = 'a, b'\nbaseline = 'known, here.json'\n"
        "[tool.distcheck.per-file-ignores]\n'tests/*' = ['DC720', 'DC721']\n'x.py' = 'DC2, DC7'\n"
    )
    found = configuration(tmp_path, {PYPROJECT: toml})
    assert (found.flag("preview"), found.flag("force-exclude"), found.flag("respect-gitignore")) == (True, False, None)
    assert found.placed("exclude") == (("a", "/home/user/project"), ("b", "/home/user/project"))
    assert found.values("per-file-ignores") == ("tests/*:DC720", "tests/*:DC721", "x.py:DC2", "x.py:DC7")
    assert found.word("baseline") == "known, here.json"


def test_per_file_ignores_as_flake8_has_them(tmp_path: Path) -> None:
    ini = "[distcheck]\npreview = no\nper-file-ignores =\n    tests/*: DC720, DC721\n    x.py:DC2\n"
    found = configuration(tmp_path, {"/home/user/project/tox.ini": ini})
    assert found.values("per-file-ignores") == ("tests/*:DC720", "tests/*:DC721", "x.py:DC2")
    assert found.flag("preview") is False


@given(st.text())
def test_no_text_whatever_breaks_it(text: str) -> None:
    from distcheck.core.configuration import _entries

    for name in ("pyproject.toml", "setup.cfg", "distcheck.toml"):
        try:
            for entry in _entries(f"/x/{name}", text, required=True):
                assert isinstance(entry, ConfigurationEntry)
        except ConfigurationError as error:
            assert name in str(error)


@pytest.mark.parametrize(
    "value",
    ["0x" + "f" * 5000, "[0x" + "f" * 5000 + "]", "{a = 0x" + "f" * 5000 + "}", '"a\\u0000b"', '["\\u001b[31m"]'],
)
@pytest.mark.parametrize("name", [*LISTS, *TABLES, *WORDS, *FLAGS])
def test_bad_values_of_a_hostile_file_are_refused(tmp_path: Path, name: str, value: str) -> None:
    """Python makes no decimal text of such a number, and opens no path with such a character."""
    with pytest.raises(ConfigurationError, match=rf"pyproject.toml: '{name}'") as caught:
        configuration(tmp_path, {PYPROJECT: f"[tool.distcheck]\n{name} = {value}\n"})
    assert len(str(caught.value)) < 300


def test_bad_values_that_are_nested_too_deeply(tmp_path: Path) -> None:
    """The parser of TOML ended with a RecursionError, and a traceback."""
    text = f"[tool.distcheck]\nselect = {'[' * 100_000}{']' * 100_000}\n"
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml: .*nested too deeply"):
        configuration(tmp_path, {"home/user/project/pyproject.toml": text})
