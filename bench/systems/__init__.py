"""The systems compared: one file each, which says how that system is set up, fed, run and looked into."""

from importlib import import_module

from bench.system import System

NAMES = ("floor", "xngin", "pgqueuer", "procrastinate", "django-tasks-db")


def load(name: str) -> System:
    module = import_module(f"bench.systems.{'floor' if name == 'floor' else 'with_' + name.replace('-', '_')}")
    system: System = module.SYSTEM
    return system
