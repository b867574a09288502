"""`python -m aleator.paper.playground`: train every setting again, and make these the runs of the package."""

from aleator.paper.playground import computed, keep

keep(computed())
