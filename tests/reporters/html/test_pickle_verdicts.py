"""Verdicts about files on a page."""

from __future__ import annotations

import re

from distcheck.core.model import Report
from tests.reporters import samples
from tests.reporters.pages import page


def test_each_file_has_a_row_with_its_verdict() -> None:
    text, read = page(samples.PICKLE)
    rows = re.findall(r'<th class="text" scope="row">(.*?)</th><td class="text"><span class="badge (\w+)">', text)
    assert rows == [("evil.pkl", "error"), ("big.tar", "odd"), ("args.pt", "warning"), ("good.pt", "good")]
    # the verdict is not said twice
    assert '<td class="text">posix.system(&#x27;echo hi&#x27;)</td>' in text
    assert "needs allow-listing: 1 name" in read.words
    assert "<td>1.6 KiB</td>" in text


def test_what_torch_said_and_what_was_not_opened_are_there() -> None:
    text, _ = page(samples.PICKLE)
    assert "torch.load: it refuses another name" in text
    assert "torch.load agrees" in text
    assert "not checked: big.tar/a: too large" in text


def test_of_many_files_those_that_are_safe_are_folded() -> None:
    text, _ = page(samples.MANY_FILES)
    shown, folded = text.split("<details><summary>40 safe files</summary>")
    assert "evil.pkl" in shown and "good-0.pt" not in shown
    assert folded.count('<span class="badge good">') == 40
    assert "safe files" not in page(samples.PICKLE)[0]


def test_no_file_has_no_table() -> None:
    text, _ = page(Report("pickle", subject={"verdicts": [], "line": ["0 files"]}))
    assert "<table" not in text
    assert "<h1>no file that holds a pickle</h1>" in text
