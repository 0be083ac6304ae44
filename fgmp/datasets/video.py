"""Clips whose frames are recovered: one made of two embedded photographs, and any video file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.optional import needs
from .._support.validation import check_integer, check_kind
from .._support.warnings import warn_user

if TYPE_CHECKING:
    from PIL import Image

# Grey values in [0, 1].
Grey = NDArray[np.float64]

# The weights of red, green and blue of Rec. 601, as in Pillow and FFmpeg.
_LUMA = np.array([0.299, 0.587, 0.114])
# Frames of one turn of the flower. No multiple is an integer, so no two frames are the same.
_PERIOD = 10 * np.pi
# The height of the flower, as a share of the height of the clip.
_FLOWER_HEIGHT = 0.3


class Flower(NamedTuple):
    """A flower cut out of a photograph: its grey values times the mask, and the mask."""

    grey: Image.Image
    mask: Image.Image


def photo_clip(n_frames: int = 120, height: int = 240, width: int = 320) -> Grey:
    """Make a clip of a flower that moves across a still background.

    The clip is made of scikit-learn's two photographs. The flower of "flower.jpg", 0.3 of the
    height across, runs a figure of eight before the tower of "china.jpg". In frame t = 0, 1, ...
    its centre is at x(t) = width (0.5 + 0.32 cos(2 pi t / P)) and y(t) = height (0.5 + 0.15 sin(4
    pi t / P)), with P = 10 pi = 31.4 frames: later frames are like earlier ones, and none is a
    copy.

    Photographs are cropped to the size and not distorted.

    Parameters
    ----------
    n_frames : int, default 120
        A shorter clip is the beginning of a longer one.
    height, width : int, default 240 and 320
        At least 16 pixels each.

    Returns
    -------
    ndarray, shape (n_frames, height, width)
        Grey values in [0, 1].

    Examples
    --------
    >>> from fgmp import datasets
    >>> clip = datasets.photo_clip(n_frames=2, height=24, width=32)
    >>> clip.shape, bool(clip.min() >= 0), bool(clip.max() <= 1)
    ((2, 24, 32), True, True)
    """
    n_frames = check_integer("n_frames", n_frames)
    height = check_integer("height", height, at_least=16)
    width = check_integer("width", width, at_least=16)
    background, flower = _background_and_flower(height, width)
    clip = np.empty((n_frames, height, width))
    for t in range(n_frames):
        angle = 2 * np.pi * t / _PERIOD
        x = width * (0.5 + 0.32 * np.cos(angle))
        y = height * (0.5 + 0.15 * np.sin(2 * angle))
        grey = _move(flower.grey, height, width, x, y)
        mask = _move(flower.mask, height, width, x, y)
        clip[t] = background * (1 - mask) + grey
    return np.clip(clip, 0, 1, out=clip)


def _background_and_flower(height: int, width: int) -> tuple[Grey, Flower]:
    """Return the background of a clip, and the flower that moves before it."""
    with needs("photo_clip", "scikit-learn", "pillow"):
        from PIL import Image, ImageOps
        from sklearn.datasets import load_sample_image

    china = _to_image(load_sample_image("china.jpg") / 255 @ _LUMA)
    background = _to_pixels(ImageOps.fit(china, (width, height), Image.Resampling.LANCZOS))
    flower = _cut_flower(load_sample_image("flower.jpg") / 255, round(_FLOWER_HEIGHT * height))
    return background, flower


def _move(image: Image.Image, height: int, width: int, x: float, y: float) -> Grey:
    """Return an empty canvas with an image whose centre is at (x, y)."""
    from PIL import Image

    # From a pixel of the canvas to one of the image.
    shift = (1, 0, image.width / 2 - x, 0, 1, image.height / 2 - y)
    canvas_size = (width, height)
    moved = image.transform(canvas_size, Image.Transform.AFFINE, shift, Image.Resampling.BICUBIC)
    return _to_pixels(moved)


def _cut_flower(photo: Grey, height: int) -> Flower:
    """Cut out the largest orange patch of a photograph, blurred at the edge, of a height."""
    from PIL import Image
    from scipy.ndimage import binary_fill_holes, find_objects, gaussian_filter, label

    red = photo[..., 0]
    blue = photo[..., 2]
    patches, _ = label(red - blue > 0.2)
    largest = np.bincount(patches.ravel())[1:].argmax()
    mask = gaussian_filter(binary_fill_holes(patches == largest + 1).astype(float), 3)
    box = find_objects((mask > 0).astype(int))[0]
    cut_height, cut_width = mask[box].shape
    size = (round(height * cut_width / cut_height), height)
    images = [_to_image(part[box]) for part in (mask * (photo @ _LUMA), mask)]
    return Flower(*(image.resize(size, Image.Resampling.LANCZOS) for image in images))


def _to_image(pixels: Grey) -> Image.Image:
    """Return grey values as an image of 32-bit floats."""
    from PIL import Image

    return Image.fromarray(pixels.astype(np.float32))


def _to_pixels(image: Image.Image) -> Grey:
    """Return an image as grey values in [0, 1], to which resampling may have added others."""
    return np.clip(np.asarray(image, dtype=np.float64), 0, 1)


def load_video(
    path: str | os.PathLike[str],
    n_frames: int | None = None,
    height: int | None = None,
    width: int | None = None,
) -> Grey:
    """Read the frames of a video file in grey, with PyAV (FFmpeg).

    The first video stream of any file that FFmpeg decodes is read. A video in the limited range of
    television is stretched to the full one. A clip that says how it is to be turned, as those of
    phones do, is turned.

    Parameters
    ----------
    path : str or path-like
    n_frames : int, optional
        Read this many frames from the start, by default all.
    height, width : int, optional
        Scale the frames to this size, after turning; by default they keep the size of the file.

    Returns
    -------
    ndarray, shape (n_frames, height, width)
        Luma in [0, 1].

    Raises
    ------
    ValueError
        If the file is no video, is damaged, has fewer frames, or has frames of several sizes and no
        size was given.
    FileNotFoundError, ImportError

    Warns
    -----
    AdviceWarning
        If the file tells of more time than it has frames for, because it may have been cut short.

    Examples
    --------
    >>> from fgmp import datasets
    >>> clip = datasets.load_video("my_clip.mp4", n_frames=120, height=240)  # doctest: +SKIP
    >>> clip.shape, clip.min() >= 0, clip.max() <= 1  # doctest: +SKIP
    """
    check_kind("path", path, (str, os.PathLike), "the path of a video file")
    for name, value in (("n_frames", n_frames), ("height", height), ("width", width)):
        if value is not None:
            check_integer(name, value)
    if not Path(path).exists():
        raise FileNotFoundError(f"path is {str(path)!r}; there is no such file")
    with needs("load_video", "av"):
        import av
    try:
        with av.open(str(path)) as container:
            frames = _read_frames(container, n_frames, height, width, str(path))
    except (av.error.FFmpegError, IndexError) as error:
        raise ValueError(f"path is {str(path)!r}; expected a video file ({error})") from error
    if not frames:
        raise ValueError(
            f"path is {str(path)!r}, of which no frame can be read; expected a whole video file"
        )
    if n_frames is not None and len(frames) < n_frames:
        raise ValueError(
            f"n_frames is {n_frames}; expected at most {len(frames)}, the frames of {str(path)!r}"
        )
    return np.stack(frames) / 255


def _read_frames(
    container: Any, n_frames: int | None, height: int | None, width: int | None, path: str
) -> list[NDArray[np.uint8]]:
    """Return the luma of the first `n_frames` frames of a video, or of all."""
    stream = container.streams.video[0]
    frames: list[NDArray[np.uint8]] = []
    frame = None
    for frame in container.decode(stream):
        if frame.is_corrupt:
            raise ValueError(f"path is {path!r}, which is damaged at frame {len(frames)}")
        frames.append(_upright(frame, height, width, path))
        if frames[-1].shape != frames[0].shape:
            raise ValueError(
                f"path is {path!r}, whose frame {len(frames) - 1} has shape {frames[-1].shape}, "
                f"and the first {frames[0].shape}; expected height and width, to which all are "
                "scaled"
            )
        if len(frames) == n_frames:
            return frames
    if frame is not None:
        _warn_if_cut_short(stream, frame, path)
    return frames


def _upright(frame: Any, height: int | None, width: int | None, path: str) -> NDArray[np.uint8]:
    """Return the luma of a frame, turned by its display matrix if it has one.

    A pixel (x, y) is shown at (x, y) @ matrix.
    """
    matrix = _display_matrix(frame)
    is_rounding = np.abs(matrix) < 0.01 * np.abs(matrix).max()
    turn = np.where(is_rounding, 0, np.sign(matrix))
    is_transposed = not turn[0, 0]
    is_quarter_turn = np.count_nonzero(turn) == 2 and bool(turn[1, 1]) != is_transposed
    if not is_quarter_turn:
        raise ValueError(
            f"path is {path!r}, a video to be turned by other angles than quarter turns; expected "
            "those"
        )
    if is_transposed:
        height, width = width, height
    luma = frame.reformat(width=width, height=height, format="gray").to_ndarray()
    if is_transposed:
        luma = luma.T
    # Each column of the matrix has one sign, which says where its axis points.
    sign_x, sign_y = turn.sum(axis=0)
    return luma[::sign_y, ::sign_x]


def _display_matrix(frame: Any) -> NDArray[np.int_]:
    """Return the part of a frame's display matrix that turns, by default the identity."""
    matrix: NDArray[Any] = np.eye(2, dtype=int)
    for side in frame.side_data:
        if side.type.name == "DISPLAYMATRIX":
            # Its last column and row move and project.
            matrix = np.frombuffer(bytes(side), np.int32).reshape(3, 3)[:2, :2]
    return matrix


def _warn_if_cut_short(stream: Any, last_frame: Any, path: str) -> None:
    """Warn if the last frame ends half a frame or more before the time that the stream tells."""
    duration = _duration(stream)
    if duration is None or last_frame.time is None or not stream.average_rate:
        return
    frame_seconds = 1 / float(stream.average_rate)
    last_seconds = float((last_frame.duration or 0) * last_frame.time_base)
    end = last_frame.time + max(frame_seconds, last_seconds)
    if duration - end > frame_seconds / 2:
        warn_user(
            f"path is {path!r}, whose frames end after {end:.3g} s of {duration:.3g} s: it may "
            "have been cut short"
        )


def _duration(stream: Any) -> float | None:
    """Return the time in seconds at which a stream says that it ends, or None."""
    if stream.duration is not None:
        end = (stream.start_time or 0) + stream.duration
        return float(end * stream.time_base)
    matroska_duration = stream.metadata.get("DURATION", "")
    if matroska_duration.count(":") == 2:
        hours, minutes, seconds = map(float, matroska_duration.split(":"))
        return 3600 * hours + 60 * minutes + seconds
    return None
