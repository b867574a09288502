"""Quantifiers of fitted modules: right in scale, from any features, and the module stays as it is."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from aleator.torch import Quantifier

generator = torch.Generator().manual_seed(0)
X = torch.rand(3000, 3, generator=generator)
y = 3 * X[:, 0] + X[:, 1] * torch.randn(3000, generator=generator)
TRAIN, HELD, TEST = slice(0, 1000), slice(1000, 2000), slice(2000, 3000)


@pytest.fixture(scope="module")
def net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Linear(3, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Dropout(0.1), nn.Linear(30, 1), nn.Flatten(0)
        )
        steps = torch.optim.Adam(module.parameters(), 1e-2)
        for _ in range(150):
            steps.zero_grad()
            (module(X[TRAIN]) - y[TRAIN]).square().mean().backward()
            steps.step()
    module[2].eval()  # a mode of its own
    return module


def state(module):
    hooks = [len(part._forward_hooks) for part in module.modules()]
    modes = [part.training for part in module.modules()]
    grads = [(p.requires_grad, None if p.grad is None else p.grad.clone()) for p in module.parameters()]
    return {name: values.clone() for name, values in module.state_dict().items()}, hooks, modes, grads


def same(before, after):
    weights = all(torch.equal(before[0][name], values) for name, values in after[0].items())
    grads = all(a == c and torch.equal(b, d) for (a, b), (c, d) in zip(before[3], after[3], strict=True))
    return weights and grads and before[1:3] == after[1:3]


@pytest.mark.parametrize(
    "features", [None, "0", "3", lambda x: x, lambda x: torch.sin(x)], ids=["last", "0", "3", "x", "sin"]
)
@pytest.mark.parametrize("loss", ["squared", "absolute", lambda y_pred, y: (y_pred - y).abs() ** 1.5])
def test_the_expected_loss_is_right_and_the_module_as_it_was(net, features, loss):
    before, chance = state(net), torch.get_rng_state()
    quantifier = Quantifier(net, features, loss=loss, n_members=2).fit((X[HELD], y[HELD]))
    said = quantifier.predict(X[TEST])
    assert same(before, state(net))
    assert torch.equal(chance, torch.get_rng_state())
    y_pred, expected = quantifier(X[TEST])  # whatever mode the module is in
    assert same(before, state(net))
    net.eval()
    np.testing.assert_allclose(said.prediction, net(X[TEST]).detach(), rtol=1e-5)
    np.testing.assert_allclose(y_pred.detach(), said.prediction, rtol=1e-5)
    np.testing.assert_allclose(expected.detach(), said.expected_loss, rtol=1e-5)
    for part, mode in zip(net.modules(), before[2], strict=True):
        part.training = mode
    realised = quantifier.measure(y[TEST].numpy().astype(float), said.prediction)
    assert said.expected_loss.mean() == pytest.approx(realised.mean(), rel=0.15)
    assert np.corrcoef(said.expected_loss, X[TEST, 1])[0, 1] > 0.9  # the column that makes the noise


def test_recalibration_and_intervals(net):
    quantifier = Quantifier(net, "0", loss="absolute", n_members=2).fit((X[HELD], y[HELD]))
    low, high = quantifier.predict_interval(X[TEST], 0.8)
    assert ((low <= y[TEST].numpy()) & (y[TEST].numpy() <= high)).mean() == pytest.approx(0.8, abs=0.05)
    for method in ("factor", "isotonic"):
        quantifier.recalibrate(DataLoader(TensorDataset(X[TEST], 5 * y[TEST]), batch_size=100), method)
        said = quantifier.predict(X[TEST])
        assert said.expected_loss.mean() == pytest.approx(
            np.abs(said.prediction - 5 * y[TEST].numpy()).mean(), rel=0.02
        )
        with torch.no_grad():
            was = [part.training for part in net.modules()]
            net.eval()
            np.testing.assert_allclose(quantifier(X[TEST])[1], said.expected_loss, rtol=1e-5)
            for part, mode in zip(net.modules(), was, strict=True):
                part.training = mode
    low, high = quantifier.conformalize((X[TEST], 5 * y[TEST])).predict_interval(X[TEST])
    assert ((low <= 5 * y[TEST].numpy()) & (5 * y[TEST].numpy() <= high)).mean() == pytest.approx(0.9, abs=0.01)


def test_several_outputs():
    module = nn.Linear(3, 2)
    target = torch.stack([y, 10 * y], 1)
    shared = Quantifier(module, lambda x: x, n_members=1, epochs=3).fit((X[HELD], target[HELD]))
    assert shared.predict(X[TEST]).expected_loss.shape == (1000,)
    assert shared(X[TEST])[1].shape == (1000,)
    each = Quantifier(module, lambda x: x, n_members=1, epochs=3, per_output=True).fit((X[HELD], target[HELD]))
    np.testing.assert_allclose(each(X[TEST])[1].detach(), each.predict(X[TEST]).expected_loss, rtol=1e-5)
    assert each.predict(X[TEST]).expected_loss.shape == (1000, 2)


def test_without_the_prediction(net):
    blind = Quantifier(net, lambda x: x[:, :1], use_prediction=False, n_members=1, epochs=3).fit((X[HELD], y[HELD]))
    assert blind.quantifier.quantifiers_.n_inputs == 1
    net.eval()
    np.testing.assert_allclose(blind(X[TEST])[1].detach(), blind.predict(X[TEST]).expected_loss, rtol=1e-5)
    net.train()
    net[2].eval()


def test_features_of_a_recurrent_layer():
    class Signal(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.out = nn.GRU(1, 6, batch_first=True), nn.Linear(6, 1)

        def forward(self, x):
            return self.out(self.cells(x)[0][:, -1])[:, 0]

    quantifier = Quantifier(Signal(), "cells", n_members=1, epochs=2).fit((X[HELD, :, None], y[HELD]))
    assert quantifier.quantifier.quantifiers_.n_inputs == 3 * 6 + 1


def test_bad_input_is_named(net):
    with pytest.raises(ValueError, match="no layer 'conv'; it has 0, 1, 2"):
        Quantifier(net, "conv")
    with pytest.raises(TypeError, match="must be a torch.nn.Module"):
        Quantifier(lambda x: x)
    with pytest.raises(ValueError, match="no linear layer"):
        Quantifier(nn.Identity())
    with pytest.raises(ValueError, match=r"predicts \(1000,\) where y is \(1000, 1\)"):
        Quantifier(net).fit((X[HELD], y[HELD, None]))
    with pytest.raises(ValueError, match=r"features must have one row for each of 1000 inputs, and are \(3,\)"):
        Quantifier(net, lambda x: x.mean(0)).fit((X[HELD], y[HELD]))
    with pytest.raises(ValueError, match="12000 numbers a row, more than 10000"):
        Quantifier(net, lambda x: x.repeat(1, 4000)).fit((X[HELD], y[HELD]))
    with pytest.raises(ValueError, match="not fitted yet"):
        Quantifier(net).predict(X)
    with pytest.raises(TypeError, match="unexpected keyword"):
        Quantifier(net, members=3).fit((X[HELD], y[HELD]))
    known = nn.Linear(3, 1)
    with pytest.warns(UserWarning, match="rows the estimator was not trained on"):
        Quantifier(known, lambda x: x, n_members=1, epochs=1).fit((X, known(X).detach()))


def test_weights_and_groups_arrive(net, monkeypatch):
    given = {}
    monkeypatch.setattr(
        "aleator.torch.quantifier.LossQuantifier.fit", lambda self, *args, **others: given.update(others) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        Quantifier(net, "0").fit(
            (X[HELD], y[HELD], 1 + torch.arange(1000)), groups=np.arange(1000) // 2, batch_size=300
        )
    assert given["groups"].max() == 499
    assert (given["sample_weight"] == np.arange(1, 1001)).all()


def test_in_double_precision(net):
    quantifier = Quantifier(net, lambda x: x, n_members=1, epochs=3).fit((X[HELD], y[HELD]))
    known = quantifier.predict(X[TEST]).expected_loss
    try:
        np.testing.assert_allclose(quantifier.double()(X[TEST].double())[1].detach(), known, rtol=1e-4)
    finally:
        quantifier.float()


@pytest.mark.parametrize("per_output", [True, False])
def test_a_prediction_far_beyond_all_targets_in_torch(per_output):
    module = nn.Linear(3, 2)
    both = torch.stack([y, 2 * y], 1)
    quantifier = Quantifier(module, lambda x: x, n_members=1, per_output=per_output).fit((X[HELD], both[HELD]))
    far = torch.tensor([[1e5, 0.0, 0.0], [0.5, 0.5, 0.5]])
    with torch.no_grad():
        _, expected = quantifier(far)
    said = quantifier.predict(far)
    np.testing.assert_allclose(expected, said.expected_loss, rtol=1e-5)
    assert (expected[0] > 1e4 * expected[1]).all()


def test_quantifiers_of_a_module_are_networks():
    with pytest.raises(ValueError, match="made of networks: quantifier='trees'"):
        Quantifier(nn.Linear(1, 1), quantifier="trees")
    assert Quantifier(nn.Linear(1, 1), quantifier="network").settings["quantifier"] == "network"
