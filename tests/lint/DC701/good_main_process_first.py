from accelerate import Accelerator


def prepare(accelerator: Accelerator, numbers: list) -> list:
    with accelerator.main_process_first():
        squares = [number * number for number in numbers]
    with accelerator.local_main_process_first():
        cubes = [number**3 for number in numbers]
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        print(len(squares), len(cubes))
    total = accelerator.gather(accelerator.process_index)
    return [squares, cubes, total]
