"""CRCs by carry-less multiplication, in LLVM's intermediate code.

V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction" (Intel, 2009), for bit-reflected polynomials.  The bytes are a
polynomial; a block of 128 bits is moved forward by D bits by multiplying its
halves with x^(D+32) and x^(D-32) modulo P.  With VPCLMULQDQ four blocks are
moved by one instruction.

What does not fill a whole vector is taken at the start, not at the end: zeros
in front change no remainder, so the vector that ends with the odd bytes is
loaded from before them, and what lies there is masked out.  Up to 63 bytes (15
in the narrow form) in front of the data are therefore read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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
    """Emits the body of one function `(address, size) -> crc`; *lanes* of 128 bits make a vector."""

    def __init__(self, function: ir.Function, polynomial: int, lanes: int) -> None:
        self.module: ir.Module = function.module
        self.function = function
        self.polynomial = polynomial
        self.lanes = lanes
        self.width = 16 * lanes
        self.vector = ir.VectorType(I64, 2 * lanes)
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    def emit(self) -> None:
        """The whole function."""
        builder = self.builder
        address, size = self.function.args
        odd = builder.and_(size, ir.Constant(I64, self.width - 1))
        state = self.first_vectors(address, odd)
        at = builder.add(builder.add(address, odd), ir.Constant(I64, self.width))
        end = builder.add(address, size)
        state, at = self.by_streams(state, at, end)
        (state,), _ = self.loop(at, end, 1, [state], lambda held, now: [self.fold_in(held[0], now, self.width)])
        crc = self.reduce(self.gather(state))
        builder.ret(builder.zext(builder.xor(crc, ir.Constant(I32, 0xFFFFFFFF)), I64))

    def first_vectors(self, address: ir.Value, odd: ir.Value) -> ir.Value:
        """The odd bytes and the first whole vector, with the initial value over the first four bytes."""
        builder, width = self.builder, self.width
        mask = self.constant_bytes("mask", bytes(width) + b"\xff" * width)
        initial = self.constant_bytes("initial", bytes(width) + b"\xff" * 4 + bytes(2 * width - 4))
        start = builder.add(address, odd)
        first = self.load(builder.sub(start, ir.Constant(I64, width)))
        first = builder.and_(first, self.load(builder.add(mask, odd)))
        first = builder.xor(first, self.load(builder.add(initial, odd)))
        second_initial = self.load(builder.add(builder.add(initial, odd), ir.Constant(I64, width)))
        second = builder.xor(self.load(start), second_initial)
        return builder.xor(self.fold(first, width), second)

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
        behind = builder.add(at, ir.Constant(I64, (STREAMS - 1) * width))

        def step(states: list[ir.Value], at: ir.Value) -> list[ir.Value]:
            places = (builder.add(at, ir.Constant(I64, i * width)) for i in range(STREAMS))
            return [self.fold_in(one, place, STREAMS * width) for one, place in zip(states, places, strict=True)]

        states, behind = self.loop(behind, end, STREAMS, states, step)
        folded = states[0]
        for other in states[1:]:
            folded = builder.xor(self.fold(folded, width), other)
        loop_end = builder.block
        builder.branch(short)
        builder.position_at_end(short)
        return self.either(state, entry, folded, loop_end), self.either(at, entry, behind, loop_end)

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
        """What came from one block or the other."""
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
        lanes = state.type.count // 2
        name = "llvm.x86.pclmulqdq" + {1: "", 4: ".512"}[lanes]
        function = self.declared(name, ir.FunctionType(state.type, [state.type, state.type, I8]))
        call = self.builder.call
        return self.builder.xor(call(function, [state, constants, LOW]), call(function, [state, constants, HIGH]))

    def constants(self, distances: list[int]) -> ir.Constant:
        """What moves each lane forward by so many bytes; a lane of distance 0 becomes 0."""
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
        moved = self.multiply(state, self.constants([16 * (self.lanes - 1 - lane) for lane in range(self.lanes)]))
        parts = [self.lane(moved, lane) for lane in range(self.lanes - 1)]
        total = self.lane(state, self.lanes - 1)
        for part in parts:
            total = builder.xor(total, part)
        return total

    def lane(self, state: ir.Value, number: int) -> ir.Value:
        """One lane by itself."""
        places = ir.Constant(ir.VectorType(I32, 2), [2 * number, 2 * number + 1])
        return self.builder.shuffle_vector(state, ir.Constant(state.type, ir.Undefined), places)

    def reduce(self, state: ir.Value) -> ir.Value:
        """The remainder of one lane: to 96 bits, to 64, then Barrett's reduction."""
        builder = self.builder
        low = builder.extract_element(state, ir.Constant(I32, 0))
        high = builder.extract_element(state, ir.Constant(I32, 1))
        step, carry = self.product(low, power(96, self.polynomial))
        low, high = builder.xor(high, step), carry
        # 96 bits: the 64 in `low`, and the 32 that the product has above them.
        word = builder.and_(low, ir.Constant(I64, 0xFFFFFFFF))
        rest = builder.or_(builder.lshr(low, ir.Constant(I64, 32)), builder.shl(high, ir.Constant(I64, 32)))
        step, _ = self.product(word, power(64, self.polynomial))
        rest = builder.xor(rest, step)
        word = builder.and_(rest, ir.Constant(I64, 0xFFFFFFFF))
        estimate, _ = self.product(word, quotient(self.polynomial))
        estimate = builder.and_(estimate, ir.Constant(I64, 0xFFFFFFFF))
        step, _ = self.product(estimate, reflected(self.polynomial | 1 << 32, 33))
        return builder.trunc(builder.lshr(builder.xor(rest, step), ir.Constant(I64, 32)), I32)

    def product(self, value: ir.Value, constant: int) -> tuple[ir.Value, ir.Value]:
        """*value* times *constant* without carries: low and high half."""
        builder = self.builder
        function = self.declared("llvm.x86.pclmulqdq", ir.FunctionType(PAIR, [PAIR, PAIR, I8]))
        vector = builder.insert_element(ir.Constant(PAIR, [0, 0]), value, ir.Constant(I32, 0))
        result = builder.call(function, [vector, ir.Constant(PAIR, [constant, 0]), LOW])
        return tuple(builder.extract_element(result, ir.Constant(I32, half)) for half in (0, 1))

    def load(self, address: ir.Value) -> ir.Value:
        """The vector at *address*, which need not be aligned."""
        return self.builder.load(self.builder.inttoptr(address, self.vector.as_pointer()), align=1)

    def constant_bytes(self, name: str, value: bytes) -> ir.Value:
        """The address of *value*, which lies in the module."""
        kind = ir.ArrayType(I8, len(value))
        there = ir.GlobalVariable(self.module, kind, f"{self.function.name}.{name}")
        there.linkage, there.global_constant = "internal", True
        there.initializer = ir.Constant(kind, bytearray(value))
        return self.builder.ptrtoint(there, I64)

    def declared(self, name: str, kind: ir.FunctionType) -> ir.Function:
        """LLVM's intrinsic called *name*."""
        found = self.module.globals.get(name)
        return found if found is not None else ir.Function(self.module, kind, name)


def crc_intrinsic(polynomial: int, lanes: int) -> Callable[[int, int], int]:
    """An intrinsic `(address, size) -> crc` for at least 16 bytes a lane; see above for what is read before them."""

    def crc(_typing: Any, _address: Any, _size: Any) -> Any:
        def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
            name = f"kafkaproof.crc.{polynomial:08x}.{lanes}"
            function = builder.module.globals.get(name)
            if function is None:
                function = ir.Function(builder.module, ir.FunctionType(I64, [I64, I64]), name)
                function.linkage = "internal"
                Folder(function, polynomial, lanes).emit()
            return builder.call(function, args)

        return types.int64(types.int64, types.int64), emit

    made: Any = intrinsic(crc)
    return cast(Callable[[int, int], int], made)
