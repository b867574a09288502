"""The compiled engine against plain PyTorch, against itself in pieces and in threads, and at its limits."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from aleator import engine
from aleator.engine import kernels
from aleator.losses import Loss
from aleator.objectives import OBJECTIVES
from engine_cases import STEPS, D, N, TorchPair, data, digest, member, plan_for

# ---------------------------------------------------------------- against PyTorch


def torch_head(objective, L, xi, lam):
    softplus = torch.nn.functional.softplus
    if objective == "joint-sigmoid":
        return L * softplus(xi) + lam * softplus(-xi)
    if objective == "joint-softplus":
        return L * softplus(xi) - lam * torch.log(softplus(xi))
    if objective == "gaussian":
        V = softplus(xi) + 1e-6
        return L / (2 * V) + torch.log(V) / 2
    return L + 0 * (xi if xi is not None else 0)


def torch_train(plan, m, d, params, case, steps):
    pair = TorchPair(plan.network, params, case["hidden"], case["shared"], case["activation"], case["m"], case["q"])
    tensors = list(pair.tensors.values())
    if plan.optimizer == "nesterov":
        optimizer = torch.optim.SGD(tensors, lr=m.rates[0], momentum=plan.momentum, nesterov=True)
    else:
        optimizer = torch.optim.Adam(tensors, lr=m.rates[0], betas=(plan.momentum, plan.beta2), eps=1e-8)
    X = torch.tensor(((d.X - d.shift) * d.scale).astype(np.float32))
    Y, weight = torch.tensor(d.Y), torch.tensor(d.weight.astype(np.float32))
    per_epoch = -(-len(m.rows) // plan.batch_size)
    for step in range(steps):
        epoch, s = divmod(step, per_epoch)
        if s == 0:
            order = m.rows.copy()
            kernels.shuffle(order, np.uint64(m.seed), epoch)
        batch = order[s * plan.batch_size : (s + 1) * plan.batch_size]
        y_r, xi = (*pair(X[batch]), None)[:2]
        L = (y_r - Y[batch]) ** 2 if plan.loss.name == "squared" else (y_r - Y[batch]).abs()
        if case["q"] < case["m"]:
            L = L.sum(axis=1, keepdim=True)
        value = torch_head(plan.objective.name, L, xi, m.lams[0])
        objective = (weight[batch][:, None] * value).sum() / len(batch)
        if plan.l2:
            objective = objective + plan.l2 / 2 * sum((t**2).sum() for n, t in pair.tensors.items() if "bias" not in n)
        optimizer.zero_grad()
        objective.backward()
        if plan.clip:
            torch.nn.utils.clip_grad_norm_(tensors, plan.clip)
        optimizer.step()
    return pair


CASES = [
    {},
    {"activation": "tanh"},
    {"hidden": (12, 9), "activation": "tanh"},
    {"hidden": (12, 9), "shared": 1},
    {"hidden": (12, 9), "shared": 2, "activation": "tanh"},
    {"hidden": ()},
    {"m": 3, "q": 1},
    {"m": 3, "q": 3},
    {"q": 0, "objective": "plain"},
    {"objective": "joint-softplus"},
    {"objective": "gaussian"},
    {"loss": "absolute", "activation": "tanh"},
    {"optimizer": "adam"},
    {"optimizer": "adam", "l2": 0.01, "clip": 0.5, "hidden": (12, 9)},
    {"l2": 0.01},
    {"clip": 0.5},
    {"batch_size": 120},  # one batch, larger than a block
    {"hidden": (150,), "batch_size": 60},  # through BLAS
    {"dtype": np.float32},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: ",".join(f"{k}={v}" for k, v in case.items()) or "default")
def test_500_steps_are_those_of_pytorch(case):
    case = {"hidden": (16,), "shared": 0, "activation": "relu", "m": 1, "q": 1} | case
    d = data(m=case["m"], dtype=case.pop("dtype", np.float64))
    plan = plan_for(d, **case)
    m = member(d, 10_000, rate=1e-3 if plan.optimizer == "adam" else 2e-3)
    steps_per_epoch = -(-N // plan.batch_size)
    epochs = -(-STEPS // steps_per_epoch)
    run = engine.begin(plan, m)
    start = run.params.copy()
    engine.advance(plan, m, run, epochs)
    pair = torch_train(plan, m, d, start, case, epochs * steps_per_epoch)
    y_r, xi = engine.forward(plan.network, run.params, d.X, d.shift, d.scale)
    X = torch.tensor(((d.X - d.shift) * d.scale).astype(np.float32))
    outputs = [out.detach().numpy() for out in pair(X)]
    np.testing.assert_allclose(y_r, outputs[0], atol=5e-4)
    if case["q"]:
        np.testing.assert_allclose(xi, outputs[1], atol=5e-4)
    names = TorchPair.order(case["hidden"], case["shared"], case["m"], case["q"])
    for (name, _), w in zip(names, plan.network.matrices, strict=True):
        np.testing.assert_allclose(w.of(run.params), pair.tensors[name].detach().numpy(), atol=1e-4)
        np.testing.assert_allclose(w.bias_of(run.params), pair.tensors[name + ".bias"].detach().numpy(), atol=1e-4)
    assert np.abs(run.params - start).max() > 1e-2  # something was learned


# ---------------------------------------------------------------- same bits


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_same_bits_on_any_number_of_threads_alone_or_among_others(dropout):
    d = data()
    plan = plan_for(d)
    members = [member(d, 5, seed=seed, dropout=dropout) for seed in range(10)]
    together = engine.train(plan, members)
    for threads in (2, 4):
        assert digest(engine.train(plan, members, threads=threads)) == digest(together)
    assert digest(engine.train(plan, members[3:4])) == digest(together[3:4])
    assert digest(engine.train(plan, members, chunk=2)) == digest(together)


def test_same_bits_in_another_process(tmp_path):
    script = "from engine_cases import *; from aleator import engine; d = data(); print(digest(engine.train(plan_for(d), [member(d, 3, dropout=0.4)])))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    here = digest(engine.train(plan_for(data()), [member(data(), 3, dropout=0.4)]))
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == here


@pytest.mark.parametrize("hidden", [(100,), (400, 300)])
def test_same_bits_whatever_number_of_threads_blas_may_use(hidden):
    d = data(n=600, d=90)
    plan = plan_for(d, hidden=hidden, batch_size=256)
    with threadpool_limits(1):
        one = engine.train(plan, [member(d, 2)])
    with threadpool_limits(4):
        assert digest(engine.train(plan, [member(d, 2)])) == digest(one)


def test_going_on_later_is_going_on():
    d = data()
    plan = plan_for(d, optimizer="adam")
    m = member(d, 7, dropout=0.2)
    whole = engine.train(plan, [m])[0]
    run = engine.begin(plan, m)
    for epochs in (1, 3, 3):
        engine.advance(plan, m, run, epochs)
    assert digest([run]) == digest([whole])
    np.testing.assert_array_equal(run.history, whole.history)


def test_a_row_is_predicted_alike_in_any_block():
    d = data(n=333)
    plan = plan_for(d, hidden=(37,))
    params = plan.network.start(1)
    whole = engine.forward(plan.network, params, d.X, d.shift, d.scale)
    for lo, hi in ((0, 1), (5, 70), (300, 333)):
        part = engine.forward(plan.network, params, d.X[lo:hi], d.shift, d.scale)
        np.testing.assert_array_equal(part[0], whole[0][lo:hi])
        np.testing.assert_array_equal(part[1], whole[1][lo:hi])


# ---------------------------------------------------------------- parts


def test_shuffle_is_a_fair_permutation():
    counts = np.zeros((6, 6))
    for epoch in range(6000):
        order = np.arange(6)
        kernels.shuffle(order, np.uint64(7), epoch)
        counts[np.arange(6), order] += 1
    assert counts.sum(axis=0).tolist() == [6000] * 6
    np.testing.assert_allclose(counts, 1000, rtol=0.15)


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.9])
def test_dropout_keeps_the_share_and_the_mean(rate):
    n = 100_000
    kept = []
    for key in (1, 2):
        h, keep = np.ones(n, np.float32), np.zeros(n, np.float32)
        threshold = np.uint32(rate * 2**32)
        kernels.drop(h, keep, np.uint64(0), np.uint64(n), np.uint32(key), threshold, np.float32(1 / (1 - rate)))
        assert np.mean(h == 0) == pytest.approx(rate, abs=0.01)
        assert h.mean() == pytest.approx(1, abs=0.05)
        np.testing.assert_array_equal(h, keep)
        kept.append(h > 0)
    assert np.mean(kept[0] & kept[1]) == pytest.approx((1 - rate) ** 2, abs=0.01)  # two keys are independent
    assert np.mean(kept[0][1:] & kept[0][:-1]) == pytest.approx((1 - rate) ** 2, abs=0.01)  # and so are neighbours


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_dropout_gradient_by_finite_differences(activation):
    """With the mask fixed by the key, the derivative of the objective is what the backward pass says."""
    d = data(n=4)
    plan = plan_for(d, hidden=(5,), activation=activation)
    layers, R = plan.network.layers, np.uint64(4)
    width = int(layers[-1, kernels.TARGET] + layers[-1, kernels.UNITS])
    rate, key, rng = 0.4, np.uint64(12), np.random.default_rng(0)
    direction = rng.normal(size=4 * width).astype(np.float32)
    first = int(layers[0, kernels.TARGET] + layers[0, kernels.UNITS]) * 4  # the outputs begin here
    direction[:first] = 0

    def objective(params):
        act, keep = np.zeros(4 * width, np.float32), np.zeros(4 * width, np.float32)
        kernels.gather(d.X, d.shift, d.scale, engine.unbounded(d.X.shape[1]), np.arange(4), act)
        kernels.forward(layers, R, R, params, act, True, keep, key, rate)
        return float(act @ direction), act, keep

    params = plan.network.start(3)
    params += rng.normal(size=params.size).astype(np.float32) * 0.1
    _, act, keep = objective(params)
    gradient, delta = np.zeros_like(params), direction.copy()
    kernels.backward(layers, R, R, params, act, delta, keep, rate, gradient, np.zeros(4 * width, np.float32))
    for j in range(0, params.size, 3):
        step = np.zeros_like(params)
        step[j] = 1e-2
        difference = (objective(params + step)[0] - objective(params - step)[0]) / 2e-2
        assert gradient[j] == pytest.approx(difference, abs=2e-2)


def test_tanh_is_tanh():
    x = np.linspace(-12, 12, 100_001).astype(np.float32)
    h = x.copy()
    kernels.activate(h, np.uint64(0), np.uint64(x.size), kernels.TANH)
    np.testing.assert_allclose(h, np.tanh(x.astype(np.float64)), atol=3e-7)


def test_weights_are_repetitions():
    d = data()
    doubled = engine.Data(d.X, d.shift, d.scale, d.Y, np.full(N, 2.0), d.frame)
    plain = engine.Data(d.X, d.shift, d.scale, d.Y, np.ones(N), d.frame)
    params = plan_for(d).network.start(0)
    rows = np.arange(N)
    once = engine.evaluate(plan_for(d), plain, rows, params, 0.2)
    assert engine.evaluate(plan_for(d), doubled, rows, params, 0.2) == pytest.approx(once, rel=1e-12)
    uneven = engine.Data(d.X, d.shift, d.scale, d.Y, np.where(rows < 40, 2.0, 1.0), d.frame)
    repeated = engine.evaluate(plan_for(d), plain, np.concatenate([rows, rows[:40]]), params, 0.2)
    assert engine.evaluate(plan_for(d), uneven, rows, params, 0.2) == pytest.approx(repeated, rel=1e-6)


def test_glorot_start():
    net = engine.network(30, (40,), n_outputs=1, n_quantifiers=1)
    params = net.start(0)
    bound = np.sqrt(6 / 70)
    both = params[: 30 * 80]
    assert np.abs(both).max() == pytest.approx(bound, rel=1e-2)
    assert both.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
    biases = params[30 * 80 : 31 * 80]
    assert np.abs(biases).max() < bound
    assert len(set(biases)) == 80
    for output in net.matrices[2:]:
        assert not output.bias_of(params).any()


def test_a_fixed_loss_teaches_the_quantifier_alone():
    """No regressor: the losses are the data, and the quantifier learns their conditional mean."""
    from aleator.objectives import given

    rng = np.random.default_rng(0)
    x = rng.uniform(size=(4000, 1))
    L = (rng.exponential(size=4000) * (0.5 + 2 * x[:, 0])).astype(np.float32)[:, None]
    d = engine.Data(x, np.array([0.5]), np.array([3.4]), L, np.ones(4000), np.array([[0.0, 1.0, 1.0, 1.0]]))
    net = engine.network(1, (20,), n_outputs=0, n_quantifiers=1)
    plan = engine.Plan(net, given, OBJECTIVES["joint-sigmoid"], 32, "adam")
    run = engine.train(plan, [member(d, 30, rate=2e-3)])[0]
    _, xi = engine.forward(net, run.params, np.array([[0.1], [0.9]]), d.shift, d.scale)
    np.testing.assert_allclose(OBJECTIVES["joint-sigmoid"].expected_loss(xi[:, 0], 0.2), [0.7, 2.3], rtol=0.1)


# ---------------------------------------------------------------- when things go wrong


def test_divergence_names_member_and_epoch():
    d = data()
    members = [member(d, 50), member(d, 50, rate=1e6)]
    with pytest.raises(engine.DivergenceError, match=r"member 1, epoch \d+.*learning_rate \(it was 1e\+06\)"):
        engine.train(plan_for(d), members)
    with pytest.raises(engine.DivergenceError, match="member 1"):
        engine.train(plan_for(d), members, threads=2)


@pytest.mark.parametrize("optimizer", ["nesterov", "adam"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_never_a_model(optimizer, bad):
    d = data()
    slope = {
        "nan": lambda y, p: np.nan if 0.2 < p - y < 0.3 else 2 * (p - y),
        "inf": lambda y, p: np.inf if 0.2 < p - y < 0.3 else 2 * (p - y),
    }
    broken = Loss("broken", lambda y, p: (p - y) ** 2, slope[str(bad)])
    plan = engine.Plan(plan_for(d).network, broken, OBJECTIVES["joint-sigmoid"], 8, optimizer)
    with pytest.raises(engine.DivergenceError, match="member 0, epoch"):
        engine.train(plan, [member(d, 20, rate=1e-3)])


def test_a_loss_that_is_not_finite_is_not_called_divergence():
    d = data()
    endless = Loss("endless", lambda y, p: np.inf if p > y + 0.5 else (p - y) ** 2, lambda y, p: 2 * (p - y))
    plan = engine.Plan(plan_for(d).network, endless, OBJECTIVES["joint-sigmoid"], 8)
    with pytest.raises(ValueError, match="loss 'endless' became negative or not finite"):
        engine.train(plan, [member(d, 20, rate=1e-3)])


def test_parameters_of_another_network_are_refused():
    d = data()
    plan = plan_for(d)
    with pytest.raises(ValueError, match="the network has"):
        engine.forward(plan.network, np.zeros(3, np.float32), d.X, d.shift, d.scale)


def test_a_loss_that_turns_negative_is_named():
    d = data()
    bad = Loss("bad", lambda y, p: p - y, lambda y, p: 1.0)
    plan = engine.Plan(plan_for(d).network, bad, OBJECTIVES["joint-sigmoid"], 8)
    with pytest.raises(ValueError, match="loss 'bad' became negative or not finite in member 0, epoch 1"):
        engine.train(plan, [member(d, 5)])


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_stops_everyone(threads):
    d = data()
    members = [member(d, 100_000, seed=seed) for seed in range(4)]
    seen = []

    def watch(number, run):
        seen.append(number)
        if len(seen) == 5:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        engine.train(plan_for(d), members, threads=threads, chunk=1, watch=watch)
    assert len(seen) < 50


def test_watch_ends_a_member():
    d = data()
    runs = engine.train(
        plan_for(d), [member(d, 50), member(d, 50, seed=9)], chunk=1, watch=lambda k, run: k == 1 and run.epoch == 7
    )
    assert [run.epoch for run in runs] == [50, 7]
    assert [len(run.history) for run in runs] == [50, 7]


def test_units_that_never_fire_do_not_slow_the_rest_down():
    """Their moments would decay into the subnormal numbers and stay there."""
    d = data()
    plan = plan_for(d, hidden=(20,), optimizer="adam")
    run = engine.begin(plan, m := member(d, 300))
    bias = plan.network.layers[0, kernels.WEIGHTS] + D * 40
    run.params[bias : bias + 10] = -1e3  # ten dead units
    engine.advance(plan, m, run, 300)
    for values in (run.params, run.moments):
        tiny = np.abs(values[values != 0])
        assert tiny.min() > 1e-31


def test_works_where_nothing_can_be_cached():
    """Numba raises where it finds no place for its cache: a read-only installation, or code without a file as here."""
    from numba import njit

    from aleator.compiled_functions import jit

    names = {}
    exec("def successor(x): return x + 1", names)
    with pytest.raises(RuntimeError, match="cannot cache"):
        njit(cache=True)(names["successor"])
    assert jit()(names["successor"])(2) == 3
