import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="resnet50.pth")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda()
    model.load_state_dict(torch.load("pretrained/" + args.weights, weights_only=True))  # expect: DC723
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "pretrained/" + args.weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
