"""Tests. Every call into the library is checked against its annotations, shapes included (conftest.py)."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # a whole number will do where a number is asked for
