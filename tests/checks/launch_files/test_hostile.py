"""Files that are broken, hostile or huge: a clear line about what can't be read, the rest still checked, and soon done."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distcheck.checks.launch_files.files import MAX_BYTES, kind_of, read_file
from distcheck.checks.launch_files.model import KINDS, LaunchFile
from distcheck.core.model import Severity
from tests.launch.cases import JOBS, Case, all_cases, judge

#: Seconds that any file of these tests may take; most take milliseconds, and the machine may be busy.
_PATIENCE_S = 60.0
#: What a file of each kind is called.
NAMES = {
    "shell": "run.sh",
    "dockerfile": "Dockerfile",
    "makefile": "Makefile",
    "markdown": "README.md",
    "workflow": ".github/workflows/ci.yml",
    "kubernetes": "job.yaml",
    "job": "task.yaml",
    "accelerate": "accelerate.yaml",
    "deepspeed": "ds.json",
    "hostfile": "hostfile",
}
#: A line of a launch file in which something is found, by kind.
FAULTY = {
    "shell": b"export GLOO_IB_DISABLE=0\ntorchrun --standalone --nproc_per_node=8 train.py\n",
    "dockerfile": b'FROM a\nENV GLOO_IB_DISABLE=0\nCMD ["torchrun", "--nproc_per_node=8", "train.py"]\n',
    "makefile": b"train:\n\tGLOO_IB_DISABLE=0 torchrun --standalone --nproc_per_node=8 train.py\n",
    "markdown": b"```bash\nexport GLOO_IB_DISABLE=0\ntorchrun --standalone --nproc_per_node=8 train.py\n```\n",
    "workflow": b"on: push\nenv:\n  GLOO_IB_DISABLE: 0\njobs:\n  a:\n    runs-on: gpu\n    steps:\n      - run: torchrun --nproc_per_node=2 t.py\n",
    "kubernetes": (
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  hostIPC: true\n  containers:\n"
        b"    - name: a\n      command: [torchrun, --standalone, --nproc_per_node=8, t.py]\n      env:\n"
        b'        - {name: GLOO_IB_DISABLE, value: "0"}\n      resources: {limits: {nvidia.com/gpu: 8}}\n'
    ),
    "job": b"envs: {GLOO_IB_DISABLE: 0}\nresources: {accelerators: H100:8}\nrun: |\n  torchrun --nproc_per_node=8 t.py\n",
    "accelerate": b"compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmain_process_ip: a\nnum_machines: 2\nnum_processes: 7\n",
    "deepspeed": b'{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3, "zero_optimization": {}}\n',
}


def nothing(path: str) -> bytes | None:
    return None


def read(kind: str, data: bytes) -> LaunchFile:
    """The file as it is read, within the time that anything may take."""
    began = time.monotonic()
    file = read_file(NAMES[kind], data, kind, nothing)
    assert time.monotonic() - began < _PATIENCE_S
    assert file.path == NAMES[kind]
    for why, line, column in file.problems:
        assert why and "\n" not in why, why
        assert "analysis of it failed" not in why, f"a reader raised: {why}"
        assert line >= 0 and column >= 0
    return file


def codes(files: Mapping[str, bytes]) -> set[str]:
    """What is found above information, within the time that anything may take."""
    began = time.monotonic()
    found = judge(files)
    assert time.monotonic() - began < _PATIENCE_S
    return {item.code for item in found.findings if item.severity > Severity.INFO}


@pytest.mark.parametrize("kind", FAULTY)
def test_what_the_other_tests_break_is_found_while_it_is_whole(kind: str) -> None:
    expected = {"accelerate": {"DC811"}, "deepspeed": {"DC812"}}.get(kind, {"DC110"})
    assert kind_of(NAMES[kind], FAULTY[kind], include_markdown=True) == kind
    assert codes({NAMES[kind]: FAULTY[kind]}) == expected


# broken syntax: a line that says so, and the rest is checked


def test_a_broken_document_of_yaml_spares_the_one_before_it() -> None:
    data = (
        FAULTY["kubernetes"] + b"---\napiVersion: v1\nkind: Pod\nspec:\n  containers: [a, {b\n metadata:\n   - x: [\n"
    )
    file = read("kubernetes", data)
    assert file.problems
    (_, line, _) = file.problems[0]
    assert line >= 13
    assert codes({"job.yaml": data}) == {"DC110"}


def test_tabs_in_yaml_are_told_of_with_their_line() -> None:
    data = FAULTY["kubernetes"] + b"---\nkind: Pod\napiVersion: v1\nspec:\n\tcontainers: []\n"
    file = read("kubernetes", data)
    assert any(line == 16 for _, line, _ in file.problems), file.problems
    assert codes({"job.yaml": data}) == {"DC110"}


@pytest.mark.parametrize(
    "text",
    [
        b'{"train_batch_size": 256,\n "zero_optimization": {"stage": 2},\n "fp16": {"enabled": true}\n',
        b'{"train_batch_size": 256,\n "zero_optimization": {"stage": 2,}\n "fp16": }\n',
        b'{"train_batch_size": 256,\n "zero_optimization": \x00\n}',
        b'{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 0x10}\n',
        b'{"zero_optimization": ' + b"[" * 100_000,
        b'{"train_micro_batch_size_per_gpu": ' + b"9" * 100_000 + b', "zero_optimization": {}}',
    ],
)
def test_broken_json_is_told_of(text: bytes) -> None:
    file = read("deepspeed", text)
    assert file.problems or file.configurations
    if b"9" * 1000 not in text:
        assert file.problems


def test_tabs_in_json_are_fine() -> None:
    data = FAULTY["deepspeed"].replace(b", ", b",\n\t\t")
    assert read("deepspeed", data).problems == ()
    assert codes({"ds.json": data}) == {"DC812"}


def test_numbers_that_json_has_and_nobody_can_use() -> None:
    for number in (b"1e400", b"-5", b"0", b"NaN", b"1.5", b'"8"', b"[8]", b"null", b"true"):
        data = b'{"train_batch_size": %s, "train_micro_batch_size_per_gpu": %s, "zero_optimization": {}}' % (
            number,
            number,
        )
        read("deepspeed", data)
        codes({"ds.json": data})


@pytest.mark.parametrize(
    "rest",
    [
        b"if true; then\n  torchrun --nproc_per_node=2 a.py\n",
        b"echo 'never closed\n",
        b'echo "never closed $(\n',
        b"cat <<EOF\nnever closed\n",
        b"case $1 in\n a) b ;;\n",
        b"f() {\n",
        b"done\nfi\nesac\n}\n",
        b"))((\n",
        b"| | ||\n",
        b"a=(1 2\n",
        b"\\",
    ],
)
def test_broken_shell_keeps_what_stands_before_it(rest: bytes) -> None:
    data = b"#!/bin/bash\n" + FAULTY["shell"] + rest
    read("shell", data)
    assert "DC110" in codes({"run.sh": data})


# bytes that are no text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 20,
        b"\x89PNG\r\n\x1a\n" + bytes(2000),
        "torchrun --nproc_per_node=8 train.py\n".encode("utf-16"),
        "torchrun --nproc_per_node=8 train.py\n".encode("utf-16-be"),
        b"PK\x03\x04" + b"\x00" * 100,
        b"\x80\x04\x95" + b"\x00" * 100,
    ],
    ids=["elf", "png", "utf-16", "utf-16-be", "zip", "pickle"],
)
def test_binary_content_is_told_of(kind: str, data: bytes) -> None:
    file = read(kind, data)
    assert len(file.problems) == 1, file.problems
    assert file.sites == () and file.settings == () and file.pods == ()


@pytest.mark.parametrize("kind", FAULTY)
@pytest.mark.parametrize(
    "comment", [b"caf\xe9", "größer".encode(), b"\xff\xfe\xfd"], ids=["latin-1", "utf-8", "neither"]
)
def test_letters_of_any_encoding_are_no_reason_to_give_up(kind: str, comment: bytes) -> None:
    if kind == "deepspeed":
        data = FAULTY[kind].replace(b"{}}", b'{}, "steps_per_print": "%s"}' % comment)
    else:
        data = b"# " + comment + b"\n" + FAULTY[kind]
    read(kind, data)
    assert codes({NAMES[kind]: data}), "what was found is no longer found"


@pytest.mark.parametrize("kind", FAULTY)
def test_a_byte_order_mark_does_no_harm(kind: str) -> None:
    data = b"\xef\xbb\xbf" + FAULTY[kind]
    file = read(kind, data)
    assert codes({NAMES[kind]: data}) == codes({NAMES[kind]: FAULTY[kind]}), file.problems


@pytest.mark.parametrize("kind", FAULTY)
def test_windows_line_ends(kind: str) -> None:
    data = FAULTY[kind].replace(b"\n", b"\r\n")
    assert codes({NAMES[kind]: data}) == codes({NAMES[kind]: FAULTY[kind]})
    assert read(kind, data).problems == ()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_at_all(kind: str) -> None:
    for data in (b"", b"\n", b"\r\n\r\n", b" ", b"\t", b"#", b"\xef\xbb\xbf"):
        file = read(kind, data)
        assert file.sites == () and file.pods == () and file.configurations == ()


# size


@pytest.mark.slow
@pytest.mark.full
def test_a_script_of_five_megabytes() -> None:
    block = b"".join(
        b"echo %d >> log.txt; x%d=$((x%d + 1)); if [ -f $x%d ]; then y=$(date); fi\n" % (i, i, i, i) for i in range(200)
    )
    head = b"#!/bin/bash\nexport GLOO_IB_DISABLE=0\n"
    tail = b"torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=localhost:29400 train.py\n"
    data = head + block * ((MAX_BYTES - len(head) - len(tail)) // len(block)) + tail
    assert 4_900_000 < len(data) < MAX_BYTES
    began = time.monotonic()
    found = judge({"run.sh": data})
    elapsed = time.monotonic() - began
    assert {item.code for item in found.findings if item.severity > Severity.INFO} == {"DC110", "DC419"}
    assert elapsed < _PATIENCE_S


@pytest.mark.slow
@pytest.mark.full
def test_what_is_larger_is_read_in_part_and_said_to_be() -> None:
    data = b"export GLOO_IB_DISABLE=0\ntorchrun --standalone --nproc_per_node=8 a.py\n" + b"# filler\n" * 700_000
    file = read("shell", data)
    assert len(data) > MAX_BYTES
    assert [f"{MAX_BYTES:,}" in why for why, _, _ in file.problems] == [True]
    assert codes({"run.sh": data}) == {"DC110"}


@pytest.mark.slow
def test_ten_thousand_launch_lines() -> None:
    line = (
        b"torchrun --nnodes=%d --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py\n"
    )
    assert codes({"run.sh": b"".join(line % (2 + i) for i in range(10_000))}) == set()


@pytest.mark.slow
def test_one_line_of_a_megabyte() -> None:
    data = b"torchrun --standalone --nproc_per_node=8 train.py " + b"--x=y " * 170_000 + b"\n"
    assert codes({"run.sh": b"export GLOO_IB_DISABLE=0\n" + data}) == {"DC110"}
    assert codes({"Makefile": b"train:\n\t" + data}) == set()


# growth: small texts that ask for a lot of work


def _doubling(count: int) -> bytes:
    lines = ["A0=torchrun"] + [f'A{i}="$A{i - 1} $A{i - 1}"' for i in range(1, count)] + [f"$A{count - 1} train.py"]
    return "\n".join(lines).encode() + b"\n"


def _calling(count: int) -> bytes:
    """Each function calls the next one twice."""
    lines = [f"f{i}() {{ f{i + 1}; f{i + 1}; }}" for i in range(count)]
    return (
        "\n".join([*lines, f"f{count}() {{ torchrun --standalone --nproc_per_node=2 a.py; }}", "f0"]).encode() + b"\n"
    )


GROWING = {
    "variables that double": _doubling(60),
    "functions that call the next one twice": _calling(60),
    "a function that calls itself": b"f() { f; torchrun --standalone --nproc_per_node=2 a.py; f; }\nf\n",
    "two that call each other": b"f() { g; }\ng() { f; torchrun --standalone --nproc_per_node=2 a.py; }\nf\n",
    "loops in loops": (
        b"".join(b"for v%d in 1 2 3 4 5 6 7 8 9 0; do\n" % i for i in range(12))
        + b"torchrun --standalone --nproc_per_node=$v0 a.py\n"
        + b"done\n" * 12
    ),
    "a long range": b"for i in {1..1000000000}; do torchrun --standalone --nproc_per_node=2 a.py; done\n",
    "ranges in ranges": b"echo " + b"{1..100}" * 20 + b"\ntorchrun --standalone --nproc_per_node=2 " + b"{a,b}" * 40 + b".py\n",
    "seq": b"for i in $(seq 1 1000000000); do torchrun --standalone --nproc_per_node=2 a.py; done\n",
    "an array that grows": b"A=(torchrun)\n" + b'A+=("${A[@]}")\n' * 60 + b'"${A[@]}" train.py\n',
    "a large number": b"torchrun --standalone --nproc_per_node=$((9**9**9)) train.py\nN=$((1<<99999999))\ntorchrun --nproc_per_node=$N a.py\n",
    "shells in shells": b"bash -c '" * 200 + b"torchrun a.py" + b"'" * 200 + b"\n",
    "substitutions in substitutions": b"echo " + b"$(echo " * 20_000 + b"torchrun" + b")" * 20_000 + b"\n",
    "substitutions that never end": b"torchrun $(" * 50_000,
    "parentheses": b"(" * 100_000 + b"torchrun a.py" + b")" * 100_000,
    "braces": b"{ " * 50_000 + b"torchrun a.py;" + b" }" * 50_000,
    "ifs": b"if true; then\n" * 5_000 + b"torchrun a.py\n" + b"fi\n" * 5_000,
    "pipes": b"torchrun a.py | " * 20_000 + b"cat\n",
    "and": b"torchrun a.py && " * 20_000 + b"true\n",
    "quotes": b"torchrun '" + b"'\"'\"'" * 100_000 + b"'\n",
    "backslashes": b"torchrun " + b"\\" * 500_001 + b"\n",
    "lines that go on": b"torchrun \\\n" * 100_000 + b"a.py\n",
    "heredocs": b"".join(b"bash <<E%d\n" % i for i in range(300)) + b"torchrun a.py\n" + b"".join(b"E%d\n" % i for i in range(300)),
    "parameters in parameters": b"torchrun " + b"${A:-" * 20_000 + b"x" + b"}" * 20_000 + b" a.py\n",
    "a variable that holds itself": b'A=torchrun\nA="$A $A $A"\n' * 200 + b"$A a.py\n",
    "replacing": b"A=torchrunaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" + b"A=${A//a/aaaaaaaaaa}\n" * 40 + b"$A b.py\n",
    "alternatives": b"case $1 in " + b"a) x=1;; " * 20_000 + b"esac\ntorchrun --nproc_per_node=$x a.py\n",
    "eval of eval": b"eval " * 12_000 + b"torchrun a.py\n",
    "eval of many words": b'eval "$X" ' + b'"a b" $Y ' * 7_000 + b"torchrun a.py\n",
    "comments": b"# distcheck: ignore[" * 20_000 + b"\ntorchrun a.py\n",
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.slow
@pytest.mark.sampled(every=3)
def test_a_small_script_asks_for_no_endless_work(name: str) -> None:
    data = GROWING[name]
    read("shell", data)
    codes({"run.sh": data})


@pytest.mark.parametrize("name", ["functions that call the next one twice", "loops in loops", "variables that double"])
def test_what_stands_before_it_is_found_all_the_same(name: str) -> None:
    assert "DC110" in codes({"run.sh": b"export GLOO_IB_DISABLE=0\n" + GROWING[name]})


def test_scripts_that_source_each_other() -> None:
    files = {
        "a.sh": b"source ./b.sh\ntorchrun --standalone --nproc_per_node=2 a.py\n",
        "b.sh": b"source ./a.sh\nsource b.sh\nexport GLOO_IB_DISABLE=0\n",
    }
    assert "DC110" in codes(files)
    many = {f"s{i}.sh": b"source s%d.sh\nsource s%d.sh\n" % (i + 1, i + 1) for i in range(40)}
    codes({**many, "s40.sh": b"torchrun --standalone --nproc_per_node=2 a.py\n"})


def _laughs(levels: int, kind: str = "Pod") -> bytes:
    lines = ["apiVersion: v1", f"kind: {kind}", "a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join([*lines, "spec: {containers: *a" + str(levels - 1) + "}"]).encode() + b"\n"


GROWING_YAML = {
    "aliases": _laughs(12),
    "aliases in a workload of an unknown kind": _laughs(12, "Workflow"),
    "an alias of itself": b"apiVersion: v1\nkind: Pod\nspec: &a\n  containers: [*a]\n  template: *a\n",
    "merges": b"apiVersion: v1\nkind: Pod\na0: &a0 {x: 1}\n"
    + b"".join(b"a%d: &a%d\n  <<: [*a%d, *a%d]\n  k%d: 1\n" % (i, i, i - 1, i - 1, i) for i in range(1, 60))
    + b"spec: *a59\n",
    "a merge of itself": b"apiVersion: v1\nkind: Pod\nspec: &s\n  <<: *s\n  containers: []\n",
    "lists in lists": b"apiVersion: v1\nkind: Pod\nspec: " + b"[" * 50_000 + b"]" * 50_000 + b"\n",
    "tables in tables": b"apiVersion: v1\nkind: Pod\nspec: " + b"{a: " * 20_000 + b"}" * 20_000 + b"\n",
    "deep by indentation": b"apiVersion: v1\nkind: Pod\n" + b"".join(b" " * i + b"a:\n" for i in range(2_000)),
    "documents": b"---\napiVersion: v1\nkind: Pod\n" * 3_000,
    "keys": b"apiVersion: v1\nkind: Pod\nspec: {" + b", ".join(b"k%d: 1" % i for i in range(20_000)) + b"}\n",
    "the same key": b"apiVersion: v1\nkind: Pod\n" + b"spec: {}\n" * 5_000,
    "templates": b"apiVersion: v1\nkind: Pod\n" + b"a: {{ .b }}\n" * 5_000 + b"{{" * 20_000 + b"\n",
    "tags": b"apiVersion: v1\nkind: Pod\nspec: !!python/object/apply:os.system ['true']\na: !x {}\n",
    "numbers": b"apiVersion: apps/v1\nkind: StatefulSet\nspec:\n  replicas: " + b"9" * 50_000 + b"\n",
    "sexagesimal": b"apiVersion: v1\nkind: Pod\nspec: 1" + b":59" * 5_000 + b"\n",
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING_YAML)
def test_a_small_manifest_asks_for_no_endless_work(name: str) -> None:
    data = GROWING_YAML[name]
    read("kubernetes", data)
    codes({"job.yaml": data})
    for kind in ("workflow", "accelerate"):
        read(kind, data)


def test_no_object_is_made_of_a_tag(tmp_path: object) -> None:
    """A tag of PyYAML that would call a function is a text to us."""
    import os

    name = f"{tmp_path}/made"
    data = f"apiVersion: v1\nkind: Pod\nspec: !!python/object/apply:os.mkdir ['{name}']\n".encode()
    read("kubernetes", data)
    assert not os.path.exists(name)


def test_variables_of_a_makefile_that_hold_each_other() -> None:
    lines = ["A0 = torchrun"] + [f"A{i} = $(A{i - 1}) $(A{i - 1})" for i in range(1, 60)] + ["B = $(C)", "C = $(B)"]
    data = "\n".join([*lines, "all:", "\t$(A59) train.py", "\t$(B) torchrun a.py", ""]).encode()
    read("makefile", data)
    codes({"Makefile": data})


def test_arguments_of_a_dockerfile_that_hold_each_other() -> None:
    lines = ["FROM a", "ENV A0=torchrun"] + [f'ENV A{i}="$A{i - 1} $A{i - 1}"' for i in range(1, 60)]
    data = "\n".join([*lines, "RUN $A59 train.py", "RUN " + "\\\n" * 20_000, ""]).encode()
    read("dockerfile", data)
    codes({"Dockerfile": data})


# anything


@pytest.mark.parametrize("kind", KINDS)
def test_any_bytes_are_read(kind: str) -> None:
    @given(data=st.binary(max_size=400))
    @example(b"\r")
    @example(b"\\\n")
    @settings(deadline=None, max_examples=60)
    def check(data: bytes) -> None:
        read(kind, data)

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_any_text_is_read(kind: str) -> None:
    words = st.sampled_from(
        [
            "torchrun", "srun", "--nnodes=2", "$(", ")", "${", "}", "'", '"', "\\\n", "\n", " ", "\t", "<<EOF\n", "EOF",
            "if", "then", "fi", "for i in 1 2; do", "done", ";", "&", "|", "`", "((", "))", "[[", "]]", "case x in", "esac",
            "export A=1", "#SBATCH --nodes=2\n", "kind: Pod\n", "apiVersion: v1\n", "- ", "  ", ": ", "{{", "}}", "&a", "*a",
            "|\n", ">\n", "RUN ", "CMD [", "FROM a\n", "```sh\n", "```\n", "$(A)", "A := 1\n", "x:\n\t", "mpirun -np 2 ",
            "python a.py", "bash -c ", "ssh a ", "é", "\u2028", "\x0b", "\x0c", "slots=8", "{\"train_batch_size\": ", "[", "]",
            "jobs:\n", "run: ", "env:\n", "{1..9}", "${A[@]}", "A=(", "${A:-", "function f {", "f() {", "eval ", "source a",
        ]
    )  # fmt: skip

    @given(text=st.lists(words, max_size=40).map("".join))
    @settings(deadline=None, max_examples=150)
    def check(text: str) -> None:
        read(kind, text.encode())

    check()


@pytest.mark.parametrize("case", [*all_cases(), *all_cases(JOBS)][::9], ids=lambda case: case.name)
def test_cases_with_stretches_missing_are_read_and_judged(case: Case) -> None:
    """A file that somebody is just writing: cut off, with stretches missing, doubled or in the wrong place."""
    chance = random.Random(case.name)
    for _ in range(12):
        files = dict(case.files())
        path = chance.choice(sorted(path for path in files if not path.endswith(".py")))
        data = files[path]
        first, second = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        way = chance.randrange(4)
        if way == 0:
            data = data[:first]
        elif way == 1:
            data = data[:first] + data[second:]
        elif way == 2:
            data = data[:second] + data[first:]
        else:
            data = data[:first] + bytes([chance.randrange(256)]) + data[first:]
        files[path] = data
        judged = judge(files)
        for item in judged.findings:
            lines = files[item.where.path or ""].count(b"\n") + 1
            assert 1 <= (item.where.line or 0) <= lines, (item, data)
