"""Four CRCs looked at together, in LLVM's intermediate code, for messages that are short.

Of the CRC of 128 bytes (`folding.py`) three quarters are what comes at the end:
the lanes of a vector into one, and that into 32 bits.  Here each lane does that
for another message, so four take little longer than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kafka_corpus.columnar.folding import I32, I64, Folder

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
