"""Draw figures as inline SVG, and prepare what they show."""
