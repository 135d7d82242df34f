"""What a script says: launch lines in context, with the variables, folders, tests and shells around them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.launch_files.fragments import Fragment, Piece
from distcheck.checks.launch_files.model import FileSetting, LaunchSite
from distcheck.checks.launch_files.shell import ShellText, read_shell
from distcheck.core.spans import Span


def read(text: str, files: Mapping[str, str] = {}, path: str = "job.sh", **options: object) -> ShellText:
    def look_up(wanted: str) -> bytes | None:
        return files[wanted].encode() if wanted in files else None

    return read_shell(Fragment(text, path), look_up, **options)  # type: ignore[arg-type]


def only(text: str, files: Mapping[str, str] = {}, **options: object) -> LaunchSite:
    found = read(text, files, **options)
    assert len(found.sites) == 1, [site.command.argv for site in found.sites]
    return found.sites[0]


def lines(text: str, files: Mapping[str, str] = {}) -> list[str]:
    """The launch lines with known values put in."""
    return [" ".join(word.text for word in site.words) for site in read(text, files).sites]


def cut(text: str, span: Span) -> str:
    """What stands in a text at a place."""
    rows = text.split("\n")
    if span.line == span.end_line:
        return rows[span.line - 1][span.column - 1 : span.end_column - 1]
    middle = rows[span.line : span.end_line - 1]
    return "\n".join([rows[span.line - 1][span.column - 1 :], *middle, rows[span.end_line - 1][: span.end_column - 1]])


# Which lines start ranks


@pytest.mark.parametrize(
    "text",
    [
        "torchrun train.py",
        "python -m torch.distributed.run train.py",
        "accelerate launch train.py",
        "deepspeed train.py",
        "python train.py",
        "./train.py",
        "srun hostname",
        "mpirun -np 4 ./a.out",
        "sbatch job.sbatch",
        "bash train.sh",
        "if torchrun train.py; then echo ok; fi",
        "while ! torchrun train.py; do sleep 1; done",
        "OUT=$(torchrun train.py)",
        "echo $(python port.py)",
        "cat hosts | torchrun train.py",
        "torchrun train.py | tee log",
        "(torchrun train.py)",
        "{ torchrun train.py; } > log",
        "! torchrun train.py",
        "time torchrun train.py",
        "$DRY_RUN torchrun train.py",
        "f() { torchrun train.py; }; f",
        "f() { torchrun train.py; }",
        "function f { torchrun train.py; }; trap f EXIT",
    ],
)
def test_a_line_that_starts_ranks_is_found(text: str) -> None:
    assert len(read(text).sites) == 1


@pytest.mark.parametrize(
    "text",
    [
        "# torchrun train.py",
        "echo torchrun train.py",
        'echo "torchrun train.py"',
        "pip install torchrun deepspeed",
        "which torchrun",
        "command -v torchrun",
        "if ! command -v torchrun > /dev/null; then exit 1; fi",
        "type torchrun",
        "pkill -f torchrun",
        "cat > run.sh <<EOF\ntorchrun train.py\nEOF",
        "cat <<EOF\ntorchrun train.py\nEOF",
        "python - <<EOF\nimport torch\nEOF",
        "python -c 'import torch'",
        "exit\ntorchrun train.py",
        ": '\ntorchrun train.py\n'",
        "X='torchrun train.py'",
        "if false; then torchrun train.py; fi",
    ],
)
def test_a_line_that_starts_none_is_left_alone(text: str) -> None:
    assert not read(text).sites


def test_words_have_their_places() -> None:
    text = "export A=1\n  torchrun --nnodes=2 \\\n    --nproc_per_node '8' train.py  # why\n"
    site = only(text)
    assert [cut(text, word.span) for word in site.words] == [
        "torchrun", "--nnodes=2", "--nproc_per_node", "'8'", "train.py",
    ]  # fmt: skip
    assert [word.written for word in site.words] == [cut(text, word.span) for word in site.words]
    assert site.span == Span("job.sh", 2, 3, 3, 34)


def test_columns_count_characters() -> None:
    text = "echo 'ä€𝄞'; torchrun 'ü' --nnodes=2 tränen.py"
    site = only(text)
    assert [word.text for word in site.words] == ["torchrun", "ü", "--nnodes=2", "tränen.py"]
    assert [cut(text, word.span) for word in site.words] == ["torchrun", "'ü'", "--nnodes=2", "tränen.py"]


def test_carriage_returns_move_nothing() -> None:
    text = "X=3\r\ntorchrun \\\r\n  --nnodes=$X a.py\r\nbash <<EOF\r\ntorchrun b.py\r\nEOF\r\n"
    first, second = read(text).sites
    assert [word.text for word in first.words] == ["torchrun", "--nnodes=3", "a.py"]
    assert first.words[1].span == Span("job.sh", 3, 3, 3, 14)
    assert second.span == Span("job.sh", 5, 1, 5, 14)


def test_a_part_of_a_file_has_the_places_of_the_file() -> None:
    text = "torchrun \\\n--nnodes=2 a.py\n"
    fragment = Fragment(text, "job.yaml", (Piece(0, 10, 5), Piece(11, 11, 7)))
    site = read_shell(fragment, lambda path: None, kind="pod").sites[0]
    assert [(word.span.line, word.span.column) for word in site.words] == [(10, 5), (11, 7), (11, 18)]
    assert site.kind == "pod"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=8), max_size=6),
    st.sampled_from([" ", "  ", " \\\n  ", "\t"]),
)
def test_any_words_come_out_as_they_went_in(words: list[str], gap: str) -> None:
    text = gap.join(["torchrun", "train.py", *map(shlex.quote, words)])
    site = only(text)
    assert [word.text for word in site.words[2:]] == words
    assert [cut(text, word.span) for word in site.words[2:]] == [shlex.quote(word) for word in words]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            "if then fi else for do done while case esac in ( ) { } ; & | && || $( ` ' \" \\ \n << <<EOF EOF $X ${X X=1 "
            "export torchrun a.py [ [[ ]] (( )) f() # ${ {{ }} < > $((".replace(" ", "\0").split("\0")
        ),
        max_size=25,
    )
)
def test_no_text_makes_it_fail(pieces: list[str]) -> None:
    read(" ".join(pieces))


#: Each gives the same words to torchrun as in bash.
AS_BASH = [
    r"torchrun a 'b c' \"d\" e\ f g\"h\"'i'",
    "X=1; torchrun $X \"${X}\" ${X}2 '$X' \\$X \"\\$X\"",
    'X="a b  c"; torchrun $X "$X" pre$X"post"',
    'X=; torchrun $X "$X" end',
    'A=(a "b c" d); torchrun "${A[@]}" ${A[1]} "${A[*]}" ${#A[@]} ${A[0]} x"${A[@]}"y ${A[-1]}',
    'A=(); torchrun "${A[@]}" end',
    'A=(a); A+=(b "c d"); torchrun "${A[@]}"',
    "X=a; X+=b; torchrun $X",
    "unset Y; torchrun ${Y:-8} ${Y-9} ${Y:+1} ${Y:=7} $Y",
    "X=abc.tar.gz; torchrun ${X%.*} ${X%%.*} ${X#*.} ${X##*.} ${#X} ${X/a/b} ${X//a/_} ${X^^}",
    "torchrun $((1+2*3)) $((7/2)) $((-7/2)) $((7%3)) $(( (1+2)*3 ))",
    "N=2; G=8; torchrun $((N*G)) $(($N*$G)) $((N>1))",
    'torchrun $(echo hi there) "$(echo hi there)" $(dirname /a/b/c.sh) $(basename /a/b/c.sh .sh) `echo x`',
    'torchrun $(seq 1 3) "$(seq 2)"',
    'f() { torchrun "$1" "$2" $# "$@"; }; f a "b c"',
    "f() { local x=$1; x=${x}1; torchrun $x; }; x=5; f 2",
    'set -- p "q r"; torchrun "$@" $1 "$2" $#',
    "set -- p q r; shift; torchrun \"$@\"",
    "if true; then X=1; else X=2; fi; torchrun $X",
    "X=5; if [ $X -gt 3 ]; then Y=big; else Y=small; fi; torchrun $Y",
    "X=b; case $X in a) Y=1;; b|c) Y=2;; *) Y=3;; esac; torchrun $Y",
    'X=1; [ "$X" = 1 ] && Y=yes || Y=no; torchrun $Y',
    'X=; [ -z "$X" ] && X=empty; torchrun $X',
    "C=\"torchrun a 'b c'\"; eval $C; eval \"$C\" d",
    'L="torchrun --x 1"; $L y',
    "X=1; bash -c \"torchrun $X '\\$X' a\"",
    "bash -c 'torchrun \"$1\" $2' a b c",
    "X=1; bash <<EOF\ntorchrun $X 'a$X'\nEOF",
    "bash <<'EOF'\nX=2\ntorchrun \"$X\" b\nEOF",
    'bash <<< "torchrun a b"',
    "X=1; (X=2); torchrun $X",
    "X=1; { X=2; }; torchrun $X",
    "A='x y'; B=$A; C=\"$B z\"; torchrun $C \"$C\"",
    "torchrun a\\\nb c \\\n d",
    "torchrun $'a\\tb' $\"c\"",
    "torchrun a 2>&1 b",
    "export A=1 B=2; torchrun $A $B",
    "declare -i N=3; readonly M=4; torchrun $N $M",
    "for i in 7; do torchrun $i; done",
    "X=a:b:c; torchrun ${X%%:*} ${X##*:}",
    'A=(1 2); B=("${A[@]}" 3); torchrun ${B[@]} ${#B[@]}',
    "false || torchrun x; true && torchrun y; ! false && torchrun z",
    "exec torchrun e; torchrun never",
    "torchrun a#b '#c' # d",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("text", AS_BASH)
def test_words_are_what_bash_makes_of_them(text: str, tmp_path: Path) -> None:
    program = tmp_path / "torchrun"
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=environ, check=True, timeout=20)
    shown = ""
    for site in read(text).sites:
        words = [word.text for word in site.words]
        shown += "".join(f"<{word}>" for word in words[words.index("torchrun") + 1 :]) or "<>"
    assert shown == done.stdout


# Values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("torchrun $GPUS a.py", "torchrun $GPUS a.py"),
        ("torchrun ${GPUS:-8} a.py", "torchrun ${GPUS:-8} a.py"),
        ("GPUS=${GPUS:-8}; torchrun $GPUS a.py", "torchrun $GPUS a.py"),
        ("GPUS=${1:-8}; torchrun $GPUS a.py", "torchrun $GPUS a.py"),
        ("GPUS=$(nvidia-smi -L | wc -l); torchrun $GPUS a.py", "torchrun $GPUS a.py"),
        ("A=$(hostname):29500; torchrun $A a.py", "torchrun $(hostname):29500 a.py"),
        ("if [ -n \"$X\" ]; then G=1; else G=2; fi; torchrun $G a.py", "torchrun $G a.py"),
        ("if [ -n \"$X\" ]; then G=1; fi; torchrun $G a.py", "torchrun $G a.py"),
        ("G=2; if [ -n \"$X\" ]; then G=1; fi; torchrun $G a.py", "torchrun $G a.py"),
        ("G=2; if [ -z \"$1\" ]; then G=1; exit 1; fi; torchrun $G a.py", "torchrun 2 a.py"),
        ("if [ -n \"$X\" ]; then G=1; else G=1; fi; torchrun $G a.py", "torchrun 1 a.py"),
        ("case $X in a) G=1;; b) G=2;; esac; torchrun $G a.py", "torchrun $G a.py"),
        ("G=1; while read line; do G=2; done; torchrun $G a.py", "torchrun $G a.py"),
        ("while [ $# -gt 0 ]; do case $1 in --g) G=$2; shift;; esac; shift; done; torchrun $G a.py", "torchrun $G a.py"),
        ("G=1; cat x | while read y; do G=2; done; torchrun $G a.py", "torchrun 1 a.py"),
        ("read G; torchrun $G a.py", "torchrun $G a.py"),
        ("G=1; read G; torchrun $G a.py", "torchrun $G a.py"),
        ("G=1; ((G++)); torchrun $G a.py", "torchrun $G a.py"),
        ("G=1; let G=G+1; torchrun $G a.py", "torchrun $G a.py"),
        ("G=1; [ -f x ] && G=2; torchrun $G a.py", "torchrun $G a.py"),
        ("G=1; cd x && G=2; torchrun $G a.py", "torchrun 2 a.py"),
        ("P=1; for i in 0 1; do torchrun --master_port $P a.py & P=$((P+1)); done", "torchrun --master_port $P a.py"),
        ("R=0; for h in a b; do ssh $h torchrun --node_rank=$R a.py & ((R=R+1)); done", "ssh $h torchrun --node_rank=$R a.py"),
        ("X='--a 1'; if [ -n \"$D\" ]; then X=\"$X --b\"; fi; torchrun $X a.py", "torchrun --a 1 $X a.py"),
        ("X=4; if [ -n \"$D\" ]; then X=\"${X}2\"; fi; torchrun --n $X a.py", "torchrun --n 4$X a.py"),
        ("A=(--a 1); if [ -n \"$D\" ]; then A+=(--b); fi; torchrun \"${A[@]}\" a.py", "torchrun --a 1 ${A[@]} a.py"),
        ("torchrun --n=<number> {{ x }} ${{ y.z }} a.py", "torchrun --n=${number} {{ x }} ${{ y.z }} a.py"),
        ("T='torchrun --node_rank=R a.py'; for i in 0 1; do C=${T/R/$i}; $C; done", "torchrun --node_rank=$i a.py"),
        ("declare -A M=([a]=1); a=0; torchrun ${M[a]} a.py", "torchrun ${M[a]} a.py"),
        ("torchrun '${____}' a.py", "torchrun ${____} a.py"),
        ("X='a${____}'; torchrun $X a.py", "torchrun $X a.py"),
    ],
)  # fmt: skip
def test_what_can_not_be_known_stays_as_written(text: str, shown: str) -> None:
    assert lines(text) == [shown]


def test_a_variable_of_a_template_has_no_value() -> None:
    found = read("A='${____}'\nB=x${____}\nC='{{ x }}'\n")
    assert [setting.value for setting in found.settings] == [None, None, None]


def test_values_know_where_they_come_from() -> None:
    text = 'GPUS=8\nL="torchrun --nnodes 2 --nproc_per_node $GPUS"\n$L --nproc_per_node=$GPUS $GPUS a.py\n'
    site = only(text)
    shown = {index: [cut(text, origin) for origin in word.origins] for index, word in enumerate(site.words)}
    assert shown == {
        0: ["torchrun"],
        1: ["--nnodes"],
        2: ["2"],
        3: ["--nproc_per_node"],
        4: ["8"],
        5: ["8"],
        6: ["8"],
        7: [],
    }
    assert site.words[4].origins[0].line == 1
    # words that come out of one variable stand where they are written, others where they are used
    assert [cut(text, word.span) for word in site.words] == [
        "torchrun", "--nnodes", "2", "--nproc_per_node", "$GPUS", "--nproc_per_node=$GPUS", "$GPUS", "a.py",
    ]  # fmt: skip
    assert [word.span.line for word in site.words] == [2, 2, 2, 2, 2, 3, 3, 3]
    assert all(word.written == cut(text, word.span) for word in site.words)


def test_words_of_an_array_stand_in_the_array() -> None:
    text = 'N=2\nARGS=(\n  --nnodes="$N"\n  --max_restarts=3\n)\ntorchrun "${ARGS[@]}" a.py\n'
    site = only(text)
    assert [(word.text, word.span.line) for word in site.words] == [
        ("torchrun", 6), ("--nnodes=2", 6), ("--max_restarts=3", 4), ("a.py", 6),
    ]  # fmt: skip
    assert cut(text, site.words[2].span) == "--max_restarts=3"


def test_words_through_two_variables() -> None:
    text = 'L="torchrun --nnodes=2"\nC="$L a.py"\neval "$C"\nsrun bash -c "$C"\n'
    first, second = read(text).sites
    assert [word.text for word in second.words] == ["srun", "torchrun", "--nnodes=2", "a.py"]
    for site in (first, second):
        options = site.words[-2]
        assert (cut(text, options.span), options.span.line) == ("--nnodes=2", 1)
    assert first.span.line == 3


# Variables


def variables(site: LaunchSite) -> dict[str, str | None]:
    return {name: setting.value for name, setting in site.settings.items()}


@pytest.mark.parametrize(
    ("text", "reaching", "kept"),
    [
        ("export A=1; torchrun a.py", {"A": "1"}, {}),
        ("A=1; torchrun a.py", {}, {"A": "1"}),
        ("A=1; export A; torchrun a.py", {"A": "1"}, {}),
        ("A=1; torchrun a.py; export A", {}, {"A": "1"}),
        ("A=1 torchrun a.py", {"A": "1"}, {}),
        ("A=1 B=2", {}, {}),
        ("env A=1 torchrun a.py", {"A": "1"}, {}),
        ("declare -x A=1; typeset -x B=2; torchrun a.py", {"A": "1", "B": "2"}, {}),
        ("readonly A=1; torchrun a.py", {}, {"A": "1"}),
        ("set -a; A=1; set +a; B=2; torchrun a.py", {"A": "1"}, {"B": "2"}),
        ("set -o allexport; A=1; torchrun a.py", {"A": "1"}, {}),
        ("export A=1; unset A; torchrun a.py", {}, {}),
        ("export A=1; export -n A; torchrun a.py", {}, {"A": "1"}),
        ("export A=1; A=2; torchrun a.py", {"A": "2"}, {}),
        ("export A; A=2; torchrun a.py", {"A": "2"}, {}),
        ('export "A=1"; torchrun a.py', {"A": "1"}, {}),
        ("export A=$(hostname); torchrun a.py", {"A": None}, {}),
        ("(export A=1); torchrun a.py", {}, {}),
        ("(export A=1; torchrun a.py)", {"A": "1"}, {}),
        ("f() { export A=1; local B=2; }; f; torchrun a.py", {"A": "1"}, {}),
        ("export A=1\nssh h torchrun a.py", {"A": "1"}, {}),
        ("export A=1; B=2\nsrun bash -c 'torchrun a.py'", {"A": "1"}, {"B": "2"}),
        ("B=2; srun bash -c 'export C=3; D=4; torchrun a.py'", {"C": "3"}, {"B": "2", "D": "4"}),
        ("A=1; ssh h 'A=2 torchrun a.py'", {"A": "2"}, {}),
        ("A=1 srun bash -c 'torchrun a.py'", {"A": "1"}, {}),
        ("mpirun -x A=1 -x B python a.py", {"A": "1"}, {}),
        ("srun --export=ALL,A=1,B=2 python a.py", {"A": "1", "B": "2"}, {}),
        ("docker run -e A=1 --env=B=2 image torchrun a.py", {"A": "1", "B": "2"}, {}),
        ("export A=1; if [ -n \"$X\" ]; then export A=2; fi; torchrun a.py", {"A": None}, {}),
        ("if [ -n \"$X\" ]; then export A=2; fi; torchrun a.py", {"A": "2"}, {}),
        ("A=1 echo; torchrun a.py", {}, {}),
        ("f() { torchrun a.py; }; A=1 f", {"A": "1"}, {}),
    ],
)  # fmt: skip
def test_variables_that_processes_get(text: str, reaching: dict[str, str | None], kept: dict[str, str]) -> None:
    found = read(text)
    if not found.sites:
        assert {setting.reach for setting in found.settings} == {"shell"}
        return
    site = found.sites[0]
    assert variables(site) == reaching
    assert {name: setting.value for name, setting in site.unexported.items()} == kept


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("export A=1", True),
        ("cd x && export A=1", True),
        ("[ -d x ] && export A=1", False),
        ("cd x || export A=1", False),
        ("if grep -q x y; then export A=1; fi", False),
        ("for i in 1 2; do export A=1; done", False),
        ("f() { export A=1; }; f", True),
        ("f() { export A=1; }", False),
        ("case $1 in x) export A=1;; esac", False),
        ("if [ 1 -eq 1 ]; then export A=1; fi", True),
    ],
)
def test_a_setting_is_certain_where_every_way_sets_it(text: str, certain: bool) -> None:
    (setting,) = read(text).settings
    assert setting.certain is certain


def test_the_places_of_a_setting() -> None:
    text = "  export NCCL_DEBUG='INFO' B=$X\nsrun --export=ALL,C=1,D=2 python a.py\n"
    first, second, third, fourth = read(text).settings
    assert cut(text, first.span) == "export NCCL_DEBUG='INFO'"
    assert cut(text, first.name_span) == "NCCL_DEBUG"
    assert first.value_span is not None and cut(text, first.value_span) == first.written == "'INFO'"
    assert (cut(text, second.span), second.value, second.written) == ("B=$X", None, "$X")
    assert (cut(text, third.span), third.reach) == ("C=1", "line")
    assert fourth.value_span is not None and cut(text, fourth.value_span) == "2"


def test_variables_that_the_text_finds() -> None:
    span = Span("job.yaml", 3, 5, 3, 9)
    environ = {
        "N": FileSetting("N", "2", span, span, span, "container"),
        "U": FileSetting("U", None, span, span, span, "container"),
        "M": FileSetting("M", "5", span, span, span, "shell"),
        "PET_NPROC_PER_NODE": FileSetting("PET_NPROC_PER_NODE", "8", span, span, span, "container"),
        "PET_NNODES": FileSetting("PET_NNODES", None, span, span, span, "container"),
    }
    found = read("torchrun --max_restarts $N $M $U a.py", environ=environ)
    (site,) = found.sites
    assert [word.text for word in site.words] == ["torchrun", "--max_restarts", "2", "5", "$U", "a.py"]
    assert site.words[2].origins == (span,)
    assert site.command.nproc == "8"
    assert "nnodes_min" in site.command.unknown
    assert set(site.settings) == {"N", "U", "PET_NPROC_PER_NODE", "PET_NNODES"}
    assert set(site.unexported) == {"M"}
    assert not found.settings


# Shells within


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("srun -N2 bash -c 'torchrun a.py'", "srun -N2 torchrun a.py"),
        ("srun bash -lc 'cd x; torchrun a.py'", "srun torchrun a.py"),
        ("srun bash <<EOF\ntorchrun a.py\nEOF", "srun torchrun a.py"),
        ("srun sh -s <<'EOF'\ntorchrun a.py\nEOF", "srun torchrun a.py"),
        ("ssh h 'torchrun a.py'", "ssh h torchrun a.py"),
        ("ssh h torchrun a.py", "ssh h torchrun a.py"),
        ("ssh h 'bash -s' <<EOF\ntorchrun a.py\nEOF", "ssh h torchrun a.py"),
        ("ssh h <<EOF\ncd x\ntorchrun a.py\nEOF", "ssh h torchrun a.py"),
        ("docker run --gpus all img bash -c 'torchrun a.py'", "docker run --gpus all img torchrun a.py"),
        ("kubectl exec p -- sh -c 'torchrun a.py'", "kubectl exec p -- torchrun a.py"),
        ("gantry run --gpus 8 -- bash -c 'torchrun a.py'", "gantry run --gpus 8 -- torchrun a.py"),
        # Ray starts the ranks of a plain script
        ("ray job submit -- python b.py\nray job submit -- torchrun a.py", "ray job submit -- torchrun a.py"),
        ("timeout 5 bash -c 'nohup torchrun a.py'", "timeout 5 nohup torchrun a.py"),
        ("bash -c \"srun bash -c 'torchrun a.py'\"", "srun torchrun a.py"),
        ("C='torchrun a.py'; srun bash -c \"$C\"", "srun torchrun a.py"),
        ("C='torchrun a.py'; ssh h \"cd x && $C\"", "ssh h torchrun a.py"),
        ("X=1 srun bash -c 'torchrun a.py'", "X=1 srun torchrun a.py"),
        ("tmux send-keys -t x 'torchrun a.py' C-m", "torchrun a.py"),
        ("tmux new-session -d -s x 'torchrun a.py'", "tmux new-session -d -s x torchrun a.py"),
        ("sbatch --wrap='torchrun a.py'", "torchrun a.py"),
        ("sbatch <<EOF\n#!/bin/bash\ntorchrun a.py\nEOF", "torchrun a.py"),
        ("cat <<EOF | sbatch\ntorchrun a.py\nEOF", "torchrun a.py"),
        ("cd x && bash <<EOF\ntorchrun a.py\nEOF", "torchrun a.py"),
        ("srun bash -c \"$UNKNOWN\"", "srun bash -c $UNKNOWN"),
        ("srun bash -c 'hostname; nvidia-smi'", "srun bash -c hostname; nvidia-smi"),
    ],
)  # fmt: skip
def test_a_shell_within_is_read_as_one_line(text: str, argv: str) -> None:
    assert lines(text) == [argv]


def test_the_parser_sees_through_what_a_far_shell_reads_twice() -> None:
    site = only("ssh h \"torchrun --rdzv_conf='a=b' --nnodes=2 train.py 'a b;c' x\"")
    assert site.command.script_args == ("a b;c", "x")
    assert [word.text for word in site.words][-2:] == ["a b;c", "x"]
    assert site.command.nnodes_min == 2


def test_places_in_a_shell_within() -> None:
    text = 'N=2\nsrun bash -c "\n  torchrun \\\n    --nnodes=$N \\"--x\\" --node_rank=\\$SLURM_NODEID a.py"\n'
    site = only(text)
    assert [cut(text, word.span) for word in site.words] == [
        "srun", "torchrun", "--nnodes=$N", '"--x\\"', "--node_rank=\\$SLURM_NODEID", "a.py",
    ]  # fmt: skip
    assert site.span.line == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("srun torchrun --node_rank=$SLURM_NODEID a.py", False),
        ('srun bash -c "torchrun --node_rank=$SLURM_NODEID a.py"', False),
        ('srun bash -c "torchrun --node_rank=\\$SLURM_NODEID a.py"', True),
        ("srun bash -c 'torchrun --node_rank=$SLURM_NODEID a.py'", True),
        ("srun bash <<EOF\ntorchrun --node_rank=$SLURM_NODEID a.py\nEOF", False),
        ("srun bash <<'EOF'\ntorchrun --node_rank=$SLURM_NODEID a.py\nEOF", True),
        ("L='torchrun --node_rank=$SLURM_NODEID a.py'; srun bash -c \"$L\"", True),
        ('L="torchrun --node_rank=\\$SLURM_NODEID a.py"; srun bash -c "$L"', True),
        ('L="torchrun --node_rank=$SLURM_NODEID a.py"; srun bash -c "$L"', False),
        ("bash -c 'torchrun --node_rank=$SLURM_NODEID a.py'", False),
        ("srun torchrun --node_rank=0 a.py", None),
    ],
)
def test_who_expands_a_variable(text: str, expected: bool | None) -> None:
    word = next(word for word in only(text).words if word.text.startswith("--node_rank"))
    assert word.by_each_task is expected


# What stands around a line


def test_tests_around_a_line() -> None:
    text = """
if [ "$(hostname)" = node1 ]; then
    torchrun --node_rank 0 a.py
elif [[ $X == 2 ]]; then
    torchrun --node_rank 1 a.py
else
    torchrun --node_rank 2 a.py
fi
case $HOST in n1|n2) torchrun b.py;; esac
[ "$RANK" = 0 ] && torchrun c.py
torchrun d.py || torchrun e.py
if [ $# -lt 1 ]; then exit 1; fi
torchrun f.py
if [ "$SLURM_PROCID" -ne 0 ]; then exit 0; fi
torchrun g.py
"""
    assert [site.conditions for site in read(text).sites] == [
        ('[ "$(hostname)" = node1 ]',),
        ('! [ "$(hostname)" = node1 ]', "[[ $X == 2 ]]"),
        ('! [ "$(hostname)" = node1 ]', "! [[ $X == 2 ]]"),
        ("case $HOST in n1|n2",),
        ('[ "$RANK" = 0 ]',),
        (),
        ("! torchrun d.py",),
        (),
        ('! [ "$SLURM_PROCID" -ne 0 ]',),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for i in 0 1 2 3; do torchrun --node_rank $i a.py & done", [("ranks", 4, "i")]),
        ("for i in $(seq 0 3); do torchrun --node_rank $i a.py & done", [("ranks", 4, "i")]),
        ("for rank in {0..7}; do python a.py & done", [("ranks", 8, "rank")]),
        ("for ((i=0; i<4; i++)); do python a.py & done", [("ranks", 4, "i")]),
        ("H=(a b c); for ((i=0; i<${#H[@]}; i++)); do ssh ${H[$i]} torchrun a.py; done", [("hosts", 3, "i")]),
        ("for host in n1 n2; do ssh $host torchrun a.py; done", [("hosts", 2, "host")]),
        ("for n in $(scontrol show hostnames $L); do srun -w $n torchrun a.py; done", [("hosts", None, "n")]),
        ("while read h; do ssh $h torchrun a.py; done < hosts", [("hosts", None, "h")]),
        ("while true; do torchrun a.py; done", [("loop", None, None)]),
        ("for seed in 1 2 3; do torchrun a.py; done", [("loop", 3, "seed")]),
        ("for f in *.yaml; do torchrun a.py; done", [("loop", None, "f")]),
        ("for x in one; do torchrun a.py; done", []),
        ("for m in a b; do for i in 0 1; do torchrun a.py & done; done", [("loop", 2, "m"), ("ranks", 2, "i")]),
        ("pdsh -w n1,n2,n3 torchrun a.py", [("hosts", 3, None)]),
        ("pdsh -w n[1-3] 'torchrun a.py'", [("hosts", 3, None)]),
        ("pdsh -w ^hosts 'torchrun a.py'", [("hosts", None, None)]),
    ],
)
def test_lines_that_are_carried_out_several_times(
    text: str, expected: list[tuple[str, int | None, str | None]]
) -> None:
    assert [(repeat.what, repeat.times, repeat.variable) for repeat in only(text).repeats] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torchrun a.py &", True),
        ("nohup torchrun a.py > log 2>&1 &", True),
        ("(cd x; torchrun a.py) &", True),
        ("for i in 0 1; do torchrun a.py; done &", True),
        ("sleep 1 & torchrun a.py", False),
        ("nohup torchrun a.py", False),
        ("ssh h 'torchrun a.py' &", True),
        ("ssh h 'torchrun a.py &'", True),
    ],
)
def test_lines_in_the_background(text: str, expected: bool) -> None:
    assert only(text).background is expected


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("torchrun a.py", ""),
        ("cd sub; torchrun a.py", "sub"),
        ("cd sub/../x && cd y; torchrun a.py", "x/y"),
        ("cd /data; torchrun a.py", "/data"),
        ("cd $HERE; torchrun a.py", None),
        ("cd $HERE; cd /data; torchrun a.py", "/data"),
        ("(cd sub); torchrun a.py", ""),
        ("cd -; torchrun a.py", None),
        ("if [ -d x ]; then cd x; fi; torchrun a.py", None),
        ('cd "$(dirname "$0")"; torchrun a.py', "scripts"),
        ('cd "$(cd "$(dirname "${BASH_SOURCE[0]}")" &> /dev/null && pwd)/.."; torchrun a.py', ""),
        ('D="$( cd -- "$( dirname -- "$0" )" && pwd )"; cd "$D"; torchrun a.py', "scripts"),
        ("cd $SLURM_SUBMIT_DIR; torchrun a.py", ""),
        ("ssh h torchrun a.py", None),
        ("ssh h 'cd /w; torchrun a.py'", "/w"),
        ("srun --chdir=sub torchrun a.py", "sub"),
        ("docker run img torchrun a.py", None),
    ],
)
def test_the_folder_of_a_line(text: str, folder: str | None) -> None:
    assert only(text, path="scripts/job.sh").folder == folder


def test_the_name_of_a_job_script_says_nothing_in_a_job() -> None:
    """Slurm runs a copy of it from a folder of its own."""
    assert only('#!/bin/bash\n#SBATCH -N 2\ncd "$(dirname "$0")"; torchrun a.py', path="scripts/job.sh").folder is None


def test_functions_are_carried_out_where_they_are_called() -> None:
    text = "run() {\n  local rank=$1\n  shift\n  torchrun --node_rank $rank $@ a.py\n}\nrun 0 --x &\nrun 1\n"
    first, second = read(text).sites
    assert [word.text for word in first.words] == ["torchrun", "--node_rank", "0", "--x", "a.py"]
    assert [word.text for word in second.words] == ["torchrun", "--node_rank", "1", "a.py"]
    assert (first.routine, first.background, second.background) == ("run", True, False)


def test_the_same_line_twice_is_one() -> None:
    assert len(read("f() { torchrun a.py; }; f; f; f").sites) == 1


# Other files


def test_sourced_files_are_read() -> None:
    files = {"scripts/env.sh": "export NCCL_DEBUG=INFO\nGPUS=4\n", "common.sh": "run() { torchrun $1 a.py; }\n"}
    text = '. "$(dirname "$0")/env.sh"\nsource ./common.sh\nrun --nproc_per_node=$GPUS\n'
    found = read(text, files, path="scripts/job.sh")
    (site,) = found.sites
    assert [word.text for word in site.words] == ["torchrun", "--nproc_per_node=4", "a.py"]
    assert site.span.path == "common.sh"
    assert site.settings["NCCL_DEBUG"].span == Span("scripts/env.sh", 1, 1, 1, 23)


def test_files_that_source_each_other_end() -> None:
    files = {"a.sh": ". ./b.sh\ntorchrun a.py", "b.sh": ". ./a.sh\n. ./b.sh\n. ./job.sh\n"}
    assert lines(". ./a.sh", files) == ["torchrun a.py"]


def test_a_sourced_file_may_end_the_script() -> None:
    assert lines(". ./a.sh; torchrun a.py", {"a.sh": "[ -n x ] && return\n"}) == ["torchrun a.py"]
    assert lines(". ./a.sh; torchrun a.py", {"a.sh": "exit 1\n"}) == []


# What is broken, or much


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("torchrun a.py\nif [ 1 ]; then\n  torchrun b.py\n", ("an if has no fi", 2, 1)),
        ("torchrun a.py\nfor i in 1 2; do\n  torchrun b.py\n", ("a loop has no done", 2, 15)),
    ],
)
def test_what_is_never_closed_is_said_and_the_rest_is_read(text: str, problem: tuple[str, int, int]) -> None:
    found = read(text)
    assert len(found.sites) == 2
    assert found.problems == (problem,)


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_quote_that_is_never_closed_is_said(quote: str) -> None:
    found = read(f"torchrun a.py\necho {quote}oh\ntorchrun b.py\n")
    assert len(found.sites) == 1
    ((why, line, _),) = found.problems
    assert "quote" in why and line == 2


def test_a_launch_line_that_a_quote_has_swallowed_is_said() -> None:
    text = 'echo "start\ntorchrun a.py\necho "end of $(date) (all" | (cat\n'
    found = read(text)
    assert not found.sites
    assert found.problems


@pytest.mark.parametrize(
    "text",
    [
        "torchrun a.py \\\n    --steps 2 \\\n",
        "torchrun a.py \\",
        'torchrun --rdzv_conf=is_host=$(((SLURM_NODEID)) && echo 0 || echo 1) --rdzv_endpoint="x" a.py',
        "torchrun a.py > log 2>&1 --lr 1",
        "torchrun a.py --x {{ value }} --y <name>",
        "torchrun a.py {a,b} [x] !x ~",
    ],
)
def test_what_the_grammar_finds_hard_is_no_problem(text: str) -> None:
    found = read(text)
    assert not found.problems
    assert found.sites[0].command.script == "a.py"


def test_an_option_is_not_lost_to_a_hard_word() -> None:
    site = only("torchrun --rdzv_conf=is_host=$(((N)) && echo 0 || echo 1) --nnodes=2 a.py")
    assert [word.text for word in site.words][1:3] == ["--rdzv_conf=is_host=$(((N)) && echo 0 || echo 1)", "--nnodes=2"]


def test_comments_are_kept_with_their_lines() -> None:
    text = "#!/bin/bash\ntorchrun a.py  # distcheck: ignore[DC804]\nsrun bash -c '\n# noqa\ntorchrun b.py'\necho '# none'\n"
    assert read(text).comments == ((1, "#!/bin/bash"), (2, "# distcheck: ignore[DC804]"), (4, "# noqa"))


@pytest.mark.parametrize(
    "text",
    [
        "A=a\n" + 'A="$A$A"\n' * 40 + "torchrun $A",
        "A=(a)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 40 + 'torchrun "${A[@]}"',
        "f0() { torchrun a.py; }\n" + "".join(f"f{i + 1}() {{ f{i}; f{i}; }}\n" for i in range(40)) + "f40\n",
        "f() { f; }; f",
        "(" * 5000 + "torchrun a.py" + ")" * 5000,
        "echo " + "$(echo " * 3000 + "torchrun" + ")" * 3000,
        "if true; then\n" * 3000 + "torchrun a.py\n" + "fi\n" * 3000,
        "true && " * 5000 + "torchrun a.py",
        "torchrun " + "${A:-" * 3000 + "}" * 3000,
        "torchrun " + "a " * 50_000,
        "for i in {1..100000000}; do torchrun a.py; done",
        "torchrun $((" + "1+" * 5000 + "1)) $((9999999999999**99999))",
        "[[ " + "a && " * 3000 + "a ]] && torchrun a.py",
    ],
    ids=range(13),
)
@pytest.mark.slow
def test_work_is_bounded(text: str) -> None:
    began = time.monotonic()
    read(text)
    assert time.monotonic() - began < 30


def test_a_large_script_is_read_whole() -> None:
    part = 'export NCCL_DEBUG=INFO\nfor i in 1 2; do\n  echo "step $i of $X" | tee -a log\ndone\n# a comment\n'
    text = part * 3000 + "torchrun --nnodes=2 a.py\n"
    began = time.monotonic()
    site = only(text)
    assert time.monotonic() - began < 30
    assert site.span.line == 3000 * part.count("\n") + 1


def test_too_many_lines_are_said() -> None:
    found = read("".join(f"torchrun {number}.py\n" for number in range(2500)))
    assert len(found.sites) == 2000
    assert [problem[1] for problem in found.problems] == [2001]
