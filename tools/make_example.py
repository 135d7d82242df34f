"""Writes the example of the README: the output of a real run on saved facts, between its two comments.

python tools/make_example.py           writes it
python tools/make_example.py --check   ends with 1 where the README shows something else
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FACTS = Path("docs/example-facts.json")
COMMAND = ("torchrun", "--nproc-per-node=8", "train.py")
BEGIN, END = "<!-- example: made by tools/make_example.py, held by a test -->\n", "<!-- end of example -->"


def example() -> str:
    """The example as Markdown."""
    result = subprocess.run(
        [sys.executable, "-m", "distcheck", "env", "--facts", str(FACTS), "--", *COMMAND],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={"PATH": "", "PYTHONPATH": str(ROOT)},
    )
    if result.returncode != 1:
        sys.exit(f"the example should find something, and ended with {result.returncode}: {result.stderr}")
    shown = re.sub(r"\d+\.\d\d s\n", "0.08 s\n", result.stdout)
    return f"```\n$ distcheck env -- {' '.join(COMMAND)}\n{shown}```\n"


def main() -> None:
    """Write or compare."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    shown, after = rest.split(END)
    if "--check" in sys.argv:
        sys.exit(
            0
            if shown == example()
            else "the README's example is not what the command prints; run tools/make_example.py"
        )
    readme.write_text(before + BEGIN + example() + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
