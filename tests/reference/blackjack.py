"""Gymnasium's Blackjack-v1 as a class of dynamics: how often each card is drawn is what a learner does not know.

A state is the player's hand and the dealer's open card, (sum, card, usable ace), and one more in which every game
ends. Sticking ends the game for sure. Hitting draws a card of value 1 to 10, each with a probability of its own: the
kernel is a mixture of ten, of which number c draws the value c + 1 always. Where a game starts is known: from two cards
and the dealer's of an infinite deck (Gymnasium's rules; there is no hit on behalf of the player).
"""

from collections.abc import Iterator

import gymnasium
import numpy as np
import scipy.sparse as sp

from horizonfree import Mixture, Problem

STICK, HIT = 0, 1
FIRST, LAST = 4, 21  # sums of a hand that plays
CARDS = np.array([1] * 9 + [4]) / 13  # of the values 1 (an ace) to 10
END = (LAST - FIRST + 1) * 10 * 2
STATES = END + 1
HORIZON = 6


def number(total: int, dealer: int, ace: int) -> int:
    """The state of a hand; END for one that is bust."""
    return END if total > LAST else ((total - FIRST) * 10 + dealer - 1) * 2 + ace


def hands() -> Iterator[tuple[int, int, int]]:
    """(sum, dealer's card, usable ace) of every hand that plays."""
    for total in range(FIRST, LAST + 1):
        for dealer in range(1, 11):
            yield total, dealer, 0
            if total >= 12:
                yield total, dealer, 1


def add_card(total: int, ace: int, card: int) -> tuple[int, int]:
    """Sum and usable ace with one more card."""
    hard, has_ace = total - 10 * ace + card, ace or card == 1
    return (hard + 10, 1) if has_ace and hard + 10 <= LAST else (hard, 0)


def start() -> np.ndarray:
    """Two cards for the player, one to be seen of the dealer's."""
    rho = np.zeros(STATES)
    for first in range(1, 11):
        for second in range(1, 11):
            total, ace = add_card(*add_card(0, 0, first), second)
            for dealer in range(1, 11):
                rho[number(total, dealer, ace)] += CARDS[[first - 1, second - 1, dealer - 1]].prod()
    return rho


def blackjack(weights: np.ndarray | None = None, horizon: int = HORIZON) -> Problem:
    """The class; weights: the probabilities of the cards, to simulate it. Numbers that are no hand end the game."""
    kernels = []
    for card in range(1, 11):
        successors = np.full((STATES, 2), END)
        for total, dealer, ace in hands():
            next_total, usable = add_card(total, ace, card)
            successors[number(total, dealer, ace), HIT] = number(next_total, dealer, usable)
        rows = np.arange(STATES * 2)
        kernels.append(sp.csr_array((np.ones(len(rows)), (rows, successors.ravel())), (STATES * 2, STATES)))
    return Mixture.from_kernels(kernels, horizon=horizon, start=start(), weights=weights, name="blackjack")


class Ended(gymnasium.Wrapper):
    """Says in the observation whether the game is over: after sticking, the environment shows the hand as before."""

    def reset(self, **options):
        """A new game."""
        observation, info = self.env.reset(**options)
        return (*observation, False), info

    def step(self, action):
        """One more card, or the end."""
        observation, reward, is_over, is_cut, info = self.env.step(action)
        return (*observation, is_over), reward, is_over, is_cut, info


def encode(observation: tuple[int, int, int, bool]) -> int:
    """The state of an observation of `Ended`."""
    total, dealer, ace, is_over = observation
    return END if is_over else number(int(total), int(dealer), int(ace))
