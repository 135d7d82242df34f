import torch.distributed as dist


def reduce_gradients(model):
    handles = []
    for parameter in model.parameters():
        grad = parameter.grad
        handles.append(dist.all_reduce(grad.clone(), async_op=True))  # expect: DC711
    for handle in handles:
        handle.wait()
