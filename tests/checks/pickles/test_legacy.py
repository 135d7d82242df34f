"""Files of torch.save before 1.6, and of before 0.4: pickles in a row, raw storages behind them, or a tar."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from pathlib import Path

import pytest

from distcheck.checks.pickles import legacy as legacy_room
from distcheck.checks.pickles.files import read_file
from distcheck.checks.pickles.source_bytes import ScanLimits

MAGIC = 0x1950A86A20F9469CFC6C
HOSTILE = b"cos\nsystem\n(S'true'\ntR."
TENSOR = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x02\x00\x00\x0077X\x03\x00\x00\x00cpuK\x03NtQK\x00K\x03\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR."
)


def legacy(body: bytes = TENSOR, *, protocol: int = 2, version: int = 1001, keys: object = ("77",)) -> bytes:
    header = [pickle.dumps(value, protocol) for value in (MAGIC, version, {"little_endian": True})]
    return b"".join(header) + body + pickle.dumps(list(keys) if isinstance(keys, tuple) else keys, protocol)


STORAGE = struct.pack("<q", 3) + bytes(12)


@pytest.mark.parametrize("protocol", range(6))
def test_the_five_pickles_are_followed_and_the_storages_are_not(protocol: int) -> None:
    file = read_file(legacy(protocol=protocol) + STORAGE)
    assert file.format == "torch legacy"
    assert [stream.role for stream in file.streams] == ["header", "header", "header", "object", "keys"]
    assert {stream.reader for stream in file.streams} == {"torch-legacy"}
    assert file.anomalies == ()
    assert file.complete


def test_storages_that_are_cut_off_are_said() -> None:
    for size in (0, 7, 8, 19):
        (anomaly,) = read_file(legacy() + STORAGE[:size]).anomalies
        assert anomaly.kind == "malformed", size
        assert "cut off" in anomaly.what


def test_a_file_that_ends_before_its_pickles_is_malformed() -> None:
    whole = legacy()
    for end in (15, 21, 70, len(whole) - 5):
        file = read_file(whole[:end])
        assert file.anomalies or any(stream.trace.ended != "stop" for stream in file.streams), end


def test_storages_that_the_object_does_not_ask_for_are_refused() -> None:
    for keys in (("78",), ("77", "7"), "77"):
        (anomaly,) = read_file(legacy(keys=keys) + STORAGE + STORAGE).anomalies
        assert anomaly.kind == "malformed", keys
    other = struct.pack("<q", 6) + bytes(24)
    (anomaly,) = read_file(legacy() + other).anomalies
    assert "6 elements" in anomaly.what


def test_another_protocol_is_refused() -> None:
    (anomaly,) = read_file(legacy(version=1002) + STORAGE).anomalies
    assert anomaly.kind == "malformed"
    assert "1,002" in anomaly.what


@pytest.mark.parametrize("place", range(5))
def test_a_payload_counts_in_every_pickle(place: int) -> None:
    parts = [pickle.dumps(value, 2) for value in (MAGIC, 1001, {})] + [TENSOR, pickle.dumps(["77"], 2)]
    parts[place] = HOSTILE
    file = read_file(b"".join(parts))
    assert "os.system" in {naming.what.path for stream in file.streams for naming in stream.trace.globals}


def test_a_payload_behind_the_storages_counts() -> None:
    file = read_file(legacy() + STORAGE + HOSTILE)
    assert [stream.role for stream in file.streams][-1] == "appended"


#: A name out of the registry of copyreg: what it stands for, nobody knows.
EXTENSION = b"\x80\x02\x82\x01."


def test_a_protocol_that_is_no_plain_data_is_refused() -> None:
    parts = [pickle.dumps(MAGIC, 2), EXTENSION, pickle.dumps({}, 2), TENSOR, pickle.dumps(["77"], 2)]
    (anomaly,) = read_file(b"".join(parts) + STORAGE).anomalies
    assert "its protocol is no number" in anomaly.what


def test_where_the_storages_end_nobody_knows_it_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle may follow them, as for those whose end is known."""
    unknown = legacy(TENSOR.replace(b"FloatStorage", b"OtherStorage"))
    unreadable = legacy().removesuffix(pickle.dumps(["77"], 2)) + EXTENSION
    for content, why in ((unknown, "how many bytes '77' has"), (unreadable, "not plain data")):
        file = read_file(content + STORAGE + HOSTILE)
        assert (file.format, file.complete) == ("torch legacy", False)
        assert [line for line in file.unopened if why in line]
    monkeypatch.setattr(legacy_room, "MOST_STORAGES", 1)
    assert not read_file(legacy() + STORAGE).complete


def tar(members: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def record(key: int, what: bytes) -> bytes:
    return b"\x80\x02M" + struct.pack("<H", key) + b"U\x03cpu" + what + b"\x87."


STORAGES = b"\x80\x02K\x01." + record(7, b"ctorch\nFloatStorage\n") + STORAGE + pickle.dumps([], 2)
TENSORS = b"\x80\x02K\x01." + record(9, b"ctorch\nFloatTensor\n") + struct.pack("<2i3q", 1, 0, 3, 1, 0)


def test_the_old_tar_is_read_to_its_last_record() -> None:
    file = read_file(tar({"storages": STORAGES, "tensors": TENSORS, "pickle": b"\x80\x02}."}))
    assert file.format == "torch legacy tar"
    assert file.complete
    assert [anomaly.kind for anomaly in file.anomalies] == ["refused"]
    assert [stream.role for stream in file.streams] == ["header", "header", "keys", "header", "header", "object"]
    assert all(stream.trace.ended == "stop" for stream in file.streams)


@pytest.mark.parametrize("name", ["storages", "tensors", "pickle"])
def test_a_payload_counts_in_every_member_of_the_tar(name: str) -> None:
    members = {"storages": STORAGES, "tensors": TENSORS, "pickle": b"\x80\x02}."}
    for content in (HOSTILE, members[name][:5] + HOSTILE):
        file = read_file(tar({**members, name: content}))
        named = {naming.what.path for stream in file.streams for naming in stream.trace.globals}
        assert "os.system" in named or not file.complete or name == "pickle"


def test_a_tar_whose_records_can_not_be_followed_is_not_complete() -> None:
    strange = b"\x80\x02K\x01." + record(7, b"cother\nThing\n") + STORAGE
    assert not read_file(tar({"storages": strange, "tensors": TENSORS, "pickle": b"N."})).complete


@pytest.mark.parametrize("name", ["storages", "tensors"])
def test_a_member_that_the_tar_lacks_is_said(name: str) -> None:
    members = {"storages": STORAGES, "tensors": TENSORS, "pickle": HOSTILE}
    del members[name]
    file = read_file(tar(members))
    assert [anomaly.what for anomaly in file.anomalies if anomaly.kind == "malformed"] == [f"it has no member {name!r}"]
    assert "os.system" in {naming.what.path for stream in file.streams for naming in stream.trace.globals}


def test_records_that_are_promised_and_missing_are_said() -> None:
    members = {"storages": STORAGES, "tensors": TENSORS.replace(b"K\x01.", b"K\x03.", 1), "pickle": b"\x80\x02}."}
    anomalies = read_file(tar(members)).anomalies
    assert "it promises 3 records and ends before" in [anomaly.what for anomaly in anomalies]


@pytest.mark.parametrize("storages", [EXTENSION, b"\x80\x02K\x01." + EXTENSION])
def test_members_of_the_tar_that_are_no_plain_data_are_not_complete(storages: bytes) -> None:
    assert not read_file(tar({"storages": storages, "tensors": TENSORS, "pickle": b"N."})).complete


def test_a_tar_with_more_records_than_may_be_read_is_not_complete() -> None:
    whole = tar({"storages": STORAGES, "tensors": TENSORS, "pickle": b"N."})
    assert [read_file(whole, ScanLimits(members=number)).complete for number in (4, 5)] == [False, True]


@pytest.mark.torch
def test_what_torch_writes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    value = {"a": torch.ones(3), "b": torch.zeros(4, dtype=torch.int64)[1:], "c": torch.ones(2, dtype=torch.bfloat16)}
    path = tmp_path / "old.pt"
    torch.save(value, path, _use_new_zipfile_serialization=False)
    file = read_file(path)
    assert (file.format, file.anomalies, file.complete) == ("torch legacy", (), True)
    whole = path.read_bytes()
    for end in (len(whole) - 1, len(whole) - 20):
        assert {anomaly.kind for anomaly in read_file(whole[:end]).anomalies} == {"malformed"}
        with pytest.raises((RuntimeError, EOFError)):
            torch.load(io.BytesIO(whole[:end]), weights_only=True)
