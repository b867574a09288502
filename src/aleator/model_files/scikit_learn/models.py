"""Models that are sums and products of arrays: linear models, support vectors, networks, kernels, neighbours."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn import (
    dummy,
    gaussian_process,
    isotonic,
    kernel_ridge,
    linear_model,
    neighbors,
    neural_network,
    svm,
)
from sklearn.gaussian_process import kernels

from aleator.model_files.object_records import Record, UnstorableError
from aleator.model_files.schema import Array, Sizes, Value, check_arrays, count, floats
from aleator.model_files.scikit_learn.supported_type import FEATURES, Kind, demand, record

_LINEAR: dict[str, Array] = {
    "coef_": floats(("features",), ("outputs", "features")),
    "intercept_": floats((), ("outputs",), (1,)),
    "alpha_": floats((), optional=True),
    "scale_": floats((), optional=True),
}


def _pack_linear(thing: Any, found: Record) -> None:
    if not isinstance(thing.coef_, np.ndarray):
        raise UnstorableError("sparse coefficients")


def _finish_generalised(thing: Any, found: Record, sizes: Sizes) -> None:
    thing._base_loss = thing._get_loss()


def _finish_svr(thing: Any, found: Record, sizes: Sizes) -> None:
    demand(thing.kernel in ("linear", "poly", "rbf", "sigmoid"), "the kernel of an SVR must be one of scikit-learn's")
    demand(thing._n_support[0] == sizes["vectors"], "support vectors are missing")
    thing._sparse, thing._probA, thing._probB = False, np.empty(0), np.empty(0)
    thing._effective_probability = False
    thing.dual_coef_, thing.intercept_ = thing._dual_coef_, thing._intercept_
    thing.shape_fit_ = (sizes["vectors"], sizes["features"])
    thing.class_weight_ = np.empty(0)
    thing.fit_status_ = 0


_SVR: dict[str, Array] = {
    "support_": Array(("i4",), (("vectors",),), low=0),
    "support_vectors_": Array(("f8",), (("vectors", "features"),)),
    "_n_support": Array(("i4",), ((2,),), low=0),
    "_dual_coef_": Array(("f8",), ((1, "vectors"),)),
    "_intercept_": Array(("f8",), ((1,),)),
    "_gamma": Array(("f8",), ((),), low=0),
}


def _pack_svr(thing: Any, found: Record) -> None:
    if thing._sparse:
        raise UnstorableError("sparse support vectors")
    found.arrays["_gamma"] = np.asarray(float(thing._gamma))


def _pack_mlp(thing: Any, found: Record) -> None:
    for k, (weights, bias) in enumerate(zip(thing.coefs_, thing.intercepts_, strict=True)):
        found.arrays |= {f"coefs_ {k}": np.ascontiguousarray(weights), f"intercepts_ {k}": bias}


def _finish_mlp(thing: Any, found: Record, sizes: Sizes) -> None:
    n_layers = len(found.arrays) // 2
    demand(1 <= n_layers <= 1_000 and thing.n_layers_ == n_layers + 1, "layers of an MLPRegressor are missing")
    demand(thing.out_activation_ in ("identity", "exp"), "unknown activation of an MLPRegressor")
    widths = [sizes["features"], *(len(found.arrays.get(f"intercepts_ {k}", ())) for k in range(n_layers))]
    demand(widths[-1] == thing.n_outputs_, "outputs of an MLPRegressor are missing")
    specs: dict[str, Array] = {}
    for k in range(n_layers):
        specs |= {f"coefs_ {k}": floats((widths[k], widths[k + 1])), f"intercepts_ {k}": floats((widths[k + 1],))}
    check_arrays(specs, found.arrays, {})
    thing.coefs_ = [found.arrays[f"coefs_ {k}"] for k in range(n_layers)]
    thing.intercepts_ = [found.arrays[f"intercepts_ {k}"] for k in range(n_layers)]


def _finish_neighbors(thing: Any, found: Record, sizes: Sizes) -> None:
    """Nearest neighbours are those of the rows given to `fit`, which learns nothing else."""
    X, y = thing._fit_X, thing._y
    del thing._fit_X, thing._y
    demand(isinstance(thing.metric, str) and thing.metric != "precomputed", "unknown metric of nearest neighbours")
    names = thing.__dict__.pop("feature_names_in_", None)
    thing.fit(X if names is None else pd.DataFrame(X, columns=names), y)


def _pack_neighbors(thing: Any, found: Record) -> None:
    if not isinstance(thing._fit_X, np.ndarray) or thing.effective_metric_ == "precomputed":
        raise UnstorableError("sparse rows")
    if not isinstance(thing.metric, str):
        raise UnstorableError("a metric of the user's")


def _finish_kernel_ridge(thing: Any, found: Record, sizes: Sizes) -> None:
    demand(isinstance(thing.kernel, str) and thing.kernel != "precomputed", "unknown kernel of a KernelRidge")


def _finish_process(thing: Any, found: Record, sizes: Sizes) -> None:
    """X_train_ and alpha_ predict; L_ gives standard deviations."""
    demand(isinstance(thing.kernel_, kernels.Kernel), "the kernel of a Gaussian process is none")
    thing._y_train_mean, thing._y_train_std = (np.asarray(each) for each in (thing._y_train_mean, thing._y_train_std))


def _pack_process(thing: Any, found: Record) -> None:
    if not isinstance(thing.X_train_, np.ndarray) or thing.X_train_.dtype.kind != "f":
        raise UnstorableError("rows that are not numbers")
    found.parts["kernel_"] = record(thing.kernel_)


def _finish_isotonic(thing: Any, found: Record, sizes: Sizes) -> None:
    demand((np.diff(thing.X_thresholds_) >= 0).all() and len(thing.X_thresholds_), "thresholds are not sorted")
    thing._build_f(thing.X_thresholds_, thing.y_thresholds_)


def _linear(*types: type, **more: Any) -> list[Kind]:
    return [Kind(each, _LINEAR, pack=_pack_linear, **more) for each in types]


_KERNELS = [
    Kind(each, values={})
    for each in (
        kernels.ConstantKernel, kernels.DotProduct, kernels.Exponentiation, kernels.ExpSineSquared, kernels.Matern,
        kernels.Product, kernels.RBF, kernels.RationalQuadratic, kernels.Sum, kernels.WhiteKernel,
    )
]  # fmt: skip

KINDS = [
    *_linear(
        linear_model.LinearRegression, linear_model.Ridge, linear_model.RidgeCV, linear_model.Lasso,
        linear_model.LassoCV, linear_model.LassoLars, linear_model.LassoLarsCV, linear_model.LassoLarsIC,
        linear_model.Lars, linear_model.LarsCV, linear_model.ElasticNet, linear_model.ElasticNetCV,
        linear_model.MultiTaskLasso, linear_model.MultiTaskLassoCV, linear_model.MultiTaskElasticNet,
        linear_model.MultiTaskElasticNetCV, linear_model.OrthogonalMatchingPursuit,
        linear_model.OrthogonalMatchingPursuitCV, linear_model.HuberRegressor, linear_model.TheilSenRegressor,
        linear_model.QuantileRegressor, linear_model.SGDRegressor, svm.LinearSVR,
    ),
    *_linear(
        linear_model.PoissonRegressor, linear_model.GammaRegressor, linear_model.TweedieRegressor,
        finish=_finish_generalised,
    ),
    Kind(
        linear_model.BayesianRidge,
        {**_LINEAR, "lambda_": floats((), ("features",)), "sigma_": floats(("used", "used"), ("features", "features")),
         "X_offset_": floats(("features",), optional=True), "X_scale_": floats(("features",), optional=True)},
        pack=_pack_linear,
    ),
    Kind(
        linear_model.ARDRegression,
        {**_LINEAR, "lambda_": floats(("features",), low=0, infinite=True), "sigma_": floats(("used", "used")),
         "X_offset_": floats(("features",), optional=True), "X_scale_": floats(("features",), optional=True)},
        pack=_pack_linear,
    ),
    Kind(linear_model.RANSACRegressor, parts=("estimator_",)),
    *(Kind(each, _SVR, pack=_pack_svr, finish=_finish_svr) for each in (svm.SVR, svm.NuSVR)),
    Kind(
        neural_network.MLPRegressor,
        values={**FEATURES, "n_outputs_": count(), "n_layers_": count(2), "out_activation_": Value(str)},
        pack=_pack_mlp, finish=_finish_mlp, own_arrays=True,
    ),
    *(
        Kind(
            each,
            {"_fit_X": floats(("rows", "features")),
             "_y": Array(("f8", "f4", "i8", "i4"), (("rows",), ("rows", "outputs")))},
            pack=_pack_neighbors, finish=_finish_neighbors,
        )
        for each in (neighbors.KNeighborsRegressor, neighbors.RadiusNeighborsRegressor)
    ),
    Kind(
        kernel_ridge.KernelRidge,
        {"X_fit_": floats(("rows", "features")), "dual_coef_": floats(("rows",), ("rows", "outputs"))},
        finish=_finish_kernel_ridge,
    ),
    Kind(
        gaussian_process.GaussianProcessRegressor,
        {"X_train_": floats(("rows", "features")), "y_train_": floats(("rows",), ("rows", "outputs")),
         "alpha_": floats(("rows",), ("rows", "outputs")), "L_": floats(("rows", "rows")),
         "_y_train_mean": floats((), (1,), ("outputs",)), "_y_train_std": floats((), (1,), ("outputs",))},
        parts=("kernel_",), pack=_pack_process, finish=_finish_process,
    ),
    *_KERNELS,
    Kind(
        isotonic.IsotonicRegression,
        {"X_thresholds_": floats(("knots",)), "y_thresholds_": floats(("knots",)), "X_min_": floats(()),
         "X_max_": floats(())},
        values={"increasing_": Value(bool)}, finish=_finish_isotonic,
    ),
    Kind(dummy.DummyRegressor, {"constant_": floats((1, "outputs"))}, values={"n_outputs_": count()}),
]  # fmt: skip
