import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader


def train(seed):
    accelerator = Accelerator()
    local_seed = seed + accelerator.process_index * 100003
    torch.manual_seed(local_seed)
    data = load_dataset("bookcorpus", split="train", streaming=True)
    data = data.shuffle(seed=local_seed)
    data = data.with_format("torch")
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        accelerator.backward(model(batch["x"]).sum())
        optimizer.step()


if __name__ == "__main__":
    train(1)
