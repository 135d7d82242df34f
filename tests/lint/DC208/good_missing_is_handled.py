import os


def main():
    try:
        rank = int(os.environ["RANK"])
        size = int(os.environ["WORLD_SIZE"])
    except KeyError:
        rank, size = 0, 1
    print(f"{rank} of {size}")


if __name__ == "__main__":
    main()
