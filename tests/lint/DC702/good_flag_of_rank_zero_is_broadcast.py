import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    rank = dist.get_rank()
    world = dist.get_world_size()
    ddp = world > 1
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
    best = 0.0

    def run_eval(step):
        nonlocal best
        stop = rank == 0 and step - best >= 4
        if ddp:
            flag = torch.tensor(int(stop), device="cuda")
            dist.broadcast(flag, src=0)
            stop = bool(flag.item())
        return stop

    stop_early = False
    step = 0
    while True:
        stop_early = step % 10 == 0 and run_eval(step)
        if stop_early:
            break
        net(torch.ones(2).cuda()).sum().backward()
        loss = torch.ones(1).cuda()
        dist.all_reduce(loss)
        step += 1


if __name__ == "__main__":
    main()
