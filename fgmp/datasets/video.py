"""Clips to recover frames of: one made of scikit-learn's two embedded photographs, and any file that FFmpeg reads."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ..checks import check_integer

Grey = NDArray[np.float64]

_LUMA = np.array([0.299, 0.587, 0.114])  # Rec. 601, as Pillow and FFmpeg have it
_PERIOD = 10 * np.pi  # of which no multiple is a whole number of frames, so no two frames are the same


def photo_clip(n_frames: int = 120, height: int = 240, width: int = 320) -> Grey:
    """Make a clip of a still background that a flower moves across, from scikit-learn's two photographs.

    The flower of "flower.jpg", 0.3 of the height across, runs a figure of eight before the tower of "china.jpg". In
    frame t = 0, 1, ... its centre is at x(t) = width (0.5 + 0.32 cos(2 pi t / P)) and y(t) = height (0.5 + 0.15
    sin(4 pi t / P)), with P = 10 pi = 31.4 frames: the frames to come are like the frames seen, and none is a copy.

    Returns an array of shape (n_frames, height, width), grey values in [0, 1]; a shorter clip is the beginning of a
    longer one. Photographs are cropped to the size, at least 16 pixels each way, and not distorted.
    """
    from sklearn.datasets import load_sample_image

    n_frames = check_integer("n_frames", n_frames)
    height, width = check_integer("height", height, at_least=16), check_integer("width", width, at_least=16)
    china = _image(load_sample_image("china.jpg") / 255 @ _LUMA)
    background = _pixels(ImageOps.fit(china, (width, height), Image.Resampling.LANCZOS))
    cut = _flower(load_sample_image("flower.jpg") / 255)
    size = round(round(0.3 * height) * cut[0].shape[1] / cut[0].shape[0]), round(0.3 * height)
    flower, mask = (_image(part).resize(size, Image.Resampling.LANCZOS) for part in cut)
    clip = np.empty((n_frames, height, width))
    for t in range(n_frames):
        angle = 2 * np.pi * t / _PERIOD
        x, y = width * (0.5 + 0.32 * np.cos(angle)), height * (0.5 + 0.15 * np.sin(2 * angle))
        # Both on an empty canvas, their centres at a position between the pixels.
        move = (1, 0, size[0] / 2 - x, 0, 1, size[1] / 2 - y)
        how = (width, height), Image.Transform.AFFINE, move, Image.Resampling.BICUBIC
        moved, covered = (_pixels(part.transform(*how)) for part in (flower, mask))
        clip[t] = background * (1 - covered) + moved
    return np.clip(clip, 0, 1, out=clip)


def load_video(
    path: str | os.PathLike[str], n_frames: int | None = None, height: int | None = None, width: int | None = None
) -> Grey:
    """Read the frames of a video file in grey with PyAV (FFmpeg): the first `n_frames`, or all, scaled to a size.

    The first video stream of any file that FFmpeg decodes, as an array of shape (n_frames, height, width), in pixels of
    the file by default: luma in [0, 1], where a video in the limited range of television is stretched to the full one.
    """
    for name, value in (("n_frames", n_frames), ("height", height), ("width", width)):
        if value is not None:
            check_integer(name, value)
    if not Path(path).exists():
        raise FileNotFoundError(f"path is {str(path)!r}; there is no such file")
    try:
        import av
    except ImportError as error:
        raise ImportError('load_video needs PyAV: pip install "fgmp[video]"') from error
    frames: list[NDArray[Any]] = []
    try:
        with av.open(str(path)) as container:
            for frame in container.decode(container.streams.video[0]):
                if frame.is_corrupt:
                    raise ValueError(f"path is {str(path)!r}, which is damaged at frame {len(frames)}")
                frames.append(frame.reformat(width=width, height=height, format="gray").to_ndarray())
                if len(frames) == n_frames:
                    break
    except (av.error.FFmpegError, IndexError) as error:
        raise ValueError(f"path is {str(path)!r}; expected a video file ({error})") from error
    if len(frames) < (n_frames or 1):
        raise ValueError(f"n_frames is {n_frames}; expected at most {len(frames)}, the frames of {str(path)!r}")
    return np.stack(frames) / 255


def _flower(photo: Grey) -> tuple[Grey, Grey]:
    """The flower times its mask, and the mask: the largest orange patch of the photograph, blurred at the edge."""
    from scipy.ndimage import binary_fill_holes, find_objects, gaussian_filter, label

    patches, _ = label(photo[..., 0] - photo[..., 2] > 0.2)
    largest = np.bincount(patches.ravel())[1:].argmax()
    mask = gaussian_filter(binary_fill_holes(patches == largest + 1).astype(float), 3)
    box = find_objects((mask > 0).astype(int))[0]
    return (mask * (photo @ _LUMA))[box], mask[box]


def _image(pixels: Grey) -> Image.Image:
    return Image.fromarray(pixels.astype(np.float32))


def _pixels(image: Image.Image) -> Grey:
    return np.clip(np.asarray(image, dtype=np.float64), 0, 1)
