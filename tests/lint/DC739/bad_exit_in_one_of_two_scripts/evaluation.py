import torch

class Meter:
    def __init__(self):
        self.total = self.count = 0

    def update(self, value, count):
        self.total += value * count
        self.count += count

    @property
    def mean(self):
        return self.total / self.count


@torch.no_grad()
def validate(model, loader):
    model.eval()
    meter = Meter()
    for batch, label in loader:
        loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
        meter.update(loss.item(), len(label))
    return meter.mean
