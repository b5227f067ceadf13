"""verl's dataset over our rows; a process that reads them has the agent loop and the estimators."""

from __future__ import annotations

from typing import Any

from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.tokenizer import normalize_token_ids

from factgym.core.messages import ToolSchema
from factgym.integrations.verl.rows import RowTask


class FactDataset(RLHFDataset):
    """`data.custom_cls` of a run: verl's own, whose bound on prompts counts the tools of the environment too."""

    def maybe_filter_out_long_prompts(self, dataframe: Any = None) -> Any:
        """The rows whose prompt, tools included, fits `data.max_prompt_length`; all without the filter."""
        if not self.filter_overlong_prompts:
            return dataframe
        schemas: dict[tuple[str, str], list[ToolSchema]] = {}

        def fits(row: Any) -> bool:
            told = RowTask.of(row["extra_info"])
            key = (told.env, told.settings)
            if key not in schemas:
                schemas[key] = told.session().all_tools()
            ids = self.tokenizer.apply_chat_template(
                row[self.prompt_key],
                tools=schemas[key] or None,
                add_generation_prompt=True,
                tokenize=True,
                **self.apply_chat_template_kwargs,
            )
            return bool(len(normalize_token_ids(ids)) <= self.max_prompt_length)

        return dataframe.filter(fits, desc=f"Prompts of at most {self.max_prompt_length} tokens")
