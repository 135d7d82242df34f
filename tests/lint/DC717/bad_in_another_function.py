"""The handle is left to the caller, which reads the tensor before it waits."""

import torch
import torch.distributed as dist


def start(value):
    return dist.all_reduce(value, async_op=True)


def report(value):
    return value.item()  # expect: DC717


def main():
    dist.init_process_group("gloo")
    loss = torch.ones(1)
    work = start(loss)
    print(report(loss))
    work.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
