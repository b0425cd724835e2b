"""A message's head and body as Flower's records. Both sides use this, so nothing heavy is imported here."""

from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict


def to_records(head: str, body: bytes) -> RecordDict:
    """Records that hold a head and a body. As an array, a large body travels in pieces."""
    records: dict[str, Any] = {"head": ConfigRecord({"json": head})}
    if body:
        records["body"] = ArrayRecord({"payload": Array("uint8", (len(body),), "safetensors", body)})
    return RecordDict(records)


def from_records(records: RecordDict) -> tuple[str, bytes]:
    """The head and the body that records hold. Raises ValueError if they hold anything else."""
    if set(records) - {"head", "body"}:
        raise ValueError(f"it holds {sorted(records)}; expected a head and a body")
    try:
        head = str(records.config_records["head"]["json"])
        return head, records.array_records["body"]["payload"].data if "body" in records else b""
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it holds no head and body: {error!r}") from error
