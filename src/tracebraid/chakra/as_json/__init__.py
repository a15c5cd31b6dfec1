"""`.et` files as JSON and back, message by message, so that the same bytes come out."""
