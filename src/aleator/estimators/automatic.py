"""Fit a pair, or an ensemble of pairs, without anything to tune: lam="auto" with epochs=None.

1. **Length.** Ensembles are trained without a fold of the rows, for rising numbers of epochs; the longest is taken
   whose loss on the rows left out is within a standard error of the best: members of an ensemble may follow the noise,
   each its own way. Each is a training of its own: lam and rate fall over its length. All lengths are tried, for a
   loss that rises may fall again.
2. **Giving up.** The longest is tried with lam small from the start: what is noisy is then given up for the sake of
   what is clean. It is taken if clearly less is then expected typically, as a geometric mean over the rows left out.
3. **Quantifiers anew.** On its own rows a regressor's losses are too small, most where it could follow the noise, and a
   quantifier trained beside it says so. The regressors stay; the quantifiers learn again, from the losses on rows left
   out (sec. 9 of the paper), and take the place of the others if they are better on rows left out once more.
4. **Gain.** Rows left out tell the scale of ensembles that lack a fold, and the one that answers lacks none. What a
   fold more is worth is seen a fold further in: with ensembles that lack two.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import engine, heads
from aleator.estimators import fitting, gain, quantifiers, recipe, searching
from aleator.estimators.fitting import Fit, Rows
from aleator.estimators.task import Alone, Given, Task, by_row

WITHIN = 100.0  # a quantifier whose scale is wrong by more than this factor went astray
_CURVE = ["epoch", "cv_loss"]


def learn(settings: Any, task: Task, watched: engine.Data | None) -> Fit:
    """All four steps, for the network and number of threads that an estimator's settings ask for."""
    held, kept = fitting.parts(task.rows, task.fold)
    if len(held) == 1:  # nothing would be left to learn from
        members = [task.make_member(task.rows, seed, recipe.FEWEST) for seed in task.seeds]
        return fitting.fixed(task.training, members, watched)
    done, epochs, left_out, curve = searching.searched(task, searching.clean_first(settings, task), held, kept)
    members = [done.make_member(task.rows, seed, epochs) for seed in task.seeds]
    fit = fitting.fixed(done.training, members, watched)
    history = [fitting.joined(table, curve, _CURVE) for table in fit.history]
    fit = replace(fit, history=history, left_out=left_out, gave_up=done is not task)
    return _quantified(settings, done, fit, held)


def _quantified(settings: Any, task: Task, fit: Fit, held: list[Rows]) -> Fit:
    """The same regressors, with the better ones of two kinds of quantifiers, and the gain that goes with these."""
    own = task.judged(fit.left_out)
    further = gain.further_in(task, held, fit.left_out, int(fit.epochs[0])) if settings.rescale else None
    kept = replace(fit, gain=further.beside()) if further else fit
    mean = float(np.average(own.realised.mean(axis=1), weights=own.weight))
    if settings.shared_layers or not 0 < mean < np.inf:  # what is shared is the regressor's, and stays
        return kept
    given = Given(
        hidden=settings.hidden,
        activation=settings.activation,
        coupling=settings.coupling,
        n_jobs=settings.n_jobs,
        verbose=settings.verbose,
    )
    network = quantifiers.alone(task.training.plan.network.n_inputs, own.realised.shape[1], given)
    training = fitting.training(given, network, heads.given, task.read.head, len(task.rows))
    alone = Alone(task, given, network, training)
    data, unit = alone.data(by_row(task, own))
    make_member = fitting.member_maker(given, data)
    learned = fitting.cross_validated(training, data, task.rows, task.fold, task.seeds, make_member)

    def paired(pairs: Any, others: Any) -> list[NDArray[np.float32]]:
        return [_paired(task.training.plan.network, network, *both) for both in zip(pairs, others, strict=True)]

    left_out = tuple(
        replace(pairs, params=paired(pairs.params, others.params), lams=unit * others.lams)
        for pairs, others in zip(fit.left_out, learned.left_out, strict=True)
    )
    anew = task.judged(left_out)
    astray = anew.is_near(WITHIN) and not own.is_near(WITHIN)
    if not (anew.score < own.score or astray):
        return kept
    params = np.stack(paired(fit.params, learned.params))
    fit = replace(fit, params=params, lams=unit * learned.lams, left_out=left_out)
    return replace(fit, gain=further.anew(alone, int(learned.epochs[0]), left_out)) if further else fit


def _paired(
    network: engine.Network, alone: engine.Network, pair: NDArray[np.float32], quantifier: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The parameters of a pair, with those of a quantifier in place of its own."""
    params = pair.copy()
    for own, other in zip(network.quantifier, alone.matrices, strict=True):
        own.of(params)[:] = other.of(quantifier)
        own.bias_of(params)[:] = other.bias_of(quantifier)
    return params
