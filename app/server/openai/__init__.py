"""The routes below `/v1` that clients of OpenAI's API call."""
