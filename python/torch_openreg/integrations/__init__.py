"""For libraries that ask for a device by a list of names. Nothing here is imported until somebody does."""
