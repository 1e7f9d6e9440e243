"""A producer and a consumer process that share tensors of the device. A program for ``python -m torch_openreg sweep``."""

import queue

import recovery
import torch
import torch.multiprocessing as mp

DEVICE = torch.accelerator.current_accelerator()
ITEMS = 3
SECONDS = 20  # a tensor that cannot be shared is lost in the queue, which reports it and goes on


def consume(received: "mp.Queue", sent: "mp.Queue") -> None:
    """Doubles each tensor in place and says so; passes an error on."""
    torch.set_num_threads(1)
    try:
        for _ in range(ITEMS):
            tensor = received.get(timeout=SECONDS)
            tensor.mul_(2)
            torch.accelerator.synchronize()
            del tensor
            sent.put(None)
    except RuntimeError as error:
        sent.put(str(error))
    except queue.Empty:
        sent.put("no tensor has arrived")


def produce() -> str:
    context = mp.get_context("spawn")
    to_consumer, from_consumer = context.Queue(), context.Queue()
    consumer = context.Process(target=consume, args=(to_consumer, from_consumer), name="consumer")
    consumer.start()
    try:
        tensors = [torch.full((1000,), float(i + 1), device=DEVICE) for i in range(ITEMS)]
        torch.accelerator.synchronize()
        for tensor in tensors:
            to_consumer.put(tensor)
            error = from_consumer.get(timeout=3 * SECONDS)
            if error is not None:
                raise RuntimeError(error)
        return recovery.digest(tensors)
    finally:
        consumer.join(SECONDS)
        if consumer.is_alive():
            consumer.kill()


if __name__ == "__main__":
    torch.set_num_threads(1)
    recovery.run(produce)
