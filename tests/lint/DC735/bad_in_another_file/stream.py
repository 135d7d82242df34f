import numpy as np
import torch
import torch.utils.data


class TokenStream(torch.utils.data.IterableDataset):  # expect: DC735
    """Tokens of several files, one after another."""

    def __init__(self, files, length):
        super().__init__()
        self.files = files
        self.length = length

    def _read(self, path):
        tokens = np.memmap(path, dtype=np.uint16, mode="r")
        for start in range(0, len(tokens) - self.length, self.length):
            yield torch.from_numpy(tokens[start : start + self.length].astype(np.float32))

    def __iter__(self):
        for path in self.files:
            yield from self._read(path)
