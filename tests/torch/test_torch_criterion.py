"""The joint loss in torch: against the compiled objectives, by autograd, in half precision, and what it refuses."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from aleator import losses, objectives
from aleator.couplings import COUPLINGS
from aleator.losses import LOSSES, Loss
from aleator.torch import JointLoss

XI = [-40.0, -30.5, -29.5, -15.1, -14.9, -12.0, -3.0, -0.4, 0.0, 0.7, 2.0, 9.0, 25.0, 40.0]
NAMES = [*LOSSES, "huber(2.5)", "pinball(0.9)"]
# The couplings written down again, as a user would write own ones.
OWN = {
    "sigmoid": (F.softplus, lambda xi: F.softplus(-xi)),
    "softplus": (F.softplus, lambda xi: -torch.log(F.softplus(xi))),
}


def grid(dtype=torch.float64):
    y_pred = torch.tensor([-2.0, 0.3, 0.31, 0.9, 1.31, 4.0], dtype=dtype).repeat_interleave(len(XI))
    xi = torch.tensor(XI, dtype=dtype).repeat(6)
    return y_pred, xi, torch.full_like(y_pred, 0.3)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lam", [0.05, 2.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_values_and_gradients_are_those_of_the_compiled_heads(name, coupling, lam, dtype):
    y_pred, xi, y = (part.requires_grad_(k < 2) for k, part in enumerate(grid(dtype)))
    criterion = JointLoss(name, coupling, lam, reduction="none")
    value = criterion(y_pred, xi, y)
    value.sum().backward()
    loss, objective = losses.get(name), objectives.joint(COUPLINGS[coupling])
    close = {"rel": 1e-6, "abs": 1e-6} if dtype == torch.float64 else {"rel": 5e-6, "abs": 1e-6}
    said = criterion.expected_loss(xi.double())
    columns = (y_pred, xi, y, value, y_pred.grad, xi.grad, said)
    for at, z, target, v, by_y, by_xi, e in zip(*(part.tolist() for part in columns), strict=True):
        ours, dL, dxi = objective.evaluate(loss.value(target, at), z, lam)
        assert v == pytest.approx(ours, **close)
        assert by_xi == pytest.approx(dxi, **close)
        if at != target:  # at a kink any slope will do
            assert by_y == pytest.approx(dL * loss.slope(target, at), **close)
        assert e == pytest.approx(float(objective.expected_loss(z, lam)), rel=1e-9)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_own_f_and_g_by_autograd_are_the_closed_forms(coupling):
    y_pred, xi, y = grid()
    xi = xi.clamp(-12, 12)  # beyond, f and g as written lose their digits: that is why there are closed forms
    known, own = JointLoss("squared", coupling, 0.3), JointLoss("squared", OWN[coupling], 0.3)
    assert own.expected_loss(xi) == pytest.approx(known.expected_loss(xi), rel=1e-6)
    parts = [(y_pred.clone().requires_grad_(), xi.clone().requires_grad_()) for _ in range(2)]
    for criterion, inputs in zip((known, own), parts, strict=True):
        criterion(*inputs, y).backward()
    for a, b in zip(*parts, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("coupling", [*COUPLINGS, (F.softplus, lambda xi: F.softplus(-xi))])
@pytest.mark.parametrize("name", ["squared", "absolute", "huber(0.7)", "pinball(0.2)", "logcosh"])
def test_gradcheck(name, coupling):
    generator = torch.Generator().manual_seed(0)
    y_pred, xi = (torch.randn(5, 2, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2))
    y = torch.randn(5, 2, dtype=torch.float64, generator=generator)
    weight = torch.rand(5, dtype=torch.float64, generator=generator)
    criterion = JointLoss(name, coupling, 0.3)
    assert torch.autograd.gradcheck(lambda a, b: criterion(a, b, y, weight), (y_pred, xi))
    assert torch.autograd.gradcheck(criterion.expected_loss, (xi,))
    assert torch.autograd.gradcheck(lambda a, b: criterion(a, b[:, :1], y), (y_pred, xi))


def test_the_minimum_over_xi_says_the_mean_loss():
    """Whatever the coupling: where the quantifier has learned, its expected loss is the mean of the losses."""
    y = torch.randn(4000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    for coupling in [*COUPLINGS, OWN["sigmoid"]]:
        criterion = JointLoss("absolute", coupling, lam=0.7)
        xi = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        steps = torch.optim.LBFGS([xi], line_search_fn="strong_wolfe", max_iter=100)

        def objective(criterion=criterion, xi=xi, steps=steps):
            steps.zero_grad()
            value = criterion(torch.zeros_like(y), xi.expand(len(y)), y)
            value.backward()
            return value

        steps.step(objective)
        assert criterion.expected_loss(xi).item() == pytest.approx(float(y.abs().mean()), rel=1e-5)


def test_reductions_and_weights():
    y_pred, xi, y = grid()
    weight = torch.rand(len(y), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    each = JointLoss(reduction="none")(y_pred, xi, y)
    assert JointLoss()(y_pred, xi, y) == pytest.approx(float(each.mean()))
    assert JointLoss(reduction="sum")(y_pred, xi, y) == pytest.approx(float(each.sum()))
    assert JointLoss()(y_pred, xi, y, weight) == pytest.approx(float((weight * each).sum() / weight.sum()))
    torch.testing.assert_close(JointLoss(reduction="none")(y_pred, xi, y, weight), weight * each)
    twice = JointLoss()(*(torch.cat([part, part[:3]]) for part in (y_pred, xi, y)))
    counts = torch.ones(len(y))
    counts[:3] = 2
    assert JointLoss()(y_pred, xi, y, counts) == pytest.approx(float(twice))


def test_outputs_that_share_a_quantifier_add_up():
    y_pred, y = torch.randn(7, 3), torch.randn(7, 3)
    xi = torch.randn(7, 1)
    L = (y_pred - y).square().sum(1, keepdim=True)
    torch.testing.assert_close(JointLoss(reduction="none").parts(y_pred, xi, y)[1], L)
    field, one = torch.randn(2, 3, 4, 5), torch.randn(2, 1, 4, 5)
    assert JointLoss(reduction="none")(field, one, torch.zeros_like(field)).shape == one.shape


def test_lam_for_each_member_and_by_schedule():
    y_pred, xi, y = (part.reshape(2, -1) for part in grid())
    both = JointLoss(lam=torch.tensor([0.1, 3.0]), reduction="none")
    for k, lam in enumerate((0.1, 3.0)):
        one = JointLoss(lam=lam, reduction="none")
        torch.testing.assert_close(both(y_pred, xi, y)[k], one(y_pred[k], xi[k], y[k]))
        torch.testing.assert_close(both.expected_loss(xi)[k], one.expected_loss(xi[k]))
    falling = JointLoss(lam=lambda epoch: 1.0 / (1 + epoch))
    falling.set_epoch(3)
    assert float(falling.lam) == 0.25
    with pytest.raises(ValueError, match=r"lam is for 2 members, and xi has shape \(84,\)"):
        both.expected_loss(grid()[1])


def test_unit():
    y_pred, xi, y = grid()
    plain, scaled = JointLoss(reduction="none"), JointLoss(unit=100.0, reduction="none")
    torch.testing.assert_close(scaled(10 * y_pred, xi, 10 * y), plain(y_pred, xi, y))
    torch.testing.assert_close(scaled.expected_loss(xi), 100 * plain.expected_loss(xi))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    """Sums and logarithms in float32: what half precision lost is lost, but no more is."""
    y_pred, xi, y = (part.to(dtype) for part in grid(torch.float32))
    xi = xi.clamp(-10, 10)
    exact = JointLoss()(y_pred.float(), xi.float(), y.float())
    with torch.autocast("cpu", dtype):
        value = JointLoss()(y_pred, xi, y)
    assert value.dtype == torch.float32
    assert float(value) == float(exact)
    large = JointLoss()(torch.tensor([300.0], dtype=dtype), torch.tensor([0.0], dtype=dtype), torch.zeros(1))
    assert math.isfinite(float(large))  # 90,000 is infinite in float16
    cast = JointLoss(lam=0.2, unit=1e10).to(dtype)
    assert float(cast.lam) == 0.2
    assert float(cast.unit) == 1e10


def test_far_out_it_stays_finite():
    for coupling in COUPLINGS:
        for dtype in (torch.float32, torch.float64):
            xi = torch.tensor([-1e4, -745.0, -88.0, 88.0, 745.0, 1e4], dtype=dtype, requires_grad=True)
            value = JointLoss(coupling=coupling)(torch.ones_like(xi), xi, torch.zeros_like(xi))
            value.backward()
            assert math.isfinite(value.item())
            assert torch.isfinite(xi.grad).all()
            assert torch.isfinite(JointLoss(coupling=coupling).expected_loss(xi)).all()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("y_pred", "xi", "y", "message"),
    [
        ((5,), (5,), (5, 1), r"y_pred has shape \(5,\), y has shape \(5, 1\)"),
        ((5, 1), (5, 1), (5,), r"y_pred has shape \(5, 1\), y has shape \(5,\)"),
        ((5,), (5, 1), (5,), r"xi has shape \(5, 1\), y has shape \(5,\)"),
        ((5, 1), (5,), (5, 1), r"xi has shape \(5,\), y has shape \(5, 1\)"),
        ((5, 2), (1, 2), (5, 2), r"xi has shape \(1, 2\), y has shape \(5, 2\)"),
        ((5, 3), (5, 2), (5, 3), r"xi has shape \(5, 2\), y has shape \(5, 3\)"),
    ],
)
def test_shapes_that_would_broadcast_are_refused(y_pred, xi, y, message):
    with pytest.raises(ValueError, match=message):
        JointLoss()(torch.zeros(y_pred), torch.zeros(xi), torch.zeros(y))


def test_bad_input_is_named():
    y = torch.zeros(3)
    with pytest.raises(ValueError, match="y_pred on cpu, xi on cpu, y on meta"):
        JointLoss()(y, y, torch.zeros(3, device="meta"))
    for lam in (0.0, -1.0, math.nan, math.inf, torch.tensor([0.1, 0.0]), lambda epoch: -1.0):
        with pytest.raises(ValueError, match="lam must be a positive number"):
            JointLoss(lam=lam)
    with pytest.raises(ValueError, match="is negative, -3; it must be >= 0"):
        JointLoss(lambda y_pred, y: y_pred - y)(y - 3, y, y)
    with pytest.raises(
        ValueError, match=r"one value for each of the targets \(3,\), or for each element of xi \(3,\), and gives \(\)"
    ):
        JointLoss(torch.nn.MSELoss())(y, y, y)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(2,\), it must be \(3,\) or \(3,\)"):
        JointLoss()(y, y, y, torch.ones(2))
    with pytest.raises(ValueError, match="did you mean 'squared'"):
        JointLoss("squred")
    with pytest.raises(ValueError, match="did you mean 'softplus'"):
        JointLoss(coupling="softpls")
    with pytest.raises(ValueError, match="reduction must be one of mean, sum, none"):
        JointLoss(reduction="max")
    with pytest.raises(ValueError, match="must be a name or a torch function"):
        JointLoss(Loss("own", lambda y, y_r: 0.0, lambda y, y_r: 0.0))
    with pytest.raises(ValueError, match="fails part 1 of the Condition, g' < 0"):
        JointLoss(coupling=(F.softplus, F.softplus))
    with pytest.raises(ValueError, match="must be a name or two torch functions"):
        JointLoss(coupling=(F.softplus,))


def test_a_criterion_of_torch_is_a_loss():
    y_pred, xi, y = grid(torch.float32)
    given = JointLoss(torch.nn.SmoothL1Loss(reduction="none"))(y_pred, xi, y)
    assert float(given) == pytest.approx(float(JointLoss("huber(1.0)")(y_pred, xi, y)))


def test_the_order_of_an_own_loss_is_torchs():
    late = JointLoss(lambda y_pred, y: 5 * F.relu(y - y_pred) + F.relu(y_pred - y))
    assert float(late.losses(torch.tensor([1.0]), torch.zeros(1), torch.tensor([3.0]))) == 10
    assert np.asarray(late.measure([3.0], [1.0])) == 10
