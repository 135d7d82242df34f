import argparse
import os

import torch


def export(model, args):
    if args.local_rank not in (-1, 0):
        return
    torch.save(model.state_dict(), args.output)  # expect: DC217=info


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
    export(torch.nn.Linear(4, 4), parser.parse_args())
