"""The door of the smoke test: ``torchrun … -m distcheck.collective``, ``srun … python -m distcheck.collective``.

Each process that a launcher starts is one rank. Without a launcher it prints what to type.
"""

from __future__ import annotations


def main() -> None:
    """One rank of the smoke test; ends the process."""
    from .cli.main import run_command

    run_command("collective", as_rank=True)


if __name__ == "__main__":
    main()
