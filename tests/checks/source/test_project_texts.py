"""Whether a repository uses a name: in code and configurations, not in comments and definitions."""

from __future__ import annotations

import pytest

from distcheck.checks.source import project_texts
from distcheck.checks.source.project_texts import ProjectTexts


def _texts(*files: bytes) -> ProjectTexts:
    return ProjectTexts(("r", lambda data=data: data) for data in files)  # type: ignore[misc]


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

    texts = ProjectTexts([("r", read)])
    assert not reads
    assert texts.uses("r", "train")
    assert not texts.uses("r", "test")
    assert len(reads) == 1


def test_a_file_that_is_gone_uses_nothing() -> None:
    def gone() -> bytes:
        raise FileNotFoundError

    assert not ProjectTexts([("r", gone)]).uses("r", "train")


def test_in_a_large_repository_each_name_counts_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_texts, "_MOST", 10)
    assert _texts(b"x" * 11).uses("r", "train")
    assert not _texts(b"x" * 9).uses("r", "train")
    monkeypatch.setattr(project_texts, "_LARGEST", 5)
    assert not _texts(b"train()").uses("r", "train")
