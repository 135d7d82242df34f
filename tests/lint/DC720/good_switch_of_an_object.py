"""The object is made with the switch off, so that its method wraps no model: the script is one process."""

import torch
from torch.nn.parallel import DistributedDataParallel


class Loader:
    def __init__(self, path, is_ddp=False):
        self.path = path
        self.is_ddp = is_ddp

    def load(self):
        return self.get_model()

    def get_model(self):
        model = torch.nn.Linear(2, 2).cuda()
        if self.is_ddp:
            model = DistributedDataParallel(model)
        return model


def main():
    loader = Loader("last.pt", is_ddp=False)
    model = loader.load()
    torch.save(model.state_dict(), "last.pt")


if __name__ == "__main__":
    main()
