import sys

import torch
from composer.utils import dist, get_device
from omegaconf import OmegaConf


def main(config) -> None:
    dist.initialize_dist(get_device(None), timeout=config.timeout)
    print(torch.cuda.device_count())


if __name__ == "__main__":
    config = OmegaConf.load(sys.argv[1])
    torch.save(config, config.folder + "/config.pt")  # expect: DC720=info
    main(config)
