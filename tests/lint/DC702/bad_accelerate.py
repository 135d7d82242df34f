from accelerate import Accelerator


def publish(accelerator: Accelerator, weights: dict) -> None:
    if not accelerator.is_main_process:
        return
    print(len(weights))
    accelerator.wait_for_everyone()  # expect: DC702
