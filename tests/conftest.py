"""What tests of several modules share."""

import pytest

from aleator.training import defaults


@pytest.fixture(scope="module")
def short_training():
    """lam="auto" with an eighth of its epochs: every step of it is taken, where it does not matter how well it learns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defaults, "MAX_EPOCHS", defaults.MAX_EPOCHS // 8)
        yield
