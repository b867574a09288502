"""A made-up market of houses: a table of the kind people have, with categories, a date, text and gaps."""

import numpy as np
import pandas as pd

from aleator.datasets.synthetic import drawn_by

DISTRICTS = {  # price of a square metre in thousands, and how far apart neighbours are
    "Harbour": (6.5, 0.08),
    "Old Town": (7.5, 0.22),
    "Park": (5.8, 0.06),
    "Station": (4.2, 0.10),
    "Hill": (6.9, 0.15),
    "Mill": (3.6, 0.07),
    "North": (3.1, 0.06),
    "Garden City": (4.9, 0.05),
}
REMARKS = ("freshly renovated", "well kept", "bright rooms", "quiet street", "near the school", "with a garden")
AS_SEEN = "sold as seen"


def houses(n: int = 3000, random_state: object = 0) -> tuple[pd.DataFrame, "pd.Series[float]"]:
    """Make a table of house sales, with categories, a date, text and missing cells.

    The price of a new house in a plain district hardly varies. A house built before 1930 may have been renovated or
    not, which the table does not say, and one that is "sold as seen" may be in any state: no regressor can be right
    there.

    Parameters
    ----------
    n : int, default=3000
        Number of rows.
    random_state : int, RandomState instance or None, default=0
        Random seed.

    Returns
    -------
    X : DataFrame
        Columns district, kind, size, year, sold and remarks.
    y : Series
        Prices in thousands.

    Examples
    --------
    >>> from aleator.datasets import houses
    >>> X, y = houses(100)
    >>> X.shape
    (100, 6)
    """
    rng = drawn_by(n, random_state)
    district = rng.choice(list(DISTRICTS), size=n, p=[0.12, 0.1, 0.13, 0.15, 0.1, 0.15, 0.15, 0.1])
    kind = np.where(rng.uniform(size=n) < 0.6, "flat", "house")
    size = np.round(np.exp(rng.normal(np.where(kind == "flat", 4.3, 4.9), 0.3)), 0)
    year = np.round(np.where(rng.uniform(size=n) < 0.25, rng.uniform(1870, 1930, n), rng.uniform(1950, 2024, n)))
    sold = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.randint(0, 1000, size=n), "D")
    as_seen = rng.uniform(size=n) < 0.12
    first, second = rng.choice(REMARKS, size=n), rng.choice(REMARKS, size=n)
    level, spread = (np.array([DISTRICTS[name][k] for name in district]) for k in (0, 1))
    deviation = spread + 0.25 * (year < 1930) + 0.35 * as_seen
    growth = 1 + 0.03 * np.asarray((sold - pd.Timestamp("2022-01-01")).days) / 365
    value = level * size * growth * np.where(kind == "house", 1.1, 1.0) * (1 - 0.15 * as_seen)
    price = value * np.exp(deviation * rng.normal(size=n) - deviation**2 / 2)
    table = pd.DataFrame(
        {
            "district": district,
            "kind": pd.Categorical(kind),
            "size": np.where(rng.uniform(size=n) < 0.04, np.nan, size),
            "year": np.where(rng.uniform(size=n) < 0.08, np.nan, year),
            "sold": sold,
            "remarks": [f"{a}, {AS_SEEN if s else b}" for a, b, s in zip(first, second, as_seen, strict=True)],
        }
    )
    return table, pd.Series(np.round(price, 1), name="price")
