"""The embedded clip, video files of the user (written here, so no video is stored), and sensing that is streamed."""

import io
import struct
import tracemalloc

import numpy as np
import pytest
from PIL import Image

import fgmp
from fgmp.datasets import load_video, make_sensing, photo_clip


def test_photo_clip_moves_and_repeats_no_frame():
    """Frames differ, and later ones resemble earlier ones, from which a dictionary is learned."""
    clip = photo_clip(120)
    assert clip.shape == (120, 240, 320)
    assert clip.dtype == np.float64
    assert clip.min() >= 0
    assert clip.max() <= 1
    assert clip.std() > 0.1
    assert photo_clip(3, 40, 30).shape == (3, 40, 30)
    np.testing.assert_array_equal(photo_clip(7), clip[:7])
    swept = np.ptp(clip, axis=0) > 0
    assert 0.3 < swept.mean() < 0.75
    steps = np.linalg.norm(np.diff(clip, axis=0), axis=(1, 2)) / np.linalg.norm(
        clip[1:], axis=(1, 2)
    )
    assert steps.min() > 0.02
    assert steps.max() < 0.2
    frames = clip.reshape(len(clip), -1)
    squares = np.sum(frames**2, axis=1)
    distances = np.sqrt(np.maximum(squares + squares[:, None] - 2 * frames @ frames.T, 0) / squares)
    np.fill_diagonal(distances, np.inf)
    nearest = distances[:80, 80:].min(axis=0)
    assert distances.min() > 0.01
    assert nearest.max() < 0.07
    assert nearest[1] > 0.03


def written(path, frames, format, pix_fmt, codec="ffv1"):
    """A file without loss, but for other codecs."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], pix_fmt
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format=format)))
        container.mux(stream.encode(None))
    return path


def test_video_is_read_in_grey_and_resized(tmp_path):
    """Without loss at its own size, and as means of pixels at another."""
    grey = np.round(photo_clip(12, 48, 64) * 255).astype(np.uint8)
    path = written(tmp_path / "clip.mkv", grey, "gray", "gray")
    frames = grey / 255
    read = load_video(str(path), 5, 48, 64)
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, frames[:5])
    with pytest.raises(ValueError, match="n_frames is 13; expected at most 12"):
        load_video(path, 13, 48, 64)
    small = load_video(path, n_frames=12, height=24, width=32)
    assert small.shape == (12, 24, 32)
    means = frames.reshape(12, 24, 2, 32, 2).mean(axis=(2, 4))
    assert np.abs(small - means).mean() < 0.02
    assert load_video(path, 1, height=30, width=90).shape == (1, 30, 90)


def test_file_that_is_no_video_is_refused(tmp_path):
    """The message has the name of the file."""
    pytest.importorskip("av")
    path = tmp_path / "clip.avi"
    with pytest.raises(FileNotFoundError, match="clip.avi.*no such file"):
        load_video(path, 1, 16, 16)
    for content in (bytes(range(256)) * 40, b"not a film"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="clip.avi.*expected a video file"):
            load_video(path, 1, 16, 16)


def seen_by(matrix, film):
    """An mp4 whose track header has another matrix, from (x, y, 1) to what is seen, and what is read of it."""
    content = film.read_bytes()
    place = (
        content.index(b"tkhd") + 44
    )  # after its name, flags, times, number, duration, layer and volume
    assert struct.unpack(">9i", content[place : place + 36]) == (
        1 << 16,
        0,
        0,
        0,
        1 << 16,
        0,
        0,
        0,
        1 << 30,
    )
    a, b, c, d = (round(value * (1 << 16)) for value in matrix)
    turned = film.with_name("turned.mp4")
    turned.write_bytes(
        content[:place]
        + struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
        + content[place + 36 :]
    )
    return turned


def test_video_is_turned_as_its_header_says(tmp_path):
    """By multiples of a quarter turn."""
    clip = np.round(photo_clip(3, 32, 64) * 255).astype(np.uint8)
    film = written(tmp_path / "film.mp4", clip, "gray", "yuv420p", "mpeg4")
    flat = load_video(film)
    for matrix, expected in (
        (
            (0, 1, -1, 0),
            np.rot90(flat, -1, axes=(1, 2)),
        ),  # x goes down, and y to the left: by the clock
        ((0, -1, 1, 0), np.rot90(flat, 1, axes=(1, 2))),
        ((-1, 0, 0, -1), np.rot90(flat, 2, axes=(1, 2))),
        ((-1, 1e-4, 0, 1), flat[:, :, ::-1]),  # a mirror, but for rounding
        ((1, 0, 0, 1), flat),
    ):
        read = load_video(seen_by(matrix, film))
        np.testing.assert_array_equal(read, expected)
    assert load_video(seen_by((0, 1, -1, 0), film), 2, height=20, width=10).shape == (2, 20, 10)
    with pytest.raises(ValueError, match="turned.mp4.* other angles than quarter turns"):
        load_video(seen_by((0.87, 0.5, -0.5, 0.87), film))


def test_video_that_is_cut_or_changes_size_is_refused(tmp_path):
    """The message has the name of the file and the frame."""
    noise = np.random.default_rng(0).integers(0, 255, (20, 32, 64)).astype(np.uint8)
    path = written(tmp_path / "clip.mkv", noise, "gray", "gray")
    assert len(load_video(path)) == 20  # without a word
    path.write_bytes(path.read_bytes()[: -noise[0].size // 2])
    with pytest.warns(
        fgmp.AdviceWarning, match="clip.mkv.* end after 0.76 s of 0.8 s: it may have been cut short"
    ):
        assert len(load_video(path)) == 19
    assert len(load_video(path, 5)) == 5  # as many as asked for
    film = written(tmp_path / "film.mp4", noise, "gray", "yuv420p", "mpeg4")
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    with pytest.raises(ValueError, match="film.mp4.*expected a (whole )?video file"):
        load_video(film)
    photos = io.BytesIO()
    for size in ((32, 64), (32, 64), (16, 32)):
        Image.fromarray(noise[0, : size[0], : size[1]]).save(photos, "jpeg")
    (tmp_path / "photos.mjpeg").write_bytes(photos.getvalue())
    with pytest.raises(
        ValueError,
        match=r"photos.mjpeg.* frame 2 has shape \(16, 32\), .*\(32, 64\); expected height",
    ):
        load_video(tmp_path / "photos.mjpeg")
    assert load_video(tmp_path / "photos.mjpeg", height=8, width=8).shape == (3, 8, 8)
    for strange in (None, b"clip.mkv", 5):
        with pytest.raises(ValueError, match="path is .*; expected the path of a video file"):
            load_video(strange)


def test_streamed_sensing_at_the_paper_size_needs_megabytes():
    """Fifty stored matrices of 30 x 76,800 would be 922 MB.

    Frames and dictionary are outside the count.
    """
    dictionary = fgmp.Dictionary(np.random.default_rng(0).standard_normal((76_800, 50)))
    signal = dictionary.atoms[:, :5].sum(axis=1)
    tracemalloc.start()
    fed = make_sensing(signal, n_clients=4, n_samples=30, rng=0)
    fgmp.simulate(fgmp.FedGradMP(5, dictionary=dictionary), fed, rounds=2, rng=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
