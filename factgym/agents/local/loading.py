"""Settings of a local model, and loading it and its tokenizer from a folder or the hub.

Weights are read from safetensors only: other formats are pickles, which can run code when they are read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.agents.sampling import NonNegative, Sampling
from factgym.core.config import AtLeastOne
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.paths import exists, model_name, read_text, user_path
from factgym.core.policy import PolicyError

_log = logging.getLogger(__name__)
_quiet_lock = threading.Lock()
_WITHOUT_CONTEXT_LIMIT = 1 << 30

DType = Literal["auto", "float32", "bfloat16", "float16"]

DEFAULT_MAX_TOKENS = 1024


class LocalSettings(Sampling):
    """Sampling settings, and how the model is loaded and batched.

    A sampling setting that is None follows the model's own generation_config where that samples; otherwise the
    temperature is 1 and nothing is cut off. max_tokens None is 1024. logprobs: natural logs under the model's own
    distribution, before temperature, top_k, top_p and penalties.
    revision: branch, tag or commit of a hub model. dtype: "auto" is bfloat16 on a CUDA device that has it, otherwise
    float32. device: such as "cuda:1", "mps" or "cpu"; None takes CUDA, then MPS, then the CPU. batch_size: rows of a
    batch, at most. batch_wait: seconds that a batch which is not full waits for more rows. max_batch_tokens: tokens of
    a batch, at most, prompts and replies, with padding; a single row may have more. context_length: tokens of prompt
    and reply; None takes the model's. chat_template: a file with a Jinja template that replaces the tokenizer's.
    template_options: further variables of the template, such as `{"enable_thinking": False}`. trust_remote_code: run
    code that the model's repository brings; off unless asked for.
    """

    revision: str | None = None
    dtype: DType = "auto"
    device: str | None = None
    batch_size: AtLeastOne = 16
    batch_wait: NonNegative = 0.05
    max_batch_tokens: AtLeastOne = 65_536
    context_length: Annotated[int, Field(ge=2)] | None = None
    chat_template: str | Path | None = None
    template_options: dict[str, Any] | None = None
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model on its device, and its tokenizer.

    defaults: its generation_config, as far as it differs from the library's. context: tokens of a prompt and
    its reply. eos: ids that end a reply. pad: an id to pad with.
    """

    model: Any
    tokenizer: Any
    defaults: dict[str, Any]
    context: int
    eos: frozenset[int]
    pad: int
    device: str
    dtype: str


def load(name: str, settings: LocalSettings) -> Loaded:
    """Load a model. Raises ConfigError where it cannot be loaded, MissingExtraError without the extra "local"."""
    try:
        import jinja2  # noqa: F401 - chat templates need it
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    except ImportError as error:
        raise MissingExtraError("a local model", "local") from error
    name = check_folder(name)
    device = pick_device(settings.device)
    dtype = pick_dtype(device) if settings.dtype == "auto" else settings.dtype
    common = {"revision": settings.revision or "main", "trust_remote_code": settings.trust_remote_code}
    _log.info("loading %s in %s on %s", name, dtype, device)
    try:
        with quiet_library():
            tokenizer = AutoTokenizer.from_pretrained(name, **common)
            model, report = AutoModelForCausalLM.from_pretrained(
                name, dtype=dtype, use_safetensors=True, output_loading_info=True, **common
            )
    except (SafetensorError, OSError, ValueError, ImportError, KeyError) as error:
        raise loading_error(name, error) from error
    if missing := report["missing_keys"]:  # the library has filled them with random numbers
        examples = ", ".join(sorted(missing)[:3])
        raise ConfigError(f"{name!r} lacks {len(missing)} weights of a causal language model, such as {examples}")
    if settings.chat_template is not None:
        tokenizer.chat_template = read_text(user_path(settings.chat_template, "chat_template"), setting="chat_template")
    generation = model.generation_config
    model_eos = getattr(model.config, "eos_token_id", None)
    ends = {*_ids(generation.eos_token_id), *_ids(tokenizer.eos_token_id), *_ids(model_eos)}
    if not ends:
        _log.warning("%s names no token that ends a reply: replies run to max_tokens or a stop string", name)
    pads = [*_ids(tokenizer.pad_token_id), *sorted(ends)]
    defaults = generation.to_diff_dict()
    model.generation_config = GenerationConfig()  # ours is complete: nothing of the model's may come on top of it
    limits = (getattr(model.config.get_text_config(), "max_position_embeddings", None), tokenizer.model_max_length)
    context = int(min((limit for limit in limits if limit), default=_WITHOUT_CONTEXT_LIMIT))
    try:
        model = model.to(device).eval()
    except torch.OutOfMemoryError as error:
        raise PolicyError("out_of_memory", f"the model does not fit on {device}: {error}", fatal=True) from error
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        defaults=defaults,
        context=settings.context_length or context,
        eos=frozenset(ends),
        pad=pads[0] if pads else 0,
        device=device,
        dtype=dtype,
    )


def _ids(value: int | list[int] | None) -> list[int]:
    return [] if value is None else [value] if isinstance(value, int) else list(value)


def pick_device(requested: str | None) -> str:
    """The device to use. Raises ConfigError for a device that does not exist here."""
    import torch

    if requested is None:
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=requested)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        line = str(error).strip().split("\n")[0]
        raise ConfigError(f"device {requested!r} cannot be used here: {line:.200}") from error
    return requested


def pick_dtype(device: str) -> str:
    """bfloat16 on a CUDA device that computes in it, otherwise float32."""
    import torch

    return "bfloat16" if device.startswith("cuda") and torch.cuda.is_bf16_supported() else "float32"


def check_folder(name: str) -> str:
    """Return a model's name, `~` expanded; refuse an unusable folder, before the hub is searched for its name."""
    name = model_name(name, "model")
    folder = Path(name)
    if not exists(folder):
        return name
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{name!r} is not a model folder: it has no config.json")
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind))
        raise ConfigError(_no_safetensors(name, ", ".join(pickles[:3]) or "no weights"))
    return name


def _no_safetensors(name: str, has: str) -> str:
    return (
        f"{name!r} has no .safetensors weights ({has}). Other weights are pickles, which can run code, and are not "
        "read. Convert them where you trust them: load them with transformers and call "
        "model.save_pretrained(FOLDER), which writes safetensors"
    )


def loading_error(name: str, error: Exception) -> ConfigError:
    """An error of the library while it loads a model, as a line that names the fix."""
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return ConfigError(
            f"{name!r} needs code of its own repository to run. Read that code, and if you trust it set "
            "trust_remote_code=True"
        )
    if "safetensors" in text:
        return ConfigError(_no_safetensors(name, "none found"))
    return ConfigError(
        f"cannot load the model {name!r}: give a folder, or the name of a hub model that is downloaded or can be "
        f"({type(error).__name__}: {text:.400})"
    )


@contextmanager
def quiet_library() -> Iterator[None]:
    """Progress bars and advice of the library off while it loads, and then as they were."""
    from transformers.utils import logging as library

    with _quiet_lock:
        verbosity, bars = library.get_verbosity(), library.is_progress_bar_enabled()
        library.set_verbosity_error()
        library.disable_progress_bar()
        try:
            yield
        finally:
            library.set_verbosity(verbosity)
            if bars:
                library.enable_progress_bar()
