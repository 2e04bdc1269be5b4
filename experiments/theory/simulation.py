"""Simulated streams, each beside the closed forms that predict it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.live import longest, rounded, simulated, unhit
from experiments.harness.requests import Request, Stream, streams
from experiments.harness.settings import Settings
from fedsgt import theory
from fedsgt.files.encoding import seed_of
from fedsgt.grouping import Grouping
from fedsgt.grouping import make as make_grouping
from fedsgt.planning.stream import group_prior
from fedsgt.plans import Plan, make, rotations


def plans(settings: Settings) -> dict[str, Plan]:
    """Return the plans by name, which is kind and budget, as in `spread-6`."""
    groups = settings["groups"]
    found = {f"rotations-{groups}": rotations(groups)}
    for budget in settings["fewer"]:
        found[f"spread-{budget}"] = rotations(groups, budget)
        found[f"first-{budget}"] = make("rotations-first", groups, budget)
    for budget in settings["more"]:
        found[f"iterative-{budget}"] = make("iterative-rotations", groups, budget)
    return found


def slice_requests(settings: Settings, slices: int, seed: int) -> dict[str, Any]:
    """Simulate the paper's requests on one random grouping, for every plan, beside its closed forms."""
    grouping = _grouping(settings, slices, seed)
    records = [[1] * slices] * settings["clients"]
    drawn = streams("slice", records, settings["streams"], settings["requests"], seed)
    return {
        name: {
            "simulated": _cut(simulated(longest(plan.sequences), _groups_of(grouping), drawn), settings),
            "theory": closed_forms(settings, plan),
        }
        for name, plan in plans(settings).items()
    }


def closed_forms(settings: Settings, plan: Plan) -> dict[str, Any]:
    """Return the paper's forms at B = L, the exact count on the circle below, the plan's score above."""
    groups, counts = plan.groups, range(settings["shown"] + 1)
    if len(plan.sequences) <= groups:
        offsets = [-order[0] for order in plan.sequences]
        live = [float(theory.expected_live_offsets(groups, offsets, count)) for count in counts]
    else:
        live = [float(value) for value in plan.expected_live(list(counts))]
    heads = len(plan.roots)
    alive = [float(theory.survival(groups, heads, count)) for count in counts]
    rate = float(theory.deletion_rate(groups, len(plan.sequences)))
    return {"live": rounded(live), "alive": rounded(alive), "rate": round(rate, 5)}


def fedcio_requests(settings: Settings, seed: int) -> dict[str, Any]:
    """Simulate the paper's requests on FedCIO's clusters of whole clients; `live` counts clusters."""
    clients, clusters = settings["clients"], settings["clusters"]
    slices = settings["slices"][0]
    grouping = make_grouping("random", [1] * clients, clusters, seed=seed)
    groups_of = [[int(group)] * slices for group in grouping.group_of]
    records = [[1] * slices] * clients
    drawn = streams("slice", records, settings["streams"], settings["requests"], seed)
    counts = range(settings["shown"] + 1)
    remaining = [clusters * float(theory.fedcio_expected_remaining(clusters, count)) for count in counts]
    alive = [float(theory.survival(clusters, clusters, count)) for count in counts]
    rate = float(theory.fedcio_deletion_rate(clusters))
    return {
        "fedcio": {
            "simulated": _cut(simulated(unhit(clusters), groups_of, drawn), settings),
            "theory": {"live": rounded(remaining), "alive": rounded(alive), "rate": round(rate, 5)},
        }
    }


def whole_clients(settings: Settings, seed: int) -> dict[str, Any]:
    """Simulate clients that leave, over many groupings, by slices a client and for FedCIO's clusters."""
    clients, groups, clusters = settings["clients"], settings["groups"], settings["clusters"]
    plan, found = rotations(groups), {}
    for slices in settings["client_slices"]:
        score = longest(plan.sequences)
        rates = [
            _leaving(score, _groups_of(_grouping(settings, slices, number)), number)
            for number in _numbers(settings, seed)
        ]
        exact = theory.deletion_rate_clients(clients, slices, groups, groups)
        found[f"S={slices}"] = _means(rates) | {"theory": round(float(exact), 5)}
    rates = []
    for number in _numbers(settings, seed):
        clustered = make_grouping("random", [1] * clients, clusters, seed=number)
        rates.append(_leaving(unhit(clusters), _groups_of(clustered), number))
    exact = theory.fedcio_deletion_rate_clients(clients, clusters)
    return found | {"fedcio": _means(rates) | {"theory": round(float(exact), 5)}}


def _leaving(score: Any, groups_of: list[list[int]], number: int) -> dict[str, Any]:
    records = [[1] * len(groups) for groups in groups_of]
    return simulated(score, groups_of, streams("client", records, 10, len(records), number))


def _means(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rate": round(float(np.mean([entry["rate"] for entry in found])), 5),
        "alive": rounded(np.mean([entry["alive"] for entry in found], axis=0)),
    }


def skewed_requests(settings: Settings, seed: int) -> dict[str, Any]:
    """Simulate clients that ask unequally often: the client of rank k in proportion to 1/k."""
    clients, slices = settings["clients"], settings["slices"][0]
    grouping = _grouping(settings, slices, seed)
    prior = 1 / np.arange(1, clients + 1)
    prior /= prior.sum()
    plan, counts = rotations(settings["groups"]), list(range(settings["shown"] + 1))
    of_groups = group_prior(grouping.counts(), prior)
    drawn = _by_prior(settings, prior, slices, seed)
    return {
        "simulated": _cut(simulated(longest(plan.sequences), _groups_of(grouping), drawn), settings),
        "theory": {
            "live": rounded(plan.expected_live(counts, of_groups)),
            "alive": rounded(plan.survival(counts, of_groups)),
            "rate": round(plan.deletion_rate(of_groups), 5),
        },
        "prior": rounded(of_groups),
    }


def _by_prior(settings: Settings, prior: NDArray[np.float64], slices: int, seed: int) -> list[Stream]:
    rng = np.random.default_rng(seed_of("requests", "skewed", seed))
    size = (settings["streams"], 4 * settings["requests"])  # groups that are seldom asked for live long
    who, which = rng.choice(len(prior), size=size, p=prior), rng.integers(slices, size=size)
    every = [[Request(client, (index,)) for index in range(slices)] for client in range(len(prior))]
    return [
        [every[client][index] for client, index in zip(*pair, strict=True)]
        for pair in zip(who, which, strict=True)
    ]


def client_rounds(settings: Settings, seed: int) -> dict[str, Any]:
    """Count the groups and the rounds that a client is in, over many groupings."""
    clients, groups = settings["clients"], settings["groups"]
    plan, found = rotations(groups), {}
    for slices in settings["client_slices"]:
        counts = [_grouping(settings, slices, number).counts() for number in _numbers(settings, seed)]
        balanced = [
            theory.groups_joined_balanced(clients, slices, groups, k) for k in range(min(groups, slices) + 1)
        ]
        found[f"S={slices}"] = {
            "joined": round(float(np.mean([(table > 0).sum(axis=1).mean() for table in counts])), 5),
            "joined_independent": round(groups * (1 - (1 - 1 / groups) ** slices), 5),
            "joined_balanced": round(float(sum(k * chance for k, chance in enumerate(balanced))), 5),
            "rounds": round(float(np.mean([plan.client_rounds(table).mean() for table in counts])), 5),
            "rounds_independent": round(float(theory.client_rounds_independent(groups, slices)), 5),
            "rounds_balanced": round(float(theory.client_rounds_balanced(clients, slices, groups)), 5),
        }
    return found


def _numbers(settings: Settings, seed: int) -> range:
    """Return seeds of groupings that no other seed of the experiment uses."""
    return range(seed * settings["groupings"], (seed + 1) * settings["groupings"])


def _grouping(settings: Settings, slices: int, seed: int) -> Grouping:
    return make_grouping("random", [slices] * settings["clients"], settings["groups"], seed=seed)


def _groups_of(grouping: Grouping) -> list[list[int]]:
    """Return the group of each slice, by client."""
    clients = range(grouping.clients)
    return [grouping.group_of[grouping.client_of == client].tolist() for client in clients]


def _cut(found: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Cut the curves where the plots end; the rate still counts all requests."""
    length = settings["shown"] + 1
    return found | {"live": found["live"][:length], "alive": found["alive"][:length]}
