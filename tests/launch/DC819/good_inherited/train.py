import argparse

import torch.distributed as dist
from company_tools import Options


class Training(Options):
    def __init__(self):
        self.parser = argparse.ArgumentParser()
        self.parser.add_argument("--epochs")
        self.add_usual_options()

    def read(self):
        return self.parser.parse_args()


args = Training().read()
dist.init_process_group("nccl")
print(args)
dist.destroy_process_group()
