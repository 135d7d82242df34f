import argparse
from collections import Counter

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

TEXTS = [
    ("the red house is old and red", 0),
    ("a blue sky and a blue sea", 1),
    ("the old red barn by the red road", 0),
    ("blue ice under a blue moon", 1),
    ("red leaves on the old wall", 0),
    ("a sea of blue flowers by the road", 1),
    ("the wall is red and the barn is red", 0),
    ("under the moon a blue wall", 1),
] * 4


class Vocabulary:
    """The most frequent words, up to a fixed size, so that the embedding has one shape everywhere."""

    def __init__(self, texts, size):
        counts = Counter(word for text in texts for word in text.split())
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        self.ids = {word: index + 1 for index, word in enumerate(ordered[: size - 1])}

    def encode(self, text, length=10):
        ids = [self.ids.get(word, 0) for word in text.split()][:length]
        return ids + [0] * (length - len(ids))


class Texts(Dataset):
    def __init__(self, rows, vocabulary):
        self.rows = [(torch.tensor(vocabulary.encode(text)), label) for text, label in rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class Classifier(nn.Module):
    def __init__(self, size, width=12):
        super().__init__()
        self.embedding = nn.Embedding(size, width)
        self.out = nn.Linear(width, 2)

    def forward(self, ids):
        return self.out(self.embedding(ids).mean(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--vocabulary-size", type=int, default=10)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    share = TEXTS[rank::world]
    vocabulary = Vocabulary([text for text, _ in TEXTS], args.vocabulary_size)
    torch.manual_seed(0)
    loader = DataLoader(Texts(share, vocabulary), batch_size=4, shuffle=True)
    model = DDP(Classifier(args.vocabulary_size))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(args.epochs):
        for ids, labels in loader:
            loss = nn.functional.cross_entropy(model(ids), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"rank {rank}: loss {loss.item():.4f}, id of blue {vocabulary.ids.get('blue', 0)}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
