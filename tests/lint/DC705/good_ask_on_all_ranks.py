import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main() -> None:
    dist.init_process_group("gloo")
    model = FSDP(torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    state = model.state_dict()
    if dist.get_rank() == 0:
        torch.save(state, "model.pt")
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id="last")
    with FSDP.summon_full_params(model):
        if dist.get_rank() == 0:
            print(sum(parameter.numel() for parameter in model.parameters()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
