import connect
import torch
import torch.distributed as dist


def run(gpus, device_id):
    rank = connect.join_group(device_id, len(gpus), gpus)
    torch.cuda.set_device(device_id)
    print(rank)
    dist.destroy_process_group()


def main(gpus):
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=run, args=(gpus, device_id)) for device_id in range(len(gpus))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(1)


if __name__ == "__main__":
    main([0, 1])
