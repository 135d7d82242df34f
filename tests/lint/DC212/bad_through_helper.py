import torch
import torch.distributed as dist


def my_device(rank):
    return torch.device("cuda", rank % torch.cuda.device_count())  # expect: DC212


def main():
    dist.init_process_group("gloo")
    print(torch.ones(1, device=my_device(dist.get_rank())))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
