import sys

import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()


def ends_with_its_status(port):
    try:
        mp.spawn(worker, args=(port,), nprocs=2)
    except Exception as error:
        print(error)
        sys.exit(1)


def is_another_error(port):
    try:
        mp.spawn(worker, args=(port,), nprocs=2)
    except KeyboardInterrupt:
        print("interrupted")


def tries_again(port):
    for attempt in range(3):
        try:
            mp.spawn(worker, args=(port + attempt,), nprocs=2)
            break
        except Exception as error:
            print(error)


def notes_that_it_worked(port):
    worked = False
    try:
        mp.spawn(worker, args=(port,), nprocs=2)
        worked = True
    except Exception as error:
        print(error)
    sys.exit(0 if worked else 1)


if __name__ == "__main__":
    ends_with_its_status(29501)
    is_another_error(29502)
    tries_again(29503)
    notes_that_it_worked(29510)
