"""``distcheck pickle --confirm`` on files: compare with the installed torch, in another process.

``torch.load(weights_only=True)`` on the meta device runs nothing but what torch allows by itself, and reads no tensor.
It gets only files that are neither dangerous nor malformed. Its answer is compared: it makes no file safe.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Sequence
from typing import Any

from distcheck import rules
from distcheck.checks.pickles.api import FileReport
from distcheck.checks.pickles.torch_globals import installed_torch_version, rules_for
from distcheck.checks.pickles.verdict import Policy
from distcheck.core.model import Fix, NotChecked, Where

#: Seconds for one file, the import of torch aside.
_LIMIT_S = 60.0
#: Seconds for the import of torch; minutes on a cold network file system.
_START_S = 300.0
#: Characters of an error of torch that are shown.
_LONGEST = 300
_PROGRAM = """\
import sys
# the working folder may hold a torch.py from the author of the files
sys.path[:] = [entry for entry in sys.path if entry not in ("", ".")]
import json, os, warnings
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
warnings.simplefilter("ignore")
import torch
print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
for line in sys.stdin:
    try:
        torch.load(json.loads(line), map_location="meta", weights_only=True)
        answer = {"loads": True, "error": ""}
    except Exception as error:
        answer = {"loads": False, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), file=answers, flush=True)
"""


class _TorchEndedError(Exception):
    """The other process ended, or did not answer in time; the text gives the reason."""


class _TorchProcess:
    """torch in another process, that answers one question after another."""

    def __init__(self) -> None:
        import subprocess

        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise _TorchEndedError("it has no pipes")
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._rest = b""
        self.version = str(self._answer(_START_S)["torch"])

    def load(self, path: str) -> dict[str, Any]:
        """``loads`` and ``error``; raises _GoneError."""
        # a process that has ended is noticed where its answer is read
        with contextlib.suppress(BrokenPipeError):
            self._questions.write(json.dumps(path).encode() + b"\n")
            self._questions.flush()
        return self._answer(_LIMIT_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        self._answers.close()

    def _answer(self, limit_s: float) -> dict[str, Any]:
        descriptor = self._answers.fileno()
        end = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise _TorchEndedError(f"it did not answer within {limit_s:g} s")
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                code = self._process.wait()
                raise _TorchEndedError(
                    f"its process ended {f'by signal {-code}' if code < 0 else f'with status {code}'}"
                )
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def confirm(reports: Sequence[FileReport], policy: Policy) -> list[FileReport]:
    """The reports, each compared with the answer of torch where there is one."""
    why_not = _why_not(policy)
    torch: _TorchProcess | None = None
    confirmed: list[FileReport] = []
    try:
        for report in reports:
            if report.weights_only is None or report.verdict in ("dangerous", "malformed"):
                confirmed.append(report)
                continue
            reason = why_not or _not_this(report)
            if not reason:
                try:
                    torch = torch or _TorchProcess()
                    confirmed.append(_compared(report, torch.load(os.path.abspath(report.path)), torch.version))
                    continue
                except (_TorchEndedError, OSError) as error:
                    reason = f"torch could not answer: {error}"
                    if torch is None:
                        why_not = reason  # it does not start: not for the next file either
                    else:
                        torch.close()
                        torch = None
            confirmed.append(_not_confirmed(report, reason))
    finally:
        if torch is not None:
            torch.close()
    return confirmed


def _why_not(policy: Policy) -> str:
    installed = installed_torch_version()
    if installed is None:
        return "torch is not installed for this Python"
    if policy.torch_version and rules_for(policy.torch_version).version != rules_for(installed).version:
        return f"the installed torch is {installed}, and the files were judged for {policy.torch_version}"
    if policy.allow:
        return "--allow names code that would have to be imported"
    return ""


def _not_this(report: FileReport) -> str:
    return "" if os.path.isfile(report.path) else "torch.load takes a file by its name only"


def _not_confirmed(report: FileReport, why: str) -> FileReport:
    item = NotChecked("--confirm", why)
    return report._replace(report=report.report._replace(not_checked=(*report.report.not_checked, item)))


def _compared(report: FileReport, answer: dict[str, Any], version: str) -> FileReport:
    ours = report.weights_only == "accept"
    theirs = bool(answer["loads"])
    if ours is theirs or report.weights_only == "unknown":
        return report._replace(confirmation="")
    error = str(answer["error"]).strip().splitlines()
    reason = (error[0] if error else "")[:_LONGEST]
    claim = f"torch {version} {'loads it' if theirs else f'refuses it ({reason})'}, and distcheck disagrees"
    finding = rules.DC901.found(
        f"{claim}: {report.sentence}",
        where=Where(path=report.path),
        evidence={"torch": version, "torch_loads": theirs, "answer": report.weights_only},
        fix=Fix(
            "go by what torch does; please report this to the authors of distcheck, with the text of -v",
            where="host",
        ),
    )
    return report._replace(
        confirmation=claim, report=report.report._replace(findings=(*report.report.findings, finding))
    )
