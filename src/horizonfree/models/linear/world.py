"""What bounds for one reward are made of, in a linear MDP: the estimate, and its radii for all rewards and for some."""

from horizonfree._arrays import Array, Leaf, library, node
from horizonfree._shapes import Bool, Float
from horizonfree.errors import OptionError
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.space import Space
from horizonfree.models.linear.estimate import Fit
from horizonfree.models.linear.tangent import reward_bounds
from horizonfree.models.world import Bounds, Policy, apart


@node
class World:
    """Fields as in `LinearConfidence`; `declared`: rewards that were declared, whose radius is `beta_declared`."""

    space: Space
    prob: Float[Leaf, "S A S"]
    X: Float[Leaf, "S A d"]
    e: Float[Leaf, "S A"]
    is_bad: Bool[Leaf, "S A"]
    logdet: Float[Leaf, ""]
    beta_all: Float[Leaf, ""]
    beta_declared: Float[Leaf, ""]
    eps: Float[Leaf, ""]
    declared: Float[Leaf, "F H S A"]

    def check(self) -> None:
        """Nothing but the space leads anywhere."""

    def lifted(self, lift: Lift) -> "World":
        """Radii are for values of states alone."""
        raise OptionError(
            "transition= is not of the form g(s, a) + f(s'), and certificates of linear MDPs are about values of "
            "states; pay what is expected, or for states and actions"
        )

    def bounds(self, reward: Float[Array, "H S A"], policy: Policy) -> Bounds:
        """By tangents and bands, by intervals, and by the gap for every reward."""
        xp = library(self.prob, reward)
        fit = Fit(
            self.prob, self.prob, self.X, self.e, self.is_bad, self.logdet
        )  # x'Mhat itself is not needed
        beta = xp.where(self._is_declared(reward), self.beta_declared, self.beta_all)
        return reward_bounds(self.space, fit, reward, policy, beta, self.beta_all, self.eps)

    def difference(
        self, reward: Float[Array, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """By their own intervals."""
        return apart(self, reward, policies)

    def _is_declared(self, reward: Float[Array, "H S A"]) -> Bool[Array, ""]:
        """Whether the reward is one of those, bit by bit, after the first step: the first value meets no transition."""
        xp = library(self.prob, reward)
        if self.declared.shape[1:] != reward.shape:
            return xp.asarray(False)
        return (xp.asarray(self.declared)[:, 1:] == reward[1:]).all((1, 2, 3)).any()
