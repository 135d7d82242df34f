"""Of two calls in one function, one stands in the arm that the argument excludes."""

import torch.distributed as dist


def write_log(text):
    with open("log.txt", "w") as file:  # expect: DC720
        file.write(text)


def evaluate(curve):
    if not curve:
        write_log("one")
    else:
        write_log("all")


def main():
    dist.init_process_group("gloo")
    evaluate(True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
