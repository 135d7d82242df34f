import os

import torch
from transformers import Trainer, TrainingArguments


def main(model, data, checkpoint):
    weights = torch.load(checkpoint, map_location="cpu")
    model.load_state_dict(weights)
    print("GPU", int(os.environ.get("LOCAL_RANK", 0)))
    trainer = Trainer(model=model, args=TrainingArguments(output_dir="runs"), train_dataset=data)
    trainer.train()


def compare(model, checkpoint):
    model.load_state_dict(torch.load(checkpoint))
    return model


if __name__ == "__main__":
    main(torch.nn.Linear(2, 2), [], "model.pt")
