"""Which files are read, in which order, whom their names name, and how their bytes become text."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import threading
from pathlib import Path

import pytest

from distcheck.checks.logs.model import LineAuthor, LogSource
from distcheck.checks.logs.sources import PIECE, Text, find, who_by_name


def write(folder: Path, *names: str, text: bytes = b"one line\n") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def found(folder: Path) -> dict[str, tuple[LineAuthor, int | None]]:
    return {
        os.path.relpath(item.source.path, folder): (item.source.who, item.source.attempt)
        for item in find([str(folder)])
    }


def text_of(path: Path) -> tuple[bytes, Text]:
    text = Text(LogSource(str(path)))
    return b"".join(text.pieces()), text


def test_torchruns_tree_says_local_rank_and_attempt(tmp_path: Path) -> None:
    write(
        tmp_path,
        "none_abc12/attempt_0/0/stdout.log",
        "none_abc12/attempt_0/1/stderr.log",
        "none_abc12/attempt_1/1/stderr.log",
    )
    write(tmp_path, "none_abc12/attempt_1/1/error.json", text=b'{"message": {"message": "ValueError: x"}}')
    assert found(tmp_path) == {
        "none_abc12/attempt_0/0/stdout.log": (LineAuthor(local_rank=0), 0),
        "none_abc12/attempt_0/1/stderr.log": (LineAuthor(local_rank=1), 0),
        "none_abc12/attempt_1/1/error.json": (LineAuthor(local_rank=1), 1),
        "none_abc12/attempt_1/1/stderr.log": (LineAuthor(local_rank=1), 1),
    }
    assert [item.form for item in find([str(tmp_path)])].count("error-file") == 1


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("rank_3.log", LineAuthor(rank=3)),
        ("train.rank-12.out", LineAuthor(rank=12)),
        ("log_rank3.txt", LineAuthor(rank=3)),
        ("out/rank.5/stdout", LineAuthor(rank=5)),
        ("local_rank_2.log", LineAuthor(local_rank=2)),
        ("node_rank_1.log", LineAuthor()),
        ("nccl.node01.4711.log", LineAuthor(host="node01", pid=4711)),
        ("nccl_debug.gpu-7.cluster.4711.txt", LineAuthor(host="gpu-7.cluster", pid=4711)),
        ("train-worker-0.log", LineAuthor(host="train-worker-0")),
        ("pytorch-job-master-0.log", LineAuthor(host="pytorch-job-master-0")),
        ("node01.log", LineAuthor(host="node01")),
        ("job-4711-node01.out", LineAuthor(host="node01")),
        ("10.0.0.4.log", LineAuthor(host="10.0.0.4")),
        ("ip-10-0-0-4.log", LineAuthor(host="ip-10-0-0-4")),
        ("nccl_trace_rank_3", LineAuthor(rank=3)),
        ("slurm-4711.out", LineAuthor()),
        ("2024.log", LineAuthor()),
        ("train.log", LineAuthor()),
        ("3.log", LineAuthor()),
        ("ipython3.log", LineAuthor()),
        ("gpu_usage2.log", LineAuthor()),
        ("ranking_3.log", LineAuthor()),
        ("run1.log", LineAuthor()),
        ("worker-" + "ab" * 28 + "-01000000-4711.err", LineAuthor(pid=4711)),
        ("std_log_3.txt", LineAuthor(task=3)),
        ("std_log_process_03.txt", LineAuthor(task=3)),
        ("std_log.txt", LineAuthor()),
    ],
)
def test_names_that_say_who_wrote(name: str, who: LineAuthor) -> None:
    assert who_by_name("/logs/" + name) == (who, None)


def test_a_whole_set_of_numbers_names_tasks(tmp_path: Path) -> None:
    write(
        tmp_path,
        "0.log",
        "1.log",
        "2.log",
        "3.log",
        "job-4711-0.out",
        "job-4711-1.out",
        "slurm-9_0.out",
        "slurm-9_1.out",
    )
    write(tmp_path, "epoch0.log", "epoch1.log", "7.err", "2024.txt")
    whos = {name: who.task for name, (who, _) in found(tmp_path).items()}
    assert whos == {
        **{f"{number}.log": number for number in range(4)},
        "job-4711-0.out": 0, "job-4711-1.out": 1, "slurm-9_0.out": None, "slurm-9_1.out": None,
        "epoch0.log": None, "epoch1.log": None, "7.err": None, "2024.txt": None,
    }  # fmt: skip


def test_numbers_with_a_gap_name_nobody(tmp_path: Path) -> None:
    write(tmp_path, "0.log", "1.log", "3.log")
    assert {who for who, _ in found(tmp_path).values()} == {LineAuthor()}


def test_rotated_parts_come_oldest_first(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.log",
        "train.log.1",
        "train.log.10",
        "other.log",
        "sys.log-20260102",
        "sys.log-20260101",
        "sys.log",
    )
    (tmp_path / "train.log.2.gz").write_bytes(gzip.compress(b"x\n"))
    names = [os.path.basename(item.source.path) for item in find([str(tmp_path)])]
    assert [name for name in names if name.startswith("train")] == [
        "train.log.10",
        "train.log.2.gz",
        "train.log.1",
        "train.log",
    ]
    assert [name for name in names if name.startswith("sys")] == ["sys.log-20260101", "sys.log-20260102", "sys.log"]
    parts = [item.source.notes for item in find([str(tmp_path)]) if "train" in item.source.path]
    assert parts[0] == ("part 1 of 4",)


def test_files_that_are_given_stay_in_their_order(tmp_path: Path) -> None:
    write(tmp_path, "b.log", "a.log")
    assert [Path(item.source.path).name for item in find([str(tmp_path / "b.log"), str(tmp_path / "a.log")])] == [
        "b.log",
        "a.log",
    ]


def test_links_to_a_file_are_not_read_again_and_circles_end(tmp_path: Path) -> None:
    write(tmp_path, "run/a.log")
    (tmp_path / "run" / "latest.log").symlink_to("a.log")
    os.link(tmp_path / "run" / "a.log", tmp_path / "run" / "b.log")
    (tmp_path / "run" / "loop").symlink_to(tmp_path)
    (tmp_path / "run" / "gone.log").symlink_to("nowhere")
    assert [item.source.problem for item in find([str(tmp_path)])] == [""]


def test_what_is_no_log_is_left_out_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "model.pt", "config.yaml", ".git/x.log", "sub/out.txt", "job.o4711", "nohup.out")
    assert set(found(tmp_path)) == {"sub/out.txt", "job.o4711", "nohup.out"}


def test_an_empty_folder_and_a_missing_file_are_problems(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    empty, missing = find([str(tmp_path / "x"), str(tmp_path / "no.log")])
    assert "holds no log" in empty.source.problem and not empty.form
    assert missing.source.problem == "there is no such file"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x7fELF\0\0", "a program"),
        (b"PK\x03\x04", "zip"),
        (bytes(range(20)) * 50, "not text"),
        (b"\x28\xb5\x2f\xfd", "zstd -d"),
    ],
)
def test_binary_files_say_what_they_are(tmp_path: Path, data: bytes, why: str) -> None:
    write(tmp_path, "x.log", text=data)
    (item,) = find([str(tmp_path)])
    assert why in item.source.problem and not item.form


def test_devices_are_not_read() -> None:
    assert [item.source.problem for item in find(["/dev/zero"])] == ["a device, not a file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_said(tmp_path: Path) -> None:
    write(tmp_path, "x.log")
    (tmp_path / "x.log").chmod(0)
    assert find([str(tmp_path)])[0].source.problem == "no permission to read it"


def test_dumps_are_known_by_their_content(tmp_path: Path) -> None:
    write(tmp_path, "nccl_trace_rank_0", text=pickle.dumps({"entries": [], "version": "2.4"}))
    write(tmp_path, "comm_lib_trace_rank_1.json", text=json.dumps({"version": "2.4", "entries": []}).encode())
    write(tmp_path, "fr_trace_2.json", text=json.dumps({"entries": [], "version": "2.4"}).encode())
    write(tmp_path, "config_trace.json", text=b'{"seed": 3}')
    items = find([str(tmp_path)])
    assert sorted((item.form, item.source.who.rank) for item in items) == [("dump", 0), ("dump", 1), ("dump", 2)]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_files_are_unpacked(tmp_path: Path, pack: object) -> None:
    content = b"".join(b"line %d\n" % number for number in range(50_000))
    path = tmp_path / "x.log"
    # two members, as when parts are appended to each other
    path.write_bytes(pack(content) + pack(b"the end\n"))  # type: ignore[operator]
    data, text = text_of(path)
    assert data == content + b"the end\n"
    assert text.notes == ["compressed"] and not text.problem


def test_a_small_file_that_unpacks_to_much_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\n" * (3 * PIECE + 5)))
    pieces = [len(piece) for piece in Text(LogSource(str(path))).pieces()]
    assert sum(pieces) == 3 * PIECE + 5 and max(pieces) <= PIECE


def test_a_compressed_file_that_ends_early_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    content = b"".join(b"line %d %d\n" % (number, number**5) for number in range(20_000))
    path.write_bytes(gzip.compress(content)[:-2000])
    data, text = text_of(path)
    assert len(data) > len(content) // 2 and content.startswith(data)
    assert "ends early" in text.problem


def test_a_damaged_compressed_file_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    packed = bytearray(gzip.compress(os.urandom(100_000)))
    packed[50_000:50_100] = bytes(100)
    path.write_bytes(packed + b"")
    assert "damaged" in text_of(path)[1].problem or "ends early" in text_of(path)[1].problem


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_powershells_redirected_output_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(("\ufeff" + "Zeile ä €\r\n" * 3).encode(encoding))
    data, text = text_of(path)
    assert data.decode() == "Zeile ä €\r\n" * 3
    assert text.notes == ["UTF-16"]


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"\xef\xbb\xbfabc\n")
    assert text_of(path)[0] == b"abc\n"


def test_a_growing_file_is_read_as_long_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"a\n" * PIECE)
    text = Text(LogSource(str(path)))
    total = 0
    for piece in text.pieces():
        total += len(piece)
        with path.open("ab") as stream:
            stream.write(b"more\n")
    assert total == 2 * PIECE
    assert "grew" in text.notes[0]


def test_a_file_that_is_cut_while_it_is_read_keeps_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"a\n" * PIECE)
    text = Text(LogSource(str(path)))
    pieces = text.pieces()
    first = next(pieces)
    os.truncate(path, 10)
    rest = list(pieces)
    assert len(first) == PIECE and not rest
    assert "became shorter" in text.notes[0] and not text.problem


def test_a_file_that_vanished_is_a_problem(tmp_path: Path) -> None:
    data, text = text_of(tmp_path / "gone.log")
    assert data == b"" and text.problem == "there is no such file"


def test_a_named_pipe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    (item,) = find([str(path)])
    writer = threading.Thread(target=lambda: path.write_bytes(b"through a pipe\n"))
    writer.start()
    assert b"".join(Text(item.source).pieces()) == b"through a pipe\n"
    writer.join()


def test_a_damaged_xz_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "train.log.xz"
    data = bytearray(lzma.compress(b"step 1 loss 0.3\n" * 5000))
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    text = Text(LogSource(str(path)))
    for _ in text.pieces():
        pass
    assert "damaged" in text.problem
