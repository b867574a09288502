"""Fit a pair, or an ensemble of pairs, without anything to tune: lam="auto" with epochs=None.

1. **Length.** Ensembles are trained without a fold of the rows, for rising numbers of epochs; the longest is taken
   whose loss on the rows left out is within a standard error of the best: members of an ensemble may follow the noise,
   each its own way. Each is a training of its own: lam and rate fall over its length. All lengths are tried, for a
   loss that rises may fall again.
2. **Giving up.** If much of y is not explained, the longest is tried with lam small from the start: what is noisy is
   then given up for the sake of what is clean. It is taken if clearly less is then expected typically, as a geometric
   mean over the rows left out.
3. **Quantifiers anew.** On its own rows a regressor's losses are too small, most where it could follow the noise, and a
   quantifier trained beside it says so. The regressors stay; the quantifiers learn again, from the losses on rows left
   out (sec. 9 of the paper), and take the place of the others if they are better on rows left out once more.
4. **Gain.** Rows left out tell the scale of ensembles that lack a fold, and the one that answers lacks none. What a
   fold more is worth is seen a fold further in: with ensembles that lack two.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator import engine
from aleator.estimators import fitting, gain, recipe, searching
from aleator.estimators.alone import alone
from aleator.estimators.fitting import Fit, LeftOut, Rows
from aleator.estimators.task import Task

Floats = NDArray[np.float64]

WITHIN = 100.0  # a quantifier whose scale is wrong by more than this factor went astray
_CURVE = ["epoch", "cv_loss"]


def learn(settings: Any, task: Task, watched: engine.Data | None) -> Fit:
    """All four steps, for the network and number of threads that an estimator's settings ask for."""
    held, kept = fitting.parts(task.rows, task.fold)
    if len(held) == 1:  # nothing would be left to learn from
        members = [task.make_member(task.rows, seed, recipe.FEWEST) for seed in task.seeds]
        return fitting.fixed(task.training, members, watched)
    giving_up = searching.clean_first(settings, task)
    try:
        done, fit = _regressors(searching.searched(task, giving_up, held, kept), watched)
    except engine.DivergenceError:
        if giving_up is None:
            raise
        done, fit = _regressors(searching.searched(task, None, held, kept), watched)
    fit = _quantified(settings, done, replace(fit, gave_up=done is not task), held)
    known = [(task.data, task.rows)] * len(task.seeds)
    return replace(fit, reach=fitting.reach_of(task.training.plan, list(fit.params), known))


def _regressors(found: searching.Found, watched: engine.Data | None) -> tuple[Task, Fit]:
    """The task as it is done, and members that learned from all rows."""
    task = found.task
    members = [task.make_member(task.rows, seed, found.epochs) for seed in task.seeds]
    fit = fitting.fixed(task.training, members, watched)
    history = [fitting.joined(table, found.curve, _CURVE) for table in fit.history]
    return task, replace(fit, history=history, left_out=found.left_out)


def _quantified(settings: Any, task: Task, fit: Fit, held: list[Rows]) -> Fit:
    """The same regressors, with the better ones of two kinds of quantifiers, and the scale that goes with these."""
    further = gain.further_in(task, held, fit.left_out, int(fit.epochs[0])) if settings.rescale else None
    kept = replace(fit, gain=further.beside()) if further else fit
    if settings.shared_layers:  # what is shared is the regressor's, and stays
        return kept
    own, others = task.judged(fit.left_out), alone(settings, task)
    lesson = others.data(task.by_row(own))
    if lesson is None:
        return kept
    data, unit = lesson
    make_member = fitting.member_maker(others.settings, data)
    try:
        learned = fitting.cross_validated(others.training, data, task.rows, task.fold, task.seeds, make_member)
    except engine.DivergenceError:  # those beside the regressor are there
        return kept
    left_out = tuple(
        replace(each, data=task.data, params=list(map(others.paired, pairs.params, each.params)), lams=unit * each.lams)
        for pairs, each in zip(fit.left_out, learned.left_out, strict=True)
    )
    anew = task.judged(left_out)
    astray = anew.is_near(WITHIN) and not own.is_near(WITHIN)
    if not (anew.score < own.score or astray):
        return kept
    if further:
        left_out = _untold(left_out, further.anew(others, int(learned.epochs[0])))
    params = np.stack(list(map(others.paired, fit.params, learned.params)))
    return replace(fit, params=params, lams=unit * learned.lams, left_out=left_out)


def _untold(left_out: Sequence[LeftOut], share: Floats) -> tuple[LeftOut, ...]:
    """Members that expect of rows left out what they would if nothing they learned had known of these.

    What they said is `share` (Q,) of that; what members disagree on stays, for these have not seen the rows.
    """
    return tuple(replace(part, lams=part.lams[:, None] / share) for part in left_out)  # (K, Q)
