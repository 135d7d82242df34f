"""The only call stands in the arm that the argument excludes."""

import torch.distributed as dist


def write_log(text):
    with open("log.txt", "w") as file:
        file.write(text)


def evaluate(curve):
    if not curve:
        write_log("one")


def main():
    dist.init_process_group("gloo")
    evaluate(True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
