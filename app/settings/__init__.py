"""Settings: their table, where each value comes from, profiles, and what a trusted folder brings."""
