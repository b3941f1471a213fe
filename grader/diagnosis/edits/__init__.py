"""Search for edits of the text: small ones that make failing calls right, or that explain an access or a store."""
