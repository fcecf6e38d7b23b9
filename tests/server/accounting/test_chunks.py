from __future__ import annotations

import io

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobsight_server.accounting.files import LONGEST_LINE, PIECE_BYTES, TAIL_BYTES, chunks

_LINE = st.one_of(st.binary(max_size=30), st.integers(0, 2 * PIECE_BYTES).map(lambda n: b"x" * n))


def _small_reads(data: bytes, sizes: list[int]) -> io.BufferedIOBase:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            wanted = PIECE_BYTES if size is None else size
            return super().read(min(wanted, sizes[self.tell() % len(sizes)]))

    return Slow(data)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(_LINE, max_size=12),
    st.booleans(),
    st.lists(st.integers(1, PIECE_BYTES), min_size=1, max_size=5),
    st.integers(1, 7),
)
@example([b"y" * (LONGEST_LINE + 1)], False, [1000], 1)
@example([b"y" * LONGEST_LINE, b"z"], True, [LONGEST_LINE], 1)
def test_portions_are_the_lines_of_the_stream(lines: list[bytes], ended: bool, sizes: list[int], most: int) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    expected = data.split(b"\n")
    last = expected.pop()
    offset, got = 0, []
    for chunk in chunks(_small_reads(data, [max(size, 500) for size in sizes]).read, most_records=most):
        assert 1 <= len(chunk.records) <= most
        got += chunk.records
        offset += sum(line.length for line in chunk.records)
        assert chunk.tail == data[max(0, offset - TAIL_BYTES) : offset]
    assert offset == len(data)
    whole = [*expected, *([last] if last else [])]
    assert [line.length for line in got] == [len(line) + 1 for line in expected] + ([len(last)] if last else [])
    assert [line.too_long for line in got] == [len(line) > LONGEST_LINE for line in whole]
    assert [line.complete for line in got] == [True] * len(expected) + ([False] if last else [])
    for line, text in zip(got, whole, strict=True):
        assert line.data == (text[:2048] if line.too_long else text)
