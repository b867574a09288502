"""`python -m aleator` is the command `aleator`."""

from aleator.cli import main

main()
