import os

from accelerate import Accelerator
from accelerate.utils import DistributedType


def main():
    accelerator = Accelerator()
    for step in range(100):
        if accelerator.is_main_process:
            os.makedirs(f"state-{step}", exist_ok=True)
        accelerator.save_state(f"state-{step}")
        if accelerator.is_main_process or accelerator.distributed_type == DistributedType.DEEPSPEED:
            accelerator.save_state("last")


if __name__ == "__main__":
    main()
