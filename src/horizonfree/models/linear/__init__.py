"""Linear MDPs: P(s'|s,a) = <phi(s,a), mu(s')> with known features phi and unknown measures mu.

`model` is the class and checks features. `learner` is traced: it sums up episodes. `bounds` and `confidence` are NumPy:
how far each row of the estimate can be from the truth, what a plan can lose, and the confidence set. docs/linear.md has
the proofs.
"""
