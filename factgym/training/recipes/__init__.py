"""Training by recipe: one TOML file names model, environment, stages and evaluation, and `factgym train` runs it.

`recipe` reads and writes recipes, `run` runs one in a folder, `stages` has the stages on TRL's trainers, `scratch` makes
a tokenizer and a model from nothing, `evaluation` measures a model on held-out tasks, `curves` draws the page.
"""
