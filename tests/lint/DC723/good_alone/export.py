import sys

import torch


def main():
    model = torch.nn.Linear(8, 8)
    model.load_state_dict(torch.load(sys.argv[1])["model"])
    torch.jit.script(model).save("model.ts")


if __name__ == "__main__":
    main()
