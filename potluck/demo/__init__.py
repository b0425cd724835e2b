"""What `potluck demo` plays and shows."""
