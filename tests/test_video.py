"""The embedded clip, video files of the user (written here, so no video is stored), and sensing that is streamed."""

import tracemalloc

import numpy as np
import pytest

import fgmp
from fgmp.datasets import load_video, make_sensing, photo_clip


def test_in_the_clip_a_flower_moves_and_no_two_frames_are_the_same_but_those_to_come_are_like_those_seen():
    clip = photo_clip(120)
    assert clip.shape == (120, 240, 320) and clip.dtype == np.float64
    assert clip.min() >= 0 and clip.max() <= 1 and clip.std() > 0.1
    assert photo_clip(3, 40, 30).shape == (3, 40, 30)
    np.testing.assert_array_equal(photo_clip(7), clip[:7])
    swept = np.ptp(clip, axis=0) > 0
    assert 0.3 < swept.mean() < 0.75
    steps = np.linalg.norm(np.diff(clip, axis=0), axis=(1, 2)) / np.linalg.norm(clip[1:], axis=(1, 2))
    assert steps.min() > 0.02 and steps.max() < 0.2
    frames = clip.reshape(len(clip), -1)
    squares = np.sum(frames**2, axis=1)
    distances = np.sqrt(np.maximum(squares + squares[:, None] - 2 * frames @ frames.T, 0) / squares)
    np.fill_diagonal(distances, np.inf)
    nearest = distances[:80, 80:].min(axis=0)
    assert distances.min() > 0.01 and nearest.max() < 0.07 and nearest[1] > 0.03


def written(path, frames, format, pix_fmt):
    """A file without loss."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], pix_fmt
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format=format)))
        container.mux(stream.encode(None))
    return path


def test_a_file_is_read_in_grey_and_resized(tmp_path):
    grey = np.round(photo_clip(12, 48, 64) * 255).astype(np.uint8)
    path, frames = written(tmp_path / "clip.mkv", grey, "gray", "gray"), grey / 255
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


def test_what_is_not_a_video_is_refused(tmp_path):
    pytest.importorskip("av")
    path = tmp_path / "clip.avi"
    with pytest.raises(FileNotFoundError, match="clip.avi.*no such file"):
        load_video(path, 1, 16, 16)
    for content in (bytes(range(256)) * 40, b"not a film"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="clip.avi.*expected a video file"):
            load_video(path, 1, 16, 16)


def test_streamed_sensing_at_the_papers_size_needs_megabytes():
    """Fifty stored matrices of 30 x 76,800 would be 922 MB; frames and dictionary are outside the count."""
    dictionary = fgmp.Dictionary(np.random.default_rng(0).standard_normal((76_800, 50)))
    signal = dictionary.atoms[:, :5].sum(axis=1)
    tracemalloc.start()
    fed = make_sensing(signal, n_clients=4, n_samples=30, rng=0)
    fgmp.simulate(fgmp.FedGradMP(5, dictionary=dictionary), fed, rounds=2, rng=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
