"""Memory that is used again."""

import threading

import torch

from structviews.runtime.scratch import keep, reused, scratch

LIKE = torch.empty(1)


def test_a_buffer_is_kept_within_the_block():
    with reused():
        first = scratch("a", 4, 5, LIKE).fill_(1)
        smaller = scratch("a", 3, 6, LIKE)
        assert smaller.shape == (3, 6)
        assert smaller.data_ptr() == first.data_ptr()
        assert scratch("a", 100, 5, LIKE).shape == (100, 5)


def test_names_dtypes_and_threads_have_buffers_of_their_own():
    with reused():
        tensors = [scratch("a", 2, 2, LIKE), scratch("b", 2, 2, LIKE), scratch("a", 2, 2, LIKE.double())]

        def other():
            with reused():
                tensors.append(scratch("a", 2, 2, LIKE))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert tensors[2].dtype == torch.float64
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    assert [tensor.unique().tolist() for tensor in tensors] == [[0], [1], [2], [3]]


def test_outside_the_block_every_tensor_is_new():
    with reused(), reused():
        pass
    one, two = scratch("a", 2, 2, LIKE), scratch("a", 2, 2, LIKE)
    assert one.data_ptr() != two.data_ptr()


def test_a_block_within_a_block_uses_the_same_buffers():
    with reused():
        first = scratch("a", 2, 2, LIKE)
        with reused():
            assert scratch("a", 2, 2, LIKE).data_ptr() == first.data_ptr()
        assert scratch("a", 2, 2, LIKE).data_ptr() == first.data_ptr()


def test_a_thread_may_keep_its_buffers():
    kept = []

    def other():
        keep()
        first = scratch("a", 2, 2, LIKE)
        with reused():
            pass
        keep()
        kept.append(scratch("a", 2, 2, LIKE).data_ptr() == first.data_ptr())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert kept == [True]
