"""Each format from one report with everything in it; JSON against its published schema."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, NotChecked, ProbeRun, Report, Severity, Where
from distcheck.reporters import FORMATS, Style, render
from distcheck.reporters.text_parts import in_words

SCHEMA = json.loads(files("distcheck").joinpath("reporters/report.schema.json").read_text(encoding="utf-8"))

TAKEN = rules.DC401.found(
    "port 29500 is held by python train.py (pid 4711, alice, since 12:00)",
    where=Where(variable="MASTER_PORT"),
    evidence={"port": 29500, "pid": 4711, "nothing": None},
    fix=Fix("take another port", command="torchrun --master-port=29501 train.py", where="launch-line"),
)
IN_A_FILE = rules.DC720.found(
    "every rank writes model.pt",
    where=Where(path="train.py", line=12, column=5),
    fix=Fix(
        "guard it",
        edits=(Edit("train.py", 12, 1, 12, 1, "if rank == 0:\n"),),
        where="code",
        risk="the others must not read it",
    ),
)
NO_TORCH = rules.DC330.found(
    "torch is not installed for this Python", fix=Fix("install it", command="pip install torch")
)
REPORT = Report(
    "env",
    stage="planned",
    subject={"host": "node1", "line": ["torchrun 8 processes", "node1", "no GPU"]},
    findings=(TAKEN, IN_A_FILE, NO_TORCH),
    not_checked=(NotChecked("DC301, DC302, DC303, DC304, DC305, DC306, DC307", "no NVIDIA driver"),),
    probes=(ProbeRun("host.ports.master_port_is_free", "ran", 0.001),),
    facts={"Platform": {"system": "linux", "container": None}},
    elapsed_s=0.08,
)


def test_full_reads_as_promised() -> None:
    assert render(REPORT, "full") == (
        "distcheck env · stage planned · torchrun 8 processes · node1 · no GPU\n"
        "\n"
        "error DC401 master-port-in-use  (MASTER_PORT)\n"
        "  port 29500 is held by python train.py (pid 4711, alice, since 12:00)\n"
        "  seen: port 29500; pid 4711\n"
        "  fix (in the launch line): take another port\n"
        "      torchrun --master-port=29501 train.py\n"
        "\n"
        "warning DC720 unguarded-save  (train.py:12:5)\n"
        "  every rank writes model.pt\n"
        "  help: guard it\n"
        "  note: the others must not read it\n"
        "\n"
        "info DC330 torch is not installed for this Python\n"
        "\n"
        "not checked\n"
        "  DC301, DC302, DC303, DC304, DC305 and 2 more: no NVIDIA driver\n"
        "\n"
        "1 error, 1 warning, 1 info, 7 not checked · 0.08 s\n"
    )


def test_full_quiet_is_one_line_and_verbose_shows_the_facts() -> None:
    assert render(REPORT, "full", Style(quiet=True)) == "1 error, 1 warning, 1 info, 7 not checked · 0.08 s\n"
    once = render(REPORT, "full", Style(verbose=1))
    assert "pip install torch" in once
    assert "host.ports.master_port_is_free" not in once
    verbose = render(REPORT, "full", Style(verbose=2))
    assert "DC306, DC307: no NVIDIA driver" in verbose
    assert "pip install torch" in verbose
    assert "Platform\n  system  linux\n" in verbose
    assert "host.ports.master_port_is_free" in verbose


def test_colors_only_where_wanted() -> None:
    assert "\x1b[" in render(REPORT, "full", Style(color=True))
    assert "\x1b" not in render(REPORT, "full")


def test_concise() -> None:
    assert render(REPORT, "concise").splitlines() == [
        "node1:MASTER_PORT: DC401 error: port 29500 is held by python train.py (pid 4711, alice, since 12:00)",
        "train.py:12:5: DC720 warning: every rank writes model.pt",
        "node1: DC330 info: torch is not installed for this Python",
    ]


@pytest.mark.parametrize("verbose", [False, True])
def test_json_is_valid_against_the_published_schema(verbose: bool) -> None:
    plain = json.loads(render(REPORT, "json", Style(verbose=verbose)))
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    assert ("facts" in plain) is verbose
    assert [item["code"] for item in plain["findings"]] == ["DC401", "DC720", "DC330"]
    assert plain["summary"]["error"] == 1


def test_the_schema_itself_is_one_and_refuses_what_is_wrong() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    plain = json.loads(render(REPORT, "json"))
    del plain["findings"][0]["fix"]
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(plain)


#: What ``docs/formats.md`` promises for ``schema_version`` 1. It may grow; whatever shrinks it is version 2.
VERSION_1 = {
    "report": "schema_version tool command stage subject findings not_checked probes summary",
    "tool": "name version",
    "summary": "error warning info elapsed_s",
    "finding": "code name severity message where evidence fix key url",
    "fix": "text command edits safe by where risk",
}


@pytest.mark.parametrize("name", VERSION_1)
def test_version_1_of_the_json_keeps_its_fields(name: str) -> None:
    part = {"report": SCHEMA, **SCHEMA["properties"], **SCHEMA["$defs"]}[name]
    assert set(VERSION_1[name].split()) <= set(part["required"]) & set(part["properties"])
    assert SCHEMA["properties"]["schema_version"] == {"const": 1}


def test_json_lines() -> None:
    rows = [json.loads(line) for line in render(REPORT, "json-lines").splitlines()]
    assert [row["type"] for row in rows] == ["finding", "finding", "finding", "not-checked", "summary"]


def test_github() -> None:
    first, second, third = render(REPORT, "github").splitlines()
    assert first.startswith("::error title=DC401 master-port-in-use::port 29500")
    assert first.endswith("%0Afix: take another port%0Atorchrun --master-port=29501 train.py")
    assert second.startswith("::warning file=train.py,line=12,col=5,title=DC720")
    assert third.startswith("::notice ")


def in_source(source: str, column: int, end_column: int | None, *, line: int = 88, **where: Any) -> Finding:
    place: dict[str, Any] = {"line": line, "column": column, "end_line": line, "end_column": end_column, **where}
    return rules.DC201.found(
        "`rank` is the global rank, and is used as the index of a device",
        where=Where(path="train.py", **place),
        evidence={
            "source": source,
            "flow": ["`rank` is set at train.py:31 from RANK", "passed at train.py:80"],
            "x": 1,
        },
        fix=Fix("use `local_rank`", where="code"),
    )


def shown(finding: Finding, style: Style = Style()) -> list[str]:
    return render(Report("lint", findings=(finding,)), "full", style).splitlines()[2:-2]


def test_full_marks_the_source() -> None:
    assert shown(in_source("    torch.cuda.set_device(rank)", 27, 31)) == [
        "warning DC201 global-rank-as-device  (train.py:88:27)",
        "  `rank` is the global rank, and is used as the index of a device",
        "  88 |     torch.cuda.set_device(rank)",
        "     |                           ^^^^",
        "  help: use `local_rank`",
        "  flow: `rank` is set at train.py:31 from RANK",
        "        passed at train.py:80",
    ]
    assert shown(in_source("x", 1, 2), Style(verbose=True))[-1] == "  seen: x 1"


@pytest.mark.parametrize(
    ("source", "column", "end_column", "line", "carets"),
    [
        ("\tf(rank)", 4, 8, "    f(rank)", "      ^^^^"),
        ("  \tf(rank)", 6, 10, "    f(rank)", "      ^^^^"),
        ("f('é', rank)", 8, 12, "f('é', rank)", "       ^^^^"),
        ("f('漢字', rank)", 9, 13, "f('漢字', rank)", "          ^^^^"),
        ("f(rank)   ", 3, None, "f(rank)", "  ^"),
        ("f(rank)", 8, 8, "f(rank)", "       ^"),
        ("f(\x1b[31m)", 3, 4, "f(\\x1b[31m)", "  ^^^^"),
    ],
)
def test_the_caret_stands_below_what_it_marks(
    source: str, column: int, end_column: int | None, line: str, carets: str
) -> None:
    lines = shown(in_source(source, column, end_column))
    assert lines[2] == f"  88 | {line}"
    assert lines[3] == f"     | {carets}"


def test_a_finding_of_several_lines_is_marked_to_the_end_of_its_first() -> None:
    lines = shown(in_source("dist.all_reduce(", 1, 2, end_line=90))
    assert lines[3] == "     | ^^^^^^^^^^^^^^^^"


def test_a_long_line_is_cut_around_what_it_marks() -> None:
    source = "x = [" + "1, " * 60 + "rank, " + "2, " * 60 + "]"
    column = source.index("rank") + 1
    for style in (Style(width=60), Style(width=60, unicode=False)):
        lines = shown(in_source(source, column, column + 4), style)
        line, carets = (text for text in lines if " | " in text)
        assert len(line) <= 60
        assert line[carets.index("^") : carets.index("^") + 4] == "rank"
        dots = "…" if style.unicode else "..."
        assert line.startswith(f"  88 | {dots}")
        assert line.endswith(dots)


def test_a_notebooks_place_names_the_cell() -> None:
    finding = in_source("f(rank)", 3, 7, line=2, cell=4)
    assert shown(finding)[0] == "warning DC201 global-rank-as-device  (train.py:cell 4:2:3)"
    report = Report("lint", findings=(finding,))
    assert render(report, "concise").startswith("train.py:cell 4:2:3: DC201 `rank`")
    annotation = render(report, "github")
    assert annotation.startswith("::warning file=train.py,title=DC201 global-rank-as-device::`rank` ")
    assert " (cell 4, line 2)%0Afix: " in annotation
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(render(report, "json")))


def test_concise_of_source_is_sorted_by_place_and_names_no_severity() -> None:
    found = (in_source("x", 2, 3, line=9), in_source("x", 5, 6, line=3), in_source("x", 1, 2, line=3))
    lines = render(Report("lint", findings=found), "concise").splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == ["train.py:3:1:", "train.py:3:5:", "train.py:9:2:"]
    assert lines[0] == "train.py:3:1: DC201 `rank` is the global rank, and is used as the index of a device"


def test_info_in_source_has_its_place() -> None:
    assert shown(in_source("x", 1, 2)._replace(severity=Severity.INFO))[0].startswith(
        "info DC201 global-rank-as-device  ("
    )


@given(st.text(), st.integers(1, 40), st.none() | st.integers(1, 40), st.integers(40, 90))
def test_no_source_breaks_the_text(source: str, column: int, end_column: int | None, width: int) -> None:
    finding = in_source(source, column, end_column)
    lines = render(Report("lint", findings=(finding,)), "full", Style(width=width)).split("\n")
    assert all(char.isprintable() for line in lines for char in line)
    assert any("^" in line for line in lines)


def findings() -> st.SearchStrategy[Finding]:
    texts = st.text(min_size=1).filter(lambda text: bool(text.strip()))
    return st.builds(
        lambda message, fix, variable, value: rules.DC401.found(
            message, fix=Fix(fix, command=value or None), where=Where(variable=variable), evidence={"value": value}
        ),
        texts,
        texts,
        st.none() | st.text(),
        st.text(),
    )


@given(st.lists(findings(), max_size=3), st.sampled_from(sorted(FORMATS)))
def test_no_text_breaks_a_format_or_steers_the_terminal(found: list[Finding], output_format: str) -> None:
    report = Report("env", findings=tuple(found), not_checked=(NotChecked("DC1", "why\x1b[2J"),))
    text = render(report, output_format)
    assert "\x1b" not in text
    if output_format == "github":
        assert len(text.splitlines()) >= len(found)
        assert all(line.startswith("::") for line in text.split("\n") if line and not line.isspace())
    if output_format == "json":
        plain: Any = json.loads(text)
        jsonschema.Draft202012Validator(SCHEMA).validate(plain)


def test_an_empty_report() -> None:
    report = Report("env")
    assert render(report, "concise") == ""
    assert render(report, "github") == ""
    assert render(report, "full").endswith("0 errors, 0 warnings, 0 info, 0 not checked · 0.00 s\n")
    assert report.worst is not Severity.ERROR


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("free_bytes", 67108864, "free 64 MiB"),
        ("elapsed_s", 0.25, "elapsed 0.25 s"),
        ("rate_gbit_per_s", 400.0, "rate 400 Gbit/s"),
        ("lost", True, "lost"),
        ("ranks_here", 8, "ranks here 8"),
        ("NCCL_IB_HCA", "mlx5", "NCCL_IB_HCA mlx5"),
        ("processes", [{"pid": 7, "memory_bytes": 1 << 30, "own": True}], "processes pid=7, memory=1 GiB, own"),
    ],
)
def test_fields_in_words(name: str, value: object, words: str) -> None:
    assert in_words(name, value) == words
