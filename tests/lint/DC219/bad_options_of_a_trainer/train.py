import torch
import torch.distributed as dist
from settings import Settings
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from transformers import HfArgumentParser


class Trainer:
    def __init__(self, settings, data):
        self.settings = settings
        self.loader = self.loader_of(data)

    def loader_of(self, data):
        sampler = DistributedSampler(
            data,
            num_replicas=self.settings.world_size,
            rank=self.settings.local_rank,  # expect: DC219=info
        )
        return DataLoader(data, sampler=sampler, batch_size=2)


def main() -> None:
    parser = HfArgumentParser((Settings,))
    (settings,) = parser.parse_args_into_dataclasses()
    dist.init_process_group("gloo")
    trainer = Trainer(settings, TensorDataset(torch.arange(64.0)))
    for epoch in range(2):
        trainer.loader.sampler.set_epoch(epoch)
        print(len(trainer.loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
