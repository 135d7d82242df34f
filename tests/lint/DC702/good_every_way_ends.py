import torch
import torch.distributed as dist


def role(value: torch.Tensor) -> int:
    if dist.get_rank() == 0:
        print("leader")
        return 0
    elif dist.get_rank() == 1:
        dist.recv(value, src=2)
        return 1
    dist.send(value, dst=1)
    return 2


def work(values: list) -> None:
    for value in values:
        if dist.get_rank() == 0:
            print(value)
            continue
        value += 1
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    role(torch.ones(1))
    work([torch.ones(1)])
    dist.destroy_process_group()
