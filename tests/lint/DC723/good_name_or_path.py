import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unet_model_name_or_path", required=True)
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda()
    # weights that are published under a name are tensors of the CPU
    model.load_state_dict(torch.load(args.unet_model_name_or_path, weights_only=True))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
