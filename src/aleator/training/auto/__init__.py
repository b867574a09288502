"""lam="auto": training without anything to tune (`procedure.py`)."""
