"""What the command does with a table: fit a model to it, judge it, find out what makes it uncertain, predict others."""

from aleator.tabular.evaluation import Evaluation, evaluate
from aleator.tabular.fitting import Fitted, Request, fit
from aleator.tabular.table_model import ANSWERS, TableModel

__all__ = ["ANSWERS", "Evaluation", "Fitted", "Request", "TableModel", "evaluate", "fit"]
