import torch
from accelerate import Accelerator
from accelerate.utils import set_seed


def main():
    accelerator = Accelerator()
    set_seed(42, device_specific=True)
    model = accelerator.prepare(torch.nn.Linear(4, 4))
    for _ in range(100):
        noise = torch.randn(8, 4, device=accelerator.device)
        accelerator.backward(model(noise).sum())


if __name__ == "__main__":
    main()
