"""One run, described: the sections and keys of its TOML file, with what each may be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(ge=1, le=10_000_000)]
Few = Annotated[int, Field(ge=1, le=10_000)]
Seed = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    # Defaults too: 16 for a float is 16.0, as it is when read again, so that hashes of settings agree.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True
    )


class Data(Section):
    """Where the records come from and how they lie with the clients."""

    source: Text = Field(
        "digits", description="`digits`, a parquet file, a folder of them (train, test), or a hub data set"
    )
    test: Text | None = Field(
        None, description="parquet file or split to test on; the source's test or validation part by default"
    )
    id_column: Text = Field(
        "id", description="column of the records' stable ids; `#row` takes row numbers, if rows never move"
    )
    label_column: Text = Field("label", description="column of the labels, whole numbers from 0")
    input_columns: list[Text] | None = Field(
        None, description="columns of the input; `image`, or `sentence` for text, by default"
    )
    client_column: Text = Field("client", description="column of the record's owner, for partition `given`")
    labels: Annotated[int, Field(ge=2)] | None = Field(
        None, description="number of labels; as the source declares it by default"
    )
    limit: Positive | None = Field(None, description="use so many training records at most")
    test_limit: Positive | None = Field(None, description="use so many test records at most")
    clients: Positive = Field(10, description="number of data holders")
    partition: Literal["iid", "dirichlet", "given", "remote"] = Field(
        "dirichlet",
        description="how records are dealt to clients; `given` takes them as the source has them, "
        "`remote` leaves them where they are: with clients that connect, each with a source of its own",
    )
    alpha: Annotated[float, Field(gt=0)] = Field(0.3, description="Dirichlet concentration; small is skewed")
    seed: Seed = Field(0, description="seed of the partition and of the slicing")
    erase: Literal["rewrite", "tombstone"] = Field(
        "rewrite",
        description="deleted records are taken out of the owners' parquet file if it can be written, or, "
        "as always for simulated clients, only left out by whoever reads them",
    )
    erased: list[Text] = Field(
        [], description="folders of runs on the same source whose deleted records are left out here too"
    )


class Grouping(Section):
    """Slices to groups."""

    method: Literal["random", "bac", "centered", "affinity", "updates"] = Field(
        "random", description="how slices are grouped"
    )
    groups: Annotated[int, Field(ge=1, le=200)] = Field(10, description="number of groups, L")
    slices: Few | list[Few] = Field(5, description="slices per client, S: one number, or one a client")
    limits: Few | list[Few] | None = Field(
        None, description="most groups a client may be in, B_i: one number, or one a client"
    )
    seed: Seed = Field(0, description="seed of the grouping")


class PlanSection(Section):
    """Groups to modules."""

    kind: Literal["rotations", "rotations-first", "iterative-rotations", "matching", "greedy", "tree"] = (
        Field("rotations", description="how the orders of groups are chosen")
    )
    budget: Few | None = Field(
        None,
        description="number of sequences, B; as many as groups by default; for `tree` the rotations to equal",
    )
    shards: Few = Field(
        1, description="parts of the groups that never meet in a sequence; `budget` counts in each of them"
    )
    passes: Annotated[float, Field(gt=0)] | None = Field(
        None, description="most training cost, in passes over the data"
    )
    seed: Seed = Field(0, description="seed of the plan's search")


class Model(Section):
    """The frozen backbone."""

    backbone: Text = Field("fedsgt/tiny-vit", description="hub id or local path of the pretrained model")
    task: Literal["image", "text"] = Field("image", description="what the model classifies")
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = Field(
        "auto", description="`auto`, `cpu`, `cuda` or `cuda:N`"
    )
    image_size: Positive | None = Field(
        None, description="pixels a side that images are scaled to; the model's own by default"
    )
    mean: list[float] | None = Field(
        None, description="subtracted from each colour channel; as the checkpoint says, or 0.5, by default"
    )
    std: list[Annotated[float, Field(gt=0)]] | None = Field(
        None, description="divides each colour channel; as the checkpoint says, or 0.5, by default"
    )
    max_length: Positive | None = Field(None, description="most tokens of a text; the model's by default")
    too_long: Literal["error", "cut"] = Field("error", description="what to do with a text of more tokens")


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
    epochs: Positive = Field(3, description="local epochs of a round, E")
    rounds: Positive = Field(1, description="rounds of a phase")
    batch_size: Positive = Field(32, description="records of a step")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="weight decay of the optimiser")
    clip: Annotated[float, Field(gt=0)] | None = Field(1.0, description="largest gradient norm")
    seed: Seed = Field(0, description="seed from which all training seeds are derived by hashing")
    start: Literal["own", "common"] = Field(
        "own", description="fresh weights of a module: its own, or the same for all modules of one depth"
    )


class Privacy(Section):
    """Local differential privacy of what a client sends."""

    epsilon: Annotated[float, Field(gt=0)] | None = Field(
        None, description="privacy loss of one update; a client's adds up over its updates; none is without"
    )
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(1e-5, description="chance that it is more than that")
    clip: Annotated[float, Field(gt=0)] = Field(
        1.0, description="largest L2 norm of what an update changes; the noise goes with it"
    )


class Engine(Section):
    """What carries the training out."""

    name: Literal["in-process", "flower", "flower-sim"] = Field("in-process", description="engine")
    workers: Annotated[int, Field(ge=0, le=1024)] = Field(
        2, description="worker processes, one thread each; 0 trains inside this process, for debugging"
    )
    server: Text | None = Field(
        None, description="folder of `fedsgt server`, for clients that hold their data themselves"
    )
    absent: Literal["wait", "go-on"] = Field(
        "wait",
        description="when a remote client does not answer: wait until it is back, or go on without it; "
        "who took part is in each module's manifest",
    )
    timeout: Annotated[float, Field(gt=0)] = Field(
        600.0, description="with `go-on`, seconds after which a client that has not answered is left out"
    )
    largest_update: Annotated[float, Field(gt=0)] = Field(
        1000.0, description="how far (L2) a remote client's update may lie from where the round began"
    )
    trackers: list[Literal["tensorboard", "mlflow"]] = Field(
        [], description="where metrics go besides the run's `metrics.jsonl`"
    )


class Store(Section):
    """Where trained modules are kept."""

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
    """How predictions are made."""

    strategy: Literal["all", "min", "long", "merged"] = Field("all", description="selection of sequences")
    bare_backbone: bool = Field(False, description="serve the bare backbone when no module is live")
    host: Text = Field("127.0.0.1", description="address to listen on")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(8080, description="port to listen on")


class Config(Section):
    """A whole run. The defaults are the paper's setting."""

    data: Data = Field(default_factory=Data)
    grouping: Grouping = Field(default_factory=Grouping)
    plan: PlanSection = Field(default_factory=PlanSection)
    model: Model = Field(default_factory=Model)
    peft: Peft = Field(default_factory=Peft)
    training: Training = Field(default_factory=Training)
    privacy: Privacy = Field(default_factory=Privacy)
    engine: Engine = Field(default_factory=Engine)
    store: Store = Field(default_factory=Store)
    unlearning: Unlearning = Field(default_factory=Unlearning)
    serving: Serving = Field(default_factory=Serving)

    def slices_per_client(self) -> list[int]:
        """S for each client."""
        slices = self.grouping.slices
        return [slices] * self.data.clients if isinstance(slices, int) else slices

    def _check_plan(self, groups: int) -> None:
        shards, passes = self.plan.shards, self.plan.passes
        if shards > groups:
            raise ValueError(f"plan.shards: {shards} for {groups} groups; at most one for each group")
        largest = -(-groups // shards)
        least = (largest + 1) / 2
        if passes is not None and passes < least:
            raise ValueError(
                f"plan.passes: {passes:g} is too little; {largest} groups take at least {least:g}"
            )

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        clients, groups = self.data.clients, self.grouping.groups
        for key in ("slices", "limits"):
            value = getattr(self.grouping, key)
            if isinstance(value, list) and len(value) != clients:
                raise ValueError(
                    f"grouping.{key}: {len(value)} values for {clients} clients; give one for each"
                )
        total = sum(self.slices_per_client())
        if groups > total:
            raise ValueError(f"grouping.groups: {groups} is more than the {total} slices; at most {total}")
        if self.grouping.method == "updates" and groups > clients:
            raise ValueError(
                f"grouping.groups: {groups} clusters of {clients} clients; with updates at most {clients}"
            )
        self._check_plan(groups)
        needs_threshold = self.unlearning.retrain in ("below-modules", "below-accuracy")
        if needs_threshold != (self.unlearning.threshold is not None):
            raise ValueError(
                f"unlearning.threshold: {self.unlearning.threshold}; given exactly when unlearning.retrain is"
                f" below-modules or below-accuracy (it is {self.unlearning.retrain})"
            )
        accuracy = self.unlearning.retrain == "below-accuracy"
        if accuracy and self.unlearning.threshold is not None and self.unlearning.threshold > 1:
            raise ValueError(
                f"unlearning.threshold: {self.unlearning.threshold:g} is no accuracy; give a share, 0 to 1"
            )
        return self
