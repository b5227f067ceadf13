"""The verifier over ONNX: trained for a few steps on the spot from a tiny encoder, its verdicts, and its errors."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from commands import run_factgym, run_python

sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))

from tiny_nli import libraries, save_model

from factgym.datasets.grounding import read_claims

CLAIM = "Refunds are paid within 14 days."
TEXTS = (
    CLAIM,
    "The mill in Leeds was opened in 1901 by the city council.",
    "Members of the library may borrow three books for two weeks.",
    "Visitors must leave the museum before the gates are closed.",
    "The old bridge near York carries about 300 cars every hour.",
)
EXTRA = r"pip install -e '.\[verifier\]'"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnxruntime", reason=f"needs the extra 'verifier': {EXTRA}")
    pytest.importorskip("onnx", reason="needs the extra 'train': pip install -e '.[train]'")
    libraries()
    root = tmp_path_factory.mktemp("verifier")
    (root / "docs").mkdir()
    for number, text in enumerate(TEXTS):
        (root / "docs" / f"{number}.md").write_text(f"# Page {number}\n\n{text} {TEXTS[number - 1]}\n", "utf-8")
    model = save_model(root / "encoder", [*TEXTS, "Page"])
    words = ("train", "verifier", "--model", model, "--set", "docs=docs", "--set", "pairs=80", "--out", "out")
    done = run_factgym(words, root)
    assert done.returncode == 0, done.stderr
    assert "reworded" in done.stdout and "veto" in done.stdout and "loss" in done.stdout
    return root


def check(root: Path, agent: str, *options: str) -> tuple[int, str]:
    done = run_factgym(("check", "--claim", CLAIM, "--docs", "docs", "--agent", agent, *options), root)
    return done.returncode, done.stdout + done.stderr


def set_veto(folder: Path, veto: float) -> None:
    config = json.loads((folder / "verifier.json").read_text("utf-8"))
    (folder / "verifier.json").write_text(json.dumps(config | {"veto": veto, "raise": 1.1}), "utf-8")


def test_the_report_names_the_weights_and_the_veto_ends_in_cannot_judge(trained: Path) -> None:
    set_veto(trained / "out", 0.0)
    code, text = check(trained, "verifier:out", "--agent-set", "mode=balanced")
    assert code == 0 and "1. supported" in text and "mode balanced" in text and "SHA-256" in text
    set_veto(trained / "out", 1.1)
    assert "1. cannot judge" in check(trained, "verifier:out")[1]
    report = json.loads(check(trained, "verifier:out", "--json")[1])
    assert report["verifier"]["mode"] == "precise" and len(report["verifier"]["sha256"]) == 64


def test_the_export_agrees_with_the_weights_in_torch(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 8 bits roughly; before they are rounded to the last digits, which an input in another's place would change."""
    torch, transformers = libraries()
    from factgym.check.verifier import Verifier
    from factgym.training import verifier as training

    pairs = [(premise, claim) for premise in TEXTS for claim in TEXTS]
    scores = Verifier.load(trained / "out").score(pairs)
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained / "out")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        trained / "out", attn_implementation="eager"
    )

    def probabilities() -> list[float]:
        inputs = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt")
        with torch.no_grad():
            return model.eval()(**inputs).logits.softmax(-1)[:, 1].tolist()

    assert scores == pytest.approx(probabilities(), abs=0.1)

    shutil.copytree(trained / "out", tmp_path / "whole")
    monkeypatch.setattr(
        "onnxruntime.quantization.quantize_dynamic", lambda whole, out, **options: shutil.copy(whole, out)
    )
    tokenizer.model_input_names = [
        "input_ids",
        "token_type_ids",
        "attention_mask",
    ]  # BERT's order, not that of the model
    tokenizer.model_max_length = training._export(model, tokenizer, tmp_path / "whole")
    digest = hashlib.sha256((tmp_path / "whole" / "verifier.onnx").read_bytes()).hexdigest()
    config = json.loads((tmp_path / "whole" / "verifier.json").read_text("utf-8"))
    (tmp_path / "whole" / "verifier.json").write_text(json.dumps(config | {"sha256": digest}), "utf-8")
    assert Verifier.load(tmp_path / "whole").score(pairs) == pytest.approx(probabilities(), abs=1e-5)


def test_errors_name_the_fix(trained: Path, tmp_path: Path) -> None:
    code, text = check(trained, f"verifier:{tmp_path / 'none'}")
    assert code == 2 and "factgym train verifier" in text and text.count("\n") == 1
    code, text = check(trained, "verifier:docs")
    assert code == 2 and "no verifier.json" in text and text.count("\n") == 1
    copy = tmp_path / "damaged"
    shutil.copytree(trained / "out", copy)
    (copy / "verifier.onnx").write_bytes(b"none")
    code, text = check(trained, f"verifier:{copy}")
    assert code == 2 and "damaged" in text
    code, text = check(trained, "verifier:out", "--agent-set", "mode=fast")
    assert code == 2 and "mode" in text


@pytest.mark.parametrize(
    "words", [("check", "--claim", CLAIM, "--docs", ".", "--agent", "verifier"), ("train", "verifier")]
)
def test_without_the_extra_a_line_names_it(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(CLAIM, "utf-8")
    code = (
        "import importlib.util, sys\n"
        "sys.modules['onnxruntime'] = None\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'onnx' else find(name, *rest)\n"
        f"sys.argv = {['factgym', *words]!r}\n"
        "from factgym.cli.main import main\n"
        "main()\n"
    )
    done = run_python(code, tmp_path)
    extra = "verifier" if words[0] == "check" else "train"
    assert done.returncode == 2 and f"pip install -e '.[{extra}]'" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.data
def test_every_kind_of_edit_makes_claims_of_documents_alone(data_dir: Path) -> None:
    from factgym.training.verifier_pairs import KINDS, make_pairs, natural_pairs, read_sources

    documents = [
        document for name in ("policies_18f", "policies_basecamp") for document in read_sources(data_dir / name)
    ]
    pairs = make_pairs(documents, 1500)
    assert {pair.kind for pair in pairs} == {*KINDS, "quote", "other"}
    assert pairs == make_pairs(documents, 1500) and 0.4 < sum(pair.is_true for pair in pairs) / len(pairs) < 0.5
    for pair in pairs:
        assert pair.is_true is (pair.kind in ("quote", "reworded"))
        assert (pair.claim in pair.premise) is (pair.kind == "quote") or pair.is_true, pair
    # SciFact's validation claims and the abstracts that they cite train nothing.
    held_out = {claim.answer for claim in read_claims("scifact", data_dir, "validation")}
    natural = list(natural_pairs(data_dir))
    assert len(natural) > 400 and held_out.isdisjoint(pair.claim for pair in natural)


def test_questions_become_statements_with_their_answer_and_with_others(tmp_path: Path) -> None:
    from factgym.core.errors import DataError
    from factgym.training.verifier_pairs import question_pairs

    text = "The mill was built by Ann Lee in 1901. Tom Roe bought it in 1950."
    answers = {
        "Who built the mill?": "Ann Lee",
        "When did Tom Roe buy the mill?": "1950",
        "When was the mill built?": "1901",
    }
    answers |= {"Who bought the mill?": "Tom Roe"}
    rows = [
        {"question": question, "answers": [{"text": answer, "answer_start": text.index(answer)}]}
        for question, answer in answers.items()
    ]
    plausible = [{"text": "1950", "answer_start": text.index("1950")}]
    rows.append({"question": "When did Ann Lee sell the mill?", "answers": [], "plausible_answers": plausible})
    path = tmp_path / "questions.json"
    data = [{"title": "Mill", "paragraphs": [{"context": text, "qas": rows}]}]
    path.write_text(json.dumps({"data": data}), "utf-8")
    pairs = {(pair.claim, pair.is_true) for pair in question_pairs(path)}
    true = {
        "Ann Lee built the mill.",
        "Tom Roe buy the mill in 1950.",
        "The mill was built in 1901.",
        "Tom Roe bought the mill.",
    }
    assert {claim for claim, is_true in pairs if is_true} == true
    assert ("Ann Lee sell the mill in 1950.", False) in pairs
    path.write_text("[]", "utf-8")
    with pytest.raises(DataError, match="SQuAD"):
        list(question_pairs(path))
