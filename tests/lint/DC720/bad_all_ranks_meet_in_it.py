import torch
import torch.distributed as dist


def save_everything(model, optimizer, path):
    """Nobody here calls this; the barrier says that all ranks do."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    if rank == 0:
        print("saving to", path)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)  # expect: DC720
    dist.barrier()
