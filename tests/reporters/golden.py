"""The golden files: what the formats for programs make of each sample.

``python -m tests.reporters.golden`` writes them again; look at the difference before you keep it. What changes from
machine to machine and from day to day is replaced: the folder, the time, our version, and the pages of the rules.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from distcheck.core.model import Rule, Severity
from distcheck.core.rule_page import Page
from distcheck.reporters import render

from .invented import SAMPLES, TRAIN

FOLDER = Path(__file__).parent / "golden"
#: format → ending of its files
ENDINGS = {
    "gitlab": "json",
    "sarif": "sarif",
    "junit": "xml",
    "rdjson": "json",
    "markdown": "md",
    "prometheus": "prom",
    "github": "txt",
}
#: Samples that have a file in each format; the others are looked at by the tests of the formats.
NAMES = ("lint", "env", "log", "pickle", "merged", "collective", "clean")
#: 2026-01-01, 00:00 UTC.
NOW = 1_767_225_600.0


def path_of(name: str, output_format: str) -> Path:
    return FOLDER / output_format / f"{name}.{ENDINGS[output_format]}"


@contextmanager
def checkout() -> Iterator[Path]:
    """A repository with the script of LINT, as the working folder."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / ".git").mkdir()
        (root / "train.py").write_text(TRAIN, encoding="utf-8")
        os.chdir(root)
        try:
            yield root
        finally:
            os.chdir(here)


def page(code: str) -> Page:
    """A page that does not change with the real one."""
    sections = {"What it detects": f"What {code}\nmeans.\n\nAnd more.", "Why it matters": "It does."}
    rule = Rule(code, "a-name", Severity.ERROR, ("env",), "A summary", (Severity.ERROR,))
    return Page(rule, sections)


def made(name: str, output_format: str, root: Path) -> str:
    """A sample in a format; the working folder is ``root``."""
    with (
        patch("distcheck._version.__version__", "0.0.0"),
        patch("distcheck.reporters.sarif.read_page", page),
        patch("distcheck.reporters.prometheus.time.time", lambda: NOW),
    ):
        return render(SAMPLES[name], output_format).replace(str(root).lstrip("/"), "home/user/project")


def main() -> None:
    """Write all files, and remove those that nothing makes any more."""
    wanted = {path_of(name, output_format): (name, output_format) for name in NAMES for output_format in ENDINGS}
    for stale in set(FOLDER.glob("*/*")) - set(wanted):
        stale.unlink()
    with checkout() as root:
        for path, (name, output_format) in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made(name, output_format, root), encoding="utf-8")
    sys.stderr.write(f"wrote {len(wanted)} files; look at 'git diff tests/reporters/golden' before you keep them\n")


if __name__ == "__main__":
    main()
