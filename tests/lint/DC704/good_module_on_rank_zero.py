import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


@torch.no_grad()
def evaluate(network: torch.nn.Module, batches: list) -> float:
    return sum(network(batch).mean().item() for batch in batches)


def unwrap(model: torch.nn.Module) -> torch.nn.Module:
    return model.module if hasattr(model, "module") else model


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.BatchNorm1d(8))
    batches = [torch.rand(4, 8)]
    if dist.get_rank() == 0:
        print(evaluate(model.module, batches))
        print(evaluate(unwrap(model), batches))
        plain = model.module if isinstance(model, DDP) else model
        with torch.no_grad():
            print(plain(batches[0]).mean())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
