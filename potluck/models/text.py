"""Small models of texts, for token ids: a transformer, and an LSTM over characters.

Each answers for a whole text, or, with ``per_position``, at each of its tokens, as language models do. They are made of
products of matrices, so that engines can stack them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from potluck.core.errors import ModelError, SettingsError
from potluck.models.checks import sizes

InputShape = tuple[int, ...] | Mapping[str, tuple[int, ...]]
"""The shape of one input, or of several by name."""


class Attention(nn.Module):
    """Every position looks at all (or, if causal, at those up to itself), with several heads.

    Args:
        width: how many features a position has.
        heads: how many heads share them.
        causal: whether a position sees nothing of what follows it.
    """

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (part(x).unflatten(-1, (self.heads, -1)) for part in (self.query, self.key, self.value))
        scores = torch.einsum("nqhc,nkhc->nhqk", query, key) / query.shape[-1] ** 0.5
        if self.causal:
            length = x.shape[1]
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        output: Tensor = self.output(torch.einsum("nhqk,nkhc->nqhc", scores.softmax(dim=-1), value).flatten(-2))
        return output


class TransformerBlock(nn.Module):
    """Attention and two linear layers, each normalised beforehand and added to its input.

    Args:
        width: how many features a position has.
        heads: how many heads share them.
        causal: whether a position sees nothing of what follows it.
    """

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.inner, self.gelu, self.outer = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        output: Tensor = x + self.outer(self.gelu(self.inner(self.norm2(x))))
        return output


class Transformer(nn.Module):
    """Token and position embeddings, blocks, a norm, a linear head.

    Args:
        vocabulary: how many tokens there are.
        length: how many tokens a text has at most.
        classes: how many logits it puts out.
        width: how many features a position has.
        heads: how many heads share them.
        layers: how many blocks.
        per_position: whether it answers at each token, seeing none that follows, or for the whole text, from the mean.
    """

    def __init__(
        self, vocabulary: int, length: int, classes: int, width: int, heads: int, layers: int, per_position: bool
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads, per_position) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
        self.per_position = per_position

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        ids = ids.long()
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, mask)
        x = self.norm(x)
        if not self.per_position:
            counts = torch.ones_like(ids, dtype=x.dtype) if mask is None else mask.to(x.dtype)
            x = (x * counts[..., None]).sum(dim=1) / counts.sum(dim=1, keepdim=True).clamp(min=1)
        output: Tensor = self.head(x)
        return output


class Recurrence(nn.Module):
    """A layer of long short-term memory (Hochreiter and Schmidhuber, 1997), its four gates in one product.

    Args:
        inputs: how many features a position has.
        hidden: how many it puts out.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input, self.hidden = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gates, outputs = self.input(x), list[Tensor]()
        state = memory = torch.zeros_like(gates[:, 0, : gates.shape[-1] // 4])
        for position in range(x.shape[1]):
            enter, forget, candidate, leave = (gates[:, position] + self.hidden(state)).chunk(4, dim=-1)
            memory = forget.sigmoid() * memory + enter.sigmoid() * candidate.tanh()
            state = leave.sigmoid() * memory.tanh()
            outputs.append(state)
        return torch.stack(outputs, dim=1)


class CharLSTM(nn.Module):
    """Embeddings of characters, layers of long short-term memory, a linear head.

    Args:
        vocabulary: how many characters there are.
        classes: how many logits it puts out.
        embedding: how many features a character has.
        hidden: how many a layer puts out.
        layers: how many layers.
        per_position: whether it answers at each character, or for the whole text, at its end.
    """

    def __init__(
        self, vocabulary: int, classes: int, embedding: int, hidden: int, layers: int, per_position: bool
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.layers = nn.Sequential(
            *(Recurrence(embedding if number == 0 else hidden, hidden) for number in range(layers))
        )
        self.head = nn.Linear(hidden, classes)
        self.per_position = per_position

    def forward(self, ids: Tensor) -> Tensor:
        x = self.layers(self.embedding(ids.long()))
        output: Tensor = self.head(x if self.per_position else x[:, -1])
        return output


def transformer(
    input_shape: InputShape,
    classes: int,
    vocabulary: int | None = None,
    width: int = 64,
    heads: int = 4,
    layers: int = 2,
    per_position: bool = False,
) -> Transformer:
    """A small transformer for token ids; ``ids`` and, if there is one, a ``mask`` that is 0 where a text is filled up.

    Args:
        input_shape: how many tokens a text has; or a dict of shapes with that of the ``ids``.
        classes: how many logits it puts out.
        vocabulary: how many tokens there are; by default 256, for bytes, or with ``per_position`` as many as
            ``classes``.
        width: how many features a position has; by default 64.
        heads: how many heads share them; by default 4.
        layers: how many blocks; by default 2.
        per_position: whether it answers at each token, seeing none that follows it; by default False, for the whole
            text.
    """
    sizes("width, heads, layers", [width, heads, layers])
    if width % heads:
        raise SettingsError(f"width = {width} cannot be shared by heads = {heads}; expected a multiple of it.")
    known = _vocabulary(vocabulary, classes, per_position)
    return Transformer(known, _length("transformer", input_shape), classes, width, heads, layers, per_position)


def char_lstm(
    input_shape: InputShape,
    classes: int,
    vocabulary: int | None = None,
    embedding: int = 8,
    hidden: int = 256,
    layers: int = 2,
    per_position: bool = False,
) -> CharLSTM:
    """An LSTM over characters; by default of the sizes of McMahan et al. (2017, section 3): 8 features, 2 × 256 units.

    Args:
        input_shape: how many characters a text has.
        classes: how many logits it puts out.
        vocabulary: how many characters there are; by default 256, for bytes, or with ``per_position`` as many as
            ``classes``.
        embedding: how many features a character has; by default 8.
        hidden: how many a layer puts out; by default 256.
        layers: how many layers; by default 2.
        per_position: whether it answers at each character; by default False, at the end of the text.
    """
    sizes("embedding, hidden, layers", [embedding, hidden, layers])
    _length("char_lstm", input_shape)
    return CharLSTM(_vocabulary(vocabulary, classes, per_position), classes, embedding, hidden, layers, per_position)


def _vocabulary(given: int | None, classes: int, per_position: bool) -> int:
    if given is None:
        return classes if per_position else 256
    return sizes("vocabulary", [given])[0]


def _length(model: str, input_shape: InputShape) -> int:
    shape = input_shape.get("ids", ()) if isinstance(input_shape, Mapping) else input_shape
    if len(shape) != 1:
        raise ModelError(f"{model} reads token ids, a row for each text; the inputs have the shape {input_shape}.")
    return int(shape[0])
