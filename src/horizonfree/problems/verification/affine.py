"""Probabilities that are polynomials in unknown constants, as features: exact.

P(s'|s,a) = sum_m c_m(s,a,s') m(p, q, ...) over monomials m = 1, p, q, p q, p^2, ... is linear in the values of the
monomials, so c is the feature of a linear mixture MDP and theta = (m(p, q, ...))_m its parameter. Where the model is
affine the monomials are 1 and the constants themselves. Coefficients are rational numbers, computed without rounding.
"""

from fractions import Fraction
from typing import Any

Monomial = tuple[tuple[str, int], ...]  # (("p", 1), ("q", 2)) is p q^2
ONE: Monomial = ()


def polynomial(function: Any) -> dict[Monomial, Fraction] | None:
    """The coefficients of a rational function of Storm; None where its denominator is no constant."""
    denominator = function.denominator
    if not denominator.is_constant():
        return None
    divisor = _fraction(denominator.constant_part())
    numerator = function.numerator
    if numerator.is_constant():
        return _without_zeros({ONE: _fraction(numerator.constant_part()) / divisor})
    found: dict[Monomial, Fraction] = {}
    for term in numerator.polynomial():
        powers = [] if term.monomial is None else [(v.name, int(n)) for v, n in term.monomial]
        key = tuple(sorted(powers))
        found[key] = found.get(key, Fraction(0)) + _fraction(term.coeff) / divisor
    return _without_zeros(found)


def evaluated(function: Any, values: dict[str, Fraction]) -> Fraction:
    """A rational function of Storm at a rational point, without rounding."""
    from stormpy.numbers import RationalFunctionCoefficient as Exact

    point = {}
    for v in function.gather_variables():
        x = values[v.name]
        point[v] = Exact(str(x.numerator)) / Exact(str(x.denominator))
    return _fraction(function.evaluate(point))


def _fraction(number: Any) -> Fraction:
    return Fraction(str(number).replace("(", "").replace(")", ""))


def _without_zeros(found: dict[Monomial, Fraction]) -> dict[Monomial, Fraction]:
    return {key: c for key, c in found.items() if c}


def name_of(monomial: Monomial) -> str:
    """A monomial as text, such as "p q^2"."""
    return " ".join(name if power == 1 else f"{name}^{power}" for name, power in monomial) or "1"


def at(monomial: Monomial, values: dict[str, float]) -> float:
    """The value of a monomial."""
    found = 1.0
    for name, power in monomial:
        found *= values[name] ** power
    return found
