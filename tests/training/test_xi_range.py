"""Beyond its rows a pair claims little more than it has seen: in `predict`, in judging, in files, in ONNX, in torch."""

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch

import aleator
from aleator import PairEnsemble, PairRegressor, export_onnx
from aleator.baselines import MeanVarianceEnsemble
from aleator.model_files import file_format
from aleator.torch import fit_pair, to_torch
from aleator.training import defaults

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
y = X[:, 0] + np.exp(X[:, 1]) * rng.normal(size=60)
FAR = np.concatenate([X, 30 * X])
SMALL = {"hidden": (8,), "n_jobs": 1}


@pytest.mark.parametrize("lam", ["auto", 0.2])
@pytest.mark.parametrize("coupling", ["sigmoid", "softplus"])
def test_at_most_ten_times_what_was_expected_of_a_row(lam, coupling):
    model = PairRegressor(lam=lam, coupling=coupling, scaling="standard", **SMALL).fit(X, y)
    model.loss_correction_ = replace(model.loss_correction_, limits=None)
    known, far = model.predict_loss(X), model.predict_loss(FAR)
    assert far.max() <= defaults.BEYOND * known.max() * (1 + 1e-5)
    assert far.min() >= known.min() / defaults.BEYOND * (1 - 1e-5)
    del model.xi_range_
    np.testing.assert_array_equal(model.predict_loss(X), known)  # rows it knows are left alone
    assert (model.predict_loss(FAR) != far).any()  # and others were not


def test_as_in_the_paper_with_epochs_given():
    model = PairRegressor(**SMALL).fit(X, y).set_params(epochs=300, rescale=False).fit(X, y)
    assert not hasattr(model, "xi_range_")
    assert not hasattr(MeanVarianceEnsemble(n_members=2, **SMALL).fit(X, y), "xi_range_")


def test_one_row_far_out_does_not_decide_about_the_scale():
    """It is left out once, and members that have not seen it may expect anything of it."""
    table, target = np.concatenate([X, [[0.0, 80.0]]]), np.append(y, 0.0)
    for members in (1, 2):
        model = PairEnsemble(n_members=members, **SMALL).fit(table, target)
        others = model.out_of_fold_["row"] < 60
        loss, expected = (model.out_of_fold_.loc[others, name].mean() for name in ("loss", "expected_loss"))
        assert 0.2 < expected / loss < 5


@pytest.mark.parametrize("watched", [False, True])
def test_early_stopping_judges_as_it_answers(watched):
    """A row far out among those held back, or in the validation table, decides nothing about the others."""
    table, target = np.concatenate([X] * 5 + [[[0.0, 12.0]]]), np.append(np.concatenate([y] * 5), 0.0)
    table = table + 0.1 * rng.normal(size=table.shape)
    validation = (table[200:], target[200:]) if watched else None
    known = slice(200) if watched else slice(None)
    model = PairRegressor(lam=0.2, early_stopping=True, **SMALL).fit(table[known], target[known], validation=validation)
    told = model.out_of_fold_
    rows = told["row"].to_numpy() + (200 if watched else 0)
    np.testing.assert_allclose(told["expected_loss"], model.predict_loss(table[rows]), rtol=1e-6)
    if watched:
        assert model.predict_loss(table).max() <= defaults.BEYOND * model.predict_loss(table[known]).max() * (1 + 1e-5)


@pytest.mark.parametrize("target", [y, np.column_stack([y, X[:, 1]])], ids=["one", "two"])
def test_files_onnx_and_torch_say_the_same(target, tmp_path):
    model = PairEnsemble(n_members=2, per_output=True, **SMALL).fit(X, target)
    far = model.predict_uncertainty(FAR)
    model.save(tmp_path / "m.aleator")
    np.testing.assert_array_equal(aleator.load(tmp_path / "m.aleator").predict_loss(FAR), far.expected_loss)
    export_onnx(model, tmp_path / "m.onnx")
    names = ["expected_loss"]
    (said,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(names, {"X": FAR})
    np.testing.assert_allclose(said, far.expected_loss, rtol=1e-4)
    np.testing.assert_allclose(to_torch(model).predict(FAR).expected_loss, far.expected_loss, rtol=1e-4)


@pytest.mark.parametrize("target", [y, np.column_stack([y, X[:, 1]])], ids=["one", "two"])
def test_there_and_back_through_torch(target):
    model = PairRegressor(per_output=True, **SMALL).fit(X, target)
    pair = to_torch(model)
    back = PairRegressor.from_torch(pair)
    assert back.predict_loss(FAR).tobytes() == model.predict_loss(FAR).tobytes()
    assert back.xi_range_.tobytes() == model.xi_range_.tobytes()
    xi = pair.train()(torch.tensor(FAR))[1]  # who trains on is not held to it
    assert (pair.eval()(torch.tensor(FAR))[1] != xi).any()
    fit_pair(pair, (torch.tensor(X), torch.tensor(target)), epochs=1)
    assert not hasattr(PairRegressor.from_torch(pair), "xi_range_")  # nor has who was trained on a range of that


def test_a_file_whose_reach_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "m.aleator"
    PairRegressor(**SMALL).fit(X, y).save(path)
    facts, arrays = file_format.read(path)
    for wrong in (arrays["reach_"][:, :1], arrays["reach_"].astype(np.float64), np.full_like(arrays["reach_"], np.inf)):
        file_format.write(path, facts, arrays | {"reach_": wrong.copy()})
        with pytest.raises(ValueError, match="corrupt model file: reach_ "):
            aleator.load(path)
    file_format.write(path, facts, {name: values for name, values in arrays.items() if name != "reach_"})
    assert not hasattr(aleator.load(path), "xi_range_")  # written before there was one
