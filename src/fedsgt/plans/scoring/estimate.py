"""A score that says how sure it is."""

from __future__ import annotations


class Estimate(float):
    """A number with its standard error; zero means that it was computed exactly."""

    stderr: float

    def __new__(cls, value: float, stderr: float = 0.0) -> Estimate:
        number = super().__new__(cls, value)
        number.stderr = stderr
        return number

    @property
    def exact(self) -> bool:
        return self.stderr == 0.0

    def __repr__(self) -> str:
        return float.__repr__(self) if self.exact else f"{float(self):.5g}±{self.stderr:.1g}"

    __str__ = __repr__
