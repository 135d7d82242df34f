from argparse import ArgumentParser

import torch
import torch.distributed as dist


def get_args():
    parser = ArgumentParser("segmentation")
    group = parser.add_argument_group("distributed")
    group.add_argument(  # expect: DC207
        "--local_rank",
        type=int,
        required=True,
        help="given by the launcher",
    )
    return parser.parse_args()


if __name__ == "__main__":
    options = get_args()
    torch.cuda.set_device(options.local_rank)
    dist.init_process_group("nccl")
    dist.destroy_process_group()
