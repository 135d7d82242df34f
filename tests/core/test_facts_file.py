"""Facts survive their file; damaged, older and newer files are refused with a clear line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.facts_file import FACTS_SCHEMA_VERSION, FactsFileError, dump_facts, load_facts, redacted
from distcheck.core.model import Unavailable


class Inner(NamedTuple):
    """Nested."""

    name: str
    size: float | None = None


class Outer(NamedTuple):
    """All the kinds of values that facts have."""

    count: int
    ok: bool | None
    names: tuple[str, ...]
    pair: tuple[str, int]
    inner: tuple[Inner, ...]
    table: Mapping[str, int]
    by_number: Mapping[int, str]
    some: frozenset[str] = frozenset()


class Missing(NamedTuple):
    """Was not to be had."""

    value: int = 0


KNOWN: dict[str, type] = {"Outer": Outer, "Missing": Missing}

OUTERS = st.builds(
    Outer,
    st.integers(),
    st.none() | st.booleans(),
    st.tuples(st.text(), st.text()),
    st.tuples(st.text(), st.integers()),
    st.lists(st.builds(Inner, st.text(), st.none() | st.floats(allow_nan=False))).map(tuple),
    st.dictionaries(st.text(), st.integers()),
    st.dictionaries(st.integers(), st.text()),
    st.frozensets(st.text()),
)


@given(OUTERS)
def test_facts_survive(outer: Outer) -> None:
    facts: dict[type, object] = {Outer: outer, Missing: Unavailable("no driver")}
    text = dump_facts(facts, tool_version="1", saved_at="now")
    assert load_facts(text, KNOWN) == facts


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_text_whatever_breaks_it(text: str) -> None:
    with pytest.raises(FactsFileError):
        load_facts(text, KNOWN)


@given(OUTERS, st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_a_damaged_fact_is_refused_or_read(outer: Outer, junk: object) -> None:
    plain = json.loads(dump_facts({Outer: outer}, tool_version="1", saved_at="now"))
    for name in Outer._fields:
        plain["facts"]["Outer"][name] = junk
        try:
            load_facts(json.dumps(plain), KNOWN)
        except FactsFileError as error:
            assert "Outer" in str(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": FACTS_SCHEMA_VERSION + 1}, "newer"),
        ({"schema_version": 0}, "save the facts again"),
        ({"kind": "something else"}, "no facts file"),
        ({"facts": []}, "damaged"),
        ({"facts": {"Outer": {"count": "many"}}}, "Outer"),
    ],
)
def test_bad_files_are_refused_with_a_reason(change: dict[str, object], words: str) -> None:
    plain = json.loads(dump_facts({}, tool_version="1", saved_at="now"))
    with pytest.raises(FactsFileError, match=words):
        load_facts(json.dumps({**plain, **change}), KNOWN)


def test_unknown_facts_are_left_out() -> None:
    text = dump_facts({Missing: Missing(1)}, tool_version="1", saved_at="now")
    assert load_facts(text, {}) == {}


def test_redaction_replaces_names_and_addresses_alike_everywhere() -> None:
    text = json.dumps(
        {
            "facts": {
                "HostName": {
                    "name": {"name": "node17.corp.example", "addresses": ["10.20.30.40"]},
                    "full_name": "node17.corp.example",
                },
                "Interfaces": {"addresses": ["10.20.30.40/255.255.255.0", "10.20.30.41", "127.0.0.1", "fe80::1"]},
                "Process": {"user": "alice", "command": "/home/alice/train.py --host node17"},
                "Software": {"torch": "2.5.1", "cuda": "12.4", "driver_version": "550.54.15"},
            }
        }
    )
    hidden = redacted(text)
    for secret in ("node17", "corp.example", "10.20.30.40", "alice"):
        assert secret not in hidden
    plain = json.loads(hidden)["facts"]
    first = plain["HostName"]["name"]["addresses"][0]
    assert plain["Interfaces"]["addresses"][0] == first + "/255.255.255.0"
    assert plain["Interfaces"]["addresses"][2] == "127.0.0.1"
    assert plain["Software"] == {"torch": "2.5.1", "cuda": "12.4", "driver_version": "550.54.15"}


def test_redaction_changes_values_only_and_knows_where_names_stand() -> None:
    facts = {
        "Scheduler": {"node_list": "corpgpu[01-04]", "node_name": "corpgpu01"},
        "Settings": {
            "items": [
                {"name": "SLURM_JOB_NODELIST", "value": "corpgpu[01-04]", "origin": "environment"},
                {"name": "MASTER_ADDR", "value": "login3.corp.example.com", "origin": "environment"},
                {"name": "TMPDIR", "value": "/scratch/alice/tmp", "origin": "environment"},
            ]
        },
        "Gpus": {"gpus": [{"uuid": "GPU-5e2f2b0c-8c1d-4c0e-9d8f-1a2b3c4d5e6f"}]},
        "Interfaces": {"addresses": ["2001:db8::17/64", "169.228.66.10", "fe80::250:56ff:fe89:1b2c", "::1"]},
        "HostName": {"name": {"name": "torch"}, "full_name": "torch"},
        "Software": {"torch": "2.5.1", "packages": [["nvidia-cublas-cu12", "12.4.5.8"]]},
    }
    hidden = redacted(json.dumps({"facts": facts}))
    for secret in ("corpgpu", "login3", "alice", "5e2f2b0c", "2001:db8::17", "169.228", "1b2c"):
        assert secret not in hidden, secret
    plain = json.loads(hidden)["facts"]
    assert plain["Software"] == facts["Software"]
    assert plain["Interfaces"]["addresses"][2].startswith("fe80:")
    assert plain["Interfaces"]["addresses"][3] == "::1"
