"""timeout: never finishes loading."""

while True:
    pass
