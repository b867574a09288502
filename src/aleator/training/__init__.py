"""From a problem (rows, folds, objective) to trained members, and what held-out rows say about them."""
