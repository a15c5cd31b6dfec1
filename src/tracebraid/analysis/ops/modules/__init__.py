"""Time by nn.Module."""
