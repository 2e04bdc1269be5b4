"""Numbers of the results that the tables and claims of this experiment use."""

from __future__ import annotations

from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, mean_of
from fedsgt import theory

SYSTEMS = {"fedavg": "FedAvg", "fedcio": "FedCIO", "fedsgt": "FedSGT"}
HOURS = {  # the paper's Table 3
    "cifar10": (68.42, 30.53, 41.31),
    "cifar100": (69.21, 31.40, 42.30),
    "sst2": (53.40, 20.30, 46.20),
    "qqp": (182.44, 112.35, 181.0),
    "qnli": (75.25, 63.41, 70.30),
    "mnli": (252.51, 182.36, 241.3),
}
ROUNDS = 10  # of FedAvg and FedCIO


def cell(task: str, records: int) -> str:
    return f"{task.replace('/', '-')}-{records}"


def seconds(
    settings: Settings, results: Results, task: str, system: str, size: int = 0, what: str = "seconds"
) -> list[float]:
    found: list[float] = results.values(cell(task, settings["records"][size]), system, what)
    return found


def ratio(settings: Settings, results: Results, task: str, system: str, what: str = "seconds") -> list[float]:
    """Return the ratio of a system's time to FedAvg's, for each seed."""
    ours, theirs = (seconds(settings, results, task, name, what=what) for name in (system, "fedavg"))
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def counted(settings: Settings, results: Results, task: str, system: str) -> float:
    """Return the passes over the data, for each seed."""
    return float(results.values(cell(task, settings["records"][0]), system, "passes")[0])


def sequences(settings: Settings, results: Results, task: str) -> int:
    return int(results.values(cell(task, settings["records"][0]), "fedsgt", "sequences")[0])


def grown(settings: Settings, results: Results, task: str, system: str) -> Mean:
    """Return the ratio of times with the most and the fewest records, for the seeds that have both."""
    large, small = (
        dict(results.seeds(cell(task, settings["records"][size])))
        for size in (0, len(settings["records"]) - 1)
    )
    seeds = sorted(large.keys() & small.keys())
    return mean_of([large[seed][system]["seconds"] / small[seed][system]["seconds"] for seed in seeds])


def matched(settings: Settings, results: Results, task: str) -> list[float]:
    """Return the number of sequences that take as long as FedAvg, with frozen layers already computed."""
    count = sequences(settings, results, task)
    return [count / factor for factor in ratio(settings, results, task, "fedsgt", "again")]


def hours_of(task: str) -> tuple[float, float, float] | None:
    """Return the paper's hours for a task of its own, or for ours of the same data."""
    return HOURS.get(task.rpartition("/")[2])


def forms_of(settings: Settings, slices: int) -> dict[str, float]:
    clients, groups = settings["clients"], settings["groups"]
    return {
        "paper": float(theory.client_rounds_independent(groups, slices)),
        "balanced": float(theory.client_rounds_balanced(clients, slices, groups)),
    }
