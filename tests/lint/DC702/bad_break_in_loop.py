import torch
import torch.distributed as dist


def train(steps: int, patience: int) -> None:
    main = dist.get_rank() == 0
    waited = 0
    for step in range(steps):
        loss = torch.rand(1)
        waited += 1
        if main and waited > patience:
            break
        dist.all_reduce(loss)  # expect: DC702


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(100, 5)
    dist.destroy_process_group()
