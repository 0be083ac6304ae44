"""Clips to recover frames of: one made of scikit-learn's two embedded photographs, and any file that FFmpeg reads."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._support.optional import needs
from .._support.validation import check_integer, check_kind
from .._support.warnings import warn_user

if TYPE_CHECKING:
    from PIL import Image

Grey = NDArray[np.float64]

_LUMA = np.array([0.299, 0.587, 0.114])  # Rec. 601, as Pillow and FFmpeg have it
_PERIOD = (
    10 * np.pi
)  # of which no multiple is a whole number of frames, so no two frames are the same


def photo_clip(n_frames: int = 120, height: int = 240, width: int = 320) -> Grey:
    """Make a clip of a still background that a flower moves across, from scikit-learn's two photographs.

    The flower of "flower.jpg", 0.3 of the height across, runs a figure of eight before the tower of "china.jpg". In
    frame t = 0, 1, ... its centre is at x(t) = width (0.5 + 0.32 cos(2 pi t / P)) and y(t) = height (0.5 + 0.15
    sin(4 pi t / P)), with P = 10 pi = 31.4 frames: the frames to come are like the frames seen, and none is a copy.

    Returns an array of shape (n_frames, height, width), grey values in [0, 1]; a shorter clip is the beginning of a
    longer one. Photographs are cropped to the size, at least 16 pixels each way, and not distorted.
    """
    with needs("photo_clip", "scikit-learn", "pillow"):
        from PIL import Image, ImageOps
        from sklearn.datasets import load_sample_image

    n_frames = check_integer("n_frames", n_frames)
    height, width = (
        check_integer("height", height, at_least=16),
        check_integer("width", width, at_least=16),
    )
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
    path: str | os.PathLike[str],
    n_frames: int | None = None,
    height: int | None = None,
    width: int | None = None,
) -> Grey:
    """Read the frames of a video file in grey with PyAV (FFmpeg): the first `n_frames`, or all, scaled to a size.

    The first video stream of any file that FFmpeg decodes, as an array of shape (n_frames, height, width), in pixels of
    the file by default: luma in [0, 1], where a video in the limited range of television is stretched to the full one.
    A clip that says how it is to be turned, as those of phones do, is turned: `height` and `width`
    are what one sees. A file that tells of more time than it has frames for may have been cut
    short, which an AdviceWarning says.
    """
    check_kind("path", path, (str, os.PathLike), "the path of a video file")
    for name, value in (("n_frames", n_frames), ("height", height), ("width", width)):
        if value is not None:
            check_integer(name, value)
    if not Path(path).exists():
        raise FileNotFoundError(f"path is {str(path)!r}; there is no such file")
    with needs("load_video", "av"):
        import av
    frames: list[NDArray[Any]] = []
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            for frame in container.decode(stream):
                if frame.is_corrupt:
                    raise ValueError(
                        f"path is {str(path)!r}, which is damaged at frame {len(frames)}"
                    )
                frames.append(_upright(frame, height, width, str(path)))
                if frames[-1].shape != frames[0].shape:
                    raise ValueError(
                        f"path is {str(path)!r}, whose frame {len(frames) - 1} has shape {frames[-1].shape}, and the "
                        f"first {frames[0].shape}; expected height and width, to which all are scaled"
                    )
                if len(frames) == n_frames:
                    break
            else:
                _say_if_cut_short(stream, frame if frames else None, str(path))
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


def _upright(frame: Any, height: int | None, width: int | None, path: str) -> NDArray[Any]:
    """The luma of a frame as it is to be seen: turned by its display matrix, where there is one."""
    matrix = np.eye(2, dtype=int)
    for side in frame.side_data:
        if side.type.name == "DISPLAYMATRIX":  # its last column and row move and project
            matrix = np.frombuffer(bytes(side), np.int32).reshape(3, 3)[:2, :2]
    is_rounding = np.abs(matrix) < 0.01 * np.abs(matrix).max()
    turns = np.where(is_rounding, 0, np.sign(matrix))
    is_turned = not turns[0, 0]
    if np.count_nonzero(turns) != 2 or bool(turns[1, 1]) == is_turned:
        raise ValueError(
            f"path is {path!r}, a video to be turned by other angles than quarter turns; expected those"
        )
    if is_turned:
        height, width = width, height
    luma: NDArray[Any] = frame.reformat(width=width, height=height, format="gray").to_ndarray()
    if is_turned:
        luma = luma.T
    # A pixel (x, y) is seen at (x, y) @ matrix: each column has the one sign that says where its
    # axis points.
    across, down = turns.sum(axis=0)
    return luma[::down, ::across]


def _say_if_cut_short(stream: Any, last: Any, path: str) -> None:
    """Warn where the last frame ends half a frame or more before the time that the stream tells."""
    if last is None or last.time is None or not stream.average_rate:
        return
    told = None
    if stream.duration is not None:
        told = float(((stream.start_time or 0) + stream.duration) * stream.time_base)
    elif stream.metadata.get("DURATION", "").count(":") == 2:  # in Matroska
        hours, minutes, seconds = map(float, stream.metadata["DURATION"].split(":"))
        told = 3600 * hours + 60 * minutes + seconds
    each = 1 / float(stream.average_rate)
    end = last.time + max(each, float((last.duration or 0) * last.time_base))
    if told is not None and told - end > each / 2:
        warn_user(
            f"path is {path!r}, whose frames end after {end:.3g} s of {told:.3g} s: it may have been cut short"
        )


def _flower(photo: Grey) -> tuple[Grey, Grey]:
    """The flower times its mask, and the mask: the largest orange patch of the photograph, blurred at the edge."""
    from scipy.ndimage import binary_fill_holes, find_objects, gaussian_filter, label

    patches, _ = label(photo[..., 0] - photo[..., 2] > 0.2)
    largest = np.bincount(patches.ravel())[1:].argmax()
    mask = gaussian_filter(binary_fill_holes(patches == largest + 1).astype(float), 3)
    box = find_objects((mask > 0).astype(int))[0]
    return (mask * (photo @ _LUMA))[box], mask[box]


def _image(pixels: Grey) -> "Image.Image":
    from PIL import Image

    return Image.fromarray(pixels.astype(np.float32))


def _pixels(image: "Image.Image") -> Grey:
    return np.clip(np.asarray(image, dtype=np.float64), 0, 1)
