"""Pairs of torch modules and their training: engine parity, ensembles at once, resume to the bit, data of any kind."""

import copy
import functools
import math
import types

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from aleator import PairEnsemble, PairRegressor
from aleator.engine import DivergenceError, kernels
from aleator.model_files import file_format
from aleator.torch import Ensemble, JointLoss, Pair, fit_ensemble, fit_pair, to_torch
from aleator.torch.ensemble_members import Stacked

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4)).astype(np.float32)
y = (2 * X[:, 0] + X[:, 1] * rng.normal(size=300)).astype(np.float32)
DATA = torch.from_numpy(X), torch.from_numpy(y)


def mlp(seed=0, outputs=1, dropout=0.0, flat=True):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ends = [nn.Flatten(0)] if flat else []
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, outputs), *ends)


def make_pair(seed=0, **settings):
    with torch.random.fork_rng():
        torch.manual_seed(1000 + seed)
        return Pair(mlp(seed, **settings))


def weights(module):
    return {name: values.clone() for name, values in module.state_dict().items()}


def assert_same(a, b, **tolerance):
    a, b = weights(a), weights(b)
    assert a.keys() == b.keys()
    for name, values in a.items():
        if tolerance:
            torch.testing.assert_close(values, b[name], **tolerance)
        else:
            assert torch.equal(values, b[name]), name


# ---------------------------------------------------------------- pairs


def test_the_quantifier_that_is_made_is_like_the_regressor():
    regressor = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, 2))
    pair = Pair(regressor)
    assert pair.quantifier[-1].out_features == 1
    assert pair.quantifier[0].weight.shape == regressor[0].weight.shape
    assert not torch.equal(pair.quantifier[0].weight, regressor[0].weight)
    y_pred, xi = pair(torch.zeros(5, 1, 8, 8))
    assert (y_pred.shape, xi.shape) == ((5, 2), (5, 1))
    assert Pair(regressor, per_output=True)(torch.zeros(5, 1, 8, 8))[1].shape == (5, 2)
    dense = Pair(nn.Conv1d(2, 4, 3, padding=1))
    assert dense(torch.zeros(5, 2, 7))[1].shape == (5, 1, 7)
    assert Pair(nn.Linear(3, 2)).quantifier.out_features == 1
    attention = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Flatten(), nn.Linear(24, 1))
    assert Pair(attention)(torch.zeros(4, 3, 8))[1].shape == (4, 1)


def test_a_trunk_is_shared():
    trunk = nn.Linear(4, 6)
    pair = Pair(nn.Linear(6, 1), nn.Linear(6, 1), trunk)
    y_pred, xi = pair(DATA[0])
    torch.testing.assert_close(y_pred, pair.regressor(trunk(DATA[0])))
    torch.testing.assert_close(xi, pair.quantifier(trunk(DATA[0])))
    assert sum(p.numel() for p in pair.parameters()) == 30 + 7 + 7


class NoReset(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(4))
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x * self.w)


def test_a_quantifier_that_cannot_be_made_is_asked_for():
    with pytest.raises(ValueError, match="ReLU behind its last linear layer"):
        Pair(nn.Sequential(nn.Linear(4, 1), nn.ReLU()))
    with pytest.raises(ValueError, match=r"NoReset \(the regressor\) has no reset_parameters"):
        Pair(NoReset())
    with pytest.raises(ValueError, match="no linear or convolutional layer"):
        Pair(nn.Bilinear(2, 2, 1))
    with pytest.raises(ValueError, match="without parameters"):
        Pair(nn.Identity())
    with pytest.raises(TypeError, match="regressor must be a torch.nn.Module, got function"):
        Pair(lambda x: x)


def test_standardised_a_pair_answers_in_the_users_units():
    for scale in (1e-6, 1.0, 1e30):
        target = scale * (7.0 + y.astype(np.float64))
        pair = fit_pair(make_pair(), (X, target), epochs=3, standardise=True)
        said = pair.predict(X)
        if scale == 1e-6:
            first = said
        np.testing.assert_allclose(said.prediction, first.prediction * (scale / 1e-6), rtol=1e-4)
        np.testing.assert_allclose(said.expected_loss, first.expected_loss * (scale / 1e-6) ** 2, rtol=1e-3)


def test_the_unit_is_that_of_the_estimators():
    for loss in ("squared", "absolute", "huber(0.5)", "pinball(0.9)"):
        target = np.column_stack([y, 10 * y + 3])
        for per_output in (False, True):
            model = PairRegressor(loss=loss, epochs=1, rescale=False, per_output=per_output).fit(X, target)
            pair = Pair(nn.Linear(4, 2), per_output=per_output, criterion=JointLoss(loss)).standardise((X, target))
            np.testing.assert_allclose(
                pair.criterion.unit, model.units_.unit if per_output else model.units_.unit[0], rtol=1e-6
            )
            np.testing.assert_allclose(pair.scaling.x_mean, model.scaling_.x_mean, atol=1e-7)
            np.testing.assert_allclose(pair.scaling.y_spread, model.scaling_.y_spread, rtol=1e-6)


def test_a_state_dict_carries_the_scaling():
    pair = fit_pair(make_pair(), (X, y), epochs=1, standardise=True).recalibrate((X, y))
    fresh = make_pair(5)
    fresh.load_state_dict(pair.state_dict())
    assert (fresh.predict(X).expected_loss == pair.predict(X).expected_loss).all()
    assert (copy.deepcopy(pair).predict(X).prediction == pair.predict(X).prediction).all()
    assert pair.bfloat16().criterion.unit.dtype == torch.float64


def test_recalibrate_makes_the_scale_right():
    pair = fit_pair(make_pair(), (X[:200], y[:200]), epochs=60, standardise=True)
    pair.recalibrate((X[200:], y[200:]))
    said = pair.predict(X[200:])
    assert said.expected_loss.mean() == pytest.approx(np.mean((said.prediction - y[200:]) ** 2), rel=1e-5)


def test_predict_changes_nothing_of_the_module():
    pair = make_pair(dropout=0.5)
    pair.quantifier.eval()
    state, before = weights(pair), torch.get_rng_state()
    one, two = pair.predict(X), pair.predict(torch.from_numpy(X), batch_size=7)
    np.testing.assert_allclose(one.prediction, two.prediction, rtol=1e-5, atol=1e-6)
    assert pair.regressor.training
    assert not pair.quantifier.training
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(values, state[name]) for name, values in pair.state_dict().items())
    loader = DataLoader(TensorDataset(*DATA), batch_size=50)
    np.testing.assert_allclose(pair.predict(loader).prediction, one.prediction, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- engine and torch


@pytest.mark.parametrize("optimizer", ["nesterov", "adam"])
@pytest.mark.parametrize(
    ("coupling", "loss", "shape"),
    [
        ("sigmoid", "squared", {}),
        ("softplus", "absolute", {"hidden": (12, 8), "activation": "tanh", "shared_layers": 1}),
    ],
)
def test_500_steps_in_torch_are_500_steps_of_the_engine(optimizer, coupling, loss, shape):
    settings = {"loss": loss, "coupling": coupling, "optimizer": optimizer, "l2": 0.0, "batch_size": 30, **shape}
    epochs, rate = 50, 0.01 if optimizer == "nesterov" else 1e-3
    model = PairRegressor(epochs=epochs, rescale=False, learning_rate=rate, lam=0.3, **settings).fit(X, y)
    start = copy.deepcopy(model)
    task = start._problem(X, y, None)
    seed, rows = task.seeds[0], task.rows
    start.params_ = model.network_.start(seed)[None]
    pair = to_torch(start)
    adam = torch.optim.Adam(pair.parameters(), rate)
    sgd = torch.optim.SGD(pair.parameters(), rate, momentum=0.9, nesterov=True)
    steps = {"adam": adam, "nesterov": sgd}[optimizer]
    for epoch in range(epochs):
        order = rows.copy()
        kernels.shuffle(order, np.uint64(seed), epoch)
        for batch in np.split(order, 10):
            steps.zero_grad()
            pair.criterion(*pair(DATA[0][batch]), DATA[1][batch]).backward()
            steps.step()
    assert rows.size == 300
    moved = np.abs(model.params_ - start.params_).max()
    assert moved > 0.05
    assert np.abs(PairRegressor.from_torch(pair).params_ - model.params_).max() < 1e-4


@pytest.mark.parametrize(
    "shape", [{}, {"hidden": (20, 10), "activation": "tanh"}, {"hidden": (9, 7), "shared_layers": 1}, {"hidden": ()}]
)
@pytest.mark.parametrize("target", [y, np.column_stack([y, 1e30 * y.astype(np.float64)])], ids=["one", "two"])
@pytest.mark.parametrize("per_output", [False, True])
def test_there_and_back_without_loss(shape, target, per_output):
    model = PairRegressor(epochs=5, rescale=False, per_output=per_output, dropout=0.1, **shape).fit(
        1e6 + 100 * X, target
    )
    pair = to_torch(model)
    here, there = model.predict_uncertainty(1e6 + 100 * X), pair.predict(1e6 + 100 * X)
    spread = target.std(axis=0)
    assert np.abs((here.prediction - there.prediction) / spread).max() < 1e-6 * (
        1 + np.abs(here.prediction / spread).max()
    )
    np.testing.assert_allclose(there.expected_loss, here.expected_loss, rtol=5e-6)  # single precision, 50 terms
    back = PairRegressor.from_torch(pair)
    assert np.array_equal(back.params_, model.params_)
    again = back.predict_uncertainty(1e6 + 100 * X)
    assert np.array_equal(again.prediction, here.prediction)
    assert np.array_equal(again.expected_loss, here.expected_loss)


def test_from_torch_is_a_model_like_any_other(tmp_path):
    import aleator

    pair = fit_pair(make_pair(), (X[:200], y[:200]), epochs=5)
    model = PairRegressor.from_torch(pair)
    np.testing.assert_allclose(model.predict(X), pair.predict(X).prediction, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict_loss(X), pair.predict(X).expected_loss, rtol=1e-5)
    model.save(tmp_path / "m")
    assert np.array_equal(aleator.load(tmp_path / "m").predict(X), model.predict(X))
    low, high = model.conformalize(X[200:], y[200:]).predict_interval(X)
    assert (low < high).all()
    for bad, message in [
        (Pair(nn.Sequential(nn.Conv1d(1, 1, 1))), "chains of Linear, ReLU or Tanh"),
        (Pair(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))), "Linear and activation in turn"),
        (Pair(nn.Linear(4, 1).double()), "float32 layers"),
        (Pair(nn.Linear(4, 1), mlp()), "hidden layers of the regressor"),
        (Pair(nn.Linear(4, 1), criterion=JointLoss(lambda a, b: (a - b) ** 2)), "loss by name"),
    ]:
        with pytest.raises(ValueError, match=message):
            PairRegressor.from_torch(bad)


def test_ensembles_and_corrections_move_too():
    model = PairEnsemble(loss="absolute", n_members=3).fit(X, y)
    model.recalibrate(X, y)
    here, there = model.predict_uncertainty(X), to_torch(model).predict(X)
    for part in ("prediction", "expected_loss", "epistemic"):
        np.testing.assert_allclose(getattr(there, part), getattr(here, part), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="method='factor'"):
        to_torch(model.recalibrate(X, y, "isotonic"))
    with pytest.raises(TypeError, match="got str"):
        to_torch("model")


# ---------------------------------------------------------------- training


def test_fit_pair_is_the_loop_a_user_would_write():
    pair, other = make_pair(), make_pair()
    fit_pair(pair, DATA, epochs=2, batch_size=64, seed=3)
    steps = torch.optim.Adam(other.parameters())
    from aleator.torch.random_seeds import seed_of

    for epoch in range(2):
        order = torch.randperm(300, generator=torch.Generator().manual_seed(seed_of(3, epoch)))
        for rows in order.split(64):
            steps.zero_grad()
            other.criterion(*other(DATA[0][rows]), DATA[1][rows]).backward()
            steps.step()
    assert_same(pair, other, rtol=1e-5, atol=1e-6)
    assert list(pair.history.columns) == ["epoch", "joint_loss", "loss", "expected_loss", "learning_rate"]


class Squares(Dataset):
    def __len__(self):
        return 300

    def __getitem__(self, row):
        return X[row], y[row]


class Rows(IterableDataset):
    def __iter__(self):
        return iter(zip(*DATA, strict=True))


@pytest.mark.parametrize("kind", ["arrays", "frame", "dataset", "loader", "iterable", "batches", "weights"])
def test_data_of_any_kind(kind):
    import pandas as pd

    data = {
        "arrays": (X, y),
        "frame": (pd.DataFrame(X), pd.Series(y)),
        "dataset": Squares(),
        "loader": DataLoader(TensorDataset(*DATA), batch_size=50, shuffle=True),
        "iterable": Rows(),
        "batches": [(X[k::6], y[k::6]) for k in range(6)],
        "weights": (X, y, np.ones(300)),
    }[kind]
    pair = fit_pair(make_pair(), data, epochs=3, batch_size=50)
    assert len(pair.history) == 3
    assert pair.history.loss.iloc[-1] < pair.history.loss.iloc[0]
    if kind in ("arrays", "frame", "dataset", "weights"):
        assert_same(pair, fit_pair(make_pair(), DATA, epochs=3, batch_size=50), rtol=1e-5, atol=1e-6)


def test_weights_count_rows():
    counts = np.ones(300)
    counts[:100] = 3
    twice = np.concatenate([np.arange(300), np.arange(100), np.arange(100)])
    full = functools.partial(fit_pair, epochs=20, batch_size=1000)
    assert_same(full(make_pair(), (X, y, counts)), full(make_pair(), (X[twice], y[twice])), rtol=1e-4, atol=1e-5)


def test_several_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 1)

        def forward(self, a, b):
            return self.out(torch.cat([a, b], 1))[:, 0]

    pair = fit_pair(Pair(Two()), ((X[:, :2], X[:, 2:]), y), epochs=2, standardise=False)
    assert pair.predict((X[:, :2], X[:, 2:])).prediction.shape == (300,)


def test_nothing_global_is_touched():
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    fit_pair(make_pair(dropout=0.2), DATA, epochs=2)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    torch.rand(3)
    a = fit_pair(make_pair(dropout=0.2), DATA, epochs=2)
    torch.rand(5)
    b = fit_pair(make_pair(dropout=0.2), DATA, epochs=2)
    assert_same(a, b)


def test_early_stopping_keeps_the_best():
    validation = X[200:], y[200:]
    pair = fit_pair(make_pair(), (X[:60], y[:60]), epochs=400, validation=validation, patience=10,
                    optimizer=functools.partial(torch.optim.Adam, lr=0.02))  # fmt: skip
    curve = pair.history.validation_joint_loss.to_numpy()
    assert len(curve) < 400
    assert curve.argmin() == len(curve) - 11
    with torch.no_grad():
        joint = pair.criterion(*pair(torch.from_numpy(validation[0])), torch.from_numpy(validation[1]))
    assert joint.item() == pytest.approx(curve.min(), rel=1e-5)
    row = pair.history.iloc[curve.argmin()]
    said = pair.predict(validation[0])
    assert row.validation_loss == pytest.approx(np.mean((said.prediction - validation[1]) ** 2), rel=1e-5)
    assert row.validation_expected_loss == pytest.approx(said.expected_loss.mean(), rel=1e-5)


def test_with_a_schedule_of_lam_the_score_judges():
    """Joint losses of different lams do not compare: here they fall with lam whatever the pair has learned."""
    pair = make_pair()
    pair.set_criterion(JointLoss(lam=lambda epoch: 0.9**epoch))
    fit_pair(pair, (X[:60], y[:60]), epochs=300, validation=(X[200:], y[200:]), patience=10,
             optimizer=functools.partial(torch.optim.Adam, lr=0.02))  # fmt: skip
    history = pair.history
    assert len(history) < 300
    assert history.validation_joint_loss.idxmin() > len(history) - 11


def test_schedulers():
    falling = functools.partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.5)
    pair = fit_pair(make_pair(), DATA, epochs=3, scheduler=falling)
    assert pair.history.learning_rate.tolist() == [1e-3, 5e-4, 2.5e-4]
    cycle = functools.partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=16)
    assert (
        fit_pair(make_pair(), DATA, epochs=3, scheduler=cycle, scheduler_step="batch").history.learning_rate.iloc[-1]
        < 1e-4
    )
    plateau = functools.partial(torch.optim.lr_scheduler.ReduceLROnPlateau, patience=0, threshold=10.0)
    assert fit_pair(make_pair(), DATA, epochs=4, scheduler=plateau).history.learning_rate.iloc[-1] < 1e-3


def test_an_optimizer_that_asks_several_times(tmp_path):
    lbfgs = functools.partial(torch.optim.LBFGS, line_search_fn="strong_wolfe")
    common = {"batch_size": 300, "standardise": True, "optimizer": lbfgs}
    pair = fit_pair(make_pair(), DATA, epochs=10, **common)
    adam = fit_pair(make_pair(), DATA, epochs=10, batch_size=300, standardise=True)
    assert pair.history.joint_loss.iloc[-1] < 0.8 * adam.history.joint_loss.iloc[-1]
    fit_pair(make_pair(), DATA, epochs=4, checkpoint=tmp_path / "c", **common)
    assert_same(fit_pair(make_pair(), DATA, epochs=10, checkpoint=tmp_path / "c", **common), pair)
    with pytest.raises(ValueError, match="LBFGS does not treat every number by itself"):
        fit_ensemble(make_pair, 2, DATA, optimizer=lbfgs)


def test_clip():
    """With plain SGD and a tiny limit, no step is longer than rate times limit."""
    pair, start = make_pair(), make_pair()
    fit_pair(
        pair,
        (100 * X, 100 * y),
        epochs=1,
        batch_size=300,
        clip=0.01,
        optimizer=functools.partial(torch.optim.SGD, lr=1.0),
    )
    moved = math.sqrt(
        sum((a - b).detach().square().sum().item() for a, b in zip(pair.parameters(), start.parameters(), strict=True))
    )
    assert moved == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    half, full = (fit_pair(make_pair(), DATA, epochs=10, autocast=kind) for kind in (dtype, None))
    assert half.history.loss.iloc[-1] == pytest.approx(full.history.loss.iloc[-1], rel=0.03)
    assert half.history.loss.iloc[-1] != full.history.loss.iloc[-1]


def test_divergence_names_the_step():
    fast = functools.partial(torch.optim.SGD, lr=1e6)
    with pytest.raises(DivergenceError, match=r"joint loss of member 0 is (nan|inf) in epoch 1, step \d"):
        fit_pair(make_pair(), DATA, epochs=3, optimizer=fast)
    target = y.copy()
    target[7] = np.nan
    with pytest.raises(DivergenceError, match="not finite"):
        fit_pair(make_pair(), (X, target), epochs=1)


def test_bad_settings_are_named():
    for settings, message in [
        ({"epochs": 0}, "epochs must be a whole number >= 1"),
        ({"batch_size": 2.5}, "batch_size must be a whole number >= 1"),
        ({"patience": 3}, "give it"),
        ({"clip": 0.0}, "clip must be a positive number"),
        ({"scheduler_step": "week"}, "scheduler_step must be 'epoch' or 'batch'"),
        ({"optimizer": "adam"}, "optimizer must be an object of torch or a function"),
        ({"autocast": torch.float32}, "autocast must be torch.bfloat16 or torch.float16"),
        (
            {"scheduler": torch.optim.lr_scheduler.ExponentialLR(torch.optim.SGD(mlp().parameters(), 0.1), 0.9)},
            "another optimizer",
        ),
        ({"scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau, "scheduler_step": "batch"}, "must be 'epoch'"),
        ({"optimizer": torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1)}, "none of the pair's parameters"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit_pair(make_pair(), DATA, **settings)
    for data, error, message in [
        (X, TypeError, "data must be"),
        ((X, y[:5]), ValueError, r"x has shape \(300, 4\), y has shape \(5,\)"),
        ((X[:0], y[:0]), ValueError, "no rows"),
        ((X, np.array(["a"] * 300)), TypeError, "numbers are needed"),
        ([X], TypeError, r"a batch must be \(x, y\)"),
        ((X, y[:, None]), ValueError, r"y_pred has shape \(64,\), y has shape \(64, 1\)"),
        ((X, y, -np.ones(300)), ValueError, "sample weights must be numbers >= 0, and one is -1"),
        ((X, y, np.zeros(300)), ValueError, "all sample weights are 0"),
    ]:
        with pytest.raises(error, match=message):
            fit_pair(make_pair(), data, epochs=1)
    fit_pair(make_pair(), (X, y, np.arange(300) > 290), epochs=1, batch_size=8)  # many batches without any weight
    with pytest.raises(TypeError, match=r"fit_pair trains a Pair, got Sequential: make one"):
        fit_pair(mlp(), DATA)
    with pytest.raises(ValueError, match="no rows to predict"):
        make_pair().predict(X[:0])
    generator = ((X[k::6], y[k::6]) for k in range(6))
    with pytest.raises(ValueError, match="read only once"):
        fit_pair(make_pair(), generator, standardise=True)
    with pytest.raises(TypeError, match=r"from_torch takes an aleator.torch.Pair, got Ensemble"):
        PairRegressor.from_torch(Ensemble([make_pair()]))
    with pytest.raises(FileNotFoundError, match="no folder .* for the checkpoint"):
        fit_pair(make_pair(), DATA, checkpoint="no/such/folder/c")
    once = ((X[k::6], y[k::6]) for k in range(6))
    with pytest.raises(ValueError, match="no batch in epoch 2; a generator can be read only once"):
        fit_pair(make_pair(), once, epochs=2)


# ---------------------------------------------------------------- resume


class StopError(Exception):
    pass


def stopping(optimizer, after):
    """An optimizer that is interrupted after so many steps, in the middle of one."""

    def make(parameters):
        made = optimizer(parameters)
        step, count = made.step, 0

        def interrupted(self, *args, **kwargs):
            nonlocal count
            if count == after:
                raise StopError
            count += 1
            return step(*args, **kwargs)

        made.step = types.MethodType(interrupted, made)
        return made

    return make


@pytest.mark.parametrize("stop", [1, 4, 5, 13, 22])
@pytest.mark.parametrize("kind", ["tensors", "loader", "ensemble"])
def test_stopped_at_any_step_training_goes_on_to_the_same_bits(stop, kind, tmp_path):
    data = DATA if kind != "loader" else DataLoader(TensorDataset(*DATA), batch_size=64, shuffle=True)
    adam = functools.partial(torch.optim.AdamW, lr=0.01)
    common = {
        "epochs": 5, "batch_size": 64, "seed": 7, "clip": 1.0, "validation": (X[:50], y[:50]), "patience": 4,
        "scheduler": functools.partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.05, total_steps=25),
        "scheduler_step": "batch", "standardise": True,
    }  # fmt: skip

    def fit(**settings):
        if kind == "ensemble":
            return fit_ensemble(make_pair, 3, data, **common, **settings)
        return fit_pair(make_pair(dropout=0.2), data, **common, **settings)

    whole = fit(optimizer=adam)
    place = tmp_path / "checkpoint"
    with pytest.raises(StopError):
        fit(optimizer=stopping(adam, stop), checkpoint=place, checkpoint_every=0)
    resumed = fit(optimizer=adam, checkpoint=place)
    assert_same(resumed, whole)
    assert resumed.history.equals(whole.history)
    again = fit(optimizer=adam, checkpoint=place)  # nothing is left to do
    assert_same(again, whole)
    assert again.history.equals(whole.history)


def test_more_epochs_go_on_from_the_end(tmp_path):
    place = tmp_path / "checkpoint"
    fit_pair(make_pair(), DATA, epochs=2, checkpoint=place)
    longer = fit_pair(make_pair(), DATA, epochs=5, checkpoint=place)
    assert_same(longer, fit_pair(make_pair(), DATA, epochs=5))
    place.unlink()
    common = {"validation": (X[:50], y[:50]), "patience": 50, "optimizer": functools.partial(torch.optim.Adam, lr=0.2)}
    first = fit_pair(make_pair(), DATA, epochs=6, checkpoint=place, **common)
    assert first.history.validation_joint_loss.idxmin() < 5  # the best is not the last
    longer = fit_pair(make_pair(), DATA, epochs=9, checkpoint=place, **common)
    assert_same(longer, fit_pair(make_pair(), DATA, epochs=9, **common))


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    place = tmp_path / "checkpoint"
    fit_pair(make_pair(), DATA, epochs=1, checkpoint=place)
    with pytest.raises(ValueError, match="seed was 0 and is 1. Remove it"):
        fit_pair(make_pair(), DATA, epochs=2, seed=1, checkpoint=place)
    slow = functools.partial(torch.optim.Adam, lr=1e-4)
    falling = make_pair().set_criterion(JointLoss(lam=lambda epoch: 0.5**epoch))
    tanh = Pair(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.0), nn.Linear(16, 1), nn.Flatten(0)))
    for pair, data, settings, message in [
        (make_pair(), (X, 50 * y), {}, "data is another"),
        (make_pair(), (X[:-1], y[:-1]), {}, "data is another"),
        (tanh, DATA, {}, "model is another"),
        (make_pair(), DATA, {"standardise": True}, "model is another"),
        (make_pair(), DATA, {"optimizer": slow}, "optimizer was .*0.001.* and is .*0.0001"),
        (make_pair(), DATA, {"validation": (X[:9], y[:9])}, "validation is another"),
        (make_pair(), DATA, {"autocast": torch.bfloat16}, "autocast was"),
        (falling, DATA, {}, "lam was 0.2 and is"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit_pair(pair, data, epochs=2, checkpoint=place, **settings)
    content = place.read_bytes()
    for k in (0, 50, 300, len(content) // 2, len(content) - 1):
        place.write_bytes(content[:k] + bytes([content[k] ^ 4]) + content[k + 1 :])
        with pytest.raises(ValueError, match="is not a checkpoint that training can go on from"):
            fit_pair(make_pair(), DATA, epochs=2, checkpoint=place)
    PairRegressor(epochs=1, rescale=False).fit(X, y).save(place)
    with pytest.raises(ValueError, match="it is a model file"):
        fit_pair(make_pair(), DATA, epochs=2, checkpoint=place)


def test_a_checkpoint_holds_nothing_that_can_run(tmp_path):
    place = tmp_path / "checkpoint"
    fit_pair(
        make_pair(), DATA, epochs=1, checkpoint=place, scheduler=lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [3])
    )
    facts, arrays = file_format.read(place)
    assert facts["kind"] == "checkpoint"
    assert all(values.dtype == np.uint8 for values in arrays.values())
    fit_pair(
        make_pair(), DATA, epochs=2, checkpoint=place, scheduler=lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [3])
    )


# ---------------------------------------------------------------- ensembles


@pytest.mark.parametrize("settings", [{}, {"clip": 0.1}, {"validation": (X[:50], y[:50]), "patience": 2}])
def test_members_at_once_are_the_members_one_by_one(settings):
    common = {"epochs": 6, "standardise": True, "optimizer": functools.partial(torch.optim.Adam, lr=0.01), **settings}
    ensemble = fit_ensemble(make_pair, 4, DATA, **common)
    for k, pair in enumerate(ensemble.pairs):
        alone = fit_pair(make_pair(k), DATA, **common)
        assert_same(pair, alone, rtol=1e-5, atol=1e-5)
        ours = ensemble.history[ensemble.history.member == k].drop(columns="member").reset_index(drop=True)
        np.testing.assert_allclose(ours.iloc[: len(alone.history)], alone.history, rtol=1e-4)
    assert not np.allclose(*(pair.predict(X).prediction for pair in ensemble.pairs[:2]))


class Branching(nn.Module):
    """A module that looks at its values, which cannot be vectorised."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        made = self.out(x)[:, 0]
        return made if made.sum() > -1e9 else -made


def test_the_loop_gives_the_same_numbers(monkeypatch):
    vectorised = fit_ensemble(make_pair, 3, DATA, epochs=3)
    monkeypatch.setattr(Stacked, "_can_be_vectorised", lambda self, x: False)
    looped = fit_ensemble(make_pair, 3, DATA, epochs=3)
    assert_same(vectorised, looped, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [lambda k: Pair(Branching()), lambda k: make_pair(k, dropout=0.3)])
def test_what_cannot_be_vectorised_is_looped(make, monkeypatch):
    tried = []
    can = Stacked._can_be_vectorised
    monkeypatch.setattr(Stacked, "_can_be_vectorised", lambda self, x: tried.append(can(self, x)) or tried[-1])
    ensemble = fit_ensemble(make, 3, DATA, epochs=2)
    assert tried == [False]
    assert ensemble.predict(X).epistemic.min() >= 0


def test_statistics_of_batches_are_members_own():
    # SGD: the bias before a normalisation has no gradient but rounding, of which Adam would make steps
    common = {"epochs": 3, "optimizer": functools.partial(torch.optim.SGD, lr=0.05)}
    for k, pair in enumerate(fit_ensemble(normalised, 3, DATA, **common).pairs):
        assert_same(pair, fit_pair(normalised(k), DATA, **common), rtol=1e-4, atol=1e-5)


def test_each_member_may_have_its_lam():
    def make(k):
        pair = make_pair(k)
        pair.set_criterion(JointLoss(lam=10.0 ** (k - 1)))
        return pair

    ensemble = fit_ensemble(make, 3, DATA, epochs=3)
    for k, pair in enumerate(ensemble.pairs):
        assert float(pair.criterion.lam) == pytest.approx(10.0 ** (k - 1))
        assert_same(pair, fit_pair(make(k), DATA, epochs=3), rtol=1e-5, atol=1e-5)


def test_members_follow_a_schedule_of_lam():
    def make(k):
        pair = make_pair(k)
        pair.set_criterion(JointLoss(lam=lambda epoch: 2.0 * 0.7**epoch))
        return pair

    for settings in ({}, {"validation": (X[:50], y[:50]), "patience": 1}):
        common = {"epochs": 5, "optimizer": functools.partial(torch.optim.Adam, lr=0.03), **settings}
        for k, pair in enumerate(fit_ensemble(make, 3, DATA, **common).pairs):
            alone = fit_pair(make(k), DATA, **common)
            assert float(pair.criterion.lam) == float(alone.criterion.lam)
            np.testing.assert_allclose(pair.predict(X).expected_loss, alone.predict(X).expected_loss, rtol=1e-3)


class Tied(nn.Module):
    """One layer used twice, under two names; or two layers with one weight."""

    def __init__(self, one_layer):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = self.one if one_layer else nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.two(torch.tanh(self.one(x)))))[:, 0]


@pytest.mark.parametrize("one_layer", [True, False])
def test_weights_that_are_one_stay_one(one_layer):
    def make(k):
        torch.manual_seed(k)
        return Pair(Tied(one_layer))

    with torch.random.fork_rng():
        for k, pair in enumerate(fit_ensemble(make, 2, DATA, epochs=3).pairs):
            assert pair.regressor.one.weight is pair.regressor.two.weight
            assert_same(pair, fit_pair(make(k), DATA, epochs=3), rtol=1e-4, atol=1e-5)


def normalised(k=0):
    with torch.random.fork_rng():
        torch.manual_seed(k)
        return Pair(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0)))


def test_each_part_keeps_its_mode():
    """A part that its owner has set to evaluate is not trained on: its statistics stay."""

    def make(k=0):
        pair = normalised(k)
        pair.regressor[1].eval()
        return pair

    for pair in (fit_pair(make(), DATA, epochs=1), fit_ensemble(make, 2, DATA, epochs=1).pairs[0]):
        assert torch.equal(pair.regressor[1].running_mean, torch.zeros(8))
        assert not torch.equal(pair.quantifier[1].running_mean, torch.zeros(8))
        assert not pair.regressor[1].training
        assert pair.regressor.training
    pair = normalised().eval()
    fit_pair(pair, DATA, epochs=1, validation=(X, y))
    assert not pair.training
    assert not torch.equal(pair.regressor[1].running_mean, torch.zeros(8))


def test_a_frozen_regressor_gets_a_quantifier_that_learns():
    net = mlp().requires_grad_(False)
    before = weights(net)
    pair = fit_pair(Pair(net), DATA, epochs=2)
    assert all(torch.equal(values, before[name]) for name, values in net.state_dict().items())
    assert all(p.requires_grad for p in pair.quantifier.parameters())


def test_fields_and_their_ensembles():
    images = torch.randn(40, 2, 5, 5, generator=torch.Generator().manual_seed(0))
    target = torch.cat([images, images[:, :1]], 1)

    def make(k):
        with torch.random.fork_rng():
            torch.manual_seed(k)
            return Pair(nn.Conv2d(2, 3, 3, padding=1))

    said = (
        fit_ensemble(make, 3, (images, target), epochs=2, standardise=True)
        .recalibrate((images, target))
        .predict(images)
    )
    assert said.prediction.shape == (40, 3, 5, 5)
    assert said.expected_loss.shape == (40, 1, 5, 5)
    realised = np.square(said.prediction - target.numpy()).sum(1, keepdims=True)
    assert said.expected_loss.mean() == pytest.approx(realised.mean(), rel=1e-6)
    with pytest.raises(ValueError, match="are no table"):
        said.to_frame()


def test_arrays_as_numpy_has_them():
    pair = fit_pair(make_pair(), (X.astype(np.float64)[::-1], (y > 0)[::-1]), epochs=1)
    assert pair.predict(X.astype(np.float64)).prediction.shape == (300,)


def test_a_mixture_of_pairs():
    ensemble = fit_ensemble(make_pair, 3, DATA, epochs=3)
    said, members = ensemble.predict(X), [pair.predict(X) for pair in ensemble.pairs]
    mu = np.stack([member.prediction for member in members])
    np.testing.assert_allclose(said.epistemic, mu.var(axis=0), rtol=1e-9, atol=1e-12)  # eq. (4.11)
    np.testing.assert_allclose(said.aleatoric, np.mean([m.expected_loss for m in members], axis=0))
    y_pred, xi = ensemble(DATA[0])
    assert y_pred.shape == xi.shape == (3, 300)
    said = ensemble.recalibrate((X, y)).predict(X)
    assert said.expected_loss.mean() == pytest.approx(np.mean((said.prediction - y) ** 2))
    own = fit_ensemble(lambda k: Pair(mlp(k), criterion=JointLoss(lambda a, b: (a - b) ** 2)), 3, DATA, epochs=1)
    assert own.predict(X).epistemic.min() >= 0
    assert isinstance(own, Ensemble)


def test_bad_ensembles_are_named():
    with pytest.raises(ValueError, match="give functions that make optimizer"):
        fit_ensemble(make_pair, 2, DATA, optimizer=torch.optim.SGD(mlp().parameters(), 0.1))
    with pytest.raises(ValueError, match="one architecture"):
        fit_ensemble(lambda k: Pair(nn.Linear(4, 1 + k)), 2, (X, y[:, None]))
    with pytest.raises(ValueError, match=r"regressor.1 is ReLU\(\) in member 0 and Tanh\(\) in member 1"):
        fit_ensemble(lambda k: Pair(nn.Sequential(nn.Linear(4, 3), [nn.ReLU, nn.Tanh][k](), nn.Linear(3, 1))), 2, DATA)
    with pytest.raises(ValueError, match="weight, bias frozen in member 1"):
        fit_ensemble(lambda k: Pair(nn.Sequential(nn.Linear(4, 1).requires_grad_(k == 0))), 2, DATA)
    one = make_pair()
    with pytest.raises(ValueError, match="gave one twice"):
        fit_ensemble(lambda k: one, 2, DATA)
    with pytest.raises(TypeError, match=r"make_pair\(0\) must make a Pair, and makes a Sequential"):
        fit_ensemble(mlp, 2, DATA)
    with pytest.raises(ValueError, match="k must be a whole number"):
        fit_ensemble(make_pair, 0, DATA)
    with pytest.raises(ValueError, match="one loss and one coupling"):
        fit_ensemble(lambda k: Pair(mlp(), criterion=JointLoss(["squared", "absolute"][k])), 2, DATA)
    with pytest.raises(TypeError, match="epoch"):
        fit_ensemble(make_pair, 2, DATA, epoch=3)


# ---------------------------------------------------------------- what a reviewer could change without a test noticing


def test_patience_counts_epochs_without_improvement():
    """Judged 4, 3, 2, ... it goes on whatever the patience; the last epoch allowed may still bring the best."""
    pair = fit_pair(make_pair(), DATA, epochs=6, validation=DATA, patience=1)
    assert len(pair.history) == 6
    curve = iter([1.0, 2.0, 2.0, 0.5, 2.0, 2.0, 2.0, 0.1])
    from aleator.torch import training

    run = training._Run(
        training.Alone(make_pair()), JointLoss(), DATA, training.Training(validation=DATA, patience=3), training.World()
    )
    while not run.progress.stopped:
        run.judge(torch.tensor([next(curve)], dtype=torch.float64))
        run.progress.epoch += 1
    assert run.progress.epoch == 7
    assert run.last_epochs() == [3]


def test_a_member_that_had_enough_does_not_come_back():
    from aleator.torch import training

    run = training._Run(
        Stacked([make_pair(0), make_pair(1)]),
        JointLoss(),
        DATA,
        training.Training(validation=DATA, patience=2),
        training.World(),
    )
    for judged in ([1.0, 5.0], [2.0, 4.0], [2.0, 3.0], [0.1, 2.0], [0.1, 1.0], [9.0, 9.0], [9.0, 9.0]):
        run.judge(torch.tensor(judged, dtype=torch.float64))
        run.progress.epoch += 1
    assert run.last_epochs() == [0, 4]
    assert run.progress.stopped


@pytest.mark.parametrize("per_output", [False, True])
def test_the_objective_is_the_weighted_mean_of_the_criterion(per_output):
    """With SGD, which shows every factor."""
    target = torch.stack([DATA[1], 3 * DATA[1]], 1)
    weight = torch.rand(300, generator=torch.Generator().manual_seed(1)) + 0.1

    def make():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return Pair(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), per_output=per_output)

    sgd = functools.partial(torch.optim.SGD, lr=0.1)
    pair = fit_pair(make(), (DATA[0], target, weight), epochs=1, batch_size=300, optimizer=sgd, standardise=True)
    other = make().standardise((DATA[0], target, weight))
    steps = sgd(other.parameters())
    value = other.criterion(*other(DATA[0]), target, weight)
    value.backward()
    steps.step()
    assert_same(pair, other, rtol=1e-5, atol=1e-6)
    rows = other.criterion.parts(*make().scaled_like(other)(DATA[0]), target)
    joint = (weight[:, None] * rows[0].detach() * other.criterion.unit).sum() / weight.sum()
    assert pair.history.joint_loss[0] == pytest.approx(float(joint), rel=1e-5)
    assert pair.history.loss[0] == pytest.approx(
        float((weight[:, None] * rows[1].detach()).sum() / weight.sum()), rel=1e-5
    )


def test_weights_count_in_standardisation_and_recalibration():
    counts = rng.integers(1, 4, size=300)
    again = np.repeat(np.arange(300), counts)
    for make in (lambda k: make_pair(k), lambda k: Pair(nn.Sequential(nn.Linear(4, 2)), per_output=True)):
        target = y if make(0).quantifier[-1].__class__ is nn.Flatten else np.column_stack([y, 100 * y + 1])
        pair = make(0).standardise((X, target, counts))
        other = copy.deepcopy(pair).standardise((X[again], target[again]))
        for name in ("x_mean", "x_spread", "y_mean", "y_spread"):
            np.testing.assert_allclose(getattr(pair.scaling, name), getattr(other.scaling, name), rtol=1e-9)
        pair.recalibrate((X, target, counts))
        once = pair.loss_scale.clone()
        np.testing.assert_allclose(pair.recalibrate((X, target, counts)).loss_scale, once)  # not once more
        np.testing.assert_allclose(other.recalibrate((X[again], target[again])).loss_scale, once, rtol=1e-6)
        said = pair.predict(X)
        realised = np.square(said.prediction - target)
        np.testing.assert_allclose(
            counts @ said.expected_loss, counts @ realised, rtol=1e-6
        )  # of each output by itself
        ensemble = Ensemble([copy.deepcopy(pair), copy.deepcopy(pair)]).recalibrate((X, target, counts))
        np.testing.assert_allclose(
            ensemble.recalibrate((X, target, counts)).loss_scale, torch.ones_like(once), rtol=1e-6
        )


def test_standardisation_of_batches_that_differ():
    """Sorted rows: most of the spread is between the batches. A column that never changes is ignored, far rows stay finite."""
    order = np.argsort(X[:, 0])
    table = np.column_stack([X[order], np.full(300, 7.0, np.float32)])
    batches = [(table[k : k + 30], y[order][k : k + 30]) for k in range(0, 300, 30)]
    scaling = Pair(nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))).standardise(batches).scaling
    np.testing.assert_allclose(scaling.x_spread[:4], X.std(axis=0), rtol=1e-5)
    assert float(scaling.x_spread[4]) == 0
    seen = scaling.inputs(torch.full((1, 5), 1e30), torch.float32)
    assert torch.equal(seen, torch.tensor([[1e4, 1e4, 1e4, 1e4, 0.0]]))


def test_held_rows_are_seen_without_dropout_and_in_no_units():
    pair = fit_pair(make_pair(dropout=0.5), DATA, epochs=2, validation=(X[:90], y[:90]))
    said = pair.predict(X[:90])
    assert pair.history.validation_loss.iloc[-1] == pytest.approx(np.mean((said.prediction - y[:90]) ** 2), rel=1e-5)
    stops = []
    for factor in (1.0, 1e4):  # the unit of one output does not decide for the other
        target = np.column_stack([y, factor * X[:, 1]])
        with torch.random.fork_rng():
            torch.manual_seed(0)
            pair = Pair(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), per_output=True)
        fit_pair(pair, (X[:60], target[:60]), epochs=300, validation=(X[60:], target[60:]), patience=5, standardise=True,
                 optimizer=functools.partial(torch.optim.Adam, lr=0.03))  # fmt: skip
        stops.append(len(pair.history))
    assert stops[0] == stops[1] < 300


def test_the_score_that_judges_schedules():
    from aleator.torch import training

    criterion = JointLoss(lam=lambda epoch: 0.3)
    pair = make_pair().set_criterion(criterion)
    run = training._Run(training.Alone(pair), criterion, DATA, training.Training(validation=DATA), training.World())
    sums = run.on_held()
    said = pair.predict(X)
    score = np.square(said.prediction - y) / said.expected_loss + np.log(said.expected_loss)
    assert float(sums["score"] / sums["weight"]) == pytest.approx(score.mean(), rel=1e-5)


def test_a_plateau_is_one_of_the_validation():
    plateau = functools.partial(torch.optim.lr_scheduler.ReduceLROnPlateau, patience=0)
    fast = functools.partial(torch.optim.Adam, lr=0.03)
    pair = fit_pair(
        make_pair(), (X[:40], y[:40]), epochs=40, validation=(X[200:], y[200:]), scheduler=plateau, optimizer=fast
    )
    fell = pair.history.validation_joint_loss.cummin().shift() < pair.history.validation_joint_loss
    first = int(np.argmax(fell))
    assert pair.history.learning_rate[first] == 0.03
    assert pair.history.learning_rate[first + 1] == pytest.approx(0.003)


def test_float16_goes_on_with_its_scale(tmp_path):
    common = {
        "autocast": torch.float16,
        "clip": 0.05,
        "optimizer": functools.partial(torch.optim.SGD, lr=1.0),
        "batch_size": 100,
    }
    whole = fit_pair(make_pair(), DATA, epochs=4, **common)
    fit_pair(make_pair(), DATA, epochs=2, checkpoint=tmp_path / "c", **common)
    assert_same(fit_pair(make_pair(), DATA, epochs=4, checkpoint=tmp_path / "c", **common), whole)
    pair = fit_pair(make_pair(), DATA, epochs=20, **{**common, "batch_size": 300})
    moved = [(a - b).detach() for a, b in zip(pair.parameters(), make_pair().parameters(), strict=True)]
    assert math.sqrt(sum(m.square().sum().item() for m in moved)) > 0.1  # clipped after the scale is taken away


def test_short_gradients_are_not_made_longer():
    common = {"epochs": 2, "optimizer": functools.partial(torch.optim.SGD, lr=0.01)}
    assert_same(fit_ensemble(make_pair, 2, DATA, clip=1e6, **common), fit_ensemble(make_pair, 2, DATA, **common))


def test_loaders_and_samplers_are_told_the_epoch(tmp_path):
    told = []

    class Sampler(torch.utils.data.SequentialSampler):
        def set_epoch(self, epoch):
            told.append(epoch)

    data = TensorDataset(*DATA)
    fit_pair(make_pair(), DataLoader(data, batch_size=100, sampler=Sampler(data)), epochs=3)
    assert told == [0, 1, 2]
    seeded = DataLoader(data, batch_size=100, shuffle=True, generator=torch.Generator())
    with pytest.raises(ValueError, match="generator of its own cannot be resumed"):
        fit_pair(make_pair(), seeded, checkpoint=tmp_path / "c")


def test_a_resumed_ensemble_with_dropout(tmp_path):
    """Stopped after the last step of an epoch: the first call is then one of the validation."""
    common = {"epochs": 3, "validation": (X[:50], y[:50]), "batch_size": 64}
    adam = functools.partial(torch.optim.Adam, lr=0.01)
    whole = fit_ensemble(lambda k: make_pair(k, dropout=0.2), 2, DATA, optimizer=adam, **common)
    with pytest.raises(StopError):
        fit_ensemble(lambda k: make_pair(k, dropout=0.2), 2, DATA, optimizer=stopping(adam, 5), checkpoint=tmp_path / "c", checkpoint_every=0, **common)  # fmt: skip
    assert_same(
        fit_ensemble(lambda k: make_pair(k, dropout=0.2), 2, DATA, optimizer=adam, checkpoint=tmp_path / "c", **common),
        whole,
    )


def test_members_with_schedules_of_their_own():
    def make(k):
        return make_pair(k).set_criterion(JointLoss(lam=lambda epoch, k=k: 0.1 * 10**k * 0.9**epoch))

    for k, pair in enumerate(fit_ensemble(make, 2, DATA, epochs=4).pairs):
        alone = fit_pair(make(k), DATA, epochs=4)
        np.testing.assert_allclose(pair.predict(X).expected_loss, alone.predict(X).expected_loss, rtol=1e-4)
    own = [lambda a, b: (a - b) ** 2, lambda a, b: (a - b).abs()]
    with pytest.raises(ValueError, match="one loss and one coupling"):
        fit_ensemble(lambda k: Pair(mlp(k), criterion=JointLoss(own[k])), 2, DATA)


class Skipping(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.bend, self.b = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)

    def forward(self, x):
        return self.b(x + self.bend(self.a(x)))


def test_from_torch_keeps_everything_or_refuses():
    pair = fit_pair(make_pair(dropout=0.25), DATA, epochs=1, standardise=True).recalibrate(DATA)
    model = PairRegressor.from_torch(pair)
    assert model.dropout == 0.25
    np.testing.assert_allclose(model.predict_loss(X), pair.predict(X).expected_loss, rtol=1e-5)
    assert [layer.p for layer in to_torch(model).regressor if isinstance(layer, nn.Dropout)] == [0.25]
    with pytest.raises(ValueError, match="called otherwise"):
        PairRegressor.from_torch(Pair(Skipping()))
    with pytest.raises(ValueError, match="called otherwise"):
        PairRegressor.from_torch(Pair(nn.Sequential(nn.Flatten(), nn.Linear(4, 2))))


def test_members_of_two_dimensions_share_no_row():
    stacked = JointLoss(lam=torch.tensor([0.1, 0.2]))
    with pytest.raises(ValueError, match=r"xi has shape \(2, 1, 3\), y has shape \(2, 5, 3\)"):
        stacked(torch.zeros(2, 5, 3), torch.zeros(2, 1, 3), torch.zeros(2, 5, 3))


def test_a_constant_target_and_a_field_have_a_unit():
    constant = Pair(nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))).standardise((X, np.full(300, 3.0)))
    assert float(constant.criterion.unit) == 1
    assert (constant.predict(X).prediction == 3).all()
    field = torch.randn(20, 2, 6, generator=torch.Generator().manual_seed(0))
    pair = Pair(nn.Conv1d(2, 2, 1), per_output=True).standardise((field, 3 * field))
    assert pair.criterion.unit.ndim == 0
    assert float(pair.criterion.unit) == pytest.approx(float((3 * field).var(correction=0)), rel=1e-5)
