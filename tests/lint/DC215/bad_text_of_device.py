import os

import torch

LOCAL_RANK = int(os.getenv("LOCAL_RANK", "-1"))


def main():
    device = torch.device(f"cuda:{LOCAL_RANK}")  # expect: DC215
    print(torch.ones(1, device=device))


if __name__ == "__main__":
    main()
