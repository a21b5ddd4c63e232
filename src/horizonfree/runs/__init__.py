"""Explorations as things that last: `explore` begins one, `drive` carries it on, `run` answers, `store` keeps it."""
