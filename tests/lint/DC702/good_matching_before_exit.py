import torch
import torch.distributed as dist


def share(value: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() != 0:
        dist.broadcast(value, src=0)
        return value
    value.fill_(1)
    dist.broadcast(value, src=0)
    return value


def wait_in_turn() -> None:
    if dist.get_rank() != 0:
        dist.barrier()
        return
    print("first at work")
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    share(torch.zeros(1))
    wait_in_turn()
    dist.destroy_process_group()
