"""The story of a log on a page."""

from __future__ import annotations

from tests.reporters import samples
from tests.reporters.pages import page


def test_the_story_tells_who_what_where_and_what_to_do() -> None:
    text, read = page(samples.LOG)
    words = read.words
    for part in (
        "DC401 master-port-in-use train.log:7",
        "who rank 0 on gpu01",
        "DistNetworkError: The server socket has failed to bind to [::]:29500",
        "failed rank rank 1",
        "when 2026-01-01 10:00:00.000",
        "in the code /workspace/train.py:33 in main",
        "silent ranks 2-3 wrote nothing that is in this text",
        "12 events more than are kept",
        "take another port, the same on all nodes",
    ):
        assert part in words, part
    assert "rank 1 lost its peer (train.log:8)<br>the launcher ended the job: 1 failed, exit code 1" in text
    assert "<code>ss -ltnp &#x27;sport = :29500&#x27;</code>" in text


def test_the_finding_that_is_told_stands_once() -> None:
    text, _ = page(samples.LOG)
    assert text.count("master-port-in-use") == 1
    assert '<h2 id="info">Other info' in text
    assert 'id="finding-1"' in text and 'id="finding-2"' in text


def test_a_failure_that_no_rule_names_is_no_error_of_a_rule() -> None:
    text, read = page(samples.UNDECIDED)
    assert "undecided" in read.words
    assert "a failure that no rule names" in read.words
    assert '<article class="finding warning">' in text
    assert 'id="finding-1"' in text  # the finding beside it


def test_the_lines_that_tell_it_are_a_table() -> None:
    text, _ = page(samples.LOG)
    row = '<tr><th class="text" scope="row">train.log:8</th><td class="text">rank 1</td>'
    assert row in text
    assert "store-&gt;get(&#x27;0&#x27;) got error\nConnection reset\n" in text
    assert "(and 3 times more)" in text
    # a column of times only where there is one
    assert '<th class="text" scope="col">when</th>' not in text
    timed = [{**samples.LOG.story["evidence"][0], "time": "2026-01-01T10:00:00.000"}]
    text, _ = page(samples.LOG._replace(story={**samples.LOG.story, "evidence": timed}))
    assert '<th class="text" scope="col">when</th>' in text


def test_what_could_not_be_read_is_never_folded() -> None:
    text, _ = page(samples.LOG)
    line = "<li>old.log.xz: its end is cut off; packed</li>"
    assert line in text
    assert "<details" not in text[text.rindex("</article>", 0, text.index(line)) : text.index(line)]
    assert "Files read (2)" in text
    assert "Files read" not in page(samples.UNDECIDED)[0]


def test_every_event_is_folded() -> None:
    assert "<details><summary>Every event (1)</summary>" in page(samples.LOG)[0]


def test_a_clean_text_says_so() -> None:
    text, read = page(samples.CLEAN_LOG)
    assert "No failure is in this text." in read.words
    assert 'class="finding' not in text
