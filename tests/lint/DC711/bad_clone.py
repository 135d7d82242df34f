from torch import distributed as dist


def report(metrics, step):
    loss = metrics["loss"]
    dist.all_reduce(loss.clone(), op=dist.ReduceOp.AVG)  # expect: DC711
    if dist.get_rank() == 0:
        print(step, loss.item())
