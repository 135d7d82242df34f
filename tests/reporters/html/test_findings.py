"""Findings on a page: by severity, with their line, what leads there, their values and their fix."""

from __future__ import annotations

import re

import pytest

from distcheck import rules
from distcheck.core.model import Edit, Fix, Report, Where
from distcheck.reporters.html import findings, parts
from tests.reporters import samples, synthetic
from tests.reporters.pages import page


def text_of(markup: str) -> str:
    return re.sub(r"<[^>]*>", "", markup).replace("&quot;", '"').replace("&#x27;", "'").replace("&gt;", ">")


def test_they_stand_by_severity_each_under_its_heading() -> None:
    text, _ = page(samples.ENV)
    order = [text.index(part) for part in ('id="errors"', "DC301", 'id="warnings"', "DC320", 'id="info"', "DC115")]
    assert order == sorted(order)
    assert '<h2 id="errors">Errors <span class="count">1</span></h2>' in text


def test_within_a_severity_the_order_of_the_report_is_kept() -> None:
    text, _ = page(synthetic.report(None, synthetic.finding("first one"), synthetic.finding("second one")))
    assert text.index("first one") < text.index("second one")


def test_one_that_is_worth_knowing_is_folded_under_its_message() -> None:
    text, _ = page(samples.ENV)
    found = re.search(r'<details class="finding info" id="finding-3"><summary>(.*?)</summary>(.*?)</details>', text)
    assert found is not None
    assert "OMP_NUM_THREADS is not set" in found[1]
    assert "export OMP_NUM_THREADS=4" in found[2]


def test_a_line_of_source_has_its_number_a_mark_and_carets() -> None:
    text, _ = page(samples.LINT)
    block = re.search(r'<pre class="source".*?</pre>', text[text.index("DC201") :], re.DOTALL)
    assert block is not None
    assert "<mark>torch.cuda.set_device(rank)</mark>" in block[0]
    assert text_of(block[0]).splitlines() == [
        "16 |     torch.cuda.set_device(rank)",
        "   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]


def test_a_long_line_is_cut_around_what_is_meant() -> None:
    source = "x = " + "a" * 300 + "; torch.load(path); " + "b" * 300
    begin = source.index("torch.load") + 1
    finding = samples.LINT.findings[0]._replace(
        where=Where("a.py", 7, begin, 7, begin + len("torch.load(path)")), evidence={"source": source}
    )
    (line, carets) = text_of("".join(findings._source(finding))).splitlines()
    assert len(line) <= 100
    assert "torch.load(path)" in line
    assert line.index("torch.load") == carets.index("^")
    assert carets.count("^") == len("torch.load(path)")


@pytest.mark.parametrize(
    ("source", "column", "shown"),
    [
        # without a column nothing is meant in particular
        ("    f(x)", None, "3 |     f(x)"),
        # carets would stand where a terminal's letters are, and not a browser's
        ('x = "漢字"; f(x)', 11, '3 | x = "漢字"; <mark class="underlined">f(x)</mark>'),
        ('f("漢字")', 1, '3 | <mark class="underlined">f("漢</mark>字")'),
    ],
)
def test_no_carets_where_they_would_stand_wrong(source: str, column: int | None, shown: str) -> None:
    where = Where("a.py", 3, column, None if column is None else 3, None if column is None else column + 4)
    finding = rules.DC201.found("x", where=where, fix=Fix("y", where="code"), evidence={"source": source})
    markup = "".join(findings._source(finding)).replace("&quot;", '"')
    assert re.findall(r'<code><span class="number">(.*)</span>(.*)</code>', markup) == [(shown[:4], shown[4:])]


def test_what_leads_there_is_a_list_in_order() -> None:
    text, _ = page(samples.LINT)
    steps = "<ol><li>train.py:10: the global rank, from <code>dist.get_rank()</code></li><li>train.py:15: rank comes"
    assert steps in text


@pytest.mark.parametrize(
    ("safe", "option"), [(True, "distcheck lint --fix<"), (False, "distcheck lint --fix --unsafe-fixes<")]
)
def test_an_edit_is_shown_as_it_will_be(safe: bool, option: str) -> None:
    finding = samples.LINT.findings[1]
    finding = finding._replace(fix=finding.fix._replace(safe=safe))
    text, _ = page(samples.LINT._replace(findings=(finding,)))
    assert option in text
    assert "<del>-     if rank is 0:</del>\n<ins>+     if rank == 0:</ins>" in text


@pytest.mark.parametrize(
    ("source", "edits", "after"),
    [
        ("a = b", [(1, 2, "cd"), (5, 6, "ef")], "cd = ef"),
        ("a = b", [(5, 6, "ef"), (1, 2, "cd")], "cd = ef"),
        ("f(x)", [(3, 3, "y, ")], "f(y, x)"),
        ("f(x)", [(4, 4, "\n")], "f(x\n  )"),
        ("f(<x>)", [(3, 6, "<y>")], "f(<y>)"),
    ],
)
def test_edits_of_one_line_are_applied_from_its_end(source: str, edits: list[tuple[int, int, str]], after: str) -> None:
    made = tuple(Edit("a.py", 3, begin, 3, end, text) for begin, end, text in edits)
    finding = rules.DC209.found(
        "x", where=Where("a.py", 3), fix=Fix("y", where="code", edits=made), evidence={"source": source}
    )
    shown = re.search(r"<ins>\+ (.*)</ins>", "".join(findings._edit(finding)), re.DOTALL)
    assert shown is not None
    assert shown[1].replace("&lt;", "<").replace("&gt;", ">") == after


@pytest.mark.parametrize(
    "where", [Where("b.py", 3), Where("a.py", 4), Where("a.py", 3, cell=2)], ids=["file", "line", "notebook"]
)
def test_edits_elsewhere_are_not_shown_in_this_line(where: Where) -> None:
    fix = Fix("y", where="code", edits=(Edit("a.py", 3, 1, 3, 2, "z"),))
    finding = rules.DC209.found("x", where=where, fix=fix, evidence={"source": "abc"})
    assert list(findings._edit(finding)) == []


def test_a_line_that_nobody_can_read_is_not_shown_twice_more() -> None:
    fix = Fix("y", where="code", edits=(Edit("a.py", 3, 1, 3, 2, "z"),))
    finding = rules.DC209.found("x", where=Where("a.py", 3, 1), fix=fix, evidence={"source": "a" * 100_000})
    assert len(page(synthetic.report(None, finding))[0]) < 30_000


def test_values_beside_a_line_of_source_are_folded_and_others_are_not() -> None:
    assert "<summary>Values seen</summary>" in page(samples.LINT)[0]
    text, _ = page(samples.ENV)
    assert "Values seen" not in text
    assert "<dt>total</dt><dd>64.0 MiB (67,108,864 bytes)</dd>" in text or "<dd>64 MiB (67,108,864 bytes)</dd>" in text
    assert "<dt>leftover files</dt><dd>0</dd>" in text
    # a zero is a value
    assert "index=0, name=L40S<br>index=1, name=L40S" in text
    assert "<dt>note</dt>" not in text


def test_a_fix_says_where_by_whom_what_to_type_and_a_note() -> None:
    text, read = page(samples.ENV)
    assert "Fix (in the launch line, by an administrator) start the container with --shm-size=16g" in read.words
    assert "Note --ipc=host shows" in read.words
    assert "say so with <code>--backend gloo</code>" in text
    assert (
        '<div class="command"><pre><code>torchrun --nproc-per-node=2 train.py</code></pre>'
        '<button class="copy" type="button" hidden>Copy</button></div>' in text
    )


def test_a_code_leads_to_its_page_and_one_of_a_plug_in_nowhere() -> None:
    assert parts.code_link("DC401").startswith('<a class="rule" href="https://distcheck.readthedocs.io/rules/DC401/"')
    assert parts.code_link("ACME101") == "ACME101"
    assert parts.code_link('DC401"><b>') == "DC401&quot;&gt;&lt;b&gt;"


def test_many_findings_have_a_table_of_their_rules_in_front() -> None:
    assert 'id="rules"' not in page(samples.many(11))[0]
    text, read = page(samples.many(14))
    table = text[text.index('id="rules"') : text.index('id="errors"')]
    # worst first, each leading to the first of its kind
    assert re.findall(r'href="#(finding-\d+)">(DC\d+)', table) == [("finding-2", "DC209"), ("finding-1", "DC201")]
    assert "<td>7</td>" in table
    assert len(re.findall(r'<article class="finding', text)) == 14
    assert "finding-14" in [attributes.get("id") for _, attributes in read.elements]


def test_hosts_of_a_merged_report_are_named_unless_they_are_all() -> None:
    words = page(samples.MERGED)[1].words
    assert "infiniband-port-down gpu17, mlx5_2:1" in words
    assert "omp-threads-default all hosts, OMP_NUM_THREADS" in words
    # a host of its own report has no others beside it
    alone = samples.MERGED._replace(subject={"host": "gpu[01-38]"})
    assert "all hosts" not in page(alone)[1].words


def test_nothing_found_is_said() -> None:
    text, _ = page(Report("env"))
    assert "<h1>No findings in what was checked</h1>" in text
    assert 'class="finding' not in text


@pytest.mark.parametrize(
    ("said", "markup"),
    [
        ("use `a < b` here", "use <code>a &lt; b</code> here"),
        ("give --master-addr=x, or -v", 'give <span class="option">--master-addr</span>=x, or -v'),
        ("a--b, ---c and `--d`", "a--b, ---c and <code>--d</code>"),
        ("one ` alone, and `` none", "one ` alone, and `` none"),
    ],
)
def test_code_and_options_in_a_sentence_are_marked(said: str, markup: str) -> None:
    assert parts.prose(said) == markup
