"""Loading a model and its tokenizer from a folder or the hub, with errors that say what to do.

Weights are read from safetensors only: other formats are pickles, which can run code when they are read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.local.settings import LocalSettings
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.policy import PolicyError

_log = logging.getLogger(__name__)
_quiet_lock = threading.Lock()
_WITHOUT_CONTEXT_LIMIT = 1 << 30
_OWN_CODE = "trust_remote_code"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model on its device and what belongs to it.

    defaults: what its generation_config says, where that differs from the library's. context: tokens of a prompt and
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
    """Load a model. Raises ConfigError for what cannot be loaded, MissingExtraError without the extra "local"."""
    try:
        import jinja2  # noqa: F401 - chat templates need it
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("a local model", "local") from error
    name = str(Path(name).expanduser()) if name.startswith("~") else name
    _check_place(name)
    device = pick_device(settings.device)
    dtype = pick_dtype(device) if settings.dtype == "auto" else settings.dtype
    common = {"revision": settings.revision or "main", "trust_remote_code": settings.trust_remote_code}
    _log.info("loading %s in %s on %s", name, dtype, device)
    with _explained(name), _quiet():
        tokenizer = AutoTokenizer.from_pretrained(name, **common)
        model, report = AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype, use_safetensors=True, output_loading_info=True, **common
        )
    _check_complete(name, report["missing_keys"])
    _set_template(tokenizer, settings)
    return _finished(name, model, tokenizer, settings, device, dtype)


def _finished(name: str, model: Any, tokenizer: Any, settings: LocalSettings, device: str, dtype: str) -> Loaded:
    from transformers import GenerationConfig

    own = model.generation_config
    ends = {*_ids(own.eos_token_id), *_ids(tokenizer.eos_token_id), *_ids(getattr(model.config, "eos_token_id", None))}
    if not ends:
        _log.warning("%s names no token that ends a reply: replies run to max_tokens or a stop string", name)
    pads = [*_ids(tokenizer.pad_token_id), *sorted(ends)]
    defaults = own.to_diff_dict()
    model.generation_config = GenerationConfig()  # ours is complete: nothing of the model's may come on top of it
    return Loaded(
        model=_on_device(model, device),
        tokenizer=tokenizer,
        defaults=defaults,
        context=settings.context_length or _context(model, tokenizer),
        eos=frozenset(ends),
        pad=pads[0] if pads else 0,
        device=device,
        dtype=dtype,
    )


def _on_device(model: Any, device: str) -> Any:
    import torch

    try:
        return model.to(device).eval()
    except torch.OutOfMemoryError as error:
        raise PolicyError("out_of_memory", f"the model does not fit on {device}: {error}", fatal=True) from error


def _set_template(tokenizer: Any, settings: LocalSettings) -> None:
    if settings.chat_template is None:
        return
    try:
        tokenizer.chat_template = Path(settings.chat_template).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat_template: {settings.chat_template} cannot be read as UTF-8 text ({error})") from error


def _check_complete(name: str, missing: Collection[str]) -> None:
    """Refuse a model whose missing weights the library has filled with random numbers."""
    if missing:
        some = ", ".join(sorted(missing)[:3])
        raise ConfigError(f"{name!r} lacks {len(missing)} weights of a causal language model, such as {some}")


def _ids(value: int | list[int] | None) -> list[int]:
    return [] if value is None else [value] if isinstance(value, int) else list(value)


def _context(model: Any, tokenizer: Any) -> int:
    config = model.config.get_text_config()
    limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    return int(min((limit for limit in limits if limit), default=_WITHOUT_CONTEXT_LIMIT))


def pick_device(wanted: str | None) -> str:
    """The device to use. Raises ConfigError for one that does not exist here."""
    import torch

    if wanted is None:
        mps = torch.backends.mps.is_available()
        return "cuda" if torch.cuda.is_available() else "mps" if mps else "cpu"
    try:
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        line = str(error).strip().split("\n")[0]
        raise ConfigError(f"device {wanted!r} cannot be used here: {line:.200}") from error
    return wanted


def pick_dtype(device: str) -> str:
    """bfloat16 on a CUDA device that computes in it, otherwise float32."""
    import torch

    return "bfloat16" if device.startswith("cuda") and torch.cuda.is_bf16_supported() else "float32"


def _check_place(name: str) -> None:
    """Refuse a folder that is not one, before the hub is asked for a model of that name."""
    folder = Path(name)
    if not folder.exists():
        if name.startswith(("/", ".")) or name.count("/") > 1:
            raise ConfigError(f"there is no model folder {name!r}")
        return
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{name!r} is not a model folder: it has no config.json")
    if not any(folder.glob("*.safetensors")):
        others = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind))
        raise ConfigError(_no_safetensors(name, ", ".join(others[:3]) or "no weights"))


def _no_safetensors(name: str, has: str) -> str:
    return (
        f"{name!r} has no .safetensors weights ({has}). Other weights are pickles, which can run code, and are not "
        "read. Convert them where you trust them: load them with transformers and call "
        "model.save_pretrained(FOLDER), which writes safetensors"
    )


@contextmanager
def _explained(name: str) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, OSError, ValueError, ImportError, KeyError) as fault:
        text = " ".join(str(fault).split())
        if _OWN_CODE in text:
            raise ConfigError(
                f"{name!r} needs code of its own repository to run. Read that code, and if you trust it set "
                f"{_OWN_CODE}=True"
            ) from fault
        if "safetensors" in text:
            raise ConfigError(_no_safetensors(name, "none found")) from fault
        raise ConfigError(
            f"cannot load the model {name!r}: give a folder, or the name of a hub model that is downloaded or can be "
            f"({type(fault).__name__}: {text:.400})"
        ) from fault


@contextmanager
def _quiet() -> Iterator[None]:
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
