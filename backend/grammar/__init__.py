"""JSON Schema as GBNF, and the check of what no grammar can express."""
