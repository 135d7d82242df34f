import torch


def train_model(model, distributed=False):
    if distributed:
        model = torch.nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[torch.cuda.current_device()])
    else:
        model = model.cuda()
    return model
