"""Where examples come from: the generator, a folder of documents, or ContractNLI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from factgym.core.errors import ConfigError
from factgym.envs.claimcheck.config import SYNTHETIC, ClaimCheckConfig

if TYPE_CHECKING:
    from factgym.corpora.readers.document import Document
    from factgym.datasets.claims import ClaimExample
    from factgym.envs.claimcheck.tasks import Examples


DATA_VARIABLE = "FACTGYM_DATA"
"""Environment variable: a folder of public data sets, used where no `path` is given."""

_FOLDERS = (
    "policies_basecamp",
    "policies_18f",
    "policies_github_site",
    "policies_automattic",
    "cuad/contracts",
)
_CONTRACTS = "contract_nli/dev.json"


def load_examples(config: ClaimCheckConfig) -> Examples:
    """The examples of a configuration. Raises ConfigError for a missing path, DataError for unusable files."""
    if config.source in SYNTHETIC:
        return _synthetic(config)
    return _documents(config) if config.source == "docs" else _contracts(config)


def _data_folder(config: ClaimCheckConfig, what: str) -> Path:
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        raise ConfigError(
            f"claimcheck-{config.source} needs {what}: give its path (path=… in Python, --path at the command line), "
            f"or set {DATA_VARIABLE} to a folder of public data sets"
        )
    return Path(named)


def _synthetic(config: ClaimCheckConfig) -> Examples:
    from factgym.generators.synthetic import SyntheticClaims

    split = SYNTHETIC[config.source][config.chosen_split]
    return SyntheticClaims(split.kind, seed=split.seed(config.seed), size=config.size or split.size)


def _documents(config: ClaimCheckConfig) -> Examples:
    from factgym.generators.document_claims import DocumentClaims

    return DocumentClaims(
        _read_documents(config),
        split=config.chosen_split,
        seed=config.seed,
        size=config.size,
        haystack=config.haystack,
    )


def _read_documents(config: ClaimCheckConfig) -> list[Document]:
    from factgym.corpora.readers.folder import read_folder

    if config.path is not None:
        return read_folder(config.path)
    base = _data_folder(config, "a folder of .md, .txt or .jsonl files")
    folders = [base / name for name in _FOLDERS if (base / name).is_dir()]
    if not folders:
        raise ConfigError(f"{base} holds none of {', '.join(_FOLDERS)}: give a folder of documents as path")
    found = [(folder.name, document) for folder in folders for document in read_folder(folder, glob="*")]
    # Each folder's SOURCE.md is headed by the folder's own name: it says where the files are from and is no policy.
    return [document for name, document in found if document.title != name]


def _contracts(config: ClaimCheckConfig) -> Examples:
    from factgym.datasets.contractnli import ContractNliClaims

    path = Path(config.path) if config.path else _data_folder(config, "ContractNLI's dev.json") / _CONTRACTS
    examples = ContractNliClaims(path, split=config.chosen_split, seed=config.seed, named=config.haystack)
    return examples if config.size is None else First(examples, config.size)


class First:
    """The first `size` of some examples."""

    def __init__(self, examples: Examples, size: int) -> None:
        self._examples = examples
        self._size = min(size, len(examples))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> ClaimExample:
        if not 0 <= index < self._size:
            raise IndexError(index)
        return self._examples[index]

    def fingerprint(self) -> str:
        """That of the examples, and how many."""
        return f"{self._examples.fingerprint()}:{self._size}"
