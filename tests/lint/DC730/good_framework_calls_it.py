import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    accelerator = Accelerator()
    data = TensorDataset(torch.randn(1000, 8))
    sampler = DistributedSampler(data, accelerator.num_processes, accelerator.process_index)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=32, sampler=sampler))  # expect: DC770=warning
    for epoch in range(3):
        for (batch,) in loader:
            accelerator.backward(model(batch).sum())
            optimizer.step()


if __name__ == "__main__":
    main()
