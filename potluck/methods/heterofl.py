"""HeteroFL (Diao, Ding and Tarokh, 2021): narrow networks are the first channels of a wide one."""

from __future__ import annotations

from typing import Literal

from potluck.methods.width_scaling import WidthScaling


class HeteroFL(WidthScaling):
    """Section 3, equations 1 to 3: each trains the first ⌈r·C⌉ channels of every layer; the mean is over holders.

    A participant brings a network of its rate, e.g. ``resnet18(rate="c", scale=True)``, whose ``scale`` is the paper's
    scaler 1/r. Static BatchNorm: training normalises by its batch, and running statistics are never averaged among
    networks of different width, since narrow ones' features are others. Everybody answers with its own. The paper asks
    for those of the global network when training is over, and the authors' code runs it over everyone's data; here
    participants as wide as it send those that they have tracked, where the server has one.

    The global network is reported where the server has one (``model``), and is a participant's of rate 1 otherwise.

    Args:
        weighting: "uniform" (the default), as in the authors' code, or "samples".
        batchnorm: "local statistics" (the default): statistics stay at home; "average": they are averaged over their
            holders, like affine parameters; "local": both stay.
        masked_classes: whether logits of classes that a participant has no samples of count as 0 in its loss, and their
            rows of the head are averaged only over who has samples (section 3); by default True.
        model: the whole network, built at the server, by which all start; by default None, for the widest
            participants' weights.
    """

    batchnorm: Literal["average", "local", "local statistics"] = "local statistics"
