"""How a test has a program compiled that runs for longer than it takes to compile."""

# The tests compile in haste (tests/conftest.py). Loops over many episodes of many runs take half the time with this.
BUSY = {"xla_backend_optimization_level": 1}
