import os


def run():
    print(os.environ["RANK"], os.environ["WORLD_SIZE"])


if __name__ == "__main__":
    run()
