"""Damaged and lying files of arrays are one line, before the memory that they ask for is taken."""

import io
import random
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from structviews.errors import InputError
from structviews.runtime import array_files
from structviews.runtime.array_files import map_array, read_arrays

CONTENT = np.arange(12, dtype="<f4").tobytes()
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
NAMES = np.array(["a", "b", "c"])


def npy(shape=(3, 4), descr="<f4", content=CONTENT):
    """A file whose header may lie."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def npz(path, features, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("features.npy", features)
        file.writestr("names.npy", npy((3,), "<U1", NAMES.tobytes()))
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_those_of_numpy(tmp_path, save, order):
    save(tmp_path / "x.npz", features=np.asarray(MATRIX, order=order), names=NAMES, empty=MATRIX[:0], one=np.array(3))
    read = read_arrays(tmp_path / "x.npz", ["features", "names", "empty", "one"])
    for array, expected in zip(read, (MATRIX, NAMES, MATRIX[:0], np.array(3)), strict=True):
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == expected.dtype
    np.save(tmp_path / "x.npy", MATRIX)
    np.testing.assert_array_equal(map_array(tmp_path / "x.npy"), MATRIX)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (npy((10**9, 10**9)), r"features is float32 of shape \(1000000000, 1000000000\), which has 4,000,000,000,000"),
        (npy((2**62, 2**62)), "features is float32 of shape"),
        (npy((3, 5)), "which has 60 bytes, not the 48 of the file: write it again"),
        (npy((3, 3)), "which has 36 bytes, not the 48 of the file"),
        (npy((-3, -4)), r"features is float32 of shape \(-3, -4\), not numbers or texts"),
        (npy((1,), "|O", b"cos\nsystem\n(S'exit'\ntR."), "features is object of shape"),
        (b"hello", r"features is not an array \(EOF"),
        (npy().replace(b"(3, 4)", b"(3, (4"), "features is not an array"),
        (npy().replace(b"\x01\x00v", b"\x09\x00v"), "features is not an array"),
    ],
)
def test_members_that_lie(tmp_path, features, message):
    path = npz(tmp_path / "x.npz", features)
    with pytest.raises(InputError, match=message) as error:
        read_arrays(path, ["features", "names"])
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_a_bomb_is_one_line(tmp_path, monkeypatch):
    path = npz(tmp_path / "x.npz", npy((1000, 1000), content=bytes(4 * 10**6)), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**4
    monkeypatch.setattr(array_files, "available_bytes", lambda: 7 * 10**6)
    with pytest.raises(InputError, match=r"features of shape \(1000, 1000\): needs about 0.0 GB .*: give fewer rows"):
        read_arrays(path, ["features", "names"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy((10**9, 10**9)), "not an array of numbers"),
        (npy((2**62, 2**62)), "not an array of numbers"),
        (npy((-1, 4)), "not an array of numbers"),
        (npy((1,), "|O", b"cos\nsystem\n(S'exit'\ntR."), "not an array of numbers"),
        (npy().replace(b"(3, 4)", b"(3, (4"), "not an array of numbers"),
        (npy().replace(b"(3, 4)", b"[[[[[["), "not an array of numbers"),
        (b"PK\x05\x06" + bytes(18), r"not an array of numbers \(an .npz file\)"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_file_that_lies(tmp_path, content, message):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        map_array(tmp_path / "x.npy")
    assert "\n" not in str(error.value)


def mutated(content, rng):
    """A file with bits flipped, a part cut out or doubled, or its end lost."""
    content, at, to = bytearray(content), *sorted(rng.sample(range(len(content)), 2))
    how = rng.randrange(4)
    if how == 0:
        content[at] ^= 1 << rng.randrange(8)
    elif how == 1:
        del content[at:to]
    elif how == 2:
        content[at:at] = content[at:to]
    else:
        del content[at:]
    return bytes(content)


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_one_line(tmp_path, kind):
    rng, path, read = random.Random(1), tmp_path / f"x.{kind}", 0
    whole = npz(tmp_path / "whole.npz", npy(), zipfile.ZIP_DEFLATED).read_bytes() if kind == "npz" else npy()
    for _ in range(500):
        path.write_bytes(mutated(whole, rng))
        with suppress(InputError):
            read_arrays(path, ["features", "names"]) if kind == "npz" else map_array(path)
            read += 1
    assert read < 250
