"""When to choose which method, what its server learns of a participant, and what it costs: what is told beside them.

Methods are weighed against each other here, which is why it does not stand in their own files. The page of methods and
``potluck methods`` show it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from potluck.core.history import readable_bytes

COSTS = Path(__file__).with_name("costs.json")
"""What was measured; ``python -m tools.methods_page --measure`` writes it."""


@dataclass(frozen=True)
class Advice:
    """What helps to choose a method.

    Args:
        choose: when to choose it, behind "Choose it".
        learns: what the server gets to know of a participant.
    """

    choose: str
    learns: str


@dataclass(frozen=True)
class Cost:
    """What a method costs a participant, on average over all of them, in the federation that fits it.

    Args:
        family: the family of networks in that federation.
        beside: what participants train beside their own networks.
        weights: bytes of one's own network.
        up: bytes sent in a round.
        down: bytes received in a round.
        joining_up: bytes sent once, when joining.
        joining_down: bytes received once.
        passes: how many samples are trained on in a round, divided by those that one has.
        joining_passes: the same, once.
        readings: how many samples networks are only run on in a round, divided by those that one has.
        server: how many samples the server trains a network of its own on, in a round.
    """

    family: str
    beside: tuple[str, ...]
    weights: int
    up: int
    down: int
    joining_up: int
    joining_down: int
    passes: float
    joining_passes: float
    readings: float
    server: int

    @property
    def of_network(self) -> float:
        """What is sent and received in a round, divided by one's own network."""
        return (self.up + self.down) / self.weights

    @property
    def trained(self) -> str:
        """Passes in words, with what is trained beside one's own network."""
        joining = f" + {self.joining_passes:g}" if self.joining_passes else ""
        return f"{self.passes:g}{joining}{''.join(f', with {name}' for name in self.beside)}"

    def __str__(self) -> str:
        up, down = readable_bytes(self.up), readable_bytes(self.down)
        text = f"{up} up and {down} down in a round, {self.of_network:.3g} of one's network; passes: {self.trained}"
        return text + (f"; the server trains on {self.server:,} samples" if self.server else "")


@cache
def costs() -> dict[str, Cost]:
    """What was measured, by method."""
    measured = json.loads(COSTS.read_text(encoding="utf-8"))
    return {name: Cost(**{**cost, "beside": tuple(cost["beside"])}) for name, cost in measured.items()}


NETWORK = "how many samples it has, and its trained network, from which some of its data can be guessed"
BODY = "how many samples it has, and its trained network but for the last layer"
KEPT = "how many samples it has, and of its trained network what it has kept"
WINDOW = "how many samples it has, its labels, and its trained network, from which some of its data can be guessed"
SCORES = "how it answers each public sample, and its label space; nothing of its network, nothing of single samples"
COMMON = "how many samples it has, and the common model that it has trained; nothing of its own"
FEATURES = "which classes it has, and the mean feature of its samples of each"
HEAD = "how many samples it has, and its trained last layer; nothing of what lies before it"
FILTERS = "the shapes of the convolutions that it shares, and these after training; nothing else of its network"
ADAPTERS = 'how many samples it has, its trained adapters and its last layer; with `base = "sent"` one\'s network, too'

GUIDE: dict[str, dict[str, Advice]] = {
    "Alone": {
        "Local": Advice("in every comparison: whoever does not gain on it should not take part", "nothing"),
    },
    "One network for all": {
        "FedAvg": Advice("first, where all can bring one network and their data are not too unlike", NETWORK),
        "FedProx": Advice("as FedAvg, where all train long on unlike data; μ is one more thing to set", NETWORK),
        "SCAFFOLD": Advice(
            "as FedAvg, where data are unlike and the same ones take part each time; it sends twice as much",
            f"{NETWORK}, and how its gradients differ from the others'",
        ),
        "FedNova": Advice(
            "as FedAvg, where participants take very unequal numbers of steps", f"{NETWORK}, and its number of steps"
        ),
        "MOON": Advice("as FedAvg, for unlike data, where each step may take two more passes forward", NETWORK),
        "FedAdagrad": Advice("as FedAdam, where steps are to become smaller from round to round", NETWORK),
        "FedAdam": Advice(
            "as FedAvg, for many rounds with few participants in each, as with text; its rate must be tuned", NETWORK
        ),
        "FedYogi": Advice("as FedAdam, where updates are now large, now small", NETWORK),
    },
    "One network, of which something is personal": {
        "FedBN": Advice(
            "where inputs look different from site to site, as from other scanners, and the network normalises",
            "how many samples it has, and its trained network but for normalisation layers",
        ),
        "FedPer": Advice("where inputs are alike, and labels or what they mean are not", BODY),
        "FLOP": Advice("as FedPer, where everyone is to count the same, however few samples it has", BODY),
        "FedRep": Advice("as FedPer, where there is time to train the last layer first: most of the work", BODY),
        "Ditto": Advice(
            "for a common model and a personal one, which what others send can only pull so far; it trains twice",
            f"{NETWORK}; that is the common one, the personal one stays",
        ),
        "Hermes": Advice("for weak devices: pruned filters cost neither memory, time nor bytes", KEPT),
        "LotteryFL": Advice("as Hermes, where what is sent is all that has to become less", KEPT),
    },
    "Answers": {
        "FD": Advice("where models are of any kind, trees included, and there are public inputs", SCORES),
        "MHAT": Advice("as FD, where the server can train a network of its own to merge answers", SCORES),
        "FedMD": Advice("as FD, where the public data have labels and are much like one's own", SCORES),
        "CoFED": Advice("where models are of any kind, label spaces overlap only in part, and once is enough", SCORES),
        "FCCL": Advice("as FD, among networks, where public inputs come from elsewhere than one's own", SCORES),
        "FedDistill": Advice(
            "where models are of any kind, and there are no public data; it sends least of all",
            "which classes it has, and its mean answer to its samples of each; nothing of its network",
        ),
        "DraftFed": Advice(
            "for convolutional networks of any depth, where there are public inputs and bytes do not matter",
            f"the number of its convolutions, what some of them make of each public sample, and {SCORES}",
        ),
    },
    "Features, heads, small common models": {
        "FedProto": Advice(
            "where features mean the same to all, as after a common start, and few bytes can be sent", FEATURES
        ),
        "FedTGP": Advice("as FedProto, where classes lie close together", FEATURES),
        "LGFedAvg": Advice("where networks differ, last layers fit, and few bytes can be sent", HEAD),
        "FedSSA": Advice(
            "as LG-FedAvg, where each has some of the classes only",
            "how many samples it has, which classes, and the rows of its trained last layer that belong to them",
        ),
        "FedGH": Advice("as LG-FedAvg, where the server can train", f"how many samples it has, {FEATURES}"),
        "FedGen": Advice(
            "as LG-FedAvg, where the server can train, and classes are missing at some",
            f"{HEAD}; and how many samples of each class it has",
        ),
        "FML": Advice("where own models are to stay secret, and all can train a small common one beside them", COMMON),
        "FedKD": Advice("as FML, where little can be sent", f"{COMMON}; of it, how it changed"),
        "FedMRL": Advice("as FML, where the small model may help to answer, too", COMMON),
        "PFedES": Advice(
            "as FML, where next to nothing can be sent, and time does not matter",
            "how many samples it has, and a small trained extractor, which is put before its own model",
        ),
    },
    "Layers and filters in common": {
        "FedIN": Advice(
            "for networks of one family and several depths, where inner features of some samples may leave",
            f"{NETWORK}; and what its inner layers make of a few of its samples",
        ),
        "PerHeFed": Advice("for convolutional networks of any architecture: each chooses what it shares", FILTERS),
        "HFL": Advice("as PerHeFed, for networks of equal depth and unequal width", FILTERS),
        "InclusiveFL": Advice("for networks of one family and several depths, such as transformers", NETWORK),
        "InCo": Advice("as InclusiveFL, for networks with stages of equal blocks, such as ResNets", NETWORK),
        "HeteroFL": Advice("where weak devices take a narrow part of a wide network", WINDOW),
        "FedRolex": Advice("as HeteroFL, where nobody can hold the whole network that is to be trained", WINDOW),
        "ScaleFL": Advice("as HeteroFL, where networks answer early if they can", WINDOW),
    },
    "The server distils": {
        "FedDF": Advice(
            "for a few architectures, where the server may run everybody's network on public inputs", NETWORK
        ),
        "DENSE": Advice(
            "where one upload is all that there can be, and the result is to be a model at the server",
            f"{NETWORK}; it learns to make inputs that look like them to the networks",
        ),
    },
    "Adapters on a frozen network": {
        "HetLoRA": Advice("where devices differ in memory, and so in the rank of their adapters", ADAPTERS),
        "FlexLoRA": Advice("as HetLoRA, where what adapters add is to be summed, not they themselves", ADAPTERS),
        "FLoRA": Advice("as FlexLoRA, where the sum is to be exact, and everyone can receive all adapters", ADAPTERS),
        "FedSALoRA": Advice(
            "as HetLoRA, where each is to stay personal; it sends half",
            "how many samples it has, and the half of its trained adapters that is called A",
        ),
    },
}
"""For each kind of methods, those of it."""

ADVICE = {name: advice for kind in GUIDE.values() for name, advice in kind.items()}
"""The same by name. ``Describe`` is a study and not among them."""
