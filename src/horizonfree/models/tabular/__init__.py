"""Unknown tables: nothing is known of the transitions but, perhaps, which are possible.

In the order of the data: `evidence` counts, `gamma` and `radius` turn the counts of a pair into a ball around its
frequencies, `balls` are those of all pairs, `support` bounds means over a ball. `joint` has the e-process of all
deterministic pairs together. `uniform` and `bounds` bound what plans lose. `confidence` puts it together, `model` is
the class as a whole. `learner` is traced, all else is NumPy.
"""
