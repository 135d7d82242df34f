import lightning as L
import torch


class Speech(L.LightningModule):
    def __init__(self, model, tokenizer):
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.losses = []
        self.mixed = []
        self.outputs = []

    def validation_step(self, batch, batch_idx):
        logits = self.model(batch["audio"])
        self.losses.append(torch.nn.functional.cross_entropy(logits, batch["labels"]))
        self.mixed.append(self.tokenizer.decode(logits.argmax(-1)))
        self.mixed.append(logits.mean())
        self.outputs.append(self.model.search(logits))

    def on_validation_epoch_end(self):
        if self.global_rank == 0:
            print(self.all_gather(self.losses))  # expect: DC701
            print(self.all_gather(self.mixed))  # expect: DC701
            print(self.all_gather(self.outputs))  # expect: DC701=warning
            print(self.all_gather(self.global_step))  # expect: DC701
            last = {"name": "last"}
            last["step"] = torch.tensor(self.global_step)
            print(self.all_gather(last))  # expect: DC701
            print(self.all_gather(self.tokenizer.decode(self.codes)))  # expect: DC701=warning
            names = ["loss"]
            names.append(torch.cat([self.codes, self.codes]))
            both = self.all_gather(  # expect: DC701
                names
            )
            print(both)
