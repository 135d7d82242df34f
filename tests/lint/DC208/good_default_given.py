import os

import torch


def main():
    rank = int(os.environ.get("RANK", 0))
    local_rank = int(os.getenv("LOCAL_RANK", "0"))
    torch.cuda.set_device(local_rank)
    print(rank)


if __name__ == "__main__":
    main()
