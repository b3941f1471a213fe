"""Sample records for the renderers' tests."""
