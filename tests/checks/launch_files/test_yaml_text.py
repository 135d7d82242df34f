"""YAML with places: values where they stand, templates unknown, faults told, nothing that grows."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from distcheck.checks.launch_files.fragments import Fragment
from distcheck.checks.launch_files.yaml_text import Node, YamlText, read_yaml

from .reading import shown


def read(text: str) -> YamlText:
    return read_yaml(Fragment(text, "job.yaml"))


def root(text: str) -> Node:
    (document,) = read(text).documents
    return document


def at(text: str, line: int, column: int, end_line: int, end_column: int) -> str:
    """What stands in a text at a span."""
    lines = text.split("\n")
    if line == end_line:
        return lines[line - 1][column - 1 : end_column - 1]
    return "\n".join(
        [lines[line - 1][column - 1 :], *lines[line : end_line - 1], lines[end_line - 1][: end_column - 1]]
    )


def written_at(text: str, node: Node) -> str:
    return at(text, *node.span[1:])


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("4", 4),
        ("-4", -4),
        ("1_000", 1000),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("09", "09"),
        ("3.5", 3.5),
        ("1e3", "1e3"),
        ("1.e+3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("64Gi", "64Gi"),
        ("10:20", "10:20"),
        ("2024-01-01", "2024-01-01"),
        ('"8"', "8"),
        ("'no'", "no"),
        ("!!str 8", "8"),
        ("-", "-"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_a_plain_word_has_the_type_of_yaml_1_1(written: str, value: Any) -> None:
    scalar = root(f"a: {written}\n" if written != "-" else 'a: "-"\n').get("a")
    assert scalar is not None
    assert scalar.scalar.value == value
    assert type(scalar.scalar.value) is type(value)
    assert scalar.scalar.known


def test_values_keys_tables_and_lists_stand_where_they_are() -> None:
    text = "# größe\nspec:\n  ä: {b: [1, 'zwei']}\n  replicas: 4  # two\n  list:\n  - x\n  -   y: z\n"
    tree = root(text)
    spec = tree.get("spec")
    assert spec is not None
    for path, written in (
        (("ä", "b", 1), "'zwei'"),
        (("ä", "b"), "[1, 'zwei']"),
        (("replicas",), "4"),
        (("list", 1), "y: z"),
        (("list",), "- x\n  -   y: z"),
    ):
        node = spec.get(*path)
        assert node is not None
        assert written_at(text, node) == node.written == written
    assert written_at(text, spec.keys["replicas"]) == "replicas"
    assert written_at(text, spec) == text[text.index("ä") :].rstrip()


def test_several_documents_are_read_and_empty_ones_left_out() -> None:
    documents = read("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n---\nc\n").documents
    assert [document.plain() for document in documents] == [{"a": 1}, {"b": 2}, "c"]


def test_anchors_aliases_and_merge_keys() -> None:
    tree = root("base: &b {x: 1, y: 2}\nother: &o {x: 9, z: 3}\nall:\n  y: 5\n  <<: [*b, *o]\nsame: *b\n")
    assert tree.get("all").plain() == {"y": 5, "x": 1, "z": 3}  # type: ignore[union-attr]
    same = tree.get("same", "x")
    assert same is not None
    assert same.span.line == 1


def test_an_alias_without_anchor_is_a_problem_and_unknown() -> None:
    got = read("a: *nothing\nb: 1\n")
    # libyaml hands such an alias over, whoever composes the document refuses it
    assert [problem[1] for problem in got.problems] == [1]
    node = got.documents[0].get("a", "deeper")
    assert node is not None
    assert not node.scalar.known


def test_aliases_of_aliases_do_not_grow() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    lines.append(
        f"m0: &m0 {{k: 1}}\n{chr(10).join(f'm{n}: &m{n}{chr(10)}  <<: [*m{n - 1}, *m{n - 1}]' for n in range(1, 40))}"
    )
    started = time.monotonic()
    tree = root("\n".join(lines))
    assert tree.get("m39").plain() == {"k": 1}  # type: ignore[union-attr]
    tree.plain()
    assert time.monotonic() - started < 20


def test_an_anchor_within_itself_does_not_go_round() -> None:
    got = read("a: &a\n  b: *a\n")
    assert got.documents[0].plain() == {"a": {"b": None}}


def test_duplicate_keys_are_told_and_the_last_counts() -> None:
    got = read("spec:\n  replicas: 1\n  x: 2\n  replicas: 4\n")
    assert got.documents[0].get("spec").plain() == {"replicas": 4, "x": 2}  # type: ignore[union-attr]
    ((text, line, column),) = got.problems
    assert "replicas" in text
    assert "line 2" in text
    assert (line, column) == (4, 3)


HELM = """\
{{- if .Values.enabled }}
apiVersion: kubeflow.org/v1
kind: "PyTorchJob"
metadata:
  name: {{ include "x.name" . }}
  labels:
    a: b
    {{- include "x.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas | default 4 }}
  {{- if .Values.host }}
  hostIPC: true
  {{- end }}
  image: "repo/{{ .Values.image }}:{{ .Values.tag }}"
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  command: ["torchrun", "--nnodes={{ .Values.nodes }}"]
  {{/* a remark: with a colon */}}
  nproc: 8
{{- end }}
"""


def test_templates_are_unknown_and_all_else_is_read() -> None:
    got = read(HELM)
    assert got.problems == ()
    tree = got.documents[0]
    assert tree.get("kind").scalar.value == "PyTorchJob"  # type: ignore[union-attr]
    assert tree.get("spec", "nproc").scalar.number == 8  # type: ignore[union-attr]
    for path, written in (
        (("spec", "replicas"), "{{ .Values.replicas | default 4 }}"),
        (("spec", "image"), '"repo/{{ .Values.image }}:{{ .Values.tag }}"'),
        (("metadata", "name"), '{{ include "x.name" . }}'),
        (("spec", "command", 1), '"--nnodes={{ .Values.nodes }}"'),
    ):
        node = tree.get(*path)
        assert node is not None
        assert written_at(HELM, node) == written
        assert node.text == written.strip('"')
        assert not node.scalar.known
    assert tree.get("spec", "command", 0).scalar.value == "torchrun"  # type: ignore[union-attr]


def test_what_a_template_may_put_there_is_not_surely_absent() -> None:
    spec = read(HELM).documents[0].get("spec")
    assert spec is not None
    limit = spec.get("resources", "limits", "nvidia.com/gpu")
    assert limit is not None
    assert not limit.scalar.known
    assert spec.value("nothing") is None
    assert spec.get("nothing") is None
    labels = read(HELM).documents[0].get("metadata", "labels")
    assert labels is not None
    assert labels.get("team") is not None
    assert read(HELM).documents[0].get("metadata", "team") is None


def test_what_an_if_makes_conditional_is_not_known() -> None:
    spec = read(HELM).documents[0].get("spec")
    assert spec is not None
    assert not spec.get("hostIPC").scalar.known  # type: ignore[union-attr]
    # an if around the whole document says nothing about what is in it
    assert spec.get("nproc").scalar.known  # type: ignore[union-attr]


def test_both_ways_of_an_if_are_no_duplicates() -> None:
    got = read("a: 1\n{{ if .x }}\nn: 2\n{{ else }}\nn: 4\n{{ end }}\nb: {% if y %}3{% endif %}\n")
    assert got.problems == ()
    tree = got.documents[0]
    assert not tree.get("n").scalar.known  # type: ignore[union-attr]
    assert not tree.get("b").scalar.known  # type: ignore[union-attr]
    assert tree.get("a").scalar.known  # type: ignore[union-attr]


@pytest.mark.parametrize("written", ["${REPLICAS}", "$REPLICAS", "$(REPLICAS)"])
def test_a_variable_alone_is_unknown(written: str) -> None:
    node = root(f"replicas: {written}\n").get("replicas")
    assert node is not None
    assert not node.scalar.known
    assert node.text == written


BLOCKS = """\
args:
  - |
    set -e
      torchrun --nnodes={{ .Values.nodes }} \\
        träin.py

    {{ .Values.more }}
    {{- if .Values.debug }}
    echo debug
    {{- end }}
    echo last
  - >-
    torchrun --a
    --b

    more
      indented
    x
  - |2
     two
    four
  - "a\\nb \\"q\\" \\u00e4 c\\
    d"
  - 'it''s
    folded'
  - plain text
    second
  - |+
    kept

  - end
"""


def test_each_character_of_a_text_has_its_place() -> None:
    args = root(BLOCKS).get("args")
    assert args is not None
    assert [re.sub(" +\n", "\n", re.sub(r"\$\{_+\}|\$_+\b", "?", item.fragment().text)) for item in args.items] == [
        "set -e\n  torchrun --nnodes=? \\\n    träin.py\n\n?\n#\necho debug\n#\necho last\n",
        "torchrun --a --b\nmore\n  indented\nx",
        " two\nfour\n",
        'a\nb "q" ä cd',
        "it's folded",
        "plain text second",
        "kept\n\n",
        "end",
    ]
    for item in args.items:
        fragment = item.fragment()
        for match in re.finditer(r"[\w.=/-]+", fragment.text):
            found = shown(BLOCKS, fragment.span(*match.span()))
            expected = {"it": "it", "ä": "\\", "cd": "c\\\n    d"}.get(match[0], match[0])
            if match[0].startswith("--nnodes"):
                expected = "--nnodes="
            if "__" in match[0]:
                continue
            assert found == expected, match[0]


def test_a_template_in_a_block_is_as_long_as_it_was() -> None:
    fragment = root("run: |\n  a {{ .X }} b\n").get("run").fragment()  # type: ignore[union-attr]
    assert fragment.text == "a ${_____} b\n"
    assert fragment.location(fragment.text.index("b")) == (2, 14)


def test_an_if_among_the_options_of_a_command_does_not_end_it() -> None:
    text = "run: |\n  torchrun \\\n  {{- if .x }}\n  --nnodes=2 \\\n  {{- end }}\n  train.py\n"
    fragment = root(text).get("run").fragment()  # type: ignore[union-attr]
    assert fragment.text == "torchrun \\\n${_______} \\\n--nnodes=2 \\\n${_____} \\\ntrain.py\n"
    assert fragment.location(fragment.text.index("train")) == (6, 3)


@pytest.mark.parametrize("sign", ["|", ">", "|-", "|2"])
@pytest.mark.parametrize("column", range(7))
@pytest.mark.parametrize("template", ["{{- if .Values.debug }}", "{{ .Values.more }}", "{{/* a\n remark */}}", "{{x}}"])
@pytest.mark.parametrize("first", [True, False])
def test_a_template_alone_in_a_line_of_a_block(sign: str, column: int, template: str, first: bool) -> None:
    line = " " * column + template + "\n"
    begin = "" if first else "    set -e\n"
    text = f"args:\n  - {sign}\n{begin}{line}    export NCCL_DEBUG=INFO\n{line}    torchrun a.py\n  - b\n"
    got = read(text)
    assert got.problems == ()
    args = got.documents[0].get("args")
    assert args is not None
    assert len(args.items) == 2
    fragment = args.items[0].fragment()
    offset = fragment.text.index("torchrun")
    assert shown(text, fragment.span(offset, offset + 13)) == "torchrun a.py"


def test_an_indentation_indicator_is_minded() -> None:
    text = "a: |1\n  two\n one\n"
    fragment = root(text).get("a").fragment()  # type: ignore[union-attr]
    assert fragment.text == " two\none\n"
    assert fragment.location(1) == (2, 3)
    assert fragment.location(5) == (3, 2)


def test_lines_that_end_in_cr_and_lf() -> None:
    text = "a: |\r\n  torchrun \\\r\n    train.py\r\nb: 4\r\n"
    tree = root(text)
    fragment = tree.get("a").fragment()  # type: ignore[union-attr]
    assert fragment.text == "torchrun \\\n  train.py\n"
    assert fragment.location(fragment.text.index("train")) == (3, 5)
    assert tree.get("b").scalar.number == 4  # type: ignore[union-attr]
    assert tree.get("b").span.line == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\n\tb: 2\n---\nz: 3\n", 2, "tab"),
        ("a: [1, 2\nb: 3\n---\nz: 3\n", 2, "malformed YAML"),
        ("a: 'open\n---\nz: 3\n", 2, "malformed YAML"),
        ("a: b: c\n---\nz: 3\n", 1, "colon"),
        ("a: 1\n%b\n---\nz: 3\n", 2, "malformed YAML"),
        ("a: {" + "x: {" * 300 + "\n---\nz: 3\n", 1, "deep"),
    ],
)
def test_a_fault_is_told_and_the_rest_is_read(text: str, line: int, said: str) -> None:
    got = read(text)
    ((problem, at_line, column),) = got.problems
    assert said in problem
    assert at_line == line
    assert column >= 1
    assert got.documents[-1].plain() == {"z": 3}


def test_what_stands_before_a_fault_is_known_and_more_may_be_there() -> None:
    (document,) = read("spec:\n  replicas: 2\n  template:\n    x: 1\n    y: [1\n").documents
    assert document.get("spec", "replicas").scalar.number == 2  # type: ignore[union-attr]
    missing = document.get("spec", "template", "volumes")
    assert missing is not None
    assert not missing.scalar.known


def test_control_characters_stop_nothing() -> None:
    got = read("a: x\x1b[1m\x00y\nb: 2\n")
    assert got.problems == ()
    assert got.documents[0].get("b").scalar.number == 2  # type: ignore[union-attr]


def test_a_mark_of_the_order_of_bytes_is_none_of_the_text() -> None:
    got = read("\ufeffa: 1\nb: {c: 2}\n---\nd: 3\n")
    assert got.problems == ()
    assert [document.plain() for document in got.documents] == [{"a": 1, "b": {"c": 2}}, {"d": 3}]
    assert got.documents[0].get("a").span[1:] == (1, 5, 1, 6)  # type: ignore[union-attr]


def test_comments_by_line() -> None:
    assert read("# one\na: 1 # distcheck: ignore[DC804]\nb: x#y\n").comments == (
        (1, "# one"),
        (2, "# distcheck: ignore[DC804]"),
    )


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "a: &x [*x" * 10_000, "- " * 100_000, "? " * 50_000])
def test_hostile_nesting_ends(text: str) -> None:
    started = time.monotonic()
    got = read(text)
    assert got.problems
    assert time.monotonic() - started < 30


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9999, 9999)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz_-", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans(), st.integers(20, 100))
def test_it_reads_what_yaml_reads(value: Any, flow: bool, width: int) -> None:
    text = yaml.safe_dump({"v": value}, allow_unicode=True, default_flow_style=flow, width=width)
    assume("{{" not in text and "{%" not in text)  # templates
    expected = yaml.safe_load(text)
    got = read(text)
    assert got.problems == ()

    def same(node: Node, other: Any) -> None:
        if isinstance(other, dict):
            assert set(node.table) == {key if isinstance(key, str) else str(key) for key in other}
            for key, inner in other.items():
                same(node.table[key], inner)
        elif isinstance(other, list):
            assert len(node.items) == len(other)
            for inner_node, inner in zip(node.items, other, strict=True):
                same(inner_node, inner)
        elif node.scalar.known:
            assert node.scalar.value == other
        else:
            assert isinstance(other, str)
            assert other.startswith("$")

    same(got.documents[0], expected)


@given(st.text(st.sampled_from(list("abc \n  \\\"'#|>-")), max_size=60), st.sampled_from(["|", ">", '"', "'", None]))
def test_every_text_has_as_many_places_as_characters(value: str, style: str | None) -> None:
    text = yaml.safe_dump({"k": {"v": value, "w": [value]}}, default_style=style, width=20)
    tree = root(text)
    lines = text.split("\n")
    for node in (tree.get("k", "v"), tree.get("k", "w", 0)):
        assert node is not None
        assert node.text == value
        if not node.scalar.known:
            continue
        fragment = node.fragment()
        for offset, character in enumerate(fragment.text):
            if character in "abc":
                line, column = fragment.location(offset)
                assert lines[line - 1][column - 1] == character


@given(st.text(st.sampled_from(list("ab:-?[]{},&*#!|>'\"%@`\t\n {{}}%$")), max_size=80))
def test_nothing_makes_it_raise(text: str) -> None:
    got = read(text)
    lines = text.split("\n")
    for document in got.documents:
        document.plain()
        assert 1 <= document.span.line <= len(lines)


def test_words_behind_a_fold_without_indentation_are_in_their_place() -> None:
    text = 'a: "one\ntwo\\\n three \nfour"\n'
    value = read(text).documents[0].get("a")
    assert value is not None
    fragment = value.fragment()
    assert fragment.text == "one twothree four"
    assert [fragment.location(fragment.text.index(word)) for word in ("two", "three", "four")] == [
        (2, 1),
        (3, 2),
        (4, 1),
    ]


def test_many_blanks_in_a_quoted_value_take_no_time() -> None:
    blanks = " " * 200_000
    value = read(f'a: "x\\t{blanks}y"\n').documents[0].get("a")
    assert value is not None
    assert value.fragment().text == f"x\t{blanks}y"
    assert value.fragment().location(200_002) == (1, 200_008)
