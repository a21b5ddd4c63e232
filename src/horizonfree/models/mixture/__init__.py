"""Linear mixture MDPs: an unknown combination of known features or kernels.

In the order of the data: `features` and `row_sums` bring input to successor lists, `valid` finds the parameters that
are kernels, `evidence` counts and e-processes with the predictor of `likelihood`; `ellipsoid` bounds what the
e-processes leave possible, `steps`, `direct` and `tangent` what plans lose by that. `confidence` puts it together,
`model` is the class as a whole. `record`, `misspecification` and the folder `robust` do the same for systems that are
near the class.
"""
