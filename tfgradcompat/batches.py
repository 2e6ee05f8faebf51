"""Interim: many batches (being written)."""


def is_batched(x, batch_size, steps):
    return batch_size is not None or steps is not None
