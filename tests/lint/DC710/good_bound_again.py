"""Only the calls in the loop have a handle, and only those are waited for."""
import torch
import torch.distributed as dist


def drain(buffers, inputs, weights, parallel):
    if parallel:
        handle = dist.all_gather_into_tensor(buffers[0], inputs.pop(0), async_op=False)
    for index in range(len(inputs)):
        if parallel:
            handle = dist.all_gather_into_tensor(buffers[index % 2], inputs.pop(0), async_op=True)
        torch.mm(buffers[(index + 1) % 2], weights)
        if parallel:
            handle.wait()
