def wrap(model, find_unused_parameters=True):
    return {"model": model, "find_unused_parameters": find_unused_parameters}


def main(model):
    settings = wrap(model, find_unused_parameters=True)
    print(settings)
