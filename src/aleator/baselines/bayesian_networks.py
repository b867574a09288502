"""What SVGD and PBP have in common: a posterior over the weights of a network, learned from a weighted set of rows."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

from aleator import losses, objectives
from aleator.array_types import Floats
from aleator.estimators.base import QuantifiedRegressor
from aleator.losses import Loss
from aleator.model_files import serialization
from aleator.preprocessing.parameter_checks import check_parameters
from aleator.preprocessing.standardisation import TrainingSet, training_set
from aleator.preprocessing.validation import columns, training_rows
from aleator.training.held_out import HeldOutLosses


class BayesianRegressor(QuantifiedRegressor):
    """Abstract: squared or absolute loss, an expected loss for each output, weights that count observations."""

    loss: str | Loss
    scaling: str
    learned: ClassVar[tuple[str, ...]]  # arrays that training leaves behind

    @abstractmethod
    def _train(self, learned: TrainingSet, total: float) -> HeldOutLosses | None:
        """Learn from the rows, which stand for `total` observations, and set the arrays named in `learned`.

        Returns the losses of rows it did not learn from, if there are any.
        """

    @abstractmethod
    def _file_sizes(self) -> dict[str, int]:
        """The sizes in the model file's layout that parameters determine."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a table.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Numbers.
        y : array-like of shape (n,) or (n, m)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weights that count observations: 2 is the row twice, and all weights 0.1 are a tenth of the data.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._restored_on_error():
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        check_parameters(self)
        loss = losses.get(self.loss)
        objectives.likelihood(loss)  # refuses what is neither squared nor absolute
        X, y, weight = training_rows(self, X, y, sample_weight)
        Y = columns(y)
        learned = training_set(X, Y, weight, loss, per_output=True, method=self.scaling)
        self.settings_ = self.get_params(deep=False)
        self.scaling_ = learned.scaling
        self.y_is_1d_, self.n_outputs_ = y.ndim == 1, Y.shape[1]
        self._set_correction(None, Y.shape[1])
        self._set_scores(self._train(learned, float(len(y) if weight is None else weight.sum())))

    def _predict(self, X: Any) -> Floats:
        return self._predict_parts(X)[0]

    def _loss(self) -> Loss:
        return losses.get(self.settings_["loss"])

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        facts, arrays = serialization.pack(self, self.settings_)
        arrays |= {name: getattr(self, name) for name in self.learned} | {"loss_scale_": self.loss_scale_}
        return facts, arrays | serialization.pack_scaling(self.scaling_)

    @classmethod
    def _unpacked(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Any:
        model = serialization.unpack(cls, facts, arrays)
        objectives.likelihood(losses.get(model.loss))
        model.scaling_ = serialization.unpack_scaling(arrays)
        D, M = len(model.scaling_.x_mean), model.n_outputs_
        model.n_features_in_ = D
        model._layout.check_arrays(arrays, {"outputs": M, "losses": M, "inputs": D} | model._file_sizes())
        for name in model.learned:
            setattr(model, name, arrays[name])
        return model
