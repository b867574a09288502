"""scikit-learn's models in files: every listed type comes back to the bit, and nothing wrong in a file gets through."""

import contextlib
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor, RadiusNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVR, LinearSVR, NuSVR
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import aleator
from aleator import LossQuantifier, PairEnsemble, TableEncoder, load
from aleator.baselines import PlainRegressor
from aleator.model_files import file_format, schema
from aleator.model_files.object_records import UnstorableError, flattened, nested, plain, restored
from aleator.model_files.schema import Array
from aleator.model_files.scikit_learn import KINDS, rebuilt, record

pytestmark = pytest.mark.usefixtures("short_training")

rng = np.random.default_rng(0)
N = 150
X = rng.normal(size=(N, 4))
Y_ONE = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N)
Y_TWO = np.column_stack([Y_ONE, X[:, 2]])
NUMBERS = pd.DataFrame(X, columns=list("abcd"))
TABLE = NUMBERS.assign(k=pd.Categorical(rng.choice(["u", "v", "w"], N)), t=rng.choice(["x", "y"], N).astype(object))
GAPS = TABLE.assign(a=np.where(np.arange(N) == 3, np.nan, X[:, 0]))
CODES = np.column_stack([X[:, :2], rng.integers(0, 9, N), X[:, 3]])
CODES_GAPS = np.where((np.arange(N)[:, None] == 5) & (np.arange(4) == 2), np.nan, CODES)
POSITIVE = np.abs(Y_ONE) + 0.1

_MULTI_TASK = [kind for name, kind in vars(linear_model).items() if name.startswith("MultiTask")]
_GENERALISED = (linear_model.PoissonRegressor, linear_model.GammaRegressor, linear_model.TweedieRegressor)
_LINEAR = [
    kind.type() for kind in KINDS.values()
    if kind.type.__module__.startswith("sklearn.linear_model") and kind.type not in (*_MULTI_TASK, *_GENERALISED)
]  # fmt: skip


def encoded(encoder, model):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_pipeline(
        ColumnTransformer([("n", numbers, ["a", "b"]), ("c", encoder, ["k", "t"])], remainder="passthrough"), model
    )


def _hist(**settings):
    return HistGradientBoostingRegressor(max_iter=9, **settings)


CASES = [
    *((model, X, Y_ONE) for model in _LINEAR),
    *((kind(), X, Y_TWO) for kind in _MULTI_TASK),
    *((kind(), X, POSITIVE) for kind in _GENERALISED),
    (Ridge(), X, Y_TWO), (Ridge(fit_intercept=False), X, Y_ONE), (Ridge(), NUMBERS, Y_ONE),
    (SVR(), X, Y_ONE), (NuSVR(), X, Y_ONE), (LinearSVR(), X, Y_ONE), (SVR(kernel="poly", degree=2, gamma=0.3), X, Y_ONE),
    (MLPRegressor(hidden_layer_sizes=(5, 4), max_iter=30), X, Y_ONE),
    (MLPRegressor(hidden_layer_sizes=(5,), max_iter=30), X, Y_TWO),
    (KNeighborsRegressor(3), X, Y_ONE), (KNeighborsRegressor(3, metric="manhattan", weights="distance"), NUMBERS, Y_ONE),
    (RadiusNeighborsRegressor(9.0), X, Y_ONE), (KernelRidge(kernel="rbf"), X, Y_ONE),
    (GaussianProcessRegressor(), X, Y_ONE),
    (GaussianProcessRegressor(RBF(np.ones(4)) * 2.0 + Matern() + WhiteKernel(0.1), normalize_y=True), X, Y_ONE),
    (IsotonicRegression(), X[:, :1], Y_ONE), (DummyRegressor(), X, Y_ONE),
    (DecisionTreeRegressor(), X, Y_ONE), (ExtraTreeRegressor(max_depth=3), X, Y_ONE),
    (DecisionTreeRegressor(random_state=3), X, Y_TWO), (RandomForestRegressor(7), X, Y_ONE),
    (RandomForestRegressor(7, random_state=1, max_features=2), X, Y_TWO), (ExtraTreesRegressor(7), X, Y_ONE),
    (GradientBoostingRegressor(n_estimators=9), X, Y_ONE),
    (GradientBoostingRegressor(n_estimators=9, init="zero", loss="absolute_error"), X, Y_ONE),
    (GradientBoostingRegressor(n_estimators=9, loss="quantile", alpha=0.7), X, Y_ONE),
    (_hist(), X, Y_ONE), (_hist(loss="poisson"), X, POSITIVE), (_hist(), TABLE.drop(columns="t"), Y_ONE),
    (_hist(categorical_features=["k"]), TABLE.drop(columns="t"), Y_ONE), (_hist(categorical_features=[2]), CODES, Y_ONE),
    (_hist(categorical_features=[2]), CODES_GAPS, Y_ONE),
    (AdaBoostRegressor(n_estimators=5), X, Y_ONE), (BaggingRegressor(n_estimators=4, max_features=0.5), X, Y_ONE),
    (BaggingRegressor(Ridge(), n_estimators=4), X, Y_ONE),
    (VotingRegressor([("a", Ridge()), ("b", DecisionTreeRegressor(max_depth=2))]), X, Y_ONE),
    (StackingRegressor([("a", Ridge()), ("b", RandomForestRegressor(5))]), X, Y_ONE),
    (MultiOutputRegressor(Ridge()), X, Y_TWO),
    (TransformedTargetRegressor(Ridge(), transformer=StandardScaler()), X, Y_ONE),
    (TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp), X, POSITIVE),
    (TransformedTargetRegressor(RandomForestRegressor(5), transformer=StandardScaler(), check_inverse=False), X, Y_ONE),
    *((make_pipeline(step, Ridge()), X, Y_ONE) for step in (
        StandardScaler(), StandardScaler(with_mean=False), MinMaxScaler(), MaxAbsScaler(), RobustScaler(),
        RobustScaler(with_centering=False), PolynomialFeatures(2), PolynomialFeatures(3, interaction_only=True),
        Normalizer(), Binarizer(), PowerTransformer(), PowerTransformer(standardize=False),
        QuantileTransformer(n_quantiles=20), KBinsDiscretizer(4, strategy="uniform"),
        KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), PCA(2), PCA(whiten=True), TruncatedSVD(2),
        FunctionTransformer(np.tanh), FunctionTransformer(), SimpleImputer(), SimpleImputer(add_indicator=True),
        FeatureUnion([("a", StandardScaler()), ("b", PCA(2))]),
        ColumnTransformer([("n", StandardScaler(), [0, 2]), ("x", "drop", [1]), ("p", "passthrough", slice(3, 4))]))),
    (make_pipeline(SimpleImputer(add_indicator=True), Ridge()), GAPS[list("abcd")], Y_ONE),
    *((encoded(encoder, Ridge()), GAPS, Y_ONE) for encoder in (
        OneHotEncoder(handle_unknown="ignore"), OneHotEncoder(drop="first"), OneHotEncoder(sparse_output=False),
        OneHotEncoder(min_frequency=0.4, handle_unknown="infrequent_if_exist"), OneHotEncoder(max_categories=2),
        OrdinalEncoder(), OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        TargetEncoder(target_type="continuous"))),
    (make_pipeline(ColumnTransformer([
        ("n", StandardScaler(), make_column_selector(dtype_include="number")),
        ("c", OneHotEncoder(), make_column_selector(dtype_exclude="number"))]), Ridge()), TABLE, Y_ONE),
    (make_pipeline(TableEncoder(), _hist()), TABLE.assign(day="2024-05-17"), Y_ONE),
]  # fmt: skip


def name_of(case):
    model = case[0]
    return re.sub(r"\s+", " ", repr(model[0] if hasattr(model, "steps") else model))[:60]


@pytest.fixture(scope="module", params=CASES, ids=name_of)
def case(request):
    model, table, y = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of methods that do not converge in so few rows
        return model.fit(table, y), table


def there_and_back(model):
    facts, arrays = flattened(record(model))
    return rebuilt(nested(json.loads(json.dumps(facts, allow_nan=False)), arrays))


def same(model, again, table):
    for rows in (table, table[:7]):
        np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert type(again) is type(model)
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()


def test_every_type_comes_back_to_the_bit(case):
    model, table = case
    again = there_and_back(model)
    same(model, again, table)
    same(model, there_and_back(again), table)


def test_the_list_is_covered():
    """Every type in the list is in one of the cases above, or a part of one."""
    used = set()

    def names(found):
        used.add(found.type)
        for part in found.parts.values():
            names(part)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, table, y in CASES:
            names(record(model.fit(table, y)))
    rest = {"ConstantKernel", "DotProduct", "Exponentiation", "ExpSineSquared", "RationalQuadratic", "Product"}
    assert set(KINDS) - used <= rest


# ---------------------------------------------------------------- what is wrong is refused


def corrupted(facts, arrays, rng):
    """The same with one value, one array, or one name changed."""
    facts, arrays = json.loads(json.dumps(facts)), dict(arrays)
    if arrays and rng.random() < 0.6:
        name = rng.choice(sorted(arrays))
        arrays[name] = other_array(arrays[name], rng)
        if rng.random() < 0.05:
            del arrays[name]
        return facts, arrays
    places = []

    def collect(node):
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in items:
            places.append((node, key))
            collect(value)

    collect(facts)
    node, key = places[rng.integers(len(places))]
    strange = [None, True, -1, 0, 1, 2, 10**9, 2**70, 1e300, -0.5, "", "x", "drop", "Ridge", "SVR", [], [1], {}, {"a": 1},
               {"float": "nan"}, {"tuple": [1]}, {"slice": [0, 10**9, None]}, {"function": "numpy.exp"}]  # fmt: skip
    if isinstance(node, dict) and rng.random() < 0.1:
        del node[key]
    else:
        node[key] = strange[rng.integers(len(strange))]
    return facts, arrays


def other_array(values, rng):
    flat, change = values.ravel().copy(), rng.integers(7)
    if change == 0:
        return flat
    if change == 1:
        return values[..., : values.shape[-1] // 2] if values.ndim else np.zeros(3)
    if change == 2:
        return values.astype(rng.choice(["f4", "f8", "i4", "i8", "u1", "f2", "?"]))
    if change == 3:
        return np.concatenate([values, values]) if values.ndim else values[None]
    if change == 4 and len(flat):
        wrong = [0, 1, -1, 2, 255, 10**6, 2**30, np.nan, np.inf, -np.inf, 1e300]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flat[rng.integers(len(flat))] = np.float64(wrong[rng.integers(len(wrong))]).astype(flat.dtype)
        return flat.reshape(values.shape)
    if change == 5:
        return rng.permutation(flat).reshape(values.shape)
    return np.zeros_like(values)


@pytest.mark.filterwarnings("ignore")
def test_what_is_wrong_is_refused_or_does_no_harm(case):
    """Whatever is changed, there is an error of one kind, or a model that answers."""
    model, table = case
    facts, arrays = flattened(record(model))
    rng = np.random.default_rng(len(str(facts)))
    refused = []
    for _ in range(25):
        try:
            again = rebuilt(nested(*corrupted(facts, arrays, rng)))
        except ValueError as error:
            refused.append(str(error))
            continue
        with contextlib.suppress(Exception):  # a model that was changed may refuse its rows in any way, but not crash
            again.predict(table)
    assert refused
    assert not any("\n" in message for message in refused)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("left_child", lambda a: a + 10**6, "leads nowhere"),
        ("left_child", lambda a: np.zeros_like(a), "leads nowhere"),
        ("right_child", lambda a: np.where(a > 0, a.max(), a), "one parent|leads nowhere"),
        ("feature", lambda a: np.full_like(a, 99), "a column that does not exist"),
        ("value", lambda a: a * np.nan, "value contains NaN"),
        ("value", lambda a: a[:, :0], "must have the shape"),
        ("tree_sizes", lambda a: a[:-1], "incomplete"),
        ("threshold", lambda a: a.astype("f2"), "must be an array of f8 or f4"),
    ],
)
def test_trees_that_lead_elsewhere(name, change, message):
    facts, arrays = flattened(record(RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, Y_ONE)))
    with pytest.raises(ValueError, match=message):
        rebuilt(nested(facts, arrays | {name: change(arrays[name])}))


def test_a_chain_of_nodes_without_end_is_refused_at_once():
    """A tree as deep as it has nodes takes time for each level: there is a bound."""
    n = 50_001
    model = DecisionTreeRegressor(max_depth=1, random_state=0).fit(X, Y_ONE)
    facts, arrays = flattened(record(model))
    inner = np.arange(n) % 2 == 0
    inner[-1] = False
    left = np.where(inner, np.arange(n) + 1, -1).astype(np.int32)
    right = np.where(inner, np.arange(n) + 2, -1).astype(np.int32)
    chain = {name: np.resize(values, (n, *values.shape[1:])) for name, values in arrays.items() if name != "tree_sizes"}
    chain |= {"tree_sizes": np.array([n]), "left_child": left, "right_child": right, "feature": np.zeros(n, np.int32)}
    with pytest.raises(ValueError, match="deeper than 10,000 levels"):
        rebuilt(nested(facts, chain))


def test_categories_that_are_not_sorted_are_refused():
    """Places among them are found by bisection: a wrong order would lead outside the table."""
    model = make_pipeline(OneHotEncoder(), Ridge()).fit(CODES[:, 2:3], Y_ONE)
    facts, arrays = flattened(record(model))
    categories = facts["parts"]["param steps 0"]["values"]["categories_"]
    categories[0]["array"] = categories[0]["array"][::-1]
    with pytest.raises(ValueError, match="must be sorted"):
        rebuilt(nested(facts, arrays))


@pytest.mark.parametrize("thing", [Ridge, lambda X: X, DecisionTreeRegressor(max_depth=np.random), object()])
def test_what_no_file_can_hold(thing):
    with pytest.raises((UnstorableError, AttributeError)):
        record(thing)


class Derived(Ridge):
    """Of the same name as none."""


def test_a_class_of_the_users_is_not_taken_for_scikit_learns():
    Derived.__name__ = "Ridge"
    try:
        with pytest.raises(UnstorableError):
            record(Derived().fit(X, Y_ONE))
    finally:
        Derived.__name__ = "Derived"


def test_objects_nested_without_end_are_refused():
    deep = {"type": "Ridge", "params": {}, "values": {}, "parts": {}}
    for _ in range(50):
        deep = {"type": "Pipeline", "params": {}, "values": {}, "parts": {"a": deep}}
    with pytest.raises(ValueError, match="nested more than 20 times"):
        nested(deep, {})


@pytest.mark.parametrize("value", [
    None, True, 3, 0.1, float("nan"), float("-inf"), "text", [1, [2.5]], (1, "a"), slice(1, None), {"a": (1, 2)}, np.log,
    np.float64, np.dtype("int32"), np.arange(6.0).reshape(2, 3), np.array(["a", None, 1.5], object),
])  # fmt: skip
def test_parameters_come_back(value):
    again = restored(json.loads(json.dumps(plain(value), allow_nan=False)))
    if isinstance(value, np.ndarray):
        np.testing.assert_array_equal(again, value)
        assert again.dtype == value.dtype
    else:
        assert again == value or (again != again and value != value)
        assert type(again) is type(value)


def test_sizes_of_one_name_are_equal():
    sizes = {"features": 3}
    spec = schema.floats(("outputs", "features"))
    spec.check("coef_", np.zeros((2, 3)), sizes)
    assert sizes == {"features": 3, "outputs": 2}
    with pytest.raises(ValueError, match=re.escape("coef_ must have the shape (2, 3), got (3, 3)")):
        spec.check("coef_", np.zeros((3, 3)), sizes)


# ---------------------------------------------------------------- through model files


def test_through_a_file_nothing_predicts_while_loading(tmp_path, monkeypatch):
    model = LossQuantifier(
        encoded(OneHotEncoder(), RandomForestRegressor(5)), n_members=2, epochs=2, rescale=False
    ).fit(GAPS, Y_ONE)
    model.save(tmp_path / "m")
    with monkeypatch.context() as patch:
        patch.setattr(RandomForestRegressor, "predict", lambda self, X: pytest.fail("predicts"))
        again = aleator.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(GAPS), model.predict(GAPS))
    assert again.predict_loss(GAPS).tobytes() == model.predict_loss(GAPS).tobytes()


def test_arrays_that_belong_to_nothing_are_refused(tmp_path):
    LossQuantifier(Ridge(), n_members=1, epochs=2, rescale=False).fit(X, Y_ONE).save(tmp_path / "m")
    facts, arrays = file_format.read(tmp_path / "m")
    file_format.write(tmp_path / "m", facts, arrays | {"estimator/more": np.zeros(3)})
    with pytest.raises(ValueError, match="unexpected arrays in a Ridge"):
        aleator.load(tmp_path / "m")


# ---------------------------------------------------------------- layouts


def test_an_array_that_must_rise():
    spec = Array(("f8",), ((2, "outputs"),), rising=0)
    spec.check("limits", np.array([[1.0, 2.0], [1.0, 3.0]]), {})
    with pytest.raises(ValueError, match="limits must rise along its axis 0"):
        spec.check("limits", np.array([[1.0, 2.0], [2.0, 1.0]]), {})
    along = Array(("f8",), (("members", 2),), rising=1)
    along.check("reach", np.array([[3.0, 4.0], [1.0, 2.0]]), {})
    with pytest.raises(ValueError, match="axis 1"):
        along.check("reach", np.array([[3.0, 4.0], [2.0, 1.0]]), {})


@pytest.mark.parametrize(
    "model",
    [PairEnsemble(n_members=2, epochs=2, rescale=False), LossQuantifier(Ridge(), n_members=1)],
    ids=["pairs", "given"],
)
def test_only_what_the_layout_lists_is_in_a_file(model, tmp_path):
    """Whatever is added or missing is refused by reader and writer alike."""
    path = tmp_path / "m.aleator"
    X = np.random.default_rng(0).normal(size=(60, 2))
    model.fit(X, X[:, 0]).save(path)
    facts, arrays = file_format.read(path)
    for name in arrays:
        spec = model._layout.arrays.get(name)
        if spec is not None and not spec.optional:
            file_format.write(path, facts, {other: values for other, values in arrays.items() if other != name})
            with pytest.raises(ValueError, match=f"{name}"):
                load(path)
    file_format.write(path, facts, arrays | {"more": np.zeros(3)})
    with pytest.raises(ValueError, match="the array 'more' is not expected"):
        load(path)
    file_format.write(path, facts | {"more": 1}, arrays)
    with pytest.raises(ValueError, match="the value 'more' is not expected"):
        load(path)
    model.loss_correction_ = replace(model.loss_correction_, scale=-model.loss_scale_)
    with pytest.raises(ValueError, match="loss_scale_ must lie between 0 and inf"):
        model.save(tmp_path / "n.aleator")
    assert not (tmp_path / "n.aleator").exists()


def test_curves_of_recalibration_in_a_file(tmp_path):
    """Each loss has a curve with knots of its own; falling, empty, missing or too many ones are refused at once."""
    path, rng = tmp_path / "m.aleator", np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    Y = np.column_stack([X[:, 0] + rng.normal(size=400) * np.exp(X[:, 0]), X[:, 1] + rng.normal(size=400)])
    model = LossQuantifier(Ridge(), per_output=True, n_members=1).fit(X[:200], Y[:200])
    model.recalibrate(3 * X, 3 * Y, "isotonic").save(path)
    np.testing.assert_array_equal(load(path).predict_loss(X), model.predict_loss(X))
    facts, arrays = file_format.read(path)
    curve = arrays["correction 0"]
    assert curve.shape != arrays["correction 1"].shape
    others = {name: values for name, values in arrays.items() if name != "correction 0"}
    for wrong in (
        {"correction 0": curve[:, ::-1].copy()},
        {"correction 0": curve[:, :0]},
        {},
        {"correction 0": curve, "correction 2": curve},
    ):
        file_format.write(path, facts, others | wrong)
        with pytest.raises(ValueError, match="corrupt model file"):
            load(path)
    facts["n_outputs"] = 2**28
    file_format.write(path, facts, others)
    with pytest.raises(ValueError, match="corrupt model file: 1 curves of `recalibrate`"):
        load(path)


def test_parts_that_no_layout_knows_are_refused(tmp_path):
    path = tmp_path / "m.aleator"
    X = np.random.default_rng(0).normal(size=(60, 2))
    PlainRegressor(epochs=2).fit(X, X[:, 0]).save(path)
    facts, arrays = file_format.read(path)
    file_format.write(path, facts, arrays | {"foo/bar": np.zeros(2)})
    with pytest.raises(ValueError, match="the array 'foo/bar' is not expected"):
        load(path)
    file_format.write(path, facts, arrays | {"reach_": np.zeros((1, 2, 1), np.float32)})
    with pytest.raises(ValueError, match="reach_ needs a quantifier"):
        load(path)
