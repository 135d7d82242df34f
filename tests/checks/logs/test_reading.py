"""One pass over a log: lines that matter with who, when and where, tracebacks, bounds, files of all kinds."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.logs import known_lines, leading_rows, reading
from distcheck.checks.logs.matching import Matcher
from distcheck.checks.logs.model import Event, LineAuthor, LogReading, LogSource
from distcheck.checks.logs.prefixes import LineHead, Prefixes
from distcheck.checks.logs.reading import SourceReader, read, signatures
from distcheck.core.signature import Kind, Signature

MATCHER = Matcher(signatures())

BIND = (
    "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, "
    "code: -98, name: EADDRINUSE, message: address already in use"
)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/workspace/train.py", line 33, in <module>\n'
    "    main()\n"
    '  File "/workspace/train.py", line 12, in main\n'
    '    raise ValueError("no such layer")\n'
    "ValueError: no such layer\n"
)
NOISE = "".join(f"step {step} loss {2.5 - step / 1000:.3f}\n" for step in range(400))
TABLE = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:00:00
  host      : node01
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4711)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def read_text(text: str | bytes, *, matcher: Matcher = MATCHER) -> LogReading:
    reader = SourceReader(LogSource("x.log"), matcher)
    reader.feed(text.encode() if isinstance(text, str) else text)
    return reader.reading()


def bad(result: LogReading) -> list[Event]:
    return [event for event in result.events if event.kind <= Kind.LOST]


def prefixed(text: str, prefix: str) -> str:
    return "".join(prefix + line + "\n" for line in text.splitlines())


def one_row(pattern: str, kind: Kind = Kind.CAUSE) -> Matcher:
    return Matcher([Signature("x", kind, pattern, ()), *leading_rows.STARTERS, *leading_rows.ERROR_LINES])


# --- lines ---


def test_a_line_is_found_with_its_number_its_writer_and_its_time() -> None:
    line = "[rank3]:[W1122 07:43:25.100000000 socket.cpp:1] [c10d] failed to open the gate\n"
    result = read_text(NOISE + line + NOISE, matcher=one_row("failed to open the gate"))
    (event,) = result.events
    assert event.line == 401
    assert event.who == LineAuthor(rank=3)
    assert event.time is not None
    assert event.text == "[c10d] failed to open the gate"
    assert result.source.lines == 801
    assert result.source.bytes == len(NOISE) * 2 + len(line)


def test_colours_do_not_hide_an_error() -> None:
    result = read_text(
        "\x1b[31mfailed to\x1b[0m open \x1b[1mthe gate\x1b[0m\n", matcher=one_row("failed to open the gate")
    )
    assert [event.text for event in result.events] == ["failed to open the gate"]


def test_an_error_behind_a_progress_bar_is_of_its_line_and_writer() -> None:
    bar = "\r".join(f" {done}%|###   | {done}/100 [00:01<00:09, 9.9it/s]" for done in range(50))
    text = f"first\n[rank2]: {bar}\rfailed to open the gate\r 51%|###   |\nlast\n"
    (event,) = read_text(text, matcher=one_row("failed to open the gate")).events
    assert (event.line, event.who, event.text) == (2, LineAuthor(rank=2), "failed to open the gate")


def test_windows_line_ends() -> None:
    (event,) = read_text("a\r\nb\r\nfailed to open the gate\r\n", matcher=one_row("failed to open the gate")).events
    assert (event.line, event.text) == (3, "failed to open the gate")


def test_a_hole_of_zeros_before_the_text_is_skipped() -> None:
    (event,) = read_text(b"\0" * 5000 + b"failed to open the gate\n", matcher=one_row("failed to open the gate")).events
    assert event.line == 1


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    (event,) = read_text(
        b"\xff\xfe\xe4 failed to open the gate \xc3\n", matcher=one_row("failed to open the gate")
    ).events
    assert "failed to open the gate" in event.text


def test_groups_become_values() -> None:
    (event,) = read_text("port 29500 taken\n", matcher=one_row(r"port (?P<port>\d+)(?: by (?P<who>\w+))? taken")).events
    assert event.values == {"port": "29500"} and event.number("port") == 29500


def test_several_rows_of_one_name_make_one_event() -> None:
    rows = [
        Signature("x", Kind.CAUSE, r"gate (?P<a>\d) shut", ()),
        Signature("x", Kind.CAUSE, r"gate \d (?P<b>\w+)", ()),
    ]
    (event,) = read_text("gate 7 shut\n", matcher=Matcher(rows)).events
    assert event.values == {"a": "7", "b": "shut"} and event.repeated == 0


def test_equal_lines_of_a_process_are_counted() -> None:
    lines = "".join(f"[rank{number % 2}]: failed to open the gate\n" for number in range(20))
    events = read_text(lines, matcher=one_row("failed to open the gate")).events
    assert [(event.who.rank, event.line, event.repeated) for event in events] == [(0, 1, 9), (1, 2, 9)]


def test_after_a_restart_the_same_text_is_said_anew() -> None:
    rows = [*signatures(), Signature("x", Kind.CAUSE, "failed to open the gate", ())]
    restart = next(example for row in rows if row.name == reading.RESTART for example in row.examples)
    result = read_text(f"failed to open the gate\n{restart}\nfailed to open the gate\n", matcher=Matcher(rows))
    assert [event.line for event in result.events if event.signature == "x"] == [1, 3]


def test_credentials_are_not_kept() -> None:
    key = "hf_" + "a1B2" * 8
    text = f"failed to open {key} at https://user:pass@host/x\n[rank0]: password=hunter22 {key}\n"
    result = read_text(text, matcher=one_row(r"failed to open (?P<what>\S+)"))
    kept = repr(result)
    assert key not in kept and "hunter22" not in kept and "user:pass" not in kept
    assert result.events[0].values["what"] == "***"


def test_long_text_is_cut_around_what_was_found() -> None:
    text = "x " * 2000 + "port 29500 taken" + " y" * 2000 + "\n"
    (event,) = read_text(text, matcher=one_row(r"port (?P<port>\d+) taken")).events
    assert len(event.text) <= 500 and "port 29500 taken" in event.text


def test_containers_json_is_unwrapped() -> None:
    text = '{"log":"[rank1]: cannot open gate\\n","stream":"stderr","time":"2026-03-01T10:00:00.5Z"}\n'
    (event,) = read_text(text, matcher=one_row("cannot open (?P<what>.+)")).events
    assert (event.who.rank, event.values, event.time) == (1, {"what": "gate"}, 1772359200.5)


# --- tracebacks ---


def test_an_exception_that_no_signature_names_is_an_event_with_its_traceback() -> None:
    (event,) = bad(read_text(NOISE + prefixed(TRACEBACK, "[rank1]: ") + NOISE))
    assert (event.signature, event.line, event.who) == ("exception", 406, LineAuthor(rank=1))
    assert event.text == "ValueError: no such layer"
    assert event.traceback is not None and event.traceback.frames[-1].line == 12


def test_a_named_exception_carries_its_traceback() -> None:
    text = TRACEBACK.replace("ValueError: no such layer", "RuntimeError: CUDA error: invalid device ordinal")
    (event,) = bad(read_text(prefixed(text, "[rank1]: ")))
    assert event.signature not in ("exception", "error-line")
    assert event.traceback is not None and event.traceback.exception == "RuntimeError"


@pytest.mark.parametrize(
    ("message", "signature"),
    [
        ("environment variable RANK \nexpected, but not set", "rendezvous-env-missing"),
        ("environment variable RANK \nis what this needs", "exception"),
    ],
)
def test_a_message_that_a_console_wraps_is_read_as_one_line(message: str, signature: str) -> None:
    text = TRACEBACK.replace("no such layer\n", message + "\n")
    assert [event.signature for event in bad(read_text(text))] == [signature]


def test_code_in_a_box_is_no_event() -> None:
    box = "│ /w/train.py:9 in main    │\n│ ❱ 9 │   raise RuntimeError('CUDA error: invalid device ordinal') │\n"
    text = f"╭─ Traceback (most recent call last) ─╮\n{box}╰──────╯\nKeyError: 'weights'\n"
    assert [event.signature for event in bad(read_text(text))] == ["exception"]


def test_what_the_program_text_holds_is_no_event() -> None:
    text = TRACEBACK.replace("    main()", "    main()  # CUDA error: invalid device ordinal")
    assert [event.signature for event in bad(read_text(text))] == ["exception"]


def test_tracebacks_of_several_ranks_line_by_line() -> None:
    lines = TRACEBACK.splitlines()
    text = "".join(f"[rank{rank}]: {line.replace('layer', f'layer {rank}')}\n" for line in lines for rank in range(8))
    events = [event for event in bad(read_text(text)) if event.signature == "exception"]
    assert [(event.who.rank, event.text) for event in events] == [
        (rank, f"ValueError: no such layer {rank}") for rank in range(8)
    ]
    assert all(event.traceback and len(event.traceback.frames) == 2 for event in events)


def test_a_log_that_begins_within_a_traceback_still_has_it() -> None:
    (event,) = bad(read_text(TRACEBACK.split("\n", 1)[1]))
    assert event.signature == "exception" and event.traceback is not None and event.traceback.users is not None


def test_printed_stacks_without_an_exception_are_no_failure() -> None:
    stack = '  File "/workspace/train.py", line 3, in main\n    work()\n'
    assert bad(read_text(NOISE + stack + NOISE)) == []


def test_a_traceback_that_the_log_cuts_off_is_an_event() -> None:
    (event,) = bad(read_text(NOISE + "".join(TRACEBACK.splitlines(True)[:4])))
    assert event.signature == "exception" and event.traceback is not None and not event.traceback.exception


def test_tracebacks_without_end_cost_no_more_than_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_DENSE", 500)
    result = read_text(("Traceback (most recent call last):\n" + "  some code\n" * 50) * 100 + BIND + "\n")
    assert any("EADDRINUSE" in event.text for event in result.events)


# --- error lines, tables ---


@pytest.mark.parametrize("row", leading_rows.ERROR_LINES, ids=lambda row: row.pattern)
def test_lines_that_look_like_an_error(row: Signature) -> None:
    matcher = Matcher([row])
    assert all(matcher.identify(example.encode()) for example in row.examples)


@pytest.mark.parametrize(
    "line",
    [
        "error rate 0.3",
        "grad_norm errors 0",
        "mean_absolute_error: 0.3",
        "Terror: the film",
        "No errors found",
        "0 failed",
    ],
)
def test_lines_that_look_like_none(line: str) -> None:
    matcher = Matcher(leading_rows.ERROR_LINES)
    assert [row.pattern for row, _ in matcher.identify(line.encode())] == []


def test_noise_that_looks_like_errors_ends_the_search_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_ERROR_LINES", 50)
    text = "".join(f"step {step} error: none {step}\n" for step in range(2000)) + BIND + "\n"
    result = read_text(text)
    assert sum(event.signature == "error-line" for event in result.events) <= 50
    assert any("EADDRINUSE" in event.text for event in result.events)


def test_torchruns_table_becomes_rows() -> None:
    result = read_text(NOISE + TABLE)
    assert [(row.rank, row.exitcode, row.pid, row.first) for row in result.workers] == [(1, 1, 4711, True)]


# --- who spoke, how it ended ---


def test_everybody_who_wrote_is_heard_with_the_last_words() -> None:
    text = "".join(f"[rank{rank}]: step {step}\n" for step in range(50) for rank in range(16))
    rank_streams = read_text(text).rank_streams
    assert [(voice.who.rank, voice.first_line, voice.last_line, voice.last_text) for voice in rank_streams] == [
        (rank, rank + 1, 49 * 16 + rank + 1, "step 49") for rank in range(16)
    ]


def test_in_a_large_log_all_are_heard_that_write_regularly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ALL_UP_TO", 1 << 16)
    text = "".join(f"[rank{rank}]: step {step} {'x' * 60}\n" for step in range(300) for rank in range(64))
    reader = SourceReader(LogSource("x"), MATCHER)
    for begin in range(0, len(text), 1 << 18):
        reader.feed(text[begin : begin + (1 << 18)].encode())
    rank_streams = reader.reading().rank_streams
    assert len(rank_streams) == 64
    assert all(voice.last_line > 64 * 299 for voice in rank_streams)


def test_the_last_lines_are_kept_with_their_numbers() -> None:
    result = read_text(NOISE + "[rank3]: the end\n")
    assert result.tail[-1] == (401, LineAuthor(rank=3), "the end")
    assert len(result.tail) == 200 and result.tail[0][0] == 202


# --- bounds ---


def test_a_noisy_signature_is_kept_in_part_and_the_rest_counted() -> None:
    text = "".join(f"failed to open gate {number}\n" for number in range(3000))
    result = read_text(text, matcher=one_row("failed to open gate"))
    assert len(result.events) == 20 and result.dropped == 2980


def test_other_processes_are_still_heard_after_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_NOISY", 100)
    monkeypatch.setattr(reading, "_QUIET_BYTES", 1 << 18)
    noise = "".join(f"failed to open gate {number}\n" for number in range(50_000))
    reader = SourceReader(LogSource("x"), one_row("failed to open gate"))
    reader.feed(noise.encode())
    reader.feed(NOISE.encode() * 80)
    reader.feed(b"[rank5]: failed to open gate x\n")
    result = reader.reading()
    assert result.dropped < 50_000
    assert [event.who.rank for event in result.events][-1] == 5


def test_a_notice_that_all_ranks_repeat_is_soon_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_NOISY_NOTICES", 100)
    parsed: list[str] = []
    parse = Prefixes.parse

    def counted(self: Prefixes, line: str) -> LineHead:
        parsed.append(line)
        return parse(self, line)

    monkeypatch.setattr(Prefixes, "parse", counted)
    notice = "[rank%d]:[W1122 08:00:00.1 socket.cpp:752] [c10d] The hostname of the client socket cannot be retrieved."
    lines = [f"{notice % rank} err=-3" for _ in range(2000) for rank in range(4)]
    lines += ["[rank3]: RuntimeError: CUDA error: invalid device ordinal", *lines[:400]]
    result = read_text("\n".join(lines))
    assert [event.who.rank for event in result.events if event.signature == "reverse-name-noise"] == [0, 1, 2, 3]
    assert [event.line for event in result.events if event.signature == "invalid-device"] == [8001]
    assert sum("hostname" in line for line in parsed) < 1000


def test_a_failure_that_all_ranks_repeat_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_NOISY", 100)
    lines = ["RuntimeError: CUDA error: invalid device ordinal"] * 500
    assert [event.repeated for event in read_text("\n".join(lines)).events] == [499]


def _of_many_processes(seed: int) -> str:
    """Failures that thousands of lines repeat, between all that may stand between them."""
    chance = random.Random(seed)
    warnings = [
        f"node{number // 8:03}:{4000 + number}:{4000 + number} [{number % 8}] NCCL WARN Call to ibv_modify_qp failed "
        f"with error Connection timed out errno {110 + number % 3}"
        for number in range(40)
    ]
    others = [
        prefixed(TRACEBACK, "[rank3]: "),
        TRACEBACK,
        TABLE,
        "[rank2]: RuntimeError: CUDA error: invalid device ordinal\n",
        'Traceback (most recent call last):\n  File "/workspace/a.py", line 1, in <module>\n    a()\n'
        f"{warnings[3]}\nRuntimeError: CUDA error: invalid device ordinal\n",
        f"  5%|#    | 5/90\r{warnings[1]}\n",
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 2/3 attempts left; will restart "
        "worker group\n",
        NOISE[:2000],
    ]
    return "".join(
        chance.choice(others) if chance.random() < 0.005 else chance.choice(warnings) + "\n" for _ in range(5000)
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", ["re2", "re"])
def test_lines_that_are_known_are_counted_as_the_others(
    seed: int, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "re2":
        pytest.importorskip("re2")
    text = _of_many_processes(seed)
    matcher = Matcher(reading.signatures(), engine=engine)
    monkeypatch.setattr(reading, "_ENOUGH", 20_000)
    # known lines do not count as noise
    monkeypatch.setattr(reading, "_NOISY_NOTICES", 1 << 30)

    def read_in_pieces() -> LogReading:
        reader = SourceReader(LogSource("x"), matcher)
        for start in range(0, len(text), 10_000):
            reader.feed(text[start : start + 10_000].encode())
        return reader.reading()

    fast = read_in_pieces()
    monkeypatch.setattr(known_lines, "_MOST", 0)
    assert read_in_pieces() == fast


def test_a_failure_that_thousands_of_lines_repeat_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ENOUGH", 20_000)
    taken: list[bytes] = []
    head = SourceReader._head

    def counted(self: SourceReader, data: bytes, start: int, raw: bytes) -> LineHead:
        taken.append(raw)
        return head(self, data, start, raw)

    monkeypatch.setattr(SourceReader, "_head", counted)
    line = "node001:%d:%d [1] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110\n"
    text = "".join(line % (pid, pid) for _ in range(200) for pid in range(4000, 4050))
    reader = SourceReader(LogSource("x"), MATCHER)
    for start in range(0, len(text), 10_000):
        reader.feed(text[start : start + 10_000].encode())
    events = [event for event in reader.reading().events if event.signature == "ib-modify-qp"]
    assert len(events) == 50 and {event.repeated for event in events} == {199}
    assert {event.until for event in events} == set(range(9951, 10_001))
    assert len(taken) < 200


def test_events_stay_within_their_budget() -> None:
    reader = SourceReader(LogSource("x"), one_row("failed to open"), budget=20_000)
    reader.feed("".join(f"[rank{number}]: failed to open {number} {'x' * 300}\n" for number in range(1000)).encode())
    result = reader.reading()
    assert 10 < len(result.events) < 40 and result.dropped == 1000 - len(result.events)


def test_a_line_without_an_end_is_read_in_parts_and_said() -> None:
    reader = SourceReader(LogSource("x"), one_row("failed to open the gate"))
    for _ in range(20):
        reader.feed(b"z" * (1 << 18))
    reader.feed(b" failed to open the gate ")
    reader.feed(b"z" * (1 << 18) + b"\nnext failed to open the gate\n")
    result = reader.reading()
    assert [event.line for event in result.events] == [1, 2]
    assert any("read in parts" in note for note in result.source.notes)
    assert len(reader._waiting) <= 1


def test_a_progress_bar_without_an_end_is_cut_where_it_is_redrawn() -> None:
    reader = SourceReader(LogSource("x"), one_row("failed to open the gate"))
    reader.feed(b" 10%|###  |\r" * 400_000 + b"failed to open the gate\r" + b" 10%|###  |\r" * 400_000)
    result = reader.reading()
    assert [event.line for event in result.events] == [1] and not result.source.notes


# --- pieces ---

LOGS = [
    NOISE[:300] + prefixed(TRACEBACK, "[rank1]: ") + TABLE,
    prefixed(TRACEBACK.replace("ValueError", "RuntimeError"), "3: ") + NOISE[:200] + BIND + "\r\n",
    "\x1b[31m" + BIND + "\x1b[0m\n 10%|# |\r 20%|# |\r" + TRACEBACK + "Killed",
    '{"log":"Traceback (most recent call last):\\n","time":"2026-03-01T10:00:00Z"}\n' + TRACEBACK,
]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(LOGS), st.data(), st.booleans())
def test_any_split_into_pieces_gives_the_same(text: str, data: st.DataObject, asked_between: bool) -> None:
    whole = read_text(text)
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    reader = SourceReader(LogSource("x.log"), MATCHER)
    for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        reader.feed(raw[begin:end])
        if asked_between:
            reader.reading()
    assert reader.reading() == whole


def test_a_reading_can_be_asked_for_while_a_log_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ENOUGH", 1000)
    reader = SourceReader(LogSource("x"), MATCHER)
    reader.feed(NOISE.encode())
    lines = prefixed(TRACEBACK, "[rank1]: ").encode()
    reader.feed(lines[: len(lines) // 2])
    half = reader.reading()
    assert half == reader.reading()
    reader.feed(lines[len(lines) // 2 :])
    assert [event.text for event in bad(reader.reading())] == ["ValueError: no such layer"]
    assert bad(reader.reading()) == bad(reader.reading())


# --- files ---


def test_files_are_read_in_processes_and_in_order(tmp_path: Path) -> None:
    for rank in range(12):
        (tmp_path / f"rank_{rank}.log").write_text(NOISE * (rank + 1) + TRACEBACK.replace("layer", f"layer {rank}"))
    told: list[tuple[int, int]] = []
    alone = read([str(tmp_path)])
    together = read([str(tmp_path)], jobs=4, progress=lambda done, of: told.append((done, of)))
    assert together == alone
    assert [result.source.who.rank for result in together] == list(range(12))
    assert [bad(result)[0].text for result in together] == [f"ValueError: no such layer {rank}" for rank in range(12)]
    assert told[-1][0] == told[-1][1] == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_a_process_that_dies_costs_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(5):
        (tmp_path / f"rank_{rank}.log").write_text(TRACEBACK)
    plain = SourceReader.feed

    def feed(self: SourceReader, data: bytes) -> None:
        if self.source.who.rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        plain(self, data)

    monkeypatch.setattr(SourceReader, "feed", feed)
    results = read([str(tmp_path)], jobs=2)
    assert [bool(result.source.problem) for result in results] == [False, False, False, True, False]
    assert "signal 9" in results[3].source.problem
    assert [len(bad(result)) for result in results] == [1, 1, 1, 0, 1]


def test_what_cannot_be_read_does_not_stop_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(TRACEBACK)
    (tmp_path / "b.log").write_bytes(b"\x7fELF" + bytes(1000))
    results = read([str(tmp_path), str(tmp_path / "missing.log")], jobs=2)
    assert [bool(result.source.problem) for result in results] == [False, True, True]
    assert bad(results[0])


def test_error_files_and_dumps_become_records(tmp_path: Path) -> None:
    folder = tmp_path / "none_x/attempt_0/3"
    folder.mkdir(parents=True)
    (folder / "error.json").write_text(
        '{"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "Traceback", "timestamp": "1772359200"}}}'
    )
    (tmp_path / "nccl_trace_rank_2.json").write_text('{"version": "2.4", "entries": []}')
    results = read([str(tmp_path)])
    assert [dump.rank for result in results for dump in result.dumps] == [2]
    (worker,) = [worker for result in results for worker in result.workers]
    assert worker.local_rank == 3 and "boom" in worker.message


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = os.pipe()
    with os.fdopen(theirs, "rb") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        writer = threading.Thread(target=lambda: (os.write(ours, TRACEBACK.encode()), os.close(ours)))
        writer.start()
        (result,) = read(["-"])
        writer.join()
    assert result.source.path == "-" and bad(result)


def test_tracebacks_without_number_do_not_hide_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_TRACEBACKS", 50)
    loud = "".join(prefixed(TRACEBACK.replace("no such layer", f"odd {number}"), "[rank1]: ") for number in range(500))
    result = read_text(loud + prefixed(TRACEBACK, "[rank2]: ") + loud)
    events = [event for event in bad(result) if event.signature == "exception"]
    assert [event.who.rank for event in events].count(2) == 1
    assert all(event.traceback is not None and len(event.traceback.frames) == 2 for event in events)
    assert result.dropped >= 900


@pytest.mark.slow
def test_a_very_deep_traceback_is_followed_to_its_end() -> None:
    frames = '  File "/workspace/train.py", line 12, in main\n    main()\n' * 40_000
    (event,) = bad(read_text("Traceback (most recent call last):\n" + frames + "RecursionError: too deep\n"))
    assert event.text == "RecursionError: too deep"
    assert event.traceback is not None and event.traceback.exception == "RecursionError"
