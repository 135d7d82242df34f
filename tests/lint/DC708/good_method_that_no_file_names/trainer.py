import torch.distributed as dist


class Trainer(object):
    def __init__(self):
        self.rank = dist.get_rank()
        if self.rank == 0:
            self.writer = open("log.txt", "w")

    def add_parameters(self, parameters):
        self.writer.write(str(parameters))

    def fit(self):
        for step in range(10):
            if self.rank == 0:
                self.writer.write(str(step))
