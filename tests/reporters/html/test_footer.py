"""The end of a page: code to paste, what was not checked, facts and probes."""

from __future__ import annotations

from distcheck.core.model import NotChecked
from tests.reporters import samples
from tests.reporters.pages import page


def test_what_was_not_checked_stands_by_reason_with_links() -> None:
    items = (
        NotChecked("DC402", "no port"),
        NotChecked("DC401, the port", "no port"),
        NotChecked("ACME1", "no plug-in"),
    )
    text, read = page(samples.ENV._replace(not_checked=items))
    assert "Not checked 4" in read.words
    assert text.count('scope="row">no port</th>') == 1
    assert ">DC401</a>, <a" in text and ">DC402</a>, the port</td>" in text
    assert "rules/ACME1" not in text


def test_many_reasons_are_folded() -> None:
    items = tuple(NotChecked(f"DC{number}", f"reason {number}") for number in range(300, 313))
    assert "<summary>13 reasons</summary>" in page(samples.ENV._replace(not_checked=items))[0]
    assert "reasons</summary>" not in page(samples.ENV._replace(not_checked=items[:12]))[0]


def test_facts_and_probes_are_folded_and_only_with_verbose() -> None:
    assert "Platform" not in page(samples.ENV)[0]
    text, read = page(samples.ENV, verbose=2)
    assert "<details><summary>Platform</summary><dl><dt>system</dt><dd>linux</dd>" in text
    assert "<dt>cgroup</dt>" not in text
    assert "<details><summary>Scratch</summary><p" in text
    assert "host.gpus.enough_gpus" in read.words
    assert "<pre>Traceback (most recent call last):\n  …\nOSError: no</pre>" in text


def test_methods_to_paste_are_one_piece() -> None:
    text, _ = page(samples.OBJECT)
    assert "<code>def __getstate__(self):\n    return {**self.__dict__, &#x27;lock&#x27;: None}</code>" in text
    assert 'id="to-paste"' not in page(samples.MERGED)[0]
