"""Lines of the guides that need a model, vectors, a database or a cluster run with those made on the spot, in small."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path

import pytest
from retrieval_served import start, stop, write_passages
from served import served
from test_guides import ROOT, SHOWN
from test_readme import SMALL, factgym, run_module

sys.path += [str(ROOT / "tests" / folder) for folder in ("agents", "corpora")]

NOT_HERE = {"--engine verl": "another engine runs the files that the last test here writes"}
"""Lines that the test of lines leaves out -> why."""
LINES = [
    line
    for page, block in SHOWN
    if page.parent.name == "guides"
    for line in block.strip().splitlines()
    if line.startswith(("factgym ", "python -m perf ", "python -m factgym.cli.docs "))
    and not any(words in line for words in NOT_HERE)
]
SEED = "hf:runs/eve_{}/stages/0-sft/model"
"""A policy that a line before leaves."""
MODEL, VECTORS, LATE, NLI = "hf:{}/model", "{}/encoder", "{}/colbert", "nli:{}/nli"
STAND_INS = {
    "--proposer hf:path/to/model --solver hf:path/to/model": f"--proposer {SEED.format('proposer')} --solver {SEED.format('solver')}",
    "hf:path/to/model": MODEL,
    "hf:Qwen/Qwen3-0.6B": "scratch:10k",
    "openai:MODEL --base-url http://HOST:8000/v1 -n 5000 -k 8": "openai:claimcheck-script --base-url {url} -n 4 -k 2",
    "intfloat/e5-base-v2": VECTORS,
    "./my-e5": VECTORS,
    "lightonai/GTE-ModernColBERT-v1": LATE,
    "./my-colbert": LATE,
    "cross-encoder/ms-marco-MiniLM-L6-v2": "{}/reranker",
    "nli:cross-encoder/nli-deberta-v3-base": NLI,
    "nli:path/to/MiniCheck-Flan-T5-Large": "nli:{}/MiniCheck-tiny",
    "openai:gpt-5-mini": "openai:claimcheck-script --agent-set base_url={url}",
    "path/to/questions": "{data}/nq_open",
    "path/to/folder": "{data}/policies_basecamp",
    "--max-tokens 512": "--max-tokens 8",
    '"depth": 100}': '"depth": 100, "reranker": "{}/reranker"}',
    "recipes/": f"{ROOT}/recipes/",
    ". --certify seva profact": "{}/checkout --certify toy",
    '"python", "sft.py"': f'"{sys.executable}", "{{}}/sft.py"',
    "postgresql://me@db.example:5432/search?table=policies": "{database}&table=policies",
    "--ray auto --shards 4 --replicas 2 --port 8000": "--ray local --shards 2 --port 0",
    "--index late -k 3": "--index late -k 3 --set model={}/colbert",
}
"""Name in the guides -> what is made here; `{}` is its folder."""
TUNING = (
    "--set evaluation.test_tasks=2 --set evaluation.samples=1 --set evaluation.max_tokens=4"
    " --set stages.0.steps=1 --set stages.0.tasks=4 --set stages.0.batch=2 --set stages.0.warmup_steps=0"
)
QUICK = {
    "factgym audit": "-n 20 --budget 40",
    "factgym filter": "-n 2 -G 2 --max-tokens 4",
    "factgym eval": "-n 2",
    "factgym evolve seva": "--rounds 1 --budget 4 --size 8 --material 8 --warm-up 0 --agent-set max_tokens=4",
    "factgym evolve eve": "--rounds 1 --iterations 1 --solver-iterations 1 --test 2 --size 60 --batch 6 --prompts 6"
    " --rows 2 --samples 32 --group 2 -n 2 -m 1 --world miniature --hops 1 --env-set prompt=brief --env-set top_k=1"
    " --env-set max_turns=2 --proposer-set max_tokens=160 --solver-set max_tokens=16 --select all",
    f"factgym train {ROOT}/recipes/eve_proposer": f"{TUNING} --set model=scratch:30k --set stages.0.steps=400"
    " --set stages.0.batch=4",  # it learns to write questions: of 32 a passage some are valid on any processor
    **{f"factgym train {ROOT}/recipes/{name}": TUNING for name in ("seva_evolve_mini", "eve_solver")},
    **{f"python -m perf {name}": options for name, options in SMALL.items()},
    "factgym train verifier": "--set pairs=40 --set epochs=1",
    "factgym train": f"{TUNING} --set stages.1.steps=1 --set stages.1.tasks=2 --set stages.1.warmup_steps=0"
    " --set stages.1.groups=2 --set stages.1.samples=2 --set stages.1.max_completion=8",
}
"""Options that make a command short."""
SFT = "import shutil, sys\nshutil.copytree(sys.argv[1], sys.argv[3], dirs_exist_ok=True)\n"
HANDBOOK = "# Refund policy\n\nRefunds are paid within 14 days of the request.\n"
ANSWER = "Refunds are paid within 30 days of the request. Customers get a free mug.\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder with the tiny models, documents and passages that the lines name, and the address of a chat server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("torch", "transformers", "faiss", "sklearn", "tensorboard", "trl", "peft"):
            if find_spec(name) is None:
                pytest.skip(f"needs every extra: no {name}")
        sentence_transformers = pytest.importorskip("sentence_transformers", minversion="6", reason="needs every extra")
        import tiny_bert
        import tiny_model
        import tiny_nli

        folder = tmp_path_factory.mktemp("guides")
        tiny_model.build_random(folder / "model", context=32768)
        encoder = tiny_bert.save_bert(folder / "encoder", "BertModel")
        tiny_bert.save_bert(folder / "reranker", num_labels=1)
        sentence_transformers.MultiVectorEncoder(encoder, device="cpu").save_pretrained(str(folder / "colbert"))
        labels = {"id2label": {0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"}}
        tiny_nli.save_model(folder / "nli", [HANDBOOK, ANSWER], **labels)
        tiny_nli.save_model(folder / "MiniCheck-tiny", [HANDBOOK, ANSWER, "predict:"], "T5ForConditionalGeneration")
    shutil.copytree(ROOT / "docs", folder / "checkout" / "docs")
    shutil.copytree(ROOT / "recipes", folder / "checkout" / "recipes")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder / "checkout")
    (folder / "sft.py").write_text(SFT, "utf-8")
    (folder / "answer.md").write_text(ANSWER, "utf-8")
    (folder / "handbook").mkdir()
    (folder / "handbook" / "refunds.md").write_text(HANDBOOK, "utf-8")
    write_passages(folder / "passages.jsonl")
    done = factgym("factgym corpus build passages.jsonl passages", folder)
    assert done.returncode == 0, done.stderr
    recipe = [sys.executable, str(ROOT / "recipes" / "eve_mini.py"), "runs/eve_mini", "10"]
    subprocess.run(recipe, cwd=folder, check=True, capture_output=True)
    with served() as url:
        yield folder, url


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    pytest.importorskip("pg8000", reason="needs the extra 'postgres'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver", reason="needs pgserver")
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        yield f"postgresql://postgres@/postgres?host={folder}"
        server.cleanup()


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray cluster of two nodes on this machine, started by the lines of the guide to verl; `--ray auto` joins it."""
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    from test_cluster import free_port, nodes, reachable, start_node, stop_node
    from worker_runs import wait_for

    (block,) = [block for page, block in SHOWN if page.stem == "verl" and block.startswith("ray start")]
    head, others = [shlex.split(line, comments=True)[2:] for line in block.splitlines()[:2]]
    port, folder = free_port(), tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    started = [start_node(folder, *head, f"--port={port}")]
    try:
        wait_for(lambda: reachable(port), started[0])
        address = [word.replace("HEAD:6379", f"127.0.0.1:{port}") for word in others]
        started.append(start_node(folder, *address, head=False))
        wait_for(lambda: nodes(f"127.0.0.1:{port}") == 2, started[1])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
            yield
    finally:
        for node in reversed(started):
            stop_node(node)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_needs_more_than_the_base_runs(
    line: str, made: tuple[Path, str], data_dir: Path, request: pytest.FixtureRequest
) -> None:
    folder, url = made
    values = {"{}": str(folder), "{url}": url, "{data}": str(data_dir)}
    if "postgresql:" in line:
        values["{database}"] = request.getfixturevalue("database")
    if "serve" in line and "--ray" in line:
        pytest.importorskip("ray.serve", reason="needs the extra 'ray-serve'")
    elif "--ray" in line:
        request.getfixturevalue("cluster")
    for name, stand_in in STAND_INS.items():
        if name in line:
            for mark, value in values.items():
                stand_in = stand_in.replace(mark, value)
            line = line.replace(name, stand_in)
    line = line.partition(" # ")[0]
    if line.startswith("factgym serve"):
        with chdir(folder):
            process, _ = start(*line.split()[2:])
        stop(process)
        return
    more = next((options for command, options in QUICK.items() if line.startswith(command)), "")
    command = run_module if line.startswith("python -m ") else factgym
    done = command(f"{line} {more}", folder)
    assert done.returncode == 0, f"{line} {more}\n{done.stdout}\n{done.stderr}"


def test_the_line_for_a_cluster_writes_the_files_of_a_run(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra 'export'")
    lines = [line for page, block in SHOWN if page.stem == "training" for line in block.splitlines()]
    (line,) = [line for line in lines if "--engine verl" in line]
    done = factgym(line, tmp_path)
    assert done.returncode == 0 and "bash runs/verl/run.sh" in done.stdout + done.stderr, done.stderr
    assert (tmp_path / "runs/verl/claimcheck-multihop-train.parquet").is_file()
