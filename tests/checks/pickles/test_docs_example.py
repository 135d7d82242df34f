"""The worked example of docs/pickling.md is run: what it shows is what is printed, and the repaired trainer can be saved."""

from __future__ import annotations

import copy
import importlib.util
import io
import os
import pickle
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.pickles.objects import find_unpicklable
from distcheck.checks.pickles.state_methods import methods_for, state_methods

DOCUMENT = Path(__file__).parents[3] / "docs" / "pickling.md"


def blocks() -> dict[str, str]:
    """The named blocks of the document, and by ``after <name>`` the first output that follows each."""
    found: dict[str, str] = {}
    last = ""
    for head, body in re.findall(r"^```([^\n]*)\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.M):
        language, _, name = head.partition(" ")
        if name:
            found[name] = body
            last = name
        elif not language and last:
            found.setdefault(f"after {last}", body)
            found[f"last after {last}"] = body
    return found


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a block of the document under its own name, as a user's file."""
    monkeypatch.chdir(tmp_path)
    names: list[str] = []

    def load_module(name: str, source: str | None = None) -> Any:
        path = tmp_path / name
        path.write_text(blocks()[name] if source is None else source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        names.append(path.stem)
        spec.loader.exec_module(module)
        return module

    yield load_module
    for name in names:
        sys.modules.pop(name, None)


def as_shown(text: str) -> str:
    """A report without what Python itself says, which differs by its version."""
    return re.sub(r"(?m)^( +error:).*$", r"\1 …", text.strip())


def test_the_plain_example_prints_what_is_shown(load: Any) -> None:
    index = load("plain.py").Index(":memory:")
    try:
        assert as_shown(str(find_unpicklable(index, name="index"))) == as_shown(blocks()["after plain.py"])
    finally:
        index.connection.close()


def test_the_plain_methods_are_those_that_are_shown_and_they_help(load: Any) -> None:
    index = load("plain.py").Index(":memory:")
    ((owner, methods),) = methods_for(find_unpicklable(index, name="index"))
    index.connection.close()
    assert owner == "plain.Index"
    assert methods.strip() == blocks()["plain-methods.py"].strip()
    fixed = load("plain.py", blocks()["plain.py"] + "\n" + textwrap.indent(methods, "    ")).Index(":memory:")
    assert find_unpicklable(fixed).ok
    loaded = pickle.loads(pickle.dumps(fixed))
    fixed.connection.close()
    assert (loaded.path, loaded.rows, loaded.lock, loaded.connection, loaded.key) == (":memory:", 0, None, None, None)


@pytest.fixture
def group() -> Iterator[None]:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def trainer_of(module: Any) -> Any:
    import torch

    return module.Trainer(torch.nn.Linear(2, 2), torch.ones(4, 2), os.devnull)


@pytest.mark.torch
def test_the_trainer_prints_what_is_shown(load: Any, group: None) -> None:
    trainer = trainer_of(load("trainer.py"))
    report = find_unpicklable(trainer, mode="torch.save", name="trainer")
    trainer.log.close()
    assert as_shown(str(report)) == as_shown(blocks()["after trainer.py"])
    assert state_methods(report).strip() == blocks()["last after trainer.py"].strip()


@pytest.mark.torch
def test_the_repaired_trainer_can_be_saved_copied_and_sent(load: Any, group: None) -> None:
    import torch

    trainer = trainer_of(load("repaired.py"))
    for mode in ("pickle", "torch.save", "deepcopy", "spawn", "collective"):
        report = find_unpicklable(trainer, mode=mode, name="trainer")
        assert report.ok, str(report)
        assert [item for item in report.warnings if item.kind != "note"] == []
    loaded = pickle.loads(pickle.dumps(trainer))
    assert loaded.tp_group is None
    loaded.start()
    assert torch.distributed.get_process_group_ranks(loaded.tp_group) == [0]
    loaded.log.close()
    copy.deepcopy(trainer)
    trainer.log.close()
    file = io.BytesIO()
    torch.save(trainer.checkpoint(), file)
    file.seek(0)
    assert set(torch.load(file, weights_only=True)) == {"model", "optimizer", "scheduler", "step", "history"}


def test_the_table_of_modes_is_whole() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    from distcheck.checks.pickles.kinds import REFUSALS

    for mode in REFUSALS:
        assert f"| `{mode}` |" in text
