"""Models that leave a federation: written so that plain torch, or the estimator's own library, can use them."""
