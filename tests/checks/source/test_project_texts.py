"""Whether a repository uses a name: in code and configurations, not in comments and definitions."""

from __future__ import annotations

import pytest

from distcheck.checks.source import project_texts
from distcheck.checks.source.project_texts import ProjectTexts


def _texts(*files: bytes) -> ProjectTexts:
    return ProjectTexts(("r", f"{number}.py", lambda data=data: data) for number, data in enumerate(files))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (b"train()", True),
        (b"_target_: tools.train", True),
        (b"x = 'train'", True),
        (b"def train():", False),
        (b"async def train():", False),
        (b"class train:", False),
        (b"# train()", False),
        (b"def train():\n    train()", True),
        (b"retrain() or train_all() or train2", False),
        (b"", False),
    ],
)
def test_a_name_is_used(text: bytes, used: bool) -> None:
    assert _texts(b"other", text).uses("r", "train") is used
    assert not _texts(text).uses("another", "train")


def test_nothing_is_read_before_a_question_and_each_file_once() -> None:
    reads = []

    def read() -> bytes:
        reads.append(1)
        return b"train()"

    texts = ProjectTexts([("r", "a.py", read)])
    assert not reads
    assert texts.uses("r", "train")
    assert not texts.uses("r", "test")
    assert len(reads) == 1


def test_a_file_that_is_gone_uses_nothing() -> None:
    def gone() -> bytes:
        raise FileNotFoundError

    assert not ProjectTexts([("r", "a.py", gone)]).uses("r", "train")


def test_in_a_large_repository_each_name_counts_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_texts, "_MOST", 10)
    assert _texts(b"x" * 11).uses("r", "train")
    assert not _texts(b"x" * 9).uses("r", "train")
    monkeypatch.setattr(project_texts, "_LARGEST", 5)
    assert not _texts(b"train()").uses("r", "train")


CODE = b"""\
from tools import train as fit, (
    other,
)


class Runner:
    def run(
        self,
    ):
        # a comment at another indentation
        if True:
            return train()


if __name__ == "__main__":
    train(key="train")
    tools.train()
"""


def test_mentions_show_the_definitions_around_them() -> None:
    found = _texts(CODE).mentions("r", "train")
    assert found is not None
    assert [tuple(one) for one in found] == [
        ("0.py", (), True, False, "fit", False),
        ("0.py", ("Runner", "run"), False, False, "", False),
        ("0.py", (), False, False, "", False),
        ("0.py", (), False, True, "", False),
        ("0.py", (), False, False, "", True),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b'"""Call train()."""\nx = 1', 0),
        (b"'''train'''\ntrain()", 1),
        (b"__all__ = [\n    'train',\n]", 0),
        (b"from tools import (\n    train,\n)", 0),
        (b"import tools\ntools.train()", 1),
    ],
)
def test_documentation_and_imports_run_nothing(text: bytes, count: int) -> None:
    found = _texts(text).mentions("r", "train")
    assert found is not None
    assert len([one for one in found if not one.imports]) == count


def test_a_name_that_stands_everywhere_has_no_list() -> None:
    assert _texts(b"train()\n" * 100).mentions("r", "train") is None
    assert _texts(b"train()\n" * 10).mentions("r", "train") == _texts(b"train()").mentions("r", "train")
