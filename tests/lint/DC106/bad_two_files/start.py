import torch
import torch.multiprocessing as mp
from worker import run


def main():
    count = torch.cuda.device_count()
    mp.start_processes(run, args=(10,), nprocs=count, start_method="spawn")  # expect: DC106


if __name__ == "__main__":
    main()
