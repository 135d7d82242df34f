import time

import torch
import torch.distributed as dist


def train(model: torch.nn.Module, budget_s: float) -> None:
    begin = time.time()
    step = 0
    while True:
        loss = model(torch.rand(2, 4)).mean()
        dist.all_reduce(loss)
        step += 1
        if time.time() - begin > budget_s:
            break  # expect: DC707
    print(step)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(torch.nn.Linear(4, 1), 3600)
    dist.destroy_process_group()
