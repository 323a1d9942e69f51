"""Arrays written block by block: resumed at the first block that is not what was written."""

from contextlib import suppress

import numpy as np
import pytest

from structviews.errors import InputError
from structviews.runtime.array_files import Layout, check_blocks, read_blocks, write_blocks

LAYOUT = Layout(10, 3, at_once=4)
VALUES = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)


class Stopped(Exception):  # noqa: N818 - not an error
    pass


@pytest.fixture
def files(tmp_path):
    return tmp_path / "x.npy", tmp_path / ".x.partial", tmp_path / "x.digests"


def blocks(calls, stop_at=None):
    def block(start, stop):
        if start == stop_at:
            raise Stopped
        calls.append(start)
        return VALUES[start:stop]

    return block


def write(files, stop_at=None):
    calls = []
    with suppress(Stopped):
        write_blocks(*files, LAYOUT, blocks(calls, stop_at))
    return calls


def test_the_file_is_numpys(files):
    assert write(files) == [0, 4, 8]
    np.testing.assert_array_equal(np.load(files[0]), VALUES)
    np.testing.assert_array_equal(read_blocks(files[0], files[2], LAYOUT), VALUES)
    assert not files[1].exists()


def test_a_stopped_call_goes_on_with_the_next_block(files):
    assert write(files, stop_at=8) == [0, 4]
    assert not files[0].exists()
    assert write(files) == [8]
    np.testing.assert_array_equal(np.load(files[0]), VALUES)


@pytest.mark.parametrize(("place", "again"), [(5, [0, 4, 8]), (130, [0, 4, 8]), (180, [4, 8])])
def test_a_damaged_block_is_written_again_with_those_after_it(files, place, again):
    write(files, stop_at=8)
    content = bytearray(files[1].read_bytes())
    content[place] ^= 1
    files[1].write_bytes(content)
    assert write(files) == again
    np.testing.assert_array_equal(np.load(files[0]), VALUES)


@pytest.mark.parametrize(("which", "cut", "again"), [(1, 3, [4, 8]), (2, 3, [4, 8]), (1, 1000, [0, 4, 8])])
def test_a_block_cut_short_is_written_again(files, which, cut, again):
    write(files, stop_at=8)
    files[which].write_bytes(files[which].read_bytes()[:-cut])
    assert write(files) == again
    np.testing.assert_array_equal(np.load(files[0]), VALUES)


def test_every_damaged_byte_is_found(files):
    write(files)
    for path in (files[0], files[2]):
        content = path.read_bytes()
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
            assert read_blocks(files[0], files[2], LAYOUT) is None
        path.write_bytes(content)
    assert read_blocks(files[0], files[2], LAYOUT) is not None


def test_another_shape_or_no_file_is_nothing(files):
    assert read_blocks(files[0], files[2], LAYOUT) is None
    write(files)
    assert read_blocks(files[0], files[2], Layout(10, 4, 4)) is None
    assert read_blocks(files[0], files[2], Layout(11, 3, 4)) is None


def test_a_file_of_any_shape_can_be_checked(files):
    write_blocks(*files, Layout(10, 3), lambda start, stop: VALUES[start:stop])
    check_blocks(files[0], files[2], "")
    files[2].write_text("")
    with pytest.raises(InputError, match=r"x\.npy: damaged: .*: delete it"):
        check_blocks(files[0], files[2], "delete it")


def test_input_that_is_wrong_leaves_nothing(files, tmp_path):
    def block(start, stop):
        raise InputError("line 1: wrong")

    with pytest.raises(InputError, match="line 1"):
        write_blocks(*files, LAYOUT, block)
    assert list(tmp_path.iterdir()) == []
