"""The engines behind the seam: in this process, in a child, and without a model."""
