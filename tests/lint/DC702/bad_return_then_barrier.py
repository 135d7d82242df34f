import torch
import torch.distributed as dist


def save(model: torch.nn.Module, path: str) -> None:
    if dist.get_rank() != 0:
        return
    torch.save(model.state_dict(), path)
    dist.barrier()  # expect: DC702


if __name__ == "__main__":
    dist.init_process_group("gloo")
    save(torch.nn.Linear(2, 2), "model.pt")
    dist.destroy_process_group()
