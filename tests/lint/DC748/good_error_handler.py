import traceback

import torch.distributed as dist
import torch.multiprocessing as mp

from errors import Handler


def run(rank, errors):
    try:
        dist.init_process_group("gloo", rank=rank, world_size=2)
        dist.barrier()
    except Exception:
        errors.put(traceback.format_exc())
    finally:
        dist.destroy_process_group()


def main():
    errors = mp.SimpleQueue()
    handler = Handler(errors)
    ranks = []
    for rank in range(2):
        process = mp.Process(target=run, args=(rank, errors))
        process.start()
        handler.add(process.pid)
        ranks.append(process)
    for process in ranks:
        process.join()


if __name__ == "__main__":
    main()
