"""A scheduler, a loss scale and a random generator hold numbers, or tensors of the CPU."""

import os

import torch
import torch.distributed as dist


def train(args, scheduler, grad_scaler, rng_state):
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    scheduler.load_state_dict(torch.load(os.path.join(args.model_name_or_path, "scheduler.pt")))
    grad_scaler.load_state_dict(torch.load(os.path.join(args.model_name_or_path, "scaler.pt")))


def resume(args, optimizer):
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    plan.load_state_dict(torch.load(args.checkpoint))
    return plan


def main(args, scheduler, scaler, optimizer):
    train(args, scheduler, scaler, None)
    return resume(args, optimizer)


main(*map(object, range(4)))
