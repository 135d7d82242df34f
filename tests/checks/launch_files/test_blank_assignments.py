"""The fix of an assignment with blanks: what bash then runs, and that a second check finds nothing."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from distcheck.checks.launch_files.blank_assignments import assignments_are_one_word
from distcheck.core.fixes import apply_fixes

from .judging import findings

LAUNCH = 'torchrun --standalone --nproc-per-node=8 train.py --name "$NAME"\n'


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("assignment", ["NAME = small", "NAME =small", "NAME= 7", 'NAME = "a b"', "NAME= hub/model-7b"])
def test_the_launch_gets_the_value_with_the_fix(assignment: str) -> None:
    text = f"{assignment}\n{LAUNCH}"
    (finding,) = findings(assignments_are_one_word, text)
    edited = apply_fixes([finding.fix], {"run.sh": text.encode()}, others={"run.sh": lambda path, data: None})
    after = edited.files["run.sh"].decode()
    assert findings(assignments_are_one_word, after) == []
    value = assignment.partition("=")[2].strip().strip('"')
    for script, expected in ((text, ""), (after, value)):
        run = f'torchrun() {{ echo "<${{@: -1}}>"; }}\n{script}'
        done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=False)
        assert done.stdout == f"<{expected}>\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("assignment", ["$NAME=large", '${NAME}="large"', "$NAME=$(echo large)", "$NAME=`echo large`"])
def test_a_name_without_its_dollar_sign_is_set(assignment: str) -> None:
    text = f"NAME=small\nif [ $NAME == small ]; then {assignment}; fi\n{LAUNCH}"
    (finding,) = findings(assignments_are_one_word, text)
    edited = apply_fixes([finding.fix], {"run.sh": text.encode()}, others={"run.sh": lambda path, data: None})
    after = edited.files["run.sh"].decode()
    assert findings(assignments_are_one_word, after) == []
    for script, expected in ((text, "small"), (after, "large")):
        run = f'torchrun() {{ echo "<${{@: -1}}>"; }}\n{script}'
        done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=False)
        assert done.stdout == f"<{expected}>\n"


@pytest.mark.parametrize(
    "before",
    [
        "NAME=small",
        "NAME = small\nNAME=large",
        "NAME= python prepare.py",
        "NAME= ./prepare.sh",
        "read -r NAME",
        "for NAME in a b; do :; done",
        "test = other",
        "cat <<'EOF'\nNAME = small\nEOF",
        "[ x = y ] && NAME=z",
        "export $NAME=small",
        "eval $NAME=small",
        "echo $NAME=small",
        "$OTHER=small",
        "printf -v NAME %s $NAME=small",
    ],
)
def test_good_other_lines(before: str) -> None:
    assert findings(assignments_are_one_word, f"{before}\n{LAUNCH}") == []


def test_several_words_have_no_edit() -> None:
    (finding,) = findings(assignments_are_one_word, f"NAME = a b\n{LAUNCH}")
    assert not finding.fix.edits
