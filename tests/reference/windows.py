"""Gather and scatter by NumPy: windows of an array at places that another says; for operations.py."""

from functools import cache

import numpy as np
from jax.lax import GatherScatterMode

CHANGED = {"scatter": np.ndarray.__setitem__, "scatter-add": np.add.at, "scatter-mul": np.multiply.at}
CHANGED |= {"scatter-max": np.maximum.at, "scatter-min": np.minimum.at}


def gather(p, of, out, ask):
    """Windows of the first at places that the second says."""
    (x, indices), d = of, p["dimension_numbers"]
    if x.size == 0 or indices.size == 0 or indices.dtype.kind not in "iu":
        return None
    batched = list(zip(d.operand_batching_dims, d.start_indices_batching_dims))
    gone = sorted((*d.collapsed_slice_dims, *d.operand_batching_dims))
    windows = indices.ndim - 1
    fill = p["fill_value"]
    if fill is None and x.dtype.kind == "f":
        fill = np.nan
    back = _back(windows, out.ndim, d.offset_dims)
    places = _places(x.shape, indices.shape, d.start_index_map, p["slice_sizes"], batched, gone, p["mode"])
    turned, is_turned = places.order, places.order != list(range(x.ndim))
    is_back = back == list(range(out.ndim))

    def gathered(x, indices):
        at, is_inside = places(indices)
        found = (x.transpose(turned) if is_turned else x)[at]
        if is_inside is not None:
            if fill is None:
                return ask(x, indices)
            inside = is_inside.reshape(is_inside.shape + (1,) * (found.ndim - windows))
            found = np.where(inside, found, np.asarray(fill, x.dtype))
        return found if is_back else found.transpose(back)

    def taken(x, indices):
        i = indices[..., 0]
        if places.can_drop and i.view(unsigned).max() > most:
            return gathered(x, indices)
        return x.take(i, axis, None, "clip")

    def picked(x, indices):
        at = np.ravel_multi_index(
            tuple(indices[..., k] for k in range(len(gone))), x.shape[: len(gone)], "clip"
        )
        return x.reshape(-1, *x.shape[len(gone) :]).take(at, 0, None, "clip")

    if batched or not gone or list(d.start_index_map) != gone or indices.dtype.kind != "i":
        return gathered
    axis, rest = gone[0], list(range(out.ndim))
    most, unsigned = x.shape[axis] - 1, _unsigned(indices.dtype)
    is_along = list(d.offset_dims) == rest[:axis] + rest[axis + windows :]
    is_whole = all(n == m for i, (n, m) in enumerate(zip(x.shape, p["slice_sizes"])) if i not in gone)
    if not (is_along and is_whole):
        return gathered
    if len(gone) == 1:
        return taken
    return picked if gone == list(range(len(gone))) and not places.can_drop else gathered


@cache
def _unsigned(dtype):
    """In which what is below zero is large."""
    return np.dtype(f"u{dtype.itemsize}")


def _back(windows, ndim, offset):
    """The order of axes that brings those of windows, which are last, to their places."""
    of, first, last = [], iter(range(windows)), iter(range(windows, ndim))
    for i in range(ndim):
        of.append(next(last) if i in offset else next(first))
    return of


def scatter(p, of, change):
    """The first, changed by windows of the last at places that the second says."""
    (x, indices, new), d = of, p["dimension_numbers"]
    if x.size == 0 or new.size == 0:
        return lambda x, indices, new: x
    batched = list(zip(d.operand_batching_dims, d.scatter_indices_batching_dims))
    gone = sorted((*d.inserted_window_dims, *d.operand_batching_dims))
    windows = indices.ndim - 1
    window = [new.shape[i] for i in d.update_window_dims]
    kept = iter(window)
    sizes = [1 if i in gone else next(kept) for i in range(x.ndim)]
    places = _places(x.shape, indices.shape, d.scatter_dims_to_operand_dims, sizes, batched, gone, p["mode"])
    order = [i for i in range(new.ndim) if i not in d.update_window_dims] + list(d.update_window_dims)

    def scattered(x, indices, new):
        at, is_inside = places(indices)
        whole, found = new.transpose(order), np.array(x)
        seen = found.transpose(places.order)
        if is_inside is not None and not windows:
            return x
        if is_inside is not None:
            whole = whole[is_inside]
            at = tuple(_picked(i, is_inside, windows) if isinstance(i, np.ndarray) else i for i in at)
        change(seen, at, whole)
        return found

    return scattered


def _picked(i, is_inside, windows):
    """An index of those windows that are inside; it has an axis for each, or is the same for some."""
    rest = i.shape[windows:]
    return np.broadcast_to(i, is_inside.shape + rest)[is_inside]


class _places:
    """Of every window its entries, an index for each axis; and which windows are inside, None where all are.

    The axes of the array in an order in which those that have places come first.
    """

    def __init__(self, shape, indices, along, sizes, batched, gone, mode):
        self.windows = windows = len(indices) - 1
        self.along = list(along)
        self.most = [shape[i] - sizes[i] for i in self.along]
        self.can_drop = mode == GatherScatterMode.FILL_OR_DROP
        whole = [i for i in range(len(shape)) if i not in gone and i not in self.along]
        loose = [i for i in self.along if i not in gone]  # places of windows that are more than a point
        kept = [i for i in range(len(shape)) if i not in gone]
        if loose:  # an index for every axis: all are broadcast together
            self.order = list(range(len(shape)))
            steps = {
                axis: np.arange(sizes[axis]).reshape([-1 if j == axis else 1 for j in kept]) for axis in kept
            }
        else:
            points = [i for i in range(len(shape)) if i in gone]
            self.order = [*points, *whole]
            steps = {}
        self.steps, self.is_loose, self.wide = steps, bool(loose), len(kept)
        self.fixed = {
            axis: np.arange(indices[of]).reshape([-1 if i == of else 1 for i in range(windows)])
            for axis, of in batched
        }
        self.parts = [slice(0, sizes[i]) for i in whole]

    def __call__(self, indices):
        begin = dict(self.fixed)
        outside = None
        for k, axis in enumerate(self.along):
            i, most = indices[..., k], self.most[k]
            if i.view(_unsigned(i.dtype)).max() > most if i.ndim else not 0 <= i <= most:
                if self.can_drop:
                    out = (i < 0) | (i > most)
                    outside = out if outside is None else outside | out
                i = np.clip(i, 0, most)
            begin[axis] = i
        is_inside = None if outside is None else np.asarray(~outside)
        if not self.is_loose:
            at = (
                *[begin.get(axis, 0) for axis in self.order[: len(self.order) - len(self.parts)]],
                *self.parts,
            )
            return at, is_inside
        at = []
        for axis in self.order:
            step = self.steps.get(axis, 0)
            first = np.asarray(begin.get(axis, 0))
            at.append(first.reshape(first.shape + (1,) * self.wide) + step)
        return tuple(at), is_inside
