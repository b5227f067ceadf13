"""Dense retrieval: any sentence-transformers encoder over an exact FAISS inner-product index.

EVE's searcher is E5 (`intfloat/e5-base-v2`), which is trained with the prefixes `query: ` and `passage: `, mean
pooling over all tokens of the text and unit vectors; the preset "e5" gives exactly that whatever the model folder's
own pooling says. The preset "plain" takes an encoder as it is. The search is exact (Flat), in memory;
`factgym.corpora.stored_dense` searches vectors on disk. FAISS, torch and sentence-transformers load on first use;
without them `MissingExtraError` names the extra "dense".
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np

from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean
from factgym.core.paths import model_name
from factgym.core.tasks import Immutable, shared
from factgym.corpora.combiner import Combiner
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import Hit, check_request, index_fingerprint
from factgym.text.words import MAX_QUERY_CHARS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

SCORE_DIGITS = 5
"""Decimals of a score: those beyond depend on the batch in which a text was encoded, and would reorder ties."""

SPARE_HITS = 16
"""Hits beyond `k` that are requested: rounding the scores may reorder those near the cut."""

MAX_BATCH = 256
"""Queries that are encoded and searched together, of whichever threads."""


@dataclass(frozen=True, slots=True)
class EncoderPreset:
    """How an encoder family prepares its texts.

    pooling: "mean" averages the vectors of all tokens, "model" leaves pooling to the model. unit_norm: vectors are
    scaled to length 1, which makes a score a cosine in [-1, 1]. model: the default.
    """

    name: str
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: Literal["mean", "model"] = "model"
    unit_norm: bool = True
    model: str = ""


E5 = EncoderPreset("e5", "query: ", "passage: ", "mean", True, "intfloat/e5-base-v2")
PLAIN = EncoderPreset("plain", model="sentence-transformers/all-MiniLM-L6-v2")
QWEN3 = EncoderPreset(
    "qwen3",
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    model="Qwen/Qwen3-Embedding-0.6B",
)
"""The instruction is the one published for retrieval, without a space after "Query:"; passages have none."""
PRESETS = {preset.name: preset for preset in (E5, PLAIN, QWEN3)}


class SentenceEncoder(Protocol):
    """The method of `SentenceTransformer` that is used: one row of `encode(texts, ...)` for each text."""

    def encode(self, texts: list[str], **options: Any) -> Any:
        """Array of shape (texts, dimension); options are `batch_size` and `show_progress_bar`."""
        ...


def preset_of(preset: str | EncoderPreset | None, model: object = None) -> EncoderPreset:
    """Return the preset of that name, or the preset itself. Raises `ConfigError` for an unknown name.

    None is the preset that a model's name or folder shows: "e5" and "qwen3" for names with E5 or Qwen3, "plain" for
    others. Without a model, and for a model that is an object, it is "e5".
    """
    if isinstance(preset, EncoderPreset):
        return preset
    if preset is None:
        name = str(model).lower() if isinstance(model, str | Path) else "e5"
        families = (family for family in (E5, QWEN3) if re.search(rf"(?<![a-z0-9]){family.name}(?![a-z0-9])", name))
        return next(families, PLAIN)
    if preset not in PRESETS:
        names = ", ".join(PRESETS)
        raise ConfigError(f"no encoder preset {preset!r} (known: {names}).{did_you_mean(str(preset), PRESETS)}")
    return PRESETS[preset]


def resolve_encoder(
    model: str | Path | SentenceEncoder | None, preset: str | EncoderPreset | None
) -> tuple[str | SentenceEncoder, EncoderPreset]:
    """Return model and preset for those that a user gave, neither of which needs to be. Raises `ConfigError`."""
    if isinstance(model, str) and model in PRESETS and not Path(model).is_dir():
        own = PRESETS[model]
        if preset is not None and preset_of(preset) is not own:
            raise ConfigError(f"encoder {model!r} has its own preset: leave out preset={preset!r}")
        model, preset = None, own
    chosen = preset_of(preset, model)
    source: Any = chosen.model if model is None else model
    return str(source) if isinstance(source, str | Path) else source, chosen


def check_number(name: str, value: object) -> None:
    """Raise `ConfigError` for an option that is no whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} is a whole number, at least 1, not {value!r:.40}")


def encoder_name(source: str | SentenceEncoder) -> str:
    """Return the model in a fingerprint: its name, a digest of its folder, or the type of an object."""
    if not isinstance(source, str):
        return f"object:{type(source).__module__}.{type(source).__qualname__}"
    folder = Path(source)
    if not folder.is_dir():
        return source
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(json.dumps([path.relative_to(folder).as_posix(), path.stat().st_size]).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"folder:{digest.hexdigest()}"


class SentenceModel(Immutable):
    """A model of sentence-transformers by its name or folder, or an object with the methods that are used.

    Subclasses: encoders, rerankers, models of late interaction. device: cpu, cuda …; of several, with commas between them,
    encoders take a process each. A named model pickles as its name and is loaded again where it arrives. One thread at a
    time uses it. Raises `MissingExtraError` without the extra, `ConfigError` for a model that is absent or of another kind.
    """

    loader: ClassVar[str]
    """The class of sentence-transformers that loads it."""
    option: ClassVar[str]
    """The index option that names it."""
    methods: ClassVar[tuple[str, ...]]
    """Those that an object needs."""
    extra: ClassVar[str] = "dense"

    def __init__(self, model: Any, *, device: str | None = None, batch_size: int = 32) -> None:
        check_number("batch_size", batch_size)
        self.source: Any = model_name(model, self.option) if isinstance(model, str | Path) else model
        self.device = device
        self.batch_size = batch_size
        self.devices = device.split(",") if device else []
        self._pool: Any = None
        # Fast tokenizers are not safe under threads: a second one in the same tokenizer raises "Already borrowed".
        self._lock = threading.Lock()
        self._model: Any = self._load() if isinstance(self.source, str) else self.source
        if not all(callable(getattr(self._model, name, None)) for name in self.methods):
            raise ConfigError(
                f"{self.option} is a model name, a folder or an object with {' and '.join(self.methods)}, "
                f"not {model!r:.80}"
            )

    @classmethod
    def shared(cls, source: str | Path, *arguments: Any, device: str | None = None, batch_size: int = 32) -> Self:
        """Return the model of this name or folder, loaded once in a process."""
        key = (cls, str(source), *arguments, device, batch_size)
        return shared(key, lambda: cls(source, *arguments, device=device, batch_size=batch_size))

    @classmethod
    def of(cls, model: Any, options: Mapping[str, Any]) -> Self:
        """Return a model itself, the shared one of a name or folder with device and batch_size, or one of an object."""
        if isinstance(model, str | Path):
            return cls.shared(model, **{key: options[key] for key in ("device", "batch_size") if key in options})
        return model if isinstance(model, cls) else cls(model)

    def __reduce__(self) -> tuple[Any, ...]:
        make: Any = type(self).shared if isinstance(self.source, str) else type(self)
        return partial(make, device=self.device, batch_size=self.batch_size), self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        return (self.source,)

    @cached_property
    def name(self) -> str:
        """The model in a fingerprint, see `encoder_name`."""
        return encoder_name(self.source)

    @contextlib.contextmanager
    def processes(self) -> Iterator[None]:
        """Encode in a process for each device while the block runs, where several were given."""
        if len(self.devices) > 1 and isinstance(self.source, str):
            self._pool = self._model.start_multi_process_pool(self.devices)
        try:
            yield
        finally:
            if self._pool is not None:
                self._model.stop_multi_process_pool(self._pool)
                self._pool = None

    def _encode_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"batch_size": self.batch_size, "show_progress_bar": False}
        return options if self._pool is None else options | {"pool": self._pool}

    def _load(self) -> Any:
        try:
            load = getattr(importlib.import_module("sentence_transformers"), self.loader)
        except (ImportError, AttributeError) as error:
            raise MissingExtraError(f"{self.option}={self.source!r}", self.extra) from error
        try:
            return load(str(self.source), device=self.devices[0] if self.devices else None)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"no {self.option} at {self.source!r}: name a folder or a hub model that is available"
                f" ({' '.join(str(error).split())[:200]})"
            ) from error


class Encoder(SentenceModel):
    """A model with its preset: texts to float32 vectors of shape (texts, dimension).

    model: a name or folder that `SentenceTransformer` loads, a preset's name, or an object with its `encode`. preset: see
    `preset_of`.
    """

    loader, option, methods = "SentenceTransformer", "encoder", ("encode",)

    def __init__(
        self,
        model: str | Path | SentenceEncoder | None = None,
        preset: str | EncoderPreset | None = None,
        *,
        device: str | None = None,
        batch_size: int = 32,
    ) -> None:
        source, self.preset = resolve_encoder(model, preset)
        super().__init__(source, device=device, batch_size=batch_size)
        self._pool_here = (
            self.preset.pooling == "mean" and isinstance(self.source, str) and not _pools_mean(self._model)
        )

    def _arguments(self) -> tuple[Any, ...]:
        return self.source, self.preset

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of queries, of the first `MAX_QUERY_CHARS` characters of each."""
        return self._encode([self.preset.query_prefix + text[:MAX_QUERY_CHARS] for text in texts])

    def passages(self, passages: Iterable[Passage]) -> Vectors:
        """Return the vectors of passages, each its title and text joined by a newline."""
        return self._encode([self.preset.passage_prefix + f"{p.title}\n{p.text}".strip() for p in passages])

    def _encode(self, texts: list[str]) -> Vectors:
        options = self._encode_options()
        with self._lock:
            if self._pool_here:
                tokens = self._model.encode(texts, output_value="token_embeddings", convert_to_numpy=False, **options)
                rows = np.stack([token.float().mean(dim=0).cpu().numpy() for token in tokens])
            else:
                rows = np.asarray(self._model.encode(texts, **options))
        vectors = np.ascontiguousarray(rows, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ConfigError(f"the encoder gave shape {vectors.shape} for {len(texts)} texts: expected one row each")
        if self.preset.unit_norm:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


def shared_encoder(
    model: str | Path | None = None,
    preset: str | EncoderPreset | None = None,
    *,
    device: str | None = None,
    batch_size: int = 32,
) -> Encoder:
    """Return the encoder of this model and preset, loaded once in a process."""
    source: Any
    source, chosen = resolve_encoder(model, preset)
    return Encoder.shared(source, chosen, device=device, batch_size=batch_size)


def _pools_mean(model: Any) -> bool:
    """Whether the model's own pooling is the plain mean over all tokens; False where that cannot be seen."""
    for module in model.modules():
        if type(module).__name__ == "Pooling":
            config = module.get_config_dict()
            modes = [key for key, on in config.items() if key.startswith("pooling_mode_") and on]
            return config.get("pooling_mode") == "mean" or modes == ["pooling_mode_mean_tokens"]
    return False


def load_faiss() -> Any:
    """Import FAISS. Raises MissingExtraError."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("index='dense'", "dense") from error
    return faiss


def best_positions(scores: Iterable[float], positions: Iterable[int], k: int) -> list[tuple[int, float]]:
    """Return the best `k` (position, score), scores rounded, equal ones by position."""
    rounded = ((-round(score, SCORE_DIGITS), position) for score, position in zip(scores, positions, strict=True))
    return [(position, -score) for score, position in sorted(rounded)[:k]]


class VectorIndex(Immutable):
    """Search of the vectors of a corpus's passages by those of the queries; a blank query has no hits.

    encoder: of the queries. first, stop: only these positions are searched.
    """

    def __init__(self, corpus: Corpus, encoder: Any, first: int = 0, stop: int | None = None) -> None:
        self.range = (first, len(corpus) if stop is None else stop)
        self._corpus, self._encoder, self._ids = corpus, encoder, corpus.ids
        self._combiner = Combiner(self._search, 1, MAX_BATCH)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first; queries of threads that wait at the same time are one batch.

        A batch is encoded at once and reads the vectors once.
        """
        check_request(queries, k)
        return self._combiner.search(queries, k)

    def _search(self, queries: list[str], k: int) -> list[list[Hit]]:
        nonblank = [i for i, query in enumerate(queries) if query.strip()]
        results: list[list[Hit]] = [[] for _ in queries]
        if nonblank and len(range(*self.range)):
            vectors = self._encoder.queries([queries[i] for i in nonblank])
            for i, row in zip(nonblank, self.search_vectors(vectors, k), strict=True):
                results[i] = [Hit(self._ids[position], score) for position, score in row]
        return results

    def search_vectors(self, queries: Any, k: int) -> list[list[tuple[int, float]]]:
        """Return positions in the corpus and scores, at most `k` for each of the encoder's results, best first."""
        raise NotImplementedError


class DenseIndex(VectorIndex):
    """Inner-product search over passage vectors, exact. Build cost is that of encoding every passage once.

    Scores are rounded to `SCORE_DIGITS` decimals and equal ones fall in corpus order; every passage is a candidate,
    so a query has `min(k, passages)` hits, and none when it is blank. Raises `MissingExtraError` without the extra
    "dense".
    """

    def __init__(self, passages: Iterable[Passage], encoder: Encoder, *, vectors: Vectors | None = None) -> None:
        """vectors: an earlier result of `encoder.passages` for the same passages, shape (passages, dimension)."""
        super().__init__(Corpus.of(passages), encoder)
        faiss = load_faiss()
        self._faiss: Any = None
        if len(self._corpus):
            rows = encoder.passages(self._corpus) if vectors is None else vectors
            if len(rows) != len(self._corpus):
                raise ConfigError(f"{len(rows)} vectors for {len(self._corpus)} passages")
            self._faiss = faiss.IndexFlatIP(rows.shape[1])
            self._faiss.add(np.ascontiguousarray(rows, dtype=np.float32))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(DenseIndex, vectors=self.vectors), (self._corpus, self._encoder)

    @property
    def vectors(self) -> Vectors | None:
        """The passage vectors in corpus order, shape (passages, dimension); None for an empty corpus."""
        return None if self._faiss is None else self._faiss.reconstruct_n(0, len(self._ids))

    def search_vectors(self, queries: Vectors, k: int) -> list[list[tuple[int, float]]]:
        """Return positions in the corpus and scores, at most `k` for each row of `queries`; ties by position."""
        # Some hits more than requested: scores are rounded after the search, which may reorder those near the cut.
        scores, rows = self._faiss.search(queries, min(k + SPARE_HITS, len(self._ids)))
        return [best_positions(*row, k) for row in zip(scores.tolist(), rows.tolist(), strict=True)]

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, preset and encoder (a local model folder counts by its content)."""
        settings = {"preset": asdict(self._encoder.preset), "encoder": self._encoder.name}
        return index_fingerprint("dense", settings, [self._corpus.fingerprint()])


def as_encoder(encoder: Any, **options: Any) -> Encoder:
    """Return an `Encoder` itself, the shared one of a model's name or folder (None: the preset's), or one of an object."""
    if isinstance(encoder, Encoder):
        if options:
            raise ConfigError(f"options {sorted(options)} belong to the Encoder that was given")
        return encoder
    if encoder is None or isinstance(encoder, str) or hasattr(encoder, "__fspath__"):
        return shared_encoder(encoder, **options)
    return Encoder(encoder, **options)
