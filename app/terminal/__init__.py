"""What a terminal can show and is sent: colours, signs, the clipboard, and the guards around it."""
