from torch.nn.parallel import DistributedDataParallel


class LoggedDDP(DistributedDataParallel):
    def forward(self, *inputs, **kwargs):
        if not self.require_forward_param_sync:
            output = self.module(*inputs, **kwargs)
            output.loss.backward
            return output
        return super().forward(*inputs, **kwargs)

    def training_loss(self, batch):
        return self.module(batch)


def train(model: LoggedDDP, batches, optimizer):
    for batch in batches:
        loss = model(batch)
        loss.backward()
        optimizer.step()
