from train import step


def run(model, batches):
    for batch in batches:
        step(model, batch)
