"""Model files: what comes back is what went in, and nothing else is accepted."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

import aleator
from aleator import LossQuantifier, PairEnsemble, PairRegressor, bundle
from aleator.losses import Loss, huber

X, y = load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.aleator"


@pytest.mark.parametrize(
    "model",
    [
        PairRegressor(),
        PairRegressor(huber(30.0), coupling="softplus", epochs=3, hidden=(8, 8), shared_layers=1, lam=np.float64(0.5)),
        PairEnsemble(3, "absolute", epochs=3),
        PairEnsemble(2, per_output=True, early_stopping=True),
    ],
    ids=["pair", "huber", "ensemble", "stopping"],
)
def test_there_and_back(model, path):
    model.fit(X, y).calibrate(X, y)
    model.save(path)
    again = aleator.load(path)
    assert type(again) is type(model)
    assert again.predict_loss(X).tobytes() == model.predict_loss(X).tobytes()
    for a, b in zip(again.predict_interval(X, 0.8), model.predict_interval(X, 0.8), strict=True):
        np.testing.assert_array_equal(a, b)
    pd.testing.assert_frame_equal(again.history_, model.history_, check_dtype=False)
    assert list(again.feature_names_in_) == list(X)
    with pytest.raises(ValueError, match="was 'age' in fit"):
        again.predict(X[X.columns[::-1]])
    again.fit(X, y)  # and it can be trained again
    assert os.listdir(path.parent) == [path.name]  # nothing else was left behind


def test_several_outputs(path):
    Y = np.column_stack([y, -y])
    model = PairRegressor(epochs=2).fit(X.to_numpy(), Y)
    model.save(path)
    np.testing.assert_array_equal(aleator.load(path).predict(X.to_numpy()), model.predict(X.to_numpy()))


def test_what_a_file_cannot_hold_is_refused_before_writing(path):
    own = Loss("own", lambda t, p: (t - p) ** 2, lambda t, p: 2 * (p - t))
    for model, name in ((PairRegressor(own, epochs=2), "loss"), (PairRegressor(lam=lambda e: 0.1, epochs=2), "lam")):
        with pytest.raises(ValueError, match=f"names and numbers only, and the parameter {name} is a"):
            model.fit(X, y).save(path)
    assert not path.exists()


def test_every_flipped_byte_is_noticed(path):
    PairRegressor(epochs=2, hidden=(4,)).fit(X, y).save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(8, len(content), size=60):
        broken = bytearray(content)
        broken[place] ^= 1 << rng.integers(8)
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="damaged|not an aleator|not one of"):
            aleator.load(path)


@pytest.mark.parametrize("keep", [0, 5, 100, 3000])
def test_a_cut_file_is_refused(path, keep):
    PairRegressor(epochs=2).fit(X, y).save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="not an aleator model file, or it was cut"):
        aleator.load(path)


def test_files_that_are_not_ours(path):
    with pytest.raises(FileNotFoundError):
        aleator.load(path)
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="but not one of aleator's"):
        aleator.load(path)
    bundle.write(path, {"kind": "os.system", "params": {}}, {"a": np.zeros(3)})
    with pytest.raises(ValueError, match="holds a 'os.system', which this aleator does not know"):
        aleator.load(path)


def test_weights_that_do_not_fit_the_network_are_refused(path):
    PairRegressor(epochs=2).fit(X, y).save(path)
    facts, arrays = bundle.read(path)
    bundle.write(path, facts, arrays | {"params_": arrays["params_"][:, :-1]})
    with pytest.raises(ValueError, match="does not fit together"):
        aleator.load(path)
    bundle.write(path, facts, arrays | {"params_": arrays["params_"] * np.float32("nan")})
    with pytest.raises(ValueError, match="missing or not finite"):
        aleator.load(path)
    facts["params"]["hidden"] = [10**6]
    bundle.write(path, facts, arrays)
    with pytest.raises(ValueError, match="does not fit together"):
        aleator.load(path)
    facts.pop("params")
    bundle.write(path, facts, arrays)
    with pytest.raises(ValueError, match="incomplete"):
        aleator.load(path)


def test_a_newer_format_is_said_to_be_newer(path, monkeypatch):
    PairRegressor(epochs=2).fit(X, y).save(path)
    monkeypatch.setattr(bundle, "FORMAT", 0)
    with pytest.raises(ValueError, match="written by another version of aleator"):
        aleator.load(path)


def test_the_facts_are_plain_json(path):
    PairRegressor(epochs=2).fit(X, y).save(path)
    facts, _ = bundle.read(path)
    assert json.loads(json.dumps(facts)) == facts


def test_what_was_fitted_is_saved_and_not_what_was_set_later(path):
    model = PairRegressor(epochs=2).fit(X, y)
    before = model.predict_loss(X)
    model.set_params(hidden=(3,), loss="absolute", coupling="softplus")
    np.testing.assert_array_equal(model.predict_loss(X), before)
    model.save(path)
    np.testing.assert_array_equal(aleator.load(path).predict_loss(X), before)


def test_saving_is_polite(path):
    model = PairRegressor(epochs=2).fit(X, y)
    model.save(path)
    once = path.read_bytes()
    model.save(path)
    assert path.read_bytes() == once  # the same model, the same bytes
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode  # as any file of this user
    link = path.with_name("link")
    link.symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    with pytest.raises(ValueError, match="is not a place for a model file"):
        model.save(path.parent)
    with pytest.raises(OSError, match="cannot write the model file"):
        model.save(path.parent / "missing" / "model")
    with pytest.raises(FileNotFoundError, match="there is no model file at"):
        aleator.load(path.parent)


# ---------------------------------------------------------------- quantifiers of regressors that are already there


def quantified(regressor, **params):
    return LossQuantifier(regressor, "absolute", n_members=2, **params).fit(X, y)


def test_a_quantifier_with_its_regressor(path):
    model = quantified(make_pipeline(StandardScaler(), Ridge())).recalibrate(X, y, "isotonic").calibrate(X, y)
    model.save(path)
    again = aleator.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.predict_loss(X).tobytes() == model.predict_loss(X).tobytes()
    for a, b in zip(again.predict_interval(X, 0.8), model.predict_interval(X, 0.8), strict=True):
        np.testing.assert_array_equal(a, b)
    pd.testing.assert_frame_equal(again.out_of_fold_, model.out_of_fold_)
    with pytest.raises(ValueError, match="was 'age' in fit"):
        again.predict(X[X.columns[::-1]])


def test_a_regressor_that_no_file_can_hold_is_given_again(path):
    model = quantified(RandomForestRegressor(10, random_state=0))
    model.save(path)
    with pytest.raises(ValueError, match="the quantifier of a RandomForestRegressor, not that regressor itself"):
        aleator.load(path)
    again = aleator.load(path, estimator=model.estimator_)
    assert again.predict_loss(X).tobytes() == model.predict_loss(X).tobytes()
    other = RandomForestRegressor(10, random_state=1).fit(X, y)
    with pytest.raises(ValueError, match="the estimator is not the one the file was made with: at a typical row it"):
        aleator.load(path, estimator=other)
    PairRegressor(epochs=2).fit(X, y).save(path)
    with pytest.raises(ValueError, match="holds a PairRegressor, which needs no estimator"):
        aleator.load(path, estimator=other)


def test_a_table_of_any_kind(path):
    table = X.assign(
        city=["Ulm", "Bonn"] * 221,
        street=[f"street {k % 50}" for k in range(442)],
        text=[f"note {k}" for k in range(442)],
        day=pd.date_range("2024", periods=442),
        gap=np.where(np.arange(442) % 7, 1.0, np.nan),
    )
    model = LossQuantifier(lambda t: 100 + 900 * t["bmi"].to_numpy(), n_members=2).fit(table, y)
    model.save(path)
    with pytest.warns(UserWarning, match="cannot be told: its table is not all numbers"):
        again = aleator.load(path, estimator=model.estimator_)
    assert again.predict_loss(table).tobytes() == model.predict_loss(table).tobytes()
    gaps = LossQuantifier(lambda t: 100 + 900 * t["bmi"].to_numpy(), n_members=2).fit(table[["bmi", "gap"]], y)
    gaps.save(path)
    again = aleator.load(path, estimator=gaps.estimator_)
    assert again.predict_loss(table[["bmi", "gap"]]).tobytes() == gaps.predict_loss(table[["bmi", "gap"]]).tobytes()


def test_functions_of_the_users_are_refused_before_writing(path):
    own = LossQuantifier(Ridge(), lambda y, p: np.abs(y - p), epochs=2).fit(X, y)
    with pytest.raises(ValueError, match="names and numbers only, and the parameter loss is a function"):
        own.save(path)
    encoded = LossQuantifier(Ridge(), encoder=lambda X: X.to_numpy(), epochs=2).fit(X, y)
    with pytest.raises(ValueError, match="cannot hold the encoder FunctionTransformer safely"):
        encoded.save(path)
    assert not path.exists()


def test_a_type_that_is_not_trusted_is_refused(path):
    """Also where the checksum of the file is right: reading such an object could run what its maker wrote."""
    from skops import io

    quantified(Ridge()).save(path)
    facts, arrays = bundle.read(path)
    arrays["regressor"] = np.frombuffer(io.dumps(RandomForestRegressor(2).fit(X, y)), np.uint8)
    bundle.write(path, facts, arrays)
    with pytest.raises(ValueError, match="cannot be read: Untrusted types"):
        aleator.load(path)


def test_codes_that_no_made_up_row_can_have(path):
    """The regressor refuses rows between the codes; the file then does without them."""
    table = X.assign(code=np.arange(442) % 3)
    model = LossQuantifier(make_pipeline(make_column_transformer((OneHotEncoder(), ["code"])), Ridge()), n_members=2)
    model.fit(table, y).save(path)
    assert "probes" not in bundle.read(path)[1]
    assert aleator.load(path).predict_loss(table).tobytes() == model.predict_loss(table).tobytes()


def test_an_encoder_comes_back(path):
    model = LossQuantifier(Ridge(), encoder=MaxAbsScaler(), n_members=2).fit(csr_array(X.to_numpy()), y)
    model.save(path)
    again = aleator.load(path)
    assert type(again.encoder) is MaxAbsScaler
    np.testing.assert_array_equal(
        again.predict_loss(csr_array(X.to_numpy())), model.predict_loss(csr_array(X.to_numpy()))
    )


def test_shapes_of_a_quantifier_are_checked(path):
    quantified(Ridge()).save(path)
    facts, arrays = bundle.read(path)
    for name in ("params", "reach", "lams", "unit", "x_mean", "loss_scale_", "medians"):
        bundle.write(path, facts, arrays | {name: arrays[name][..., :-1].copy()})
        with pytest.raises(ValueError, match="does not fit together|incomplete"):
            aleator.load(path)
