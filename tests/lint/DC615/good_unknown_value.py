import torch
import torch.distributed as dist


def save_checkpoint(model, path):
    if dist.get_rank() == 0:
        torch.save(model, path)


def save_features(model, batches, path):
    features = torch.cat([model(batch) for batch in batches])
    if dist.get_rank() == 0:
        torch.save(features, path)
