"""Data in Hugging Face's own datasets, not in something like them."""

from __future__ import annotations

import datasets
import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from PIL import Image
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from potluck import DataError, Federation, Participant
from potluck.ingestion.hugging_face import as_frame, is_hugging_face, is_table, texts_alone
from potluck.ingestion.user_data import read_inputs, read_labelled
from potluck.methods import CoFED, Local

datasets.disable_progress_bars()

TOKENS = Dataset.from_dict({"ids": [[1, 2, 3], [4, 5, 6]], "mask": [[1, 1, 0], [1, 1, 1]], "label": [1, 0]})
NOTES = Dataset.from_dict({"note": ["some pain", "no pain", "much pain"] * 4, "label": ["ill", "well", "ill"] * 4})
TABLE = Dataset.from_dict({"town": ["east", "west"] * 6, "age": list(range(12)), "label": [0, 1] * 6})


def test_which_data_are_hugging_faces():
    assert is_hugging_face(TOKENS)
    assert is_hugging_face(DatasetDict(train=TOKENS))
    assert not any(is_hugging_face(other) for other in (torch.zeros(2), [1, 2], TOKENS.to_pandas(), {"x": 1}))


@pytest.mark.parametrize("preload", [True, False])
def test_columns_of_arrays_are_inputs_with_names(preload):
    given = read_labelled((TOKENS, "label"), "p", preload)
    assert [int(y) for y in given.y] == [1, 0]
    found = given.inputs.at(torch.tensor([1, 0]))
    assert {name: part.tolist() for name, part in found.items()} == {
        "ids": [[4, 5, 6], [1, 2, 3]],
        "mask": [[1, 1, 1], [1, 1, 0]],
    }
    assert (given.inputs.source is None) == preload


def test_one_column_is_the_input_itself_and_another_may_be_weights():
    data = Dataset.from_dict({"x": [[1.0, 2.0], [3.0, 4.0]], "y": ["a", "b"], "w": [1.0, 2.0]})
    given = read_labelled((data, "y", "w"), "p")
    assert given.inputs.x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert list(given.y) == ["a", "b"]
    assert given.inputs.columns["weight"].tolist() == [1.0, 2.0]
    assert read_inputs(data.select_columns("x"), "p").x.tolist() == given.inputs.x.tolist()


def test_a_format_that_its_owner_chose_stays():
    shaped = TOKENS.with_format("torch", columns=["ids", "label"])
    assert read_labelled((shaped, "label"), "p").inputs.x.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("lazy", [True, False])
def test_pictures_have_their_channels_first(lazy):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, 4, 3), dtype=np.uint8)
    column = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    data = Dataset.from_dict({"image": [Image.fromarray(one) for one in pixels], "label": [0, 1]}, features=column)
    found = read_labelled((data, "label"), "p", not lazy).inputs.at(torch.arange(2))
    assert torch.equal(found, torch.from_numpy(pixels).permute(0, 3, 1, 2))


def test_plain_values_are_a_table():
    assert is_table(TABLE)
    assert not is_table(TOKENS)
    assert is_table(TOKENS.add_column("n", [1, 2]), without=["ids", "mask", "label"])
    assert not is_table(DatasetDict(train=TABLE))
    assert not is_table(TABLE.to_iterable_dataset())
    assert as_frame(TABLE.with_format("numpy", columns=["age"])).columns.tolist() == ["age"]
    given = read_labelled((TABLE.remove_columns("town"), "label"), "p")
    assert given.inputs.for_network("p").x[:, 0].tolist() == list(range(12))


def test_texts_alone_are_texts():
    assert texts_alone(as_frame(NOTES.remove_columns("label"))).tolist()[:2] == ["some pain", "no pain"]
    assert texts_alone(as_frame(TABLE)) is not None
    assert texts_alone(as_frame(TABLE.select_columns("age"))).columns.tolist() == ["age"]


def test_texts_and_tables_reach_estimators_and_preprocessing():
    words = Participant("words", make_pipeline(TfidfVectorizer(), LogisticRegression()), (NOTES, "label"))
    other = Participant("net", "mlp", (NOTES, "label"), preprocess=TfidfVectorizer())
    public = NOTES.remove_columns("label")
    history = Federation([words, other], CoFED(), public=public, test=(NOTES, "label")).run(1)
    assert history.rows()[0]["accuracy"] == 1
    assert words.predict(public.select([1])).tolist() == ["well"]
    codes = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    towns = Participant("towns", make_pipeline(codes, LogisticRegression()), (TABLE, "label"))
    assert Federation([towns], Local(), test=(TABLE, "label")).run(1).final.score == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (TOKENS, r"items of Dataset are dicts of ids, mask, label, .* data=\(dataset, 'label'\), or \(dataset, None\)"),
        ((TOKENS, "lable"), r"items of Dataset hold no 'lable'\. Did you mean 'label'"),
        ((NOTES, "lable"), r"there is no column 'lable'\. Did you mean 'label'"),
        ((DatasetDict(train=NOTES, test=NOTES), "label"), "several datasets: train, test; expected one of them"),
        ((TOKENS.to_iterable_dataset(), "label"), "can only be read from its beginning to its end"),
        (
            (TOKENS.add_column("note", ["a", "b"]), "label"),
            r"input 'note': an item of the Dataset holds a str_; expected numbers.*remove_columns",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_the_way_out(data, message):
    with pytest.raises(DataError, match=f"clinic.*{message}"):
        read_labelled(data, "clinic")
