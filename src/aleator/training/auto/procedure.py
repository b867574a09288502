"""Fit a pair, or an ensemble of pairs, without anything to tune: lam="auto".

1. **Length.** Ensembles are trained without a fold of the rows, for rising numbers of epochs. Of those whose loss on
   the held-out rows is within a standard error of the best, the longest is taken. Each length is a training of its own,
   because lam and rate fall over it. All lengths are tried, because a loss that rises may fall again.
2. **Giving up noisy regions.** If much of y is not explained, training is tried with a lam that is small from the
   start. Noisy regions are then given up for the sake of clean ones. It is taken if clearly less is then expected of a
   typical held-out row.
3. **Quantifier refit.** A regressor's losses on its own rows are too small, most where it could follow the noise, and a
   quantifier trained beside it predicts too little there. The regressors stay; new quantifiers learn the losses of
   held-out rows (sec. 9 of the paper), and are taken if they are better on rows held out once more.
4. **Fold correction.** Held-out rows give the scale of ensembles that lack a fold, and the final ensemble lacks none.
   What one more fold is worth is measured on ensembles that lack two.
"""

from dataclasses import replace

import numpy as np

from aleator import engine
from aleator.training import defaults, strategies
from aleator.training.auto.fold_correction import nested_folds
from aleator.training.auto.length_search import SearchResult, clean_first, search_length
from aleator.training.auto.pair_problem import PairProblem
from aleator.training.auto.quantifier_refit import quantifier_refit
from aleator.training.history import with_curve
from aleator.training.results import TrainingResult
from aleator.training.settings import JointSettings
from aleator.training.xi_range import extended_xi_ranges

WRONG_SCALE = 100.0  # a quantifier whose scale is wrong by more than this factor has failed


def automatic(
    settings: JointSettings, pairs: PairProblem, validation: engine.Data | None = None, epochs: int | None = None
) -> TrainingResult:
    """All four steps; losses on `validation` are only recorded. `epochs`, if given, is the only length."""
    problem = pairs.problem
    if len(problem.folds()[0]) == 1:  # no rows would be left to learn from
        return strategies.fixed(problem, problem.members(epochs or defaults.MIN_EPOCHS), validation)
    giving_up = clean_first(settings, pairs)
    try:
        found = search_length(pairs, giving_up, epochs)
        result = _trained_on_all_rows(found, validation)
    except engine.DivergenceError:
        if giving_up is None:
            raise
        found = search_length(pairs, None, epochs)
        result = _trained_on_all_rows(found, validation)
    result = _with_quantifiers(settings, found.pairs, replace(result, gave_up=found.pairs is not pairs))
    known = [(problem.data, problem.rows)] * len(problem.seeds)
    return replace(result, xi_ranges=extended_xi_ranges(problem.plan, list(result.params), known))


def _trained_on_all_rows(found: SearchResult, validation: engine.Data | None) -> TrainingResult:
    problem = found.pairs.problem
    result = strategies.fixed(problem, problem.members(found.epochs), validation)
    history = [with_curve(table, found.curve, ["epoch", "cv_loss"]) for table in result.history]
    return replace(result, history=history, held_out=found.held_out)


def _with_quantifiers(settings: JointSettings, pairs: PairProblem, result: TrainingResult) -> TrainingResult:
    """The same regressors with the better of two kinds of quantifiers, and the scale that belongs to these."""
    problem = pairs.problem
    folds, _ = problem.folds()
    nested = nested_folds(pairs, folds, result.held_out, int(result.epochs[0])) if settings.rescale else None
    own = replace(result, loss_share=nested.loss_share()) if nested else result
    if settings.shared_layers:  # shared layers belong to the regressor, and stay
        return own
    own_losses, refit = pairs.held_out_losses(result.held_out), quantifier_refit(settings, pairs)
    refit_problem = refit.problem(pairs.by_row(own_losses))
    if refit_problem is None:
        return own
    quantifiers, unit = refit_problem
    try:
        learned = strategies.cross_validated(quantifiers)
    except engine.DivergenceError:
        return own
    held_out = tuple(
        replace(
            part,
            data=problem.data,
            params=list(map(refit.with_quantifier, pair.params, part.params)),
            lams=unit * part.lams,
        )
        for pair, part in zip(result.held_out, learned.held_out, strict=True)
    )
    refit_losses = pairs.held_out_losses(held_out)
    own_failed = refit_losses.is_near(WRONG_SCALE) and not own_losses.is_near(WRONG_SCALE)
    if not (refit_losses.score < own_losses.score or own_failed):
        return own
    if nested:
        share = nested.quantifier_share(refit, int(learned.epochs[0]))
        held_out = tuple(replace(part, quantifier_share=share) for part in held_out)
    params = np.stack(list(map(refit.with_quantifier, result.params, learned.params)))
    return replace(result, params=params, lams=unit * learned.lams, held_out=held_out)
