"""Tabular MDPs: transition probabilities are unknown; which transitions are possible may be known.

`evidence` counts transitions. `radius` turns the counts of a state-action pair into a KL ball, `balls` bounds means
over the balls, `joint` has the e-process of all deterministic pairs together, `bounds` what a plan for one reward can
lose. `confidence` puts it together, `model` is the class. `learner` is traced, all else is NumPy. docs/tabular.md has
the proofs.
"""
