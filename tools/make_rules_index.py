"""Writes docs/rules.md: every rule of the catalogue with its page, by family.

python tools/make_rules_index.py           writes it
python tools/make_rules_index.py --check   ends with 1 where it is not current
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from distcheck import rules  # noqa: E402 - the checkout's own package, not an installed one
from distcheck.rules.error_messages import FOLDER  # noqa: E402 - as above

FAMILIES = {
    "1": "Launch and variables",
    "2": "Ranks and devices",
    "3": "GPUs, software and host",
    "4": "Network",
    "5": "Cluster and collectives",
    "6": "Pickling",
    "7": "Training-script practice",
    "8": "Launch files",
    "9": "distcheck itself",
}
HEAD = """# Rules

Codes and names are fixed. `distcheck explain CODE` prints a page; a rule without a link has none yet: nothing reports
it yet. The first severity is the default, the others are those that a case may ask for; `info` is always allowed.

*Seen by*: `env`; `lint` (Python) and `launch` (launch files), both by `distcheck lint`; `pickle`; `log`; `ranks` (many
ranks or hosts compared) and `live` (a running group), by `collective` and `env --merge`; `rehearse` and `watch`, by
commands that are still to come.
"""


def index() -> str:
    """The document as Markdown."""
    parts = [HEAD]
    for digit, title in FAMILIES.items():
        parts.append(f"\n## DC{digit}xx {title}\n")
        parts.append("| code | name | severity | seen by | what it is about |\n| --- | --- | --- | --- | --- |")
        for rule in rules.ALL:
            if rule.code[2] != digit:
                continue
            page = f"../distcheck/rules/pages/{rule.code}.md"
            code = f"[{rule.code}]({page})" if (FOLDER / f"{rule.code}.md").exists() else rule.code
            severities = ", ".join(level.word for level in rule.severities)
            parts.append(f"| {code} | {rule.name} | {severities} | {' '.join(rule.ways)} | {rule.summary} |")
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write or compare."""
    target = ROOT / "docs" / "rules.md"
    if "--check" in sys.argv:
        current = target.read_text(encoding="utf-8") == index()
        sys.exit(0 if current else "docs/rules.md is not current; run tools/make_rules_index.py")
    target.write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
