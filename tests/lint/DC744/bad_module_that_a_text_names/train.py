import runpy

import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    runpy.run_module("workers")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
