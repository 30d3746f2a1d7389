"""Vectors of turns: made for turns that have none yet, kept beside the archive, compared with a question."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnflow.graph.past import Past
from turnflow.nodes.assemble_context.memory.fitting import head_and_tail
from turnflow.nodes.assemble_context.memory.pieces import PIECE_CHARS, pieces
from turnflow.nodes.assemble_context.memory.said import said_in

if TYPE_CHECKING:
    import numpy as np
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

logger = logging.getLogger("turnflow")

MIN_SIMILARITY = 0.25
"""Cosine below which a turn has nothing to do with a question, for models like all-MiniLM-L6-v2."""
BEST_PART = 0.6
"""A turn counts if its cosine is at least this part of the best one's."""
MOST_EMBEDDED = 256
"""Turns that are embedded within one recall; the rest waits for the next ones."""
BATCH = 32
"""Turns that are embedded, and kept, at a time."""

_FLOAT_BYTES = 4
_MODEL_ATTRIBUTES = ("model", "model_name", "model_id", "deployment", "repo_id", "model_path")


def similar_turns(
    embeddings: Embeddings, query: str, record: Past, *, limit: int, min_similarity: float = MIN_SIMILARITY
) -> list[tuple[str, int]]:
    """Key and position of the turns whose meaning is like a question's, best first.

    Turns without vectors are embedded first, the newest before the others. A turn counts as its best piece
    does. One that is far less like the question than the best one is left out: among hundreds there is always
    one that is a little like it.

    Args:
        embeddings: What embeds.
        query: The question; of a long one the head and the tail count.
        record: The turns.
        limit: How many are wanted.
        min_similarity: The least cosine.

    Raises:
        Exception: Whatever the embeddings raise.
        ValueError: They give no vectors, or not one for each text, or of several lengths.
    """
    if not query.strip() or record.before <= 0:
        return []
    asked = _matrix(embeddings.embed_query(head_and_tail(query, PIECE_CHARS)))
    if asked.shape[0] != 1 or not asked.any():
        return []
    size = asked.shape[1]
    model = model_key(embeddings, size)
    kept = _whole(record.vectors(model), size)
    kept |= _embedded(embeddings, record, model, size, {position for position, _ in kept.values()})
    return _best(asked[0], kept, limit, min_similarity)


def model_key(embeddings: Embeddings, size: int) -> str:
    """What vectors are kept under: class, model and length, so that those of another model never mix in."""
    named = (getattr(embeddings, name, None) for name in _MODEL_ATTRIBUTES)
    model = next((name for name in named if isinstance(name, str) and name), "")
    return f"{type(embeddings).__name__}:{model}:{size}"


def _whole(stored: dict[str, tuple[int, bytes]], size: int) -> dict[str, tuple[int, bytes]]:
    """Those that hold one or more vectors of this length."""
    length = size * _FLOAT_BYTES
    return {key: kept for key, kept in stored.items() if kept[1] and len(kept[1]) % length == 0}


def _embedded(
    embeddings: Embeddings, record: Past, model: str, size: int, done: set[int]
) -> dict[str, tuple[int, bytes]]:
    """Vectors of turns that have none yet; each batch is kept at once, so that no work is lost."""
    missing = [position for position in range(record.before) if position not in done]
    if not missing:
        return {}
    infos = [info for info in record.infos(missing[0], missing[-1]) if info["position"] not in done]
    newest = infos[: -MOST_EMBEDDED - 1 : -1]
    if len(infos) > len(newest):
        logger.info(
            "%d turns of %s have no vectors yet; later recalls embed them",
            len(infos) - len(newest),
            record.scope.thread_id,
        )
    made: dict[str, tuple[int, bytes]] = {}
    for start in range(0, len(newest), BATCH):
        keys = [info["key"] for info in newest[start : start + BATCH]]
        made |= _embed_batch(embeddings, record, model, size, keys)
    return made


def _embed_batch(
    embeddings: Embeddings, record: Past, model: str, size: int, keys: Sequence[str]
) -> dict[str, tuple[int, bytes]]:
    turns = record.read(keys)
    texts = [pieces(said_in(turn, record)) for turn in turns]
    flat = [piece for each in texts for piece in each]
    vectors = _matrix(embeddings.embed_documents(flat)) if flat else None
    if vectors is not None and vectors.shape != (len(flat), size):
        raise ValueError(
            f"the embeddings gave {vectors.shape[0]} vectors of {vectors.shape[1]} numbers for {len(flat)} "
            f"texts, and {size} numbers for a question; each text needs a vector of one length"
        )
    made: dict[str, tuple[int, bytes]] = {}
    numbers: dict[str, list[float]] = {}
    at = 0
    for turn, own in zip(turns, texts, strict=True):
        # A turn in which nothing was said gets a vector of zeros, which is like nothing: it is done.
        rows = [0.0] * size if vectors is None or not own else vectors[at : at + len(own)].ravel().tolist()
        at += len(own)
        numbers[turn["key"]] = rows
        made[turn["key"]] = (turn["position"], _bytes(rows))
    record.keep_vectors(model, numbers)
    return made


def _best(
    asked: Matrix, kept: dict[str, tuple[int, bytes]], limit: int, min_similarity: float
) -> list[tuple[str, int]]:
    import numpy as np

    if not kept:
        return []
    size = len(asked)
    keys = list(kept)
    lengths = np.fromiter((len(blob) for _, blob in kept.values()), dtype=np.int64, count=len(kept))
    lengths //= size * _FLOAT_BYTES
    rows = np.frombuffer(b"".join(blob for _, blob in kept.values()), dtype="<f4").reshape(-1, size)
    scores = np.maximum.reduceat(_cosines(rows, asked), np.concatenate(([0], np.cumsum(lengths)[:-1])))
    least = max(min_similarity, BEST_PART * float(scores.max()))
    near = np.flatnonzero((scores >= least) & (scores > 0)).tolist()
    # Rounded, as which of two equal texts is a hair better depends on the processor.
    found = [(-round(float(scores[at]), 5), -kept[keys[at]][0], keys[at]) for at in near]
    return [(key, -position) for _, position, key in sorted(found)[:limit]]


def _cosines(rows: Matrix, asked: Matrix) -> Matrix:
    """The cosines of rows with a unit vector; 0 for a row that points nowhere."""
    import numpy as np

    with np.errstate(all="ignore"):
        cosines = (rows @ asked) / np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(np.nan_to_num(cosines, copy=False, nan=0.0, posinf=0.0, neginf=0.0))


def _matrix(vectors: object) -> Matrix:
    """Vectors as unit rows; one that holds anything but numbers, or no direction, as zeros."""
    import numpy as np

    try:
        rows = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError("the embeddings gave vectors of several lengths, or no numbers") from error
    if rows.ndim != 2 or rows.shape[1] == 0:  # noqa: PLR2004 - rows and columns
        raise ValueError("the embeddings gave no vectors")
    return _unit(rows)


def _unit(rows: NDArray[Any]) -> Matrix:
    import numpy as np

    usable = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0).astype(np.float64)
    largest = np.abs(usable).max(axis=1, keepdims=True, initial=0)
    usable /= np.where(largest > 0, largest, 1)  # so that no square is too large or too small for a float
    norms = np.linalg.norm(usable, axis=1, keepdims=True)
    return np.asarray(usable / np.where(norms > 0, norms, 1), dtype=np.float32)


def _bytes(numbers: Sequence[float]) -> bytes:
    import numpy as np

    return np.asarray(numbers, dtype="<f4").tobytes()
