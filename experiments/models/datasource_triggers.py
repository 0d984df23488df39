"""The trigger that has sessions with a warehouse closed soon after its datasource's config changed, whoever changes it.

Nothing depends on it: a session of an older config is not used again anyway, and is closed before long.
"""

import pgtrigger

from taskqueue.lifecycle import Status

PRUNE_TASK = "maintenance.prune_warehouse_clients"

# A second ahead, so that ten edits in a row are one task. The update that changes nothing locks a task that is already
# there until this edit commits, so that it cannot run before and leave this edit unseen.
_enqueue = pgtrigger.Trigger(
    name="datasources_prune_sessions",
    level=pgtrigger.Row,
    when=pgtrigger.After,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition("OLD.config IS DISTINCT FROM NEW.config"),
    func=f"""
        INSERT INTO tasks (task_type, payload, embargo_until, dedupe_key)
        VALUES ('{PRUNE_TASK}', jsonb_build_object('datasource_id', NEW.id), now() + interval '1 second',
            '{PRUNE_TASK}:' || NEW.id)
        ON CONFLICT (dedupe_key) WHERE status = '{Status.PENDING}' AND dedupe_key IS NOT NULL
            DO UPDATE SET dedupe_key = excluded.dedupe_key;
        RETURN NULL;
    """,  # noqa: S608 - put together from constants of this app
)

DATASOURCE_TRIGGERS = [_enqueue]
