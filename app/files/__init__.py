"""Files that go with a message: text, PDFs, pictures."""
