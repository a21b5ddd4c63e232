"""Exceptions. Each message names the argument, its value, the position in it, and the remedy."""


class HorizonfreeError(ValueError):
    """Base class of all errors of this library."""


class ShapeError(HorizonfreeError):
    """An array has the wrong shape or type."""


class FeatureError(HorizonfreeError):
    """Features phi are not finite, or no parameter makes them a kernel."""


class KernelError(HorizonfreeError):
    """Transition probabilities are negative or do not sum to one."""


class RewardError(HorizonfreeError):
    """A reward is not finite, negative, or its total exceeds the scale."""


class UnknownNameError(HorizonfreeError):
    """An unknown problem, explorer, option or environment."""


class OptionError(HorizonfreeError):
    """An option has an invalid value, or does not apply."""


class SimulationError(HorizonfreeError):
    """A problem without a truth cannot be simulated."""


class ModelError(HorizonfreeError):
    """An observation is impossible under every parameter of the model class."""


class RunError(HorizonfreeError):
    """A run folder is missing, corrupt, foreign, or in use."""


class LogWarning(UserWarning):
    """Logged episodes seem to violate an assumption of certificates."""


class PartWarning(UserWarning):
    """Most states of a problem are unreachable; its reachable part would be faster."""


class TargetWarning(UserWarning):
    """An exploration ended before until_eps was certified."""


class ProcessError(HorizonfreeError):
    """A process was forked after JAX had started, or the cluster of a sweep is gone."""
