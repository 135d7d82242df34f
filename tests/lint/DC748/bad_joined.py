import torch.distributed as dist
from torch.multiprocessing import Process


def run(rank, size, main):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    main(rank)
    dist.destroy_process_group()


def main(rank):
    dist.barrier()
    print(rank)


if __name__ == "__main__":
    processes = []
    for rank in range(4):
        process = Process(target=run, args=(rank, 4, main))
        process.start()
        processes.append(process)
    for process in processes:
        process.join()  # expect: DC748
