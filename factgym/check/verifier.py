"""A verifier that reads: a small cross-encoder over ONNX, in 8 bits, that vetoes and scores the verdicts of the rules.

`factgym train verifier` writes its folder. In the mode `precise` a claim is supported if the rules prove it and the model
does not object; in `balanced` also where they only lack proof, the model is sure enough, and the claim's numbers and names
are in the passage. The thresholds were chosen on documents that did not train it. Contracts are left to the rules.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from factgym.agents.agent import Agent, agent_from_script
from factgym.baselines.evidence import Evidence, Statement, content_keys, parse_statement
from factgym.baselines.nli import Prediction
from factgym.check.agents import CANNOT_JUDGE, is_contract, judge_statement, play
from factgym.core.config import Settings
from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.paths import is_file, read_text, user_path
from factgym.core.policy import ScriptedAgent
from factgym.corpora.corpus import Passage
from factgym.envs.claimcheck.scripted import ScriptedPolicy
from factgym.text.languages import language_of

NAME, FORMAT = "verifier", "factgym-verifier-2"
CONFIG, MODEL, TOKENIZER = "verifier.json", "verifier.onnx", "tokenizer.json"
_NEAREST, _BATCH = 3, 32


class VerifierSettings(Settings):
    """mode: "precise" vetoes green verdicts; "balanced" also raises claims that lack proof."""

    mode: Literal["precise", "balanced"] = "precise"


def is_verifier(text: str) -> bool:
    """Whether the text of `--agent` names a verifier."""
    return text.partition(":")[0] == NAME


def default_folder() -> Path:
    """Return the folder in the user's cache where a verifier is looked for."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "factgym" / NAME


@dataclass(frozen=True)
class Verifier:
    """A loaded model. veto, raised: probabilities below which and from which it speaks. session, tokenizer: of the libraries."""

    folder: Path
    sha256: str
    veto: float
    raised: float
    session: Any
    tokenizer: Any

    @classmethod
    def load(cls, folder: Path) -> Verifier:
        """Load a folder. Raises MissingExtraError, ConfigError for no verifier there, DataError for a damaged one."""
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtraError("a verifier", "verifier") from error
        train = f"factgym train verifier --out {folder}"
        if missing := [name for name in (CONFIG, MODEL, TOKENIZER) if not is_file(folder / name)]:
            raise ConfigError(f"no verifier in {folder} (no {', '.join(missing)}). Train one: {train}")
        digest = hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()
        try:
            config = json.loads(read_text(folder / CONFIG))
            if (config["format"], config["sha256"]) != (FORMAT, digest):
                raise ValueError(f"{CONFIG} is of another version or of other weights")
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
            session = onnxruntime.InferenceSession(str(folder / MODEL), options, providers=["CPUExecutionProvider"])
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
            tokenizer.enable_truncation(int(config["max_length"]), strategy="only_first")
            tokenizer.enable_padding()
            return cls(folder, digest, float(config["veto"]), float(config["raise"]), session, tokenizer)
        except Exception as error:  # the libraries raise their own
            reason = " ".join(f"{error!r:.200}".split())
            raise DataError(
                f"{folder}: damaged, or no verifier of this version ({reason}). Train it: {train}"
            ) from error

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return for each premise and claim the probability that the premise carries the claim."""
        import numpy as np

        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        names = [given.name for given in self.session.get_inputs()]
        scores: list[float] = []
        for start in range(0, len(pairs), _BATCH):
            encoded = self.tokenizer.encode_batch(list(pairs[start : start + _BATCH]))
            inputs = {n: np.array([getattr(item, columns[n]) for item in encoded], np.int64) for n in names}
            (logits,) = self.session.run(None, inputs)
            scores += (1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))).tolist()
        return scores

    def judge(self, statement: Statement, evidence: Evidence, passages: Sequence[Passage], *, mode: str) -> Prediction:
        """Return the verdict of the rules as far as the model agrees, and in the mode "balanced" its own where they lack proof."""
        ruled = judge_statement(statement, evidence, passages)
        is_read = bool(evidence.sentences) and not is_contract(evidence) and language_of(statement.text) == "en"
        if not is_read or ruled.status not in ("supported", "unsupported"):
            return ruled
        # The sentences of the proof, else those that share most words: each with the ones around it, and together.
        sentences = evidence.sentences
        ranked = sorted(range(len(sentences)), key=lambda n: -evidence.overlap(statement, sentences[n]))[:_NEAREST]
        quoted = [n for n, s in enumerate(sentences) if ruled.status == "supported" and s in ruled.sentences]
        chosen = sorted(quoted or ranked)
        premises = [(" ".join(sentences[n].text for n in chosen), tuple(sentences[n] for n in chosen))]
        for n in chosen:
            around = [s.text for s in sentences[max(0, n - 1) : n + 2] if s.passage == sentences[n].passage]
            premises.append((f"{sentences[n].title}\n{' '.join(around)}", (sentences[n],)))
        scores = self.score([(text, statement.text) for text, _ in premises])
        best, (text, quotes) = max(zip(scores, premises, strict=True), key=lambda scored: scored[0])
        score = f"the verifier's probability that they carry it is {best:.2f}."
        if ruled.status == "supported":
            reason = f"{CANNOT_JUDGE}every word has a match in the quoted text, and {score}"
            return replace(ruled, status="unsupported", reason=reason) if best < self.veto else ruled
        if mode == "balanced" and best >= self.raised and has_facts(statement.text, text):
            return Prediction(statement, "supported", quotes, "", f"The rules do not prove it; {score}")
        is_abstained = ruled.reason.startswith(CANNOT_JUDGE)
        return replace(ruled, reason=f"{ruled.reason.rstrip('.')}; {score}") if is_abstained else ruled


def has_facts(claim: str, premise: str) -> bool:
    """Whether a passage has the numbers and names of a claim, which small models overlook."""
    statement, held = parse_statement(claim), frozenset(content_keys(premise))
    return all(key in held for key in statement.keys if key[0].isdigit()) and statement.names <= held


def verifier_agent(text: str, settings: Mapping[str, Any]) -> Agent:
    """Return the agent that `verifier` or `verifier:FOLDER` names. Errors as of `Verifier.load`, and for other settings."""
    mode = VerifierSettings.build(NAME, dict(settings)).mode
    folder = text.partition(":")[2]
    verifier = Verifier.load(user_path(folder, NAME) if folder else default_folder())
    agent = partial(play, judge=partial(verifier.judge, mode=mode))
    script = ScriptedAgent(text, "baseline", "Rules, model", lambda env, _: ScriptedPolicy(env.config.max_turns, agent))
    details = {"kind": NAME, "folder": str(verifier.folder), "sha256": verifier.sha256, "mode": mode}
    return replace(agent_from_script(script), describe=lambda: details)
