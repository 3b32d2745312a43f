"""The engine and the sessions of this machine over HTTP, in the shapes of OpenAI's API."""
