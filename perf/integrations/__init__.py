"""What each in-process door costs beside the episode itself: `python -m perf.integrations doors`.

A door adds a module here with `door(env_id) -> Door` and its line in `DOORS`. It lives beside the doors and not with
the other benchmarks, which may not import them.
"""
