import torch


def train_one_epoch(model, optimizer, loss_scaler, epoch):
    model.train(True)
    for step in range(100):
        latents = torch.randn(8, 16, device="cuda")
        with torch.autocast("cuda"):
            if hasattr(model, "module"):
                loss = model.module(latents)  # expect: DC750
            else:
                loss = model(latents)
        loss_scaler(loss.mean(), optimizer, parameters=model.parameters())
        optimizer.zero_grad()
        if step % 20 == 0:
            print(epoch, step, loss.detach().mean().item())
