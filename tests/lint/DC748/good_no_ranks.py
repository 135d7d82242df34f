import multiprocessing

import torch.distributed as dist


def unpack(part):
    print("part", part)


def main():
    workers = []
    for part in range(4):
        worker = multiprocessing.Process(target=unpack, args=(part,))
        worker.start()
        workers.append(worker)
    for worker in workers:
        worker.join()
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
