"""Known holes in what distcheck.pyz and the tests install: none, or *not checked* without the list."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tools import audit
from tools.audit import Audit, judged

CLEAN = {"name": "click", "version": "8.5.1", "vulns": []}
UNKNOWN = {"name": "tabulate", "skip_reason": "Dependency not found"}


def _hole(*releases: str) -> dict[str, object]:
    return {"name": "pyyaml", "version": "5.3", "vulns": [{"id": "CVE-1", "fix_versions": list(releases)}]}


@pytest.mark.parametrize(
    ("found", "status", "expected"),
    [
        ([CLEAN], 0, Audit(1)),
        ([CLEAN, _hole("5.4", "6.0")], 1, Audit(2, fixed=("pyyaml 5.3: CVE-1, fixed in 5.4, 6.0",))),
        ([CLEAN, _hole()], 0, Audit(2, open=("pyyaml 5.3: CVE-1",))),
        ([CLEAN, UNKNOWN], 3, Audit(1, not_checked=("tabulate: Dependency not found",))),
        (
            [UNKNOWN, _hole("6")],
            1,
            Audit(1, ("pyyaml 5.3: CVE-1, fixed in 6",), (), ("tabulate: Dependency not found",)),
        ),
        ([], 3, Audit()),
    ],
)
def test_a_hole_with_a_fix_fails_and_what_is_unknown_is_not_checked(
    found: list[dict[str, object]], status: int, expected: Audit
) -> None:
    assert judged(found) == expected
    assert expected.status == status


@pytest.mark.parametrize(
    ("program", "status", "line"),
    [
        ("raise SystemExit('no connection')", 3, "not checked: 1, the first is no connection"),
        ("print('not JSON')", 3, "not checked: 1, the first is pip-audit printed nothing"),
        ('print(\'{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}\')', 0, "1 checked, 0 holes"),
    ],
)
def test_without_an_answer_nothing_is_checked(
    program: str,
    status: int,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pip_audit.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    assert audit.main([tmp_path / "pins.txt"]) == status
    assert line in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", audit.FILES, ids=lambda path: str(path.name))
def test_no_version_has_a_known_hole(path: Path) -> None:
    if importlib.util.find_spec("pip_audit") is None:
        pytest.skip("not checked: pip-audit is not installed")
    found = audit.audit(path)
    assert not found.fixed
    if found.status == audit.NOT_CHECKED:
        missed = found.not_checked or ("nothing was checked",)
        pytest.skip(f"not checked: {len(missed)} of {found.checked + len(missed)} versions: {missed[0]}")
