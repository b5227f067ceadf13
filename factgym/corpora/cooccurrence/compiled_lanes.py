"""One search that LLVM is told in its own words: where, in a sorted array, the numbers stop being below another.

Thirty-two numbers are compared at a time and the comparisons counted, without a branch that depends on them. Written in
Python, numba makes of it thirty-two single steps. LLVM makes of it what the processor has (AVX-512, AVX2, NEON …).
Changing this file, change `compiled` too: see `compiled_lists`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 32
"""Numbers compared at a time."""

_SIZE = ir.IntType(64)
_NUMBER = ir.IntType(32)
_VECTOR = ir.VectorType(_NUMBER, LANES)


def _below(builder: Any, data: Any, at: Any, x: Any) -> Any:
    """Emit the count of the numbers data[at : at + LANES] that are below x."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    held = builder.load(builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer()), align=4)
    once = builder.insert_element(nothing, x, ir.Constant(_NUMBER, 0))
    everywhere = builder.shuffle_vector(once, nothing, ir.Constant(_VECTOR, [0] * LANES))
    bits = builder.bitcast(builder.icmp_unsigned("<", held, everywhere), ir.IntType(LANES))
    return builder.zext(builder.ctpop(bits), _SIZE)


def _emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """at; do { count = below; at += count; } while (count == LANES)."""
    array, start, x = args
    data = context.make_array(signature.args[0])(context, builder, array).data
    entered = builder.block
    loop, done = builder.append_basic_block("advance"), builder.append_basic_block("there")
    builder.branch(loop)
    builder.position_at_end(loop)
    at = builder.phi(_SIZE)
    at.add_incoming(start, entered)
    count = _below(builder, data, at, x)
    there = builder.add(at, count)
    at.add_incoming(there, loop)
    builder.cbranch(builder.icmp_unsigned("==", count, ir.Constant(_SIZE, LANES)), loop, done)
    builder.position_at_end(done)
    return there


def _advance(_context: Any, array: Any, _at: Any, _x: Any) -> tuple[Any, Callable[..., Any]]:
    """The first index from `at` on whose number is not below x.

    array: uint32, rising from `at` to a number that is not below x, with LANES more readable after it; nothing is
    checked. An intrinsic takes an array without counting a reference to it, which in a loop costs more than the search.
    """
    return types.uint64(array, types.uint64, types.uint32), _emit


advance: Callable[..., Any] = intrinsic(_advance)
