"""Closed forms of the paper's analysis, corrected and extended, as exact fractions."""

from fedsgt.theory.communication import (
    client_rounds_balanced,
    client_rounds_independent,
    groups_joined_balanced,
    groups_joined_independent,
    matched_budget,
    matched_budget_passes,
    passes,
)
from fedsgt.theory.deletion import (
    deletion_rate,
    deletion_rate_clients,
    deletion_rate_weighted,
    fedcio_deletion_rate,
    fedcio_deletion_rate_clients,
    requests_survived,
    survival,
    survival_clients,
    survival_weighted,
)
from fedsgt.theory.live import (
    expected_live,
    expected_live_offsets,
    fedcio_expected_remaining,
    span,
    span_given,
)
from fedsgt.theory.numbers import distinct_groups

__all__ = [
    "client_rounds_balanced",
    "client_rounds_independent",
    "deletion_rate",
    "deletion_rate_clients",
    "deletion_rate_weighted",
    "distinct_groups",
    "expected_live",
    "expected_live_offsets",
    "fedcio_deletion_rate",
    "fedcio_deletion_rate_clients",
    "fedcio_expected_remaining",
    "groups_joined_balanced",
    "groups_joined_independent",
    "matched_budget",
    "matched_budget_passes",
    "passes",
    "requests_survived",
    "span",
    "span_given",
    "survival",
    "survival_clients",
    "survival_weighted",
]
