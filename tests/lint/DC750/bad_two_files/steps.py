def train_step(model, optimizer, batch):
    outputs = model.module(batch)  # expect: DC750
    loss = outputs.float().pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
