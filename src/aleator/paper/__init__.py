"""The paper's experiments: what was done, as data; figures and tables, computed. `aleator reproduce` runs it."""
