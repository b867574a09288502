"""Every estimator of the library through the same contract: a table of models, a table of laws."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from threadpoolctl import threadpool_limits

import aleator
from aleator.baselines import MeanVarianceEnsemble, MeanVarianceRegressor
from aleator.model_files import file_format
from aleator.preprocessing import splits
from aleator.registry import MODELS
from aleator.training import progress, strategies
from quick_models import QUANTIFY, QUICK, SEVERAL

pytestmark = pytest.mark.usefixtures("short_training")

X, y = load_diabetes(return_X_y=True)
X, y = X[:200], y[:200]
Y = np.column_stack([y, 10 * X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=len(y))])


def model(name, **others):
    return MODELS[name](**QUICK[name] | others)


@pytest.fixture(scope="module", params=QUANTIFY)
def name(request):
    return request.param


@pytest.fixture(params=["squared", "absolute"])
def loss(request):
    return request.param


def test_the_table_is_complete():
    assert set(QUICK) == set(MODELS)
    assert set(aleator.baselines.__all__) <= set(MODELS)


def test_answers(name, loss):
    fitted = model(name, loss=loss).fit(X, y)
    said = fitted.predict_uncertainty(X[:50])
    for part in (said.prediction, said.expected_loss, said.aleatoric, said.epistemic):
        assert part.shape == (50,)
        assert part.dtype == np.float64
        assert np.isfinite(part).all()
    np.testing.assert_allclose(said.aleatoric + said.epistemic, said.expected_loss, rtol=1e-12)
    assert (said.aleatoric > 0).all()
    assert (said.epistemic >= 0).all()
    assert said.epistemic.any() == (name in SEVERAL)
    np.testing.assert_array_equal(fitted.predict(X[:50]), said.prediction)
    np.testing.assert_array_equal(fitted.predict_loss(X[:50]), said.expected_loss)
    # a row's answer does not depend on the rows beside it
    np.testing.assert_array_equal(fitted.predict_loss(X[7:9]), said.expected_loss[7:9])
    frame = fitted.predict_uncertainty(pd.DataFrame(X[:50], index=range(100, 150)).set_axis(range(10), axis=1))
    assert list(frame.to_frame().index[:2]) == [100, 101]
    if loss == "squared":
        mean, std = fitted.predict(X[:50], return_std=True)
        np.testing.assert_array_equal(mean, said.prediction)
        np.testing.assert_allclose(std**2, said.expected_loss)
    else:
        with pytest.raises(ValueError, match="std belongs to the squared loss"):
            fitted.predict(X[:50], return_std=True)
    assert "epoch" in fitted.history_
    assert "member" in fitted.history_
    assert np.isfinite(fitted.score(X, y))


def test_units(name, loss):
    """Y times 10 gives 10 times the prediction and 100 times the expected squared loss; a shift changes nothing."""
    once = model(name, loss=loss).fit(X, y).predict_uncertainty(X)
    other = model(name, loss=loss).fit(X, 10 * y + 3).predict_uncertainty(X)
    factor = 100 if loss == "squared" else 10
    np.testing.assert_allclose(other.prediction, 10 * once.prediction + 3, rtol=1e-4)
    np.testing.assert_allclose(other.expected_loss, factor * once.expected_loss, rtol=1e-4)
    np.testing.assert_allclose(other.epistemic, factor * once.epistemic, rtol=1e-3, atol=1e-6 * factor)


@pytest.mark.parametrize("name", MODELS)
def test_same_seed_same_bits(name):
    def bits(**others):
        return model(name, **others).fit(X, y).predict(X)

    first = bits(random_state=3)
    np.testing.assert_array_equal(first, bits(random_state=3))
    if name != "LossQuantifier":  # whose Ridge has no chance, and sums in the order of the rows
        np.testing.assert_array_equal(model(name, random_state=3).fit(X[::-1], y[::-1]).predict(X), first)
        assert (bits(random_state=4) != first).any()
    if "n_jobs" in inspect.signature(MODELS[name]).parameters:
        for n_jobs in (1, 2, 4):
            np.testing.assert_array_equal(bits(random_state=3, n_jobs=n_jobs), first)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "LossQuantifier"])  # whose Ridge is not ours
def test_same_bits_with_any_number_of_threads_of_blas(name):
    wide = np.random.default_rng(0).normal(size=(300, 40))
    target = wide[:, 0] + wide[:, 1] ** 2
    bits = []
    for threads in (1, 4):
        with threadpool_limits(threads):
            many = {"n_particles": 20, "iterations": 5} if name == "SVGDRegressor" else {}
            bits.append(model(name, hidden=(120,), **many).fit(wide, target).predict(wide))
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("name", MODELS)
def test_a_weight_is_a_number_of_rows(name):
    times = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = model(name).fit(X, y, sample_weight=times)
    repeated = model(name).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    if name != "PlainRegressor":
        np.testing.assert_allclose(weighted.predict_loss(X), repeated.predict_loss(X), rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_fitting_again_forgets(name):
    fresh = model(name).fit(X, y)
    used = model(name).fit(X[:60, :4], Y[:60]).fit(X, y)
    if name != "PlainRegressor":
        used.recalibrate(X[:80], 2 * y[:80]).conformalize(X[80:], y[80:]).fit(X, y)
    np.testing.assert_array_equal(used.predict(X), fresh.predict(X))
    assert sorted(vars(used)) == sorted(vars(fresh))
    if name != "PlainRegressor":
        np.testing.assert_array_equal(used.predict_loss(X), fresh.predict_loss(X))


@pytest.mark.parametrize("name", MODELS)
def test_a_failed_fit_leaves_the_model_as_it_was(name, monkeypatch):
    fitted = model(name).fit(X, y)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(X, np.where(np.arange(len(y)) == 3, np.nan, y))
    np.testing.assert_array_equal(fitted.predict(X), before)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(progress, "progress_bar", interrupted)  # in the middle: much has been set by then
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X[:50, :3], Y[:50])
    np.testing.assert_array_equal(fitted.predict(X), before)


@pytest.mark.parametrize("name", MODELS)
def test_copies_and_files(name, tmp_path):
    fitted = model(name, random_state=5).fit(X, y)
    quantifies = name != "PlainRegressor"
    if quantifies:
        fitted.recalibrate(X[:80], y[:80]).conformalize(X[80:], y[80:])
    fitted.save(tmp_path / "model.aleator")
    for copy in (aleator.load(tmp_path / "model.aleator"), pickle.loads(pickle.dumps(fitted))):
        assert type(copy) is type(fitted)
        np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
        for key, value in vars(fitted).items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(getattr(copy, key), value, err_msg=key)
        pd.testing.assert_frame_equal(copy.history_, fitted.history_)
        if quantifies:
            np.testing.assert_array_equal(copy.predict_loss(X), fitted.predict_loss(X))
            np.testing.assert_array_equal(copy.predict_interval(X), fitted.predict_interval(X))
    unfitted = clone(fitted)
    assert not [key for key in vars(unfitted) if key.endswith("_")]
    np.testing.assert_array_equal(unfitted.fit(X, y).predict(X), fitted.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_several_outputs(name, loss):
    fitted = model(name, loss=loss).fit(X, Y)
    assert fitted.predict(X).shape == Y.shape
    assert model(name).fit(X, y[:, None]).predict(X).shape == (len(y), 1)
    if name == "PlainRegressor":
        return
    told = "per_output" in inspect.signature(MODELS[name]).parameters
    said = fitted.predict_uncertainty(X)
    assert said.expected_loss.shape == ((len(y),) if told else Y.shape)
    each = model(name, loss=loss, **({"per_output": True} if told else {})).fit(X, Y).predict_uncertainty(X)
    assert each.expected_loss.shape == each.epistemic.shape == Y.shape
    assert each.expected_loss[:, 0].mean() > 100 * each.expected_loss[:, 1].mean()  # each in its own units


def test_intervals(name, loss):
    fitted = model(name, loss=loss).fit(X[:100], y[:100]).conformalize(X[100:150], y[100:150])
    low, high = fitted.predict_interval(X[150:], coverage=0.8)
    mean = fitted.predict(X[150:])
    assert ((low < mean) & (mean < high)).all()
    assert np.mean((low <= y[150:]) & (y[150:] <= high)) > 0.5


def test_recalibration_makes_the_means_agree(name, loss):
    fitted = model(name, loss=loss).fit(X[:100], y[:100]).recalibrate(X[100:], y[100:])
    realised = fitted.predict_uncertainty(X[100:]).loss(y[100:], fitted.predict(X[100:]))
    assert fitted.predict_loss(X[100:]).mean() == pytest.approx(realised.mean(), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("name", MODELS)
def test_any_units_of_the_table(name, scale, monkeypatch):
    """The squares of 1e-300 are no numbers; those of 1e-30 are. Folds follow from the values in a row, in any units."""
    monkeypatch.setattr(splits, "array_keys", lambda X, rows: np.arange(len(rows), dtype=np.uint64))
    once = model(name).fit(X, y)
    scaled = model(name).fit(scale * X, scale * y)
    if name != "LossQuantifier":  # whose Ridge penalises what has units
        np.testing.assert_allclose(scaled.predict(scale * X) / scale, once.predict(X), rtol=1e-3)
        if name != "PlainRegressor":
            np.testing.assert_allclose(scaled.predict_loss(scale * X) / scale**2, once.predict_loss(X), rtol=1e-3)
    assert np.isfinite(scaled.predict(scale * X)).all()


@pytest.mark.parametrize("name", MODELS)
def test_hardly_anything_to_learn_from(name):
    """Two rows, a constant target, a constant column: no error, no NaN."""
    small = {"cv": 2} if name == "LossQuantifier" else {}
    for table, target in ((X[:2], y[:2]), (X[:40], np.full(40, 3.0)), (np.ones((40, 2)), y[:40])):
        fitted = model(name, **small).fit(table, target)
        assert np.isfinite(fitted.predict(table)).all()
        if name != "PlainRegressor":
            assert np.isfinite(fitted.predict_loss(table)).all()
            assert (fitted.predict_loss(table) >= 0).all()


def test_far_away_rows_stay_numbers(name):
    fitted = model(name).fit(X, y)
    assert np.isfinite(fitted.predict_loss(1e9 * X)).all()
    if name != "LossQuantifier":  # whose Ridge goes on
        np.testing.assert_allclose(fitted.predict_loss(1e12 * X), fitted.predict_loss(1e9 * X), rtol=1e-3)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "LossQuantifier"])  # more in it: test_files.py
def test_files_that_do_not_fit_together_are_refused(name, tmp_path):
    """Each array in turn of another shape or type, or not finite: refused, and never a crash."""
    facts, arrays = model(name).fit(X, y)._packed()
    facts["kind"] = name
    for key, value in arrays.items():
        if key in ("history", "scores_"):  # any number of rows
            continue
        wrong = {"longer": np.concatenate([value, value[:1]]), "whole": value.astype(np.int8)}
        if key in ("params_", "noise_", "weight_mean_", "weight_variance_", "noise_precision_"):
            wrong["NaN"] = np.full_like(value, np.nan)
        for other in wrong.values():
            file_format.write(tmp_path / "m.aleator", facts, arrays | {key: other})
            with pytest.raises(ValueError, match=r"corrupt model file|incomplete"):
                aleator.load(tmp_path / "m.aleator")
    for outputs in (0, 1.0, -3, "1", None):
        file_format.write(tmp_path / "m.aleator", facts | {"n_outputs": outputs}, arrays)
        with pytest.raises(ValueError, match=r"corrupt model file|incomplete"):
            aleator.load(tmp_path / "m.aleator")


# ---------------------------------------------------------------- ensembles


@pytest.mark.parametrize(
    ("one", "several"),
    [(aleator.PairRegressor, aleator.PairEnsemble), (MeanVarianceRegressor, MeanVarianceEnsemble)],
    ids=["pair", "mean-variance"],
)
def test_an_ensemble_of_one_is_its_member(one, several, loss):
    for settings in ({"epochs": 10, "rescale": False}, {}):
        alone = one(loss=loss, **settings).fit(X, y).predict_uncertainty(X)
        crew = several(n_members=1, loss=loss, **settings).fit(X, y).predict_uncertainty(X)
        np.testing.assert_array_equal(crew.prediction, alone.prediction)
        np.testing.assert_array_equal(crew.expected_loss, alone.expected_loss)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_in_the_signature_once(name):
    """scikit-learn reads them there; a dataclass that lost one to a base would keep it silently."""
    names = list(inspect.signature(MODELS[name]).parameters)
    assert sorted(names) == sorted(model(name).get_params(deep=False))
    assert {"loss", "random_state", "verbose", "hidden"} <= set(names)


STAGED = [name for name in MODELS if hasattr(MODELS[name], "fit_staged")]


@pytest.mark.parametrize("name", STAGED)
def test_a_stage_is_what_so_many_epochs_give(name):
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    given = {"lam": 0.2} if name.startswith("Pair") else {}
    given |= {} if name in ("PlainRegressor", "DropoutRegressor") else {"rescale": False}
    whole = model(name, learning_rate=lambda epoch: 2e-3 / (1 + epoch), **given)
    stages = list(whole.fit_staged(X, y, [1, 4, 10], sample_weight=weight))
    for epochs, stage in zip([1, 4, 10], stages, strict=True):
        assert stage.epochs == epochs
        fitted = model(name, learning_rate=whole.learning_rate, epochs=epochs, **given).fit(X, y, weight)
        np.testing.assert_array_equal(stage.params_, fitted.params_)
        np.testing.assert_array_equal(stage.predict(X), fitted.predict(X))
        pd.testing.assert_frame_equal(stage.history_, fitted.history_)
        assert list(stage.n_epochs_) == list(fitted.n_epochs_)
        if name in QUANTIFY:
            np.testing.assert_array_equal(stage.predict_loss(X), fitted.predict_loss(X))
    assert not hasattr(whole, "params_")


@pytest.mark.parametrize("epochs", [[], [0], [2, 2], [3, 1], [1.5], 5, "12", None])
def test_stages_are_increasing_whole_numbers(epochs):
    with pytest.raises(ValueError, match="epochs must be increasing whole numbers >= 1"):
        model("PairRegressor").fit_staged(X, y, epochs)


def test_stages_are_one_training(monkeypatch):
    begun, train = [], strategies.train

    def followed(*arguments, runs, **others):
        begun.append(None if runs is None else runs[0].epoch)
        return train(*arguments, runs=runs, **others)

    monkeypatch.setattr(strategies, "train", followed)
    assert len(list(model("PairRegressor", lam=0.2).fit_staged(X, y, [2, 3, 7]))) == 3
    assert begun == [None, 2, 3]  # each goes on from the one before


def test_a_lam_that_falls_to_the_last_epoch_has_no_stages():
    with pytest.raises(ValueError, match="lam='auto' falls until the last epoch"):
        model("PairEnsemble").fit_staged(X, y, [1, 2])


def test_stages_and_early_stopping_exclude_each_other():
    with pytest.raises(ValueError, match="has no early_stopping"):
        model("PairRegressor", early_stopping=True).fit_staged(X, y, [1, 2])
