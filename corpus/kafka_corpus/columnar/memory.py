"""Loads and stores at addresses, for kernels: Kafka's big-endian numbers, and Arrow's little-endian ones.

An address is an int64.  Nothing is checked, as in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Emit = Callable[[Any, ir.IRBuilder, Any, list[ir.Value]], ir.Value]
Load = Callable[[int], int]
Store = Callable[[int, int], None]


def _loader(bits: int, *, swapped: bool, signed: bool) -> Load:
    """An intrinsic that loads *bits* from any address, and gives them as an int64."""

    def load(_typing: Any, _address: Any) -> tuple[Any, Emit]:
        def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            if swapped:
                value = builder.bswap(value)
            if bits == 64:
                return value
            extend = builder.sext if signed else builder.zext
            return extend(value, ir.IntType(64))

        return types.int64(types.int64), emit

    made: Any = intrinsic(load)
    return cast(Load, made)


def _storer(bits: int, *, swapped: bool = False) -> Store:
    """An intrinsic that stores the low *bits* of an int64 at any address."""

    def store(_typing: Any, _address: Any, _value: Any) -> tuple[Any, Emit]:
        def emit(context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            kind = ir.IntType(bits)
            value = args[1] if bits == 64 else builder.trunc(args[1], kind)
            value = builder.bswap(value) if swapped else value
            builder.store(value, builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), emit

    made: Any = intrinsic(store)
    return cast(Store, made)


load_u8 = _loader(8, swapped=False, signed=False)
load_i8 = _loader(8, swapped=False, signed=True)
load_i16 = _loader(16, swapped=True, signed=True)
load_i32 = _loader(32, swapped=True, signed=True)
load_u32 = _loader(32, swapped=True, signed=False)
load_i64 = _loader(64, swapped=True, signed=True)
# As the machine has it: for Arrow, whose buffers are little-endian, and for bytes moved as they are.
raw_u32 = _loader(32, swapped=False, signed=False)
raw_i64 = _loader(64, swapped=False, signed=True)


def _raw_i64_of(_typing: Any, _address: Any, _number: Any) -> tuple[Any, Emit]:
    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        numbers = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(numbers, [args[1]]), align=1)

    return types.int64(types.int64, types.int64), emit


# Number so many of the int64 from an address on: LLVM sees what loops over these have in common, and uses vectors.
raw_i64_of: Callable[[int, int], int] = cast(Any, intrinsic(_raw_i64_of))


def _number_storer(bits: int) -> Callable[[int, int, int], None]:
    """An intrinsic that makes the low *bits* of an int64 the number so many of those from an address on."""

    def store(_typing: Any, _address: Any, _number: Any, _value: Any) -> tuple[Any, Emit]:
        def emit(context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            kind = ir.IntType(bits)
            value = args[2] if bits == 64 else builder.trunc(args[2], kind)
            numbers = builder.inttoptr(args[0], kind.as_pointer())
            builder.store(value, builder.gep(numbers, [args[1]]), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), emit

    made: Any = intrinsic(store)
    return cast(Callable[[int, int, int], None], made)


# The same for stores.
store_32_of, store_64_of = _number_storer(32), _number_storer(64)

store_8 = _storer(8)
store_16 = _storer(16)
store_32 = _storer(32)
store_64 = _storer(64)
store_i16 = _storer(16, swapped=True)
store_i32 = _storer(32, swapped=True)
store_i64 = _storer(64, swapped=True)


def _prefetch(_typing: Any, _address: Any) -> tuple[Any, Emit]:
    def emit(context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        name = "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        # To read; into the first cache; data.
        hints = [ir.Constant(number, hint) for hint in (0, 3, 1)]
        builder.call(function, [builder.inttoptr(args[0], pointer), *hints])
        return context.get_dummy_value()

    return types.void(types.int64), emit


# Have the bytes at an address fetched, which need not be there at all.
prefetch: Callable[[int], None] = cast(Any, intrinsic(_prefetch))


def _shift_right(_typing: Any, _value: Any, _bits: Any) -> tuple[Any, Emit]:
    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        return builder.lshr(args[0], args[1])

    return types.int64(types.int64, types.int64), emit


# Java's `>>>`: zeros come in from the left.
shift_right: Callable[[int, int], int] = cast(Any, intrinsic(_shift_right))


def _store_short(_typing: Any, _to: Any, _at: Any, _size: Any) -> tuple[Any, Emit]:
    def emit(context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        to, at, size = args
        byte, number = ir.IntType(8), ir.IntType(32)
        vector, four = ir.VectorType(byte, 16), ir.VectorType(number, 4)
        place = builder.inttoptr(builder.sub(at, ir.Constant(at.type, 4)), vector.as_pointer())
        undefined, zeros = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(number, 16), [0] * 16)
        first = builder.insert_element(undefined, builder.trunc(size, byte), ir.Constant(number, 0))
        sizes = builder.shuffle_vector(first, undefined, zeros)
        # The four bytes before the string make way for its size.
        places = ir.Constant(vector, [255] * 4 + list(range(12)))
        used = builder.icmp_unsigned("<", places, sizes)
        held = builder.select(used, builder.load(place, align=1), ir.Constant(vector, [0] * 16))
        low = builder.insert_element(ir.Constant(four, [0] * 4), builder.trunc(size, number), ir.Constant(number, 0))
        view = builder.or_(builder.bitcast(held, four), low)
        builder.store(view, builder.inttoptr(to, four.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


# The Arrow view of up to 12 bytes at an address; the 4 bytes in front of them are read as well.
store_short: Callable[[int, int, int], None] = cast(Any, intrinsic(_store_short))


def _copier(count: int) -> Store:
    """An intrinsic that copies *count* bytes to one address from another."""

    def copy(_typing: Any, _to: Any, _at: Any) -> tuple[Any, Emit]:
        def emit(context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            pointer = ir.VectorType(ir.IntType(8), count).as_pointer()
            to, at = (builder.inttoptr(address, pointer) for address in args)
            builder.store(builder.load(at, align=1), to, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), emit

    made: Any = intrinsic(copy)
    return cast(Store, made)


copy_16, copy_64 = _copier(16), _copier(64)
