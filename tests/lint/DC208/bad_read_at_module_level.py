import os

import torch

LOCAL_RANK = int(os.environ["LOCAL_RANK"])  # expect: DC208
DEVICE = torch.device("cuda", LOCAL_RANK)


def main():
    print(torch.ones(2, device=DEVICE))


if __name__ == "__main__":
    main()
