"""Networks of Hugging Face's transformers with adapters, end to end: built from tiny configurations, random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import potluck
from potluck.methods import FedSALoRA, FlexLoRA
from potluck.models import adapted_layers, lora, save_adapters
from tests.tables import agree

transformers = pytest.importorskip("transformers", reason="needs the extra transformers")

TOKENS, LENGTH = 30, 8
PLAN = potluck.Plan(lr=0.02, batch_size=8, epochs=3)


def bert(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    drop = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(vocab_size=TOKENS, max_position_embeddings=LENGTH, num_labels=2, **sizes, **drop)
    return transformers.BertForSequenceClassification(config).double()


def llama() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=TOKENS, **sizes))


def texts(rows: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Texts of two kinds, each with five tokens of its own; what comes behind a random length is masked."""
    random = np.random.default_rng(seed)
    kinds = random.integers(2, size=rows)
    ids = random.integers(1, 6, size=(rows, LENGTH)) + 5 * kinds[:, None]
    mask = (np.arange(LENGTH) < random.integers(3, LENGTH + 1, size=rows)[:, None]).astype(int)
    return {"input_ids": ids * mask, "attention_mask": mask}, kinds


def federation(engine: str, method: potluck.Method) -> potluck.Federation:
    people = [
        potluck.Participant(f"p{place}", bert(), texts(40, place), plan=PLAN, labels=range(2)) for place in range(3)
    ]
    return potluck.Federation(people, method, test=texts(100, 90), seed=1, engine=engine)


def test_adapters_of_different_rank_learn_on_both_engines():
    """Tensors by name go in, an output object comes out; only adapters and the last layer travel."""
    serial, batched = (
        federation(engine, FlexLoRA(rank=4, ranks={"p0": 2}, targets=["query", "value", "dense"]))
        for engine in ("serial", "batched")
    )
    agree(batched.run(2).rows(), serial.run(2).rows(), 1e-9)
    assert not batched.engine.incidents
    found = adapted_layers(serial.participants["p0"].model)
    assert "bert.encoder.layer.0.attention.self.query" in found
    assert {layer.rank for layer in found.values()} == {2}
    assert serial.history.final.accuracy > 0.8, "a guess has a half"
    whole = sum(entry.numel() * entry.element_size() for entry in bert().state_dict().values())
    assert all(row["bytes_up"] < whole / 2 for row in serial.history.at(2).rows)


@pytest.mark.slow
def test_a_model_that_goes_on_with_texts_learns_with_adapters():
    random = np.random.default_rng(0)

    def counting(rows: int) -> Any:
        return (random.integers(TOKENS, size=(rows, 1)) + np.arange(LENGTH)) % TOKENS

    people = [
        potluck.Participant(
            f"p{place}", llama(), counting(60), plan=PLAN, task=potluck.NextToken(vocabulary=TOKENS), test=counting(30)
        )
        for place in range(2)
    ]
    federation = potluck.Federation(people, FedSALoRA(rank=8, head="average"), seed=1, engine="batched")
    losses = [row["loss"] for row in federation.run(6).rows()]
    assert losses[-1] < 0.8 * losses[0]
    assert not federation.engine.incidents


@pytest.mark.slow
def test_what_was_trained_loads_in_peft(tmp_path):
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    played = federation("serial", FlexLoRA(rank=2, targets=["query", "value"], head="local"))
    played.run(1)
    adapted = played.participants["p0"].model
    assert adapted_layers(adapted)["bert.encoder.layer.0.attention.self.query"].update().abs().max() > 0
    inputs = {name: torch.as_tensor(column) for name, column in texts(5, 7)[0].items()}
    base = bert()
    base.classifier.load_state_dict(adapted.classifier.state_dict())
    loaded = peft.PeftModel.from_pretrained(base, str(save_adapters(adapted, tmp_path))).eval()
    with torch.no_grad():
        torch.testing.assert_close(loaded(**inputs).logits, adapted.eval()(**inputs).logits)


def test_adapters_go_where_peft_would_put_them():
    found = adapted_layers(lora(bert(), 2, targets=["query", "value"]))
    assert list(found) == [f"bert.encoder.layer.0.attention.self.{name}" for name in ("query", "value")]
