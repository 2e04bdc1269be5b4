"""Sections and keys of a run's TOML file, with the values that each key may have."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fedsgt.words import counted

# The upper limits are far above any use, so that a number with a digit too many is an error at once.
Positive = Annotated[int, Field(ge=1, le=10_000_000)]
Few = Annotated[int, Field(ge=1, le=10_000)]
Seed = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """Section of a TOML file; a key that is not listed is an error, and a value is never converted."""

    # Defaults are validated too: 16 for a float becomes 16.0, as when it is read from a file, so that the
    # hashes of both are the same.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True
    )


class Data(Section):
    """Source of the records, and their division among clients."""

    source: Text = Field(
        "digits",
        description="`digits`; a csv, jsonl or parquet file; a folder of them (train, test), of images by "
        "label, or one that `datasets` saved; or `owner/name` of a hub data set",
    )
    test: Text | None = Field(
        None,
        description="file, folder or part of the source to test on; its test or validation part by default",
    )
    test_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.2,
        description="share of the records that is kept for testing, chosen by a hash of their ids, if there "
        "is nothing else to test on; 0 keeps none",
    )
    id_column: Text = Field(
        "id",
        description="column of the records' stable ids; `#row` takes row numbers, if rows never move; the "
        "ids of images in folders are their paths",
    )
    label_column: Text = Field(
        "label", description="column of the labels: whole numbers from 0, or texts of `data.label_names`"
    )
    label_names: list[Text] | None = Field(
        None,
        description="names of the labels, in order; labels that are texts, or folders of images, are looked "
        "up here; as the source declares them by default",
        min_length=2,
    )
    input_columns: list[Text] | None = Field(
        None,
        description="columns of the input: texts, or the bytes or paths of images; `image`, or `sentence` "
        "for text, by default",
    )
    client_column: Text = Field("client", description="column of the record's owner, for partition `given`")
    labels: Annotated[int, Field(ge=2)] | None = Field(
        None, description="number of labels; as `data.label_names` or the source declares it by default"
    )
    limit: Positive | None = Field(None, description="largest number of training records to use")
    test_limit: Positive | None = Field(None, description="largest number of test records to use")
    clients: Positive | None = Field(
        None,
        description="number of clients; by default 10, with partition `given` as many as the records have "
        "owners, with `remote` as many as the server has keys of",
    )
    partition: Literal["iid", "dirichlet", "given", "remote"] = Field(
        "dirichlet",
        description="how records are divided among clients; `given` takes the source's own division, "
        "`remote` leaves them with clients that connect, each with a source of its own",
    )
    alpha: Annotated[float, Field(gt=0)] = Field(
        0.3, description="Dirichlet concentration; a smaller one is more skewed"
    )
    seed: Seed = Field(0, description="seed of the partition and of the slicing")
    erase: Literal["rewrite", "tombstone"] = Field(
        "tombstone",
        description="`tombstone` leaves the clients' files as they are, and leaves deleted records out "
        "when they are read; `rewrite` also takes them out of the csv, jsonl or parquet file, or removes "
        "their images from the folder (never for simulated clients)",
    )
    erased: list[Text] = Field(
        [], description="folders of runs on the same source whose deleted records are left out here too"
    )

    @property
    def label_count(self) -> int | None:
        """Number of labels by these settings; None if the source has to declare it."""
        return self.labels if self.label_names is None else len(self.label_names)


class Grouping(Section):
    """Grouping of the clients' slices."""

    method: Literal["random", "bac", "centered", "affinity", "updates"] = Field(
        "random", description="how slices are grouped"
    )
    groups: Annotated[int, Field(ge=1, le=200)] = Field(10, description="number of groups, L")
    slices: Few | list[Few] = Field(
        5, description="number of slices of a client, S: one number, or one for each client"
    )
    limits: Few | list[Few] | None = Field(
        None,
        description="largest number of groups that a client may be in, B_i: one number, or one for each "
        "client",
    )
    seed: Seed = Field(0, description="seed of the grouping")


class PlanSection(Section):
    """Sequences in which the groups are trained, a module for each step."""

    kind: Literal[
        "rotations", "rotations-first", "iterative-rotations", "matching", "greedy", "tree", "none"
    ] = Field("rotations", description="how the orders of groups are chosen; `none` trains no module at all")
    budget: Few | None = Field(
        None,
        description="number of sequences, B; as many as groups by default; for `tree`, the number of "
        "rotations that it must be as good as",
    )
    shards: Few = Field(
        1, description="parts of the groups that never meet in a sequence; `budget` counts in each of them"
    )
    passes: Annotated[float, Field(gt=0)] | None = Field(
        None, description="largest training cost, in passes over the data"
    )
    seed: Seed = Field(0, description="seed of the plan's search")


def _check_channels(values: list[float]) -> list[float]:
    if len(values) not in (1, 3):
        raise ValueError(
            f"{counted(len(values), 'number')}; give three, for red, green and blue, or one for all of them"
        )
    return values


class Model(Section):
    """The frozen backbone."""

    backbone: Text = Field("fedsgt/tiny-vit", description="hub id or local path of the pretrained model")
    task: Literal["image", "text"] = Field("image", description="kind of input that the model classifies")
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = Field(
        "auto", description="`auto`, `cpu`, `cuda` or `cuda:N`"
    )
    image_size: Positive | None = Field(
        None, description="pixels per side that images are scaled to; the model's own by default"
    )
    mean: Annotated[list[float], AfterValidator(_check_channels)] | None = Field(
        None,
        description="subtracted from each colour channel: three numbers, or one for all; as the checkpoint "
        "says, or 0.5, by default",
    )
    std: Annotated[list[Annotated[float, Field(gt=0)]], AfterValidator(_check_channels)] | None = Field(
        None,
        description="divides each colour channel: three numbers, or one for all; as the checkpoint says, or "
        "0.5, by default",
    )
    max_length: Positive | None = Field(
        None, description="largest number of tokens of a text; the model's own by default"
    )
    too_long: Literal["error", "cut"] = Field(
        "error", description="whether a text with more tokens is an error or is cut"
    )


class Peft(Section):
    """The module that each phase trains."""

    kind: Literal["lora", "ia3", "prefix"] = Field("lora", description="PEFT method")
    rank: Positive = Field(16, description="rank of LoRA")
    alpha: Annotated[float, Field(gt=0)] = Field(16, description="scale of LoRA")
    layers: Literal["all"] | Positive | list[str] = Field(
        "all", description="`all`, the number of top layers, or exact names"
    )
    targets: list[str] | None = Field(
        None, description="linear layers by exact name; query and value by default"
    )
    tokens: Positive = Field(20, description="virtual tokens of prefix tuning")
    hidden: Positive = Field(512, description="width of prefix tuning's projection")
    freeze_a: bool = Field(False, description="train only LoRA's B, so that averaging factors is exact")


class Training(Section):
    """A client's local update."""

    optimizer: Literal["adamw", "sgd"] = Field("adamw", description="local optimiser")
    learning_rate: Annotated[float, Field(gt=0)] = Field(2e-3, description="step size")
    epochs: Positive = Field(3, description="number of local epochs in a round, E")
    rounds: Positive = Field(1, description="number of rounds in a phase")
    batch_size: Positive = Field(32, description="number of records in a step")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="weight decay of the optimiser")
    clip: Annotated[float, Field(gt=0)] | None = Field(1.0, description="largest gradient norm")
    seed: Seed = Field(0, description="seed from which all training seeds are derived by hashing")
    start: Literal["own", "common"] = Field(
        "own", description="fresh weights of a module: its own, or the same for all modules of one depth"
    )
    window: Few | Literal["own"] | None = Field(
        None,
        description="number of groups' worth of records that an epoch of a deep phase uses, spread evenly "
        "over its prefix; `own` trains each phase on its own group alone; all of the prefix, as in the "
        "paper, by default",
    )


class Heads(Section):
    """Heads that are solved from statistics of all retained records."""

    solve: bool = Field(
        True, description="whether clients' statistics are made, from which heads are solved for each chain"
    )
    when: Literal["build", "serve"] = Field(
        "build",
        description="`build` makes the statistics of every module, so that nothing is missing after a "
        "deletion; `serve` only those of the chains that serve, which takes less disk, and makes others "
        "after a deletion",
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of the records that statistics are made of, chosen by a hash of their ids"
    )
    bits: Annotated[int, Field(ge=12, le=16)] = Field(
        16, description="bits of a quantised feature; sums are exact whatever their number"
    )
    ridge: Literal["gcv"] | Annotated[float, Field(gt=0)] = Field(
        "gcv", description="strength of the penalty on a head's weights; `gcv` chooses it by cross-validation"
    )


class Privacy(Section):
    """Local differential privacy of what a client sends."""

    epsilon: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="privacy loss of one update, which adds up over a client's updates; no noise if not "
        "given",
    )
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(
        1e-5, description="probability that the privacy loss is larger than epsilon"
    )
    clip: Annotated[float, Field(gt=0)] = Field(
        1.0, description="largest L2 norm of what an update changes; the noise is proportional to it"
    )


class Engine(Section):
    """Execution of the training: engine, worker processes and remote clients."""

    name: Literal["in-process", "flower", "flower-sim"] = Field("in-process", description="engine")
    workers: Annotated[int, Field(ge=0, le=1024)] = Field(
        2, description="worker processes, one thread each; 0 trains inside this process, for debugging"
    )
    server: Text | None = Field(
        None, description="folder of `fedsgt server`, for clients that hold their data themselves"
    )
    absent: Literal["wait", "go-on"] = Field(
        "wait",
        description="if a remote client does not answer, wait until it is back, or go on without it; each "
        "module's manifest names the clients that took part",
    )
    timeout: Annotated[float, Field(gt=0)] = Field(
        600.0, description="with `go-on`, seconds after which a client that has not answered is left out"
    )
    largest_update: Annotated[float, Field(gt=0)] = Field(
        1000.0,
        description="largest L2 distance of a remote client's update from the state at the start of the "
        "round",
    )
    trackers: list[Literal["tensorboard", "mlflow"]] = Field(
        [], description="trackers that get the metrics, besides the run's `metrics.jsonl`"
    )


class Store(Section):
    """Place of the trained modules."""

    url: Text | None = Field(
        None, description="fsspec URL of an object store for the modules; a folder in the run if not given"
    )


class Unlearning(Section):
    """Deletion requests and what follows them."""

    ledger: str | None = Field(None, description="database URL of the ledger; a file in the run if not given")
    retrain: Literal["never", "when-exhausted", "below-modules", "below-accuracy", "now"] = Field(
        "never", description="when dead modules are trained again"
    )
    key: Text | None = Field(
        None, description="file of the Ed25519 key that signs certificates; made in the run if not given"
    )
    threshold: Annotated[float, Field(ge=0)] | None = Field(
        None, description="number of modules, or accuracy from 0 to 1, below which to retrain"
    )


class Serving(Section):
    """Predictions: the sequences that make them, and the address of the service."""

    strategy: Literal["all", "min", "long", "merged"] = Field(
        "all", description="which live sequences are served"
    )
    heads: Literal["statistics", "trained"] = Field(
        "statistics",
        description="heads that answer: those solved from statistics, where the run has any, or those that "
        "were trained with the modules, as in the paper",
    )
    bare_backbone: bool = Field(False, description="serve the bare backbone when no module is live")
    host: Text = Field("127.0.0.1", description="address to listen on")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(8080, description="port to listen on")
