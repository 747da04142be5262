"""Whisper's decoder on paged keys and values: tokens and encoder rows -> logits."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from livecap.engine.attention import attend
from livecap.engine.batch import Batch
from livecap.engine.pages import Pages
from livecap.engine.request import Memory
from towers.layers import Linear, MakeLinear, Norm, Weights

PAGE = 32  # positions; a caption has about 90
MEMORY_PAGE = 100  # encoder rows: 2 s


@dataclass(frozen=True, slots=True)
class WhisperLayer:
    """One pre-norm block: self-attention, cross-attention, feed-forward."""

    self_norm: Norm
    qkv: Linear
    self_out: Linear
    cross_norm: Norm
    query: Linear
    cross_kv: Linear  # encoder rows -> keys and values, once a segment
    cross_out: Linear
    feed_norm: Norm
    widen: Linear
    narrow: Linear

    @staticmethod
    def load(weights: Weights, wide: Weights) -> "WhisperLayer":
        """The block under `model.decoder.layers.N.`; `wide` makes maps for many rows at once."""
        own, cross = weights.at("self_attn"), weights.at("encoder_attn")
        return WhisperLayer(
            weights.norm("self_attn_layer_norm"),
            own.linear("q_proj", "k_proj", "v_proj"),
            own.linear("out_proj"),
            weights.norm("encoder_attn_layer_norm"),
            cross.linear("q_proj"),
            wide.at("encoder_attn").linear("k_proj", "v_proj"),
            cross.linear("out_proj"),
            weights.norm("final_layer_norm"),
            weights.linear("fc1"),
            weights.linear("fc2"),
        )


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """How much the page pools hold."""

    sequences: int  # that decode at once
    memories: int  # segments whose encoder rows are held at once


class WhisperDecoder:
    """The decoder and its two pools."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        *,
        heads: int,
        room: PoolSizes,
        make: MakeLinear,
        make_wide: MakeLinear,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        weights = Weights(tensors, "model.decoder.", make)
        wide = Weights(tensors, "model.decoder.", make_wide)
        names = {name.split(".")[3] for name in tensors if name.startswith("model.decoder.layers.")}
        self.layers = [
            WhisperLayer.load(weights.at(f"layers.{n}"), wide.at(f"layers.{n}"))
            for n in range(len(names))
        ]
        self.embedding = tensors["model.decoder.embed_tokens.weight"]  # [vocab, width]
        self.positions = weights.tensor("embed_positions.weight")  # [448, width]
        self.norm = weights.norm("layer_norm")
        self.head = make(tensors.get("proj_out.weight", self.embedding), None)
        self.heads, self.device, self.dtype = heads, device, dtype
        width = self.embedding.shape[1]
        self.limit = len(self.positions)  # most positions of a sequence
        self.pages = self._pool(PAGE, self.limit, room.sequences, width)
        self.memory = self._pool(MEMORY_PAGE, 1500, room.memories, width)

    def _pool(self, size: int, length: int, sequences: int, width: int) -> Pages:
        return Pages(
            layers=len(self.layers),
            heads=self.heads,
            dim=width // self.heads,
            size=size,
            count=-(-length // size) * sequences,
            dtype=self.dtype,
            device=self.device,
        )

    @torch.inference_mode()
    def project_cross_kv(self, rows: Tensor) -> Memory | None:
        """Encoder rows [row, width] -> their keys and values in pages; None if there's no room."""
        table = self.memory.admit(len(rows))
        if table is None:
            return None
        self.memory.grow(table, len(rows))
        slots = torch.tensor(self.memory.slots(table, 0, len(rows)), device=self.device).T
        for number, layer in enumerate(self.layers):
            keys, values = layer.cross_kv(rows).view(len(rows), 2, self.heads, -1).unbind(1)
            self.memory.write(number, slots, keys, values)
        return Memory(table, len(rows))

    def free(self, memory: Memory) -> None:
        """Free its pages."""
        self.memory.release(memory.table)

    def forward(self, batch: Batch) -> Tensor:
        """Store the rows' keys and values; return float32 logits [wanted, vocab]."""
        assert batch.memory is not None
        x = self._embed(batch.tokens, batch.positions)
        for number, layer in enumerate(self.layers):
            rows = len(x)
            qkv = layer.qkv(layer.self_norm(x)).view(rows, 3, self.heads, -1)
            query, key, value = qkv.to(self.dtype).unbind(1)  # [row, head, dim] each
            self.pages.write(number, batch.slots, key, value)
            pages, memory = self.pages, self.memory
            attn_out = attend(query, pages.keys[number], pages.values[number], batch.attention)
            x = x + layer.self_out(attn_out.flatten(1))
            query = layer.query(layer.cross_norm(x)).view(rows, self.heads, -1).to(self.dtype)
            attn_out = attend(query, memory.keys[number], memory.values[number], batch.memory)
            x = x + layer.cross_out(attn_out.flatten(1))
            x = x + layer.narrow(F.gelu(layer.widen(layer.feed_norm(x))))
        return self.head(self.norm(x[batch.wanted])).float()

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.embedding[tokens].float() + self.positions[positions]

    @torch.inference_mode()
    def align(
        self,
        tokens: list[int],
        memory: Memory,
        heads: tuple[tuple[int, int], ...],
        *,
        predict: slice | None = slice(None),
    ) -> tuple[Tensor, Tensor | None]:
        """Forced tokens -> cross-attention scores [head, token, row], logits [token, vocab].

        `heads` are (layer, head): what is scored, before softmax, scaled. `predict`: the tokens
        whose logits are wanted, of what follows each; None: of none. Nothing is stored.
        """
        at = torch.arange(len(tokens), device=self.device)
        x = self._embed(torch.tensor(tokens, device=self.device), at)
        pages = torch.tensor(memory.table.pages, device=self.device)
        scores_value: dict[tuple[int, int], Tensor] = {}
        for number, layer in enumerate(self.layers):
            qkv = layer.qkv(layer.self_norm(x)).view(len(tokens), 3, self.heads, -1)
            query, key, value = qkv.to(self.dtype).permute(1, 2, 0, 3)  # [head, token, dim] each
            attended = F.scaled_dot_product_attention(
                query[None], key[None], value[None], is_causal=True
            )[0]
            x = x + layer.self_out(attended.transpose(0, 1).flatten(1))
            query = layer.query(layer.cross_norm(x)).view(len(tokens), self.heads, -1)
            query = query.to(self.dtype).transpose(0, 1)  # [head, token, dim]
            key, value = (
                side[number][pages].transpose(0, 1).flatten(1, 2)[:, : memory.length]
                for side in (self.memory.keys, self.memory.values)
            )
            scores = (query @ key.mT).float() * query.shape[-1] ** -0.5  # [head, token, row]
            scores_value |= {
                (number, head): scores[head] for layer_, head in heads if layer_ == number
            }
            attended = scores.softmax(-1).to(self.dtype) @ value
            x = x + layer.cross_out(attended.transpose(0, 1).flatten(1))
            x = x + layer.narrow(F.gelu(layer.widen(layer.feed_norm(x))))
        logits = None if predict is None else self.head(self.norm(x[predict])).float()
        return torch.stack([scores_value[head] for head in heads]), logits
