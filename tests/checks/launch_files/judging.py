"""What a probe says of launch files that are written out in a test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from distcheck.checks.launch_files.files import kind_of, read_file
from distcheck.checks.launch_files.model import LaunchFile, LaunchFiles
from distcheck.core.model import Finding

#: Two nodes with eight GPUs each, one task on each.
TWO_NODES = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
"""
HEAD = 'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
C10D = "--rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID --rdzv-endpoint=$HEAD:29400"


def read(text: str, path: str = "run.sh") -> LaunchFile:
    data = text.encode()
    kind = kind_of(path, data, include_markdown=True)
    assert kind is not None, f"{path} is no launch file"
    file = read_file(path, data, kind, lambda other: None)
    assert not file.problems, file.problems
    return file


def findings(
    probe: Callable[..., Iterator[Finding]],
    text: str,
    *more: Any,
    path: str = "run.sh",
    files: tuple[LaunchFile, ...] = (),
) -> list[Finding]:
    """What a probe finds in one file, in order of lines; ``more``: other facts that it asks for."""
    found = probe(LaunchFiles((read(text, path), *files)), *more)
    return sorted(found, key=lambda finding: (finding.where.line or 0, finding.where.column or 0))


def said(probe: Callable[..., Iterator[Finding]], text: str, *more: Any, path: str = "run.sh") -> list[tuple[int, str]]:
    """Line and severity of each finding."""
    return [(finding.where.line or 0, finding.severity.word) for finding in findings(probe, text, *more, path=path)]


def fixed(text: str, finding: Finding) -> str:
    """A text with the edits of a finding's fix."""
    lines = text.split("\n")
    for edit in sorted(finding.fix.edits, key=lambda edit: (edit.line, edit.column), reverse=True):
        assert edit.line == edit.end_line
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    return "\n".join(lines)


def typed(text: str, finding: Finding) -> str:
    """A text as a reader changes it: with the edits of the fix, or with what follows its colon in the place it names."""
    if finding.fix.edits:
        return fixed(text, finding)
    lines = text.split("\n")
    name, _, value = finding.fix.text.rpartition(": ")[2].partition("=")
    line = lines[(finding.where.line or 1) - 1]
    found = re.search(rf"{re.sub('[-_]', '[-_]', name)}[= ](?:\$\(\(.*?\)\)|\S+)", line)
    assert found is not None, (name, line)
    lines[(finding.where.line or 1) - 1] = f"{line[: found.start()]}{name}={value}{line[found.end() :]}"
    return "\n".join(lines)
