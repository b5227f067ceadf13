"""Scores of a premise and a claim by an encoder or encoder-decoder of transformers.

| architecture | models | score |
| --- | --- | --- |
| sequence classifier | cross-encoders for NLI, MiniCheck (RoBERTa, DeBERTa) | probability of the label that means support |
| encoder-decoder | MiniCheck (Flan-T5) | probability of "1" against "0" as the first token of the output |
| token classifier | LettuceDetect | 1 minus the largest probability that a token of the claim is unsupported |

MiniCheck: Tang, Laban and Durrett, 2024 (arXiv:2404.10774). LettuceDetect: Kovács and Recski, 2025 (arXiv:2502.17125).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from factgym.agents.local.loading import DType, check_folder, loading_error, pick_device, pick_dtype, quiet_library
from factgym.core.config import AtLeastOne, Settings, UnitFloat
from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean
from factgym.core.strict_json import clean_text

if TYPE_CHECKING:
    import torch

Meaning = Literal["support", "contradiction", "other"]

_MEANINGS: Mapping[Meaning, str] = {
    "support": "entailment entails entailed support supports supported consistent grounded faithful factual true yes",
    "contradiction": "contradiction contradicts contradicted contradictory refutes refuted",
    "other": "neutral not_entailment non_entailment not_supported unsupported nei not_enough_info inconsistent "
    "ungrounded unfaithful hallucination hallucinated unverifiable no_evidence false no",
}
_MEANING_OF: Mapping[str, Meaning] = {
    label: meaning for meaning, labels in _MEANINGS.items() for label in labels.split()
}

_RAGTRUTH_PROMPT = (
    "Briefly answer the following question:\n{question}\nBear in mind that your response should be strictly based on "
    "the following 1 passages:\npassage 1: {premise}\nIn case the passages do not contain the necessary information to "
    'answer the question, please reply with: "Unable to answer based on given passages."\noutput:'
)
"""Prompt of the data set RAGTruth, on which LettuceDetect was trained."""

_DEFAULT_LENGTH = 512
"""Tokens of an input. Verifiers are trained on chunks of this size; a longer document is read in parts."""
_MIN_PREMISE_TOKENS = 16
_T5_ANSWERS = ("0", "1")


@dataclass(frozen=True, slots=True)
class _Preset:
    """Labels and input of models whose configuration does not name them. name: part of the model's name."""

    name: str
    labels: tuple[str, str]
    template: str | None


_PRESETS = (
    _Preset("minicheck", ("unsupported", "supported"), "{premise}{eos}{claim}"),
    _Preset("lettucedetect", ("supported", "hallucinated"), _RAGTRUTH_PROMPT),
    _Preset("lettucedect", ("supported", "hallucinated"), _RAGTRUTH_PROMPT),  # as the published models spell it
)


class NliSettings(Settings):
    """How the model is loaded, what it reads, and when a verdict counts.

    revision: branch, tag or commit of a hub model. dtype: "auto" is bfloat16 on a CUDA device that has it, otherwise
    float32. device: such as "cuda:1"; None takes CUDA, then MPS, then the CPU. batch_size: pairs of a batch.
    context_length: tokens of an input; None is 512, or the model's own limit where that is lower. labels: meanings of the
    outputs in order, such as "unsupported,supported", where the model's configuration does not name them. template: the
    input of a model that reads a single text, with {premise}, {claim}, {question} and {eos}; of a token classifier the
    text before the claim. threshold: probability from which a claim is supported, or contradicted. max_turns: of the
    environment, of which the search for evidence takes at most four. trust_remote_code: run
    code that the model's repository brings; off unless asked for.
    """

    revision: str | None = None
    dtype: DType = "auto"
    device: str | None = None
    batch_size: AtLeastOne = 32
    context_length: int | None = Field(default=None, ge=2 * _MIN_PREMISE_TOKENS)
    labels: str | list[str] | None = None
    template: str | None = None
    threshold: UnitFloat = 0.5
    max_turns: AtLeastOne = 12
    trust_remote_code: bool = False


class Pair(NamedTuple):
    """Input of a model. question: to which the claim's text answers."""

    premise: str
    claim: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class PairScore:
    """Probabilities that a premise supports and contradicts a claim, and the ranges of the claim that it does not carry.

    contradiction: 0 for models that do not tell it from a lack of support. spans: of token classifiers only.
    """

    support: float
    contradiction: float = 0.0
    spans: tuple[tuple[int, int], ...] = ()


def label_meanings(name: str, id2label: Mapping[int, str], chosen: str | Sequence[str] | None) -> tuple[Meaning, ...]:
    """Return the meaning of each output of a model.

    chosen: labels that take the place of the model's own. Raises ConfigError for labels without a meaning here, and for
    a model none of whose outputs, or all of them, mean support.
    """
    own = [str(id2label[index]) for index in sorted(id2label)]
    preset = next((preset for preset in _PRESETS if preset.name in _base_name(name)), None)
    if isinstance(chosen, str):
        chosen = chosen.split(",")
    if chosen is None and preset is not None and all(re.fullmatch(r"(?i)label_\d+", label) for label in own):
        chosen = preset.labels
    labels = list(own if chosen is None else chosen)
    if len(labels) != len(own):
        raise ConfigError(f"{name!r} has {len(own)} outputs ({', '.join(own)[:200]}), and labels names {len(labels)}")
    keys = [re.sub(r"[\s-]+", "_", label.strip().lower()) for label in labels]
    unknown = [label for label, key in zip(labels, keys, strict=True) if key not in _MEANING_OF]
    if unknown:
        example = ",".join(["supported", "unsupported", *["contradicted"] * (len(own) - 2)][: len(own)])
        raise ConfigError(
            f"{name!r} labels its outputs {', '.join(own)[:200]}: {unknown[0]!r:.80} says nothing about support."
            f"{did_you_mean(unknown[0].lower(), _MEANING_OF)} If the model judges whether a premise supports a claim, name "
            f"its outputs in their order, such as --agent-set labels={example}"
        )
    meanings = tuple(_MEANING_OF[key] for key in keys)
    if "support" not in meanings or (len(meanings) > 1 and set(meanings) == {"support"}):
        raise ConfigError(
            f"{name!r}: of its outputs ({', '.join(labels)[:200]}) some, and not all, have to mean support"
        )
    return meanings


def _base_name(name: str) -> str:
    return Path(name).name.lower()


class PairScorer:
    """A model and its tokenizer. Used from one thread.

    Raises ConfigError for a model that cannot be loaded or judges no pairs, MissingExtraError without the extra "local".
    """

    def __init__(self, name: str, settings: NliSettings) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("an NLI model", "local") from error
        name = check_folder(name)
        self.name, self._settings, self._torch = name, settings, torch
        self.device = pick_device(settings.device)
        self.dtype = pick_dtype(self.device) if settings.dtype == "auto" else settings.dtype
        common = {"revision": settings.revision or "main", "trust_remote_code": settings.trust_remote_code}
        try:
            with quiet_library():
                config = transformers.AutoConfig.from_pretrained(name, **common)
                self.kind, auto = _kind(name, config, transformers)
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(name, **common)
                model, report = auto.from_pretrained(
                    name, config=config, dtype=self.dtype, use_safetensors=True, output_loading_info=True, **common
                )
        except ConfigError:
            raise
        except Exception as error:
            raise loading_error(name, error) from error
        if missing := sorted(report["missing_keys"]):  # the library has filled them with random numbers
            raise ConfigError(f"{name!r} lacks {len(missing)} weights of a verifier, such as {', '.join(missing[:3])}")
        self._model = model.to(self.device).eval()
        self.meanings: tuple[Meaning, ...] = (
            ("other", "support") if self.kind == "seq2seq" else label_meanings(name, config.id2label, settings.labels)
        )
        self._template = settings.template or self._default_template()
        self._limit = self._context_length(config)
        self._answers = self._answer_ids() if self.kind == "seq2seq" else ()

    def _default_template(self) -> str | None:
        preset = next((preset for preset in _PRESETS if preset.name in _base_name(self.name)), None)
        if self.kind == "seq2seq":
            return "predict: {premise}{eos}{claim}"
        return preset.template if preset else None

    def _context_length(self, config: Any) -> int:
        positions = getattr(config, "max_position_embeddings", None)
        if positions and getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert"):
            positions -= 2  # their first positions belong to padding
        limits = [limit for limit in (positions, self._tokenizer.model_max_length) if limit]
        return int(min(self._settings.context_length or _DEFAULT_LENGTH, *limits))

    def _answer_ids(self) -> tuple[int, ...]:
        ids = tuple(self._tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in _T5_ANSWERS)
        if len(set(ids)) < len(ids):
            raise ConfigError(f"{self.name!r}: its tokenizer has the same token for 0 and 1, so it is no MiniCheck")
        return ids

    def describe(self) -> dict[str, Any]:
        """Return what was resolved on loading, as JSON data."""
        return {
            "architecture": type(self._model).__name__,
            "meanings": list(self.meanings),
            "template": self._template,
            "context_length": self._limit,
            "device": self.device,
            "dtype": self.dtype,
        }

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, without special tokens."""
        if not texts:
            return []
        encoded = self._tokenizer(list(map(clean_text, texts)), add_special_tokens=False, verbose=False)
        return [len(ids) for ids in encoded["input_ids"]]

    def premise_tokens(self, claim: str, question: str = "") -> int:
        """Return how many tokens a premise may have beside a claim; never fewer than a few."""
        (used,) = self.lengths([self._single_text(Pair("", claim, question)) or claim])
        claims = used if self.kind != "tokens" else used + self.lengths([claim])[0]
        return max(_MIN_PREMISE_TOKENS, self._limit - claims - 4)

    def _single_text(self, pair: Pair) -> str:
        """Return the first text of an input: by the template, which is empty for models that read pairs."""
        if self._template is None:
            return ""
        values = {"{premise}": pair.premise, "{claim}": pair.claim, "{question}": pair.question}
        values["{eos}"] = self._tokenizer.eos_token or self._tokenizer.sep_token or "\n"
        return re.sub(r"\{(?:premise|claim|question|eos)\}", lambda match: values[match[0]], self._template)

    def score(self, pairs: Sequence[Pair]) -> list[PairScore]:
        """Return the score of each pair, in batches of similar length. An input that is too long is cut in its premise."""
        cleaned = self._cut([Pair(*map(clean_text, pair)) for pair in pairs])
        order = sorted(range(len(cleaned)), key=lambda index: len(cleaned[index].premise))
        scores: dict[int, PairScore] = {}
        with self._torch.inference_mode():
            for start in range(0, len(order), self._settings.batch_size):
                chosen = order[start : start + self._settings.batch_size]
                scores.update(zip(chosen, self._score_batch([cleaned[index] for index in chosen]), strict=True))
        return [scores[index] for index in range(len(pairs))]

    def _cut(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Shorten premises to what fits, by their share of the tokens."""
        claims = {pair[1:]: self.premise_tokens(*pair[1:]) for pair in pairs}
        return [
            pair
            if length <= claims[pair[1:]]
            else pair._replace(premise=pair.premise[: len(pair.premise) * claims[pair[1:]] // length])
            for pair, length in zip(pairs, self.lengths([pair.premise for pair in pairs]), strict=True)
        ]

    def _score_batch(self, pairs: Sequence[Pair]) -> list[PairScore]:
        """Return the probabilities of support and contradiction. Where a pair is too long its premise is cut, never its claim."""
        options = {"padding": True, "max_length": self._limit, "return_tensors": "pt"}
        claims = [pair.claim for pair in pairs]
        first = [self._single_text(pair) or pair.premise for pair in pairs]
        if self.kind == "tokens":
            return self._score_tokens(first, claims, options)
        if self._template is None:
            encoded = self._tokenizer(first, claims, truncation="only_first", **options)
        else:
            encoded = self._tokenizer(first, truncation=True, **options)
        encoded = encoded.to(self.device)
        if self.kind == "seq2seq":
            start = self._model.config.decoder_start_token_id
            decoder = self._torch.full((len(pairs), 1), start, dtype=self._torch.long, device=self.device)
            output = self._model(**encoded, decoder_input_ids=decoder).logits[:, 0, list(self._answers)]
        else:
            output = self._model(**encoded).logits
        return [
            PairScore(self._sum(row, "support"), self._sum(row, "contradiction")) for row in self._probabilities(output)
        ]

    def _probabilities(self, logits: torch.Tensor) -> list[Any]:
        logits = logits.float()
        values: list[Any] = (logits.sigmoid() if logits.shape[-1] == 1 else logits.softmax(-1)).cpu().tolist()
        return values

    def _sum(self, probabilities: Sequence[float], meaning: Meaning) -> float:
        return sum(value for value, other in zip(probabilities, self.meanings, strict=True) if other == meaning)

    def _score_tokens(self, first: list[str], claims: list[str], options: dict[str, Any]) -> list[PairScore]:
        encoded = self._tokenizer(first, claims, truncation="only_first", return_offsets_mapping=True, **options)
        offsets = encoded.pop("offset_mapping").tolist()
        rows = self._probabilities(self._model(**encoded.to(self.device)).logits)
        scores = []
        for number, row in enumerate(rows):
            tokens = [
                (start, end, 1.0 - self._sum(probabilities, "support"))
                for (start, end), owner, probabilities in zip(
                    offsets[number], encoded.sequence_ids(number), row, strict=True
                )
                if owner == 1 and start < end
            ]
            doubt = max((value for _, _, value in tokens), default=1.0)
            marked = [(start, end) for start, end, value in tokens if value > 0.5]
            scores.append(PairScore(1.0 - doubt, 0.0, tuple(_merged(marked, claims[number]))))
        return scores


def _merged(spans: Sequence[tuple[int, int]], text: str) -> Iterator[tuple[int, int]]:
    """Yield ranges in order, those with white space between them as one."""
    current: tuple[int, int] | None = None
    for start, end in spans:
        if current is not None and not text[current[1] : start].strip():
            current = current[0], end
            continue
        if current is not None:
            yield current
        current = start, end
    if current is not None:
        yield current


def _kind(name: str, config: Any, library: Any) -> tuple[Literal["pairs", "tokens", "seq2seq"], Any]:
    """Return how a model judges, and the class that loads it. Raises ConfigError for other architectures."""
    architectures = [str(item) for item in config.architectures or ()]
    for end, kind, auto in (
        ("ForSequenceClassification", "pairs", "AutoModelForSequenceClassification"),
        ("ForTokenClassification", "tokens", "AutoModelForTokenClassification"),
    ):
        if any(item.endswith(end) for item in architectures):
            return kind, getattr(library, auto)  # type: ignore[return-value]
    if config.is_encoder_decoder and any(item.endswith("ForConditionalGeneration") for item in architectures):
        return "seq2seq", library.AutoModelForSeq2SeqLM
    raise ConfigError(
        f"{name!r} is a {', '.join(architectures) or 'model without a named architecture'}, and no sequence classifier, "
        "token classifier or encoder-decoder: a causal language model plays as hf:FOLDER"
    )
