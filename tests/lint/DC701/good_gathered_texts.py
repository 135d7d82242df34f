import lightning as L


class Speech(L.LightningModule):
    def __init__(self, model, tokenizer):
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.texts = []
        self.names = []

    def validation_step(self, batch, batch_idx):
        texts = []
        for ids in self.model(batch["audio"]):
            texts.append(self.tokenizer.decode(ids).strip())
        self.texts += texts
        self.names.append(", ".join(texts))
        self.names.append(f"{batch_idx}: {len(texts)}")

    def on_validation_epoch_end(self):
        if self.global_rank == 0:
            texts = self.all_gather(self.texts)
            names = self.all_gather(self.names)
            print(texts, names)
            print(self.all_gather([str(self.global_step), "last"]))
        self.texts = []
        self.names = []
