"""Episodes as they are learnt from."""

from jaxtyping import Int

from horizonfree._arrays import Leaf, node

IMPOSSIBLE, UNSEEN = -1, -2  # in place of a slot: no successor of (s, a); the episode had broken off


@node
class Trajectory:
    """One episode, or a batch of them: states s_1..s_{H+1}, actions, and which successor slot was taken."""

    s: Int[Leaf, "*batch H1"]
    a: Int[Leaf, "*batch H"]
    j: Int[Leaf, "*batch H"]
