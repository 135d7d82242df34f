import torch.distributed as dist
from trainer import Trainer


def main():
    dist.init_process_group("gloo")
    Trainer().fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
