"""Errors of local models that cannot be loaded, and that loading never runs foreign code."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny_model

from factgym.agents.local import LocalModel, model
from factgym.core.errors import ConfigError, MissingExtraError

torch, transformers = tiny_model.torch, tiny_model.transformers


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.build_random(tmp_path_factory.mktemp("models") / "good")


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


def load(path: Path | str, **settings: Any) -> dict[str, Any]:
    """What was settled on loading."""

    async def run() -> dict[str, Any]:
        made = LocalModel(path, **{"device": "cpu", **settings})
        try:
            await made.load()
            assert made.resolved is not None
            return made.resolved
        finally:
            await made.close()

    return asyncio.run(run())


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


class Payload:
    """What a hostile pickle does when it is read: it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_missing_folder() -> None:
    for index in ("/no/such/folder", "./nothing", "a/b/c"):
        with pytest.raises(ConfigError, match=r"model: .* does not exist"):
            load(index)


def test_a_folder_that_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not a model folder: it has no config\.json"):
        load(tmp_path)


def test_pickled_weights_are_refused_and_never_opened(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    with pytest.raises(ConfigError, match=r"no \.safetensors weights \(pytorch_model.bin\).*save_pretrained"):
        load(folder)
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_beside_safetensors_are_not_opened(folder: Path, tmp_path: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    load(folder)
    assert not (tmp_path / "ran").exists()


def test_a_model_with_code_of_its_own_needs_to_be_trusted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(
        f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
        "from transformers import Qwen3Config, Qwen3ForCausalLM\n"
        "class OwnConfig(Qwen3Config):\n    model_type = 'own-kind'\n"
        "class OwnModel(Qwen3ForCausalLM):\n    config_class = OwnConfig\n",
        "utf-8",
    )
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    edit(folder / "config.json", model_type="own-kind", auto_map=auto)
    with pytest.raises(ConfigError, match="if you trust it set trust_remote_code=True"):
        load(folder)
    assert not ran.exists()
    load(folder, trust_remote_code=True)
    assert ran.exists()


def test_a_hub_model_that_is_not_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match="cannot load the model 'factgym/no-such-model': give a folder, or the name"):
        load("factgym/no-such-model")


def test_weights_that_cannot_be_read(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(ConfigError, match="cannot load the model"):
        load(folder)


def test_weights_that_are_missing_are_not_made_up(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks 1 weights .* model.layers.1.mlp.up_proj.weight"):
        load(folder)


def test_another_kind_of_model(folder: Path) -> None:
    edit(folder / "config.json", model_type="t5")
    with pytest.raises(ConfigError, match="cannot load the model"):
        load(folder)


def test_a_model_without_a_chat_template_takes_one_from_a_file(folder: Path, tmp_path: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        load(folder)
    file = tmp_path / "own.jinja"
    with pytest.raises(ConfigError, match=r"chat_template: .*own.jinja cannot be read"):
        load(folder, chat_template=file)
    file.write_text(tiny_model.ALTERNATING, "utf-8")
    assert load(folder, chat_template=str(file))["system_message"] is False


def test_devices_and_types(good: Path) -> None:
    assert load(good)["dtype"] == "float32"
    assert load(good, dtype="bfloat16")["dtype"] == "bfloat16"
    with pytest.raises(ConfigError, match="device 'gpu' cannot be used here"):
        load(good, device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="device 'cuda:7' cannot be used here"):
            load(good, device="cuda:7")


def test_without_the_libraries_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="needs the extra 'local'"):
        LocalModel("x")


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'batch_size'"):
        LocalModel("x", batchsize=3)
    with pytest.raises(ConfigError, match="batch_size should be at least 1"):
        LocalModel("x", batch_size=0)
    with pytest.raises(ConfigError, match="dtype should be 'auto',"):
        LocalModel("x", dtype="int8")
    with pytest.raises(ConfigError, match="temperature should be at least 0"):
        LocalModel("x", temperature=-1)
