import os

import torch
from transformers import Trainer, TrainingArguments


def main(model, data, checkpoint):
    weights = torch.load(checkpoint)  # expect: DC723=info
    model.load_state_dict(weights)
    print("GPU", int(os.environ.get("LOCAL_RANK", 0)))
    trainer = Trainer(model=model, args=TrainingArguments(output_dir="runs"), train_dataset=data)
    trainer.train()


if __name__ == "__main__":
    main(torch.nn.Linear(2, 2), [], "model.pt")
