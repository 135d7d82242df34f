"""``distcheck lsp`` in real editors, with the configuration that docs/editors.md shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygls")
pytestmark = [pytest.mark.slow, pytest.mark.full]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "editors.md"
LIMIT_S = 180
BAD = """import os

import torch.distributed as dist

dist.init_process_group("gloo")
if os.environ["RANK"] == 0:
    print("rank 0")
"""
FIXED = 'if int(os.environ["RANK"]) == 0:'

#: Neovim waits for the diagnostics, opens the hover, and applies the preferred action, as a user would.
NEOVIM = """
local seen = {}
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 20)
seen.codes = vim.tbl_map(function(one) return one.code end, vim.diagnostic.get(0))
local first = vim.diagnostic.get(0)[1]
vim.api.nvim_win_set_cursor(0, { first.lnum + 1, first.col })
vim.lsp.buf.hover()
vim.wait(60000, function() return #vim.api.nvim_list_wins() > 1 end, 20)
for _, window in ipairs(vim.api.nvim_list_wins()) do
  if window ~= vim.api.nvim_get_current_win() then
    seen.hover = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, 1, false)[1]
  end
end
local before = vim.api.nvim_buf_get_changedtick(0)
vim.lsp.buf.code_action({ apply = true, filter = function(one) return one.isPreferred end })
vim.wait(60000, function() return vim.api.nvim_buf_get_changedtick(0) ~= before end, 20)
seen.line = vim.api.nvim_buf_get_lines(0, first.lnum, first.lnum + 1, false)[1]
vim.wait(60000, function() return #vim.diagnostic.get(0) == 0 end, 20)
seen.left = #vim.diagnostic.get(0)
io.stdout:write("SEEN " .. vim.json.encode(seen) .. "\\n")
vim.cmd("qall!")
"""

#: What both clients of Emacs share: waiting, and printing.
EMACS = """
(require 'json)
(defun wait (test)
  (let ((until (+ (float-time) 60)))
    (while (and (not (funcall test)) (< (float-time) until)) (accept-process-output nil 0.1))
    (funcall test)))
(defun line () (buffer-substring-no-properties (line-beginning-position) (line-end-position)))
(defun seen (&rest values) (message "SEEN %s" (json-encode values)))
"""
EGLOT = """
(require 'eglot)
(setq eglot-connect-timeout 60 eglot-sync-connect 60)
(find-file "train.py")
(call-interactively 'eglot)
(wait #'flymake-diagnostics)
(goto-char (point-min))
(search-forward "environ")
(let ((codes (mapcar (lambda (one) (substring (flymake-diagnostic-text one) 11 16)) (flymake-diagnostics)))
      (last-nonmenu-event ?a)
      hover)
  (eglot-hover-eldoc-function (lambda (text &rest _) (setq hover (substring-no-properties text))))
  (wait (lambda () hover))
  (cl-letf (((symbol-function 'completing-read) (lambda (_ choices &rest _) (caar choices))))
    (call-interactively 'eglot-code-actions))
  (let ((fixed (line)))
    ; a batch is never idle, when Eglot would send what has changed
    (eglot--signal-textDocument/didChange)
    (wait (lambda () (not (flymake-diagnostics))))
    (seen :codes codes :hover (car (split-string hover "\\n")) :line fixed :left (length (flymake-diagnostics)))))
"""
LSP_MODE = """
(require 'lsp-mode)
(setq lsp-auto-guess-root t lsp-enable-snippet nil lsp-enable-file-watchers nil)
(find-file "train.py")
(lsp-workspace-folders-add default-directory)
(lsp)
(wait #'lsp--get-buffer-diagnostics)
(goto-char (point-min))
(search-forward "environ")
(let ((codes (mapcar #'lsp:diagnostic-code? (lsp--get-buffer-diagnostics)))
      (hover (lsp:markup-content-value
              (lsp:hover-contents (lsp-request "textDocument/hover" (lsp--text-document-position-params))))))
  (lsp-execute-code-action (elt (lsp-code-actions-at-point) 0))
  (let ((fixed (line)))
    (wait (lambda () (not (lsp--get-buffer-diagnostics))))
    (seen :codes codes :hover (car (split-string hover "\\n")) :line fixed
          :left (length (lsp--get-buffer-diagnostics)))))
"""


def blocks(language: str) -> list[str]:
    """Return the blocks of a language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def check(project: Path, *command: str) -> None:
    """Run an editor in a project, and judge what it saw."""
    (project / "pyproject.toml").touch()
    (project / "train.py").write_text(BAD, encoding="utf-8")
    environment = {
        **os.environ,
        # the configurations start `distcheck`
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "HOME": str(project.parent),
        "XDG_CACHE_HOME": str(project.parent / "cache"),
    }
    ran = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    seen = re.findall(r"^SEEN (.*)$", ran.stdout + ran.stderr, re.MULTILINE)
    assert seen, ran.stdout + ran.stderr
    assert json.loads(seen[0]) == {
        "codes": ["DC209"], "hover": "# DC209 env-compared-with-int", "line": FIXED, "left": 0,
    }  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "project")], check=True)
    return tmp_path / "project"


def test_neovim(project: Path) -> None:
    program = shutil.which("nvim")
    version = "" if program is None else subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.match(r"NVIM v(\d+)\.(\d+)", version)
    if program is None or found is None or tuple(map(int, found.groups())) < (0, 11):
        pytest.skip("needs Neovim 0.11")
    (configuration,) = blocks("lua")
    (project.parent / "init.lua").write_text(configuration)
    (project.parent / "drive.lua").write_text(NEOVIM)
    check(project, program, "--headless", "-u", "../init.lua", "train.py", "-c", "luafile ../drive.lua")


@pytest.mark.parametrize(("library", "number", "driver"), [("eglot", 0, EGLOT), ("lsp-mode", 1, LSP_MODE)])
def test_emacs(library: str, number: int, driver: str, project: Path) -> None:
    program = shutil.which("emacs")
    begin = "(package-initialize)"
    if program is None or subprocess.run(
        [program, "--batch", "--eval", begin, "--eval", f"(kill-emacs (if (locate-library {json.dumps(library)}) 0 1))"],
        capture_output=True,
    ).returncode:  # fmt: skip
        pytest.skip(f"needs Emacs with {library}")
    (project.parent / "init.el").write_text(begin + blocks("elisp")[number] + EMACS + driver)
    check(project, program, "--batch", "-l", "../init.el")
