"""CRC-32C and CRC-32 for kernels: by carry-less multiplication where the processor has it, else by tables.

`(address, size, floor) -> crc`.  Bytes in front of the data are read as well, but
none below the address *floor*.

V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction" (Intel, 2009), for bit-reflected polynomials.  The bytes are a
polynomial; a block of 128 bits is moved forward by D bits by multiplying its
halves with x^(D+32) and x^(D-32) modulo P.  With VPCLMULQDQ four blocks are
moved by one instruction.

What does not fill a whole vector is taken at the start, not at the end: zeros
in front change no remainder, so the vector that ends with the odd bytes is
loaded from before them, and the extra bytes are masked out.  Up to 63 bytes (15
in the narrow form) in front of the data are therefore read.

Such a multiplication takes some processors as long as six other instructions,
so short data are slow for what comes at the end; for CRC-32C an instruction
takes the place of four multiplications there.

Of the CRC of 128 bytes three quarters are what comes at the end: the lanes of a
vector into one, and that into 32 bits.  `four_right` does that with each lane for
another message, so four take little longer than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kafka_pipeline.columnar.jit import Numbers, cpu_features, inlined_kernel, kernel, part
from kafka_pipeline.columnar.memory import load_u8, load_u32, raw_u32

CRC32: Final = 0x04C11DB7  # IEEE 802.3, without x^32: v0 and v1
CRC32C: Final = 0x1EDC6F41  # Castagnoli: v2
I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
LOW, HIGH = ir.Constant(I8, 0x00), ir.Constant(I8, 0x11)
PAIR: Final = ir.VectorType(I64, 2)
STREAMS: Final = 4


def reflected(value: int, bits: int) -> int:
    """*value* with its *bits* in the other order."""
    return int(f"{value:0{bits}b}"[::-1], 2)


def power(exponent: int, polynomial: int) -> int:
    """x^*exponent* modulo the polynomial, reflected, and moved by the bit that reflected products are off."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        if value >> 32:
            value ^= polynomial | 1 << 32
    return reflected(value, 32) << 1


def quotient(polynomial: int) -> int:
    """x^64 divided by the polynomial, reflected: for Barrett's reduction."""
    divisor, rest, result = polynomial | 1 << 32, 1 << 64, 0
    for bit in range(32, -1, -1):
        if rest >> (bit + 32) & 1:
            rest ^= divisor << bit
            result |= 1 << bit
    return reflected(result, 33)


class Folder:
    """Emits the body of one function; *lanes* of 128 bits make a vector.

    *instruction*: there is one for this polynomial, and it is to be used.
    """

    def __init__(self, function: ir.Function, polynomial: int, lanes: int, *, instruction: bool = False) -> None:
        self.module: ir.Module = function.module
        self.function = function
        self.polynomial = polynomial
        self.lanes = lanes
        self.instruction = instruction
        self.width = 16 * lanes
        self.vector = ir.VectorType(I64, 2 * lanes)
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    def emit(self) -> None:
        """The whole function."""
        builder = self.builder
        address, size = self.function.args
        state = self.state_of(address, size)
        if self.instruction:
            crc = self.by_instruction(state)
        else:
            crc = builder.extract_element(self.reduce(state), ir.Constant(I32, 0))
        builder.ret(builder.zext(builder.xor(crc, ir.Constant(I32, 0xFFFFFFFF)), I64))

    def state_of(self, address: ir.Value, size: ir.Value) -> ir.Value:
        """All of the data in 128 bits that have the same remainder."""
        return self.gather(self.vector_of(address, size))

    def vector_of(self, address: ir.Value, size: ir.Value) -> ir.Value:
        """All of the data in a vector that has the same remainder."""
        builder, one = self.builder, ir.Constant(I64, 1)
        odd = builder.add(builder.and_(builder.sub(size, one), ir.Constant(I64, self.width - 1)), one)
        at, end = builder.add(address, odd), builder.add(address, size)
        first, initial = self.first_vector(at, odd)
        more = self.function.append_basic_block("more")
        done = self.function.append_basic_block("done")
        entry = builder.block
        builder.cbranch(builder.icmp_signed("<", at, end), more, done)
        builder.position_at_end(more)
        state = builder.xor(self.fold_in(first, at, self.width), initial)
        state, at = self.by_streams(state, builder.add(at, ir.Constant(I64, self.width)), end)
        (state,), _ = self.loop(at, end, 1, [state], lambda held, now: [self.fold_in(held[0], now, self.width)])
        after = builder.block
        builder.branch(done)
        builder.position_at_end(done)
        return self.either(first, entry, state, after)

    def first_vector(self, end: ir.Value, odd: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The *odd* bytes before *end* below the initial value, which is four bytes, and what the next takes of it."""
        builder, width = self.builder, self.width
        mask = self.constant_bytes("mask", bytes(width) + b"\xff" * width)
        initial = self.constant_bytes("initial", bytes(width) + b"\xff" * 4 + bytes(2 * width - 4))
        first = self.load(builder.sub(end, ir.Constant(I64, width)))
        first = builder.and_(first, self.load(builder.add(mask, odd)))
        first = builder.xor(first, self.load(builder.add(initial, odd)))
        return first, self.load(builder.add(builder.add(initial, odd), ir.Constant(I64, width)))

    def by_streams(self, state: ir.Value, at: ir.Value, end: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Four vectors at a time while there are so many; then they are folded into one."""
        builder, width = self.builder, self.width
        long = self.function.append_basic_block("long")
        short = self.function.append_basic_block("short")
        entry = builder.block
        enough = builder.icmp_signed(">=", builder.sub(end, at), ir.Constant(I64, (2 * STREAMS - 1) * width))
        builder.cbranch(enough, long, short)
        builder.position_at_end(long)
        states = [state, *(self.load(builder.add(at, ir.Constant(I64, i * width))) for i in range(STREAMS - 1))]
        after = builder.add(at, ir.Constant(I64, (STREAMS - 1) * width))

        def step(states: list[ir.Value], at: ir.Value) -> list[ir.Value]:
            places = (builder.add(at, ir.Constant(I64, i * width)) for i in range(STREAMS))
            return [self.fold_in(one, place, STREAMS * width) for one, place in zip(states, places, strict=True)]

        states, after = self.loop(after, end, STREAMS, states, step)
        folded = states[0]
        for other in states[1:]:
            folded = builder.xor(self.fold(folded, width), other)
        loop_end = builder.block
        builder.branch(short)
        builder.position_at_end(short)
        return self.either(state, entry, folded, loop_end), self.either(at, entry, after, loop_end)

    def loop(self, at: ir.Value, end: ir.Value, count: int, states: list[ir.Value], step: Any) -> Any:
        """*step* for every *count* vectors from *at*, while so many are left; gives the states, and where it ended."""
        builder, size = self.builder, ir.Constant(I64, count * self.width)
        before = builder.block
        head, body, after = (self.function.append_basic_block(name) for name in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        now = builder.phi(I64)
        now.add_incoming(at, before)
        held = [builder.phi(self.vector) for _ in states]
        for phi, state in zip(held, states, strict=True):
            phi.add_incoming(state, before)
        builder.cbranch(builder.icmp_signed(">=", builder.sub(end, now), size), body, after)
        builder.position_at_end(body)
        for phi, state in zip(held, step(held, now), strict=True):
            phi.add_incoming(state, builder.block)
        now.add_incoming(builder.add(now, size), builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return held, now

    def either(self, one: ir.Value, of: ir.Block, other: ir.Value, of_other: ir.Block) -> ir.Value:
        """The phi node of two blocks' values."""
        phi = self.builder.phi(one.type)
        phi.add_incoming(one, of)
        phi.add_incoming(other, of_other)
        return phi

    def fold_in(self, state: ir.Value, at: ir.Value, distance: int) -> ir.Value:
        """*state* moved forward by *distance* bytes, onto the vector at *at*."""
        return self.builder.xor(self.fold(state, distance), self.load(at))

    def fold(self, state: ir.Value, distance: int) -> ir.Value:
        """*state* moved forward by *distance* bytes."""
        return self.multiply(state, self.constants([distance] * self.lanes))

    def multiply(self, state: ir.Value, constants: ir.Value) -> ir.Value:
        """Both halves of every lane with both constants, added."""
        return self.builder.xor(self.clmul(state, constants, LOW), self.clmul(state, constants, HIGH))

    def clmul(self, one: ir.Value, other: ir.Value, halves: ir.Value) -> ir.Value:
        """The instruction itself; of the products' two words in each lane, *halves* says of which words they are."""
        name = "llvm.x86.pclmulqdq" + {1: "", 4: ".512"}[one.type.count // 2]
        function = self.declared(name, ir.FunctionType(one.type, [one.type, one.type, I8]))
        return self.builder.call(function, [one, other, halves])

    def constants(self, distances: list[int]) -> ir.Constant:
        """Constants that move each lane forward by a distance in bytes; a lane of distance 0 becomes 0."""
        pairs = [
            power(8 * distance + more, self.polynomial) if distance else 0
            for distance in distances
            for more in (32, -32)
        ]
        return ir.Constant(ir.VectorType(I64, len(pairs)), pairs)

    def gather(self, state: ir.Value) -> ir.Value:
        """All lanes folded into the last."""
        if self.lanes == 1:
            return state
        builder = self.builder
        last = ir.Constant(self.vector, [0] * (2 * self.lanes - 2) + [-1] * 2)
        moved = self.multiply(state, self.constants([16 * (self.lanes - 1 - lane) for lane in range(self.lanes)]))
        total = builder.xor(moved, builder.and_(state, last))
        while total.type.count > PAIR.count:
            half = total.type.count // 2
            total = builder.xor(self.parts(total, range(half)), self.parts(total, range(half, 2 * half)))
        return total

    def parts(self, vector: ir.Value, numbers: Iterable[int]) -> ir.Value:
        """Some elements of a vector; those after its end are zeros."""
        places = [ir.Constant(I32, number) for number in numbers]
        zeros = ir.Constant(vector.type, [0] * vector.type.count)
        return self.builder.shuffle_vector(vector, zeros, ir.Constant(ir.VectorType(I32, len(places)), places))

    def by_instruction(self, state: ir.Value) -> ir.Value:
        """The remainder of 128 bits, by the instruction that processors have for CRC-32C."""
        builder = self.builder
        function = self.declared("llvm.x86.sse42.crc32.64.64", ir.FunctionType(I64, [I64, I64]))
        crc = ir.Constant(I64, 0)
        for half in (0, 1):
            crc = builder.call(function, [crc, builder.extract_element(state, ir.Constant(I32, half))])
        return builder.trunc(crc, I32)

    def reduce(self, state: ir.Value) -> ir.Value:
        """The remainder of each lane of 128 bits: to 96, to 64, then Barrett's reduction."""
        builder = self.builder
        state = builder.xor(self.product(state, power(96, self.polynomial)), self.within_lanes(state, (1, None)))
        # 96 bits: the 64 of the first word, and the 32 that the product has above them.
        words = builder.bitcast(state, ir.VectorType(I32, 2 * state.type.count))
        rest = builder.bitcast(self.within_lanes(words, (1, 2, None, None)), state.type)
        rest = builder.xor(rest, self.product(self.low_half(state), power(64, self.polynomial)))
        estimate = self.product(self.low_half(rest), quotient(self.polynomial))
        product = self.product(self.low_half(estimate), reflected(self.polynomial | 1 << 32, 33))
        words = builder.bitcast(builder.xor(rest, product), words.type)
        return self.parts(words, range(1, words.type.count, 4))

    def within_lanes(self, vector: ir.Value, places: tuple[int | None, ...]) -> ir.Value:
        """The same elements of each lane, zeros for none."""
        count, size = vector.type.count, len(places)
        starts = range(0, count, size)
        return self.parts(vector, [count if at is None else start + at for start in starts for at in places])

    def low_half(self, state: ir.Value) -> ir.Value:
        """The first 32 bits of each lane, and zeros."""
        return self.builder.and_(state, ir.Constant(state.type, [0xFFFFFFFF, 0] * (state.type.count // 2)))

    def product(self, state: ir.Value, constant: int) -> ir.Value:
        """The first word of each lane times *constant* without carries."""
        return self.clmul(state, ir.Constant(state.type, [constant, 0] * (state.type.count // 2)), LOW)

    def load(self, address: ir.Value) -> ir.Value:
        """The vector at *address*, which need not be aligned."""
        return self.builder.load(self.builder.inttoptr(address, self.vector.as_pointer()), align=1)

    def constant_bytes(self, name: str, value: bytes) -> ir.Value:
        """The address of *value*, which is in the module."""
        kind, name = ir.ArrayType(I8, len(value)), f"{self.function.name}.{name}"
        there = self.module.globals.get(name)
        if there is None:
            there = ir.GlobalVariable(self.module, kind, name)
            there.linkage, there.global_constant = "internal", True
            there.initializer = ir.Constant(kind, bytearray(value))
        return self.builder.ptrtoint(there, I64)

    def declared(self, name: str, kind: ir.FunctionType) -> ir.Function:
        """LLVM's intrinsic called *name*."""
        found = self.module.globals.get(name)
        return found if found is not None else ir.Function(self.module, kind, name)


def crc_intrinsic(polynomial: int, lanes: int, *, instruction: bool = False) -> Callable[[int, int], int]:
    """An intrinsic `(address, size) -> crc` for at least 4 bytes; see above for what is read before them."""

    def crc(_typing: Any, _address: Any, _size: Any) -> Any:
        def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            name = f"kafkaproof.crc.{polynomial:08x}.{lanes}"
            function = builder.module.globals.get(name)
            if function is None:
                function = ir.Function(builder.module, ir.FunctionType(I64, [I64, I64]), name)
                function.linkage = "internal"
                function.attributes.add("alwaysinline")
                Folder(function, polynomial, lanes, instruction=instruction).emit()
            return builder.call(function, args)

        return types.int64(types.int64, types.int64), emit

    made: Any = intrinsic(crc)
    return cast(Callable[[int, int], int], made)


FOUR: Final = 4
CRCS: Final = ir.VectorType(I32, FOUR)
FIELD: Final = 4  # bytes of a CRC, big-endian, in front of what it is of


class Abreast(Folder):
    """Emits the body of a function of four addresses and sizes in turn: whether the CRCs in front are right."""

    def emit(self) -> None:
        """The whole function."""
        builder, args = self.builder, self.function.args
        vectors = [self.vector_of(address, size) for address, size in zip(args[::2], args[1::2], strict=True)]
        first, second, third, last = self.turned(vectors)
        state = builder.xor(builder.xor(self.fold(first, 48), self.fold(second, 32)), self.fold(third, 16))
        crcs = self.reduce(builder.xor(state, last))
        wrong = builder.xor(builder.xor(crcs, self.stored(args[::2])), ir.Constant(crcs.type, [0xFFFFFFFF] * FOUR))
        whole = ir.IntType(32 * FOUR)
        builder.ret(builder.icmp_unsigned("==", builder.bitcast(wrong, whole), ir.Constant(whole, 0)))

    def stored(self, addresses: list[ir.Value]) -> ir.Value:
        """The CRCs in front of these addresses."""
        builder = self.builder
        crcs = ir.Constant(CRCS, ir.Undefined)
        for number, address in enumerate(addresses):
            place = builder.inttoptr(builder.sub(address, ir.Constant(I64, FIELD)), I32.as_pointer())
            crcs = builder.insert_element(crcs, builder.load(place, align=1), ir.Constant(I32, number))
        return builder.call(self.declared("llvm.bswap.v4i32", ir.FunctionType(CRCS, [CRCS])), [crcs])

    def turned(self, vectors: list[ir.Value]) -> list[ir.Value]:
        """The first lanes of all vectors as one vector, the second ones, and so on."""
        one, two, three, four = vectors
        lows = self.mixed(one, two, (0, 1, 4, 5)), self.mixed(three, four, (0, 1, 4, 5))
        highs = self.mixed(one, two, (2, 3, 6, 7)), self.mixed(three, four, (2, 3, 6, 7))
        even, odd = (0, 2, 4, 6), (1, 3, 5, 7)
        return [self.mixed(*pair, lanes) for pair in (lows, highs) for lanes in (even, odd)]

    def mixed(self, one: ir.Value, other: ir.Value, lanes: tuple[int, ...]) -> ir.Value:
        """Some lanes of two vectors."""
        words = [ir.Constant(I32, 2 * lane + word) for lane in lanes for word in (0, 1)]
        return self.builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(words)), words))


def four_right(polynomial: int) -> Callable[[int, int, int, int, int, int, int, int], bool]:
    """An intrinsic `(address, size, address, size, …) -> bool`; of the data the same is true as of one CRC's."""

    def right(
        _typing: Any, _1: Any, _size_1: Any, _2: Any, _size_2: Any, _3: Any, _size_3: Any, _4: Any, _size_4: Any
    ) -> Any:
        def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            name = f"kafkaproof.four.{polynomial:08x}"
            function = builder.module.globals.get(name)
            if function is None:
                function = ir.Function(builder.module, ir.FunctionType(ir.IntType(1), [I64] * 2 * FOUR), name)
                function.linkage = "internal"
                function.attributes.add("alwaysinline")
                Abreast(function, polynomial, FOUR).emit()
            return builder.call(function, args)

        return types.boolean(*[types.int64] * 2 * FOUR), emit

    made: Any = intrinsic(right)
    return cast(Callable[[int, int, int, int, int, int, int, int], bool], made)


_FEATURES: Final = cpu_features()
NARROW: Final = "pclmul" in _FEATURES
WIDE: Final = NARROW and {"vpclmulqdq", "avx512f", "avx512bw"} <= _FEATURES
LANES: Final = 4 if WIDE else 1
NARROWEST: Final = 16
WIDTH: Final = NARROWEST * LANES
LEAST: Final = 4  # bytes that the initial value takes


def crc_tables(polynomial: int) -> Numbers:
    """Eight tables of 256, for eight bytes at a time ("slicing by 8")."""
    divisor = reflected(polynomial, 32)
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (divisor if value & 1 else 0)
        tables[0, byte] = value
    for step in range(1, 8):
        before = tables[step - 1]
        tables[step] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_TABLES_32C: Final = crc_tables(CRC32C)
_TABLES_32: Final = crc_tables(CRC32)


@part
def by_tables(tables: Numbers, address: int, size: int) -> int:
    """The CRC whose tables these are; any processor can do this."""
    crc = 0xFFFFFFFF
    end = address + size
    while address + 8 <= end:
        low = crc ^ raw_u32(address)
        high = raw_u32(address + 4)
        crc = (
            tables[7, low & 0xFF]
            ^ tables[6, low >> 8 & 0xFF]
            ^ tables[5, low >> 16 & 0xFF]
            ^ tables[4, low >> 24]
            ^ tables[3, high & 0xFF]
            ^ tables[2, high >> 8 & 0xFF]
            ^ tables[1, high >> 16 & 0xFF]
            ^ tables[0, high >> 24]
        )
        address += 8
    while address < end:
        crc = crc >> 8 ^ tables[0, (crc ^ load_u8(address)) & 0xFF]
        address += 1
    return crc ^ 0xFFFFFFFF


@kernel
def plain_crc32c(address: int, size: int, floor: int) -> int:
    """CRC-32C without special instructions."""
    return by_tables(_TABLES_32C, address, size)


@kernel
def plain_crc32(address: int, size: int, floor: int) -> int:
    """CRC-32 without special instructions."""
    return by_tables(_TABLES_32, address, size)


if NARROW:
    _INSTRUCTION: Final = "sse4.2" in _FEATURES
    _narrow_32c = crc_intrinsic(CRC32C, 1, instruction=_INSTRUCTION)
    _wide_32c = crc_intrinsic(CRC32C, LANES, instruction=_INSTRUCTION)
    _narrow_32, _wide_32 = crc_intrinsic(CRC32, 1), crc_intrinsic(CRC32, LANES)

    @part
    def short_crc32c(address: int, size: int, floor: int) -> int:
        """CRC-32C of what little can be read in front of."""
        if size >= LEAST and address - floor >= NARROWEST:
            return _narrow_32c(address, size)
        return by_tables(_TABLES_32C, address, size)

    @part
    def short_crc32(address: int, size: int, floor: int) -> int:
        """CRC-32 of what little can be read in front of."""
        if size >= LEAST and address - floor >= NARROWEST:
            return _narrow_32(address, size)
        return by_tables(_TABLES_32, address, size)

    @inlined_kernel
    def crc32c(address: int, size: int, floor: int) -> int:
        """CRC-32C (CRC-01)."""
        if size >= LEAST and address - floor >= WIDTH:
            return _wide_32c(address, size)
        return short_crc32c(address, size, floor)

    @inlined_kernel
    def crc32(address: int, size: int, floor: int) -> int:
        """CRC-32 (LEG-04)."""
        if size >= LEAST and address - floor >= WIDTH:
            return _wide_32(address, size)
        return short_crc32(address, size, floor)

else:
    crc32c, crc32 = plain_crc32c, plain_crc32


if WIDE:
    # `(address, size, address, size, …)`, four times; each as far from the start of its memory as `WIDTH`.
    four_right_crc32 = four_right(CRC32)

else:

    @part
    def four_right_crc32(
        one: int, one_size: int, two: int, two_size: int, three: int, three_size: int, four: int, four_size: int
    ) -> bool:
        """Whether the CRC-32s in front of four pieces are right, each as far from its memory's start as `WIDTH`."""
        return (
            crc32(one, one_size, one - WIDTH) == load_u32(one - FIELD)
            and crc32(two, two_size, two - WIDTH) == load_u32(two - FIELD)
            and crc32(three, three_size, three - WIDTH) == load_u32(three - FIELD)
            and crc32(four, four_size, four - WIDTH) == load_u32(four - FIELD)
        )
