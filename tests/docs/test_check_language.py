"""tools/check_language.py finds the words and sentences that it promises to find, and leaves other people's text alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from .documents import ROOT

_SPEC = importlib.util.spec_from_file_location("check_language", ROOT / "tools" / "check_language.py")
assert _SPEC is not None and _SPEC.loader is not None
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)

LONG = "one two three four five " * 5 + "six."


def found(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    """Return line and word of each problem."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [(problem.line, problem.word) for problem in tool.check(path)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("a.md", "# A\n\nThe log says\nnothing.\n", [(3, "says")], id="a document"),
        pytest.param("a.md", "Nobody has\nit beside him.\n", [(1, "nobody"), (2, "beside")], id="two lines"),
        pytest.param("a.py", '"""Tell the caller."""\n', [(1, "tell")], id="a docstring"),
        pytest.param("a.py", "x = 1  # whoever reads this\n", [(1, "whoever")], id="a comment"),
        pytest.param("a.py", "x = f'{1} is gone by {2}'\n", [(1, "gone")], id="a text with values"),
        pytest.param("a.py", "def asked_ranks(told): ...\n", [(1, "name asked"), (1, "name told")], id="names"),
        pytest.param(
            "a.py", "class SeatOf:\n    blame = 1\n", [(1, "name seat"), (2, "name blame")], id="parts of names"
        ),
        pytest.param("pages/DC1.md", f"---\ncode: DC1\n---\n\n{LONG}\n", [(5, "long sentence")], id="a page"),
        pytest.param("a.py", f"Finding(RULE, '{LONG}')\n", [(1, "long sentence")], id="a message"),
        pytest.param(
            "a.py", f"Fix('{LONG[:60]}' + x + '{LONG[60:]}')\n", [(1, "long sentence")], id="a joined message"
        ),
    ],
)
def test_bad(tmp_path: Path, name: str, text: str, expected: list[tuple[int, str]]) -> None:
    assert sorted(found(tmp_path, name, text)) == sorted(expected)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.md", '`tell` and "nobody" are words of others.\n', id="spans and quotes"),
        pytest.param("a.md", "```\nnobody says\n```\n", id="a code block"),
        pytest.param("pages/DC1.md", "## Error messages\n\n- nobody says\n", id="messages of other programs"),
        pytest.param("a.py", 're.compile("nobody says")\n', id="a regular expression"),
        pytest.param("a.py", "import asked\nasked.told()\n", id="names of others"),
        pytest.param("rules/signatures/a.py", "row('x', 'nobody says')\n", id="signatures of logs"),
        pytest.param("a.md", "It changes the tensor in place. It takes place once. In place of it.\n", id="in place"),
        pytest.param("pages/DC1.md", f"{LONG[:60]}. Then {LONG[60:]}\n", id="two sentences"),
        pytest.param("a.md", f"{LONG}\n", id="sentences of documents"),
        pytest.param("pages/DC1.md", f"{LONG[:60]}. `then` {LONG[60:]}\n", id="a sentence that begins with code"),
        pytest.param("pages/DC1.md", f"{LONG[:60]}. torchrun {LONG[60:]}\n", id="a sentence that begins with a name"),
        pytest.param("a.py", "self.proof = 1\n", id="a key of the JSON formats"),
    ],
)
def test_good(tmp_path: Path, name: str, text: str) -> None:
    assert found(tmp_path, name, text) == []
