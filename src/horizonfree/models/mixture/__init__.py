"""Linear mixture MDPs: an unknown combination of known features or kernels.

`features` brings input to successor lists, `valid` finds the parameters that are kernels, `evidence` has counts and
e-processes, `likelihood` the maximum-likelihood estimate. `ellipsoid`, `divergence`, `direct`, `hinge` and `tangent`
bound what a plan can lose; `confidence` puts it together, `model` is the class. The folder `robust` does the same for
misspecified models. `learner` is traced, all else is NumPy.
"""
