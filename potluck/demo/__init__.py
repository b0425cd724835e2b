"""What `potluck demo` runs and shows."""
