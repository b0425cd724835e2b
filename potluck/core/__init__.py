"""What everything else builds on: values, errors, settings, randomness, requests. It imports nothing of Potluck's."""
