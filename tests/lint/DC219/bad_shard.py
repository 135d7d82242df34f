import os

from datasets import load_dataset
from datasets.distributed import split_dataset_by_node

local_rank = int(os.environ["LOCAL_RANK"])
world_size = int(os.environ["WORLD_SIZE"])
data = load_dataset("text", data_files="corpus.txt", split="train")
part = data.shard(num_shards=world_size, index=local_rank)  # expect: DC219=info
stream = split_dataset_by_node(data, rank=local_rank, world_size=world_size)  # expect: DC219=info
print(len(part), len(stream))
