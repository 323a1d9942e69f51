"""Files of arrays that lie are one line, before their memory is taken; blocks are resumed where they stopped."""

import io
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from structviews.errors import InputError
from structviews.runtime.array_files import Layout, map_array, read_arrays, read_blocks, write_blocks
from structviews.runtime.processes import DeadWorkerError

CONTENT = np.arange(12, dtype="<f4").tobytes()
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
NAMES = np.array(["a", "b", "c"])
LAYOUT = Layout(10, 3, at_once=4)
VALUES = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)


def npy(shape=(3, 4), descr="<f4", content=CONTENT):
    """A file whose header may lie."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


@pytest.mark.parametrize(("save", "order"), [(np.savez, "C"), (np.savez_compressed, "F")])
def test_arrays_are_those_of_numpy(tmp_path, save, order):
    save(tmp_path / "x.npz", features=np.asarray(MATRIX, order=order), names=NAMES, empty=MATRIX[:0], one=np.array(3))
    read = read_arrays(tmp_path / "x.npz", ["features", "names", "empty", "one"])
    for array, expected in zip(read, (MATRIX, NAMES, MATRIX[:0], np.array(3)), strict=True):
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == expected.dtype
    with pytest.raises(InputError, match=r"x\.npz: no array 'images': save features and images"):
        read_arrays(tmp_path / "x.npz", ["features", "images"])
    np.save(tmp_path / "x.npy", MATRIX)
    np.testing.assert_array_equal(map_array(tmp_path / "x.npy"), MATRIX)


# Headers that ask for too much, for less than nothing, for objects, or for what Python's parser fails at.
LIES = [
    npy((10**9, 10**9)),
    npy((-3, -4)),
    npy((1,), "|O", b"cos\nsystem\n(S'exit'\ntR."),
    npy().replace(b"(3, 4)", b"[[[[[["),
]


@pytest.mark.parametrize("content", [*LIES, npy((3, 5)), b"hello", b"PK\x05\x06" + bytes(18)])
@pytest.mark.filterwarnings("error")
def test_a_file_that_lies_is_one_line(tmp_path, content, one_line):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("features.npy", content)
    (tmp_path / "x.npy").write_bytes(content)
    cases = [(lambda path: read_arrays(path, ["features"]), "x.npz", "not an npz file|no array 'features'")]
    cases += [(map_array, "x.npy", "not an array of numbers")] * (content in LIES)
    for read, name, message in cases:
        with one_line(f"^{tmp_path / name}: .*({message})"):
            read(tmp_path / name)


@pytest.fixture
def files(tmp_path):
    return tmp_path / "x.npy", tmp_path / ".x.partial", tmp_path / "x.digests"


def write(files, stop_at=None):
    """The first rows of the blocks that were asked for."""
    calls = []

    def block(start, stop):
        if start == stop_at:
            raise KeyboardInterrupt
        calls.append(start)
        return VALUES[start:stop]

    with suppress(KeyboardInterrupt):
        write_blocks(*files, LAYOUT, block)
    return calls


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 16
    path.write_bytes(content)


def test_the_file_is_numpys_and_a_stopped_call_goes_on_with_the_next_block(files):
    assert write(files, stop_at=8) == [0, 4]
    assert not files[0].exists()
    assert write(files) == [8]
    np.testing.assert_array_equal(np.load(files[0]), VALUES)
    np.testing.assert_array_equal(read_blocks(files[0], files[2], LAYOUT), VALUES)
    assert not files[1].exists()


@pytest.mark.parametrize(
    ("file", "damage", "again"),
    [
        (1, lambda path: flip(path, 5), [0, 4, 8]),
        (1, lambda path: flip(path, 180), [4, 8]),
        (1, lambda path: path.write_bytes(path.read_bytes()[:-3]), [4, 8]),
        (2, lambda path: path.write_bytes(path.read_bytes()[:-3]), [4, 8]),
    ],
    ids=["header", "block", "short", "journal"],
)
def test_a_damaged_block_is_written_again_with_those_after_it(files, file, damage, again):
    write(files, stop_at=8)
    damage(files[file])
    assert write(files) == again
    np.testing.assert_array_equal(np.load(files[0]), VALUES)


def test_every_damaged_byte_and_another_shape_is_found(files):
    assert read_blocks(files[0], files[2], LAYOUT) is None
    write(files)
    for path in (files[0], files[2]):
        for place in range(path.stat().st_size):
            flip(path, place)
            assert read_blocks(files[0], files[2], LAYOUT) is None
            flip(path, place)
    assert read_blocks(files[0], files[2], LAYOUT) is not None
    assert read_blocks(files[0], files[2], Layout(10, 4, 4)) is None
    assert read_blocks(files[0], files[2], Layout(11, 3, 4)) is None


def test_input_that_is_wrong_leaves_nothing_and_a_worker_that_died_what_is_finished(files, tmp_path):
    def block(start, stop):
        if start == 8:
            raise error
        return VALUES[start:stop]

    for error, left in ((DeadWorkerError("signal 9"), 2), (InputError("line 1: wrong"), 0)):
        with pytest.raises(type(error), match=str(error)):
            write_blocks(*files, LAYOUT, block)
        assert len(list(tmp_path.iterdir())) == left
