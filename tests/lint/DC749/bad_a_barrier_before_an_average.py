import torch
import torch.distributed as dist


def average(value):
    try:
        dist.barrier()  # expect: DC749
    except Exception as error:
        print("no barrier", error)
    total = torch.tensor(value).cuda()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    print(average(1.0))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
