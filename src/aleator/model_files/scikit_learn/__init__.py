"""Estimators of scikit-learn in model files: an explicit list of types, and what each must hold.

`record` takes a fitted estimator apart into parameters, values and arrays; `rebuilt` puts it together again, through
its constructor and attributes, after every value was checked. No code comes from the file, and compiled code of
scikit-learn only sees arrays whose dtypes, shapes and ranges are proven. What follows from other values is computed
again instead of being read. A type that is not in `KINDS` cannot be stored.
"""

from aleator.model_files.scikit_learn import composites, models, transformers, tree_models
from aleator.model_files.scikit_learn.supported_type import KINDS, Kind, add, rebuilt, record

add(*models.KINDS, *tree_models.KINDS, *composites.KINDS, *transformers.KINDS)

__all__ = ["KINDS", "Kind", "add", "rebuilt", "record"]
