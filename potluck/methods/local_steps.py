"""How far local steps go: FedNova's ‖a‖ (Wang et al., NeurIPS 2020, section 3.2)."""

from __future__ import annotations

from potluck.core.plan import Plan


def effective_steps(steps: int, plan: Plan) -> float:
    """‖a‖₁ of a training: by how many gradients it has moved, where momentum counts each again and again.

    τ for plain SGD, (τ − ρ(1 − ρ^τ)/(1 − ρ))/(1 − ρ) with momentum ρ that begins anew. For other optimizers the paper
    has none; τ is taken.
    """
    rho = plan.momentum
    return float(steps) if not rho else (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
