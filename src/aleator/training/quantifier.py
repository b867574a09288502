"""The quantifier of given losses: networks, trees, or a mixture of both, whichever held-out rows prefer.

Networks see smooth structure and continue it; trees see local structure, such as steps and rare combinations. Losses
have both. A mixture expects (1 - s) e_networks + s e_trees. The share s is one half, unless another of a few has
a clearly smaller mean of L / e + ln e on held-out rows. What fails its check there gives way to the next that does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from aleator.array_types import AnyFloats, Floats, Integers
from aleator.preprocessing.standardisation import Scaling
from aleator.training import defaults
from aleator.training.given_losses import GivenLosses, given_losses
from aleator.training.held_out import HeldOutLosses
from aleator.training.loss_network import LossNetworkResult, LossNetworks, fit_loss_networks
from aleator.training.loss_trees import LossTrees, LossTreesResult, fit_loss_trees
from aleator.training.settings import QuantifierSettings

SHARES = {"network": (0.0,), "trees": (1.0,), "mixed": (0.5, 0.25, 0.75), "auto": (0.5, 0.25, 0.75, 0.0, 1.0)}


@dataclass(frozen=True)
class LossModel:
    """What predicts losses from a table Z: networks, trees, or both with a share of the trees between 0 and 1."""

    scaling: Scaling
    unit: Floats  # (Q,)
    networks: LossNetworks | None
    trees: LossTrees | None
    tree_share: float

    @property
    def n_inputs(self) -> int:
        """Columns of Z."""
        return len(self.scaling.x_mean)

    @property
    def kind(self) -> str:
        """What it is made of: "network", "linear", "trees" or "mixed"."""
        if self.networks is None:
            return "trees"
        if self.trees is not None:
            return "mixed"
        return "network" if len(self.networks.network.matrices) > 1 else "linear"

    def expected_loss(self, Z: AnyFloats) -> Floats:
        """The expected loss (n, Q), in the units of the loss."""
        return _mixed(
            None if self.networks is None else self.networks.expected_loss(Z),
            None if self.trees is None else self.trees.expected_loss(Z),
            self.tree_share,
        )

    def weights(self, Z: AnyFloats) -> Floats:
        """f(z) (n, Q), the weight of each row's loss in the joint loss; that of trees is z = lam / e."""
        if self.trees is None:
            assert self.networks is not None
            return self.networks.weights(Z)
        lam = np.where(self.unit > 0, self.unit, 1.0)
        weights: Floats = lam / np.maximum(self.expected_loss(Z), defaults.TREE_LEAST_LOSS * lam)
        return weights


@dataclass(frozen=True)
class LossModelResult:
    """A trained quantifier, its losses on held-out rows, how training went, and why others were rejected."""

    model: LossModel
    held_out: HeldOutLosses | None
    epochs: Integers
    history: pd.DataFrame
    rejected: tuple[str, ...] = ()


def fit_loss_model(
    settings: QuantifierSettings, Z: AnyFloats, L: Floats, weight: Floats, fold: Integers
) -> LossModelResult:
    """Train on rows Z (n, D) with losses L (n, Q) and weights (n,); rows of one `fold` (n,) are held out together."""
    given = given_losses(Z, L, weight, fold)
    kind = _kind(settings, given)
    networks = fit_loss_networks(settings, given) if kind != "trees" else None
    trees = fit_loss_trees(settings, given) if kind != "network" else None
    found = [_with_share(settings, given, networks, trees, share) for share in SHARES[kind]]
    held_nothing_out = settings.epochs is not None and not settings.rescale
    if held_nothing_out or any(each.held_out is None for each in found):
        return replace(found[0], held_out=None)
    found.sort(key=_preference(found[0]))
    if not settings.rescale:
        return found[0]
    passed = next((each for each in found if not any(_judged(each).check().problems)), None)
    return passed or _linear_if_better(settings, given, found[0])


def _preference(usual: LossModelResult) -> Callable[[LossModelResult], tuple[int, float]]:
    """A key to sort by: what is clearly better than the usual share, by score; then that; then all others."""

    def key(result: LossModelResult) -> tuple[int, float]:
        judged = _judged(result)
        if result is usual:
            return 1, judged.score
        better = judged.clearly_beats(_judged(usual), defaults.SHARE_ERRORS)
        return (0 if better else 2), judged.score

    return key


def _judged(result: LossModelResult) -> HeldOutLosses:
    assert result.held_out is not None
    return result.held_out


def _kind(settings: QuantifierSettings, given: GivenLosses) -> str:
    """The kind to train: "auto" is networks where trees could not be judged, or would have hardly a leaf."""
    if settings.quantifier != "auto":
        return settings.quantifier
    judged = len(np.unique(given.fold[given.rows])) > 1 and (settings.epochs is None or settings.rescale)
    return "auto" if judged and len(given.rows) >= defaults.TREE_ROWS and settings.hidden else "network"


def _with_share(
    settings: QuantifierSettings,
    given: GivenLosses,
    networks: LossNetworkResult | None,
    trees: LossTreesResult | None,
    share: float,
) -> LossModelResult:
    """A quantifier with so much of the trees."""
    networks, trees = networks if share < 1 else None, trees if share > 0 else None
    scaling = given.scaling(settings.scaling) if networks is None else networks.networks.scaling
    model = LossModel(
        scaling,
        given.unit,
        None if networks is None else networks.networks,
        None if trees is None else trees.trees,
        share,
    )
    epochs = np.zeros(settings.n_members, np.int64) if networks is None else networks.epochs
    history = (networks or trees).history  # type: ignore[union-attr]
    return LossModelResult(model, _held_out(networks, trees, share), epochs, history)


def _held_out(networks: LossNetworkResult | None, trees: LossTreesResult | None, share: float) -> HeldOutLosses | None:
    """The held-out rows of both, with what a mixture expects there."""
    first = networks or trees
    assert first is not None
    if networks is None or trees is None or networks.held_out is None or trees.held_out is None:
        return first.held_out
    place = np.empty(networks.held_out.rows.max() + 1, np.int64)
    place[trees.held_out.rows] = np.arange(len(trees.held_out.rows))
    by_trees = trees.held_out.predicted[place[networks.held_out.rows]]
    return replace(networks.held_out, predicted=_mixed(networks.held_out.predicted, by_trees, share))


def _mixed(networks: Floats | None, trees: Floats | None, share: float) -> Floats:
    if networks is None or trees is None:
        only = trees if networks is None else networks
        assert only is not None
        return only
    return (1 - share) * networks + share * trees


def _linear_if_better(settings: QuantifierSettings, given: GivenLosses, failed: LossModelResult) -> LossModelResult:
    """Linear networks in place of a quantifier that failed its check, if they have the better score."""
    if not settings.hidden:
        return failed
    simpler = fit_loss_networks(replace(settings, hidden=()), given)  # type: ignore[type-var]
    linear = _with_share(settings, given, simpler, None, 0.0)
    problems = tuple(filter(None, _judged(failed).check().problems))
    return replace(linear, rejected=problems) if _judged(linear).score < _judged(failed).score else failed
