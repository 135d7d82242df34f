import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

END = 0


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens).mean(dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def shard(model, mesh):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@torch.no_grad()
def generate(model, prompt, max_new_tokens, bias):
    tokens, finished = prompt, False
    for _ in range(max_new_tokens):
        logits = model(tokens)
        logits[:, END] += bias * tokens.shape[1]
        following = logits.argmax(dim=-1, keepdim=True)
        if not finished:
            tokens = torch.cat([tokens, following], dim=1)
        finished = finished or bool((following == END).all())
        if finished:
            break
    return tokens


def train(model, args):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    data = torch.Generator().manual_seed(20 + dist.get_rank())
    for step in range(args.steps):
        tokens = torch.randint(1, 16, (4, 6), generator=data)
        loss = nn.functional.cross_entropy(model(tokens), tokens[:, -1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--max-new-tokens", type=int, default=12)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = shard(Model(16, 8), init_device_mesh("cpu", (world_size,)))
    train(model, args)
    # the prompts of rank 1 are longer, so that their answers end earlier
    prompt = torch.randint(1, 16, (1, 2 + 4 * rank), generator=torch.Generator().manual_seed(rank))
    answer = generate(model, prompt, args.max_new_tokens, bias=0.2)
    dist.barrier()
    print(f"rank {rank}: answer of {answer.shape[1] - prompt.shape[1]} tokens")
    model = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
