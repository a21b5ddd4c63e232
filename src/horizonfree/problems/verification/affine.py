"""Probabilities that are polynomials in unknown constants, as features: exact.

P(s'|s,a) = sum_m c_m(s,a,s') m(p, q, ...) over monomials m = 1, p, q, p q, p^2, ... is linear in the values of the
monomials, so c is the feature of a linear mixture MDP and theta = (m(p, q, ...))_m its parameter. Where the model is
affine the monomials are 1 and the constants themselves. Where monomials occur in fixed combinations only, such as
p - p^2, these combinations take their place (`basis`). Coefficients are rational numbers, computed without rounding.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

Monomial = tuple[tuple[str, int], ...]  # (("p", 1), ("q", 2)) is p q^2
Polynomial = dict[Monomial, Fraction]
ONE: Monomial = ()
ZERO = Fraction(0)


def polynomial(function: Any) -> Polynomial | None:
    """The coefficients of a rational function of Storm; None where its denominator is no constant."""
    denominator = function.denominator
    if not denominator.is_constant():
        return None
    divisor = _fraction(denominator.constant_part())
    numerator = function.numerator
    if numerator.is_constant():
        return _without_zeros({ONE: _fraction(numerator.constant_part()) / divisor})
    result: Polynomial = {}
    for term in numerator.polynomial():
        powers = [] if term.monomial is None else [(v.name, int(n)) for v, n in term.monomial]
        key = tuple(sorted(powers))
        result[key] = result.get(key, ZERO) + _fraction(term.coeff) / divisor
    return _without_zeros(result)


def evaluate_function(function: Any, values: dict[str, Fraction]) -> Fraction:
    """A rational function of Storm at a rational point, without rounding."""
    from stormpy.numbers import RationalFunctionCoefficient as Exact

    point = {}
    for v in function.gather_variables():
        x = values[v.name]
        point[v] = Exact(str(x.numerator)) / Exact(str(x.denominator))
    return _fraction(function.evaluate(point))


def _fraction(number: Any) -> Fraction:
    return Fraction(str(number).replace("(", "").replace(")", ""))


def _without_zeros(polynomial: Polynomial) -> Polynomial:
    return {key: c for key, c in polynomial.items() if c}


def basis(functions: Iterable[Polynomial]) -> dict[Monomial, Polynomial]:
    """A basis of the space that polynomials span, each with a monomial that none of the others has.

    A polynomial of the space is the sum over the basis of its own coefficient at that monomial times the basis
    polynomial: the reduced row echelon form of the coefficients, by exact elimination.
    """
    result: dict[Monomial, Polynomial] = {}
    for key in {frozenset(f.items()) for f in functions}:
        remainder = _minus(dict(key), [(dict(key).get(m, ZERO), f) for m, f in result.items()])
        if not remainder:
            continue
        pivot = min(remainder, key=degree)
        unit = {m: c / remainder[pivot] for m, c in remainder.items()}
        result = {m: _minus(f, [(f.get(pivot, ZERO), unit)]) for m, f in result.items()}
        result[pivot] = unit
    return {m: result[m] for m in sorted(result, key=degree)}


def degree(monomial: Monomial) -> tuple[int, Monomial]:
    """The order of monomials: 1, p, q, p^2, p q, ..."""
    return sum(power for _, power in monomial), monomial


def _minus(f: Polynomial, parts: Iterable[tuple[Fraction, Polynomial]]) -> Polynomial:
    """f minus a sum of multiples."""
    result = dict(f)
    for factor, g in parts:
        for m, c in g.items():
            result[m] = result.get(m, ZERO) - factor * c
    return _without_zeros(result)


def name_of(f: Polynomial) -> str:
    """A polynomial as text, such as "p - 2 p q^2"."""
    parts = []
    for monomial in sorted(f, key=degree):
        c, powers = f[monomial], [name if n == 1 else f"{name}^{n}" for name, n in monomial]
        size = [] if abs(c) == 1 and powers else [str(abs(c))]
        parts.append(("- " if c < 0 else "+ ") + " ".join([*size, *powers]))
    return " ".join(parts).removeprefix("+ ") or "0"


def evaluate_polynomial(f: Polynomial, values: dict[str, Fraction]) -> Fraction:
    """The value of a polynomial."""
    result = ZERO
    for monomial, c in f.items():
        for name, power in monomial:
            c = c * values[name] ** power
        result += c
    return result
