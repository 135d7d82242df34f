import os
import warnings

import torch
import torch.distributed as dist


def main():
    if os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0":
        warnings.warn("a dead rank would hang this job: error handling is off", stacklevel=1)
        del os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
