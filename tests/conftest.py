"""What tests of several modules share."""

import pytest

from aleator.training import defaults


@pytest.fixture(scope="module")
def short_training():
    """An eighth of the epochs of lam="auto", four folds, few trees: every step is taken, where it does not matter how well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defaults, "MAX_EPOCHS", defaults.MAX_EPOCHS // 8)
        patch.setattr(defaults, "MANY_FOLDS", 4)
        patch.setattr(defaults, "FEW_FOLDS", 3)
        patch.setattr(defaults, "TREES", (20,))
        yield
