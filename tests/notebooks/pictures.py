"""Whether two pictures show the same, seen from afar."""

from __future__ import annotations

import base64
import io

from PIL import Image, ImageChops, ImageStat

SIDE = 48
"""Pixels of a side of the small pictures that are compared."""
MAX_CHANGE = 2.0
"""Mean change of a pixel, of 255, that still counts as the same."""
MAX_STRETCH = 0.05
"""How far the proportions may differ."""


def are_alike(one: str, other: str) -> bool:
    """Whether two PNG files, in base64, show the same: in proportions, and in each part about as dark."""
    pictures = [_picture(each) for each in (one, other)]
    first, second = (picture.width / picture.height for picture in pictures)
    if abs(first / second - 1) > MAX_STRETCH:
        return False
    small = [picture.resize((SIDE, SIDE), Image.Resampling.BOX) for picture in pictures]
    change = ImageStat.Stat(ImageChops.difference(*small)).mean
    return max(change) <= MAX_CHANGE


def _picture(encoded: str) -> Image.Image:
    drawn = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGBA")
    white = Image.new("RGBA", drawn.size, "white")
    return Image.alpha_composite(white, drawn).convert("RGB")
