import torch
import torch.distributed as dist


def main():
    seed = 1234 + dist.get_rank()
    torch.manual_seed(seed)
    dist.init_process_group("gloo")
    noise = torch.randn(4)
    dist.all_reduce(noise)
    if dist.get_rank() == 0:
        print(noise.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
