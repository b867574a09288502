"""Models of tables in files: fit, evaluate, explain and predict, as the command does."""

from aleator.tabular.evaluation import Evaluation, evaluate
from aleator.tabular.fitting import Fitted, Request, fit
from aleator.tabular.io.reader import opened
from aleator.tabular.table_model import ANSWERS, TableModel

__all__ = ["ANSWERS", "Evaluation", "Fitted", "Request", "TableModel", "evaluate", "fit", "opened"]
