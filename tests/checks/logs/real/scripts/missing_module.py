"""A package is not installed."""

import os


def main() -> None:
    """Run it."""
    import tiktoken_fast_tables

    print(tiktoken_fast_tables, os.environ["RANK"])


if __name__ == "__main__":
    main()
