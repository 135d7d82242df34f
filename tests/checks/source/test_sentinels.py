"""Where the -1 of an unset local rank comes from: each way up is followed once."""

from __future__ import annotations

import pytest

from distcheck.checks.source import sentinels
from distcheck.checks.source.engine import SourceFile, analyse


def test_callers_that_meet_again_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten functions, each called three times by the next one: 3 to the power of 10 ways lead to one call."""
    levels = [f"def step_{n}(local_rank):\n" + f"    step_{n - 1}(local_rank)\n" * 3 for n in range(1, 10)]
    source = (
        "import os\nimport torch\n\n\ndef step_0(local_rank):\n    torch.cuda.set_device(local_rank)\n"
        + "".join(levels)
        + 'step_9(int(os.environ.get("LOCAL_RANK", -1)))\n'
    )
    program = analyse([SourceFile("train.py", source.encode)])
    (call,) = program.calls_to("torch.cuda.set_device")
    followed = []
    assigned = sentinels._assigned

    def counted(row: sentinels.EventRow, parts: tuple[object, ...]) -> list[tuple[sentinels.EventRow, int]]:
        followed.append(row)
        return assigned(row, parts)

    monkeypatch.setattr(sentinels, "_assigned", counted)
    found = sentinels.unset_rank(call, call.argument_term(0))
    assert found is not None and found.variable == "LOCAL_RANK"
    assert len(followed) < 100
