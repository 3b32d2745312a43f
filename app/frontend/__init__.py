"""What the line by line chat and the full screen share, and neither owns."""
