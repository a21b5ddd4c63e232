"""Linear MDPs: P(s'|s,a) = <phi(s,a), mu(s')> with known features phi and unknown measures mu.

In the order of the data: `features` checks and scales phi, `evidence` sums up episodes, `widths` says how far a row of
the estimate can be from the truth, `uniform` and `tangent` bound what plans lose, `misfit` asks whether the class can
be right. `confidence` puts it together, `model` is the class as a whole. docs/linear.md has the proofs.
"""
