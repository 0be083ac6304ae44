"""Federations and signals to work on: synthetic, embedded, and from files of the user."""

from .digits import digits_by_writer
from .downloads import data_folder, fetch
from .heart import HeartDisease, heart_disease
from .synthetic import add_noise, make_conditioned_regression, make_sensing, make_sparse_regression
from .video import load_video, photo_clip

__all__ = [
    "HeartDisease",
    "add_noise",
    "data_folder",
    "digits_by_writer",
    "fetch",
    "heart_disease",
    "load_video",
    "make_conditioned_regression",
    "make_sensing",
    "make_sparse_regression",
    "photo_clip",
]
