from comm import all_reduce


def step(model, batch, optimizer):
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    mean = all_reduce(loss.detach()) / 2
    return mean.item()
