import os
import subprocess

for rate in (0.1, 0.01):
    command = "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --lr {}".format(rate)
    os.system(command)  # expect: DC813=info
    os.system("python -m torch.distributed.launch --nproc_per_node 4 " + "train.py")  # expect: DC813=info, DC801
    subprocess.run(["torchrun", "--standalone", "train.py"])  # expect: DC813=info
    subprocess.call(["srun", "python", "train.py"])  # expect: DC813=info
