"""Makefiles: recipes as make hands them to a shell, and the variables that it puts into them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .reading import check_places, commands, read, shown, values

MAKEFILE = """\
# how we train
GPUS := 8
PYTHON ?= python
NODES = 2
export NCCL_DEBUG = INFO
LAUNCH = torchrun --nnodes=$(NODES) \\
    --nproc_per_node=$(GPUS)
ifdef DEBUG
EXTRA = --debug
endif

.PHONY: train
train: data
	@echo start
	$(LAUNCH) $(EXTRA) \\
	  train.py $@
	-export NCCL_IB_DISABLE=1
	for i in 0 1; do ssh node$$i torchrun --node_rank=$$i --nproc_per_node=$(GPUS) a.py; done # noqa: DC804
	$(PYTHON) -m torch.distributed.launch b.py
local: GPUS = 4
local: export OMP_NUM_THREADS = 1
local: ; torchrun --nproc_per_node $(GPUS) c.py
"""  # noqa: E101 (make wants tabs)


def test_a_whole_file() -> None:
    file = read("Makefile", MAKEFILE)
    assert file.problems == ()
    assert commands(file) == [
        "torchrun --nnodes=2 --nproc_per_node=8 ${EXTRA} train.py $_",
        "ssh node$i torchrun --node_rank=$i --nproc_per_node=8 a.py",
        "${PYTHON} -m torch.distributed.launch b.py",
        "torchrun --nproc_per_node 4 c.py",
    ]
    check_places(MAKEFILE, file)
    train, loop, _, local = file.sites
    assert [site.routine for site in file.sites] == ["train", "train", "train", "local"]
    assert train.span[1:] == (15, 2, 16, 15)
    assert shown(MAKEFILE, train.words[1].span) in ("--nnodes=$(NODES)", "$(LAUNCH)")
    assert shown(MAKEFILE, train.words[2].origins[0]) == "--nproc_per_node="
    assert shown(MAKEFILE, train.words[2].origins[1]) == "8"
    assert loop.repeats
    assert values(train.settings) == {"NCCL_DEBUG": "INFO"}
    # each line of a recipe is a shell of its own
    assert "NCCL_IB_DISABLE" not in loop.settings
    assert loop.unexported["NCCL_IB_DISABLE"].value == "1"
    assert "NCCL_IB_DISABLE" not in local.unexported
    assert file.comments == ((1, "# how we train"), (18, "# noqa: DC804"))


def test_what_a_makefile_sets() -> None:
    file = read("Makefile", MAKEFILE)
    assert [(setting.name, setting.value, setting.reach, setting.certain) for setting in file.settings] == [
        ("GPUS", "8", "shell", True),
        ("PYTHON", "python", "shell", True),
        ("NODES", "2", "shell", True),
        ("NCCL_DEBUG", "INFO", "exported", True),
        ("LAUNCH", None, "shell", True),
        ("EXTRA", "--debug", "shell", False),
        ("GPUS", "4", "shell", True),
        ("OMP_NUM_THREADS", "1", "exported", True),
        ("NCCL_IB_DISABLE", "1", "exported", True),
    ]


@pytest.mark.parametrize(
    ("lines", "nproc"),
    [
        ("X = 8", "8"),
        ("X := 8", "8"),
        ("X ::= 8", "8"),
        ("X=8 # as many as there are", "8"),
        ("override X = 8", "8"),
        ("export X = 8", "8"),
        ("X = 4\nX = 8", "8"),
        ("Y = 8\nX = $(Y)", "8"),
        ("Y = 8\nX = ${Y}", "8"),
        ("X = $(Y)\nY = 8", "8"),
        ("X ?= 8", None),
        ("X = 8\nX ?= 4", None),
        ("X != nproc", None),
        ("X = $(shell nproc)", None),
        ("X = $(NOWHERE)", None),
        ("X = $(X)", None),
        ("X = 8\nifdef Y\nX = 4\nendif", None),
        ("ifeq ($(Y),1)\nX = 4\nelse\nX = 8\nendif", None),
        ("X = 8\ninclude other.mk", None),
        ("include other.mk\nX = 8", "8"),
        ("include there.mk", "2"),
        ("-include there.mk\nX = 8", "8"),
        ("X = 8\nother: X = 4", "8"),
        ("X = 8\ntrain: X = 4", "4"),
        ("X = 8\nother: train\nother: X = 4", None),
        ("X = 8\nother: between\nbetween: train\nother: X = 4", None),
        ("define X\n8\nendef", None),
        ("X = 8\n\nfoo = 1\n\n", "8"),
        ("   X = 8", "8"),
        ("# X = 4\nX = 8", "8"),
    ],
)
@pytest.mark.parametrize("reference", ["$(X)", "${X}"])
def test_the_value_of_a_variable(lines: str, nproc: str | None, reference: str) -> None:
    text = f"{lines}\ntrain:\n\ttorchrun --nproc_per_node={reference} train.py\n"
    file = read("Makefile", text, {"there.mk": "X = 2\n"})
    assert file.sites[0].command.nproc == nproc
    check_places(text, file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n\t@-+ torchrun a.py\n", ["torchrun a.py"]),
        ("a: ; torchrun a.py\n", ["torchrun a.py"]),
        ("a::\n\ttorchrun a.py\n\n\ttorchrun b.py\n", ["torchrun a.py", "torchrun b.py"]),
        ("a b: c | d\n\ttorchrun a.py\n", ["torchrun a.py"]),
        ("a:\n# remark\n\ttorchrun a.py\n", ["torchrun a.py"]),
        ("a:\n\ttorchrun \\\n\t  a.py \\\n  --x\n", ["torchrun a.py --x"]),
        (".RECIPEPREFIX = >\na:\n>torchrun a.py\n", ["torchrun a.py"]),
        ("SHELL = /usr/bin/python\na:\n\ttorchrun a.py\n", []),
        ("SHELL := /bin/bash -o pipefail\na:\n\ttorchrun a.py\n", ["torchrun a.py"]),
        ("define run\ntorchrun x.py\nendef\na:\n\t$(call run)\n\ttorchrun a.py\n", ["torchrun a.py"]),
        ("\ttorchrun a.py\n", []),
        ("# a:\n#\ttorchrun a.py\n", []),
        ("a:\nifdef X\n\ttorchrun a.py\nelse\n\ttorchrun b.py\nendif\n", ["torchrun a.py", "torchrun b.py"]),
        ("A = b\na:\n\ttorchrun $$A $(A) a.py\n", ["torchrun $A ${_} a.py"]),
        ("A = a.py\na:\n\ttorchrun '$(A)'\n", ["torchrun ${A}"]),
        ("A-B = a.py\na:\n\ttorchrun $(A-B)\n", ["torchrun a.py"]),
        ("A = cd x &&\na:\n\t$(A) torchrun a.py\n", []),
        ("N ?= 8\nRUN = torchrun --nproc_per_node=$(N)\na:\n\t$(RUN) a.py\n", ["torchrun --nproc_per_node=${N} a.py"]),
        ("a:\n\ttorchrun $(if $(X),(a),b) a.py\n", ["torchrun ${_____________} a.py"]),
        ("a:\n\ttorchrun a.py $", ["torchrun a.py $"]),
    ],
)
def test_which_commands_are_found(text: str, expected: list[str]) -> None:
    file = read("Makefile", text)
    assert commands(file) == expected
    check_places(text, file)


def test_one_shell_for_a_recipe() -> None:
    text = ".ONESHELL:\nrun:\n\texport NCCL_DEBUG=INFO\n\ttorchrun \\\n\t  a.py\n"
    file = read("Makefile", text)
    (site,) = file.sites
    assert values(site.settings) == {"NCCL_DEBUG": "INFO"}
    assert site.span[1:] == (4, 2, 5, 8)


@pytest.mark.parametrize(
    ("lines", "exported"),
    [
        ("export X", True),
        ("export", True),
        ("X = 1\nunexport X", False),
        ("export X\nunexport X", False),
        ("export X Y", True),
        ("", False),
    ],
)
def test_what_is_exported(lines: str, exported: bool) -> None:
    (site,) = read("Makefile", f"{lines}\nX = 1\nrun:\n\ttorchrun $(X) a.py\n").sites
    assert ("X" in site.settings) == exported
    assert ("X" in site.unexported) != exported


def test_conditions_are_kept() -> None:
    (site,) = read("Makefile", "ifeq ($(X),1)\nelse\nrun:\n\ttorchrun a.py\nendif\n").sites
    assert site.conditions == ("else of ifeq ($(X),1)",)


def test_lines_that_end_in_cr_and_lf() -> None:
    assert commands(read("Makefile", MAKEFILE.replace("\n", "\r\n"))) == commands(read("Makefile", MAKEFILE))


def test_files_that_include_each_other_end() -> None:
    text = "include a.mk\nX = 1\nrun:\n\ttorchrun --nproc_per_node=$(X) a.py\n"
    file = read("Makefile", text, {"a.mk": "include b.mk\n", "b.mk": "include a.mk\nX = 2\n"})
    assert file.sites[0].command.nproc == "1"


def test_values_that_grow_end() -> None:
    lines = ["X0 = aaaaaaaaaa"] + [f"X{n} = $(X{n - 1}) $(X{n - 1})" for n in range(1, 60)]
    text = "\n".join(lines) + "\nrun:\n\ttorchrun $(X59) a.py\n"
    assert read("Makefile", text).problems == ()


@given(st.text(st.sampled_from(list("a:=X$()\n\t\\#{};+?@ define export")), max_size=80))
def test_nothing_makes_it_raise(text: str) -> None:
    read("Makefile", f"X = 1\n{text}\nrun:\n\ttorchrun a.py\n")
