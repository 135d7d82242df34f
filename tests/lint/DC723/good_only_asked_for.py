import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(model, loader, engine_file=None):
    """Nobody here passes an engine file; who does has one process."""
    if engine_file is not None:
        model.load_state_dict(torch.load(engine_file))
    total = torch.zeros(1, device="cuda")
    for batch in loader:
        total += model(batch).sum()
    dist.all_reduce(total)
    return total.item()
