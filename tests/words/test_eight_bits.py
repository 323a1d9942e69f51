import numpy as np

from structviews.words.eight_bits import quantise, restore


def plainly(rows):
    """Number by number."""
    found, scales = [], []
    for row in rows:
        scale = max(map(abs, row)) / 127
        found.append([round(float(value / scale)) if scale else 0 for value in row])
        scales.append(scale)
    return np.array(found), np.array(scales)


def test_numbers_are_rounded_to_the_nearest_step_of_their_row():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(50, 30)).astype(np.float32) * rng.uniform(1e-6, 1e3, (50, 1)).astype(np.float32)
    found, scales = quantise(rows)
    assert (found.dtype, scales.dtype) == (np.int8, np.float32)
    wanted, wanted_scales = plainly(rows)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(scales, wanted_scales, rtol=1e-6)
    restored = restore(found, scales)
    assert restored.dtype == np.float32
    assert (np.abs(restored - rows) <= 0.501 * scales[:, None]).all()


def test_rows_of_zeros_and_of_hardly_more_stay_zero():
    found, scales = quantise(np.array([[0, 0], [1e-45, 0], [-3, 3]], np.float32))
    np.testing.assert_array_equal(found, [[0, 0], [0, 0], [-127, 127]])
    np.testing.assert_array_equal(restore(found, scales), [[0, 0], [0, 0], [-3, 3]])


def test_no_rows():
    found, scales = quantise(np.empty((0, 4), np.float32))
    assert (found.shape, scales.shape, restore(found, scales).shape) == ((0, 4), (0,), (0, 4))
