import argparse
import os

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default="0")
    args = parser.parse_args()
    print(torch.cuda.get_device_name(0))
    os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu  # expect: DC214
    model = torch.nn.Linear(4, 4).cuda()
    print(model)


if __name__ == "__main__":
    main()
