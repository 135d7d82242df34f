import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())  # expect: DC201=warning
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
