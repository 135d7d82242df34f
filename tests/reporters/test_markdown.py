"""The summary of a job: read by a parser of CommonMark, in which no text of a finding becomes markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from distcheck.core.model import Report, Where
from distcheck.reporters import Style, escape, render
from distcheck.reporters.markdown import ROWS

from .any_report import reports
from .invented import BLIND, CLEAN, COLLECTIVE, ENV, LINT, LOG, MERGED, SAMPLES

#: What the reporter itself writes as HTML.
OWN_HTML = re.compile(r"<details><summary>[^<>]*</summary>|</details>")


def parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def rows_of(text: str) -> list[list[str]]:
    """The cells of the table's body, as a reader sees them."""
    rows: list[list[str]] = []
    inside = False
    for token in parsed(text):
        if token.type == "tbody_open":
            inside = True
        elif token.type == "tr_open" and inside:
            rows.append([])
        elif token.type == "inline" and inside and rows:
            rows[-1].append(_seen(token))
        elif token.type == "tbody_close":
            break
    return rows


def _seen(token: Token) -> str:
    return "".join(child.content for child in token.children or ())


def html_of(text: str) -> list[str]:
    found = [token.content.strip() for token in parsed(text) if token.type == "html_block"]
    for token in parsed(text):
        found += [child.content for child in token.children or () if child.type == "html_inline"]
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_has_a_heading_a_table_and_balanced_folds(name: str) -> None:
    text = render(SAMPLES[name], "markdown")
    tokens = parsed(text)
    assert tokens[0].tag == "h2"
    assert f"distcheck {SAMPLES[name].command}:" in tokens[1].content
    assert len(rows_of(text)) == len(SAMPLES[name].findings) + (name == "undecided")
    assert text.count("<details>") == text.count("</details>")
    for part in html_of(text):
        assert OWN_HTML.fullmatch(part), part


def test_the_heading_is_the_verdict() -> None:
    assert render(LINT, "markdown").startswith("## ❌ distcheck lint: 2 errors, 4 warnings, 1 info\n")
    assert render(CLEAN, "markdown").startswith("## ✅ distcheck env: 0 errors")
    assert render(MERGED._replace(findings=MERGED.findings[1:]), "markdown").startswith("## ⚠️ distcheck env")
    # what could not be looked at is not fine
    assert render(BLIND, "markdown").startswith("## distcheck env: 0 errors, 0 warnings, 0 info, 2 not checked\n")
    plain = render(LINT, "markdown", Style(unicode=False))
    assert plain.startswith("## distcheck lint")


def test_a_row_for_each_finding() -> None:
    severity, rule, place, message = rows_of(render(LINT, "markdown"))[0]
    assert (severity, rule, place) == ("❌ error", "DC209 env-compared-with-int", "train.py:7:25")
    assert message == "os.environ[\"RANK\"] is compared with the number 0: '==' is always false"
    places = [row[2] for report in (ENV, MERGED, LOG) for row in rows_of(render(report, "markdown"))]
    assert places == [
        "MASTER_PORT",
        "local rank 3, GPU 3",
        "host.gpus.link_width",
        "/etc/nccl.conf:2",
        "gpu39",
        "gpu[07,31], ranks 48-55,240-247, /dev/shm",
        "logs/train.log:15, gpu07, rank 2",
        "logs/train.log:12, rank 2",
    ]


def test_fixes_are_folded_and_commands_are_blocks_of_their_own() -> None:
    text = render(ENV, "markdown")
    assert "<details><summary>DC401 master-port-in-use (MASTER_PORT)</summary>\n\n**Fix** (in the launch line)" in text
    assert "```bash\ntorchrun --master-port=29501 train.py\n```\n\n**Note**: all nodes need the same\n" in text
    assert "NVML &lt;did&gt; not answer &amp; was left" in text


def test_the_story_of_a_log_and_what_was_measured() -> None:
    text = render(LOG, "markdown")
    assert "```text\nerror DC312 fabric-manager-down\nwhat    rank 2 on gpu07: Cuda failure 802" in text
    text = render(COLLECTIVE, "markdown")
    assert "**8 ranks on 1 host: all collectives correct; all_reduce 478 GB/s bus bandwidth at 1 GiB**" in text
    assert "<details><summary>What was measured</summary>\n\n```text\nphases: verify 2.31 s" in text


def test_code_of_our_own_messages_stays_code() -> None:
    finding = LINT.findings[0]._replace(message="`dist.barrier()` waits | `a|b` and `` and `")
    text = render(Report("lint", findings=(finding,)), "markdown")
    assert rows_of(text)[0][3] == "dist.barrier() waits | `a|b` and `` and `"
    (inline,) = [token for token in parsed(text) if token.type == "inline" and "barrier" in token.content]
    assert next(child.content for child in inline.children or () if child.type == "code_inline") == "dist.barrier()"


def test_a_long_report_is_cut_and_says_so() -> None:
    many = LINT._replace(findings=LINT.findings[:1] * 5000)
    text = render(many, "markdown")
    assert len(rows_of(text)) == ROWS + 1
    assert "and 4,900 more" in text
    assert len(text.encode()) < 1 << 20
    long = LINT.findings[0]._replace(message="x" * 9000, evidence={"source": "y" * 9000})
    text = render(LINT._replace(findings=(long,) * 500), "markdown")
    assert len(text.encode()) < 1 << 20


@settings(max_examples=30)
@given(reports())
def test_no_text_becomes_markup(report: Report) -> None:
    text = render(report, "markdown")
    rows = rows_of(text)
    assert len(rows) == len(report.findings)
    for row, finding in zip(rows, report.findings, strict=True):
        assert len(row) == 4
        seen, said = row[3], escape(" ".join(finding.message.split("\n")))
        # backticks around code are not seen; blanks at an end are not kept
        assert _bare(seen) == _bare(said)
    for part in html_of(text):
        assert OWN_HTML.fullmatch(part), part
    links = [
        child.attrs["href"] for token in parsed(text) for child in token.children or () if child.type == "link_open"
    ]
    assert all(str(link).startswith("https://distcheck.readthedocs.io/rules/DC") for link in links)
    assert not [token for token in parsed(text) if token.type in ("heading_open",) and token.tag != "h2"]
    assert not [child for token in parsed(text) for child in token.children or () if child.type == "image"]
    assert html_of(text).count("</details>") == sum(part.startswith("<details>") for part in html_of(text))


def _bare(text: str) -> str:
    return re.sub(r"[`\s]+", "", text)


def test_a_place_with_bars_and_backticks_stays_in_its_cell() -> None:
    finding = ENV.findings[0]._replace(where=Where(variable="a|b`c``d|"))
    text = render(Report("env", findings=(finding,)), "markdown")
    assert rows_of(text)[0][2] == "a|b`c``d|"
