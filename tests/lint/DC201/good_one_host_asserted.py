import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    assert world_size <= torch.cuda.device_count(), "one host only"
    torch.cuda.set_device(rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
