import logging

import torch.distributed as dist
import torch.multiprocessing as mp

logger = logging.getLogger(__name__)


def worker(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()


def main():
    try:
        mp.set_start_method("forkserver")
        mp.spawn(worker, args=(29501,), nprocs=2, join=True)  # expect: DC748
    except Exception as error:
        logger.critical(error, exc_info=True)


if __name__ == "__main__":
    main()
