"""lam="auto": one training step against PyTorch, the laws of its four steps, and what its defaults promise."""

from unittest import mock

import numpy as np
import pytest
import torch

from aleator import PairEnsemble, PairRegressor, engine, load, losses, metrics, theory
from aleator.couplings import COUPLINGS, Coupling
from aleator.datasets.synthetic import two_strips
from aleator.engine import kernels
from aleator.objectives import OBJECTIVES
from aleator.paper.synthetic import GRID, NETWORK, Curve, Setting, predicted
from aleator.training import defaults, strategies
from aleator.training.auto import length_search, procedure
from aleator.training.auto.pair_problem import PairProblem
from aleator.training.held_out import HeldOutLosses
from aleator.training.network_outputs import Readout
from aleator.training.problem import member_maker
from aleator.training.results import TrainingResult
from engine_cases import TorchPair, data, plan_for

# ---------------------------------------------------------------- one step


def relative_member(d, epochs, coupling="sigmoid", rate=2e-3):
    return defaults.auto_member(
        d, np.arange(len(d.X)), 5, defaults.KAPPA, np.full(epochs, rate), 0.0, COUPLINGS[coupling]
    )


def obvious(plan, m, d, start, case, epochs):
    """Losses in units of their running mean, speeds divided out, the regressor's penalty in units of the mean."""
    pair = TorchPair(plan.network, start, case["hidden"], case["shared"], "relu", case["m"], case["q"])
    tensors = list(pair.tensors.values())
    X = torch.tensor(((d.X - d.shift) * d.scale).astype(np.float32))
    Y, weight = torch.tensor(d.Y), torch.tensor(d.weight.astype(np.float32))
    steps = -(-len(m.rows) // plan.batch_size)
    softplus, level = torch.nn.functional.softplus, 1.0
    velocity = [torch.zeros_like(t) for t in tensors]
    for epoch in range(epochs):
        order = m.rows.copy()
        kernels.shuffle(order, np.uint64(m.seed), epoch)
        kappa, rate = m.lams[epoch], m.rates[epoch]
        for s in range(steps):
            batch = order[s * plan.batch_size : (s + 1) * plan.batch_size]
            y_r, xi = pair(X[batch])
            L = (y_r - Y[batch]) ** 2
            if case["q"] < case["m"]:
                L = L.sum(axis=1, keepdim=True)
            lam = kappa * level  # what the paper calls lambda
            if plan.objective.name == "joint-sigmoid":
                xi = xi + np.log(lam)  # the network says what is expected with lam = 1
                speed = 1 / np.log1p(kappa)
                g = softplus(-xi)
            else:
                speed = 1 / kappa
                g = -torch.log(softplus(xi))
            f = softplus(xi)
            w = weight[batch][:, None]
            regressor = speed * (w * f.detach() * L).sum() / len(batch)
            quantifier = (w * (L.detach() * f + lam * g)).sum() / len(batch) / lam
            level += (float((w * L.detach()).sum() / w.sum() / L.shape[1]) - level) * len(batch) / len(m.rows)
            for name, t in pair.tensors.items():
                if "bias" not in name:
                    regressor = regressor + plan.l2 / 2 * (1.0 if name[0] == "q" else level) * (t**2).sum()
            gradients = torch.autograd.grad(regressor + quantifier, tensors)
            with torch.no_grad():
                for t, v, slope in zip(tensors, velocity, gradients, strict=True):
                    v.mul_(plan.momentum).add_(slope)
                    t.sub_(rate * (slope + plan.momentum * v))
    return pair, level


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"objective": "joint-softplus"},
        {"hidden": (12, 9)},
        {"hidden": (12, 9), "shared": 1},
        {"m": 3},
        {"m": 2, "q": 2},
        {"batch_size": 50},  # two batches, and a last one of 20 rows
    ],
    ids=str,
)
def test_training_is_that_of_pytorch(case):
    case = {"hidden": (16,), "shared": 0, "m": 1, "q": 1} | case
    d = data(m=case["m"])
    plan = plan_for(d, **case, l2=1e-2)
    m = relative_member(d, 12, plan.objective.name.removeprefix("joint-"))
    run = engine.begin(plan, m)
    start = run.params.copy()
    engine.advance(plan, m, run, 12)
    pair, level = obvious(plan, m, d, start, case, 12)
    assert run.level[0] == pytest.approx(level, rel=1e-4)
    for (name, _), w in zip(TorchPair.order(case["hidden"], case["shared"], case["m"], case["q"]), plan.network.matrices, strict=True):  # fmt: skip
        np.testing.assert_allclose(w.of(run.params), pair.tensors[name].detach().numpy(), atol=1e-4)
        np.testing.assert_allclose(w.bias_of(run.params), pair.tensors[name + ".bias"].detach().numpy(), atol=1e-4)
    assert np.abs(run.params - start).max() > 1e-2


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_what_is_settled_is_a_pair_like_any_other(coupling):
    """The expected loss is the same, read with lam = 1 from the run or with the pair's own lam."""
    d = data()
    plan, m = plan_for(d, objective=f"joint-{coupling}"), relative_member(d, 5, coupling)
    run = engine.begin(plan, m)
    engine.advance(plan, m, run, 5)
    params, lam = engine.final_pair(plan, m, run)
    assert lam == pytest.approx(m.lams[-1] * run.level[0])
    before, after = (engine.forward(plan.network, p, d.X, d.shift, d.scale)[1] for p in (run.params, params))
    objective = OBJECTIVES[f"joint-{coupling}"]
    e = objective.expected_loss(before, engine.lam_of(m, run))
    np.testing.assert_allclose(objective.expected_loss(after, lam), e, rtol=1e-5)


def test_a_run_can_be_resumed():
    d = data()
    plan, m = plan_for(d), relative_member(d, 9)
    whole, parts = engine.begin(plan, m), engine.begin(plan, m)
    engine.advance(plan, m, whole, 9)
    for _ in range(3):
        engine.advance(plan, m, parts, 3)
    assert whole.params.tobytes() == parts.params.tobytes()
    assert whole.level.tobytes() == parts.level.tobytes()


def test_speeds_do_not_depend_on_lam():
    """By section 6: at the mean loss the regressor learns as without a quantifier, whatever kappa is."""
    own = Coupling("own", lambda x: np.exp(x / 2), lambda x: np.exp(-x / 2), lambda x: np.exp(x / 2) / 2, lambda x: -np.exp(-x / 2) / 2)  # fmt: skip
    for coupling in (*COUPLINGS.values(), own):
        m = defaults.auto_member(data(), np.arange(9), 0, (30, 0.1), np.ones(20), 0.0, coupling)
        assert (m.lams[0], m.lams[-1]) == pytest.approx((30, 0.1) if coupling.is_exponential else (1, 1))
        np.testing.assert_allclose(np.diff(np.log(m.lams)), np.log(m.lams[1] / m.lams[0]))
        speed = theory.regressor_speed(1.0, m.lams, coupling)
        np.testing.assert_allclose(m.relative.speeds[:, 0] * speed, 1.0)
        np.testing.assert_allclose(m.relative.speeds[:, 1] * m.lams, 1.0)
    assert COUPLINGS["sigmoid"].is_exponential
    assert own.is_exponential
    assert not COUPLINGS["softplus"].is_exponential


def test_the_sigmoid_lies_between_least_squares_and_likelihood():
    """The weight ln(1 + kappa / e) over that at e = 1: 1 for a large kappa, 1 / e for a small one."""
    e = np.array([0.1, 1.0, 10.0])
    for kappa, weight in ((1e12, np.ones(3)), (1e-6, 1 / e)):
        f = theory.regressor_speed(e, kappa) / theory.regressor_speed(1.0, kappa)
        np.testing.assert_allclose(f, weight, rtol=0.1)


# ---------------------------------------------------------------- the recipe


def test_lengths_rise_to_what_the_table_allows():
    for n in (2, 100, 1_500, 1_501, 20_000, 10_000_000):
        lengths = defaults.lengths(n)
        assert lengths == sorted(set(lengths))
        assert defaults.MIN_EPOCHS <= lengths[-1] <= defaults.MAX_EPOCHS
        assert lengths[-1] == defaults.MIN_EPOCHS or n * lengths[-1] <= defaults.MAX_ROWS_SEEN
        assert lengths[0] < defaults.LENGTH_RATIO * defaults.SHORTEST + defaults.LENGTH_RATIO


def test_none_is_what_goes_with_lam():
    by_name = PairRegressor(lam=0.2, learning_rate=2e-3, l2=0.1, batch_size=64, epochs=5, rescale=False)
    X, y = table(200)
    assert (
        PairRegressor(lam=0.2, epochs=5, rescale=False).fit(X, y).params_.tobytes()
        == by_name.fit(X, y).params_.tobytes()
    )
    by_name = PairRegressor(
        learning_rate=defaults.RATE, l2=defaults.L2, batch_size=defaults.MIN_BATCH, epochs=5, rescale=False
    )
    assert PairRegressor(epochs=5, rescale=False).fit(X, y).params_.tobytes() == by_name.fit(X, y).params_.tobytes()


def table(n, seed=0, columns=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * np.abs(X[:, 2]) * rng.normal(size=n)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("size", [1e6, 1e-6])
def test_the_unit_of_y_does_not_matter(loss, size):
    X, y = table(100)
    power = 2 if loss == "squared" else 1
    one, other = (PairEnsemble(n_members=2, loss=loss).fit(X, c * y).predict_uncertainty(X) for c in (1.0, size))
    np.testing.assert_allclose(other.prediction, size * one.prediction, rtol=1e-5, atol=1e-6 * size)
    np.testing.assert_allclose(other.expected_loss, size**power * one.expected_loss, rtol=1e-5)
    np.testing.assert_array_equal(np.argsort(other.expected_loss), np.argsort(one.expected_loss))


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_scale_is_right_on_new_rows(loss):
    X, y = table(300, columns=8)
    Z, z = table(4000, seed=1, columns=8)
    said = PairEnsemble(loss=loss).fit(X, y).predict_uncertainty(Z)
    assert said.expected_loss.mean() == pytest.approx(losses.get(loss)(z, said.prediction).mean(), rel=0.25)


def test_quantifiers_that_learn_anew_know_better():
    """Of 150 rows with 10 columns a long training fits the noise; what it then expects is worth little."""
    X, y = table(150, columns=10)
    Z, z = table(4000, seed=1, columns=10)
    area = {}
    for epochs in (None, 400):
        said = PairEnsemble(n_members=3, epochs=epochs, rescale=False).fit(X, y).predict_uncertainty(Z)
        each = losses.squared(z, said.prediction) / said.expected_loss + np.log(said.expected_loss)
        area[epochs] = each.mean()
    assert area[None] < area[400] - 1


def test_rows_of_a_group_are_one_observation():
    """The standard error of five copies of each row, as groups, is that of the rows; of five times as many it is less."""
    values, weight = np.random.default_rng(0).normal(size=200), np.random.default_rng(1).uniform(0.5, 2, size=200)
    copies, copied_weight = np.repeat(values, 5), np.repeat(weight, 5)
    alone, more = tried(values, values, weight), tried(copies, copies, copied_weight)
    copied = tried(copies, copies, copied_weight, np.repeat(np.arange(200), 5))
    (mean, error), (same, same_error), (_, less) = (each._mean_and_error(each.losses) for each in (alone, copied, more))
    assert (same, same_error) == pytest.approx((mean, error))
    assert less == pytest.approx(error / np.sqrt(5), rel=0.01)
    assert tried(values, values)._mean_and_error(values)[1] == pytest.approx(values.std(ddof=1) / np.sqrt(200))


def test_one_group_tells_nothing():
    one, lower = (tried(losses, losses, group=np.full(9, 4)) for losses in (np.arange(9.0), np.full(9, 1e-9)))
    assert one._mean_and_error(one.losses) == (4.0, np.inf)
    assert not one.worse_than(lower)
    assert not lower.expects_less_than(one)


def test_groups_reach_the_standard_error(monkeypatch):
    X, y = table(90)
    groups = np.random.default_rng(0).integers(25, size=90)
    seen = []
    plain = length_search._Candidate.worse_than
    monkeypatch.setattr(
        length_search._Candidate, "worse_than", lambda self, other: seen.append(self) or plain(self, other)
    )
    PairRegressor().fit(X, y, groups=groups)
    assert seen
    for tried in seen:
        rows = np.concatenate([part.rows for part in tried.held_out])
        same = groups[rows][:, None] == groups[rows]
        np.testing.assert_array_equal(tried.group[:, None] == tried.group, same)


@pytest.mark.parametrize(("l2", "penalty", "batch"), [(None, 0.0, None), (0.5, 0.5, 7)])
def test_what_gives_up_has_no_penalty_of_ours(l2, penalty, batch):
    """... and calmer steps, unless the user says otherwise."""
    X, y = table(60)
    model = PairRegressor(l2=l2, batch_size=batch)
    task = model._problem(X, y, None)
    clean_first = length_search.clean_first(model, PairProblem(task, None)).problem
    assert clean_first.plan.l2 == penalty / 60
    assert clean_first.plan.batch_size == (batch or defaults.CLEAN_FIRST_BATCH * defaults.MIN_BATCH)
    assert task.plan.l2 == (defaults.L2 if l2 is None else l2) / 60
    kappas = clean_first.make_member(task.rows, 0, 40).lams
    assert (kappas[0], kappas[-1]) == pytest.approx(defaults.CLEAN_FIRST)


def test_a_score_knows_the_unit():
    """L / e + ln e: in other units of y the logarithm moves, and nothing else."""
    X, y = table(150)

    def history(size):
        model = PairRegressor(epochs=5, rescale=False).fit(
            X[:100], size * y[:100], validation=(X[100:], size * y[100:])
        )
        return model.history_

    one, other = history(1.0), history(1e3)
    np.testing.assert_allclose(other["validation_score"], one["validation_score"] + np.log(1e6), rtol=1e-5)
    np.testing.assert_allclose(other["validation_loss"], 1e6 * one["validation_loss"], rtol=1e-5)
    assert "validation_joint_loss" not in one


def test_ties_go_to_the_longer_training():
    short, long = (tried(np.random.default_rng(k).exponential(size=100), np.ones(100)) for k in (1, 2))
    best, other = sorted((short, long), key=lambda each: each.mean)
    assert not best.worse_than(best)
    assert tried(best.losses + 1e-9, np.ones(100)).worse_than(best)  # a difference that is always there
    assert tried(other.losses + 10, np.ones(100)).worse_than(best)


def tried(losses, expected, weight=None, group=None):
    ones, each = np.ones(len(losses)), np.arange(len(losses))
    return length_search._Candidate(
        1, (), losses, expected, ones if weight is None else weight, each if group is None else group
    )


def test_giving_up_must_prove_itself():
    """Clearly less must be expected of rows left out, typically, and by more than chance can make it."""
    rng = np.random.default_rng(0)
    usual, told = rng.exponential(size=1000), rng.uniform(size=1000)
    assert tried(0.7 * usual, told).expects_less_than(tried(usual, told))  # 0.7 < 0.8, without any doubt
    assert not tried(0.85 * usual, told).expects_less_than(tried(usual, told))  # better, but not clearly
    noisy = 0.7 * usual * np.exp(2 * rng.normal(size=1000) - 2)  # what is so spread proves little
    assert not tried(noisy, told).expects_less_than(tried(usual, told))
    clean = np.arange(1000) < 800
    clean_better = np.where(clean, 0.01 * usual, 9 * usual)  # the mean is larger, and that is no matter
    assert tried(clean_better, told).mean > tried(usual, told).mean
    assert tried(clean_better, 1.0 - clean).expects_less_than(tried(usual, told))
    assert not tried(clean_better, told).expects_less_than(tried(usual, told))  # it does not know where
    only_last = np.where(clean, 1e-9, 1.0)  # weights decide whose loss counts
    assert not tried(clean_better, 1.0 - clean, only_last).expects_less_than(tried(usual, told, only_last))
    assert not tried(np.zeros(10), told[:10]).expects_less_than(tried(np.zeros(10), told[:10]))


def test_a_score_is_one_and_the_logarithm_of_what_is_expected():
    """e is the mean loss of the tenth that is expected alike, so L / e is 1 on average, whatever the weights."""
    rng = np.random.default_rng(0)
    losses, told, weight = rng.exponential(size=200), rng.uniform(size=200), rng.uniform(0.5, 2, size=200)
    e = np.empty(200)
    for k in range(10):
        tenth = np.argsort(told)[20 * k : 20 * (k + 1)]
        e[tenth] = np.average(losses[tenth], weights=weight[tenth])
    found = tried(losses, told, weight)._scores()
    np.testing.assert_allclose(found, losses / e + np.log(e))
    assert np.average(found, weights=weight) == pytest.approx(1 + np.average(np.log(e), weights=weight))


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_mostly_zero_is_not_given_up(seed):
    """To say 0 always has no loss at all on most rows of counts, and is worse than their mean."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 3))
    y = rng.poisson(0.15 * np.exp(0.7 * X[:, 0])).astype(float)
    model = PairRegressor(random_state=seed).fit(X, y)
    assert not model.gave_up_
    Z = rng.normal(size=(4000, 3))
    z = rng.poisson(0.15 * np.exp(0.7 * Z[:, 0]))
    assert np.mean((model.predict(Z) - z) ** 2) < z.var()


def test_groups_do_not_depend_on_the_order_of_rows():
    X, y = table(120)
    groups, order = np.arange(120) % 12, np.random.default_rng(0).permutation(120)
    one = PairRegressor().fit(X, y, groups=groups)
    other = PairRegressor().fit(X[order], y[order], groups=groups[order])
    assert one.predict_loss(X).tobytes() == other.predict_loss(X).tobytes()


def test_two_strips_are_given_up():
    """lam that is small from the start fits the clean regions; where it does not prove itself, they are blurred."""
    setting = Setting(0.2, seed=100)
    data = two_strips(600, 0.2, random_state=100)

    def fitted():
        model = PairRegressor(**NETWORK, random_state=setting.seed).fit(data.X, data.y)
        return model, Curve(setting, 1, *predicted(model, GRID)).error

    model, given_up = fitted()
    assert model.gave_up_
    with mock.patch.object(defaults, "TYPICAL_LOSS", 1e-30):
        other, blurred = fitted()
    assert not other.gave_up_
    assert given_up < 0.02 < 0.1 < blurred


def test_giving_up_is_another_training(tmp_path, monkeypatch):
    """With a lam that is small from the start, more rows a step, more epochs, no penalty; the file says so."""
    X, y = table(80)[0], np.random.default_rng(3).normal(size=80)
    for name in ("expects_less_than", "may_expect_less_than"):
        monkeypatch.setattr(length_search._Candidate, name, lambda self, other: True)
    model = PairRegressor().fit(X, y)
    assert model.gave_up_
    with mock.patch.object(member_maker, "__defaults__", (defaults.CLEAN_FIRST,)):
        calm = {
            "rescale": False,
            "epochs": defaults.CLEAN_FIRST_EPOCHS * defaults.MAX_EPOCHS,
            "batch_size": defaults.CLEAN_FIRST_BATCH * defaults.MIN_BATCH,
            "l2": 0.0,
        }
        by_hand = PairRegressor(**calm).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
    model.save(tmp_path / "m.aleator")
    assert load(tmp_path / "m.aleator").gave_up_


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("function", ["sin", "product", "step"])
def test_what_is_hard_is_not_hopeless(function, loss):
    """Without noise there is nothing to give up, however much smaller the loss would typically be: a user found it."""
    X = np.random.default_rng(2).normal(size=(300, 4))
    y = {"sin": np.sin(3 * X[:, 0]), "product": X[:, 0] * X[:, 1], "step": (X[:, 0] > 0).astype(float)}[function]
    assert not PairRegressor(loss=loss).fit(X, y).gave_up_


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.9)"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_what_a_constant_loses(loss, outputs):
    X, y = table(50)
    Y = y if outputs == 1 else np.column_stack([y, 1e3 * y**2])
    weight = np.random.default_rng(1).uniform(0.5, 2, size=50)
    model = PairRegressor(loss=loss, per_output=True)
    task = model._problem(X, Y, weight)
    readout = Readout(model.network_, model._objective(), losses.get(loss), model.scaling_, model.units_)
    by_hand = []
    for column, unit in zip(Y.reshape(50, -1).T, model.units_.unit, strict=True):
        said = np.linspace(column.min(), column.max(), 2001)[:, None]
        by_hand.append(np.average(losses.get(loss)(column[None], said), axis=1, weights=weight).min() / unit)
    assert np.mean(by_hand) * (1 - 1e-5) <= PairProblem(task, readout).constant_loss() <= 1.05 * np.mean(by_hand)


def test_who_gives_up_and_diverges_is_not_taken(monkeypatch):
    """One member tells that it is better; if others then diverge, those that do not give up answer."""
    X, y = table(80)[0], np.random.default_rng(3).normal(size=80)
    plain = strategies.trained_without

    def trained_without(problem, held, ensembles):
        if problem.plan.l2 == 0 and len(ensembles[0]) == 2:
            raise engine.DivergenceError("made to")
        return plain(problem, held, ensembles)

    for name in ("expects_less_than", "may_expect_less_than"):
        monkeypatch.setattr(length_search._Candidate, name, lambda self, other: True)
    plainly, final = strategies.fixed, []

    def fixed(problem, members, validation=None):
        final.append(problem.plan.l2)
        if problem.plan.l2 == 0:
            raise engine.DivergenceError("made to")
        return plainly(problem, members, validation)

    assert PairEnsemble(n_members=3).fit(X, y).gave_up_
    with monkeypatch.context() as context:
        context.setattr(strategies, "fixed", fixed)  # of those that learn from all rows
        assert not PairEnsemble(n_members=3).fit(X, y).gave_up_
    assert 0 in final
    monkeypatch.setattr(strategies, "trained_without", trained_without)  # of those that lack a fold
    model = PairEnsemble(n_members=3).fit(X, y)
    assert not model.gave_up_
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(X), PairEnsemble(n_members=3).fit(X, y).predict(X))


def test_where_lam_does_not_matter_nothing_is_given_up(monkeypatch):
    """Softplus weighs by 1 / e at any lam: a smaller one is the same, and not a second candidate."""
    X, y = table(60)[0], np.random.default_rng(3).normal(size=60)
    for name in ("expects_less_than", "may_expect_less_than"):
        monkeypatch.setattr(length_search._Candidate, name, lambda self, other: True)
    assert PairRegressor().fit(X, y).gave_up_
    assert not PairRegressor(coupling="softplus").fit(X, y).gave_up_


def test_five_folds_are_left_out():
    def folds(n, **settings):
        X, y = table(n)
        return len(np.unique(PairRegressor(**settings)._problem(X, y, None).fold))

    assert [folds(99), folds(5), folds(3), folds(99, lam=0.2)] == [5, 5, 3, 5]
    X, y = table(99)
    groups = np.arange(99) // 3
    task = PairRegressor()._problem(X, y, None, groups)
    assert len(np.unique(task.fold)) == 5
    assert all(len(set(task.fold[groups[task.rows] == group])) == 1 for group in groups)


def test_what_diverges_is_not_chosen(monkeypatch):
    """A length, or giving up, that diverges only loses; if all do, one error says so."""
    X, y = table(60)
    plain, shortest = strategies.trained_without, defaults.lengths(60)[0]

    def diverging(but):
        def trained_without(problem, held, ensembles):
            pairs = [m for ensemble in ensembles for m in ensemble if m.relative is not None]
            if not all(len(m.rates) in but for m in pairs):
                raise engine.DivergenceError("made up")
            return plain(problem, held, ensembles)

        return trained_without

    monkeypatch.setattr(strategies, "trained_without", diverging({shortest}))
    model = PairRegressor().fit(X, y)
    assert (int(model.n_epochs_[0]), model.gave_up_) == (shortest, False)
    monkeypatch.setattr(strategies, "trained_without", diverging({}))
    with pytest.raises(engine.DivergenceError, match="diverged at every length"):
        PairRegressor().fit(X, y)


def test_members_are_judged_by_rows_they_have_not_seen(monkeypatch):
    """Whether the search needed all folds or not: each member is the one trained by hand on the rows of the others."""
    X, y = table(80)
    for judges in (20, 1000):
        monkeypatch.setattr(defaults, "SEARCH_ROWS", judges)
        monkeypatch.setattr(defaults, "FIRST_SEARCH_ROWS", min(judges, defaults.FIRST_SEARCH_ROWS))
        monkeypatch.setattr(procedure, "_with_quantifiers", lambda settings, pairs, result: result)
        model = PairEnsemble(n_members=3)
        task = model._problem(X, y, None)
        result = model._train(task, None)
        assert len(result.held_out) == 5
        for part in result.held_out:
            kept = np.setdiff1d(task.rows, part.rows)
            kept = task.rows[np.isin(task.rows, kept)]
            members = [task.make_member(kept, seed, int(result.epochs[0])) for seed in task.seeds]
            runs = engine.train(task.plan, members, threads=1)
            for own, lam, m, run in zip(part.params, part.lams, members, runs, strict=True):
                params, final_lam = engine.final_pair(task.plan, m, run)
                np.testing.assert_array_equal(own, params)
                assert lam == final_lam


@pytest.mark.parametrize("better", [True, False])
def test_the_better_quantifier_answers(better, monkeypatch):
    """Those that learned anew stay only if their score on rows left out is better, whoever that is made to be."""
    X, y = table(120)
    plain = HeldOutLosses.score.fget
    asked = []

    def score(self):
        asked.append(plain(self))
        return -1.0 if (len(asked) % 2 == 1) == better else 1.0  # the one that learned anew is asked first

    own = PairRegressor(epochs=int(PairRegressor().fit(X, y).n_epochs_[0]), rescale=False).fit(X, y)
    monkeypatch.setattr(HeldOutLosses, "score", property(score))
    model = PairRegressor().fit(X, y)
    assert len(asked) == 2
    np.testing.assert_array_equal(model.predict(X), own.predict(X))
    assert (model.params_.tobytes() == own.params_.tobytes()) == (not better)


def test_shared_layers_keep_their_quantifier():
    """What is shared is the regressor's too, so nothing is learned anew."""
    X, y = table(120)
    model = PairRegressor(hidden=(8, 8), shared_layers=1).fit(X, y)
    assert np.isfinite(model.predict_loss(X)).all()
    epochs = int(model.n_epochs_[0])
    assert model.params_.tobytes() == PairRegressor(hidden=(8, 8), shared_layers=1, epochs=epochs, rescale=False).fit(X, y).params_.tobytes()  # fmt: skip


def test_the_regressor_stays_when_its_quantifier_learns_anew():
    X, y = table(120)
    model = PairRegressor().fit(X, y)
    epochs = int(model.n_epochs_[0])
    np.testing.assert_array_equal(model.predict(X), PairRegressor(epochs=epochs, rescale=False).fit(X, y).predict(X))


def test_history_tells_the_losses_of_all_lengths():
    X, y = table(120)
    history = PairRegressor().fit(X, y).history_
    tried = history.dropna(subset="cv_loss")
    assert list(tried["epoch"]) == defaults.lengths(120)
    assert (tried["cv_loss"] > 0).all()


def test_auto_is_as_good_as_a_lam_that_was_chosen():
    """Not a proof, a guard: the area under the rejection curve is not far above that of the best of four lams."""
    X, y = table(400)
    Z, z = table(3000, seed=1)

    def area(**settings):
        said = PairEnsemble(n_members=3, **settings).fit(X, y).predict_uncertainty(Z)
        return metrics.rejection_auc(z, said.prediction, said.expected_loss, "rmse")

    assert area() < 1.1 * min(area(lam=lam) for lam in (0.05, 0.2, 1.0, 5.0))


def test_a_fit_holds_what_it_says():
    X, y = table(90)
    model = PairEnsemble(n_members=3)
    result = model._train(model._problem(X, y, None), None)
    assert isinstance(result, TrainingResult)
    assert sorted(np.concatenate([part.rows for part in result.held_out])) == list(range(90))
    assert all(len(part.params) == 3 == len(part.lams) for part in result.held_out)
