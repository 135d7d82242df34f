import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main() -> None:
    dist.init_process_group("gloo")
    model = FSDP(torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    rank = dist.get_rank()
    if rank == 0:
        state = FSDP.optim_state_dict(model, optimizer)  # expect: DC705
        torch.save(state, "optimizer.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
