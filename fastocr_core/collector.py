"""The garbage collector at rest while torch and transformers are imported.

They make hundreds of thousands of objects that live as long as the process; looking through all of them again and again is
a quarter of what importing them costs.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No automatic collection inside; afterwards it is as it was before."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
