"""What the checks of the group's life cost does not grow with the square of the calls in a module."""

from __future__ import annotations

import pytest

from distcheck.checks.source import lifecycle
from distcheck.checks.source.engine import SourceFile, analyse


def test_bad_each_call_of_a_module_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 collectives in one list took 11 s: each was compared with all others."""
    judged = 0
    of_call = lifecycle._GroupLifetime.of_call

    def counted(self: lifecycle._GroupLifetime, call: object, depth: int = 0) -> object:
        nonlocal judged
        judged += 1
        return of_call(self, call, depth)  # type: ignore[arg-type]

    monkeypatch.setattr(lifecycle._GroupLifetime, "of_call", counted)
    text = f"import torch.distributed as dist\nx = [{'dist.barrier(), ' * 300}]\n".encode()
    program = analyse([SourceFile("a.py", lambda: text)])
    list(lifecycle.import_needs_no_group(program))
    assert 300 <= judged < 1000
