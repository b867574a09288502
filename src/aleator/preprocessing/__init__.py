"""From what users pass in to what the engine learns from: checks, encoding, folds, standardisation."""
