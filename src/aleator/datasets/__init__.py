"""Data to try things on."""

from aleator.datasets.synthetic import Synthetic, smooth, two_strips, two_strips_truth

__all__ = ["Synthetic", "smooth", "two_strips", "two_strips_truth"]
