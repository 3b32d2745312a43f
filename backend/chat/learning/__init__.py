"""What a chat template's renderings show of its format."""
