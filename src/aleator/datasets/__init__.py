"""Data to try things on."""

from aleator.datasets.houses import houses
from aleator.datasets.synthetic import Synthetic, smooth, smooth_truth, two_strips, two_strips_region, two_strips_truth

__all__ = ["Synthetic", "houses", "smooth", "smooth_truth", "two_strips", "two_strips_region", "two_strips_truth"]
