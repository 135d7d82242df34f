import time

import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = []
    for rank in range(2):
        ranks.append(mp.Process(target=run, args=(rank,)))
        ranks[-1].start()
    while any(rank.is_alive() for rank in ranks):
        if any(rank.exitcode for rank in ranks):
            for rank in ranks:
                rank.terminate()
        time.sleep(1)
    for rank in ranks:
        rank.join()
