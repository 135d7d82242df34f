"""The list that is sent is not the one that is read."""

import torch
import torch.distributed as dist


def main(batches: list) -> None:
    dist.init_process_group("gloo")
    for batch in batches:
        stop = False
        if dist.get_rank() == 0:
            stop = batch.sum() > 3
        flag = [stop]
        names = ["loss"]
        dist.broadcast_object_list(names, src=0)  # expect: DC702
        if flag[0]:
            break
        dist.all_reduce(batch)  # expect: DC702
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.rand(2), torch.rand(2)])
