import argparse

import torch.distributed as dist


class Options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
        self.parser.add_argument("--epochs")

    def read(self):
        return self.parser.parse_args()


args = Options().read()
dist.init_process_group("nccl")
print(args)
dist.destroy_process_group()
