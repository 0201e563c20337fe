"""Tells running out of memory from other failures, and gives cached memory back."""

import gc

import torch


def is_out_of_memory(failure: BaseException) -> bool:
    """Whether the device, torch's CPU allocator or Python itself had no memory left."""
    if isinstance(failure, (torch.OutOfMemoryError, MemoryError)):
        return True
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(failure, RuntimeError) and "can't allocate memory" in str(failure)


def release_cached_memory() -> None:
    """Collect what only cycles hold, and hand torch's unused CUDA blocks back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
