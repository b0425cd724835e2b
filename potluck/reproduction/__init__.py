"""Papers' tables and figures, played again beside what was published."""
