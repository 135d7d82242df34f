"""The page of the Python API names everything that is public, and what is public says all of itself."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import distcheck
import distcheck.testing

from .documents import DOCS

PUBLIC = [name for name in distcheck.__all__ if name != "__version__"]
#: Exceptions that are made here, and only caught elsewhere; their text is all that they take.
_RAISED = ("PreflightError", "UnpicklableError", "Unavailable", "NotApplicable")


def test_everything_public_is_on_the_page() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^\.\. auto\w+:: distcheck\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(PUBLIC)
    named = re.findall(r"^\.\. auto\w+:: distcheck\.testing\.(\w+)(?:\(\))?$", text, re.MULTILINE)
    assert sorted(named) == sorted(distcheck.testing.__all__)


def undocumented(function: Any) -> list[str]:
    text = inspect.getdoc(function) or ""
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return [name for name in names if f":param {name}:" not in text]


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_documents_its_parameters(name: str) -> None:
    thing = getattr(distcheck, name)
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        assert not undocumented(thing)
        assert ":raises " in (inspect.getdoc(thing) or "") or not re.search(r"\braise \w", inspect.getsource(thing))
    elif inspect.isclass(thing):
        methods = [
            member for key, member in vars(thing).items() if not key.startswith("_") and inspect.isfunction(member)
        ]
        assert all(inspect.getdoc(method) for method in methods)
        if not hasattr(thing, "_fields") and name not in _RAISED and "__init__" in vars(thing):
            missing = [
                one for one in undocumented(thing.__init__) if f":param {one}:" not in (inspect.getdoc(thing) or "")
            ]
            assert not missing
