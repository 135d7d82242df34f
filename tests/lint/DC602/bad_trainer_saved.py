import os

import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, local_rank: int) -> None:
        self.model = torch.nn.Linear(16, 4).to(local_rank)
        self.cpu_group = dist.new_group(backend="gloo")

    def save(self, path: str) -> None:
        if dist.get_rank() == 0:
            torch.save(self, path)  # expect: DC602


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    Trainer(local_rank).save("trainer.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
