"""Connections to hosts that someone else named: which addresses may be reached, and one bounded HTTP exchange.

Nothing here knows of tasks, webhooks or settings; callers pass the networks they allow.
"""
