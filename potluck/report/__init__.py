"""Reports: what a comparison says (``compared``), shown as tables, pictures and pages."""
