"""Data to try things on."""

from aleator.datasets.houses import houses
from aleator.datasets.synthetic import Synthetic, smooth, two_strips, two_strips_truth

__all__ = ["Synthetic", "houses", "smooth", "two_strips", "two_strips_truth"]
