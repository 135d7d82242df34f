import torch
import torch.distributed as dist


def everyone(batches):
    found = []
    for batch in batches:
        found.append(batch.mean(dim=0))
    own = torch.cat(found, dim=0)
    out = [torch.zeros_like(own)] * dist.get_world_size()  # expect: DC712
    dist.all_gather(out, own)
    return torch.cat(out)


dist.init_process_group("gloo")
print(everyone([torch.rand(4, 4)]))
dist.destroy_process_group()
