"""The first turn of the loop waits for the result of the call before it."""
import torch
import torch.distributed as dist


def drain(buffers, inputs, weights):
    handle = dist.all_gather_into_tensor(buffers[0], inputs.pop(0), async_op=False)  # expect: DC710
    for index in range(len(inputs)):
        torch.mm(buffers[(index + 1) % 2], weights)
        handle.wait()
        handle = dist.all_gather_into_tensor(buffers[index % 2], inputs.pop(0), async_op=True)
