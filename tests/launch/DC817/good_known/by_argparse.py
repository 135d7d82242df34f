import argparse

from transformers import TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--no_cuda", action="store_true")
args = parser.parse_args()
training = TrainingArguments(output_dir="out")
print(training.local_rank)
