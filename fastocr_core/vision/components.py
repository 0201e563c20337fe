"""Connected components of ink by runs of pixels: bounding boxes of the marks on a page.

Used to find the letter size of a scan whose resolution is unknown or wrong.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def tone_counts(grey: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How many pixels of a grey image [height, width] have each tone: int64 [256].

    Counted by Pillow: numpy would first blow every pixel up to eight bytes.
    """
    return np.array(Image.fromarray(grey).histogram(), np.int64)


def ink_threshold(grey: NDArray[np.uint8]) -> int:
    """Otsu's threshold of a grey image [height, width]: ink is below it. Range 0 to 255."""
    return threshold_between(tone_counts(grey))


def threshold_between(counts: NDArray[np.int64]) -> int:
    """Otsu's threshold of the tones counted in int64 [256]: ink is below it."""
    histogram = counts.astype(np.float64)
    weight = np.cumsum(histogram)
    mass = np.cumsum(histogram * np.arange(256))
    rest = weight[-1] - weight
    valid = (weight > 0) & (rest > 0)
    between = np.zeros(256)
    below = mass[valid] / weight[valid]
    above = (mass[-1] - mass[valid]) / rest[valid]
    between[valid] = weight[valid] * rest[valid] * (below - above) ** 2
    best = np.flatnonzero(between >= between.max() * (1 - 1e-9))
    return int((best[0] + best[-1]) // 2) + 1


def component_boxes(ink: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Bounding boxes of 8-connected components of a boolean page [height, width].

    Returns int64 [components, 5]: left, top, right, bottom (exclusive) and ink pixels.
    """
    height, width = ink.shape
    stride = width + 2
    padded = np.zeros((height, stride), np.bool_)
    padded[:, 1:-1] = ink
    pixels = padded.ravel()
    # Between two rows lies paper, so that starts and ends of runs take turns.
    edges = np.flatnonzero(pixels[1:] != pixels[:-1])
    if len(edges) == 0:
        return np.zeros((0, 5), np.int64)
    rows = edges[0::2] // stride
    starts, ends = edges[0::2] - rows * stride, edges[1::2] - rows * stride
    labels = _link(rows, starts, ends, width)
    count = int(labels.max()) + 1
    boxes = np.empty((count, 5), np.int64)
    boxes[:, 0], boxes[:, 1] = width, height
    boxes[:, 2:] = 0
    np.minimum.at(boxes[:, 0], labels, starts)
    np.minimum.at(boxes[:, 1], labels, rows)
    np.maximum.at(boxes[:, 2], labels, ends)
    np.maximum.at(boxes[:, 3], labels, rows + 1)
    np.add.at(boxes[:, 4], labels, ends - starts)
    return boxes


def _link(
    rows: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """Label runs (sorted by row, then start) so that touching runs of neighbouring rows share a label
    0..n-1.
    """
    stride = width + 4
    keys = rows * stride + starts
    # the runs of the next row that touch run i are those with start <= end_i and end >= start_i
    low = np.searchsorted(rows * stride + ends, (rows + 1) * stride + starts, side="left")
    high = np.searchsorted(keys, (rows + 1) * stride + ends, side="right")
    touching = np.maximum(high - low, 0)
    above = np.repeat(np.arange(len(rows)), touching)
    offsets = np.arange(len(above)) - np.repeat(np.cumsum(touching) - touching, touching)
    below = np.repeat(low, touching) + offsets
    parent = np.arange(len(rows))
    while True:  # the smallest run of a component becomes the parent of all; a few rounds
        first, second = parent[above], parent[below]
        apart = first != second
        if not apart.any():
            break
        above, below, first, second = above[apart], below[apart], first[apart], second[apart]
        np.minimum.at(parent, np.maximum(first, second), np.minimum(first, second))
        while not np.array_equal(parent, higher := parent[parent]):
            parent = higher
    numbers = np.cumsum(parent == np.arange(len(rows))) - 1
    labels: NDArray[np.int64] = numbers[parent]
    return labels
