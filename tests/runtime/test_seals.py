"""A sealed file is what was written, or it is named."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save

from structviews.errors import InputError
from structviews.runtime.seals import ENTRY, read_arrays, read_head, read_tensors, write_arrays

TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([True, False]), "number": torch.tensor(7)}
TENSORS |= {"half": torch.ones(3, dtype=torch.bfloat16), "none": torch.zeros(0, 4)}
ARRAYS = {name: tensor.numpy() for name, tensor in TENSORS.items() if name != "half"}
ARRAYS["strided"] = np.eye(3, dtype=np.float16)[:, 0]
NOTES = {"step": 3, "of": "x", "made": [1.5, None]}


@pytest.fixture
def file(tmp_path):
    write_arrays(tmp_path / "x.safetensors", TENSORS, NOTES)
    return tmp_path / "x.safetensors"


def test_tensors_arrays_and_notes_come_back(file):
    tensors, notes = read_tensors(file, "")
    assert notes == NOTES
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == TENSORS[name].dtype
        assert torch.equal(tensor, TENSORS[name])
    write_arrays(file, ARRAYS)
    for name, array in read_arrays(file, "").items():
        assert array.dtype == ARRAYS[name].dtype
        np.testing.assert_array_equal(array, ARRAYS[name])


def test_equal_content_gives_equal_bytes_and_digests(file, tmp_path):
    write_arrays(tmp_path / "y", dict(reversed(TENSORS.items())), dict(reversed(NOTES.items())))
    assert (tmp_path / "y").read_bytes() == file.read_bytes()
    write_arrays(tmp_path / "y", TENSORS, NOTES | {"step": 4})
    assert read_head(tmp_path / "y", "").data == read_head(file, "").data
    assert read_head(tmp_path / "y", "").digest != read_head(file, "").digest
    write_arrays(tmp_path / "a", {"x": np.ones((2, 2), np.float32)}, {"n": 1})
    write_arrays(tmp_path / "t", {"x": torch.ones(2, 2)}, {"n": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "t").read_bytes()


def test_every_damaged_byte_is_found(file):
    content = file.read_bytes()
    for place in range(0, len(content), 3):
        # A flipped bit, and the end cut off.
        for damaged in (content[:place] + bytes([content[place] ^ 8]) + content[place + 1 :], content[:place]):
            file.write_bytes(damaged)
            with pytest.raises(InputError, match=r"x\.safetensors: damaged: .*: train again"):
                read_tensors(file, "train again")
    with pytest.raises(InputError, match=r"none: no such file: train"):
        read_tensors(file.with_name("none"), "train")


def test_a_file_without_a_seal_or_with_another_files_is_refused(file, tmp_path):
    write_arrays(tmp_path / "other", {"b": torch.zeros(2, 3)}, NOTES)
    seal = {"notes": NOTES, "data": read_head(tmp_path / "other", "").data, "head": read_head(file, "").digest}
    for metadata, message in ((None, "its seal is missing"), ({ENTRY: json.dumps(seal)}, "does not match its seal")):
        file.write_bytes(save(TENSORS, metadata))
        with pytest.raises(InputError, match=message):
            read_tensors(file, "")
