"""`python -m factgym`."""

from factgym.cli.main import main

main()
