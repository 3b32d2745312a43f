"""The size of a picture is what Pillow says it is, and no bytes make it fail."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from app.files.image_size import HEAD_BYTES, picture_size

HEADS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X", b"BM", b"")


def saved(size: tuple[int, int], format: str, **options: object) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, (20, 80, 140)).save(data, format, **options)
    return data.getvalue()


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("BMP", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "icc_profile": bytes(70_000)}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"lossless": False}),
        ("WEBP", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),
    ],
)
def test_each_kind_has_its_size(format: str, options: dict[str, object]) -> None:
    assert picture_size(saved((90, 60), format, **options)[:HEAD_BYTES]) == (90, 60)


@pytest.mark.parametrize(("orientation", "size"), [(1, (90, 60)), (3, (90, 60)), (6, (60, 90))])
def test_a_photograph_from_a_camera_on_its_side_stands_upright(
    orientation: int, size: tuple[int, int]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert picture_size(saved((90, 60), "JPEG", exif=exif.tobytes())) == size


@given(st.sampled_from(HEADS), st.binary(max_size=200))
@settings(deadline=None)
def test_bytes_of_any_kind_have_a_size_or_none(head: bytes, rest: bytes) -> None:
    found = picture_size(head + rest)
    assert found is None or min(found) > 0


def test_a_head_that_was_cut_has_none() -> None:
    whole = saved((90, 60), "JPEG")
    assert {picture_size(whole[:end]) for end in range(len(whole))} <= {None, (90, 60)}
