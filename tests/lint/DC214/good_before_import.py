import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"

import torch  # noqa: E402

print(torch.cuda.device_count())
