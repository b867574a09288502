"""Networks, trees or a mixture: which is chosen, what it expects, what becomes of failures, and files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, Ridge

import aleator
from aleator import LossQuantifier, export_onnx
from aleator.model_files import file_format
from aleator.training import defaults, quantifier
from aleator.training.held_out import HeldOutLosses

FAST = {"n_members": 2, "random_state": 0}


def table(n=500, local=True, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    steps = np.where(X[:, 1] > 1, 5.0, np.where(X[:, 2] * X[:, 3] > 0.5, 2.0, 0.3))
    level = steps if local else np.exp(0.7 * X @ [1, -1, 1, -1])
    return X, X[:, 0] + level * rng.normal(size=n), level


@pytest.fixture(scope="module")
def models():
    X, y, _ = table()
    kinds = ("network", "trees", "mixed", "auto")
    return {kind: LossQuantifier(Ridge(), quantifier=kind, **FAST).fit(X, y) for kind in kinds}


def test_every_kind_says_what_it_is(models):
    assert [models[kind].check_.quantifier for kind in ("network", "trees", "mixed")] == ["network", "trees", "mixed"]
    for model in models.values():
        assert model.check_.passed, model.check_.message


def test_a_mixture_expects_the_share_of_each(models):
    X = table(50, seed=1)[0]
    model = models["mixed"].quantifiers_
    Z = np.column_stack([X, models["mixed"].predict(X)])
    parts = (1 - model.tree_share) * model.networks.expected_loss(Z) + model.tree_share * model.trees.expected_loss(Z)
    assert_allclose(model.expected_loss(Z), parts, rtol=1e-12)
    alone = models["network"].quantifiers_.networks.expected_loss(Z)
    assert_array_equal(model.networks.expected_loss(Z), alone)
    assert_array_equal(model.trees.expected_loss(Z), models["trees"].quantifiers_.trees.expected_loss(Z))


def test_a_share_other_than_one_half_must_be_clearly_better(monkeypatch):
    """By a standard error of the paired difference, counted by hand; of several such, the best."""
    X, y, _ = table()
    found = {}
    plain = quantifier._with_share

    def with_share(*arguments):
        result = plain(*arguments)
        found[result.model.tree_share] = result.held_out
        return result

    monkeypatch.setattr(quantifier, "_with_share", with_share)
    chosen = LossQuantifier(Ridge(), **FAST).fit(X, y).quantifiers_.tree_share
    each = {s: (h.plausible / h.expected + np.log(h.expected))[:, 0] for s, h in found.items()}
    clear = {0.5: 0.0}
    for share, scores in each.items():
        better = each[0.5] - scores
        if share != 0.5 and better.mean() > better.std() / np.sqrt(len(better)):
            clear[share] = better.mean()
    assert sorted(found) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert chosen == max(clear, key=clear.get)
    monkeypatch.setattr(defaults, "SHARE_ERRORS", 1e9)
    assert LossQuantifier(Ridge(), **FAST).fit(X, y).quantifiers_.tree_share == 0.5
    monkeypatch.setattr(defaults, "SHARE_ERRORS", -1e9)
    best = min((share for share in found if share != 0.5), key=lambda share: found[share].score)
    assert LossQuantifier(Ridge(), **FAST).fit(X, y).quantifiers_.tree_share == best


@pytest.mark.parametrize(("local", "better", "worse"), [(True, "trees", "network"), (False, "network", "trees")])
def test_trees_for_steps_and_networks_for_slopes(local, better, worse):
    """And what is chosen is about as good as the better one."""
    X, y, _ = table(1000, local)
    new, _, level = table(2000, local, seed=1)

    def far(kind):
        expected = LossQuantifier(Ridge(), quantifier=kind, **FAST).fit(X, y).predict_loss(new)
        return np.mean(level**2 / expected + np.log(expected))

    assert far(better) < far(worse)
    assert far("auto") < far(better) + 0.25 * (far(worse) - far(better))


def test_small_tables_linear_ones_and_those_without_held_out_rows_have_networks():
    X, y, _ = table(defaults.TREE_ROWS - 1)
    assert LossQuantifier(Ridge(), **FAST).fit(X, y).check_.quantifier == "network"
    X, y, _ = table(300)
    plain = LossQuantifier(Ridge(), epochs=3, rescale=False, **FAST).fit(X, y)
    assert plain.quantifiers_.kind == "network"
    assert LossQuantifier(Ridge(), hidden=(), **FAST).fit(X, y).quantifiers_.kind == "linear"
    trees = LossQuantifier(Ridge(), quantifier="trees", epochs=3, rescale=False, **FAST).fit(X, y)
    assert trees.quantifiers_.kind == "trees"
    assert not hasattr(trees, "scores_")
    assert trees.n_epochs_.tolist() == [0, 0]


def test_what_passes_its_check_goes_before_what_has_a_better_score(monkeypatch):
    """Everything with networks is made to fail: trees predict, though their score is made the worst."""
    X, y, _ = table(300)
    plain, check, shares = quantifier._with_share, HeldOutLosses.check, {}

    def with_share(*arguments):
        found = plain(*arguments)
        shares[id(found.held_out)] = found.model.tree_share
        return found

    def checked(self):
        return replace(check(self), problems=("" if shares.get(id(self), 1) == 1 else "made to fail",))

    monkeypatch.setattr(quantifier, "_with_share", with_share)
    monkeypatch.setattr(quantifier, "_preference", lambda usual: lambda found: found.model.tree_share)
    monkeypatch.setattr(HeldOutLosses, "check", checked)
    model = LossQuantifier(Ridge(), **FAST).fit(X, y)
    assert sorted(shares.values()) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert model.quantifiers_.kind == "trees"


def test_rounds_weigh_rows_by_one_over_what_trees_expect():
    X, y, _ = table()
    model = LossQuantifier(LinearRegression(), quantifier="trees", **FAST).fit(X, y)
    Z = np.column_stack([X, model.predict(X)])
    weights, expected = model.quantifiers_.weights(Z), model.quantifiers_.expected_loss(Z)
    assert_allclose(weights * expected, model.quantifiers_.unit[0], rtol=1e-9)
    level = table()[2]
    turns = LossQuantifier(LinearRegression(), quantifier="trees", rounds=2, **FAST).fit(X, y).estimator_
    truth = LinearRegression().fit(X, y, sample_weight=level**-2)
    plain = LinearRegression().fit(X, y)
    wanted = np.array([1.0, 0, 0, 0])
    assert abs(turns.coef_ - wanted).max() < abs(plain.coef_ - wanted).max()
    assert abs(turns.coef_ - truth.coef_).max() < 0.1


@pytest.mark.parametrize("kind", ["trees", "mixed"])
def test_files_and_onnx(kind, models, tmp_path):
    X = table(200, seed=1)[0]
    model = models[kind]
    model.save(tmp_path / "m.aleator")
    read = aleator.load(tmp_path / "m.aleator")
    assert_array_equal(read.predict_loss(X), model.predict_loss(X))
    assert read.quantifiers_.tree_share == model.quantifiers_.tree_share
    assert read.check_.quantifier == kind
    export_onnx(model, tmp_path / "m.onnx")
    answers = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(["expected_loss"], {"X": X})
    assert_allclose(answers[0], model.predict_loss(X), rtol=1e-5)


def stage(facts, k=0):
    return facts["trees"][k][0]


def changed(name, change):
    """The first array of this name below trees/ in other values."""

    def spoil(facts, arrays):
        place = next(key for key in arrays if key.startswith("trees/") and key.endswith(name))
        arrays[place] = change(arrays[place].copy())

    return spoil


def huge(values):
    values[:] = 1e3
    return values


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda facts, arrays: facts.update(tree_share=2.0), "tree_share must lie between 0 and 1"),
        (lambda facts, arrays: facts.update(tree_share=0.5) or arrays.pop("params"), "the array params is missing"),
        (lambda facts, arrays: facts.pop("trees"), "trees are not described"),
        (lambda facts, arrays: facts.update(trees=[]), "trees of 0 members, of 2"),
        (lambda facts, arrays: facts.update(tree_share=0), "it has trees, and their share is 0"),
        (lambda facts, arrays: facts.update(tree_share=1), "it has networks, and the share of the trees is 1"),
        (lambda facts, arrays: arrays.update(unit=1e303 * arrays["unit"]), "could expect an infinite loss"),
        (lambda facts, arrays: facts.update(trees=[[], []]), "each member needs trees for each loss"),
        (lambda facts, arrays: facts["trees"].pop(), "trees of 1 members, of 2"),
        (lambda facts, arrays: stage(facts)["params"].update(loss="squared_error"), "of the gamma deviance"),
        (lambda facts, arrays: stage(facts).update(type="Ridge"), "corrupt model file"),
        (changed("value", huge), "could expect an infinite loss"),
        (changed("value", lambda values: values * np.nan), "corrupt model file"),
        (changed("feature_idx", lambda values: values + 7), "corrupt model file"),
        (changed("/left", lambda values: values + 10**6), "corrupt model file"),
    ],
)
def test_hostile_trees_are_refused(spoil, message, models, tmp_path):
    path = tmp_path / "m.aleator"
    models["mixed"].save(path)
    facts, arrays = file_format.read(path)
    arrays = dict(arrays)
    spoil(facts, arrays)
    file_format.write(path, facts, arrays)
    with pytest.raises(ValueError, match=message):
        aleator.load(path)


def test_a_kind_that_is_unknown():
    X, y, _ = table(50)
    with pytest.raises(ValueError, match="unknown quantifier 'tree': did you mean 'trees'"):
        LossQuantifier(Ridge(), quantifier="tree").fit(X, y)


def test_earlier_files_have_networks():
    golden = Path(__file__).parents[1] / "golden"
    assert aleator.load(golden / "0.1.0-LossQuantifier.aleator").quantifier == "network"
    assert aleator.load(golden / "0.1.0-trees.aleator").quantifier == "trees"


def test_absurd_expectations_are_no_reason_to_stop():
    """Losses that are infinite times what was expected: the check cannot tell how far, and says that they are far."""
    L = np.where(np.arange(60) % 2, 1e10, 0.0)
    held = HeldOutLosses(np.arange(60), L[:, None], np.where(L > 0, 1e-300, 1.0)[:, None], np.ones(60))
    with np.errstate(all="ignore"):
        assert held.check().groups["realised_loss"].max() > 0
