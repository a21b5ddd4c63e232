"""What can be wrong with an input. Each message says what, where, which value, and what to do."""


class HorizonfreeError(ValueError):
    """Base of every refusal of this library."""


class ShapeError(HorizonfreeError):
    """An array has the wrong shape or type."""


class FeatureError(HorizonfreeError):
    """Features phi are not finite, or no parameter makes them a kernel."""


class KernelError(HorizonfreeError):
    """Transition probabilities are negative or do not sum to one."""


class RewardError(HorizonfreeError):
    """A reward is not finite, negative, or its total exceeds the scale."""


class UnknownNameError(HorizonfreeError):
    """A problem, explorer, option or environment that does not exist."""


class OptionError(HorizonfreeError):
    """An option has a value outside its range, or is refused where it stands."""


class SimulationError(HorizonfreeError):
    """A problem without truth was asked to simulate itself."""


class ModelError(HorizonfreeError):
    """What was observed is impossible under every parameter of the known class."""


class RunError(HorizonfreeError):
    """A run folder is missing, corrupt, foreign, or in use."""


class LogWarning(UserWarning):
    """Logged episodes look as if they break an assumption of certificates."""


class PartWarning(UserWarning):
    """Most states of a problem are out of reach, and its reachable part would be faster."""


class TargetWarning(UserWarning):
    """An exploration ended before until_eps was certified."""


class ProcessError(HorizonfreeError):
    """A process cannot do its work: it was forked after JAX had started, or the cluster of a sweep is gone."""
