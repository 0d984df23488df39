"""A Django app whose task handlers do what tests need done."""
