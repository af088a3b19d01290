"""Random numbers that are the same for every version of numpy, every processor and every way to split the work.

The bits come from Philox, a counter: any stretch of its sequence is had without the others (Salmon et al., Parallel
random numbers: as easy as 1, 2, 3, 2011). numpy promises that these bits stay; it promises nothing about its
distributions, and its logarithm differs in the last bit from one processor to the next. So distributions are made
here from additions, multiplications, divisions and square roots alone, which IEEE 754 rounds in one way only.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# ln 2 in two parts: a product of the first with a small integer is exact.
_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_LOG_TERMS: Final = tuple(1 / (2 * k + 1) for k in range(11, -1, -1))
_EXP_TERMS: Final = tuple(1 / int(np.prod(range(1, k + 1), dtype=np.int64)) for k in range(14, -1, -1))

# Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied Statistics 37 (1988), PPND16.
# Numerators and denominators, the highest power first.
# fmt: off
_CENTRE: Final = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)
_SHOULDER: Final = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)
_TAIL: Final = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)
# fmt: on
_CENTRE_WIDTH_SQUARED: Final = 0.180625
_SHOULDER_END: Final = 5.0


def uniforms(seed: int, block: int, stream: int, count: int) -> Floats:
    """The first ``count`` numbers of a block's stream, evenly spread over the open interval from 0 to 1.

    Seed, block and stream are from 0 to 2**64 - 1; each combination has numbers of its own.
    """
    # As arrays: numpy takes a list with a number from 2**63 on for one of floats.
    counter, key = np.array([0, 0, 0, stream], np.uint64), np.array([seed, block], np.uint64)
    bits = np.random.Philox(counter=counter, key=key).random_raw(count)
    # 52 bits and a half: 53 would be rounded up to 1 at the end.
    bits >>= np.uint64(12)
    numbers = bits.astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-52
    return numbers


def log(numbers: Floats) -> Floats:
    """Natural logarithms of positive numbers, within a few units of the last place.

    >>> float(log(np.array([0.5]))[0])
    -0.6931471805599453
    """
    mantissa, exponent = np.frexp(numbers)
    low = mantissa < np.sqrt(0.5)
    mantissa = np.where(low, mantissa * 2, mantissa)
    powers = (exponent - low).astype(np.float64)
    # ln m = 2 artanh s, and s is at most 0.172 here.
    ratio = (mantissa - 1) / (mantissa + 1)
    series = np.polyval(_LOG_TERMS, ratio * ratio)
    series *= 2 * ratio
    series += powers * _LN2_LOW
    series += powers * _LN2_HIGH
    return series


def exponential(uniform: Floats) -> Floats:
    """Waiting times of mean 1, from numbers between 0 and 1."""
    return -log(uniform)


def lognormal(uniform: Floats, mu: float, sigma: float) -> Floats:
    """Numbers whose logarithms are normal with mean ``mu`` and deviation ``sigma``."""
    return _exp(mu + sigma * normal_quantile(uniform))


def normal_quantile(uniform: Floats) -> Floats:
    """The numbers below which these shares of a standard normal distribution lie, within 1e-15 of them.

    >>> float(normal_quantile(np.array([0.75]))[0])
    0.6744897501960817
    """
    from_middle = uniform - 0.5
    square = _CENTRE_WIDTH_SQUARED - from_middle * from_middle
    found = from_middle * _quotient(_CENTRE, square)
    outside = np.flatnonzero(square < 0)
    share = uniform[outside]
    depth = np.sqrt(-log(np.minimum(share, 1 - share)))
    distance = np.where(
        depth <= _SHOULDER_END, _quotient(_SHOULDER, depth - 1.6), _quotient(_TAIL, depth - _SHOULDER_END)
    )
    found[outside] = np.copysign(distance, from_middle[outside])
    return found


def distinct_numbers(
    counts: Integers, uniform: Sequence[Floats], space: int
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """For each row a set of distinct numbers below ``space``, each set as likely as any other of its size.

    Floyd's algorithm: number k of a set of c is drawn from the first space - c + k + 1; if the set already has it, the
    last of these, which it cannot have, replaces it (Bentley and Floyd, A sample of brilliance, 1987).
    O(rows * most**2) for sets of at most ``most``.

    Args:
        counts: The size of each row's set, at most ``space``.
        uniform: Between 0 and 1; an array for each number that the largest set has, each with an item a row.
        space: How many numbers there are.

    Returns:
        A matrix with a row for each set, and which of its cells count.
    """
    columns: list[Integers] = []
    for place, chance in enumerate(uniform):
        last = space - counts + place
        drawn = (chance * (last + 1)).astype(np.int64)  # towards 0, and they are not negative
        taken = np.zeros(len(counts), np.bool_)
        for column in columns:
            taken |= column == drawn
        np.copyto(drawn, last, where=taken)
        columns.append(drawn)
    return np.stack(columns, axis=1), np.arange(len(uniform)) < counts[:, None]


def _exp(numbers: Floats) -> Floats:
    powers = np.rint(numbers * (1 / (_LN2_HIGH + _LN2_LOW)))
    rest = numbers - powers * _LN2_HIGH
    rest -= powers * _LN2_LOW
    found: Floats = np.ldexp(np.polyval(_EXP_TERMS, rest), powers.astype(np.int32))
    return found


def _quotient(terms: tuple[tuple[float, ...], tuple[float, ...]], at: Floats) -> Floats:
    return np.polyval(terms[0], at) / np.polyval(terms[1], at)
