"""Edits in files: what is around them stays, what overlaps waits, what would not compile is left alone."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.core.fixes import apply_fixes, unified_diff, why_it_does_not_compile, write_atomically
from distcheck.core.model import Edit, Fix

PATH = "train.py"


def edit(line: int, column: int, end_column: int, text: str, *, end_line: int | None = None, path: str = PATH) -> Edit:
    return Edit(path, line, column, line if end_line is None else end_line, end_column, text)


def fix(*edits: Edit) -> Fix:
    return Fix("do it", edits=edits, where="code", safe=True)


def edited(data: bytes, *fixes: Fix) -> bytes:
    result = apply_fixes(fixes, {PATH: data})
    assert not result.refused
    return result.files.get(PATH, data)


def test_an_edit_replaces_what_it_names() -> None:
    data = b"rank = os.environ['RANK']  # global\nprint(rank)\n"
    assert edited(data, fix(edit(1, 8, 8, "int("), edit(1, 26, 26, ")"))) == (
        b"rank = int(os.environ['RANK'])  # global\nprint(rank)\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a = 1\r\nb = 2\r\n", b"a = 1\r\nc = 3\r\nb = 9\r\n"),
        (b"\xef\xbb\xbfa = 1\nb = 2\n", b"\xef\xbb\xbfa = 1\nc = 3\nb = 9\n"),
        (b"a = 1\nb = 2", b"a = 1\nc = 3\nb = 9"),
        (b"a = 1\rb = 2\r", b"a = 1\rc = 3\rb = 9\r"),
        (b"#\x0c\nb = 2\n", b"#\x0c\nc = 3\nb = 9\n"),
    ],
    ids=["crlf", "bom", "no-end", "cr", "form-feed"],
)
def test_ends_of_lines_and_the_mark_at_the_start_stay(before: bytes, after: bytes) -> None:
    assert edited(before, fix(edit(2, 1, 1, "c = 3\n"), edit(2, 5, 6, "9"))) == after


def test_an_encoding_that_the_file_declares_stays() -> None:
    before = "# -*- coding: latin-1 -*-\nname = 'é'; rank = 1\n".encode("latin-1")
    assert edited(before, fix(edit(2, 20, 21, "'ü'"))) == before.replace(b"rank = 1", b"rank = '\xfc'")
    result = apply_fixes([fix(edit(2, 20, 21, "'漢'"))], {PATH: before})
    assert result.files == {}
    assert "encoding" in result.refused[0].why


def test_columns_are_characters() -> None:
    assert edited("x = 'é漢'; y = 1\n".encode(), fix(edit(1, 15, 16, "2"))) == "x = 'é漢'; y = 2\n".encode()


def test_a_line_can_be_taken_away_even_the_last() -> None:
    gone = fix(edit(2, 1, 1, "", end_line=3))
    assert edited(b"a = 1\nb = 2\nc = 3\n", gone) == b"a = 1\nc = 3\n"
    assert edited(b"a = 1\nb = 2", gone) == b"a = 1\n"


def test_of_fixes_that_overlap_the_first_is_done_and_the_others_wait() -> None:
    first, second, third = fix(edit(1, 5, 8, "1")), fix(edit(1, 7, 9, "2")), fix(edit(1, 1, 2, "b"))
    result = apply_fixes([first, second, third], {PATH: b"a = 1234\n"})
    assert result.done == (first, third)
    assert result.postponed == (second,)
    assert result.files == {PATH: b"b = 14\n"}


def test_equal_edits_of_two_fixes_are_done_once() -> None:
    imports = edit(1, 1, 1, "import os\n")
    one, two = fix(imports, edit(1, 5, 6, "2")), fix(imports, edit(2, 5, 6, "3"))
    assert edited(b"a = 1\nb = 1\n", one, two) == b"import os\na = 2\nb = 3\n"


def test_insertions_at_one_place_wait_for_each_other() -> None:
    one, two = fix(edit(1, 1, 1, "x = 1\n")), fix(edit(1, 1, 1, "y = 1\n"))
    result = apply_fixes([one, two], {PATH: b"a = 1\n"})
    assert (result.done, result.postponed) == ((one,), (two,))


def test_a_file_that_would_not_compile_is_left_alone_and_the_others_are_not() -> None:
    bad, good = fix(edit(1, 5, 6, "(")), fix(edit(1, 5, 6, "2", path="good.py"))
    both = fix(edit(2, 1, 1, "", path="good.py"), edit(1, 1, 2, "b"))
    result = apply_fixes([bad, good, both], {PATH: b"a = 1\n", "good.py": b"a = 1\n"})
    assert result.files == {"good.py": b"a = 2\n"}
    assert result.done == (good,)
    assert [item.path for item in result.refused] == [PATH]
    assert "no longer compile" in result.refused[0].why


@pytest.mark.parametrize("wrong", [edit(9, 1, 1, "x"), edit(1, 99, 99, "x"), edit(1, 3, 2, "x"), edit(0, 1, 1, "x")])
def test_an_edit_outside_of_the_file_is_refused(wrong: Edit) -> None:
    result = apply_fixes([fix(wrong)], {PATH: b"a = 1\n"})
    assert result.files == {}
    assert result.refused


def test_what_is_no_text_is_refused() -> None:
    for data in (b"a = '\xff'\n", b"# coding: nonsense\n"):
        assert apply_fixes([fix(edit(1, 1, 1, "x"))], {PATH: data}).refused


def test_other_files_are_never_touched() -> None:
    result = apply_fixes([fix(edit(1, 1, 1, "", path="/etc/passwd"))], {PATH: b"a = 1\n"})
    assert (result.files, result.done) == ({}, ())


def test_the_difference_is_one_that_patch_takes() -> None:
    assert unified_diff("a.py", b"a = 1\nb = 2", b"a = 1\nb = 3") == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n\\ No newline at end of file\n"
        "+b = 3\n\\ No newline at end of file\n"
    )
    assert unified_diff("a.py", b"a = 1\n", b"a = 1\n") == ""


def test_writing_keeps_the_mode_and_the_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_bytes(b"a = 1\n")
    real.chmod(0o750)
    link.symlink_to(real)
    write_atomically(str(link), b"a = 2\n")
    assert link.is_symlink()
    assert real.read_bytes() == b"a = 2\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o750
    assert sorted(os.listdir(tmp_path)) == ["link.py", "real.py"]


SOURCES = st.lists(
    st.sampled_from(["x = 1", "y = 'é'  # c", "\tif 0: pass".strip(), "", "# \f comment", "z = (1,\n  2)"]), max_size=6
)


@st.composite
def sources_with_fixes(draw: st.DrawFn) -> tuple[bytes, list[Fix]]:
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = "\n".join(draw(SOURCES)).split("\n")
    text = end.join(lines)
    fixes = []
    for _ in range(draw(st.integers(0, 4))):
        line = draw(st.integers(1, len(lines)))
        column = draw(st.integers(1, len(lines[line - 1]) + 1))
        end_column = draw(st.integers(column, len(lines[line - 1]) + 1))
        fixes.append(fix(edit(line, column, end_column, draw(st.sampled_from(["", "7", "()", "x", "#", "\n"])))))
    return text.encode(), fixes


@settings(deadline=None)
@given(sources_with_fixes())
def test_whatever_is_asked_for_what_is_written_compiles_and_nothing_else_changes(case: tuple[bytes, list[Fix]]) -> None:
    data, fixes = case
    result = apply_fixes(fixes, {PATH: data})
    assert len(result.done) + len(result.postponed) <= len(fixes)
    after = result.files.get(PATH, data)
    assert not result.files or why_it_does_not_compile(after) is None
    # one by one from the end, each line by itself
    end = b"\r\n" if b"\r\n" in data else b"\n"
    lines = data.decode().split(end.decode())
    for one in sorted({item for done in result.done for item in done.edits}, key=lambda item: item[1:5], reverse=True):
        line = lines[one.line - 1]
        lines[one.line - 1] = line[: one.column - 1] + one.text.replace("\n", end.decode()) + line[one.end_column - 1 :]
    assert after == end.decode().join(lines).encode()


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(1, 3), st.integers(1, 5))
def test_no_bytes_break_it(data: bytes, line: int, column: int) -> None:
    result = apply_fixes([fix(edit(line, column, column, "x"))], {PATH: data})
    for changed in result.files.values():
        ast.parse(changed)


def test_what_is_no_python_is_verified_by_whoever_knows_it() -> None:
    # a form feed, a lone carriage return and a declared encoding mean nothing there; a mark of the order of bytes counts
    data = "\ufeff# coding: latin-1\r\nA=\ré1\r\nexport B=2\r\n".encode()
    asked: list[tuple[str, bytes]] = []
    others = {PATH: lambda path, new: asked.append((path, new))}
    result = apply_fixes([fix(edit(1, 2, 3, "##"), edit(3, 8, 9, "C"))], {PATH: data}, others=others)
    expected = "\ufeff## coding: latin-1\r\nA=\ré1\r\nexport C=2\r\n".encode()
    assert result.files == {PATH: expected}
    assert asked == [(PATH, expected)]
    assert "+export C=2\r\n" in unified_diff(PATH, data, expected, python=False)
    refused = apply_fixes([fix(edit(3, 8, 9, "C"))], {PATH: data}, others={PATH: lambda path, new: "line 3: no"})
    assert refused.files == {}
    assert refused.refused[0].why == "it could no longer be read: line 3: no"
    assert apply_fixes([fix(edit(1, 1, 1, "x"))], {PATH: b"\xff\xfe"}, others=others).refused
