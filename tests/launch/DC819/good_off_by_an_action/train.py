import argparse
from argparse import BooleanOptionalAction as Switch

import torch.distributed as dist


class Off(argparse.Action):
    def __init__(self, option_strings, dest, **given):
        super().__init__([*option_strings, f"--no_{option_strings[0][2:]}"], dest, nargs=0, **given)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, not option_string.startswith("--no_"))


parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action=Switch)
parser.add_argument("--compile", action=Off)
args = parser.parse_args()
dist.init_process_group("nccl")
print(args)
dist.destroy_process_group()
