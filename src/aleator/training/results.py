"""What came out of training: members, the rows they had not seen, and what is known of their scale."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from aleator.array_types import Floats, Floats32, Integers, Rows
from aleator.engine import Data


@dataclass(frozen=True)
class HeldOutPart:
    """Rows of `data`, with the parameters and lams (K,) of members that have not seen them.

    Attributes
    ----------
    xi_ranges : the range (2, Q) each member's xi is clipped to; None for no limit.
    quantifier_share : (Q,) what quantifiers predict for these rows, as a share of what they would predict if the losses
        they learned were those of models that had not seen the rows either (`auto/fold_correction.py`).
    """

    data: Data
    rows: Rows
    params: Sequence[Floats32]
    lams: Floats
    xi_ranges: Sequence[Floats32] | None = None
    quantifier_share: Floats | None = None

    @property
    def corrected_lams(self) -> Floats:
        """The lams, (K,) or (K, Q), with which the expected loss of these rows is computed."""
        return self.lams if self.quantifier_share is None else self.lams[:, None] / self.quantifier_share


@dataclass(frozen=True)
class TrainingResult:
    """Trained members, and the rows that were held out in training.

    Attributes
    ----------
    params : (K, P) float32. lams, epochs : (K,), at the end of training.
    history : a table of losses for each member.
    held_out : the rows held out, with members that had not seen them.
    loss_share : (Q,) the part of the losses on these rows that is left for members that learned from all rows.
    gave_up : whether noisy regions were given up (lam="auto").
    xi_ranges : the range (2, Q) each member's xi is clipped to; None without held-out rows, as in the paper.
    """

    params: Floats32
    lams: Floats
    epochs: Integers
    history: list[pd.DataFrame]
    held_out: tuple[HeldOutPart, ...] = ()
    loss_share: Floats = field(default_factory=lambda: np.ones(1))
    gave_up: bool = False
    xi_ranges: Sequence[Floats32] | None = None
