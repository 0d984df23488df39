"""Measurements of the product beside its peers. Not part of the package; needs the dependency group `bench`."""
