"""Render pages of HTML: the scorecard, the course, the live page."""
