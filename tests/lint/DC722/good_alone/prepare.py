import os
import sys


def main():
    target = sys.argv[1]
    if not os.path.exists(target):
        os.makedirs(target)
    for local_rank in range(8):
        os.mkdir(os.path.join(target, f"part{local_rank}"))


if __name__ == "__main__":
    main()
