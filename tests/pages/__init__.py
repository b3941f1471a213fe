"""Make pages of docs/, and the picture of README.md, from the code, the specifications and the submissions."""
