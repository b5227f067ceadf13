"""Imports that the processes of a fork server share, so that a further one holds a few megabytes of its own.

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["factgym.corpora.preload"])
    context.Process(target=work)

A process that is started by itself has some 85 MB of its own after its first query of a large corpus: modules, and the
compiled kernels with numba. Here the server has loaded them; give an environment's module before this one to share it
too. Importing this module loads numba where it is installed, and takes what exists out of garbage collection, which would
write to every object and so copy its page.
"""

from __future__ import annotations

import gc

import factgym.corpora.build  # noqa: F401 - to be shared
from factgym.corpora.store_bm25 import kernels_module

kernels_module.start()
kernels_module.wait()  # a fork would lose the thread that loads them
gc.collect()
gc.freeze()
