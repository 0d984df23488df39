"""The rules of experiments for ``taskqueue.reconciliation``, and their repairs."""
