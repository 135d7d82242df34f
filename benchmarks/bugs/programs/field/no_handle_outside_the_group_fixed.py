import argparse

import torch
import torch.distributed as dist
import torch.nn as nn


class ParallelState:
    """The last rank serves the replay buffer, the others train."""

    def __init__(self):
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.trainers = list(range(self.world_size - 1))
        self.group = dist.new_group(self.trainers)

    @property
    def is_trainer(self):
        return self.rank in self.trainers


class GradientSync:
    def __init__(self, state):
        self.state, self.pending = state, []

    def start(self, parameters):
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(len(self.state.trainers))
                self.pending.append(dist.all_reduce(parameter.grad, group=self.state.group, async_op=True))

    def start_metric(self, metric):
        self.pending.append(dist.all_reduce(metric, group=self.state.group, async_op=True))

    def finish(self):
        for work in self.pending:
            work.wait()
        self.pending.clear()


def train_step(policy, optimizer, sync, batch):
    loss = (policy(batch) - batch.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    sync.start(policy.parameters())
    sync.finish()
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    state = ParallelState()
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    sync = GradientSync(state)
    batch = torch.empty(args.batch_size, 4)
    for step in range(args.steps):
        if not state.is_trainer:
            batch.normal_(generator=torch.Generator().manual_seed(step))
        dist.broadcast(batch, src=state.world_size - 1)
        loss = torch.zeros(())
        if state.is_trainer:
            own = batch.chunk(len(state.trainers))[state.rank]
            loss = train_step(policy, optimizer, sync, own)
            sync.start_metric(loss)
            sync.finish()
        if state.rank == 0:
            print(f"step {step}: loss {loss.item() / len(state.trainers):.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
