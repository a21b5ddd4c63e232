"""Linear MDPs: P(s'|s,a) = <phi(s,a), mu(s')> with known features phi and unknown measures mu.

In the order of the data: `features` checks and scales phi, `learner` sums up episodes (`evidence`) inside compiled
programs. From there on everything is NumPy: `widths` bounds how far a row of the estimate can be from the truth,
`bounds` what plans lose by that, `confidence` combines both and tests the class. `model` is
the class as a whole. docs/linear.md has the proofs.
"""
