"""The parts of the screen beside the transcript. Each shows what it is given and posts what a person does."""
