"""Data to try things on: made up, with the truth beside them, and the six sets of the paper (`load`)."""

from aleator.datasets.houses import houses
from aleator.datasets.loading import load
from aleator.datasets.msd import msd_shaped
from aleator.datasets.real import NAMES, Dataset
from aleator.datasets.synthetic import Synthetic, smooth, smooth_truth, two_strips, two_strips_region, two_strips_truth

__all__ = [
    "NAMES",
    "Dataset",
    "Synthetic",
    "houses",
    "load",
    "msd_shaped",
    "smooth",
    "smooth_truth",
    "two_strips",
    "two_strips_region",
    "two_strips_truth",
]
