"""What torch.distributed.checkpoint writes: torch's zips one behind the other, and a plain pickle."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from distcheck.checks.pickles.files import read_file

from .zips import Entry, checkpoint, make_zip

HOSTILE = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
ITEMS = [checkpoint(pickle.dumps(["x"] * number, 2), zip64=bool(number % 2)) for number in range(6)]


def test_all_items_are_read() -> None:
    file = read_file(b"".join(ITEMS))
    assert (file.format, file.anomalies, file.complete) == ("distributed checkpoint", (), True)
    assert [stream.trace.end for stream in file.streams] == [
        len(pickle.dumps(["x"] * number, 2)) for number in range(6)
    ]
    assert {(stream.reader, stream.role) for stream in file.streams} == {("torch", "object")}


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_payload_counts_wherever_it_stands(place: int) -> None:
    file = read_file(b"".join([*ITEMS[:place], checkpoint(HOSTILE), *ITEMS[place:]]))
    assert "os.system" in {naming.what.path for stream in file.streams for naming in stream.trace.globals}


def test_bytes_between_the_items_are_not_passed_over_in_silence() -> None:
    file = read_file(ITEMS[1] + HOSTILE + ITEMS[2])
    assert file.anomalies or not file.complete


def test_other_archives_in_a_row_are_no_checkpoint() -> None:
    file = read_file(make_zip(Entry("a.pkl", HOSTILE)) + make_zip(Entry("b.txt", b"x")))
    assert {anomaly.kind for anomaly in file.anomalies} == {"disagree"}
    assert "os.system" in {naming.what.path for stream in file.streams for naming in stream.trace.globals}


@pytest.mark.torch
def test_what_torch_writes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    state = {"model": {"a": torch.ones(3), "b": torch.zeros(4)}, "step": 5, "name": "x"}
    dcp.save(state, checkpoint_id=str(tmp_path), no_dist=True)
    file = read_file(tmp_path)
    assert (file.format, file.anomalies, file.complete) == ("distributed checkpoint", (), True)
    assert {stream.trace.ended for stream in file.streams} == {"stop"}
    assert len(file.streams) == 5
    for path in (tmp_path / ".metadata", tmp_path / "__0_0.distcp"):
        assert read_file(path).format == "distributed checkpoint"
