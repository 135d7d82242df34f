import argparse
import os

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=int(os.environ.get("LOCAL_RANK", -1)))
    args = parser.parse_args()
    model = torch.nn.Linear(4, 4).cuda(args.local_rank)  # expect: DC215
    print(model.weight.device)


if __name__ == "__main__":
    main()
