"""Systems that FedSGT is compared with, each as settings of the same build and serving."""

from __future__ import annotations

from dataclasses import dataclass

from fedsgt.errors import InputError


@dataclass(frozen=True)
class System:
    """Named settings, written as `--set` takes them; a key without a value is removed."""

    name: str
    description: str
    overrides: tuple[str, ...] = ()


# Removes what a file may say of FedSGT's own plans and groups, since it would clash with the system's.
_PLAIN = ("grouping.limits=", "plan.kind=rotations", "plan.passes=")
_NO_RETRAINING = ("unlearning.retrain=never", "unlearning.threshold=")
_RETRAINING = ("unlearning.retrain=now", "unlearning.threshold=")
# FedAvg: one group of all data, whose only module is trained for ten rounds.
_ONE_MODEL = (
    *_PLAIN,
    "grouping.method=random",
    "grouping.groups=1",
    "grouping.slices=1",
    "plan.shards=1",
    "plan.budget=1",
    "training.rounds=10",
)
# FedCIO: as many shards as groups, so that no two clusters meet in a sequence.
_CLUSTERS = (
    *_PLAIN,
    "grouping.method=updates",
    "grouping.groups=5",
    "grouping.slices=1",
    "plan.shards=5",
    "plan.budget=1",
    "training.rounds=10",
    # The models of all clusters start from the same weights there.
    "training.start=common",
    "serving.strategy=all",
)
# SISA and S3T are not federated: all records are one client's, and a slice is a group of its own.
_ONE_CLIENT = (
    *_PLAIN,
    "training.window=",
    "data.clients=1",
    "data.partition=iid",
    "grouping.method=random",
    "grouping.groups=20",
    "grouping.slices=20",
    "plan.shards=4",
)

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System("fedsgt", "modules along many orders of groups: the file as it is"),
        System(
            "fedavg",
            "one model of all clients, ten rounds; a deletion ends its service",
            (*_ONE_MODEL, *_NO_RETRAINING),
        ),
        System(
            "fedretrain",
            "FedAvg, trained again from the start after each deletion",
            (*_ONE_MODEL, *_RETRAINING),
        ),
        System(
            "fedcio",
            "five isolated clusters of like clients, outputs averaged; a hit cluster is dropped",
            (*_CLUSTERS, *_NO_RETRAINING),
        ),
        System(
            "fedcio-retrain",
            "the same; a hit cluster is trained again from the common start",
            (*_CLUSTERS, *_RETRAINING),
        ),
        System(
            "sisa",
            "one client, four shards of five slices, one order for each shard",
            (*_ONE_CLIENT, "plan.budget=1"),
        ),
        System(
            "s3t",
            "one client, four shards of five slices, five orders for each shard",
            (*_ONE_CLIENT, "plan.budget=5"),
        ),
        System(
            "ridge",
            "no module at all: one ridge head on the frozen backbone's features",
            # Groups do not matter without modules; the file's slices stay, as deletions may name them.
            (
                *_PLAIN,
                "grouping.method=random",
                "plan.kind=none",
                "plan.shards=1",
                "plan.budget=",
                "heads.solve=true",
                "serving.heads=statistics",
                "serving.strategy=all",
                *_NO_RETRAINING,
            ),
        ),
    )
}


def system_settings(name: str | None) -> tuple[str, ...]:
    """Return the overrides of the named system; empty if `name` is None."""
    if name is None:
        return ()
    if name not in SYSTEMS:
        raise InputError(f"system: {name!r} is unknown; one of {', '.join(SYSTEMS)}")
    return SYSTEMS[name].overrides
