"""GGUF files: found, read and checked before llama.cpp sees them."""
