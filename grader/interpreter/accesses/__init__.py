"""Judge the accesses of one launch: bounds, races, footprints. Pure: it knows no interpreter."""
