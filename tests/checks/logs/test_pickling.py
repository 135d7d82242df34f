"""What could not be pickled, spawned, saved or loaded: what tells look-alikes apart, on timelines made by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from distcheck.checks.logs.model import Event, LineAuthor, LogSource, Timeline, Traceback, TracebackFrame
from distcheck.checks.logs.pickling import (
    checkpoints_load_on_their_rank,
    files_are_whole,
    keys_fit,
    objects_pickle,
    weights_load_alone,
)
from distcheck.core.model import Finding, Severity
from distcheck.rules.signatures import Kind
from distcheck.rules.signatures.pickles import ROWS

SPAWN = "/usr/lib/python3.11/multiprocessing/popen_spawn_posix.py"
CHILD = "/usr/lib/python3.11/multiprocessing/spawn.py"
FORKSERVER = "/usr/lib/python3.14/multiprocessing/popen_forkserver.py"
TORCH = "/x/site-packages/torch/serialization.py"
GROUPS = "/x/site-packages/torch/distributed/distributed_c10d.py"
USERS = "/workspace/train.py"


def event(
    signature: str, text: str = "", line: int = 1, *, rank: int | None = None, path: str | None = None, **values: str
) -> Event:
    kind = next((row.kind for row in ROWS if row.name == signature), Kind.FAILURE)
    frames = () if path is None else (TracebackFrame(USERS, 90, "main", ""), TracebackFrame(path, 10, "f", ""))
    traceback = Traceback(frames, "", "") if frames else None
    return Event(signature, kind, LineAuthor(rank=rank), 0, line, None, text or signature, values, traceback=traceback)


def timeline(*events: Event, went_on: bool = False) -> Timeline:
    return Timeline((LogSource("train.log", lines=100),), events, went_on=went_on)


def codes(findings: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(
    ("kind", "path", "told"),
    [
        ("torch._C._distributed_c10d.ProcessGroup", TORCH, "DC602"),
        ("torch._C._distributed_c10d.ProcessGroup", SPAWN, "DC602"),
        ("_thread.lock", TORCH, "DC601"),
        ("_thread.lock", SPAWN, "DC605"),
        ("_io.TextIOWrapper", FORKSERVER, "DC605"),
        ("generator", None, "DC601"),
    ],
)
def test_what_can_not_be_pickled_and_for_what(kind: str, path: str | None, told: str) -> None:
    (found,) = objects_pickle(timeline(event("unpicklable", type=kind, path=path)))
    assert found.code == told
    assert path is None or f"{USERS}:90" in found.message


def test_a_lock_is_inherited_only() -> None:
    text = "RuntimeError: Lock objects should only be shared between processes through inheritance"
    assert codes(objects_pickle(timeline(event("unpicklable", text, object="Lock")))) == ["DC605"]


def test_ranks_with_one_fault_are_one_finding() -> None:
    log = timeline(*(event("unpicklable", line=n, rank=n, type="_thread.lock") for n in range(4)))
    (found,) = objects_pickle(log)
    assert found.evidence["ranks"] == "0-3"


def test_a_name_that_the_spawned_child_does_not_have() -> None:
    assert codes(objects_pickle(timeline(event("spawned-child-lost-it", object="collate", path=CHILD)))) == ["DC605"]
    assert not list(objects_pickle(timeline(event("spawned-child-lost-it", object="Net", path=TORCH))))


def test_what_weights_only_refuses_is_named() -> None:
    log = timeline(event("weights-only"), event("weights-only-global", line=5, **{"global": "argparse.Namespace"}))
    (found,) = weights_load_alone(log)
    assert found.code == "DC611" and "argparse.Namespace" in found.message
    assert found.fix.command == "from argparse import Namespace\ntorch.serialization.add_safe_globals([Namespace])"


@pytest.mark.parametrize(("operand", "told"), [("149", "DC611"), ("60", "DC612"), ("118", "DC612")])
def test_a_web_page_is_no_checkpoint(operand: str, told: str) -> None:
    log = timeline(event("weights-only"), event("weights-only-operand", line=5, operand=operand))
    assert codes(weights_load_alone(log)) == [told]


@pytest.mark.parametrize(("path", "told"), [(TORCH, ["DC612"]), (CHILD, []), (GROUPS, []), (None, ["DC612"])])
def test_only_files_are_broken(path: str | None, told: list[str]) -> None:
    assert codes(files_are_whole(timeline(event("broken-pickle", why="pickle data was truncated", path=path)))) == told


def test_a_pointer_of_git_lfs_is_fetched() -> None:
    (found,) = files_are_whole(timeline(event("broken-pickle", why="invalid load key, 'v'", key="'v'", path=TORCH)))
    assert found.fix.command == "git lfs pull"


def test_several_writers_of_one_file_tear_it() -> None:
    broken = event("broken-file", line=9, rank=1, why="failed finding central directory")
    saves = [event("saving", line=n, rank=n, file="/shared/last.pt") for n in (1, 2)]
    assert codes(files_are_whole(timeline(*saves, broken))) == ["DC720"]
    own = [event("saving", line=n, rank=n, file=f"/shared/rank{n}.pt") for n in (1, 2)]
    assert codes(files_are_whole(timeline(*own, broken))) == ["DC612"]
    assert codes(files_are_whole(timeline(saves[0], broken))) == ["DC612"]


def test_several_ranks_rename_one_file() -> None:
    lost = [event("rename-lost", line=n, rank=n, file="a.tmp", to="a.pt") for n in (1, 2)]
    assert codes(files_are_whole(timeline(*lost))) == ["DC720"]
    assert not list(files_are_whole(timeline(lost[0])))


@pytest.mark.parametrize(
    ("missing", "surplus", "told"),
    [
        ("fc.weight", "module.fc.weight", "module."),
        ("module.fc.weight", "fc.weight", "module."),
        ("fc.weight", "_orig_mod.fc.weight", "_orig_mod."),
        ("head.weight", "classifier.weight", None),
        ("module.head.weight", "module.classifier.weight", None),
        ("head.weight", None, None),
    ],
)
def test_keys_of_a_wrapper(missing: str, surplus: str | None, told: str | None) -> None:
    events = [event("state-keys", line=2, which="Missing", key=missing)]
    if surplus is not None:
        events.append(event("state-keys", line=3, which="Unexpected", key=surplus))
    found = list(keys_fit(timeline(event("state-mismatch", model="Net"), *events)))
    assert [item.evidence["prefix"] for item in found] == ([told] if told else [])
    assert all(item.severity is Severity.ERROR for item in found)


@pytest.mark.parametrize(
    ("rank", "path", "text", "told"),
    [
        (5, TORCH, "CUDA out of memory. GPU 0 has a total capacity", ["DC723"]),
        (0, TORCH, "CUDA out of memory. GPU 0 has a total capacity", []),
        (5, USERS, "CUDA out of memory. GPU 0 has a total capacity", []),
        (5, TORCH, "CUDA out of memory. GPU 5 has a total capacity", []),
    ],
)
def test_who_fills_gpu_0(rank: int, path: str, text: str, told: list[str]) -> None:
    assert codes(checkpoints_load_on_their_rank(timeline(event("exception", text, rank=rank, path=path)))) == told


def test_a_failure_that_was_lived_through_is_a_remark() -> None:
    (found,) = objects_pickle(timeline(event("unpicklable", type="_thread.lock"), went_on=True))
    assert found.severity is Severity.INFO and found.evidence["role"] == "context"


def test_a_spawn_is_seen_without_the_beginning_of_its_traceback() -> None:
    lost = event("unpicklable", line=20, object="main.<locals>.seed")
    frame = event("spawn-frame", '  File "/usr/lib/python3.8/multiprocessing/popen_spawn_posix.py"', 16)
    assert codes(objects_pickle(timeline(frame, lost))) == ["DC605"]
    assert codes(objects_pickle(timeline(frame, lost._replace(line=90)))) == ["DC601"]
