import copy
import os

import torch
import torch.distributed as dist


class Queue:
    def __init__(self) -> None:
        self.items: list[int] = []
        self.group = dist.new_group(backend="gloo")

    def __getstate__(self) -> dict:
        return {"items": self.items}

    def __setstate__(self, state: dict) -> None:
        self.items = state["items"]
        self.group = None


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    queue = Queue()
    print(len(copy.deepcopy(queue).items))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
