import ray.train
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer


def train(config):
    rank = ray.train.get_context().get_world_rank()
    torch.cuda.set_device(rank)
    model = torch.nn.Linear(8, 8).cuda()
    torch.save(model.state_dict(), "model.pt")


TorchTrainer(train, scaling_config=ScalingConfig(num_workers=16, use_gpu=True)).fit()
