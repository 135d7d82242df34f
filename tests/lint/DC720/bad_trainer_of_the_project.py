"""A trainer of transformers guards its own saves, and not those of a tokenizer, a callback or a method of a subclass."""

import os

import torch
from transformers import AutoTokenizer, Trainer, TrainerCallback, TrainingArguments


class AdapterCallback(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        kwargs["model"].save_pretrained(os.path.join(args.output_dir, "adapter"))  # expect: DC720=info
        return control

    def on_train_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            kwargs["model"].save_pretrained(os.path.join(args.output_dir, "last"))


class RewardTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        return model(**inputs).mean()

    def save_model(self, output_dir=None, _internal_call=False):
        torch.save(self.model.state_dict(), os.path.join(self.args.output_dir, "reward.pt"))  # expect: DC720=info


def main(model, data, options, output_dir="out"):
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    trainer = RewardTrainer(
        model=model,
        args=TrainingArguments(output_dir=output_dir),
        train_dataset=data,
        callbacks=[AdapterCallback()],
    )
    trainer.train()
    tokenizer.save_pretrained(output_dir)  # expect: DC720=info
    if options.adapter:
        model.save_pretrained(output_dir + "/adapter")
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(output_dir + "/last")


if __name__ == "__main__":
    main(None, None, None)
