import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()


def launch():
    mp.set_start_method("spawn")
    ranks = [mp.Process(target=run, args=(rank,)) for rank in range(2)]
    [rank.start() for rank in ranks]
    [rank.join() for rank in ranks]  # expect: DC748


if __name__ == "__main__":
    launch()
