"""The door of *watch*: ``torchrun … -m distcheck.watch train.py ARGS``.

Reads its own options, starts the side thread, and becomes the script. Nothing of ours stands between the script and the
end of the process: no handler, no exit of our own.
"""

from __future__ import annotations


def main() -> None:
    """One rank under watch; ends as the script ends."""
    import sys

    from .cli.watch import WatchOptions, read, watch

    asked = read(sys.argv[1:])
    if not isinstance(asked, WatchOptions):
        raise SystemExit(asked)
    watch(asked)


if __name__ == "__main__":
    main()
