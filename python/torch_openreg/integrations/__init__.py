"""Integrations with libraries that have a fixed list of device names. torch_openreg itself does not import them."""
