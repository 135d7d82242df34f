"""From files to the linked program: rounds of the prefilter, the cache, processes, and what can't be read."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from distcheck.checks.source import engine
from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.checks.source.summary import FileSummary, unpack

SAVES = "import torch\n\ndef write(x):\n    torch.save(x, 'x.pt')\n"
GUARDS = "import torch.distributed as dist\nfrom deeds import write\n\nif dist.get_rank() == 0:\n    write(1)\n"
CALLS = "from middle import step\n\nstep(2)\n"
MIDDLE = "import torch.distributed as dist\n\ndef step(x):\n    dist.all_reduce(x)\n"


class Memory(dict[bytes, bytes]):
    """A cache without a folder."""

    def put(self, digest: bytes, data: bytes) -> None:
        self[digest] = data


def files(**texts: str | bytes) -> list[SourceFile]:
    def reader(text: str | bytes) -> object:
        return lambda: text.encode() if isinstance(text, str) else text

    return [SourceFile(f"{name}.py", reader(text)) for name, text in texts.items()]  # type: ignore[arg-type]


def test_a_file_that_nothing_matters_in_is_put_aside() -> None:
    program = analyse(files(plain="print(1)\n", main=GUARDS))
    assert list(program.files) == ["main.py"]
    assert program.put_aside == 1


def test_what_a_file_of_interest_imports_is_taken_back() -> None:
    assert set(analyse(files(deeds=SAVES, main=GUARDS)).files) == {"deeds.py", "main.py"}


def test_what_a_script_above_all_folders_imports_is_taken_back() -> None:
    script = GUARDS.replace("from deeds", "from lib.deeds")
    assert set(analyse(files(**{"lib/deeds": SAVES, "lib/other": SAVES, "main": script})).files) == {
        "lib/deeds.py",
        "main.py",
    }


def test_what_a_script_of_another_folder_imports_by_its_whole_name_is_taken_back() -> None:
    script = GUARDS.replace("from deeds", "from lib.deeds")
    assert set(analyse(files(**{"lib/deeds": SAVES, "app/main": script})).files) == {"lib/deeds.py", "app/main.py"}


def test_what_a_script_of_another_folder_imports_stays_aside() -> None:
    assert list(analyse(files(**{"lib/deeds": SAVES, "app/main": GUARDS})).files) == ["app/main.py"]


def test_a_caller_without_a_literal_is_taken_back() -> None:
    assert set(analyse(files(call=CALLS, middle=MIDDLE)).files) == {"call.py", "middle.py"}


def test_a_warm_run_says_the_same_and_parses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Memory()
    cold = analyse(files(deeds=SAVES, main=GUARDS, plain="print(1)\n"), cache=cache)
    monkeypatch.setattr(engine, "extract", None)
    warm = analyse(files(deeds=SAVES, main=GUARDS, plain="print(1)\n"), cache=cache)
    assert [call.text() for call in cold.calls] == [call.text() for call in warm.calls]
    assert warm.put_aside == 1


def test_a_changed_caller_changes_who_reaches_the_callee() -> None:
    cache = Memory()
    (before,) = analyse(files(deeds=SAVES, main=GUARDS), cache=cache).calls_to("torch.save")
    unguarded = GUARDS.replace("if dist.get_rank() == 0:\n    ", "")
    (after,) = analyse(files(deeds=SAVES, main=unguarded), cache=cache).calls_to("torch.save")
    assert (before.reached_by.who, after.reached_by.who) == ("the main process", "everyone")


@pytest.mark.parametrize("damage", [b"", b"x", b"\x00" * 40, b"\xff" * 40])
def test_a_damaged_summary_is_made_anew(damage: bytes) -> None:
    cache = Memory()
    analyse(files(main=GUARDS), cache=cache)
    for digest in cache:
        cache[digest] = damage
    assert len(list(analyse(files(main=GUARDS), cache=cache).calls)) == 2


def test_processes_make_the_same_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = analyse(files(deeds=SAVES, main=GUARDS))
    monkeypatch.setattr(engine, "_WORTH_A_PROCESS", 0)
    together = analyse(files(deeds=SAVES, main=GUARDS), jobs=2)
    assert [unpack(file.stored) for file in alone.index.files] == [unpack(file.stored) for file in together.index.files]


def test_processes_end_although_the_program_handles_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_WORTH_A_PROCESS", 0)
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        assert len(analyse(files(deeds=SAVES, main=GUARDS), jobs=2).index.files) == 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_file_that_a_process_dies_of_is_reported_and_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_WORTH_A_PROCESS", 0)
    extract, parent = engine.extract, os.getpid()

    def killed(source: bytes | str) -> FileSummary:
        if os.getpid() != parent and b"save" in source:
            os.kill(os.getpid(), signal.SIGKILL)
        return extract(source)

    monkeypatch.setattr(engine, "extract", killed)
    cache = Memory()
    program = analyse(files(deeds=SAVES, main=GUARDS), jobs=2, cache=cache)
    assert program.files["deeds.py"].problem == (
        "the analysis of it failed: the process that read it ended by signal 9",
        1,
        1,
    )
    assert program.files["main.py"].problem is None
    assert not any(b"signal 9" in data for data in cache.values())


@pytest.mark.parametrize(
    "data",
    [
        b"import torch.distributed\nx = (",
        b"import torch.distributed\n\x00",
        b"# -*- coding: nonsense -*-\nimport torch.distributed\n",
        b"import torch.distributed\nx = '\xff'\n",
        b"import torch.distributed\nx = " + b"(" * 3000 + b")" * 3000,
        b"import torch.distributed\nx = " + b"-" * 50000 + b"1",
    ],
)
def test_what_does_not_parse_is_said_and_the_rest_goes_on(data: bytes) -> None:
    program = analyse(files(broken=data, main=GUARDS))
    assert program.files["broken.py"].problem is not None
    assert program.files["main.py"].problem is None


def test_a_file_that_can_not_be_read_is_said() -> None:
    def gone() -> bytes:
        raise FileNotFoundError(2, "No such file or directory")

    problem = analyse([SourceFile("gone.py", gone)]).files["gone.py"].problem
    assert problem is not None
    assert "No such file" in problem[0]


def test_a_file_of_megabytes_is_said_not_to_be_analysed() -> None:
    problem = (
        analyse(files(large="import torch.distributed\n" + "x = 1\n" * (engine.LARGEST // 6))).files["large.py"].problem
    )
    assert problem is not None
    assert str(engine.LARGEST) in problem[0]


def test_a_file_that_the_engine_fails_on_is_said_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    real = engine.extract

    def fails(text: bytes | str) -> FileSummary:
        if b"odd" in text:  # type: ignore[operator]
            raise ZeroDivisionError("division by zero")
        return real(text)

    monkeypatch.setattr(engine, "extract", fails)
    program = analyse(files(odd="import torch.distributed\nodd = 1\n", main=GUARDS))
    problem = program.files["odd.py"].problem
    assert problem is not None
    assert "ZeroDivisionError" in problem[0]
    assert program.files["main.py"].problem is None


def test_what_python_would_warn_of_is_not_printed() -> None:
    with warnings.catch_warnings():
        # what would be printed is raised here, and the file would not parse
        warnings.simplefilter("error")
        program = analyse(files(main="import torch.distributed\nx = '\\d'\nif x is 0:\n    x()\n"))
    assert program.files["main.py"].problem is None
