"""Makes the pictures of docs/formats.md: HTML reports of real commands, as a browser without a window shows them.

    python tools/make_screenshots.py [FOLDER]    writes the pictures, to docs/_static without a folder

Every run makes new reports: ``env`` on a recorded host, ``log`` on the log of the walkthrough, ``collective`` on two
gloo ranks of this machine, whose times are measured. Needs Chromium, and torch for the last one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


class Picture(NamedTuple):
    """One picture: the beginning of a report, in CSS pixels."""

    command: tuple[str, ...]
    height: int
    width: int = 1000


_HOST = ("tools/recorded_host.py", "docker-default", "env", "--output-format", "html", "-o")
PICTURES = {
    "report-env.png": Picture((*_HOST, "{out}", "--", "torchrun", "--nproc-per-node=8", "train.py"), 820),
    "report-log.png": Picture(
        ("-m", "distcheck", "log", "--output-format", "html", "-o", "{out}", "docs/session/train.log"), 760
    ),
    "report-collective.png": Picture(
        ("-m", "distcheck", "collective", "--nproc=2", "--output-format", "html", "-o", "{out}"), 1000
    ),
}


def make(name: str, target: Path) -> None:
    """Run the command of a picture and write its report as PNG.

    :raises RuntimeError: the command wrote no report, or the browser no picture
    """
    from tests.reporters.pages import browse

    picture = PICTURES[name]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.html")
        command = [sys.executable, *(argument.format(out=report) for argument in picture.command)]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if not report.is_file():
            raise RuntimeError(f"{name}: exit status {ran.returncode}, no report: {ran.stderr.strip()[-300:]}")
        size = f"--window-size={picture.width},{picture.height}"
        seen = browse(Path(folder, "profile"), size, f"--screenshot={target / name}", report.as_uri())
    if seen.returncode:
        raise RuntimeError(f"{name}: the browser ended with status {seen.returncode}: {seen.stderr.strip()[-300:]}")


def main(folder: str = str(ROOT / "docs" / "_static")) -> None:
    """Make all pictures."""
    for name in PICTURES:
        make(name, Path(folder))
        print(f"{name}: {Path(folder, name).stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:2])
