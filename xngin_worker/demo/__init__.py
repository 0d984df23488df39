"""`./run demo`: the task queue at work on this machine, with parts of its own that no other command knows.

`story` is what is told, `stage` what it needs, `screen` how it looks, `steps` how each part of it is judged.
"""
