"""Whether a device can be used here, asked before anything is loaded onto it."""

import torch


def check_device(name: str) -> None:
    """ValueError, in one sentence, where no number can be put on that device and read back; `auto` always can."""
    if name == "auto":
        return
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError) as failure:
        reason = (str(failure).strip().splitlines() or [type(failure).__name__])[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from failure
