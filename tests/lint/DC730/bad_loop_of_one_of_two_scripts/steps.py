def run(model, optimizer, loader):
    for (batch,) in loader:
        model(batch.cuda()).sum().backward()
        optimizer.step()
