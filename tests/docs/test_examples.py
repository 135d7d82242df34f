"""The examples of the documents are what happens, and the tool that makes them notices where they are not."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .documents import ROOT
from .reading import documents, name_of


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_example", ROOT / "tools" / "make_example.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load_tool()
DOCUMENTS = [path for path in documents() if "<!-- example:" in path.read_text(encoding="utf-8")]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="examples are sessions of a POSIX shell")


def of_torch(path: Path) -> bool:
    """Whether one of its examples needs torch."""
    return any(example.has("torch") for example in tool.examples(path.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_examples_are_what_happens(path: Path) -> None:
    _, stale, _ = tool.remade(path.read_text(encoding="utf-8"), with_torch=False)
    assert not stale, "run tools/make_example.py"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if of_torch(path)], ids=name_of)
@pytest.mark.sampled(every=20)
def test_examples_with_torch_are_what_happens(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    only = "\n\n".join(
        match[0] for match in re.finditer(r"<!-- example:[^\n]* torch\b.*?<!-- end of example -->", text, re.S)
    )
    _, stale, left_out = tool.remade(only, with_torch=True)
    assert not stale, "run tools/make_example.py with a Python that has torch"
    assert left_out == 0


def test_documents_have_examples() -> None:
    names = {name_of(path) for path in DOCUMENTS}
    assert {"README.md", "README.zh.md"} <= names
    for folder in ("stories", "recipes"):
        pages = {f"docs/{folder}/{path.name}" for path in (ROOT / "docs" / folder).glob("*.md")}
        assert len(pages) > 4
        assert pages <= names


def test_both_readmes_show_the_same() -> None:
    english, chinese = (
        tool.examples((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "README.zh.md")
    )
    assert [(example.words, example.body) for example in english] == [
        (example.words, example.body) for example in chinese
    ]


@pytest.mark.torch
@pytest.mark.parametrize("story", ["missing-rank", "node-local-rank", "process-group"])
@pytest.mark.sampled(every=3)
def test_the_log_of_a_story_ends_as_its_script_does(story: str) -> None:
    folder = ROOT / "docs" / "stories" / "files" / story
    (script,) = folder.glob("*.py")
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    ran = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        env={**environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert ran.returncode == 1
    last = (folder / "run.log").read_text(encoding="utf-8").splitlines()[-1]
    assert [line for line in ran.stderr.splitlines() if line.startswith(last[:8])][-1] == last


def document(words: str, body: str) -> str:
    return f"Before.\n\n<!-- example: {words} -->\n```console\n{body}```\n<!-- end of example -->\n\nBehind.\n"


def made(words: str, body: str) -> str:
    text, _, _ = tool.remade(document(words, body), with_torch=False)
    return str(text)


def test_outputs_are_put_below_their_commands() -> None:
    assert made("", "$ echo one\nsomething else\n$ printf two\n") == document(
        "", "$ echo one\none\n\n$ printf two\ntwo\n"
    )
    assert made("", "$ true\n") == document("", "$ true\n")
    assert made("", "$ echo a \\\n> b\nold\n") == document("", "$ echo a \\\n> b\na b\n")


def test_an_example_that_is_current_stays_as_it_is() -> None:
    text = document("", "$ echo 'it took 0.25 s'\nit took 750 ms\n")
    assert tool.remade(text, with_torch=False) == (text, [], 0)
    assert tool.remade(text, with_torch=False, every=True)[1] == ["echo 'it took 0.25 s'"]
    text = document("vary", "$ echo '7 of 9 ms'\n123 of 4 ms\n")
    assert tool.remade(text, with_torch=False) == (text, [], 0)


def test_an_example_that_is_not_current_is_named() -> None:
    _, stale, _ = tool.remade(document("", "$ echo 7 ranks\n8 ranks\n"), with_torch=False)
    assert stale == ["echo 7 ranks"]


def test_what_needs_torch_is_left_out_and_counted() -> None:
    text = document("torch", "$ exit 9\n")
    assert tool.remade(text, with_torch=False) == (text, [], 1)


@pytest.mark.parametrize(
    ("words", "body", "why"),
    [
        ("", "$ false\n", "ended with 1 and not with 0"),
        ("status=1", "$ true\n", "ended with 0 and not with 1"),
        ("status=0,1", "$ true\n", "1 commands, and 2 statuses"),
        ("", "no command\n", "0 commands"),
        ("", "$ echo '```'\n", "for a command or a fence"),
        ("", "$ echo '$ rm'\n", "for a command or a fence"),
        ("hosts=a", "$ true\n", "unknown word 'hosts'"),
    ],
)
def test_what_can_not_be_made_is_a_fault(words: str, body: str, why: str) -> None:
    with pytest.raises(tool.ExampleError, match=why):
        made(words, body)


def test_an_example_without_an_end_is_a_fault() -> None:
    with pytest.raises(tool.ExampleError, match="end of example"):
        tool.examples("<!-- example: -->\n```console\n$ true\n```\n")


def test_files_are_shown_whole_or_in_part() -> None:
    path = "docs/stories/files/missing-rank/sample.sh"
    whole = (ROOT / path).read_text(encoding="utf-8")
    assert made(f"file={path}", "") == document(f"file={path}", whole)
    assert made(f"file={path} lines=2-3", "") == document(
        f"file={path} lines=2-3", "".join(whole.splitlines(True)[1:3])
    )


def test_an_example_stands_in_a_copy_of_its_folder_and_shows_no_path_of_this_machine() -> None:
    folder = "docs/stories/files/missing-rank"
    assert made(f"in={folder}", "$ pwd && rm sample.py && ls\n") == document(
        f"in={folder}", "$ pwd && rm sample.py && ls\n/home/you/missing-rank\nrun.log\nsample.sh\n"
    )
    assert (ROOT / folder / "sample.py").exists()


def test_a_recorded_machine_stands_for_this_one() -> None:
    shown = made("host=wsl2", "$ distcheck env | head -n 1\n")
    assert "$ distcheck env | head -n 1\ndistcheck env · stage shell · DESKTOP-7K2Q9AB" in shown
    changed = made(
        "host='docker-default/good: two processes'", "$ distcheck env -q -- torchrun --nproc-per-node=2 a.py\n"
    )
    assert "0 errors" in changed


def test_the_tool_changes_nothing_when_asked_to_check(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(document("", "$ echo 1\n2\n"), encoding="utf-8")
    assert tool.main(["--check", str(path)]) == 1
    assert path.read_text(encoding="utf-8") == document("", "$ echo 1\n2\n")
    assert tool.main([str(path)]) == 0
    assert path.read_text(encoding="utf-8") == document("", "$ echo 1\n1\n")
    assert tool.main(["--check", str(path)]) == 0


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("docker-default/bad: none", "no case begins with"),
        ("docker-default/the compatibility library", "it changes facts, files"),
    ],
)
def test_a_machine_that_can_not_be_stood_on_is_a_fault(host: str, why: str) -> None:
    with pytest.raises(tool.ExampleError, match=why):
        made(f"host='{host}'", "$ distcheck env -q\n")


def test_both_readmes_say_the_same() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))
    for what in (
        r"\]\((?!README)([^)]+)\)",
        r"(?m)^\| ([0-3]) \|",
        r"(?m)^(##) ",
        r"(?m)^(?:pip|srun|distcheck) .*?(?=  #|$)",
    ):
        assert re.findall(what, english) == re.findall(what, chinese), what
    texts = [re.findall(r"(?m)^\| `([^`]+)`", text) for text in (english, chinese)]
    assert texts[0] == texts[1]
