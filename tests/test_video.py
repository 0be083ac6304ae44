"""The embedded clip, video files of the user, and streamed sensing.

Video files are written by the tests, so that none is stored.
"""

import io
import struct
import tracemalloc

import numpy as np
import pytest
from PIL import Image

import fgmp
from fgmp.datasets import load_video, make_sensing, photo_clip


@pytest.fixture(scope="module")
def clip():
    """The embedded clip of 120 frames."""
    return photo_clip(120)


def test_photo_clip_has_frames_from_zero_to_one(clip):
    """Its sizes are those asked for, and a shorter clip is its beginning."""
    assert clip.shape == (120, 240, 320)
    assert clip.dtype == np.float64
    assert clip.min() >= 0
    assert clip.max() <= 1
    assert clip.std() > 0.1
    assert photo_clip(3, 40, 30).shape == (3, 40, 30)
    np.testing.assert_array_equal(photo_clip(7), clip[:7])


def test_photo_clip_moves_in_part(clip):
    """Between a third and three quarters of the pixels change, a little in every step."""
    changes = np.ptp(clip, axis=0) > 0
    assert 0.3 < changes.mean() < 0.75
    steps = np.linalg.norm(np.diff(clip, axis=0), axis=(1, 2))
    relative = steps / np.linalg.norm(clip[1:], axis=(1, 2))
    assert relative.min() > 0.02
    assert relative.max() < 0.2


def test_photo_clip_repeats_no_frame_and_later_frames_resemble_earlier_ones(clip):
    """So that a dictionary that is learned from the first 80 frames represents the others."""
    frames = clip.reshape(len(clip), -1)
    squares = np.sum(frames**2, axis=1)
    squared_distances = squares + squares[:, None] - 2 * frames @ frames.T
    distances = np.sqrt(np.maximum(squared_distances, 0) / squares)
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


@pytest.fixture
def grey_video(tmp_path):
    """A file without loss, and its twelve frames."""
    grey = np.round(photo_clip(12, 48, 64) * 255).astype(np.uint8)
    return written(tmp_path / "clip.mkv", grey, "gray", "gray"), grey / 255


def test_video_of_its_own_size_is_read_without_loss(grey_video):
    """The first frames, as numbers from 0 to 1."""
    path, frames = grey_video
    read = load_video(str(path), 5, 48, 64)
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, frames[:5])


def test_video_with_fewer_frames_than_asked_for_is_refused(grey_video):
    """The message says how many there are."""
    path, _ = grey_video
    with pytest.raises(ValueError, match="n_frames is 13; expected at most 12"):
        load_video(path, 13, 48, 64)


def test_video_of_another_size_has_means_of_pixels(grey_video):
    """Half the height and width; other proportions are possible too."""
    path, frames = grey_video
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
    """Write an mp4 whose track header has another matrix, and return its path."""
    content = film.read_bytes()
    # After its name, flags, times, number, duration, layer and volume.
    offset = content.index(b"tkhd") + 44
    assert struct.unpack(">9i", content[offset : offset + 36]) == (
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
        content[:offset]
        + struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
        + content[offset + 36 :]
    )
    return turned


def test_video_is_turned_as_its_header_says(tmp_path):
    """By multiples of a quarter turn."""
    clip = np.round(photo_clip(3, 32, 64) * 255).astype(np.uint8)
    film = written(tmp_path / "film.mp4", clip, "gray", "yuv420p", "mpeg4")
    flat = load_video(film)
    for matrix, expected in (
        # x goes down, and y to the left: clockwise.
        ((0, 1, -1, 0), np.rot90(flat, -1, axes=(1, 2))),
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


@pytest.fixture
def noise():
    """Twenty frames of noise, which cannot be compressed."""
    return np.random.default_rng(0).integers(0, 255, (20, 32, 64)).astype(np.uint8)


def test_video_whose_end_is_cut_warns(tmp_path, noise):
    """A whole file, and a part of the frames that there are, give no warning."""
    path = written(tmp_path / "clip.mkv", noise, "gray", "gray")
    assert len(load_video(path)) == 20
    path.write_bytes(path.read_bytes()[: -noise[0].size // 2])
    words = "clip.mkv.* end after 0.76 s of 0.8 s: it may have been cut short"
    with pytest.warns(fgmp.AdviceWarning, match=words):
        assert len(load_video(path)) == 19
    assert len(load_video(path, 5)) == 5


def test_video_that_is_cut_before_its_index_is_refused(tmp_path, noise):
    """Half an mp4 cannot be read."""
    film = written(tmp_path / "film.mp4", noise, "gray", "yuv420p", "mpeg4")
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    with pytest.raises(ValueError, match="film.mp4.*expected a (whole )?video file"):
        load_video(film)


def test_video_that_changes_its_size_needs_a_size(tmp_path, noise):
    """The message has the frame and both sizes."""
    pytest.importorskip("av")
    photos = io.BytesIO()
    for height, width in ((32, 64), (32, 64), (16, 32)):
        Image.fromarray(noise[0, :height, :width]).save(photos, "jpeg")
    path = tmp_path / "photos.mjpeg"
    path.write_bytes(photos.getvalue())
    words = r"photos.mjpeg.* frame 2 has shape \(16, 32\), .*\(32, 64\); expected height"
    with pytest.raises(ValueError, match=words):
        load_video(path)
    assert load_video(path, height=8, width=8).shape == (3, 8, 8)


@pytest.mark.parametrize("path", [None, b"clip.mkv", 5])
def test_video_at_an_invalid_path_is_refused(path):
    """A path is text, or a Path."""
    with pytest.raises(ValueError, match="path is .*; expected the path of a video file"):
        load_video(path)


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
