"""The embedded clip, and video files of the user (written here, so no video is stored)."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from fgmp.datasets.video import load_video, photo_clip


@pytest.fixture(scope="module")
def clip():
    return photo_clip(120)


def test_clip_has_grey_values_of_the_size_asked_for(clip):
    assert clip.shape == (120, 240, 320)
    assert clip.dtype == np.float64
    assert clip.min() >= 0 and clip.max() <= 1
    assert clip.std() > 0.1
    assert photo_clip(3, 40, 30).shape == (3, 40, 30)


def test_clip_is_the_same_each_time_and_a_shorter_one_is_its_beginning(clip):
    np.testing.assert_array_equal(photo_clip(7), clip[:7])


def test_background_is_still_and_the_flower_moves(clip):
    swept = np.ptp(clip, axis=0) > 0
    assert 0.3 < swept.mean() < 0.75
    steps = np.linalg.norm(np.diff(clip, axis=0), axis=(1, 2)) / np.linalg.norm(clip[1:], axis=(1, 2))
    assert steps.min() > 0.02
    assert steps.max() < 0.2


def test_no_two_frames_are_the_same_but_frames_to_come_are_like_frames_seen(clip):
    frames = clip.reshape(len(clip), -1)
    squares = np.sum(frames**2, axis=1)
    distances = np.sqrt(np.maximum(squares + squares[:, None] - 2 * frames @ frames.T, 0) / squares)
    np.fill_diagonal(distances, np.inf)
    assert distances.min() > 0.01
    nearest = distances[:80, 80:].min(axis=0)
    assert nearest.max() < 0.07
    assert nearest[1] > 0.03


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """Twelve frames of the clip in a file, without loss, and the grey values they have there."""
    av = pytest.importorskip("av")
    frames = np.round(photo_clip(12, 48, 64) * 255).astype(np.uint8)
    path = tmp_path_factory.mktemp("video") / "clip.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "gray"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="gray")))
        container.mux(stream.encode(None))
    return path, frames / 255


def test_a_file_is_read_in_grey(video):
    path, frames = video
    read = load_video(path)
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, frames)
    np.testing.assert_array_equal(load_video(str(path), n_frames=5), frames[:5])


def test_colour_is_read_as_luma(tmp_path):
    av = pytest.importorskip("av")
    colours = np.zeros((16, 48, 3), np.uint8)
    colours[:, :16], colours[:, 16:32], colours[:, 32:] = (255, 0, 0), (0, 255, 0), (255, 255, 255)
    path = tmp_path / "colours.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 48, 16, "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(colours, format="rgb24")))
        container.mux(stream.encode(None))
    read = load_video(path)
    assert read.shape == (1, 16, 48)
    np.testing.assert_allclose(read[0, 8, [8, 24, 40]], [0.299, 0.587, 1], atol=0.02)


def test_frames_are_resized_on_request(video):
    path, frames = video
    small = load_video(path, height=24, width=32)
    assert small.shape == (12, 24, 32)
    means = frames.reshape(12, 24, 2, 32, 2).mean(axis=(2, 4))
    assert np.abs(small - means).mean() < 0.02
    assert load_video(path, height=24, n_frames=1).shape == (1, 24, 32)
    assert load_video(path, width=32, n_frames=1).shape == (1, 24, 32)
    assert load_video(path, height=30, width=90, n_frames=1).shape == (1, 30, 90)


@pytest.mark.parametrize("content", [bytes(range(256)) * 40, b"", b"not a film", None])
def test_what_is_not_a_video_is_refused(tmp_path, content):
    pytest.importorskip("av")
    path = tmp_path / "clip.avi"
    if content is not None:
        path.write_bytes(content)
    kind, message = (FileNotFoundError, "no such file") if content is None else (ValueError, "expected a video file")
    with pytest.raises(kind, match=f"clip.avi.*{message}"):
        load_video(path)


def test_numbers_that_do_not_fit_are_named(video):
    for change, message in (({"n_frames": 13}, "13; expected at most 12"), ({"height": 2.5}, "2.5; expected an int")):
        with pytest.raises(ValueError, match=f"{next(iter(change))} is {message}"):
            load_video(video[0], **change)


def test_without_pyav_the_message_says_what_to_install(video, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match=r'pip install "fgmp\[video\]"'):
        load_video(video[0])


MOTORWAY = Path(os.environ.get("FGMP_DATA", "."), "motorway.avi")


@pytest.mark.skipif(not MOTORWAY.exists(), reason="FGMP_DATA holds no motorway.avi")
def test_a_real_video():
    pytest.importorskip("av")
    frames = load_video(MOTORWAY)
    assert frames.shape == (748, 240, 320)  # of 750 that it announces: two are marked as the same as before
    assert frames.min() >= 0 and frames.max() <= 1
