import torch
import torch.distributed as dist


def run(model: torch.nn.Module, loader: torch.utils.data.DataLoader) -> None:
    for inputs, targets in loader:
        if inputs.numel() == 0:
            continue  # expect: DC707
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
