"""Runs the recipes: ``python -m tests.real CHECKOUTS [NAME …]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.real import recipe, run

PARTS = ("rehearse", "plain", "watch", "same")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__, allow_abbrev=False)
    parser.add_argument("checkouts", type=Path, help="folder with a checkout OWNER+NAME of each repository")
    parser.add_argument("names", nargs="*", help="only recipes whose name holds one of these")
    parser.add_argument("--parts", default=",".join(PARTS), help="of: %(default)s")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each run (default: %(default)g)")
    parser.add_argument("--keep", type=Path, help="folder for what each run prints and reports")
    parser.add_argument("--list", action="store_true", help="print repositories, commits and packages, and run nothing")
    options = parser.parse_args(arguments)
    parts = tuple(options.parts.split(","))
    if set(parts) - set(PARTS):
        parser.error(f"--parts: of {', '.join(PARTS)}")
    try:
        chosen = recipe.load(options.names)
    except LookupError as error:
        parser.error(str(error))
    if options.list:
        for one in chosen:
            print(one.name, one.recipe.repository, one.recipe.commit, *one.recipe.install)
        return 0
    results = []
    for one in chosen:
        if not run.checkout_of(one.recipe, options.checkouts).is_dir():
            print(f"{one.name}: no checkout of {one.recipe.repository} at {one.recipe.commit}", file=sys.stderr)
            continue
        result = run.run(one, options.checkouts, options.limit, parts, options.keep)
        print(f"{one.name}: {'as stated' if not result.differences else 'differs'}", file=sys.stderr, flush=True)
        for line in result.differences:
            print(f"  {line}", file=sys.stderr, flush=True)
        results.append(result)
    print(run.table(results))
    return int(any(result.differences for result in results))


if __name__ == "__main__":
    sys.exit(main())
