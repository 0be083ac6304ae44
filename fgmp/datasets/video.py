"""Clips to recover frames of: one made of scikit-learn's two embedded photographs, and any file that FFmpeg reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_count, check_integer, check_path

if TYPE_CHECKING:  # imported where they are used, so that `import fgmp` stays light
    from PIL import Image

__all__ = ["load_video", "photo_clip"]

Grey = NDArray[np.float64]

# Rec. 601, as Pillow and FFmpeg have it.
_LUMA = np.array([0.299, 0.587, 0.114])
# FFmpeg scales to no more; a larger number is a slip.
_LARGEST_SIDE = 16_384
# Four gigabytes as float64; a small file can hold any number of black frames.
_MOST_PIXELS = 2**29
# No multiple of this period is a whole number of frames, so no two frames are the same.
_PERIOD = 10 * np.pi


def photo_clip(n_frames: int = 120, height: int = 240, width: int = 320) -> Grey:
    """Make a clip of a still background that a flower moves across, from scikit-learn's two photographs.

    The flower of "flower.jpg", its soft edge and all 0.3 of the height across, runs a figure of eight before the tower
    of "china.jpg". In frame t = 0, 1, ... its centre is at ::

        x(t) = width  * (0.5 + 0.32 cos(2 pi t / P)),
        y(t) = height * (0.5 + 0.15 sin(4 pi t / P)),    P = 10 pi = 31.4 frames,

    so it comes by the same places again and again and never to the very same one: the frames to come are like the
    frames seen, and none is a copy. The clip is the same each time, and a shorter one is the beginning of a longer one.

    Parameters
    ----------
    n_frames : int, default 120
    height, width : int, default 240 and 320
        Size in pixels, at least 16 each. Photographs are cropped to this shape, not distorted.

    Returns
    -------
    ndarray of float64, shape (n_frames, height, width)
        Grey values in [0, 1].

    Raises
    ------
    ValueError
        Where an argument is not an integer or too small.
    """
    from PIL import Image, ImageOps
    from sklearn.datasets import load_sample_image

    n_frames = check_integer("n_frames", n_frames)
    height, width = check_integer("height", height, at_least=16), check_integer("width", width, at_least=16)
    check_count("n_frames times height times width", n_frames * height * width)
    china = _image(load_sample_image("china.jpg") / 255 @ _LUMA)
    background = _pixels(ImageOps.fit(china, (width, height), Image.Resampling.LANCZOS))
    flower, mask = _flower(round(0.3 * height))
    clip = np.empty((n_frames, height, width))
    for t in range(n_frames):
        angle = 2 * np.pi * t / _PERIOD
        centre = width * (0.5 + 0.32 * np.cos(angle)), height * (0.5 + 0.15 * np.sin(2 * angle))
        cover = _place(mask, centre, width, height)
        clip[t] = background * (1 - cover) + _place(flower, centre, width, height)
    return np.clip(clip, 0, 1, out=clip)


def load_video(
    path: str | os.PathLike[str], *, height: int | None = None, width: int | None = None, n_frames: int | None = None
) -> Grey:
    """Read the frames of a video file in grey, with PyAV (FFmpeg).

    Parameters
    ----------
    path : str or path-like
        Any file that FFmpeg can decode; its first video stream is read.
    height, width : int, optional
        Size in pixels to which frames are scaled, at most 16,384. If only one is given, the other keeps the
        proportions; without either, frames keep their size.
    n_frames : int, optional
        Read only the first `n_frames`; without it, all.

    Returns
    -------
    ndarray of float64, shape (n_frames, height, width)
        Luma in [0, 1]. A video in the limited range of television is stretched to the full one.

    Raises
    ------
    FileNotFoundError
        Where there is no such file.
    ValueError
        Where the file is not a video, is damaged or cut short, has fewer frames than asked for, or a number is not a
        positive integer.
    ImportError
        Where PyAV is missing.
    """
    sizes = {"height": height, "width": width, "n_frames": n_frames}
    height, width, n_frames = (
        None if v is None else check_integer(k, v, at_most=None if k == "n_frames" else _LARGEST_SIDE)
        for k, v in sizes.items()
    )
    name = os.fspath(check_path("path", path, "the path of a video"))
    if not Path(name).exists():
        raise FileNotFoundError(f"path is {name!r}; there is no such file")
    try:
        import av
    except ImportError as error:
        raise ImportError('load_video needs PyAV: pip install "fgmp[video]"') from error
    frames: list[NDArray[np.uint8]] = []
    try:
        with av.open(name) as container:
            cover = av.stream.Disposition.attached_pic
            streams = [stream for stream in container.streams.video if not stream.disposition & cover]
            # FFmpeg would render a text file as a film of its letters.
            if not streams or container.format.name == "tty":
                raise ValueError(f"path is {name!r}, which holds no video; expected a video file")
            last = None
            for frame in container.decode(streams[0]):
                if frame.is_corrupt:
                    raise ValueError(
                        f"path is {name!r}, which is damaged at frame {len(frames)}; expected a whole video"
                    )
                last = frame
                height, width = _size(frame, height, width)
                grey = frame.reformat(width=width, height=height, format="gray").to_ndarray()
                frames.append(np.asarray(grey, dtype=np.uint8))
                if len(frames) * grey.size > _MOST_PIXELS:
                    raise ValueError(
                        f"path is {name!r}, which has more than {_MOST_PIXELS} pixels in {len(frames)} frames of "
                        f"{height} x {width}; expected a smaller height or width, or fewer n_frames"
                    )
                if len(frames) == n_frames:
                    break
            missing = 0.0 if len(frames) == n_frames else _missing(container, streams[0], last, len(frames))
            if missing:
                raise ValueError(
                    f"path is {name!r}, which ends {missing:.2f} seconds before the end that it announces, after "
                    f"{len(frames)} frames; expected a whole video. n_frames reads the beginning"
                )
    except av.error.FFmpegError as error:
        raise ValueError(
            f"path is {name!r}, which cannot be decoded after {len(frames)} frames ({error.strerror}); "
            "expected a video file"
        ) from error
    if not frames:
        raise ValueError(f"path is {name!r}, which holds a video of no frames; expected at least one")
    if n_frames is not None and len(frames) < n_frames:
        raise ValueError(f"n_frames is {n_frames}; expected at most {len(frames)}, the number of frames of {name!r}")
    return np.stack(frames) / 255


def _flower(height: int) -> tuple[Image.Image, Image.Image]:
    """The flower times its mask, and the mask: the largest orange patch of the photograph, blurred at the edge."""
    from PIL import Image
    from scipy.ndimage import binary_fill_holes, find_objects, gaussian_filter, label
    from sklearn.datasets import load_sample_image

    photo = load_sample_image("flower.jpg") / 255
    patches, _ = label(photo[..., 0] - photo[..., 2] > 0.2)
    largest = np.bincount(patches.ravel())[1:].argmax()
    mask = gaussian_filter(binary_fill_holes(patches == largest + 1).astype(float), 3)
    rows, columns = find_objects((mask > 0).astype(int))[0]
    mask, flower = mask[rows, columns], (mask * (photo @ _LUMA))[rows, columns]
    size = round(height * mask.shape[1] / mask.shape[0]), height
    return _image(flower).resize(size, Image.Resampling.LANCZOS), _image(mask).resize(size, Image.Resampling.LANCZOS)


def _place(part: Image.Image, centre: tuple[float, float], width: int, height: int) -> Grey:
    """Put an image on an empty canvas, its centre at a position between the pixels."""
    from PIL import Image

    left, top = centre[0] - part.width / 2, centre[1] - part.height / 2
    move = (1, 0, -left, 0, 1, -top)
    return _pixels(part.transform((width, height), Image.Transform.AFFINE, move, Image.Resampling.BICUBIC))


def _image(pixels: NDArray[Any]) -> Image.Image:
    from PIL import Image

    return Image.fromarray(pixels.astype(np.float32))


def _pixels(image: Image.Image) -> Grey:
    return np.clip(np.asarray(image, dtype=np.float64), 0, 1)


def _missing(container: Any, stream: Any, last: Any, count: int) -> float:
    """Seconds between the last of `count` frames and the end that the file announces; zero where it announces none."""
    rate = stream.average_rate
    if last is None or last.pts is None or not rate:
        return 0.0
    if stream.frames > count:
        announced = stream.frames / rate
    elif "matroska" in container.format.name and container.duration and len(container.streams) == 1:
        announced = container.duration / 1e6
    else:
        return 0.0
    end = (last.pts - (stream.start_time or 0)) * last.time_base + 1 / rate
    missing = float(announced - end)
    return missing if missing > 0.5 / rate else 0.0


def _size(frame: Any, height: int | None, width: int | None) -> tuple[int, int]:
    if height is None and width is None:
        return frame.height, frame.width
    if height is None:
        return max(round(frame.height * (width or 0) / frame.width), 1), width or 0
    return height, width or max(round(frame.width * height / frame.height), 1)
