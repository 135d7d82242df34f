import torch
import torch.distributed as dist
import torch.multiprocessing


def worker(index, world_size):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method="env://", rank=index, world_size=world_size)
    dist.barrier()
    dist.destroy_process_group()


def main():
    world_size = torch.cuda.device_count()
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=worker, args=(index, world_size)) for index in range(world_size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()  # expect: DC748


if __name__ == "__main__":
    main()
