"""What SVGD and PBP have in common: a posterior over the weights of a network, learned from a weighted set of rows."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from aleator import heads, losses
from aleator.estimators import saving
from aleator.estimators.held_out import HeldOut
from aleator.estimators.quantified import QuantifiedRegressor
from aleator.estimators.reading import check_parameters, columns, training_rows
from aleator.estimators.table import Table, table
from aleator.losses import Loss

Floats = NDArray[np.float64]


class BayesianRegressor(QuantifiedRegressor):
    """Abstract: squared or absolute loss, an expected loss for each output, weights that count observations."""

    loss: str | Loss
    scaling: str
    learned: ClassVar[tuple[str, ...]]  # arrays that training leaves behind

    @abstractmethod
    def _train(self, learned: Table, total: float) -> HeldOut | None:
        """Learn from the table, whose rows stand for `total` observations; leaves the arrays `learned` behind.

        Returns what it says of rows it did not learn from, if there are any.
        """

    @abstractmethod
    def _file_sizes(self) -> dict[str, int]:
        """The sizes in the model file's layout that parameters determine."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,) or (n, m).

        Weights count observations: 2 is the row twice, and all weights 0.1 are a tenth of the data.
        """
        with self._as_it_was_on_error():
            return self._learn(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> Self:
        check_parameters(self)
        loss = losses.get(self.loss)
        heads.likelihood(loss)  # refuses what is neither squared nor absolute
        X, y, weight = training_rows(self, X, y, sample_weight)
        Y = columns(y)
        learned = table(X, Y, weight, loss, per_output=True, way=self.scaling)
        self.settings_ = self.get_params(deep=False)
        self.scaling_, self.loss_scale_ = learned.scaling, np.ones(Y.shape[1])
        self.y_is_1d_, self.n_outputs_ = y.ndim == 1, Y.shape[1]
        self._calibrated_by(self._train(learned, float(len(y) if weight is None else weight.sum())))
        return self

    def _means(self, X: Any) -> Floats:
        return self._answers(X)[0]

    def _loss(self) -> Loss:
        return losses.get(self.settings_["loss"])

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        facts, arrays = saving.pack(self, self.settings_)
        arrays |= {name: getattr(self, name) for name in (*self.learned, "loss_scale_")}
        return facts, arrays | saving.pack_scaling(self.scaling_)

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        model = saving.unpack(cls, facts, arrays)
        heads.likelihood(losses.get(model.loss))
        model.scaling_ = saving.unpack_scaling(arrays)
        D, M = len(model.scaling_.x_mean), model.n_outputs_
        model.n_features_in_ = D
        model._layout.check_arrays(arrays, {"outputs": M, "losses": M, "inputs": D} | model._file_sizes())
        for name in (*model.learned, "loss_scale_"):
            setattr(model, name, arrays[name])
        return model
