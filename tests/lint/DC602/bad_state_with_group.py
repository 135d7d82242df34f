import os
import pickle

import torch
from torch import distributed as dist


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    group = dist.new_group(list(range(dist.get_world_size())))
    state = {"step": 100, "group": group}
    if dist.get_rank() == 0:
        with open("state.pkl", "wb") as file:
            pickle.dump(state, file)  # expect: DC602
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
