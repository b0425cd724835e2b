"""HeteroFL (Diao, Ding and Tarokh, 2021): narrow networks are the first channels of a wide one."""

from __future__ import annotations

from potluck.methods.width_scaling import WidthScaling


class HeteroFL(WidthScaling):
    """Section 3, equations 1 to 3: each trains the first ⌈r·C⌉ channels of every layer; the mean is over holders.

    A participant brings a network of its rate, e.g. ``resnet18(rate="c", scale=True)``, whose ``scale`` is the paper's
    scaler 1/r. Training normalises by its batch, so BatchNorm's running statistics only matter for answers. The paper's
    static BatchNorm asks participants for them when training is over, and the authors' code runs the global network
    over everyone's data; here they are the mean of those that participants have tracked.

    The global network is reported where the server has one (``model``), and is a participant's of rate 1 otherwise.

    Args:
        weighting: "uniform" (the default), as in the authors' code, or "samples".
        batchnorm: "average" (the default): statistics and affine parameters are averaged over their holders; "local
            statistics": the former stay at home; "local": both do.
        masked_classes: whether logits of classes that a participant has no samples of count as 0 in its loss, and their
            rows of the head are averaged only over who has samples (section 3); by default True.
        model: the whole network, built at the server, by which all start; by default None, for the widest
            participants' weights.
    """
