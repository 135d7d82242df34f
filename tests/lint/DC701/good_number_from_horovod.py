import horovod.torch as hvd
import torch


class Progress:
    def __init__(self):
        self.epoch = 0

    def restore(self, path):
        if hvd.rank() == 0:
            self.epoch = torch.load(path, map_location="cpu")["epoch"]

    def share(self):
        self.epoch = hvd.broadcast(torch.tensor(self.epoch), 0, name="epoch").item()


def main():
    hvd.init()
    progress = Progress()
    progress.restore("last.pt")
    progress.share()
    if progress.epoch == 0 and not progress.epoch > 3:
        hvd.allreduce(torch.ones(1), name="first")


main()
