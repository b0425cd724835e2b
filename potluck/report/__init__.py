"""Reports: a comparison (``comparison``) as tables, figures and pages."""
