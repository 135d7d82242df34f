"""The entry point of *watch*: ``torchrun … -m distcheck.watch train.py ARGS``.

It reads its own options, starts the side thread, and becomes the script. The script ends the process as it would alone:
no handler and no exit of ours intervenes.
"""

from __future__ import annotations


def main() -> None:
    """Run one rank under watch; end as the script ends."""
    import sys

    from .cli.watch import WatchOptions, read, watch

    options = read(sys.argv[1:])
    if not isinstance(options, WatchOptions):
        raise SystemExit(options)
    watch(options)


if __name__ == "__main__":
    main()
