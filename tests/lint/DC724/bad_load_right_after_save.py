import torch
import torch.distributed as dist


def restore(model: torch.nn.Module) -> None:
    path = "initial.pt"
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path)
    model.load_state_dict(torch.load(path, map_location="cpu"))  # expect: DC724


if __name__ == "__main__":
    dist.init_process_group("gloo")
    restore(torch.nn.Linear(2, 2))
    dist.destroy_process_group()
