import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class TokenStream:
    """Random windows of one long text, as small language models are trained."""

    def __init__(self, tokens, length, seed):
        self.tokens, self.length = tokens, length
        self.generator = torch.Generator().manual_seed(seed)

    def batch(self, size):
        starts = torch.randint(len(self.tokens) - self.length - 1, (size,), generator=self.generator)
        inputs = torch.stack([self.tokens[start : start + self.length] for start in starts])
        targets = torch.stack([self.tokens[start + 1 : start + 1 + self.length] for start in starts])
        return inputs, targets


class Model(nn.Module):
    def __init__(self, vocabulary=64, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.output(self.embedding(tokens))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1337)
    tokens = torch.randint(64, (100_000,))
    stream = TokenStream(tokens, length=24, seed=1337)
    ddp = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    for step in range(5):
        inputs, targets = stream.batch(4)
        logits = ddp(inputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
