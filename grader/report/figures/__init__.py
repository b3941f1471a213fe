"""Draws figures as inline SVG, and prepares what they show."""
