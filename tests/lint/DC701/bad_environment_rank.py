import os

import torch
from torch import distributed

RANK = int(os.environ["RANK"])
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))


def finish(path: str, model: torch.nn.Module) -> None:
    if RANK == 0:
        torch.save(model.state_dict(), path)
        distributed.barrier()  # expect: DC701


def main() -> None:
    torch.cuda.set_device(LOCAL_RANK)
    distributed.init_process_group("nccl")
    finish("last.pt", torch.nn.Linear(4, 4))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
