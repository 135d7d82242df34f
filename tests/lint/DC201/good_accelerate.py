from accelerate import Accelerator
import torch

accelerator = Accelerator()
index = accelerator.local_process_index
table = torch.zeros(4, device=torch.device("cuda", index))
other = torch.zeros(4, device=accelerator.device)
accelerator.print(table, other, accelerator.process_index)
