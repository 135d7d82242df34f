import os

from work import run


def main():
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    run()


if __name__ == "__main__":
    main()
