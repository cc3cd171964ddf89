"""Loads, stores, varints and byte strings at addresses, for kernels.

An address is an int64.  Nothing is checked, as in C.

A reader may read up to `SLACK` bytes after its data, so the memory must have them.

A writer may write up to `SLACK` bytes after its data, so the memory must have them.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import memmove, string_at
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from kafka_pipeline.columnar.jit import inlined, part, primitive

# What a primitive does where kernels are not compiled is written in Python below its LLVM code.
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

    order: Literal["big", "little"] = "big" if swapped else "little"

    def plain(address: int) -> int:
        return int.from_bytes(string_at(int(address), bits // 8), order, signed=signed)

    return primitive(load, plain)


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

    order: Literal["big", "little"] = "big" if swapped else "little"

    def plain(address: int, value: int) -> None:
        memmove(int(address), (int(value) & (1 << bits) - 1).to_bytes(bits // 8, order), bits // 8)

    return primitive(store, plain)


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
raw_i64_of: Callable[[int, int], int] = primitive(_raw_i64_of, lambda address, number: raw_i64(address + 8 * number))


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

    plain_store = _storer(bits)

    def plain(address: int, number: int, value: int) -> None:
        plain_store(address + bits // 8 * number, value)

    return primitive(store, plain)


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
prefetch: Callable[[int], None] = primitive(_prefetch, lambda address: None)


def _shift_right(_typing: Any, _value: Any, _bits: Any) -> tuple[Any, Emit]:
    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        return builder.lshr(args[0], args[1])

    return types.int64(types.int64, types.int64), emit


def _plain_shift_right(value: int, bits: int) -> int:
    shifted = (int(value) & (1 << 64) - 1) >> bits
    return shifted - (1 << 64) if shifted >> 63 else shifted


# Java's `>>>`: zeros come in from the left.
shift_right: Callable[[int, int], int] = primitive(_shift_right, _plain_shift_right)


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


def _plain_store_short(to: int, at: int, size: int) -> None:
    held = string_at(int(at), size).ljust(INLINE, b"\0")
    memmove(int(to), int(size).to_bytes(4, "little") + held, VIEW)


# The Arrow view of up to 12 bytes at an address; the 4 bytes in front of them are read as well.
store_short: Callable[[int, int, int], None] = primitive(_store_short, _plain_store_short)


def _copier(count: int) -> Store:
    """An intrinsic that copies *count* bytes to one address from another."""

    def copy(_typing: Any, _to: Any, _at: Any) -> tuple[Any, Emit]:
        def emit(context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            pointer = ir.VectorType(ir.IntType(8), count).as_pointer()
            to, at = (builder.inttoptr(address, pointer) for address in args)
            builder.store(builder.load(at, align=1), to, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), emit

    def plain(to: int, at: int) -> None:
        memmove(int(to), string_at(int(at), count), count)

    return primitive(copy, plain)


copy_16, copy_64 = _copier(16), _copier(64)


SLACK: Final = 64
# A page: the processor itself sees that a log is read in order, but not where in memory the next page is.
AHEAD: Final = 4096
FAR: Final = 24 * 1024  # more than this would push out of the first cache what is still to be read
CACHE_LINE: Final = 64
INLINE: Final = 12  # bytes that a view holds itself
VIEW: Final = 16  # bytes of a view
NO_VARINT: Final = 1 << 40  # more than any size


@part
def long_varint(at: int, most: int) -> tuple[int, int, bool]:
    """Groups from up to *most* bytes: the zig-zag number, where it ends, and whether it does not end."""
    value = shift = 0
    for _ in range(most):
        byte = load_u8(at)
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if most == 5:
                value &= 0xFFFFFFFF  # VAR-07
            return shift_right(value, 1) ^ -(value & 1), at, False
    return 0, at, True


@part
def long_raw(at: int) -> tuple[int, int]:
    """The same as `read_raw`, of up to 5 bytes."""
    value, at, bad = long_varint(at, 5)
    return NO_VARINT if bad else (value << 1 ^ value >> 63), at


@inlined
def read_varint(at: int) -> tuple[int, int, bool]:
    """A zig-zag int32 of 1 to 5 bytes: the number, where it ends, and whether it is none (VAR-06)."""
    first = load_u8(at)
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1, False
    second = load_u8(at + 1)
    if second < 0x80:
        value = first & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), at + 2, False
    return long_varint(at, 5)


@inlined
def read_varlong(at: int) -> tuple[int, int, bool]:
    """A zig-zag int64 of 1 to 10 bytes: the number, where it ends, and whether it is none (VAR-08)."""
    first = load_u8(at)
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1, False
    second = load_u8(at + 1)
    if second < 0x80:
        value = first & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), at + 2, False
    return long_varint(at, 10)


@inlined
def read_raw(at: int) -> tuple[int, int]:
    """A zig-zag int32 as it stands, odd for what is below 0, and where it ends; `NO_VARINT` if it is none (VAR-06)."""
    first = load_u8(at)
    if first < 0x80:
        return first, at + 1
    second = load_u8(at + 1)
    if second < 0x80:
        return first & 0x7F | second << 7, at + 2
    return long_raw(at)


@inlined
def fetch_ahead(at: int, stop: int, ahead: int) -> None:
    """Prefetch the bytes that are *ahead* bytes further on: a checksum is about to read them."""
    prefetch(at + ahead)
    line = at + ahead + CACHE_LINE
    while line < stop + ahead:
        prefetch(line)
        line += CACHE_LINE


@inlined
def store_view(to: int, at: int, size: int, buffer: int, base: int) -> None:
    """The view of *size* bytes at *at*, which are in the column's data buffer number *buffer*, from *base* on."""
    if size > INLINE:
        store_64(to, size | raw_u32(at) << 32)
        store_64(to + 8, buffer | (at - base) << 32)
    else:
        store_short(to, at, size)


@inlined
def store_null(to: int, bits: int, row: int) -> None:
    """No value in *row*: an empty view, a zero in the bitmap, and one in front of it, which says that there are any."""
    store_64(to, 0)
    store_64(to + 8, 0)
    store_8(bits - 1, 0)
    at = bits + (row >> 3)
    store_8(at, load_u8(at) & ~(1 << (row & 7)))


@part
def make_valid(bits: int, first: int, end: int) -> None:
    """Ones in the bitmap again, for rows that are taken back."""
    for row in range(first, end):
        at = bits + (row >> 3)
        store_8(at, load_u8(at) | 1 << (row & 7))


NULL = -1  # the size of what is null
# The most that a varint of one byte says, and of two.
ONE_BYTE: Final = 0x3F
TWO_BYTES: Final = 0x1FFF


def varints() -> npt.NDArray[np.uint32]:
    """For each number that takes up to two bytes what these are (VAR-02, VAR-04); their bits in the upper half."""
    raw = np.arange(TWO_BYTES + 1, dtype=np.uint32) << 1
    return np.where(raw < 0x80, raw | 8 << 16, raw & 0x7F | 0x80 | raw >> 7 << 8 | 16 << 16).astype(np.uint32)


VARINTS: Final = varints()


class Strings(NamedTuple):
    """A column of byte strings: addresses of its views and its bitmap, 0 if nothing is null.

    *shift* is the bit of the first row; at *buffers* there are for each data
    buffer its address, and where it ends.
    """

    views: int
    bits: int
    shift: int
    buffers: int


class Table(NamedTuple):
    """The columns of records: addresses, and byte strings."""

    offset: int
    timestamp: int
    key: Strings
    value: Strings
    header_end: int
    header_key: Strings
    header_value: Strings


@inlined
def size_of(strings: Strings, row: int) -> int:
    """Bytes in *row*, or `NULL`."""
    if strings.bits:
        bit = row + strings.shift
        if not load_u8(strings.bits + (bit >> 3)) >> (bit & 7) & 1:
            return NULL
    return raw_u32(strings.views + VIEW * row)


@inlined
def zigzag_bits(value: int) -> int:
    """A signed number as one without a sign, its bits those of a uint64 (VAR-02)."""
    return value << 1 ^ value >> 63


@part
def long_width(raw: int) -> int:
    """Bytes of any varint."""
    width = 1
    while shift_right(raw, 7):
        raw = shift_right(raw, 7)
        width += 1
    return width


@inlined
def width_of(raw: int) -> int:
    """Bytes of the varint that holds a zig-zag number."""
    if 0 <= raw < 0x4000:
        return 1 + (raw >= 0x80)
    return long_width(raw)


@part
def write_long(to: int, raw: int) -> int:
    """Any varint; where it ends."""
    while shift_right(raw, 7):
        store_8(to, raw & 0x7F | 0x80)
        raw = shift_right(raw, 7)
        to += 1
    store_8(to, raw)
    return to + 1


@inlined
def write_raw_varint(to: int, raw: int) -> int:
    """The varint of a zig-zag number, in its shortest form (VAR-04); where it ends."""
    if 0 <= raw < 0x80:
        store_8(to, raw)
        return to + 1
    if 0 <= raw < 0x4000:
        store_16(to, raw & 0x7F | 0x80 | raw >> 7 << 8)
        return to + 2
    return write_long(to, raw)


@inlined
def short_varint(value: int) -> tuple[int, int]:
    """The varint of a number from 0 to `TWO_BYTES` as a little-endian one, and its bits: looked up, not worked out.

    Of the table only the entries of sizes and deltas that are there are ever in a cache.
    """
    entry: Any = np.int64(VARINTS[value & TWO_BYTES])
    return entry & 0xFFFF, entry >> 16


@part
def copy_to_the_end(to: int, at: int, size: int) -> None:
    """Exactly these bytes, for data at the end of its memory."""
    while size >= 8:
        store_64(to, raw_i64(at))
        to, at, size = to + 8, at + 8, size - 8
    for byte in range(size):
        store_8(to + byte, load_u8(at + byte))


@part
def copy_rest(to: int, at: int, size: int) -> None:
    """Copy the bytes after the first 128."""
    for done in range(128, size, 64):
        copy_64(to + done, at + done)


@inlined
def write_view(to: int, view: int, buffers: int, size: int) -> int:
    """The *size* bytes of a view; where they end."""
    if size <= INLINE:
        store_64(to, raw_i64(view + 4))
        store_32(to + 8, raw_u32(view + 12))
        return to + size
    buffer = buffers + 16 * raw_u32(view + 8)
    at = raw_i64(buffer) + raw_u32(view + 12)
    if at + size + 64 > raw_i64(buffer + 8):
        copy_to_the_end(to, at, size)
        return to + size
    # The next strings mostly follow this one in memory; a tenth faster where these are in no cache.
    prefetch(at + AHEAD)
    copy_64(to, at)
    # Written out, since LLVM makes much of a loop that mostly ends at once.
    if size > 64:
        copy_64(to + 64, at + 64)
        if size > 128:
            copy_rest(to, at, size)
    return to + size


@inlined
def write_bytes(to: int, strings: Strings, row: int, size: int) -> int:
    """The *size* bytes in *row*; where they end."""
    return write_view(to, strings.views + VIEW * row, strings.buffers, size)
