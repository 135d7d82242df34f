import os
import sys

import matplotlib.pyplot as plt
import pandas as pd
import torch.distributed as dist


def main(folder, losses):
    dist.init_process_group("gloo")
    table = pd.DataFrame({"loss": losses})
    if dist.get_rank() == 0:
        table.to_csv(os.path.join(folder, "losses.csv"))
        plt.plot(losses)
        plt.savefig("losses.png")
    table.to_excel(os.path.join(folder, f"losses-{dist.get_rank()}.xlsx"), index=False)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], [1.0, 0.5])
