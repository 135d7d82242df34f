import torch.distributed as dist
from apply import replicate


def main():
    dist.init_process_group("gloo")
    print(replicate)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
