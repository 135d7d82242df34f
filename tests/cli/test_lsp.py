"""``distcheck lsp`` with a real client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from distcheck.core.model import Edit, Finding, Fix, Where
from distcheck.rules import known

types = pytest.importorskip("lsprotocol.types")
client_module = pytest.importorskip("pygls.lsp.client")
from distcheck.cli.language_server import Basis, LintServer, Outdated, combined  # noqa: E402 - needs pygls

BAD = """import torch.distributed as dist

ÄÖ = "𝔘"; dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.barrier()
"""
GOOD = BAD.replace("    dist.barrier()", "    pass")
LIMIT_S = 60


class Editor(client_module.LanguageClient):  # type: ignore[misc]
    """A client that keeps the diagnostics of each document."""

    def __init__(self, folder: Path) -> None:
        super().__init__("tests", "1")
        self.folder = folder
        self.seen: dict[str, list[Any]] = {}
        self.messages: list[str] = []
        self.changed = asyncio.Condition()

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def told(params: Any) -> None:
            self.messages.append(params.message)

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def published(params: Any) -> None:
            async with self.changed:
                self.seen[params.uri] = params.diagnostics
                self.changed.notify_all()

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def until(self, uri: str, wanted: Callable[[list[Any]], bool]) -> list[Any]:
        """Wait for diagnostics of a document that fit, and return them."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: uri in self.seen and wanted(self.seen[uri])), LIMIT_S)
            return self.seen[uri]

    def open(self, name: str, text: str) -> None:
        item = types.TextDocumentItem(self.uri(name), "python", 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def replace(self, name: str, text: str, version: int) -> None:
        document = types.VersionedTextDocumentIdentifier(version, self.uri(name))
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(document, [types.TextDocumentContentChangeWholeDocument(text)])
        )

    async def actions(self, uri: str, at: Any) -> list[Any]:
        return list(
            await self.text_document_code_action_async(
                types.CodeActionParams(types.TextDocumentIdentifier(uri), at, types.CodeActionContext([]))
            )
        )


def edited(folder: Path, body: Callable[[Editor], Awaitable[None]], *options: str) -> None:
    """Run a body with an editor that is connected to a server in a folder."""

    async def run() -> None:
        editor = Editor(folder)
        await editor.start_io(sys.executable, "-m", "distcheck", "lsp", *options or ("--isolated",), cwd=folder)
        capabilities = types.ClientCapabilities(
            notebook_document=types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities())
        )
        await asyncio.wait_for(
            editor.initialize_async(types.InitializeParams(capabilities, root_uri=folder.as_uri())), LIMIT_S
        )
        editor.initialized(types.InitializedParams())
        await body(editor)
        await asyncio.wait_for(editor.shutdown_async(None), LIMIT_S)
        editor.exit(None)
        assert await asyncio.wait_for(editor._server.wait(), LIMIT_S) == 0
        await editor.stop()

    asyncio.run(run())


def codes(diagnostics: list[Any]) -> list[str]:
    return [one.code for one in diagnostics]


@pytest.mark.slow
def test_an_editor_sees_findings_pages_and_actions(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BAD, encoding="utf-8")
    (tmp_path / "other.py").write_text(BAD, encoding="utf-8")

    async def body(editor: Editor) -> None:
        train, other = editor.uri("train.py"), editor.uri("other.py")
        # files that are not open are checked, too
        (found,) = await editor.until(other, lambda them: len(them) == 1)
        assert (found.code, found.severity, found.range.start.line) == ("DC701", types.DiagnosticSeverity.Warning, 4)
        assert "fix: call it on all ranks" in found.message
        assert found.code_description.href.endswith("DC701/") or "DC701" in found.code_description.href
        # an open file is a named one: its findings are at their own level
        editor.open("train.py", BAD)
        await editor.until(train, lambda them: [one.severity for one in them] == [types.DiagnosticSeverity.Error])
        hover = await editor.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(train), types.Position(4, 6))
        )
        assert hover is not None and "## Why it matters" in hover.contents.value
        actions = {action.title: action for action in await editor.actions(train, found.range)}
        assert list(actions) == ["DC701: silence it on this line", "DC701: silence it in this file"]
        (edit,) = actions["DC701: silence it on this line"].edit.changes[train]
        assert (edit.new_text, edit.range.start.line, edit.range.start.character) == (
            "  # distcheck: ignore[DC701]", 4, 18,
        )  # fmt: skip
        # unsaved text is what counts, and a comment silences
        editor.replace("train.py", BAD.replace("barrier()", "barrier()" + edit.new_text), 2)
        await editor.until(train, lambda them: not them)
        editor.replace("train.py", "# distcheck: ignore-file[DC701]\n" + BAD, 3)
        editor.replace("train.py", BAD, 4)
        await editor.until(train, lambda them: codes(them) == ["DC701"])
        editor.replace("train.py", GOOD, 5)
        await editor.until(train, lambda them: not them)
        assert codes(editor.seen[other]) == ["DC701"]
        assert (tmp_path / "train.py").read_text(encoding="utf-8") == BAD

    edited(tmp_path, body)


@pytest.mark.slow
def test_a_fix_is_offered_with_its_edits_in_utf_16(tmp_path: Path) -> None:
    text = """import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_node_local_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
Ä = "𝔘"; model.load_state_dict(torch.load("a.pt"))
"""
    (tmp_path / "train.py").write_text(text, encoding="utf-8")

    async def body(editor: Editor) -> None:
        train = editor.uri("train.py")
        editor.open("train.py", text)
        (found,) = await editor.until(train, bool)
        assert found.code == "DC723" and found.range.start.line == 6
        fix, *others = await editor.actions(train, found.range)
        assert fix.title.startswith("DC723: ") and "(review: " in fix.title and not fix.is_preferred
        assert [action.title[:14] for action in others] == ["DC723: silence"] * 2
        (edit,) = fix.edit.changes[train]
        lines = text.split("\n")
        line = lines[6].encode("utf-16-le")
        start, end = edit.range.start, edit.range.end
        assert start.line == end.line == 6
        new = (
            line[: 2 * start.character].decode("utf-16-le")
            + edit.new_text
            + line[2 * end.character :].decode("utf-16-le")
        )
        editor.replace("train.py", "\n".join([*lines[:6], new, *lines[7:]]), 2)
        await editor.until(train, lambda them: "DC723" not in codes(them))

    edited(tmp_path, body)


@pytest.mark.slow
def test_a_notebook_is_checked_cell_by_cell(tmp_path: Path) -> None:
    first, second = BAD.split("if dist")[0], "if dist" + BAD.split("if dist")[1]
    cells = [{"cell_type": "code", "source": text} for text in (first, second)]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))

    async def body(editor: Editor) -> None:
        names = [f"vscode-notebook-cell:/a.ipynb#W{number}%3D" for number in range(2)]
        notebook = types.NotebookDocument(
            editor.uri("a.ipynb"), "jupyter-notebook", 1,
            [types.NotebookCell(types.NotebookCellKind.Code, name) for name in names],
        )  # fmt: skip
        items = [
            types.TextDocumentItem(*row) for row in zip(names, ["python"] * 2, [1, 1], (first, second), strict=True)
        ]
        editor.notebook_document_did_open(types.DidOpenNotebookDocumentParams(notebook, items))
        (found,) = await editor.until(names[1], bool)
        assert (found.code, found.range.start.line) == ("DC701", 1)

    edited(tmp_path, body)


@pytest.mark.slow
def test_a_document_is_known_by_the_uri_of_the_editor(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "c++ ü").symlink_to(tmp_path / "folder")
    (tmp_path / "folder" / "a+b.py").write_text(GOOD, encoding="utf-8")

    async def body(editor: Editor) -> None:
        uri = editor.uri("a+b.py")
        assert "%2B" in uri
        editor.open("a+b.py", BAD)
        (found,) = await editor.until(uri, bool)
        titles = [action.title for action in await editor.actions(uri, found.range)]
        assert titles == ["DC701: silence it on this line", "DC701: silence it in this file"]
        assert set(editor.seen) == {uri}

    edited(tmp_path / "c++ ü", body)


@pytest.mark.slow
def test_a_project_that_can_not_be_checked_has_no_findings(tmp_path: Path) -> None:
    settings = tmp_path / "distcheck.toml"
    settings.write_text("")
    (tmp_path / "train.py").write_text(BAD, encoding="utf-8")

    async def body(editor: Editor) -> None:
        train = editor.uri("train.py")
        await editor.until(train, lambda them: codes(them) == ["DC701"])
        settings.write_text("ignored = 1\n")
        saved = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(train))
        editor.text_document_did_save(saved)
        await editor.until(train, lambda them: not them)
        assert "could not check this project" in editor.messages[0] and "'ignored'" in editor.messages[0]
        settings.write_text("")
        editor.text_document_did_save(saved)
        await editor.until(train, lambda them: codes(them) == ["DC701"])

    edited(tmp_path, body, "--config", "distcheck.toml")


def test_without_pygls_the_line_names_what_to_install() -> None:
    hide = "import sys; sys.modules['pygls'] = None; sys.argv = ['distcheck', 'lsp']"
    ran = subprocess.run(
        [sys.executable, "-c", f"{hide}; import distcheck.cli.fast_path as m; m.main()"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "pip install 'pygls>=2'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_it_ends_with_status_0_when_the_editor_does() -> None:
    """Its standard output is closed by then, and was flushed: a traceback, and status 1."""
    messages = (
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    )
    text = "".join(
        f"Content-Length: {len(body)}\r\n\r\n{body}"
        for body in (json.dumps({"jsonrpc": "2.0", **one}) for one in messages)
    )
    command = [sys.executable, "-m", "distcheck", "lsp"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stderr
    assert '"id":2' in ran.stdout.replace(" ", "") and "Traceback" not in ran.stderr


HELPER = "import torch.distributed as dist\n\n\ndef save():\n    dist.barrier()\n"
MAIN = "import helper\nimport torch.distributed as dist\n\nif dist.get_rank() == 0:\n    helper.save()\n"


@pytest.mark.slow
def test_a_large_project_shows_a_change_at_once_and_what_other_files_add(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(MAIN)
    for number in range(12):
        (tmp_path / f"part{number}.py").write_text("import torch\n")

    async def body(editor: Editor) -> None:
        train = editor.uri("train.py")
        editor.open("train.py", MAIN)
        # only the project knows that the helper waits
        (found,) = await editor.until(train, lambda them: len(them) == 1)
        assert (found.code, found.range.start.line) == ("DC701", 4)
        editor.replace("train.py", "# a comment\n" + MAIN + "\n    dist.barrier()\n", 2)
        both = await editor.until(train, lambda them: len(them) == 2)
        assert [(one.code, one.range.start.line) for one in both] == [("DC701", 5), ("DC701", 7)]
        # what the helper does is read again, too
        editor.open("helper.py", HELPER.replace("dist.barrier()", "pass"))
        await editor.until(train, lambda them: [one.range.start.line for one in them] == [7])

    edited(tmp_path, body)


def basis(text: str, found: list[Finding], alone: list[Finding]) -> Basis:
    return Basis(text.encode(), found, alone)


def finding(line: int, code: str = "DC701") -> Finding:
    where = Where(path="a.py", line=line, column=1, end_line=line, end_column=4)
    return known()[code].found(
        "x", where=where, fix=Fix("y", where="code", edits=(Edit("a.py", line, 1, line, 2, "z"),))
    )


def lines(findings: list[Finding]) -> list[int | None]:
    return [one.where.line for one in findings]


def test_what_other_files_refute_stays_away_while_lines_move() -> None:
    old = basis("a\nb\nc\n", found=[], alone=[finding(2)])
    assert combined(old, b"new\na\nb\nc\n", [finding(3)]) == []
    assert combined(old, b"a\nb\n\nc\n", [finding(2)]) == []
    # on another line the same code is a new finding
    assert lines(combined(old, b"a\nb\nc\nd\n", [finding(2), finding(4)])) == [4]


def test_what_rests_on_other_files_stays_while_its_line_does() -> None:
    old = basis("a\nb\nc\n", found=[finding(2)], alone=[])
    (moved,) = combined(old, b"new\na\nb\nc\n", [])
    assert (moved.where.line, moved.where.end_line, moved.fix.edits) == (3, 3, ())
    assert combined(old, b"a\nb\nnew\n", []) == [finding(2)]
    assert combined(old, b"a\nchanged\nc\n", []) == []
    assert combined(old, b"a\nc\n", []) == []


def test_what_a_change_fixes_or_breaks_is_shown_at_once() -> None:
    old = basis("a\nb\nc\n", found=[finding(2)], alone=[finding(2)])
    assert combined(old, b"a\nb\nc\n", [finding(2)]) == [finding(2)]
    # a fix elsewhere in the file: the line is the same, and alone it is no longer reported
    assert combined(old, b"fixed\nb\nc\n", []) == []
    assert combined(old, b"a\nb\nc\n", [finding(2), finding(3, "DC201")]) == [finding(3, "DC201"), finding(2)]


def test_a_newer_text_ends_the_run_over_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = LintServer({"config": None, "isolated": True})
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(server._apart, {}, server._change)
        server.give_up()
        with pytest.raises(Outdated):
            run.result(LIMIT_S)
